"""The stage `order`, which sorts, pairs, nests and links all events of a trace once for every timeline writer.

    batches in any order ──► spilled to temporary Arrow files above 64 MB ──► Timeline

A `Timeline` knows the whole catalog, the span and the tracks before it gives its first batch. Its batches
contain the events in ranges of time, sorted per track by (ts, -dur, id); halves are paired, each slice has
its lane, arrows are attached to rows, and launches are joined with their work. Writers never sort, pair or wait.

    pairing    makes slices of begins and ends that the source wrote apart; for table writers, too
    links      arrows, of the source and from calls to the work they launched, and the events and slices of their ends
    sweep      sorts range after range (of many events at one time, part by part), assigns lanes, and completes the rows
    graph_lanes  puts the work of many streams of graphs on few tracks, where that is wanted
    nesting    how the slices of a track nest, their lanes, and which one encloses a time

Events wait in `ktrace.store.events` meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int32, Int64, Structured, UInt8
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.catalog import Catalog
from ktrace.model.tracks import Track
from ktrace.report import Report
from ktrace.stages.order.graph_lanes import fold
from ktrace.stages.order.links import (
    LinkStore,
    SliceAttacher,
    attach_by_event,
    find_last,
    find_peers,
    join_launches,
    new_ends,
    on_rows,
)
from ktrace.stages.order.pairing import pair
from ktrace.stages.order.sweep import Finisher, OnDevice, OpenEnds, Ordered, pieces, swept
from ktrace.store import RANGE_ROWS, SPILL_BYTES, Runs, Spill
from ktrace.store.events import LAUNCHED, EventStore, GatheredRows
from ktrace.store.vocabulary import TrackIndex, Vocabularies


class Edges(msgspec.Struct, frozen=True):
    """Begins and ends of slices, and points, in the order in which a timeline shows them.

    The arrays have the same length. On each (track, lane) the begins and ends nest like brackets: an end is
    always that of the innermost open slice, and comes before a begin in the same nanosecond.
    Slices that end in a later range of time have their end there. Device work without lanes is a point.

    ts      int64 ns
    row     int32 row of the batch that begins or is a point; -1 for an end
    track   int32 index into `Timeline.tracks`
    lane    int32 lane of the track
    """

    ts: Int64
    row: Int32
    track: Int32
    lane: Int32


class Arrows(msgspec.Struct, frozen=True):
    """Ends of arrows on the rows of a batch, sorted by row. The arrays have the same length.

    row     int32 row of the batch
    arrow   int64 number of the arrow, from 1, unique in the timeline; its ends share it
    out     bool: whether the arrow leaves here; a middle step of a chain arrives (False)
    kind    uint8 index into `ktrace.stages.order.links.ARROW_KINDS`
    peer    int64 serial of the row at the other end: for an arrival where the arrow leaves, for a departure where it
            first arrives; 0 where there is no other end
    last    bool: whether this is the last arrival before the arrow leaves again
    work    bool: whether the row at the other end is one of `TimelineBatch.work`
    launched bool: whether a call launched that row by `correlation`
    """

    row: Int32
    arrow: Int64
    out: Bools
    kind: UInt8
    peer: Int64
    last: Bools
    work: Bools
    launched: Bools


class TimelineBatch(msgspec.Struct, frozen=True, dict=True):
    """Events of a range of time.

    rows    events of all kinds, sorted by (ts, -dur, track, id)
    lane    the lane of each
    track   the index of its track in `Timeline.tracks`
    serial  a number that is unique in the timeline, from 1, in no order
    work    whether it is device work (kernel, memcpy, memset, graph) whose time was measured, on a track with a device
            or stream; without device lanes also a range on a stream
    link_ends  how many rows of the record `links` the arrows of this batch represent

    A slice whose `dur` is null has no known end: its edge ends with the trace.
    `batch` has all columns of all rows; `column` and `taken` cost less where some columns or rows are enough.
    """

    rows: GatheredRows
    lane: Int32
    track: Int32
    serial: Int64
    work: Bools
    edges: Edges
    arrows: Arrows
    link_ends: int

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def batch(self) -> Batch:
        """All rows with all columns, including `lane`."""
        return Batch("events", self.rows.batch().columns.append_column("lane", pa.array(self.lane)))

    @cached_property
    def durations(self) -> Int64:
        """The column `dur` in ns, 0 where it is null."""
        result: Int64 = self.column("dur").fill_null(0).to_numpy(zero_copy_only=False)
        return result

    def has(self, name: str) -> bool:
        """Whether the column is there; one that isn't is null in all rows."""
        return name in self.rows.names

    def column(self, name: str) -> pa.Array:
        """The column of all rows; all null where no row has it."""
        if self.has(name):
            return self.rows.column(name)
        return pa.nulls(len(self), arrow_schema("events").field(name).type)

    def taken(self, rows: Int64) -> Batch:
        """The given rows with the columns that any of them has, except `lane`."""
        return self.rows.batch(rows)


class Timeline(msgspec.Struct):
    """All events of a trace in order. `start` and `end` span all slices and points, in ns (0, 0 if there are none).

    From `first_lane` on, `tracks` are lanes of graphs: they have no stream, and each of their rows has its own.
    """

    catalog: Catalog
    tracks: list[Track]
    start: int
    end: int
    first_lane: int
    _batches: Callable[[], Iterator[TimelineBatch]] = msgspec.field(default=lambda: iter(()))
    _links: Callable[[], Iterator[pa.RecordBatch]] = msgspec.field(default=lambda: iter(()))

    def batches(self) -> Iterator[TimelineBatch]:
        """The events in rising ranges of time. To be taken once."""
        return self._batches()

    def links(self) -> Iterator[Batch]:
        """All links as they came, also those without an arrow. To be taken before the last of `batches`."""
        return (Batch("links", columns) for columns in self._links())


def order(
    batches: Iterable[Batch],
    report: Report,
    *,
    device_lanes: bool = True,
    graph_lanes: bool = False,
    spill_bytes: int = SPILL_BYTES,
    range_rows: int = RANGE_ROWS,
) -> Timeline:
    """Reads all batches and returns them as a timeline.

    Summaries must have passed through `layout` before. Above `spill_bytes` of Arrow data, batches go to a
    temporary folder, which is removed when the last batch was taken or the timeline is garbage collected.
    A batch of the timeline has about `range_rows` rows. Without `device_lanes` the rows that are
    `TimelineBatch.work` may overlap: all are on lane 0 and have no ends. With `graph_lanes` the streams of graphs are
    folded if they are many (`ktrace.stages.order.graph_lanes`).
    """
    spill = Spill(spill_bytes)
    try:
        return _order(batches, report, spill, range_rows, device_lanes, graph_lanes)
    except BaseException:
        spill.close()
        raise


def _order(
    batches: Iterable[Batch], report: Report, spill: Spill, size: int, device_lanes: bool, graph_lanes: bool
) -> Timeline:
    words = Vocabularies()
    index = TrackIndex(words)
    catalog, store, links = Catalog(), EventStore(spill, words, index), LinkStore(spill, words)
    for batch in batches:
        if batch.record == "catalog":
            catalog.add(batch)
        elif batch.record == "events":
            store.add(batch.columns)
        elif batch.record == "links":
            links.add(batch)
        else:
            raise ValueError(f"order doesn't take {batch.record}: they must pass through layout before")
    store.flush()
    links.flush()
    ledger = report.stage("order")
    ledger.taken = len(store.keys) + len(links)

    pairs, lone_ends = pair(store, spill, size)
    start, end = store.span(size)
    unfinished = store.end_unfinished(end, size)
    ends = new_ends(spill)
    tracks = index.tracks()
    on_device = OnDevice.from_tracks(tracks, with_ranges=not device_lanes)
    with ThreadPoolExecutor(1) as thread:
        joined = thread.submit(join_launches, store, tracks, ends, size)
        if len(links):  # their arrows and ends come after those of launches
            links.number_arrows(joined.result() + 1, index, size)
            attach_by_event(links, store, pairs, ends, spill, index.sources(), size)
        ordered = swept(
            store, SliceAttacher(links, ends, len(tracks)), spill, size, None if device_lanes else on_device
        )
        report.launches_joined += joined.result()
    find_peers(ends, spill, size)

    for kind, tally in (*store.removed.items(), ("end-without-begin", lone_ends), ("unbound-link", links.unbound)):
        tally.report(report, kind, ledger)
    if len(pairs):
        ledger.removed["paired"] = len(pairs)
    ledger.given = len(ordered.rows) + len(links) - links.unbound.rows
    report.events_drawn += len(ordered.rows)
    for kind, rows in (("lane", ordered.moved), ("unfinished", unfinished)):
        if rows:
            report.issue(kind, "timeline", rows=rows)

    lanes = fold(store, ordered, tracks, spill, size) if graph_lanes else []
    on_device = OnDevice.from_tracks([*tracks, *lanes], with_ranges=not device_lanes)
    shown, numbers = _shown([*tracks, *lanes], ordered)
    at_once = store.at_once(size)
    ordered_batches = _OrderedBatches(store, pairs, ordered, ends, numbers, on_device, spill, at_once)
    first_lane = int(np.count_nonzero(numbers[: len(tracks)] >= 0))
    return Timeline(catalog, shown, start, end, first_lane, ordered_batches.batches, links.rows)


def _shown(tracks: list[Track], ordered: Ordered) -> tuple[list[Track], Int32]:
    """The tracks that have events, and for each track its number among these."""
    used = np.zeros(len(tracks), np.bool_)
    for number in range(ordered.rows.runs):
        used[ordered.rows.run(number)["track"]] = True
    numbers = np.where(used, np.cumsum(used) - 1, -1).astype(np.int32)
    return [track for track, shown in zip(tracks, used, strict=True) if shown], numbers


class _OrderedBatches(msgspec.Struct):
    """Yields the batches of a timeline, range after range."""

    store: EventStore
    pairs: Runs
    ordered: Ordered
    ends: Runs
    tracks: Int32
    on_device: OnDevice
    spill: Spill
    size: int

    def batches(self) -> Iterator[TimelineBatch]:
        opened = OpenEnds()
        serial = 1
        bounds, firsts = self.ordered.bounds, self.ordered.firsts
        try:
            for number, (low, high) in enumerate(bounds):
                rows = self.ordered.rows.rows[firsts[number] : firsts[number + 1]]
                finisher = Finisher(self.store, self.pairs, rows, low, high)
                row, ends = on_rows(self.ends, low, high, rows["place"])
                arrows = row, ends, find_last(ends)
                for start, stop in pieces(len(rows), self.size):
                    until = high if number + 1 < len(bounds) else None
                    if stop < len(rows):  # where events begin together, those that take no time end with their piece
                        until = int(rows["ts"][stop]) + int(rows["ts"][stop] == rows["ts"][stop - 1])
                    piece = rows[start:stop]
                    edges = Edges(*opened.edges(piece, self.tracks[piece["track"]], serial, until))
                    yield self._batch(rows, finisher, arrows, edges, start, stop)
                    serial += stop - start
        finally:
            self.spill.close()

    def _batch(
        self,
        rows: Structured,
        finisher: Finisher,
        arrows: tuple[Int32, Structured, Bools],
        edges: Edges,
        start: int,
        stop: int,
    ) -> TimelineBatch:
        piece = rows[start:stop]
        place = np.ascontiguousarray(piece["place"])
        row, ends, last = arrows
        first, after = np.searchsorted(row, (start, stop))
        row, ends, last = row[first:after] - start, ends[first:after], last[first:after]
        arrow, out, kind = (ends[name].copy() for name in ("arrow", "out", "kind"))
        peer = self._peers(ends["peer"])
        return TimelineBatch(
            finisher.finished(start, stop),
            np.ascontiguousarray(piece["lane"]),
            self.tracks[piece["track"]],
            place + 1,
            self.on_device.rows(self.store.keys.rows["flags"][place], piece["track"]),
            edges,
            Arrows(row, arrow, out, kind, ends["peer"] + 1, last, *peer),
            int(np.count_nonzero(ends["link"])),
        )

    def _peers(self, places: Int64) -> tuple[Bools, Bools]:
        """Whether the events at these places (-1: none) are `TimelineBatch.work`, and whether calls launched them."""
        keys = self.store.keys.rows
        if not len(keys):
            return np.zeros(len(places), np.bool_), np.zeros(len(places), np.bool_)
        flags, there = keys["flags"][places], places >= 0
        return self.on_device.rows(flags, keys["track"][places]) & there, (flags & LAUNCHED != 0) & there
