"""Streams of graphs on lanes: as few as hold the work without overlap, and nothing else is moved."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import examples
from scene import rows as builder
from timeline_reference import Row, flatten

from ktrace.report import Report
from ktrace.stages.order import Timeline, order
from ktrace.stages.order.graph_lanes import MOST_STREAMS

Piece = tuple[int, int, int]  # stream, begin, duration

GRAPH = {"graph id": 3, "graph node id": 7}


def laid_out(
    pieces: list[Piece], *, size: int = 64, spill: int = 1 << 30, more: Any = (), args: Any = GRAPH, **place: Any
) -> tuple[Timeline, list[Row], Report]:
    """The rows of a timeline with these kernels of graphs; `more` are further events."""
    made = builder()
    for stream, begin, dur in pieces:
        key = {"device": 0, "context": 1, "stream": stream} | place
        made.event("kernel", "k", ts=begin, dur=dur, args=args, **{k: v for k, v in key.items() if v is not None})
    for kind, name, columns in more:
        made.event(kind, name, **columns)
    report = Report()
    with patch("ktrace.store.events.BATCH_ROWS", size):
        timeline = order(
            _typed(made.rest()), report, graph_lanes=True, device_lanes=False, spill_bytes=spill, range_rows=size
        )
        return timeline, flatten(timeline.batches()).rows, report


def _typed(batches: Any) -> Any:
    """The batches with a column for each argument, as readers of columns give them."""
    import json

    import pyarrow as pa

    from ktrace.model.batch import Batch

    for batch in batches:
        columns = batch.columns
        if batch.record == "events" and "args" in columns.schema.names:
            texts = [json.loads(text or "{}") for text in columns.column("args").to_pylist()]
            columns = columns.drop_columns(["args"])
            for name in dict.fromkeys(name for text in texts for name in text):
                values = pa.array([text.get(name) for text in texts])
                columns = columns.append_column(f"args.{name}", values)
        yield Batch(batch.record, columns)


def lanes_of(timeline: Timeline, rows: list[Row]) -> dict[str | None, list[tuple[int, int]]]:
    found: dict[str | None, list[tuple[int, int]]] = {}
    for row in rows:
        found.setdefault(timeline.tracks[row["track_number"]].track, []).append((row["ts"], row["ts"] + row["dur"]))
    return found


def at_once(pieces: list[Piece]) -> int:
    """The most pieces that are busy in one ns."""
    edges = sorted([(begin + dur, -1) for _, begin, dur in pieces] + [(begin, 1) for _, begin, _ in pieces])
    depth = most = 0
    for _, step in edges:
        depth += step
        most = max(most, depth)
    return most


#: One piece each, so that there are more streams than are kept, long before the others.
WALL = [(stream, 10 * stream - 1000, 9) for stream in range(40)]


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.tuples(st.integers(0, 39), st.integers(0, 60), st.integers(1, 9)), max_size=40), st.integers(2, 9))
def test_no_overlap_and_no_more_lanes_than_are_busy_at_once(pieces: list[Piece], size: int) -> None:
    pieces = [*WALL, *pieces]
    timeline, rows, _ = laid_out(pieces, size=size)
    if at_once(pieces) > 20:
        assert timeline.first_lane == len(timeline.tracks)
        return
    found = lanes_of(timeline, rows)
    assert set(found) == {f"graph 3 lane {number + 1}" for number in range(at_once(pieces))}
    for busy in found.values():
        busy.sort()
        assert all(one[1] <= other[0] for one, other in pairwise(busy))
    assert sorted((row["stream"], row["ts"], row["dur"]) for row in rows) == sorted(pieces)
    assert {row["context"] for row in rows} == {1}


@pytest.mark.parametrize("spill", [0, 1 << 30])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_it_is_the_same_in_batches_of_any_size(size: int, spill: int) -> None:
    pieces = [*WALL, *((n % 40, n * 3, (n * 7) % 11) for n in range(300)), *((n, 2000, 0) for n in range(5))]
    _, rows, _ = laid_out(pieces, size=size, spill=spill)
    _, whole, _ = laid_out(pieces, size=1000)
    assert sorted((row["id"], row["track_number"]) for row in rows) == sorted(
        (row["id"], row["track_number"]) for row in whole
    )


def test_lanes_of_two_devices_and_processes_are_apart() -> None:
    more = [
        ("kernel", "k", {"ts": 5 * n, "dur": 9, "device": 1, "pid": 4, "stream": n, "args": {"graph_node_id": 5}})
        for n in range(30)
    ]
    timeline, _, _ = laid_out(WALL, more=more)
    assert [(track.device, track.pid, track.track) for track in timeline.tracks] == [
        (0, None, "graph 3 lane 1"),
        (1, 4, "graphs lane 1"),
        (1, 4, "graphs lane 2"),
    ]


@pytest.mark.parametrize("args", [{"graphId": 3, "graphNodeId": 1}, {"graph_exec_id": 3, "graph_node_id": 9}])
def test_arguments_of_other_tools_tell_it_too(args: Row) -> None:
    timeline, _, _ = laid_out(WALL, args=args)
    assert [track.track for track in timeline.tracks] == ["graph 3 lane 1"]


@pytest.mark.parametrize(
    "args",
    [{}, {"graph id": 0, "graph node id": 0}, {"graph id": "3"}, {"graph": 3}],
    ids=["none", "zero", "text", "other"],
)
def test_ordinary_streams_stay(args: Row) -> None:
    timeline, _, _ = laid_out(WALL, args=args)
    assert [track.stream for track in timeline.tracks] == [*range(40)]


def test_few_streams_of_graphs_stay() -> None:
    timeline, _, _ = laid_out(WALL[:MOST_STREAMS])
    assert [track.stream for track in timeline.tracks] == [*range(MOST_STREAMS)]
    timeline, _, _ = laid_out(WALL[: MOST_STREAMS + 1])
    assert len(timeline.tracks) == 1


def test_streams_that_are_all_busy_at_once_stay() -> None:
    timeline, _, _ = laid_out([(stream, stream, 100) for stream in range(40)])
    assert len(timeline.tracks) == timeline.first_lane == 40


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("kernel", {"dur": 1, "context": 1}),
        ("range", {"dur": 500}),  # Kineto's ranges have no context
        ("counter", {"value": 1.0, "context": 1}),
        ("sync", {"dur": 5, "context": 1}),
    ],
)
def test_a_stream_with_anything_else_stays(kind: str, columns: Row) -> None:
    timeline, rows, _ = laid_out(WALL, more=[(kind, "other", {"ts": 0, "device": 0, "stream": 7, **columns})])
    assert {track.stream for track in timeline.tracks} == {7, None}
    kept = [row for row in rows if timeline.tracks[row["track_number"]].stream == 7]
    assert sorted(row["name"] for row in kept) == ["k", "other"]


def test_other_nodes_of_graphs_are_on_lanes_too() -> None:
    event = {"ts": -1000, "dur": 3, "device": 0, "context": 1, "stream": 7, "args": {"graph node id": 8}}
    timeline, rows, _ = laid_out(WALL, more=[("sync", "EventRecord", event)])
    found = lanes_of(timeline, rows)
    assert sorted(found) == ["graphs lane 1", "graphs lane 2"]
    assert found["graphs lane 2"] == [(-1000, -997)]


def test_streams_without_a_device_stay() -> None:
    timeline, _, _ = laid_out(WALL, device=None)
    assert {track.track for track in timeline.tracks} == {None}
