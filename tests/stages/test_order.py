"""The stage `order` against a reference in plain Python, on random traces; in memory and spilled."""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import examples
from timeline_reference import (
    End,
    Expected,
    Flat,
    Row,
    check_last,
    check_launched,
    check_peers,
    expected,
    flatten,
    key,
    walk,
)

from ktrace.errors import StrictFailure
from ktrace.model.batch import Batch
from ktrace.model.row_builder import to_batch
from ktrace.report import Report
from ktrace.stages.order import Timeline, order, sweep
from ktrace.store.events import MOST_ARGUMENTS

KINDS = ("kernel", "memcpy", "api", "op", "range", "sync", "alloc", "instant", "counter")


@st.composite
def event_rows(draw: st.DrawFn) -> list[Row]:
    rows = []
    for number in range(draw(st.integers(0, 24))):
        row: Row = {
            "source": draw(st.sampled_from(["a", "a", "b"])),
            "id": number + 1,
            "ts": draw(st.integers(-3, 12)),
            "kind": draw(st.sampled_from(KINDS)),
            "name": f"event {number}",
            "timing": "measured",
            "pid": draw(st.sampled_from([None, 1, 2])),
            "tid": draw(st.sampled_from([None, 7])),
            "correlation": draw(st.sampled_from([None, 0, 5, 6])),
            "args": draw(st.sampled_from([None, '{"x":1}', '{"x":2,"y":3}'])),
        }
        half = draw(st.sampled_from([None, None, "begin", "end"])) if row["kind"] in ("range", "api") else None
        row["half"] = half
        row["dur"] = None if half else draw(st.sampled_from([None, 0, 0, 1, 2, 3, 5, 8]))
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


@st.composite
def link_rows(draw: st.DrawFn) -> list[Row]:
    rows = []
    for number in range(draw(st.integers(0, 12))):
        row = {
            "source": draw(st.sampled_from(["a", "b"])),
            "id": 100 + number,
            "link": draw(st.sampled_from(["flow", "wait"])),
            "key": draw(st.sampled_from(["1", "2", "3"])),
            "role": draw(st.sampled_from(["out", "in", "step"])),
            "event": draw(st.sampled_from([None, None, 1, 2, 3, 4, 5, 99])),
            "ts": draw(st.sampled_from([None, *range(-4, 14)])),
            "bind": draw(st.sampled_from([None, "enclosing", "next"])),
            "pid": draw(st.sampled_from([None, 1, 2])),
            "tid": draw(st.sampled_from([None, 7])),
        }
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def in_batches(record: str, rows: list[Row], size: int) -> Iterator[Batch]:
    """Batches of `size` rows, every other one with plain strings instead of dictionaries."""
    for number, start in enumerate(range(0, len(rows), size)):
        part = rows[start : start + size]
        halves = pa.array([row.get("half") for row in part], pa.string()).dictionary_encode()
        columns = to_batch(record, [{name: row[name] for name in row if name != "half"} for row in part]).columns
        if any(row.get("half") for row in part):
            columns = columns.append_column("half", halves)
        if number % 2:
            columns = pa.RecordBatch.from_pydict(
                {
                    name: array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array
                    for name, array in zip(columns.schema.names, columns.columns, strict=True)
                }
            )
        yield Batch(record, columns)


def run(
    events: list[Row],
    links: list[Row],
    *,
    size: int = 5,
    spill_bytes: int = 1 << 30,
    range_rows: int = 1 << 18,
    lanes: bool = True,
) -> tuple[Timeline, Flat, Report]:
    report = Report()
    report.rows["events"], report.rows["links"] = len(events), len(links)
    batches = [*in_batches("links", links, size), *in_batches("events", events, size)]
    with patch("ktrace.store.events.BATCH_ROWS", size), patch("ktrace.stages.order.links.BATCH_ROWS", size):
        timeline = order(batches, report, spill_bytes=spill_bytes, range_rows=range_rows, device_lanes=lanes)
    return timeline, flatten(timeline.batches()), report


def shown(row: Row) -> Row:
    """A row without what order adds or takes away, and with its arguments parsed."""
    left_out = ("half", "track_number", "serial", "run")
    return {name: value for name, value in row.items() if name not in left_out} | {
        "args": json.loads(row.get("args") or "{}")
    }


@settings(deadline=None, max_examples=examples(50))
@given(event_rows(), link_rows(), st.integers(1, 9), st.integers(1, 9))
def test_same_as_the_reference(events: list[Row], links: list[Row], size: int, range_rows: int) -> None:
    timeline, flat, report = run(events, links, size=size, range_rows=range_rows)
    want = expected(events, links)
    assert (timeline.start, timeline.end) == want.span
    assert [shown(row) for row in flat.rows] == [shown(row) for row in want.rows]
    assert len({row["serial"] for row in flat.rows}) == len(flat.rows)
    assert all(row["serial"] >= 1 for row in flat.rows)
    check_peers(flat)
    check_last(flat)
    check_launched(flat)
    assert walk(timeline, flat) == want.end
    arrows = [sorted(ends) for arrow, ends in flat.arrows.items() if not is_by_time(arrow, ends, flat, want)]
    assert sorted(arrows) == want.arrows
    assert set(timeline.tracks) == {timeline.tracks[row["track_number"]] for row in flat.rows}
    ledger = report.stages[0]
    assert ledger.removed == want.removed
    assert report.balanced()
    assert ledger.given == flat.given
    for kind, rows in (("lane", want.moved), ("unfinished", want.unfinished)):
        assert (report.issues[kind].rows if kind in report.issues else 0) == rows


def is_by_time(arrow: int, ends: list[End], flat: Flat, want: Expected) -> bool:
    """Whether an arrow is the launch of work that several calls may have launched."""
    return flat.kinds[arrow] == "launch" and any(not out and row in want.by_time for row, out in ends)


def renumbered(flat: Flat) -> Flat:
    """Serials in the order of the rows: they only have to be unique."""
    number = {row["serial"]: index for index, row in enumerate(flat.rows, 1)} | {0: 0}
    return replace(
        flat,
        rows=[row | {"serial": number[row["serial"]]} for row in flat.rows],
        edges=[(ts, number[serial], track, lane) for ts, serial, track, lane in flat.edges],
        peers=[(arrow, out, number[peer], number[serial]) for arrow, out, peer, serial in flat.peers],
        launched=[(number[peer], launched) for peer, launched in flat.launched],
    )


@settings(deadline=None, max_examples=examples(15))
@given(event_rows(), link_rows(), st.integers(1, 9), st.integers(1, 9))
def test_spilled_the_same_as_in_memory(events: list[Row], links: list[Row], size: int, range_rows: int) -> None:
    whole = run(events, links, size=100)
    parts = run(events, links, size=size, spill_bytes=0, range_rows=range_rows)
    assert renumbered(whole[1]) == renumbered(parts[1])
    assert whole[0].tracks == parts[0].tracks
    assert whole[2].stages == parts[2].stages


@settings(deadline=None, max_examples=examples(30))
@given(event_rows(), link_rows(), st.integers(1, 9), st.integers(1, 9))
def test_sorted_in_parts_the_same_as_at_once(events: list[Row], links: list[Row], size: int, range_rows: int) -> None:
    """Wherever a range is cut, also between events that begin together, on one track, inside each other."""
    for lanes in (True, False):
        whole = run(events, links, size=size, range_rows=range_rows, lanes=lanes)
        with patch.multiple("ktrace.stages.order.sweep", LARGE=0, SAMPLES_PER_PART=2):
            parts = run(events, links, size=size, range_rows=range_rows, spill_bytes=0, lanes=lanes)
        assert whole[1] == parts[1]
        assert whole[0].tracks == parts[0].tracks
        assert whole[2].stages == parts[2].stages


def test_events_that_begin_together_are_sorted_in_parts() -> None:
    """6,000 at one time, of which 1,100 are looked at together; some before and some after."""
    chance = random.Random(4)
    times = [4] * 300 + [5] * 6000 + [6] * 300
    rows = events_of(
        *(
            {"ts": ts, "dur": chance.randrange(9), "tid": chance.randrange(4), "id": number}
            for number, ts in enumerate(times)
        )
    )
    with patch("ktrace.stages.order.sweep._sorted", wraps=sweep._sorted) as asked:
        timeline, flat, _ = run(rows, [], size=700, range_rows=100)
    tracks = {track.tid: number for number, track in enumerate(timeline.tracks)}
    assert [row["id"] for row in flat.rows] == [
        row["id"] for row in sorted(rows, key=lambda row: (row["ts"], -row["dur"], tracks[row["tid"]], row["id"]))
    ]
    assert max(len(call.args[0]) for call in asked.call_args_list) <= 1100


def events_of(*rows: dict[str, Any]) -> list[Row]:
    """Ranges of one thread, unless a row says otherwise."""
    return [
        {"source": "s", "id": number, "kind": "range", "name": "n", "timing": "measured", "tid": 1} | row
        for number, row in enumerate(rows, 1)
    ]


def test_a_slice_ends_in_the_nanosecond_in_which_the_next_begins() -> None:
    _, flat, _ = run(events_of({"ts": 0, "dur": 5}, {"ts": 5, "dur": 5}, {"ts": 5, "dur": 0}), [])
    assert [(ts, serial) for ts, serial, _, _ in flat.edges] == [(0, 1), (5, 0), (5, 2), (5, 3), (5, 0), (10, 0)]


def test_slices_that_cross_keep_their_lanes_over_ranges() -> None:
    rows = events_of(*({"ts": 10 * number, "dur": 15} for number in range(20)))
    _, flat, report = run(rows, [], size=3, range_rows=2)
    assert [row["lane"] for row in flat.rows] == [0, 1] * 10
    assert report.issues["lane"].rows == 10


def test_a_slice_without_an_end_ends_with_the_trace() -> None:
    timeline, flat, report = run(events_of({"ts": 0}, {"ts": 3, "dur": 4}, {"ts": 1, "kind": "instant"}), [])
    assert timeline.end == 7
    assert "dur" not in flat.rows[0]
    assert [(ts, serial) for ts, serial, _, _ in flat.edges] == [(0, 1), (1, 2), (3, 3), (7, 0), (7, 0)]
    assert report.issues["unfinished"].rows == 1


def test_typed_arguments_of_different_types() -> None:
    def part(number: int, value: pa.Array) -> Batch:
        columns = to_batch("events", events_of({"id": number, "ts": number, "dur": 1})).columns
        return Batch("events", columns.append_column("args.size", value))

    batches = [part(1, pa.array([7])), part(2, pa.array(["big"])), part(3, pa.array([2.5])), part(4, pa.array([None]))]
    flat = flatten(order(batches, Report()).batches())
    assert [json.loads(row.get("args", "{}")) for row in flat.rows] == [{"size": 7}, {"size": "big"}, {"size": 2.5}, {}]


def test_the_end_of_a_pair_fills_what_the_begin_has_not() -> None:
    begin = {"ts": 1, "half": "begin", "args": '{"x":1,"y":1}', "cat": "c"}
    end = {"ts": 4, "half": "end", "args": '{"y":2,"z":[3]}', "cat": "d", "bytes": 64}
    _, flat, report = run(events_of(begin, end), [], size=1)
    (row,) = flat.rows
    assert (row["dur"], row["cat"], row["bytes"]) == (3, "c", 64)
    assert json.loads(row["args"]) == {"x": 1, "y": 2, "z": [3]}
    assert report.stages[0].removed == {"paired": 1}


def test_typed_arguments_of_halves() -> None:
    columns = to_batch("events", events_of({"ts": 1}, {"ts": 2})).columns
    columns = columns.append_column("half", pa.array(["begin", "end"]).dictionary_encode())
    columns = columns.append_column("args.x", pa.array([1, 2])).append_column("args.y", pa.array([3, None]))
    (row,) = flatten(order([Batch("events", columns)], Report()).batches()).rows
    assert json.loads(row["args"]) == {"x": 2, "y": 3}


def test_a_launch_is_the_outer_call_and_has_many_works() -> None:
    rows = events_of(
        {"kind": "api", "ts": 11, "dur": 2, "correlation": 9, "pid": 5, "name": "driver"},
        {"kind": "api", "ts": 10, "dur": 5, "correlation": 9, "pid": 5, "name": "runtime"},
        {"kind": "kernel", "ts": 20, "dur": 5, "correlation": 9, "device": 0, "tid": None},
        {"kind": "memset", "ts": 30, "dur": 5, "correlation": 9, "device": 0, "tid": None, "pid": 5},
        {"kind": "memset", "ts": 30, "dur": 5, "correlation": 9, "device": 0, "tid": None, "pid": 6},
    )
    _, flat, _ = run(rows, [])
    assert sorted(sorted(ends) for ends in flat.arrows.values()) == [
        [(("s", 2), True), (("s", 3), False)],
        [(("s", 2), True), (("s", 4), False)],
    ]
    assert flat.link_ends == 0


def test_dictionary_words_are_those_of_the_source() -> None:
    first = pa.DictionaryArray.from_arrays(pa.array([1, None], pa.int32()), pa.array(["unused", "one"]))
    second = pa.DictionaryArray.from_arrays(pa.array([0, 2], pa.int32()), pa.array(["two", None, "one"]))
    batches = []
    for number, cats in enumerate((first, second)):
        rows = events_of({"id": 2 * number + 1, "ts": number, "dur": 0}, {"id": 2 * number + 2, "ts": number, "dur": 0})
        batches.append(Batch("events", to_batch("events", rows).columns.append_column("cat", cats)))
    flat = flatten(order(batches, Report()).batches())
    assert [row.get("cat") for row in flat.rows] == ["one", None, "two", "one"]


def test_times_out_of_range_and_negative_durations_are_left_out() -> None:
    _, flat, report = run(events_of({"ts": 1 << 62, "dur": 1}, {"ts": 5, "dur": -1}, {"ts": 5, "dur": 1}), [])
    assert [key(row) for row in flat.rows] == [("s", 3)]
    assert report.stages[0].removed == {"time-range": 1, "negative-duration": 1}
    assert report.balanced()


def test_nothing_at_all() -> None:
    timeline, flat, report = run([], [])
    assert (timeline.start, timeline.end, timeline.tracks, flat.rows) == (0, 0, [], [])
    assert report.balanced()


def test_strict_fails_at_an_arrow_without_a_slice() -> None:
    link = {"source": "s", "id": 1, "link": "flow", "key": "1", "role": "out", "ts": 5, "tid": 1}
    with pytest.raises(StrictFailure):
        order(in_batches("links", [link], 1), Report(strict=True))


# --- the temporary folder ------------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which temporary folders are made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def many(count: int) -> list[Row]:
    return events_of(*({"ts": 7 * number % 1000, "dur": 3} for number in range(count)))


def spilled(count: int = 2000) -> Timeline:
    return order(in_batches("events", many(count), 200), Report(), spill_bytes=10_000, range_rows=100)


def test_batches_stay_small_where_all_events_begin_together() -> None:
    rows = events_of(*({"ts": 5, "dur": number % 3} for number in range(1000)))
    sizes = [len(batch) for batch in order(in_batches("events", rows, 200), Report(), range_rows=100).batches()]
    assert sum(sizes) == 1000
    assert max(sizes) <= 200


def test_a_batch_has_few_columns_where_each_event_has_an_argument_of_its_own() -> None:
    rows = events_of(*({"ts": number, "dur": 1} for number in range(1000)))
    batches = []
    for number, batch in enumerate(in_batches("events", rows, 10)):
        mine = pa.array([number * 10 + one if one < 9 else None for one in range(10)], pa.int64())
        own = {
            f"args.own {number} {one}": pc.if_else(pa.array([one == row for row in range(10)]), mine, None)
            for one in range(9)
        }
        shared = {"args.shared": pa.array([f"s{number % 3}"] * 10).dictionary_encode()}
        columns = dict(zip(batch.columns.schema.names, batch.columns.columns, strict=True)) | own | shared
        batches.append(Batch("events", pa.RecordBatch.from_pydict(columns)))
    found = {}
    for ordered in order(batches, Report()).batches():
        assert len(ordered.batch.typed_args()) <= MOST_ARGUMENTS
        texts = ordered.batch.args_text().to_pylist()
        found |= zip(ordered.batch.column("id").to_pylist(), map(json.loads, texts), strict=True)
    assert len(found) == 1000
    for id_, args in found.items():
        number, one = divmod(id_ - 1, 10)
        own_argument = {f"own {number} {one}": id_ - 1} if one < 9 else {}
        assert args == own_argument | {"shared": f"s{number % 3}"}


def test_the_folder_is_removed_at_the_end(temporary: Path) -> None:
    timeline = spilled()
    assert len(list(temporary.iterdir())) == 1
    assert sum(len(batch) for batch in timeline.batches()) == 2000
    assert list(temporary.iterdir()) == []


def test_the_folder_is_removed_when_the_consumer_stops(temporary: Path) -> None:
    timeline = spilled()
    batches = timeline.batches()
    next(batches)
    assert len(list(temporary.iterdir())) == 1
    batches.close()  # type: ignore[attr-defined]
    assert list(temporary.iterdir()) == []


def test_the_folder_is_removed_with_the_timeline(temporary: Path) -> None:
    timeline = spilled()
    assert len(list(temporary.iterdir())) == 1
    del timeline
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_the_folder_is_removed_on_an_error(temporary: Path) -> None:
    def broken() -> Iterator[Batch]:
        yield from in_batches("events", many(2000), 2000)
        yield from in_batches("events", many(70_000), 70_000)
        assert len(list(temporary.iterdir())) == 1
        raise RuntimeError("the source broke off")

    with pytest.raises(RuntimeError, match="broke off"):
        order(broken(), Report(), spill_bytes=10_000)
    assert list(temporary.iterdir()) == []


def test_nothing_is_written_below_the_limit(temporary: Path) -> None:
    timeline = order(in_batches("events", many(2000), 200), Report())
    assert list(temporary.iterdir()) == []
    assert sum(len(batch) for batch in timeline.batches()) == 2000


def test_batches_without_rows_do_not_exchange_the_columns_of_others() -> None:
    """A reader whose rows of a table are all skipped gives a batch without rows, with columns of its own."""
    common = {"source": "a", "timing": "measured", "dur": 1}
    first = {**common, "id": 1, "ts": 0, "kind": "api", "name": "first", "pid": 1}
    last = {**common, "id": 2, "ts": 5, "kind": "kernel", "name": "last", "device": 0}
    empty = to_batch("events", [{**common, "id": 3, "ts": 9, "kind": "op", "name": "none", "cat": "x"}])
    batches = [Batch("events", empty.columns.slice(0, 0)), to_batch("events", [first]), to_batch("events", [last])]
    timeline = order(iter(batches), Report())
    found = [batch.taken(np.arange(len(batch))) for batch in timeline.batches()]
    rows = [row for batch in found for row in batch.columns.to_pylist()]
    assert [(row["ts"], row["name"], row.get("pid"), row.get("device")) for row in rows] == [
        (0, "first", 1, None),
        (5, "last", None, 0),
    ]
