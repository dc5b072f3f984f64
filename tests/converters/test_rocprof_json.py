"""rocprof's JSON against the module json. No real file is at hand: ours has the shape that rocprof's scripts print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import SAMPLES

import ktrace
from ktrace.input.detection import choose
from ktrace.input.source import Source

SAMPLE = SAMPLES / "rocprof-json" / "a-marker-two-gpus-and-a-copy.json"


def times_of(event: dict[str, Any]) -> tuple[str, int, int]:
    """Name, begin and duration in ns: of the arguments where they have them, else of the µs."""
    args = event.get("args", {})
    if "BeginNs" in args:
        return event["name"], int(args["BeginNs"]), int(args["EndNs"]) - int(args["BeginNs"])
    return event["name"], int(event["ts"]) * 1_000, int(event["dur"]) * 1_000


def test_slices_are_those_of_the_json_module() -> None:
    theirs = [event for event in json.loads(SAMPLE.read_text())["traceEvents"] if event.get("ph") == "X"]
    trace = ktrace.read(SAMPLE)
    ours = trace.to_arrow()["events"].to_pylist()
    assert {(row["name"], row["ts"], row["dur"]) for row in ours} == {times_of(event) for event in theirs}
    assert len(ours) == len(theirs)
    places = ("kind", "device", "stream", "pid", "tid")
    assert {row["name"]: tuple(row[column] for column in places) for row in ours} == {
        "forward": ("range", None, None, 0, 4001),
        "scale(float*, int)": ("kernel", 0, 1, None, None),
        "hipLaunchKernel": ("api", None, None, 2, 4001),
        "CopyHostToDevice": ("memcpy", None, None, 1, 1),
        "add(float*)": ("kernel", 1, 2, None, None),
        "CopyDeviceToHost": ("memcpy", 1, 2, None, None),
    }
    (kernel,) = (json.loads(row["args"]) for row in ours if row["name"].startswith("scale"))
    assert (kernel["BeginNs"], kernel["DurationNs"]) == ("7000700100", "12200")
    (call,) = (json.loads(row["args"]) for row in ours if row["kind"] == "api")
    assert call["args"] == "(fn(0x1), stream(nil))"
    assert trace.report.balanced()


def test_a_launch_is_an_arrow_and_nothing_is_damaged(tmp_path: Path) -> None:
    assert choose(Source(str(SAMPLE))).name == "rocprof-json"
    report = ktrace.convert(SAMPLE, tmp_path / "out.trace.json", strict=True)
    assert report.issues.keys() == {"origin"}
    rows = json.loads((tmp_path / "out.trace.json").read_text())["traceEvents"]
    slices = {(row["pid"], row["tid"], row["ts"]): row["name"] for row in rows if row["ph"] == "X"}
    ends = {row["ph"]: slices[row["pid"], row["tid"], row["ts"]] for row in rows if row["ph"] in "stf"}
    assert sorted(ends.values()) == ["hipLaunchKernel", "scale(float*, int)"]


def test_devices_and_what_rocminfo_said() -> None:
    catalog = ktrace.read(SAMPLE).to_arrow()["catalog"].to_pylist()
    assert {(row["device"], row["name"]) for row in catalog if row["entity"] == "device"} == {(0, "GPU0"), (1, "GPU1")}
    facts = {key: value for row in catalog if row["facts"] for key, value in json.loads(row["facts"]).items()}
    assert facts["otherData"] == {"HSA Agent": "gfx90a"}
    assert facts["tool"] == "rocprof"


def test_a_launch_names_its_call_and_its_work() -> None:
    trace = ktrace.read(SAMPLE).to_arrow()
    names = {row["id"]: row["name"] for row in trace["events"].to_pylist()}
    ends = [(row["link"], row["role"], names.get(row["event"])) for row in trace["links"].to_pylist()]
    assert ends == [("launch", "out", "hipLaunchKernel"), ("launch", "step", "scale(float*, int)")]
