"""rpd2tracing's JSON against the module json; its sample is synthetic."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.input.detection import detect
from ktrace.model.json_text import decoded
from ktrace.trace.trace import Trace

REAL = SHARED / "corpus" / "rpd" / "matmul_result.json"
SAMPLE = SAMPLES / "rpd2tracing" / "two-gpus-a-barrier-and-no-end.json"


def rows(trace: Trace, record: str = "events") -> list[dict[str, Any]]:
    """The rows without their nulls."""
    table = trace.to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    return [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]


@pytest.fixture
def real() -> Path:
    if not REAL.exists():
        pytest.skip("the real file is not at hand (../shared/corpus/rpd)")
    return REAL


def test_slices_and_counters_are_those_of_the_json_module(real: Path) -> None:
    events = json.loads(real.read_text())
    found = rows(ktrace.read(real))
    ours = Counter(
        (row["name"], row.get("device", row.get("pid")), row.get("stream", row.get("tid")), row["ts"], row["dur"])
        for row in found
        if row["kind"] != "counter"
    )
    theirs = Counter(
        (event["name"], int(event["pid"]), int(event["tid"]), int(event["ts"]) * 1000, int(event["dur"]) * 1000)
        for event in events
        if event.get("ph") == "X"
    )
    assert ours == theirs
    series = [row for row in found if row["kind"] == "counter" and row.get("device") == 2]
    values = Counter((row["device"], row["ts"], row["value"]) for row in series)
    counted = [event for event in events if event.get("ph") == "C" and event["pid"] == "2"]
    assert values == Counter(
        (2, int(event["ts"]) * 1000, float(value)) for event in counted for value in event["args"].values()
    )


def test_numbers_in_quotes_are_no_damage(real: Path, tmp_path: Path) -> None:
    """rpd2tracing writes them so; in Chrome's own JSON they are a repair."""
    report = ktrace.convert(real, tmp_path / "out.jsonl", strict=True)
    assert "text-number" not in report.issues
    plain = tmp_path / "plain.json"
    plain.write_text('[{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": "5", "dur": "2"}]')
    assert ktrace.read(plain).report.issues["text-number"].rows == 2


def test_every_launch_is_an_arrow(real: Path, tmp_path: Path) -> None:
    """85 flows: each begin is on a call, each end on the work that begins there."""
    trace = ktrace.read(real)
    kinds = ("kernel", "memcpy", "memset")
    work = {(row["device"], row["stream"], row["ts"]) for row in rows(trace) if row["kind"] in kinds}
    ends = [row for row in rows(trace, "links") if row["role"] == "in"]
    assert len(ends) == 85
    assert {(row["device"], row["stream"], row["ts"]) for row in ends} <= work
    report = ktrace.convert(real, tmp_path / "a.perfetto")
    assert "unbound-link" not in report.issues


def test_the_sample() -> None:
    trace = ktrace.read(SAMPLE)
    found = [(row["kind"], row["name"], row.get("device"), row.get("stream"), row.get("tid")) for row in rows(trace)]
    assert set(found) == {
        ("memcpy", "CopyHostToDevice", 2, 0, None),
        ("kernel", "void scale<float>(float*, int) [clone .kd]", 2, 1, None),
        ("memset", "FillBuffer", 3, 0, None),
        ("sync", "Barrier", 2, 1, None),
        ("range", "UserMarker", None, None, 701),
        ("api", "hipMemcpy", None, None, 701),
        ("api", "hipLaunchKernel", None, None, 701),
        ("counter", "Idle idle", 2, None, None),
        ("counter", "QueueDepth depth", 2, None, None),
        ("counter", "sclk", 3, None, None),
    }
    calls = [(row["ts"], row["dur"], json.loads(row["args"])) for row in rows(trace) if row.get("tid") == 701]
    assert sorted(calls, key=lambda call: call[0])[:2] == [
        (8_306_017_000_050_000, 400_000, {"desc": 'forward "1"'}),
        (8_306_017_000_090_000, 40_000, {"desc": "size=0x1000"}),
    ]
    facts = [(row["entity"], row.get("device"), row.get("name")) for row in rows(trace, "catalog")]
    assert ("device", 2, "GPU2") in facts
    assert "cut" in trace.report.issues


def test_the_json_of_rocm_trace_lite() -> None:
    """By rtl convert; the times are the text's, in ns."""
    path = SAMPLES / "rpd2tracing" / "rtl-with-a-marker-among-the-gpus.json"
    stated = [
        (event["name"], round(event["ts"] * 1000), round(event["dur"] * 1000))
        for event in json.loads(path.read_text())["traceEvents"]
        if event["ph"] == "X"
    ]
    trace = ktrace.read(path)
    found = rows(trace)
    assert sorted((row["name"], row["ts"], row["dur"]) for row in found) == sorted(stated)
    assert {row["name"]: (row["kind"], row.get("device"), row.get("stream"), row.get("pid")) for row in found} == {
        "step 1": ("range", None, None, 0),
        "Cijk_Ailk": ("kernel", 0, 0, None),
        "fill": ("kernel", 1, 1, None),
        "CopyDeviceToDevice:4096": ("memcpy", 1, 1, None),
        "hipLaunchKernel": ("api", None, None, 1_004_242),
    }
    match = detect(path)[0]
    assert match.format == "rpd2tracing"


@pytest.mark.parametrize(("old", "new"), [('"GPU 0"', '"CPU 0"'), ('"full_name"', '"whole_name"')])
def test_other_objects_are_not_of_rocm_trace_lite(tmp_path: Path, old: str, new: str) -> None:
    text = (SAMPLES / "rpd2tracing" / "rtl-with-a-marker-among-the-gpus.json").read_text()
    path = tmp_path / "a.json"
    path.write_text(text.replace(old, new))
    assert detect(path)[0].format == "chrome"


def test_ends_of_launches_are_the_slices_around_them(tmp_path: Path) -> None:
    """Arrows have times of their own: the innermost call, the work, or nothing."""
    events = [
        {"name": "process_name", "ph": "M", "pid": "2", "args": {"name": "GPU2"}},
        *(
            {"pid": pid, "tid": tid, "name": name, "ts": str(ts), "dur": str(dur), "ph": "X", "args": {"desc": desc}}
            for pid, tid, name, ts, dur, desc in (
                ("77", "78", "UserMarker", 0, 900, "step"),
                ("77", "78", "hipLaunchKernel", 10, 5, ""),
                ("2", "0", "add", 20, 30, "KernelExecution"),
                ("77", "78", "hipLaunchKernel", 500, 5, ""),
                ("2", "0", "add", 520, 30, "KernelExecution"),
            )
        ),
    ]
    for number, (out, into) in enumerate(((12, 20), (500, 520), (400, 990)), 1):
        flow = {"cat": "api_op", "name": "api_op", "id": str(number)}
        events += [{"pid": "77", "tid": "78", "ts": str(out), "ph": "s", **flow}]
        events += [{"pid": "2", "tid": "0", "ts": str(into), "ph": "f", "bp": "e", **flow}]
    path = tmp_path / "run.json"
    path.write_text("[ {}\n," + "\n,".join(map(json.dumps, events)) + "]\n")
    trace = ktrace.read(path, "rpd2tracing").to_arrow()
    rows = {row["id"]: (row["name"], row["ts"]) for row in trace["events"].to_pylist()}
    found = [(row["role"], rows.get(row["event"]), row["bind"]) for row in trace["links"].to_pylist()]
    assert found == [
        ("out", ("hipLaunchKernel", 10_000), None),
        ("in", ("add", 20_000), None),
        ("out", ("hipLaunchKernel", 500_000), None),
        ("in", ("add", 520_000), None),
        ("out", ("UserMarker", 0), None),
        ("in", None, "enclosing"),
    ]
    codes = {one.code: one.value for one in ktrace.summary(path, by=["idle"]).findings}
    assert codes["idle.host_late"] == 470_000 and "idle.unknown" not in codes


def test_the_database_and_the_json_of_one_run_say_the_same_first() -> None:
    folder = SHARED / "corpus/rpd"
    if not folder.is_dir():
        pytest.skip("the real traces are not at hand (../shared/corpus)")
    of = [ktrace.summary(folder / f"matmul_result.{ending}").findings for ending in ("rpd", "json")]
    first = [next(one for one in findings if one.look == 1) for findings in of]
    assert [one.code for one in first] == ["idle.host_late"] * 2
    assert abs(first[0].value - first[1].value) < 100_000  # the JSON has whole us
