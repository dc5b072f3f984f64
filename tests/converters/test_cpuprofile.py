"""CPU profiles of V8, alone and within traces: times are added up from the deltas without ktrace."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.converters.chrome_json.reader import ranges
from ktrace.errors import DamagedInput
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.trace.trace import Trace

NODE = SAMPLES / "cpuprofile/node-collects-garbage-a-step-back-and-an-unknown-node.cpuprofile"
PARENTS = SAMPLES / "cpuprofile/parents-no-end-and-a-delta-too-few.json"
CHUNKS = SAMPLES / "chrome/cpu-profile-in-chunks-out-of-order.json"


def stacks(trace: Trace) -> dict[str, list[str]]:
    rows = trace.catalog[trace.catalog["entity"] == "stack"]
    return {name: json.loads(facts)["frames"] for name, facts in zip(rows["name"], rows["facts"], strict=True)}


def samples(trace: Trace) -> list[tuple[int, str, float | None, list[str]]]:
    """Time, name, value and frames of the samples that have a stack."""
    known, rows = stacks(trace), trace.events.sort_values("ts", kind="stable")
    rows = rows[rows["kind"] == "sample"]
    found = []
    for ts, name, value, text in zip(rows["ts"], rows["name"], rows["value"], rows["args"], strict=True):
        if "stack" in (args := json.loads(text)):
            found.append((ts, name, None if value != value else value, known[args["stack"]]))  # noqa: PLR0124
    return found


def profile(tmp_path: Path, **members: Any) -> Trace:
    frame = {"functionName": "f", "url": "a.js", "lineNumber": 0}
    path = tmp_path / "run.cpuprofile"
    path.write_text(json.dumps({"nodes": [{"id": 1, "callFrame": frame}], **members}), "utf-8")
    return ktrace.read(path)


def test_a_sample_is_at_the_sum_of_the_deltas_before_it() -> None:
    found = json.loads(NODE.read_text("utf-8"))
    names = {node["id"]: node["callFrame"]["functionName"] for node in found["nodes"]}
    at, times = found["startTime"], []
    for delta in found["timeDeltas"]:
        at += delta
        times.append(at)
    ends = [*times[1:], found["endTime"]]
    expected = {
        (1000 * at, names[node], 1000.0 * (end - at) if end >= at else None)
        for node, at, end in zip(found["samples"], times, ends, strict=True)
        if node in names
    }
    trace = ktrace.read(NODE)
    assert {one[:3] for one in samples(trace)} == expected and len(expected) == 6
    assert trace.report.reader.removed == {"bad-record": 1}
    assert set(trace.events["timing"]) == {"measured"} and set(trace.events["unit"].dropna()) == {"ns"}
    assert json.loads(trace.catalog[trace.catalog["entity"] == "clock"]["facts"].iloc[0]) == {"kind": "monotonic"}


def test_values_add_up_to_the_time_of_the_profile(tmp_path: Path) -> None:
    trace = profile(tmp_path, startTime=100, endTime=900, samples=[1] * 5, timeDeltas=[50, 100, 0, 250, 125])
    assert trace.events["value"].sum() == 1000 * (900 - 100 - 50)


def test_stacks_are_without_the_root_and_with_lines_from_1() -> None:
    assert samples(ktrace.read(NODE))[1][3] == [
        "(anonymous) (file:///app/serve.js:1)",
        "step (file:///app/serve.js:12)",
    ]
    assert samples(ktrace.read(NODE))[0][3] == ["(program)"]


def test_nodes_may_name_their_parents_and_the_last_sample_has_no_end() -> None:
    trace = ktrace.read(PARENTS)
    assert samples(trace) == [
        (500_000, "main", 250_000.0, ["main (main.js:5)"]),
        (750_000, "main", None, ["main (main.js:5)"]),
    ]
    assert trace.report.reader.removed == {"bad-record": 1}


@pytest.mark.parametrize("members", [{"samples": "x"}, {"samples": [1, "a"], "timeDeltas": [1, 1]}, {"samples": [1]}])
def test_odd_members_are_reported(tmp_path: Path, members: dict[str, Any]) -> None:
    trace = profile(tmp_path, startTime=1, **members)
    assert trace.report.balanced()
    assert len(trace.events) == (1 if "timeDeltas" in members else 0)


def test_nodes_in_a_circle_end(tmp_path: Path) -> None:
    frame = {"functionName": "f", "lineNumber": -1}
    nodes = [{"id": 1, "parent": 2, "callFrame": frame}, {"id": 2, "parent": 1, "callFrame": frame}]
    trace = profile(tmp_path, nodes=nodes, startTime=1, samples=[1], timeDeltas=[0])
    assert samples(trace) == [(1000, "f", None, ["f", "f"])]


@pytest.mark.parametrize("text", ['{"nodes":[{"id":1,"callFrame":{}}],"samples":[1', '{"nodes":1}', "[]"])
def test_a_document_without_its_end_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.cpuprofile"
    path.write_text(text, "utf-8")
    with pytest.raises(DamagedInput, match="nodes"):
        ktrace.read(path, from_="cpuprofile")


def test_a_heap_profile_isn_t_one(tmp_path: Path) -> None:
    path = tmp_path / "run.heapprofile"
    head = {"callFrame": {"functionName": "(root)"}, "selfSize": 0, "id": 1, "children": []}
    path.write_text(json.dumps({"head": head, "samples": [], "startTime": 1}), "utf-8")
    with pytest.raises(ktrace.KtraceError):
        choose(Source(str(path)))


def test_a_profile_in_a_trace_is_put_together_from_its_chunks_in_the_order_of_their_times() -> None:
    events = json.loads(CHUNKS.read_text("utf-8"))["traceEvents"]
    chunks = [event for event in events if event["name"] == "ProfileChunk" and event["args"].get("data")]
    nodes: dict[int, str] = {}
    at, expected = 1000, []
    for chunk in sorted((one for one in chunks if one["id"] == "0x7b"), key=lambda one: one["ts"]):
        data = chunk["args"]["data"]
        cpu = data.get("cpuProfile", {})
        nodes |= {node["id"]: node["callFrame"]["functionName"] or "(anonymous)" for node in cpu.get("nodes", [])}
        for node, delta in zip(cpu.get("samples", []), data.get("timeDeltas", []), strict=True):
            at += delta
            expected.append((1000 * at, nodes[node]))
    trace = ktrace.read(CHUNKS)
    found = samples(trace)
    assert [one[:2] for one in found] == expected and len(found) == 6
    assert found[2][3] == ["draw (https://a.example/app.js:4)", "(anonymous) (https://a.example/app.js:8)"]
    assert sum(one[2] or 0 for one in found) == 1000 * (3500 - 1000 - 130)
    rows = trace.events[trace.events["name"] == "draw"]
    assert set(rows["tid"]) == {11} and set(rows["pid"]) == {7}
    assert trace.report.reader.removed["bad-record"] == 1, "the sample of a profile that has no start"
    assert trace.report.reader.removed["structure"] == 5 and trace.report.balanced()
    assert trace.events["id"].is_unique


def test_events_named_profile_of_other_programs_stay(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "name": "Profile", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": {"data": 5}},
        {"ph": "X", "name": "Profile", "pid": 1, "tid": 1, "ts": 4, "dur": 2, "args": {"x": {}}},
    ]
    path = tmp_path / "run.trace.json"
    path.write_text(json.dumps(events), "utf-8")
    assert list(ktrace.read(path).events["name"]) == ["Profile", "Profile"]


def test_a_profile_as_one_event_of_old_versions(tmp_path: Path) -> None:
    nodes = [
        {"id": 1, "callFrame": {"functionName": "f"}, "children": [2]},
        {"id": 2, "callFrame": {"functionName": "g"}},
    ]
    whole = {"nodes": nodes, "startTime": 10, "endTime": 40, "samples": [2, 1], "timeDeltas": [5, 5]}
    event = {"ph": "I", "name": "CpuProfile", "pid": 1, "tid": 3, "ts": 50, "args": {"data": {"cpuProfile": whole}}}
    path = tmp_path / "run.trace.json"
    path.write_text(json.dumps([event]), "utf-8")
    trace = ktrace.read(path)
    assert samples(trace) == [(15_000, "g", 5000.0, ["f", "g"]), (20_000, "f", 20_000.0, ["f"])]
    assert set(trace.events["tid"]) == {3}


def test_hermes_samples_have_the_names_of_their_frames() -> None:
    path = SAMPLES / "chrome/hermes-samples-with-numbers-as-texts.json"
    trace = ktrace.read(path)
    rows, by_thread = trace.events, defaultdict(list)
    for tid, ts, name in zip(rows["tid"].fillna(-1), rows["ts"], rows["name"], strict=True):
        by_thread[int(tid)].append((ts, name))
    assert by_thread == {
        1: [(11552125241000, "[root]"), (11552129681000, "layout(app.bundle:9:4)")],
        -1: [(11552146011000, "[no stack]")],
    }
    assert trace.report.reader.removed["bad-record"] == 1


def test_ids_of_samples_that_are_no_ids_stay_arguments(tmp_path: Path) -> None:
    path = tmp_path / "run.trace.json"
    path.write_text(
        '{"traceEvents":[],"samples":[{"name":"a","ts":1,"pid":1e200,"tid":1.5},{"name":"b","ts":"2","tid":"7"}]}'
    )
    rows = ktrace.read(path, from_="chrome").events
    assert list(rows["tid"].fillna(-1)) == [-1, 7] and rows["pid"].isna().all()
    assert set(json.loads(rows["args"][0])) == {"$pid", "$tid"}


def test_a_stack_without_frames_has_no_name(tmp_path: Path) -> None:
    sample = {"name": "", "ts": 1, "sf": 1}
    path = tmp_path / "run.trace.json"
    path.write_text(
        json.dumps({"traceEvents": [], "samples": [sample, sample | {"sf": 2}], "stackFrames": {"1": 5, "2": {}}})
    )
    assert list(ktrace.read(path, from_="chrome").events["name"]) == ["[no stack]", "[no stack]"]


def test_a_trace_of_chrome_is_read_whole_so_that_no_profile_is_cut(tmp_path: Path) -> None:
    head = CHUNKS.read_text("utf-8").rpartition("\n]")[0]
    path = tmp_path / "big.trace.json"
    event = ',{"ph":"X","name":"task","pid":7,"tid":11,"ts":2000,"dur":1}\n'
    for begin, is_whole in ((head, True), ('{"traceEvents":[{}', False)):
        path.write_text(begin + event * 40_000 + "]}", "utf-8")
        assert (ranges(Source(str(path)), path.stat().st_size, 1 << 20) == []) == is_whole
