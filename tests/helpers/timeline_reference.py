"""What `order` must give, worked out in plain Python, one row at a time, as docs/model.md says it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ktrace.model.batch import HOST_KINDS, POINT_KINDS, Batch
from ktrace.stages.order import Timeline, TimelineBatch
from ktrace.stages.order.links import ARROW_KINDS

Row = dict[str, Any]
Key = tuple[str, int]  # source, id
End = tuple[Key, bool]  # of an arrow: where, and whether it leaves there

TRACK = ("source", "host", "pid", "tid", "device", "context", "stream", "track", "run")
WORK = ("kernel", "memcpy", "memset", "graph", "sync")


@dataclass
class Expected:
    """A timeline: rows in order with `lane`, ends of slices by row, arrows as sorted lists of ends.

    `by_time` is work with the correlation of several calls one after another, which has no launch here:
    tests/stages/test_unmatched.py is about those.
    """

    rows: list[Row] = field(default_factory=list)
    end: dict[Key, int] = field(default_factory=dict)
    arrows: list[list[End]] = field(default_factory=list)
    removed: dict[str, int] = field(default_factory=dict)
    moved: int = 0
    unfinished: int = 0
    by_time: set[Key] = field(default_factory=set)
    span: tuple[int, int] = (0, 0)


def key(row: Row) -> Key:
    return row["source"], row["id"]


def track(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in TRACK)


def is_slice(row: Row) -> bool:
    if row.get("half"):
        return True
    return row["kind"] not in POINT_KINDS and (row["kind"] != "alloc" or row.get("dur") is not None)


def expected(events: list[Row], links: list[Row]) -> Expected:
    result = Expected()
    alias: dict[Key, Key] = {}
    rows = paired([dict(row) for row in events], result.removed, alias)
    if rows:
        ends = [row["ts"] + (row.get("dur") or 0) if is_slice(row) else row["ts"] for row in rows]
        result.span = min(row["ts"] for row in rows), max(ends)
    for row in rows:
        if is_slice(row):
            result.end[key(row)] = result.span[1] if row.get("dur") is None else row["ts"] + row["dur"]
            result.unfinished += row.get("dur") is None
    numbers = {name: number for number, name in enumerate(dict.fromkeys(track(row) for row in events))}
    rows.sort(key=lambda row: (row["ts"], -result.end.get(key(row), row["ts"]), numbers[track(row)], row["id"]))
    result.rows = rows
    result.moved = put_in_lanes(rows, result.end)
    result.arrows = [*launches(rows, result), *bound(rows, links, result, alias)]
    result.arrows.sort()
    return result


def paired(events: list[Row], removed: dict[str, int], alias: dict[Key, Key]) -> list[Row]:
    """The events without the halves that end others."""
    stacks: dict[Any, list[Row]] = defaultdict(list)
    gone: set[Key] = set()
    for row in sorted((row for row in events if row.get("half")), key=lambda row: (row["ts"], row["id"])):
        stack = stacks[track(row)]
        if row["half"] == "begin":
            stack.append(row)
        elif not stack:
            removed["end-without-begin"] = removed.get("end-without-begin", 0) + 1
            gone.add(key(row))
        else:
            begin = stack.pop()
            begin["dur"] = row["ts"] - begin["ts"]
            if row.get("args"):
                begin["args"] = json.dumps(json.loads(begin.get("args") or "{}") | json.loads(row["args"]))
            removed["paired"] = removed.get("paired", 0) + 1
            gone.add(key(row))
            alias[key(row)] = key(begin)
    return [row for row in events if key(row) not in gone]


def put_in_lanes(rows: list[Row], end: dict[Key, int]) -> int:
    placed: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        row["lane"] = 0
        if not is_slice(row):
            continue
        while any(crosses(other, row, end) for other in placed[track(row), row["lane"]]):
            row["lane"] += 1
        placed[track(row), row["lane"]].append(row)
    return sum(row["lane"] > 0 for row in rows)


def crosses(first: Row, second: Row, end: dict[Key, int]) -> bool:
    return bool(first["ts"] < second["ts"] < end[key(first)] < end[key(second)])


def launches(rows: list[Row], result: Expected) -> Iterator[list[End]]:
    end = result.end
    calls: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] in HOST_KINDS and row.get("correlation"):
            calls[row["source"], row.get("host"), row.get("pid"), row["correlation"]].append(row)
    for row in rows:
        if row["kind"] not in WORK or not row.get("correlation"):
            continue
        found = calls.get((row["source"], row.get("host"), row.get("pid"), row["correlation"]))
        if not found and row.get("pid") is None:
            place = (row["source"], row.get("host"))
            known = [item for at, item in calls.items() if at[:2] == place and at[3] == row["correlation"]]
            found = known[0] if len(known) == 1 else None
        if found:
            outer = min(found, key=lambda call: (call["ts"], -end.get(key(call), call["ts"])))
            until = end.get(key(outer), outer["ts"])
            if any(call is not outer and (call["ts"] >= until or track(call) != track(outer)) for call in found):
                result.by_time.add(key(row))
                continue
            yield sorted([(key(outer), True), (key(row), False)])


def bound(rows: list[Row], links: list[Row], result: Expected, alias: dict[Key, Key]) -> Iterator[list[End]]:
    arrows: dict[Any, list[End]] = defaultdict(list)
    there = {key(row) for row in rows}
    for link in links:
        if link.get("event") is not None:
            at = (link["source"], link["event"])
            found: Key | None = alias.get(at, at)
        else:
            found = by_place(rows, link, result.end)
        if found in there:
            arrows[link["source"], link["link"], link["key"]].append((found, link["role"] == "out"))
        else:
            result.removed["unbound-link"] = result.removed.get("unbound-link", 0) + 1
    for ends in arrows.values():
        yield sorted(ends)


def by_place(rows: list[Row], link: Row, end: dict[Key, int]) -> Key | None:
    ts = link.get("ts")
    if ts is None:
        return None
    slices = [row for row in rows if is_slice(row) and track(row) == track(link)]  # in order
    if link.get("bind") == "next":
        return next((key(row) for row in slices if row["ts"] >= ts), None)
    open_ = [key(row) for row in slices if row["ts"] <= ts and (end[key(row)] > ts or row["ts"] == ts)]
    closing = [key(row) for row in slices if row["ts"] <= ts and end[key(row)] == ts]
    return (open_ or closing or [None])[-1]


@dataclass
class Flat:
    """A timeline as it came, put together from its batches."""

    rows: list[Row]
    edges: list[tuple[int, int, int, int]]  # ts, serial (0: an end), track, lane
    arrows: dict[int, list[End]]
    kinds: dict[int, str]
    peers: list[tuple[int, bool, int, int]]  # arrow, whether it leaves, serial at its other end, serial of its row
    ends: dict[int, list[tuple[int, bool, bool]]]  # arrow -> ts, whether it leaves, whether it is the last
    launched: list[tuple[int, bool]]  # serial at the other end, whether a call launched that row
    link_ends: int
    given: int


def flatten(batches: Iterable[TimelineBatch]) -> Flat:
    flat = Flat([], [], defaultdict(list), {}, [], defaultdict(list), [], 0, 0)
    for batch in batches:
        rows = plain(batch.batch)
        for row, number, serial in zip(rows, batch.track.tolist(), batch.serial.tolist(), strict=True):
            flat.rows.append(row | {"track_number": number, "serial": serial})
        edges = batch.edges
        for ts, at, number, lane in zip(
            edges.ts.tolist(), edges.row.tolist(), edges.track.tolist(), edges.lane.tolist(), strict=True
        ):
            flat.edges.append((ts, 0 if at < 0 else int(batch.serial[at]), number, lane))
        arrows = batch.arrows
        assert arrows.row.tolist() == sorted(arrows.row.tolist())
        columns = (arrows.row, arrows.arrow, arrows.out, arrows.kind, arrows.peer, arrows.last)
        for at, number, out, kind, peer, last in zip(*(column.tolist() for column in columns), strict=True):
            flat.ends[number].append((rows[at]["ts"], out, last))
            flat.arrows[number].append((key(rows[at]), out))
            assert flat.kinds.setdefault(number, ARROW_KINDS[kind]) == ARROW_KINDS[kind]
            flat.peers.append((number, out, peer, int(batch.serial[at])))
        flat.launched += zip(arrows.peer.tolist(), arrows.launched.tolist(), strict=True)
        flat.link_ends += batch.link_ends
        flat.given += len(batch) + batch.link_ends
    return flat


def check_peers(flat: Flat) -> None:
    """The peer of an arrival is a departure of its arrow (of several the first in time), and the other way round."""
    order = {row["serial"]: (row["ts"], place) for place, row in enumerate(flat.rows)}
    ends: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for arrow, out, _, serial in flat.peers:
        ends[arrow, out].append(serial)
    for arrow, out, peer, _ in flat.peers:
        others = ends[arrow, not out]
        if others:
            assert peer in others
            assert order[peer][0] == min(order[serial][0] for serial in others)
        else:
            assert peer == 0


def check_launched(flat: Flat) -> None:
    """Launched is where an arrow of a launch arrives."""
    work = {serial for arrow, out, _, serial in flat.peers if not out and flat.kinds[arrow] == "launch"}
    assert all(launched == (peer in work) for peer, launched in flat.launched)


def check_last(flat: Flat) -> None:
    """An arrival is the last one where its arrow has no end after it, or leaves next.

    Of ends at the next time none may arrive, in whatever order; those of one time are in the order of their rows.
    """
    for ends in flat.ends.values():
        for number, (ts, out, last) in enumerate(ends):
            later = ends[number + 1 :]
            then = [later[0]] if later and later[0][0] == ts else [end for end in later if end[0] == later[0][0]]
            assert last == (not out and all(leaves for _, leaves, _ in then))


def plain(batch: Batch) -> list[Row]:
    lanes = batch.column("lane").to_pylist()
    return [
        {name: value for name, value in row.items() if value is not None} | {"lane": lane}
        for row, lane in zip(batch.full().to_pylist(), lanes, strict=True)
    ]


def walk(timeline: Timeline, flat: Flat) -> dict[Key, int]:
    """Walks the edges with a stack for each lane, and returns when each slice was closed.

    Fails where an end finds nothing open, where time goes back, or where a slice is never closed.
    """
    rows = {row["serial"]: row for row in flat.rows}
    stacks: dict[tuple[int, int], list[Key]] = defaultdict(list)
    closed: dict[Key, int] = {}
    begun: list[int] = []
    now = -(1 << 63)
    for ts, serial, number, lane in flat.edges:
        assert ts >= now, "time goes back"
        now = ts
        if serial == 0:
            closed[stacks[number, lane].pop()] = ts
            continue
        row = rows[serial]
        assert (ts, number, lane) == (row["ts"], row["track_number"], row["lane"])
        assert timeline.tracks[number] == track(row)
        begun.append(serial)
        if is_slice(row):
            stacks[number, lane].append(key(row))
    assert begun == list(rows)
    assert not any(stacks.values()), "a slice is never closed"
    return closed
