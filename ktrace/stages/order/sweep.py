"""Sorts all events by time, range after range, assigns lanes and attaches arrows to the slices around their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ktrace.model.arrays import Bools, Int32, Int64, Structured, UInt16
from ktrace.model.tracks import Track
from ktrace.stages.order.links import SliceAttacher
from ktrace.stages.order.nesting import Slices, no_slices
from ktrace.store.events import GONE, LAID_OUT, RANGE, SLICE, WORK, EventStore
from ktrace.store.spill import Runs, Spill, ranges


class Ordered(NamedTuple):
    """The events in order: each run of `rows` is a range of time, whose bounds have the same index in `bounds`.

    `rows` has ts, end, place, track, lane, and whether the event is a slice. The end of a point is its ts, that of a
    slice without an end is the end of the trace. `moved` slices are on lanes above 0.
    """

    rows: Runs
    bounds: list[tuple[int | None, int | None]]
    moved: int


@dataclass(frozen=True)
class OnDevice:
    """Which events are shown as the work of a device, by the tracks of device work and ranges.

    Rows of tables that were laid out on their own track aren't; launches that were laid out on their stream are.
    """

    work: Bools
    ranges: Bools

    @classmethod
    def of(cls, tracks: Sequence[Track], *, with_ranges: bool) -> OnDevice:
        """Work on any track with a device or stream; ranges only on streams, and only `with_ranges`."""
        return cls(
            np.array([track.is_on_device for track in tracks], np.bool_),
            np.array([with_ranges and track.stream is not None and track.track is None for track in tracks], np.bool_),
        )

    def rows(self, flags: UInt16, track: Int32) -> Bools:
        """Which events with these flags on these tracks are device work."""
        found: Bools = (flags & (WORK | LAID_OUT) == WORK) & self.work[track]
        if self.ranges.any():
            found |= (flags & (RANGE | LAID_OUT) == RANGE) & self.ranges[track]
        return found


def sweep(
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
    bounds = []
    moved = 0
    opened = no_slices()
    for low, high in ranges(store.keys.cuts(size)):
        place, keys = _sorted(store, low, high)
        ts, end, track, flags = (np.ascontiguousarray(keys[name]) for name in ("ts", "end", "track", "flags"))
        del keys  # where very many events begin together, it takes the most memory
        is_slice = flags & SLICE != 0
        aside = None if overlap is None else overlap.rows(flags, track)
        nested = is_slice if aside is None else is_slice & (~aside | attacher.tracks[track])
        slices = Slices(opened, track[nested], ts[nested], end[nested], place[nested])
        attacher.attach(slices, low, high)
        lane = np.zeros(len(ts), np.int32)
        lane[nested] = slices.new_lanes()
        if aside is not None:
            lane[aside], is_slice = 0, is_slice & ~aside
        moved += int(np.count_nonzero(lane))
        if len(ts):
            rows.append(ts=ts, end=end, place=place, track=track, lane=lane, slice=is_slice)
            bounds.append((low, high))
        if high is not None:
            opened = slices.open_at(high)
    attacher.close()
    return Ordered(rows, bounds, moved)


def _sorted(store: EventStore, low: int | None, high: int | None) -> tuple[Int64, Structured]:
    """The places and keys of the events of a range that aren't gone, in order."""
    place = store.keys.between(low, high)
    keys = store.keys.rows[place]
    kept = keys["flags"] & GONE == 0
    if not kept.all():
        place, keys = place[kept], keys[kept]
    del kept
    ts = np.ascontiguousarray(keys["ts"])
    same = ts[1:] == ts[:-1]  # the keys are sorted by ts already: only events that begin together must be sorted
    if not same.any() or _are_in_order(keys, same):
        return place, keys
    tied = np.flatnonzero(np.concatenate([same, [False]]) | np.concatenate([[False], same]))
    del ts, same
    order = tied[np.lexsort((keys["id"][tied], keys["track"][tied], -keys["end"][tied], keys["ts"][tied]))]
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
