"""Pairs begins and ends that a source wrote apart: an end closes the innermost begin of its track.

Timeline writers get pairs from `timeline`. For table writers `pair_halves` is a stage of its own:

    batches in any order ──► all but halves as they come, then the slices of the halves

A link on an end becomes one on the slice; where a source has halves, links that name an event wait like these.

event  id 16  begin            event  id 16  slice
event  id 21  end        ──►
link   event 21                link   event 16
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Int32, Int64, UInt16
from ktrace.model.batch import Batch, arrow_schema
from ktrace.report import Ledger, Report
from ktrace.stages.order.sweep import Finisher, pieces
from ktrace.store import RANGE_ROWS, SPILL_BYTES, BatchSpool, Runs, Spill, ranges
from ktrace.store.events import GONE, UNFINISHED, EventStore, Tally, values
from ktrace.store.joins import find, group_start_mask
from ktrace.store.vocabulary import TrackIndex, Vocabularies


class Matched(NamedTuple):
    """Positions of halves in their order: pairs, and halves without another half."""

    begins: Int64
    ends: Int64
    lone_begins: Int64
    lone_ends: Int64


def pair(store: EventStore, spill: Spill, size: int) -> tuple[Runs, Tally]:
    """Sets the end of each begin in `store.keys`, and marks the ends as gone.

    Returns the pairs as runs (time and place of the half that begins, place of the one that ends),
    and the tally of the ends without a begin. Halves in one nanosecond keep the order of their ids.
    """
    pairs = Runs(spill, "pairs", [("ts", "i8"), ("begin", "i8"), ("end", "i8")])
    keys = store.keys.rows
    flags: UInt16 = keys["flags"]
    lone = Tally()
    waiting = np.empty(0, store.halves.rows.dtype)
    for part in store.halves.parts(size):
        rows = np.concatenate([waiting, part])
        rows = rows[np.lexsort((rows["id"], rows["ts"], rows["track"]))]
        matched = match(rows["track"], rows["end"])
        begins, ends = rows[matched.begins], rows[matched.ends]
        begun, place, is_end = begins["place"], rows["place"], rows["end"]
        keys["end"][begun] = ends["ts"]
        flags[begun] &= ~np.uint16(UNFINISHED)
        flags[place[is_end]] |= GONE
        pairs.append(ts=begins["ts"], begin=begins["place"], end=ends["place"])
        lone.add(rows["id"][matched.lone_ends].tolist())
        waiting = rows[matched.lone_begins]
    return pairs, lone


def match(track: Int32, is_end: Bools) -> Matched:
    """Pairs begins and ends like brackets on each track. Rows must be grouped by track and in order of time."""
    position = np.arange(len(track))
    lone_end = _lone_ends(track, is_end)
    kept = position[~lone_end]
    track, is_end = track[kept], is_end[kept]
    level = _level(track, is_end) + is_end  # the same for a begin and its end
    order = np.lexsort((np.arange(len(kept)), level, track))
    first, second = order[:-1], order[1:]
    closes = (track[first] == track[second]) & (level[first] == level[second]) & is_end[second] & ~is_end[first]
    begins, ends = first[closes], second[closes]
    alone = ~is_end
    alone[begins] = False
    return Matched(kept[begins], kept[ends], kept[alone], position[lone_end])


def _level(track: Int32, is_end: Bools) -> Int64:
    """How many begins are open after each row; below 0 after an end without a start."""
    total = np.cumsum(np.where(is_end, -1, 1))
    start = np.flatnonzero(group_start_mask((track,)))
    before = np.concatenate([[0], total[:-1]])[start]
    result: Int64 = total - np.repeat(before, np.diff(np.append(start, len(track))))
    return result


def _lone_ends(track: Int32, is_end: Bools) -> Bools:
    """Ends at which nothing is open: the level of the track is lower there than anywhere before."""
    if not len(track):
        return np.zeros(0, np.bool_)
    level = np.minimum(_level(track, is_end), 0)
    start = np.flatnonzero(group_start_mask((track,)))
    number = np.repeat(np.arange(len(start)), np.diff(np.append(start, len(track))))
    lowest = np.minimum.accumulate(level - number * (len(track) + 1))  # a band for each track, below the last one's
    lower = np.empty(len(track), np.bool_)
    lower[1:] = lowest[1:] < lowest[:-1]
    lower[start] = level[start] < 0
    return lower


class EndLinks:
    """Keeps links that name an event until it is known which events are ends of slices."""

    def __init__(self, spill: Spill, words: Vocabularies) -> None:
        self._spill = spill
        self._words = words
        self._waiting = BatchSpool(spill, "end_links")
        self._starts = [0]
        self._on = Runs(spill, "on_ends", [("event", "i8"), ("source", "i4"), ("number", "i8")])

    def keep(self, columns: pa.RecordBatch) -> None:
        """Keeps links that name an event."""
        event, _ = values(columns, "event")
        source = self._words.encode("source", columns.column("source"), arrow_schema("links").field("source").type)
        first = self._starts[-1]
        self._on.append(event=event, source=source.to_numpy(), number=np.arange(first, first + len(event)))
        self._waiting.append(columns)
        self._starts.append(first + len(event))

    def rest(self, store: EventStore, pairs: Runs, sources: Int32, size: int) -> Iterator[Batch]:
        """Yields the links, moved from ends to begins. `sources` is the number of the source of each track."""
        event = np.zeros(len(self._on), np.int64)
        moved = np.zeros(len(self._on), np.bool_)
        ends = Runs(self._spill, "ids_of_ends", [("end", "i8"), ("source", "i4"), ("begin", "i8")])
        keys = store.keys.rows
        for _, rows in pairs.blocks(size):
            begin, end = rows["begin"], rows["end"]
            track: Int32 = keys["track"][end]
            ends.append(end=keys["id"][end], source=sources[track], begin=keys["id"][begin])
        for low, high in ranges(sorted({*ends.cuts(size), *self._on.cuts(size)})):
            asking, ends_here = self._on.rows[self._on.between(low, high)], ends.rows[ends.between(low, high)]
            if len(asking):
                match = find((asking["event"], asking["source"]), (ends_here["end"], ends_here["source"]))
                there = match >= 0
                event[asking["number"][there]] = ends_here["begin"][match[there]]
                moved[asking["number"][there]] = True
        for number in range(len(self._waiting)):
            columns, here = self._waiting.get(number), slice(*self._starts[number : number + 2])
            if moved[here].any():
                new = pc.if_else(pa.array(moved[here]), pa.array(event[here]), columns.column("event"))
                columns = columns.set_column(columns.schema.get_field_index("event"), "event", new)
            yield Batch("links", columns)


def pair_halves(batches: Iterable[Batch], report: Report, *, range_rows: int = RANGE_ROWS) -> Iterator[Batch]:
    """Yields all batches; halves wait for the end of the source and become slices, in the order of their begins.

    A begin without an end keeps `dur` null; an end without a start is skipped.
    """
    spill = Spill(SPILL_BYTES)
    try:
        yield from _paired(batches, report, spill, range_rows)
    finally:
        spill.close()


def _paired(batches: Iterable[Batch], report: Report, spill: Spill, size: int) -> Iterator[Batch]:
    words = Vocabularies()
    tracks = TrackIndex(words)
    store: EventStore | None = None
    links = EndLinks(spill, words)
    passed = 0
    for batch in batches:
        unpaired = batch
        if batch.record == "events" and batch.has("half"):
            is_half = batch.column("half").is_valid()
            if pc.any(is_half).as_py():
                if store is None:
                    store = EventStore(spill, words, tracks)
                store.add(batch.columns.filter(is_half))
                unpaired = Batch("events", batch.columns.filter(pc.invert(is_half)))
        if batch.record != "catalog":
            passed += len(unpaired)
        if store is not None and batch.record == "links" and batch.has("event"):
            named = batch.column("event").is_valid()
            if pc.any(named).as_py():
                links.keep(batch.columns.filter(named))
                unpaired = Batch("links", batch.columns.filter(pc.invert(named)))
        if len(unpaired):
            yield unpaired
    if store is not None:
        store.flush()
        ledger = report.stage("pair")
        ledger.taken = passed + len(store.keys)
        ledger.given = passed
        pairs, lone_ends = pair(store, spill, size)
        yield from _slices(store, pairs, lone_ends, report, ledger, size)
        yield from links.rest(store, pairs, tracks.sources(), size)


def _slices(
    store: EventStore, pairs: Runs, lone_ends: Tally, report: Report, ledger: Ledger, size: int
) -> Iterator[Batch]:
    if len(pairs):
        ledger.removed["paired"] = len(pairs)
    for kind, tally in (*store.removed.items(), ("end-without-begin", lone_ends)):
        tally.report(report, kind, ledger)
    for low, high in ranges(store.keys.cuts(size)):
        place = store.keys.between(low, high)
        keys = store.keys.rows[place]
        left = keys["flags"] & GONE == 0
        rows = np.zeros(int(left.sum()), [("ts", "i8"), ("end", "i8"), ("place", "i8")])
        rows["place"] = place[left]
        for name in ("ts", "end"):
            rows[name] = keys[name][left]
        if len(rows):
            ledger.given += len(rows)
            finisher = Finisher(store, pairs, rows, low, high)
            yield from (finisher.finished(*piece).batch() for piece in pieces(len(rows), store.at_once(size)))
