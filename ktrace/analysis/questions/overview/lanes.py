"""How busy each lane of a trace is over time, and with what: exact sums for buckets of time, of any width.

    GPU 0 stream 7   [ gemm     ][ norm ]        [ gemm     ][ norm ]
    bucket           0         1         2         3         4
    busy             10 gemm   4 norm    0         10 gemm   4 norm      ns, and the name that takes most of it

A lane is busy while at least one of its slices is open. The time of a device belongs to the slice that was open first,
that of a thread to the one that was opened last (self time: `cudaLaunchKernel`, not the operator around it). So the
times of the names of a bucket add up to its busy time. Device work, ranges and marks (steps, phases) of one track are
lanes of their own, and so is the work of all streams of a device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ktrace.model.arrays import AnyArray, Bools, Float64, Int32, Int64, Structured
from ktrace.model.batch import DEVICE_KINDS
from ktrace.model.tracks import Track
from ktrace.naming.phases import phase_of
from ktrace.parallel.threads import prefetch
from ktrace.stages.order.nesting import enclosing
from ktrace.stages.select.wanted import step_of
from ktrace.store.joins import each_group, greatest_so_far, group_start_mask, ranges

#: What a lane shows: work, ranges, or steps and phases.
WORK, RANGE, MARK = range(3)

#: A row: nanoseconds, the numbers of a lane and of a name. `end` is OPEN where it isn't known.
ROW = np.dtype([("ts", "i8"), ("end", "i8"), ("lane", "i4"), ("name", "i4")])

#: The end of a slice that has none: that of the trace.
OPEN = 1 << 62

#: Rows of which the greatest end is kept, to find those of a part of the time.
ZONE = 8_192

#: The narrowest buckets cut the whole trace into at most so many.
BUCKETS = 1 << 15

#: Cells that are kept; with more, buckets become twice as wide.
CELLS = 1 << 20


class Lane(NamedTuple):
    """A lane: the work, ranges or marks of a track; that of a device has no other columns than its own."""

    track: Track
    shows: int


class LaneName(NamedTuple):
    """What slices are called, with their kind."""

    name: str
    kind: str


class Lanes:
    """The lanes of tracks and names, by number."""

    def __init__(self, tracks: Sequence[Track], names: Sequence[LaneName]) -> None:
        self.names = names
        on_device = np.array([track.is_on_device for track in tracks], np.bool_)
        work = np.array([name.kind in DEVICE_KINDS for name in names], np.bool_)
        ranges = np.array([name.kind == "range" for name in names], np.bool_)
        marks = np.array(
            [step_of(name.name) is not None or phase_of(name.name) is not None for name in names], np.bool_
        )
        host = np.where(marks, MARK, np.where(ranges, RANGE, WORK))
        device = np.where(marks & ~work, MARK, np.where(work, WORK, RANGE))
        self._shows = np.stack([host, device]).astype(np.int32)
        self._on_device = on_device.astype(np.int8)
        self.all = [Lane(track, shows) for track in tracks for shows in (WORK, RANGE, MARK)]
        #: The lanes whose time belongs to what was opened last: the work of threads.
        self.nested = np.array([one.shows == WORK and not one.track.is_on_device for one in self.all], np.bool_)
        devices: dict[Track, int] = {}
        self.whole = np.full(len(self.all), -1, np.int32)
        for number, lane in enumerate(tuple(self.all)):
            if lane.track.is_on_device and lane.shows == WORK:
                track = lane.track
                whole = Track(track.source, track.host, None, None, track.device)
                if whole not in devices:
                    devices[whole] = len(self.all)
                    self.all.append(Lane(whole, WORK))
                self.whole[number] = devices[whole]
        self.nested = np.concatenate([self.nested, np.zeros(len(self.all) - len(self.nested), np.bool_)])

    def lane_numbers(self, track: Int32, name: Int32) -> Int32:
        """The lane of slices with these tracks and names."""
        lane: Int32 = track * np.int32(3) + self._shows[self._on_device[track], name]
        return lane

    def with_devices(self, rows: Structured) -> Structured:
        """The rows, by lane, and once more those that are work of a device, for the lane of the whole device."""
        whole = self.whole[np.minimum(rows["lane"], len(self.whole) - 1)]
        again = rows[whole >= 0].copy()
        again["lane"] = whole[whole >= 0]
        both = np.concatenate([rows, again])
        return both[np.argsort(both["lane"].astype(np.int16 if len(self.all) < 1 << 15 else np.int32), kind="stable")]


class BusyPieces:
    """When lanes are busy, found from rows in the order of time, some at a time."""

    def __init__(self, lanes: int) -> None:
        self._reached = np.full(lanes, -OPEN, np.int64)

    def feed(self, rows: Structured, last: int) -> Structured:
        """What each row adds to the busy time of its lane: the same rows, from where no earlier one is open.

        They are sorted by lane, those of one lane by time. An `end` that isn't known is `last`.
        """
        end = np.where(rows["end"] >= OPEN, last, rows["end"])
        lane, ts, begun = rows["lane"], rows["ts"], self._reached[rows["lane"]]
        reached = np.maximum(greatest_so_far(end, (lane,)), begun)
        before = np.where(group_start_mask((lane,)), begun, np.roll(reached, 1))
        self._reached[lane] = reached  # that of the last row of each lane stays
        rows["ts"], rows["end"] = np.minimum(np.maximum(ts, before), np.maximum(end, ts)), end
        return rows


class Nested:
    """What slices inside others take from these, found from rows in the order of time, some at a time."""

    def __init__(self) -> None:
        self._open = np.zeros(0, ROW)

    def feed(self, rows: Structured, last: int) -> Structured:
        """The time of each row that isn't that of a slice around it, as rows with the lane and the name of that one.

        The rows are sorted by lane, those of one lane by time. An `end` that isn't known is `last`.
        """
        open_before = len(self._open)
        both = np.concatenate([self._open, rows])
        order = np.argsort(both["lane"], kind="stable")
        both = both[order]
        both["end"] = np.where(both["end"] >= OPEN, last, both["end"])
        ts, end = (np.ascontiguousarray(both[name]) for name in ("ts", "end"))
        around = enclosing(np.ascontiguousarray(both["lane"]), ts, end)
        inside = np.flatnonzero((around >= 0) & (order >= open_before))
        since, outer, taken = ts[inside], around[inside], [np.zeros(0, ROW)]
        while len(inside):  # once, but for slices that outlast the one around them
            until = np.minimum(end[inside], end[outer])
            piece = both[outer]
            piece["ts"], piece["end"] = since, np.maximum(until, since)
            taken.append(piece)
            outer = around[outer]
            more = (until < end[inside]) & (outer >= 0)
            inside, outer, since = inside[more], outer[more], np.maximum(until, since)[more]
        latest = int(rows["ts"].max(initial=0))
        self._open = both[end > latest]
        return np.concatenate(taken)


@dataclass
class LaneCells:
    """Time and slices of each lane, bucket and name, sorted by these: `time` in ns, `count` of those that begin in it.

    Bucket n is the time from `origin + (n << shift)` on.
    """

    origin: int
    shift: int
    lane: Int32
    bucket: Int32
    name: Int32
    time: Int64
    count: Int64

    #: The columns, all of one length.
    COLUMNS: ClassVar = ("lane", "bucket", "name", "time", "count")

    def __len__(self) -> int:
        return len(self.lane)

    @property
    def columns(self) -> tuple[AnyArray, ...]:
        """The columns, by `COLUMNS`."""
        return tuple(getattr(self, name) for name in self.COLUMNS)

    def where(self, rows: Bools) -> LaneCells:
        """The cells where a mask is true, or at the given indices."""
        return LaneCells(self.origin, self.shift, *(column[rows] for column in self.columns))

    @classmethod
    def none(cls, origin: int, shift: int) -> LaneCells:
        """No cells."""
        empty = np.zeros(0, np.int32)
        return cls(origin, shift, empty, empty, empty, np.zeros(0, np.int64), np.zeros(0, np.int64))

    def with_more(self, *parts: LaneCells) -> LaneCells:
        """Merges with other cells of the same buckets: equal lane, bucket and name are added up."""
        lane, bucket, name, time, count = map(
            np.concatenate, zip(*(one.columns for one in (self, *parts)), strict=True)
        )
        buckets, names = (int(column.max(initial=0)) + 1 for column in (bucket, name))
        order = np.argsort((lane.astype(np.int64) * buckets + bucket) * names + name, kind="stable")
        lane, bucket, name = lane[order], bucket[order], name[order]
        first = np.flatnonzero(group_start_mask((lane, bucket, name)))
        if not len(first):
            return LaneCells.none(self.origin, self.shift)
        sums = (np.add.reduceat(column[order], first) for column in (time, count))
        return LaneCells(self.origin, self.shift, lane[first], bucket[first], name[first], *sums)

    def wider(self, shift: int) -> LaneCells:
        """The same in buckets of another width, a multiple of this one."""
        bucket = self.bucket >> np.int32(shift - self.shift)
        same = LaneCells(self.origin, shift, self.lane, bucket, self.name, self.time, self.count)
        return LaneCells.none(self.origin, shift).with_more(same)


def cells_of(
    rows: Structured,
    pieces: Structured,
    origin: int,
    shift: int,
    within: tuple[int, int],
    taken: Structured | None = None,
) -> LaneCells:
    """The cells of rows and of what they add to the busy time, in the part of the time `within` (ns).

    `taken` is what slices inside others take from the time of these.
    """
    start, stop = within
    count = len(pieces)
    pieces = pieces if taken is None else np.concatenate([pieces, taken])
    sign = np.where(np.arange(len(pieces)) < count, 1, -1)
    since, end = np.maximum(pieces["ts"], start), np.minimum(pieces["end"], stop)
    some = end > since
    since, end, lane, name = since[some], end[some], pieces["lane"][some], pieces["name"][some]
    sign = sign[some]
    first, last = (since - origin) >> shift, (end - 1 - origin) >> shift
    width = np.int64(1) << shift
    more = np.flatnonzero(last > first)
    between = (last - first - 1)[more]
    again = np.repeat(more, between)
    places = (np.arange(len(since)), more, again)
    buckets = (first, last[more], ranges(first[more] + 1, between))
    until = np.where(last > first, origin + ((first + 1) << shift), end)
    times = (until - since, (end - (origin + (last << shift)))[more], np.full(len(again), width))
    begun = rows[(rows["ts"] >= start) & (rows["ts"] < stop)]
    place, bucket, time = (np.concatenate(parts) for parts in (places, buckets, times))
    return LaneCells.none(origin, shift).with_more(
        LaneCells(
            origin,
            shift,
            lane[place],
            bucket.astype(np.int32),
            name[place],
            time * sign[place],
            np.zeros(len(place), np.int64),
        ),
        LaneCells(
            origin,
            shift,
            begun["lane"],
            ((begun["ts"] - origin) >> shift).astype(np.int32),
            begun["name"],
            np.zeros(len(begun), np.int64),
            np.ones(len(begun), np.int64),
        ),
    )


def with_pieces(
    parts: Iterable[Structured], lanes: Lanes, stop: int
) -> Iterator[tuple[Structured, Structured, Structured]]:
    """The rows of each part by lane, what they add to the busy time, and what slices inside others take from these."""
    pieces, nested = BusyPieces(len(lanes.all)), Nested()
    for part in parts:
        rows = lanes.with_devices(part)
        added, inside = pieces.feed(rows.copy(), stop), lanes.nested[rows["lane"]]
        added["ts"][inside] = rows["ts"][inside]
        yield rows, added, nested.feed(rows[inside], stop)


def all_cells(parts: Iterator[Structured], lanes: Lanes, span: tuple[int, int], most: int = CELLS) -> LaneCells:
    """The cells of rows in rising parts of time, in buckets as narrow as `BUCKETS` and `most` cells allow."""
    start, stop = span
    shift = max(0, int(stop - start - 1).bit_length() - (BUCKETS.bit_length() - 1))
    cells, waiting = LaneCells.none(start, shift), list[LaneCells]()
    for rows, added, taken in prefetch(with_pieces(parts, lanes, stop)):
        waiting.append(cells_of(rows, added, start, cells.shift, span, taken))
        if sum(map(len, waiting)) > most // 2:
            cells = cells.with_more(*waiting)
            waiting.clear()
            while len(cells) > most // 2 and cells.shift < stop.bit_length():
                cells = cells.wider(cells.shift + 1)
    return cells.with_more(*waiting)


#: A reading of a counter.
READING = np.dtype([("ts", "i8"), ("value", "f8"), ("series", "i4")])


class Envelope(NamedTuple):
    """The least and greatest reading of each counter and bucket, sorted by these; buckets are those of `LaneCells`."""

    origin: int
    shift: int
    series: Int32
    bucket: Int32
    low: Float64
    high: Float64

    @classmethod
    def from_readings(cls, readings: Structured, origin: int, shift: int) -> Envelope:
        """The envelope of counter readings."""
        bucket = ((readings["ts"] - origin) >> shift).astype(np.int32)
        value = np.ascontiguousarray(readings["value"])
        return cls(origin, shift, np.ascontiguousarray(readings["series"]), bucket, value, value).joined()

    def joined(self, *others: Envelope) -> Envelope:
        """Merges with others of the same buckets: the least and the greatest value of each series and bucket."""
        series, bucket, low, high = (
            np.concatenate(parts) for parts in zip(*((self[2:], *(one[2:] for one in others))), strict=True)
        )
        order = np.lexsort((bucket, series))
        first = np.flatnonzero(group_start_mask((series[order], bucket[order])))
        if not len(first):
            return Envelope(self.origin, self.shift, series, bucket, low, high)
        least, greatest = np.minimum.reduceat(low[order], first), np.maximum.reduceat(high[order], first)
        return Envelope(self.origin, self.shift, series[order[first]], bucket[order[first]], least, greatest)

    def wider(self, shift: int) -> Envelope:
        """The same in buckets of another width, a multiple of this one."""
        return self._replace(shift=shift, bucket=self.bucket >> np.int32(shift - self.shift)).joined()


class Buckets(NamedTuple):
    """What a lane does in its buckets, those without slices left out: busy ns, slices that begin, heaviest name."""

    bucket: Int32
    busy: Int64
    begun: Int64
    name: Int32


def by_lane(cells: LaneCells) -> Iterator[tuple[int, Buckets]]:
    """Yields each lane and its buckets."""
    if not len(cells):
        return
    first = np.flatnonzero(group_start_mask((cells.lane, cells.bucket)))
    busy, count = (np.add.reduceat(column, first) for column in (cells.time, cells.count))
    group = np.repeat(np.arange(len(first)), np.diff([*first.tolist(), len(cells)]))
    order = np.lexsort((cells.name, -cells.count, -cells.time, group))
    name = cells.name[order[first]]
    lane, bucket = cells.lane[first], cells.bucket[first]
    for rows in each_group((lane,)):
        yield int(lane[rows.start]), Buckets(bucket[rows], busy[rows], count[rows], name[rows])
