"""The slices of a range of time and those still open from before: their lanes, and which one encloses a time."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.stages.order.nesting import around, around_crossing, lanes


class Columns(NamedTuple):
    """Slices as columns."""

    track: Int32
    begin: Int64
    end: Int64
    place: Int64
    lane: Int32

    def where(self, index: Int64 | Bools) -> Columns:
        """The slices at these indices, or of this mask."""
        return Columns(self.track[index], self.begin[index], self.end[index], self.place[index], self.lane[index])

    def then(self, more: Columns) -> Columns:
        """These slices followed by more."""
        return Columns(
            np.concatenate([self.track, more.track]),
            np.concatenate([self.begin, more.begin]),
            np.concatenate([self.end, more.end]),
            np.concatenate([self.place, more.place]),
            np.concatenate([self.lane, more.lane]),
        )


def no_slices() -> Columns:
    """No slices."""
    none = np.empty(0, np.int64)
    return Columns(none.astype(np.int32), none, none, none, none.astype(np.int32))


class Slices:
    """Slices as columns, grouped by track; on each track those that are open from before come first.

    The new ones must be sorted by (ts, -dur, id). `lane` is computed; `place` identifies the events.
    """

    def __init__(self, opened: Columns, track: Int32, begin: Int64, end: Int64, place: Int64) -> None:
        self._old = len(opened.track)
        joined = opened.then(Columns(track, begin, end, place, np.zeros(len(track), np.int32)))
        self._order = np.argsort(joined.track, kind="stable")
        self._is_new = self._order >= self._old
        rows = self._rows = joined.where(self._order)
        self.track, self.begin, self.end, self.place, self.lane = rows
        self._around, self._crossing = around(self.track, self.begin, self.end)
        for first, last in self._spans():
            old = int(np.count_nonzero(~self._is_new[first:last]))
            lanes(self.begin[first:last], self.end[first:last], self.lane[first:last], old)

    def _spans(self) -> list[tuple[int, int]]:
        """First and last position of each track on which slices cross."""
        first = np.searchsorted(self.track, self._crossing, "left")
        last = np.searchsorted(self.track, self._crossing, "right")
        return list(zip(first.tolist(), last.tolist(), strict=True))

    def new_lanes(self) -> Int32:
        """The lanes of the new slices in the order in which they were passed."""
        lane = np.empty(len(self._order) - self._old, np.int32)
        lane[self._order[self._is_new] - self._old] = self.lane[self._is_new]
        return lane

    def open_at(self, high: int) -> Columns:
        """The slices that are open at `high` or end at it."""
        return self._rows.where(self.end >= high)

    @cached_property
    def _outer(self) -> Int64:
        """For each slice the last one that began before it and is open at its begin, -1 where there is none."""
        outer = self._around.copy()
        for first, last in self._spans():
            found = around_crossing(self.begin[first:last], self.end[first:last])
            outer[first:last] = np.where(found >= 0, found + first, -1)
        return outer

    def innermost(self, track: Int32, ts: Int64) -> Int64:
        """The slice on the track that began last among those open at ts, else among those that end at ts, else -1.

        A slice is open from its begin on, one without duration during one nanosecond.
        """
        last = _last_begun(self.track, self.begin, track, ts)
        found = np.full(len(ts), -1, np.int64)
        ended = found.copy()
        asking = np.flatnonzero(last >= 0)
        while len(asking):
            at, now = last[asking], ts[asking]
            is_open = (self.end[at] > now) | (self.begin[at] == now)
            found[asking[is_open]] = at[is_open]
            ends = (self.end[at] == now) & (ended[asking] < 0)
            ended[asking[ends]] = at[ends]
            last[asking] = self._outer[at]
            asking = asking[~is_open & (last[asking] >= 0)]
        return np.where(found >= 0, found, ended)

    def next(self, track: Int32, ts: Int64) -> Int64:
        """The first new slice on the track that begins at ts or later, -1 where there is none."""
        new = np.flatnonzero(self._is_new)
        before = _count_before(self.track[new], self.begin[new], track, ts)
        there = before < len(new)
        there[there] = self.track[new][before[there]] == track[there]
        found = np.full(len(ts), -1, np.int64)
        found[there] = new[before[there]]
        return found


def _last_begun(track: Int32, begin: Int64, asked_track: Int32, ts: Int64) -> Int64:
    """The position of the last slice of the track that begins at ts or before, -1 where there is none."""
    count = len(track)
    order = np.lexsort((np.concatenate([begin, ts]), np.concatenate([track, asked_track])))
    asked = order >= count
    last = np.empty(len(ts), np.int64)
    last[order[asked] - count] = np.cumsum(~asked)[asked] - 1
    there = last >= 0
    there[there] = track[last[there]] == asked_track[there]
    return np.where(there, last, -1)


def _count_before(track: Int32, begin: Int64, asked_track: Int32, ts: Int64) -> Int64:
    """How many slices come before the first one of the track that begins at ts or later."""
    asked_count = len(ts)
    order = np.lexsort((np.concatenate([ts, begin]), np.concatenate([asked_track, track])))
    asked = order < asked_count
    before = np.empty(asked_count, np.int64)
    before[order[asked]] = np.cumsum(~asked)[asked]
    return before
