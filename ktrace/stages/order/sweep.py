"""Sorts all events by time, range after range, assigns lanes, attaches arrows, and completes the rows.

Arrows go to the slices around their time; a begin gets the duration and arguments of its end. Rows have the order in
which a timeline shows them.

Sorts the events of a range of time by (ts, -dur, track, id); where very many begin together, part by part.

a range of the usual size                              ──►  one part
8 M events at one time ──► cut by samples of them      ──►  parts of about 8 times the usual size
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Int32, Int64, Structured, UInt16
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.json_text import dump_json, load_object
from ktrace.model.tracks import Track
from ktrace.stages.order.links import SliceAttacher
from ktrace.stages.order.nesting import Slices, no_slices
from ktrace.store import SAMPLES_PER_PART, Runs, Spill, ranges
from ktrace.store.events import GONE, LAID_OUT, RANGE, SLICE, WORK, EventStore, GatheredRows

#: Ranges of more than so many times the usual rows are sorted in parts, each of about so many.
LARGE = 8

#: The places and keys of events, in order.
Part = tuple[Int64, Structured]


def in_order(store: EventStore, low: int | None, high: int | None, spill: Spill, size: int) -> Iterable[Part]:
    """The events of a range that aren't gone, in order, in parts; may be iterated more than once."""
    spans = list(store.keys.spans(low, high, size))
    if sum(stop - start for start, stop in spans) > LARGE * size:
        return _InParts(store, spans, spill, size)
    place = store.keys.between(low, high)
    keys = store.keys.rows[place]
    kept = keys["flags"] & GONE == 0
    return [_sorted(place, keys) if kept.all() else _sorted(place[kept], keys[kept])]


class _InParts:
    """The events of a large range, whose rows stand at `spans`."""

    def __init__(self, store: EventStore, spans: list[tuple[int, int]], spill: Spill, size: int) -> None:
        self._keys = keys = store.keys.rows
        every = max(1, LARGE * size // SAMPLES_PER_PART)
        samples = np.concatenate([keys[start:stop:every] for start, stop in spans])
        cuts = samples[_order(samples)][SAMPLES_PER_PART::SAMPLES_PER_PART]
        self._count = len(cuts) + 1
        self._parts = Runs(spill, f"range_at_{spans[0][0]}", [("part", "i8"), ("place", "i8")])
        for start, stop in spans:
            place = start + np.flatnonzero(keys["flags"][start:stop] & GONE == 0)
            self._parts.append(part=_part_numbers(cuts, keys[place]), place=place)

    def __iter__(self) -> Iterator[Part]:
        for part in range(self._count):
            place = np.ascontiguousarray(self._parts.rows["place"][self._parts.between(part, part + 1)])
            place = place[np.argsort(self._keys["ts"][place], kind="stable")]
            yield _sorted(place, self._keys[place])


def _part_numbers(cuts: Structured, keys: Structured) -> Int64:
    """How many of the sorted `cuts` are at or before each event."""
    order = _order(np.concatenate([cuts, keys]))
    is_cut = order < len(cuts)
    part = np.empty(len(order), np.int64)
    part[order] = np.cumsum(is_cut)
    return part[len(cuts) :]


def _order(keys: Structured) -> Int64:
    """The order of events; equal ones stay in theirs."""
    return np.lexsort((keys["id"], keys["track"], -keys["end"], keys["ts"]))


def _sorted(place: Int64, keys: Structured) -> Part:
    """The places and keys in order; they are in the order of ts already, or all begin together."""
    ts = np.ascontiguousarray(keys["ts"])
    same = ts[1:] == ts[:-1]  # only events that begin together must be sorted
    if not same.any() or _are_in_order(keys, same):
        return place, keys
    tied = np.flatnonzero(np.concatenate([same, [False]]) | np.concatenate([[False], same]))
    del ts, same
    order = tied[_order(keys[tied])]
    place[tied] = place[order]
    for name in ("ts", "end", "id", "track", "flags"):  # one by one: a copy of all takes four times the memory
        keys[name][tied] = keys[name][order]
    return place, keys


def _are_in_order(keys: Structured, same: Bools) -> bool:
    """Whether keys in the order of ts are in that of (-end, track, id), too, where `same`: the next ts is the same."""
    for start in range(0, len(same), 1 << 16):
        ones, others = keys[start : start + (1 << 16)], keys[start + 1 : start + 1 + (1 << 16)]
        after = same[start : start + (1 << 16)]
        ones = ones[: len(after)]
        for name, sign in (("end", -1), ("track", 1), ("id", 1)):
            one, other = sign * ones[name].astype(np.int64), sign * others[name].astype(np.int64)
            if np.any(after & (one > other)):
                return False
            after = after & (one == other)
    return True


class Ordered(NamedTuple):
    """The events in order: `rows` from each of `firsts` to the next are a range of time, whose bounds are in `bounds`.

    `rows` has ts, end, place, track, lane, and whether the event is a slice. The end of a point is its ts, that of a
    slice without an end is the end of the trace. `moved` slices are on lanes above 0.
    """

    rows: Runs
    firsts: list[int]
    bounds: list[tuple[int | None, int | None]]
    moved: int


class OnDevice(msgspec.Struct, frozen=True):
    """Which events are shown as the work of a device, by the tracks of device work and ranges.

    Rows of tables that were laid out on their own track aren't; launches that were laid out on their stream are.
    """

    work: Bools
    ranges: Bools

    @classmethod
    def from_tracks(cls, tracks: Sequence[Track], *, with_ranges: bool) -> OnDevice:
        """Work on any track with a device or stream; ranges only on streams, and only `with_ranges`."""
        return cls(
            np.array([track.is_on_device for track in tracks], np.bool_),
            np.array([with_ranges and track.stream is not None and track.track is None for track in tracks], np.bool_),
        )

    def rows(self, flags: UInt16, track: Int32) -> Bools:
        """Which events with these flags on these tracks are device work."""
        selected: Bools = (flags & (WORK | LAID_OUT) == WORK) & self.work[track]
        if self.ranges.any():
            selected |= (flags & (RANGE | LAID_OUT) == RANGE) & self.ranges[track]
        return selected


def swept(
    store: EventStore, attacher: SliceAttacher, spill: Spill, size: int, overlap: OnDevice | None = None
) -> Ordered:
    """Sorts the events by (ts, -dur, track, id) in ranges of about `size` rows.

    Events that are in `overlap` may overlap: they have no lanes and aren't slices in the result.
    """
    rows = Runs(
        spill,
        "ordered",
        [("ts", "i8"), ("end", "i8"), ("place", "i8"), ("track", "i4"), ("lane", "i4"), ("slice", "?")],
    )
    bounds, firsts = [], [0]
    moved = 0
    opened = no_slices()
    for low, high in ranges(store.keys.cuts(size)):
        parts = in_order(store, low, high, spill, size)
        nested = [_Nesting(keys, attacher.tracks, overlap).slices(place) for place, keys in parts]
        slices = Slices(opened, *map(np.concatenate, zip(*nested, strict=True)))
        attacher.attach(slices, low, high)
        lanes, used = slices.new_lanes(), 0
        for place, keys in parts:
            one = _Nesting(keys, attacher.tracks, overlap)
            lane, count = np.zeros(len(place), np.int32), int(np.count_nonzero(one.nested))
            lane[one.nested] = lanes[used : used + count]
            used += count
            lane[one.aside] = 0
            moved += int(np.count_nonzero(lane))
            columns = {name: keys[name] for name in ("ts", "end", "track")}
            rows.append(place=place, lane=lane, slice=one.is_slice & ~one.aside, **columns)
        if len(rows) > firsts[-1]:
            firsts.append(len(rows))
            bounds.append((low, high))
        if high is not None:
            opened = slices.open_at(high)
    attacher.close()
    return Ordered(rows, firsts, bounds, moved)


class _Nesting:
    """Which events of a part are slices, which stand aside as they may overlap, and which nest nevertheless."""

    def __init__(self, keys: Structured, attached: Bools, overlap: OnDevice | None) -> None:
        self._keys, flags = keys, keys["flags"]
        track = np.ascontiguousarray(keys["track"])
        self.is_slice: Bools = flags & SLICE != 0
        self.aside = np.zeros(len(keys), np.bool_) if overlap is None else overlap.rows(flags, track)
        self.nested = self.is_slice & (~self.aside | attached[track])

    def slices(self, place: Int64) -> tuple[Int32, Int64, Int64, Int64]:
        """Track, begin, end and place of those that nest."""
        track, ts, end = (self._keys[name][self.nested] for name in ("track", "ts", "end"))
        return track, ts, end, place[self.nested]


#: Columns of a begin that its end doesn't fill.
_OF_BEGIN = {
    *(*TRACK_COLUMNS, "id", "parent", "clock", "ts", "dur"),
    *("kind", "name", "timing", "half", "lane", "run", "args", "correlation"),
}


def pieces(rows: int, size: int) -> list[tuple[int, int]]:
    """Pieces of a range of time: several if far more than `size` events begin together, so that it can't be cut."""
    step = size if rows > 2 * size else max(rows, 1)
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


class Finisher:
    """Completes the rows of a range of time, whose ts are from `low` to below `high`, piece by piece."""

    def __init__(self, store: EventStore, pairs: Runs, rows: Structured, low: int | None, high: int | None) -> None:
        self._store = store
        self._rows = rows
        here = pairs.rows[pairs.between(low, high)]
        place = rows["place"]
        order = np.argsort(place) if len(here) else np.empty(0, np.int64)
        begins = order[np.searchsorted(place[order], here["begin"])]
        by_row = np.argsort(begins)
        self._begins, self._ends = begins[by_row], here["end"][by_row]

    def finished(self, start: int, stop: int) -> GatheredRows:
        """The events of the rows from `start` to before `stop`."""
        gathered = self._store.at(np.ascontiguousarray(self._rows["place"][start:stop]))
        first, last = np.searchsorted(self._begins, (start, stop))
        if first == last:
            return gathered
        ends = self._store.at(self._ends[first:last]).batch().columns
        dur = (self._rows["end"] - self._rows["ts"])[start:stop]
        return GatheredRows.whole(
            _paired(gathered.batch().columns, ends, self._begins[first:last] - start, dur), self._store.words
        )


def _paired(columns: pa.RecordBatch, added: pa.RecordBatch, begins: Int64, dur: Int64) -> pa.RecordBatch:
    """The rows with those at `begins` completed from their ends in `added`: duration, arguments, null columns."""
    at = np.full(columns.num_rows, -1, np.int64)
    at[begins] = np.arange(len(begins))
    index = pa.array(at, mask=at < 0)
    merged = dict(zip(columns.schema.names, columns.columns, strict=True))
    its_dur = merged.get("dur", pa.nulls(len(at), pa.int64()))
    merged["dur"] = pc.if_else(pa.array(at >= 0), pa.array(dur), its_dur)
    for name in added.schema.names:
        if name not in _OF_BEGIN and not name.startswith("args.") and added.column(name).null_count < len(added):
            theirs = added.column(name).take(index)
            merged[name] = pc.coalesce(merged[name], theirs) if name in merged else theirs
    texts = Batch("events", added).args_text()
    if texts.null_count < len(texts):
        _merge_args(merged, columns, texts, index)
    return pa.RecordBatch.from_pydict(merged)


def _merge_args(cells: dict[str, pa.Array], columns: pa.RecordBatch, texts: pa.Array, index: pa.Array) -> None:
    """Merges the arguments of ends into `args`, after the typed arguments of those rows."""
    theirs = texts.take(index)
    changed = pc.is_valid(theirs)
    ours = pc.if_else(changed, Batch("events", columns).args_text(), Batch("events", columns).column("args"))
    both = pc.and_(changed, pc.is_valid(ours))
    pairs = zip(ours.filter(both).to_pylist(), theirs.filter(both).to_pylist(), strict=True)
    merged = pa.array([_merge(begin, end) for begin, end in pairs], pa.string())
    result = pc.replace_with_mask(pc.coalesce(theirs, ours), both, merged)
    cells["args"] = result
    for name in columns.schema.names:
        if name.startswith("args."):
            column = cells[name]
            cells[name] = pc.if_else(changed, pa.nulls(len(column), column.type), column)


@lru_cache(maxsize=4096)
def _merge(begin: str, end: str) -> str:
    """The arguments of both; the end's value where they differ."""
    return dump_json(load_object(begin) | load_object(end))


#: An end: its time, the serial of the row that it closes, its track and lane.
_END = np.dtype([("ts", "i8"), ("closes", "i8"), ("track", "i4"), ("lane", "i4")])


class OpenEnds:
    """Ends of slices that are open at the end of a range."""

    def __init__(self) -> None:
        self._waiting = np.empty(0, _END)

    def edges(
        self, rows: Structured, track: Int32, serial: int, until: int | None
    ) -> tuple[Int64, Int32, Int32, Int32]:
        """The edges of a range: the begins and points of its rows, and the ends below `until` (all if it is None).

        Returns ts, row (-1 for an end), track and lane. `serial` is the number of the first row.
        """
        ends = np.concatenate([self._waiting, _ends(rows, track, serial)])
        if until is not None:
            later = ends["ts"] >= until
            self._waiting, ends = ends[later], ends[~later]
        begin = np.ascontiguousarray(rows["ts"])
        order = edge_order(begin, np.ascontiguousarray(ends["ts"]), ends["closes"] - serial)
        row = np.concatenate([np.arange(len(rows), dtype=np.int32), np.full(len(ends), -1, np.int32)])
        return (
            np.concatenate([begin, ends["ts"]])[order],
            row[order],
            np.concatenate([track, ends["track"]])[order],
            np.concatenate([rows["lane"], ends["lane"]])[order],
        )


def _ends(rows: Structured, track: Int32, serial: int) -> Structured:
    which = np.flatnonzero(rows["slice"])
    ends: Structured = np.empty(len(which), _END)
    ends["ts"], ends["closes"] = rows["end"][which], serial + which
    ends["track"], ends["lane"] = track[which], rows["lane"][which]
    return ends


def edge_order(begin: Int64, end: Int64, closing: Int64) -> Int64:
    """The order of begins and ends: indices into the begins followed by the ends.

    `begin` are the times of the rows in their order, `end` the times of ends, `closing` the position of the row
    that each end closes (below 0: a row of an earlier range). In one nanosecond the ends come first, innermost first;
    a slice without duration ends directly after its begin.
    """
    count = len(begin)
    place = 2 * np.searchsorted(begin, end, "left") - 1
    here = closing >= 0
    at_once = here.copy()
    at_once[here] = begin[closing[here]] == end[here]
    place[at_once] = 2 * closing[at_once] + 1
    inner_first = np.lexsort((-closing, end))
    order = np.argsort(np.concatenate([2 * np.arange(count), place[inner_first]]), kind="stable")
    ends = order >= count
    order[ends] = count + inner_first[order[ends] - count]
    return order
