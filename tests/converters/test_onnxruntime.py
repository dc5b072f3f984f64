"""ONNX Runtime's profiles: real ones against the module json, and our samples by hand."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.model.json_text import decoded
from ktrace.trace.trace import Trace

MADE = SHARED / "corpus" / "made" / "onnxruntime"
OURS = SAMPLES / "onnxruntime"
REAL = ("ort-1.12.1-branches-parallel", "ort-1.12.1-mlp-seq", "ort-1.31.1-branches-parallel", "ort-1.31.1-mlp-seq")


def rows(trace: Trace, record: str = "events") -> list[dict[str, Any]]:
    """The rows without their nulls."""
    table = trace.to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    return [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]


def kind(event: dict[str, Any]) -> str:
    if event["cat"] == "Session":
        return "range"
    return "op" if event["name"].endswith("_kernel_time") else "sync"


@pytest.mark.parametrize("stem", REAL)
def test_every_event_of_a_real_profile_is_a_row(stem: str) -> None:
    path = MADE / f"{stem}.json"
    if not path.exists():
        pytest.skip("the real file is not at hand (../shared/corpus/made/onnxruntime)")
    events = json.loads(path.read_text())
    trace = ktrace.read(path)
    found = rows(trace)
    assert trace.report.read == len(events)
    assert not trace.report.issues
    ours = Counter((row["kind"], row["name"], row["pid"], row["tid"], row["ts"], row["dur"]) for row in found)
    theirs = Counter(
        (kind(event), event["name"], event["pid"], event["tid"], event["ts"] * 1000, event["dur"] * 1000)
        for event in events
    )
    assert ours == theirs
    nodes = [event for event in events if "provider" in event["args"]]
    assert Counter((row["operation"], row["library"], row["layer"]) for row in found if row["kind"] == "op") == Counter(
        (event["args"]["op_name"], event["args"]["provider"], event["name"].removesuffix("_kernel_time"))
        for event in nodes
    )
    sizes = Counter(json.loads(row.get("args", "{}")).get("output_size") for row in found if row["kind"] == "op")
    assert sizes == Counter(
        int(event["args"]["output_size"]) if "output_size" in event["args"] else None for event in nodes
    )
    facts = json.loads((MADE / f"_facts_{'-'.join(stem.split('-')[:2])}.json").read_text())[f"{stem}.json"]
    assert sum(row["dur"] for row in found) == facts["all_us"] * 1000
    assert sum(row["dur"] for row in found if row["kind"] == "op") == facts["kernel_us"] * 1000
    assert sum(row["name"] == "model_run" for row in found) == facts["runs"]


def test_work_of_cuda() -> None:
    trace = ktrace.read(OURS / "cuda-fences-and-a-quote-in-a-name.json")
    found = rows(trace)
    work = [row for row in found if row["kind"] in ("kernel", "memcpy")]
    assert [(row["name"].split("(")[0], row["device"], row["stream"], row["ts"], row["dur"]) for row in work] == [
        ("MemcpyHostToDevice", 0, 13, 9_020_000, 6_000),
        ("void gemm_tiles<float, 32, ", 0, 13, 9_092_000, 19_000),
        ("void add_bias<float>", 0, 13, 9_113_000, 3_000),
    ]
    copy, gemm, bias = work
    assert (copy["kind"], copy["copy_kind"], "grid_x" in copy) == ("memcpy", "HtoD", False)
    assert json.loads(copy["args"]).keys() == {"op_name", "parent_name"}
    assert [gemm[f"{what}_{axis}"] for what in ("grid", "block") for axis in "xyz"] == [3, 2, 1, 128, 1, 1]
    assert (gemm["layer"], bias["layer"]) == ('/block.1/"up"/Gemm', '/block.1/"up"/Gemm')
    assert not any("tid" in row or "pid" in row for row in work)
    assert Counter(row["kind"] for row in found) == {"range": 4, "sync": 4, "op": 2, "kernel": 2, "memcpy": 1}
    assert trace.report.issues["json-repair"].rows == 5  # three names and two names of parents


def test_work_of_rocm() -> None:
    """Streams are addresses; copies and fills have the names of their calls."""
    trace = ktrace.read(OURS / "rocm-addresses-of-streams-cut-off.json")
    work = {row["name"]: row for row in rows(trace) if "device" in row}
    fill, kernel, copy = (work[name] for name in ("hipMemsetAsync", "igemm_fwd_gtc_nhwc", "hipMemcpyAsync"))
    assert (fill["kind"], fill["track"], fill["bytes"]) == ("memset", "0x55e1a0", 8192)
    assert (kernel["kind"], kernel["track"], kernel["grid_x"], kernel["block_x"]) == ("kernel", "0x55e1a0", 16384, 256)
    assert (copy["kind"], copy["stream"], copy["copy_kind"]) == ("memcpy", 0, "DtoH")
    assert "cut" in trace.report.issues


def test_work_of_webgpu_and_two_sessions_in_one_file() -> None:
    trace = ktrace.read(OURS / "webgpu-loop-two-sessions.json")
    found = rows(trace)
    work = [(row["name"], row["device"], row["ts"], row["dur"]) for row in found if row["kind"] == "kernel"]
    assert work == [("Mul", 0, 4_031_000, 5_000), ("Transpose", 0, 4_036_000, 0)]
    assert [(row["name"], row["tid"]) for row in found if row["kind"] == "api"] == [("submit", 3007)]
    assert Counter(row["name"] for row in found)["session_initialization"] == 2
    inner = next(row for row in found if row.get("operation") == "Mul")
    args = json.loads(inner["args"], parse_float=Decimal)
    assert (inner["layer"], args["mem_in_use_delta"]) == ('body "half"', -256)
    assert args["thread_scheduling_stats"]["sub_threads"]["140038979931999"] == {"num_run": 2, "core": 1}


def test_a_million_events_may_not_be_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.converters.onnxruntime.MOST_EVENTS", 13 - 3)
    report = ktrace.read(OURS / "cuda-fences-and-a-quote-in-a-name.json").report
    assert "at most" in report.issues["cut"].places[0][1]


def test_a_profile_that_was_written_anew_is_recognised(tmp_path: Path) -> None:
    """Other tools load and dump profiles: other blanks, another order of the keys."""
    events = json.loads((OURS / "webgpu-loop-two-sessions.json").read_text().split("\n]\n")[0] + "]")
    path = tmp_path / "anew.json"
    path.write_text(json.dumps(events, sort_keys=True, indent=1))
    assert ktrace.detect(path)[0].format == "onnxruntime"
    assert len(ktrace.read(path).events) == len(events)
