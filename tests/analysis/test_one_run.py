"""One run has one answer in each format: findings, operations, idle time, collectives, critical path, memory.

Formats of other tools can't hold all that PyTorch's JSON does (`in_...` of tests/helpers/one_run_perfetto.py and
one_run_tables.py say what, from the sources of the tools). So each is compared with JSON that has lost the same facts:

    trace.json ── held_by ──► run.pt.trace.json    answers
                         └──► run.pftrace, ...     the same answers, and `ktrace diff` finds no change
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import one_run
import one_run_perfetto as perfetto
import one_run_tables as tables
import pytest
from click.testing import CliRunner
from conftest import SAMPLES, SHARED
from nightly import few
from one_run import Event, Run
from one_run import graph_edges as edges

import ktrace
from ktrace.cli import cli
from ktrace.model.batch import DEVICE_KINDS
from ktrace.tables import Cell

FORMS = (".perfetto", ".trace.json", ".parquet", ".jsonl")

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
OTHERS = [
    path
    for pattern in ("kineto/*.json", "nsys/*.sqlite", "rocpd/*.db", "xplane/*.pb", "rpd/*.rpd", "torch-memory/*.pickle")
    for path in sorted(SAMPLES.glob(pattern))
    if path != STEP
]


def answers(path: Path) -> tuple[dict[str, Any], dict[str, list[tuple[Cell, ...]]]]:
    """The findings of an input by their codes, and the rows of its tables that don't name the source."""
    summary = ktrace.summary(path, by=["operation", "critical-path", "collective", "idle", "memory"])
    codes = {one.code: (one.value, one.whole, one.share, one.look) for one in summary.findings}
    groups = {"operation": [(one.key, one.total, one.count) for one in summary.heaviest["operation"]]}
    found = {
        f"{name} {table.name}": [row[1:] for row in table.rows]
        for name, answer in summary.answers.items()
        if name != "collective"
        for table in answer.tables()
    }
    return codes, groups | found


def changes(a: Path, b: Path) -> list[str]:
    """What `ktrace diff` finds changed."""
    found = [one for one in ktrace.diff(a, b).findings if one.code.startswith(("change", "time", "work"))]
    return [f"{one.code} {one.value}" for one in found if one.value]


@pytest.mark.parametrize("path", [STEP, *few(OTHERS, 6)], ids=lambda path: path.name)
def test_our_own_formats_answer_as_the_source_does(path: Path, tmp_path: Path) -> None:
    expected = answers(path)
    for form in FORMS:
        out = tmp_path / f"{path.name.partition('.')[0]}{form}"
        ktrace.convert(path, out)
        found = answers(out)
        assert found[0] == expected[0], form
        assert found[1] == expected[1], form


@pytest.mark.parametrize("form", FORMS)
def test_no_change_between_the_forms_of_one_run(form: str, tmp_path: Path) -> None:
    out = tmp_path / f"run{form}"
    ktrace.convert(STEP, out)
    assert changes(STEP, out) == []


class Form(NamedTuple):
    """A format of another tool: what it holds, its writer and the name of its file; `hip` where it is of AMD's GPUs."""

    held: Callable[[Event], Event | None]
    write: Callable[[Run, Path], Path]
    name: str


_STREAMS = partial(perfetto.rocprofv3, by_queue=False), partial(perfetto.rocprof_sys, by_queue=False)
FOREIGN = {
    "torch_stages": Form(perfetto.in_torch_stages, perfetto.torch_stages, "run.pftrace"),
    "torch_slices": Form(perfetto.in_torch_slices, perfetto.torch_slices, "run.pftrace"),
    "torch_monitor": Form(perfetto.in_torch_stages, one_run.write_monitor, "monitor.pt.trace.json"),
    "rocprofv3_queues": Form(perfetto.in_rocprof_queues, perfetto.rocprofv3, "run.pftrace"),
    "rocprofv3_streams": Form(perfetto.in_rocprof, _STREAMS[0], "run.pftrace"),
    "rocprof_sys_queues": Form(perfetto.in_rocprof_queues, perfetto.rocprof_sys, "run.pftrace"),
    "rocprof_sys_streams": Form(perfetto.in_rocprof, _STREAMS[1], "run.pftrace"),
    "nsys": Form(tables.in_nsys, tables.nsys, "run.sqlite"),
    "rocpd": Form(tables.in_rocpd, tables.rocpd, "run.db"),
    "rocprofv3_json": Form(tables.in_rocpd, tables.rocprofv3_json, "run_results.json"),
}

#: Times in whole us, so that a call begins where another ends: only the order of a file tells which end is whose.
WHOLE_US = ("distributed_info_not_found.json.gz", "event_sync_trace.json.gz")
#: A call outlasts the operator that it began in. Slices of a track can't.
CROSSING = ("base-after-the-events-graph-of-three-kernels.pt.trace.json",)
#: Has ranges that take no time, which are marks in rocprofv3's JSON.
NO_TIME = ("distributed_info_not_found.json.gz",)
#: Of AMD's GPUs, which Nsight Systems doesn't know.
AMD = ("mi250_minitoy_train_ROCm6_2_kineto.json.gz", "gpu_only_trace.json.gz", "sglang_Qwen3-8B_decode.json.gz")
_REAL = SHARED / "corpus/pytorch_kineto"
RUNS = [
    STEP,
    *(
        SAMPLES / "kineto" / f"{name}.json"
        for name in ("collectives-of-two-ranks-rank0", "phases-of-inference.pt.trace")
    ),
    *(SAMPLES / "kineto" / f"{name}.json" for name in ("shapes-of-products-attention-copies", CROSSING[0][:-5])),
    *(_REAL / name for name in ("triton_example.json.gz", "nccl_data.json.gz", *WHOLE_US, *AMD)),
]


def _can_hold(form: str, path: Path) -> bool:
    """Whether the format can hold the run."""
    if path.name in CROSSING:
        return not form.startswith(("rocprofv3_q", "rocprofv3_s", "rocprof_sys"))
    if form == "rocprofv3_json":
        return path.name not in NO_TIME
    return form != "nsys" or path.name not in AMD


PAIRS = [(form, path) for form in FOREIGN for path in RUNS if _can_hold(form, path)]


@pytest.mark.parametrize(("form", "path"), few(PAIRS, 3, by=lambda pair: pair[0]))
def test_formats_of_other_tools_answer_as_the_json_does(form: str, path: Path, tmp_path: Path) -> None:
    if not path.exists():
        pytest.skip("the real traces are not at hand (../shared/corpus)")
    held, write, name = FOREIGN[form]
    run = one_run.held_by(one_run.load(path), held)
    source, other = one_run.write_kineto(run, tmp_path / "run.pt.trace.json"), write(run, tmp_path / name)
    expected, found = answers(source), answers(other)
    assert found[0] == expected[0]
    assert found[1] == expected[1]
    assert changes(source, other) == []


@pytest.mark.parametrize("form", FOREIGN)
def test_every_format_has_the_time_of_the_whole_trace(form: str, tmp_path: Path) -> None:
    """What no format may lose: busy, idle, its cause, exposed communication and copies."""
    held, write, name = FOREIGN[form]
    expected = answers(STEP)[0]
    found = answers(write(one_run.held_by(one_run.load(STEP), held), tmp_path / name))[0]
    for code in ("busy", "idle", "idle.host_late", "idle.launch_overhead", "exposed.communication", "exposed.copies"):
        assert found[code] == expected[code], code


@pytest.mark.parametrize("form", FOREIGN)
def test_what_is_converted_answers_the_same(form: str, tmp_path: Path) -> None:
    """Device work becomes render stages, with the calls that launched it."""
    held, write, name = FOREIGN[form]
    path, out = write(one_run.held_by(one_run.load(STEP), held), tmp_path / name), tmp_path / "out.perfetto"
    ktrace.convert(path, out)
    assert answers(out) == answers(path)


def test_samples_of_the_device_in_torch_s_stages(tmp_path: Path) -> None:
    run = one_run.held_by(one_run.load(STEP), perfetto.in_torch_stages)
    rows = ktrace.read(perfetto.torch_stages(run, tmp_path / "run.pftrace")).to_arrow()["events"].to_pylist()
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["kind"] == "counter":
            assert row["device"] == 0
            found.setdefault(row["name"], []).append(row["value"])
    assert {name: tuple(values) for name, values in found.items()} == perfetto.SAMPLES


def test_edges_of_graphs_are_the_same_links(tmp_path: Path) -> None:
    path = SAMPLES / "kineto/graph-replays-of-rocm.pt.trace.json"
    run = one_run.held_by(one_run.load(path), perfetto.in_torch_stages)
    first = min(one.begin for one in run.work)
    expected = sorted((before.begin - first, before.end - first, after.begin - first) for before, after in edges(run))
    assert expected
    for form in ("torch_stages", "torch_monitor"):
        trace = ktrace.read(FOREIGN[form].write(run, tmp_path / FOREIGN[form].name)).to_arrow()
        times = {row["id"]: row["ts"] for row in trace["events"].to_pylist()}
        start = min(row["ts"] for row in trace["events"].to_pylist() if row["kind"] in DEVICE_KINDS)
        ends: dict[str, dict[str, list[int]]] = {}
        for link in trace["links"].to_pylist():
            if link["link"] == "wait":
                at = times[link["event"]] if link["event"] is not None else link["ts"]
                ends.setdefault(link["key"], {}).setdefault(link["role"], []).append(at - start)
        found = sorted((at, to) for one in ends.values() for at in one["out"] for to in one["in"])
        assert [to for _, to in found] == [to for *_, to in expected], form
        assert all(begin <= at < end for (at, _), (begin, end, _) in zip(found, expected, strict=True)), form


@pytest.mark.parametrize(
    "pair",
    [
        *(("torch_stages", "torch_monitor"), ("torch_stages", "nsys"), ("torch_slices", "nsys")),
        *(("rocpd", "rocprofv3_json"), ("rocprofv3_streams", "rocpd"), ("rocprofv3_queues", "rocprof_sys_streams")),
    ],
    ids=" and ".join,
)
def test_no_change_between_the_formats_of_one_run(pair: tuple[str, str], tmp_path: Path) -> None:
    run = one_run.load(STEP)
    made = []
    for form in pair:
        held, write, name = FOREIGN[form]
        (folder := tmp_path / form).mkdir()
        made.append(write(one_run.held_by(run, held), folder / name))
    assert changes(*made) == []
    gate = CliRunner().invoke(cli, ["diff", *map(str, made), "--fail-over", "1%"])
    assert gate.exit_code == 0, gate.output


@pytest.mark.parametrize("form", ["torch_stages", "torch_slices", "nsys"])
def test_no_change_between_the_json_itself_and_another_format(form: str, tmp_path: Path) -> None:
    held, write, name = FOREIGN[form]
    assert changes(STEP, write(one_run.held_by(one_run.load(STEP), held), tmp_path / name)) == []


#: What the profiler printed or recorded against its own figures, what is cut, what can't be read: name, text, checks.
DOUBTED = (
    (
        "run.txt",
        '==PROF== Connected to process 7 (/app)\n==PROF== Profiling "k" - 0: 0%....100% - 1 pass\n'
        "==ERROR== LaunchFailed\n",
        {"check.profiler_failed"},
    ),
    ("run.csv", "kernel,calls,total_ns\ngemm,2,1000\nsoftmax,1,?\nnorm,4,300\n", {"check.rows_unreadable"}),
    (
        "run.pt.trace.json",
        '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, '
        '"ts": 5, "dur": 7, "args": {"device": 0, "stream": 7, "correlation": 3}}, {"ph": "X", "cat": "ker',
        {"check.input_cut"},
    ),
)


@pytest.mark.parametrize(("name", "text", "checks"), DOUBTED)
@pytest.mark.parametrize("form", FORMS)
def test_what_speaks_against_a_recording_outlasts_conversion(
    form: str, name: str, text: str, checks: set[str], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    expected = ktrace.summary(path)
    assert {one.code for one in expected.checks} == checks
    again = path
    for number in range(2):  # also of what was converted before
        out = tmp_path / f"again{number}{form}"
        if form in (".perfetto", ".trace.json") and name != "run.pt.trace.json":
            pytest.skip("tables have no times")
        ktrace.convert(again, out)
        again = out
        found = ktrace.summary(out)
        assert [one.document() for one in found.checks] == [one.document() for one in expected.checks]
        assert [one.code for one in found.findings] == [one.code for one in expected.findings]


def test_the_second_input_has_doubts_of_its_own(tmp_path: Path) -> None:
    cut = tmp_path / "b.pt.trace.json"
    cut.write_text(DOUBTED[2][1], "utf-8")
    out = tmp_path / "both.perfetto"
    ktrace.merge([cut, STEP], out, align="none")
    catalog = ktrace.read(out).catalog
    facts = catalog[catalog["entity"] == "source"].set_index("source")["facts"]
    assert {name for name, text in facts.items() if '"doubts"' in text} == {"b.pt.trace"}
