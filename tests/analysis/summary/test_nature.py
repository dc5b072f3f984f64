"""Whose time is added up where there is no device work, and what is said of figures that don't add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, SAMPLES

import ktrace

REPORTS = ROOT.parent / "shared/reports"


def said(path: Path) -> str:
    """All that the summary says: verdict, notes, headings of sources."""
    summary = ktrace.summary(path)
    return "\n".join([*summary.verdict, *summary.notes, *(repr(table.rows) for table in summary.tables()[:1])])


def trace(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(events), "utf-8")
    return path


def _span(name: str, number: int, begin: int, end: int, **more: Any) -> list[dict[str, Any]]:
    about = {"cat": name, "name": f"{number}", "id": f"{number}", "pid": 0, **more}
    return [{**about, "ph": "b", "ts": begin}, {**about, "ph": "e", "ts": end}]


def test_spans_without_a_thread_are_not_of_the_host(tmp_path: Path) -> None:
    events = [one for number in range(1, 5) for one in _span("bert", number, 100 * number, 100 * number + 40 + number)]
    words = said(trace(tmp_path / "run.json", events))
    assert "bert takes the most time of asynchronous spans" in words and "host" not in words


def test_requests_of_a_server_are_not_of_the_host(tmp_path: Path) -> None:
    lines = [{"ktrace": "1.0"}]
    for number in range(3):
        place = {"source": "run", "track": f"request {number}", "timing": "measured", "record": "event"}
        lines.append({**place, "id": 2 * number, "kind": "range", "name": "bert", "ts": number * 100, "dur": 90})
        lines.append({**place, "id": 2 * number + 1, "kind": "range", "name": "queue", "ts": number * 100, "dur": 60})
    path = tmp_path / "run.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    words = said(path)
    assert "queue takes the most time of requests: 66.7%" in words and "host" not in words


@pytest.mark.parametrize("kind", ["range", "api", "op"])
def test_calls_and_operators_are_of_the_host_and_bare_ranges_may_be_of_anything(kind: str, tmp_path: Path) -> None:
    lines = [{"ktrace": "1.0"}]
    row = {"record": "event", "source": "run", "timing": "measured", "pid": 1, "tid": 1, "name": "step"}
    lines += [{**row, "id": at, "kind": kind, "ts": 100 * at, "dur": 50} for at in range(3)]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    assert ("step takes the most host time" in said(path)) is (kind != "range")
    assert ("step takes the most recorded time" in said(path)) is (kind == "range")


@pytest.mark.parametrize(
    ("names", "of"),
    [
        (("block 0", "block 1"), "time of warps"),
        (("Workgroup 3", "wave 12"), "time of warps"),
        (("block 0", "python"), "recorded time"),
        (("blocks of data", "block device"), "recorded time"),
    ],
)
def test_processes_of_blocks_are_inside_kernels(names: tuple[str, str], of: str, tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    for pid, name in enumerate(names):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}})
        events += [{"ph": "X", "name": "mma", "pid": pid, "tid": warp, "ts": 5, "dur": 2 + pid} for warp in range(3)]
    found = said(trace(tmp_path / "run.json", events))
    assert f"mma takes the most {of}" in found and ("ranges inside kernels" in found) is ("warps" in of)


@pytest.mark.parametrize(
    ("heading", "first", "of"),
    [
        ("Action", "fit", "time in the table"),
        ("CPU function", "fit", "host time"),
        ("Action", "cudaLaunchKernel", "host time"),
    ],
)
def test_a_table_that_names_nobody_is_the_table(heading: str, first: str, of: str, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(f"{heading},calls,total_ms\n{first},2,30\nload,1,10\n", "utf-8")
    assert f"{first} takes the most {of}" in said(path)


NCCL = """#   size    count   type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw #wrong
#    (B) (elements)                      (us) (GB/s) (GB/s)          (us) (GB/s) (GB/s)
        2048           512     float     sum      -1     20.0    0.10    0.18       0     19.0    0.11    0.19       0
     4194304       1048576     float     sum      -1    150.0   27.96   48.93       0    160.0   26.21   45.87       0
     8388608       2097152     float     sum      -1    310.0   27.06   47.35       0    320.0   26.21   45.87       0
# Avg bus bandwidth    : 31.3983
"""

AUTOTUNE = """AUTOTUNE mm(512x64, 64x512)
  triton_mm_7 0.0300 ms 100.0% BLOCK_K=32, num_warps=4
  triton_mm_2 0.0450 ms 66.7% BLOCK_K=16, num_warps=4
  mm 0.0600 ms 50.0%
SingleProcess AUTOTUNE benchmarking takes 0.5000 seconds and 1.0000 seconds precompiling
"""

COMPARE = """[------------- norm -------------]
                  |  B=8   |  B=16
1 threads: -----------------------
      eager       |  80.0  |  90.0
      fused       |  20.0  |  30.0

Times are in microseconds (us).
"""

#: What a benchmark printed -> what is said of it.
PRINTED = {
    "bandwidth": (
        NCCL,
        "The bus bandwidth is highest at 4,194,304 bytes out of place, of 3 sizes: 48.9 GB/s; "
        "on average it is 31.4 GB/s.",
    ),
    "bandwidth of small sizes": (
        "\n".join([*NCCL.splitlines()[:3], "# Avg bus bandwidth    : 0.0351", ""]),
        "The bus bandwidth is highest at 2,048 bytes in place: 0.19 GB/s; on average it is 0.035 GB/s.",
    ),
    "choice": (
        AUTOTUNE,
        "triton_mm_7 is the fastest of 3 candidates for mm(512x64, 64x512): 30.0 us, 1.50 times as fast as the next "
        "one, triton_mm_2.",
    ),
    "comparison": (
        COMPARE,
        "norm: fused is the fastest in 2 of 2 columns; eager takes 4.00 times as long for B=8: 80.0 us for 20.0 us.",
    ),
}


@pytest.mark.parametrize("what", PRINTED)
def test_figures_of_a_benchmark_are_one_sentence(what: str, tmp_path: Path) -> None:
    text, sentence = PRINTED[what]
    path = tmp_path / "run.txt"
    path.write_text(text, "utf-8")
    summary = ktrace.summary(path)
    assert summary.verdict == [sentence]
    (found,) = summary.findings
    assert found.code == f"figures.{what.split(maxsplit=1)[0]}"
    ktrace.convert(path, tmp_path / "run.jsonl")
    assert ktrace.summary(tmp_path / "run.jsonl").verdict == [sentence]


def test_one_candidate_is_no_choice_and_metrics_beside_work_are_not_figures(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(
        "AUTOTUNE mm(512x64, 64x512)\n  mm 0.0600 ms 100.0%\nSingleProcess AUTOTUNE takes 0.5 seconds\n", "utf-8"
    )
    assert ktrace.summary(path).verdict == []
    report = ktrace.summary(SAMPLES / "kineto/one-step-of-training.pt.trace.json")
    assert not any(one.code.startswith("figures.") for one in report.findings)


#: Reports in which nothing says "host", or figures are all there is -> what the first sentence says.
REPORTED = {
    "nv/07_requests_as_async.json": "resnet50 takes the most time of asynchronous spans",
    "nv/08_triton_server_trace.json": "compute takes the most time of requests",
    "nv/24_profiler_report.txt": "run_training_epoch takes the most time in the table: 90.0%",
    "nv/24b_action_column.csv": "run takes the most time in the table",
    "other/aie_cycles.json": "KERNEL makes up 100.0% of all cycles",
    "other/nccl_tests.txt": "The bus bandwidth is highest at 1,073,741,824 bytes in place",
    "other/inductor_autotune.log": "triton_mm_3 is the fastest of 3 candidates",
    "other/torch_benchmark_compare.txt": "softmax: dense is the fastest in 2 of 2 columns",
}


@pytest.mark.skipif(not REPORTS.exists(), reason="the reports aren't here")
@pytest.mark.parametrize("name", REPORTED)
def test_what_was_reported(name: str) -> None:
    assert ktrace.summary(REPORTS / name).verdict[0].startswith(REPORTED[name])


def test_ranges_of_warps_are_inside_kernels() -> None:
    summary = ktrace.summary(SAMPLES / "proton" / "cycles-of-the-warps-of-a-kernel-named-kernel.chrome_trace")
    assert summary.nature == "warps"
    assert any("inside kernels" in note for note in summary.notes)


def test_rows_of_a_table_with_times_are_not_of_the_host(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("Name,Start (ms),Duration (ms)\ngemm,1.0,2.0\nsoftmax,4.0,0.5\nrelu,5.0,0.25\n")
    assert "of the host" not in said(path)
    assert ktrace.summary(path).tools == []


def test_a_library_is_no_call_of_the_host(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    for name, is_host in (("hipBLASLt GEMM", False), ("cuDNN conv", False), ("hipMemcpyAsync", True)):
        path.write_text(f"| | calls | total ms |\n|---|---|---|\n| {name} | 10 | 12.5 |\n| norm | 20 | 2.5 |\n")
        assert ("host time" in said(path)) is is_host


_STATES = """<?xml version="1.0"?>
<trace-query-result><node xpath="//"><schema name="SwiftTaskStateTable">
<col><mnemonic>start</mnemonic><name>Start</name><engineering-type>start-time</engineering-type></col>
<col><mnemonic>duration</mnemonic><name>Duration</name><engineering-type>duration</engineering-type></col>
<col><mnemonic>name</mnemonic><name>Name</name><engineering-type>string</engineering-type></col>
<col><mnemonic>thread</mnemonic><name>Thread</name><engineering-type>thread</engineering-type></col></schema>
<row><start-time id="1" fmt="0">100</start-time><duration id="2" fmt="1">900</duration>
<string id="3" fmt="Suspended">Suspended</string>
<thread id="7" fmt="Main 0x1 (app, pid: 5)"><tid id="8" fmt="0x1">1</tid>
<process id="9" fmt="app (5)"><pid id="10" fmt="5">5</pid></process></thread></row>
<row><start-time id="4" fmt="0">1000</start-time><duration id="5" fmt="1">100</duration>
<string id="6" fmt="Running">Running</string><thread ref="7"/></row>
</node></trace-query-result>
"""


def test_states_of_instruments_are_not_the_hosts_time(tmp_path: Path) -> None:
    """A task that is suspended takes no time of the host."""
    path = tmp_path / "states.xml"
    path.write_text(_STATES, "utf-8")
    words = said(path)
    assert "Suspended takes the most recorded time: 90.0%" in words and "host time" not in words


def test_collectives_of_a_flight_recorder_are_not_the_hosts_time(tmp_path: Path) -> None:
    dump = json.loads((SAMPLES / "nccl-flight-recorder/zeros-for-unknown-times_rank_2.json").read_text())
    for entry in dump["entries"]:
        entry.pop("duration_ms", None)
    (tmp_path / "trace_rank_2.json").write_text(json.dumps(dump))
    words = said(tmp_path / "trace_rank_2.json")
    assert "takes the most time of collectives" in words and "host" not in words
