"""Chrome trace JSON read: real files against json in a loop, every phase, and what ktrace itself wrote."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED
from plain_events import events_of, load, nanoseconds

import ktrace
from ktrace.converters.chrome_json import probe
from ktrace.input.format import Score
from ktrace.input.source import Sample
from ktrace.pipeline.convert import convert

CORPUS = SHARED / "corpus" / "chrome_trace"
NO_TRACES = ("google_cloud_trace.json", "incomplete-trace.json")
FILES = [path for path in sorted(CORPUS.glob("*.json")) if path.name not in NO_TRACES]
needs_corpus = pytest.mark.skipif(not FILES, reason="the real Chrome traces are not at hand (../shared/corpus)")


def rows(trace: ktrace.Trace, record: str = "events") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = trace.to_arrow()[record].to_pylist()
    return found


def number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdigit() else value


def paired(events: list[dict[str, Any]]) -> Counter[Any]:
    """The slices of B and E, by a stack for each thread, of b and e by category and id; in order of time."""
    stacks: dict[Any, list[dict[str, Any]]] = {}
    found: Counter[Any] = Counter()
    for event in sorted((event for event in events if event["ph"] in "BEbe"), key=lambda event: event["ts"]):
        nestable = event["ph"] in "be"
        key = (event["pid"], event.get("cat"), event["id"]) if nestable else (event["pid"], event["tid"])
        stack = stacks.setdefault(key, [])
        if event["ph"] in "Bb":
            stack.append(event)
        elif stack:
            begin = stack.pop()
            start = nanoseconds(begin["ts"]) or 0
            found[begin["name"], start, (nanoseconds(event["ts"]) or 0) - start] += 1
    for stack in stacks.values():
        found.update((begin["name"], nanoseconds(begin["ts"]), None) for begin in stack)
    return found


@needs_corpus
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_real_files_equal_what_json_reads(path: Path) -> None:
    events, trace = events_of(load(path)), ktrace.read(path)
    assert trace.report.reader.balanced()
    assert trace.report.reader.taken >= len(events)
    phases = Counter(event["ph"] for event in events)
    wanted = paired(events)
    for event in events:
        if event["ph"] == "X":
            wanted[event.get("name", ""), nanoseconds(event["ts"]), nanoseconds(event.get("dur")) or 0] += 1
    found = rows(trace)
    got = Counter((row["name"], row["ts"], row["dur"]) for row in found if row["kind"] == "range")
    assert got == wanted
    kinds = Counter(row["kind"] for row in found)
    assert kinds["instant"] == phases["i"] + phases["I"] + phases["n"]
    assert kinds["counter"] == sum(len(event["args"]) for event in events if event["ph"] == "C")
    links = Counter(row["role"] for row in rows(trace, "links") if row["event"] is None)
    assert links == Counter({"out": phases["s"], "step": phases["t"], "in": phases["f"]}) + Counter()


#: Files with events alone: a table that was laid out stays a timeline.
WRITTEN = [
    path
    for name in ("kineto", "chrome")
    for path in sorted((SAMPLES / name).glob("*"))
    if not path.name.startswith(("memory-timeline", "stacks"))
]


@pytest.mark.parametrize("path", WRITTEN + FILES, ids=lambda path: path.name)
def test_what_is_written_comes_back(path: Path, tmp_path: Path) -> None:
    convert(path, tmp_path / "a.jsonl")
    convert(path, tmp_path / "b.trace.json")
    convert(tmp_path / "b.trace.json", tmp_path / "b.jsonl")
    assert_alike(tmp_path / "a.jsonl", tmp_path / "b.jsonl")


def assert_alike(first: Path, second: Path) -> None:
    """Events and catalog are equal. Of links the ids and keys, of counters those without a number are not kept."""
    ours, theirs = ktrace.read(first), ktrace.read(second)
    kept = [row for row in rows(ours) if row["kind"] != "counter" or row["value"] is not None]
    assert by_id(kept) == by_id(rows(theirs))
    assert by_id(rows(ours, "catalog")) == by_id(rows(theirs, "catalog"))
    ends = Counter((row["link"], row["role"] == "out", row["event"]) for row in rows(ours, "links") if row["event"])
    again = Counter((row["link"], row["role"] == "out", row["event"]) for row in rows(theirs, "links"))
    assert not ends - again


def by_id(found: list[dict[str, Any]]) -> dict[Any, Any]:
    for row in found:
        for name in ("args", "facts"):
            if row.get(name):
                row[name] = json.loads(row[name])
        row |= {name: str(value) for name, value in row.items() if isinstance(value, float)}  # NaN is equal to NaN
    return {(row["source"], row["id"], row.get("entity"), row.get("stream")): row for row in found}


def test_halves_durations_and_times() -> None:
    trace = ktrace.read(SAMPLES / "chrome" / "begins-without-ends-and-an-end-too-many.json")
    found = {row["name"]: row for row in rows(trace)}
    assert {name: (row["ts"], row["dur"]) for name, row in found.items()} == {
        "outer": (10_000, 20_000),
        "inner": (12_500, 7_500),
        "never ends": (15_000, None),
        "no duration": (16_000, 0),
        "overlaps": (10_000, 10_000),
        "overlaps, too": (15_000, 10_000),
    }
    assert json.loads(found["outer"]["args"]) == {"x": 1, "y": "end", "z": [1, 2]}
    assert json.loads(found["no duration"]["args"]) == {"$tdur": 4}
    assert json.loads(found["overlaps, too"]["args"]) == {"$cname": "good"}
    assert "$ts" in json.loads(found["overlaps"]["args"])
    counts = {kind: issue.rows for kind, issue in trace.report.issues.items()}
    assert (counts["bad-record"], counts["negative-duration"], counts["no-duration"]) == (1, 1, 1)


def test_asynchronous_slices_are_on_tracks_of_their_ids() -> None:
    trace = ktrace.read(SAMPLES / "chrome" / "async-nestable-ids-of-every-type.json")
    found = [(row["name"], row["track"], row["ts"], row["dur"]) for row in rows(trace)]
    assert sorted(found, key=lambda row: row[2]) == [
        ("request", "net/0x1f", 100_000, 40_000),
        ("connect", "net/0x1f", 110_000, 10_000),
        ("dns", "net/0x1f", 115_000, None),
        ("local", 'net/s/{"local": "0x5"}', 150_000, 10_000),
        ("cycles:HG", None, 150_500, None),
        ("legacy", "old/9007199254740993", 170_000, 10_000),
        ("legacy", "old/9007199254740993", 175_000, None),
    ]
    sample = next(row for row in rows(trace) if row["kind"] == "sample")
    assert (sample["tid"], json.loads(sample["args"])) == (1, {"$cpu": 0, "$sf": 2, "$weight": 1})
    args = [json.loads(row["args"]) for row in rows(trace) if row["name"] == "request"]
    assert args == [{"url": "/", "status": 200, "$sf": 2, "$tid": 1}]
    stacks = {row["name"]: json.loads(row["facts"]) for row in rows(trace, "catalog") if row["entity"] == "stack"}
    assert stacks["2"] == {"frames": ["main", "send"], "category": "app", "parent": "1"}


def test_flows_counters_and_rare_phases() -> None:
    trace = ktrace.read(SAMPLES / "chrome" / "flows-counters-and-rare-phases.json")
    found = rows(trace)
    names = {row["id"]: row["name"] for row in found}
    links = [(row["key"], row["role"], row["bind"] or names[row["event"]]) for row in rows(trace, "links")]
    assert sorted(links) == [
        ("0x402", "in", "receives"),
        ("0x402", "out", "sends"),
        ("0x402", "step", "forwards"),
        ("t/task/0xa", "in", "next"),
        ("t/task/0xa", "out", "enclosing"),
        ("t/task/0xa", "step", "enclosing"),
    ]
    counters = [(row["name"], row["track"], row["ts"], row["value"]) for row in found if row["kind"] == "counter"]
    assert sorted(counters) == [
        ("memory free", "memory free", 10_000, 3.5),
        ("memory used", "memory used", 10_000, 5.0),
        ("memory used", "memory used", 20_000, 6.0),
        ("queue id a", "queue id a", 10_000, 1.0),
        ("queue id b", "queue id b", 10_000, 9007199254740992.0),
    ]
    big = next(row for row in found if row["name"] == "queue id b")
    assert json.loads(big["args"]) == {"value": 9007199254740993}
    phases = {row["name"]: json.loads(row["args"] or "{}").get("$ph") for row in found if row["kind"] == "instant"}
    assert phases == {"global": None, "older": None, "navigationStart": "R", "object": "D", "clock_sync": "c"}
    assert [row["name"] for row in found if row["kind"] == "sample"] == ["sample"]
    assert trace.report.issues["bad-record"].rows == 1


def test_texts_for_numbers() -> None:
    trace = ktrace.read(SAMPLES / "chrome" / "text-pids-crlf-bom-unterminated.json")
    first, second, third = sorted(rows(trace), key=lambda row: row["ts"])
    assert (first["kind"], first["track"], first["device"], first["stream"]) == ("kernel", "GPU/queue 1", 0, 3)
    assert (first["grid_x"], first["block_x"]) == (8, 64)
    assert (second["pid"], second["track"], second["ts"], second["dur"]) == (12, "1.1", 4_000, 2_250)
    assert (third["pid"], third["track"], third["args"]) == (12, "1.1", '{"$args":"no object"}')


@pytest.mark.parametrize(
    ("head", "score"),
    [
        (b'[{"ph":"X"}]', Score.SHAPE),
        (b'\xef\xbb\xbf [ {},\n{"args":{"a":1},"ph":"B"}', Score.SHAPE),
        (b'{"displayTimeUnit":"ms","traceEvents":[', Score.SHAPE),
        (b'{"displayTimeUnit":"ns","otherData":{"ktrace":{"ktrace":"1.0"}},"traceEvents":[', Score.DIALECT),
        (b'{"projectId":"x","spans":[]}', Score.NEAR),
        (b"<!DOCTYPE html>\n<!-- BEGIN TRACE -->", Score.NEAR),
        (b"<html>no trace</html>", None),
        (b'{"ktrace":"1.0"}\n{"record":"event","args":{"ph":"X"}}', None),
        (b"[[1,2],[3,4]]", None),
        (b'[{"name":"x","dur":1}]', None),
        (b"", None),
    ],
)
def test_what_is_a_chrome_trace(head: bytes, score: Score | None) -> None:
    match = probe(Sample("x.json", head))
    assert (match and match.score) == score


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"cat":"launch"', '"x":1'),
        ('"ph":"s"', '"ph":"f","id":null'),
        ('"kind":', '"cat":null,"kind":'),
        ('"pid":', '"pwd":'),
        ('"grid":', '"grid":"1,2","was":'),
        ('"grid":', '"grid":true,"was":'),
        ('"entity":', '"entry":'),
    ],
)
def test_a_file_of_ours_that_is_damaged_is_read(tmp_path: Path, before: str, after: str) -> None:
    ktrace.convert(SAMPLES / "kineto" / "one-step-of-training.pt.trace.json", tmp_path / "ours.json", to="chrome")
    text = (tmp_path / "ours.json").read_text("utf-8")
    assert before in text
    (tmp_path / "odd.json").write_text(text.replace(before, after), "utf-8")
    for name in ("odd.jsonl", "odd.perfetto"):
        report = ktrace.convert(tmp_path / "odd.json", tmp_path / name)
        assert report.balanced()
        assert report.rows["events"]
