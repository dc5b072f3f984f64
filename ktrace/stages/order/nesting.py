"""How the slices of a track nest: the slice around each, and lanes for slices that overlap partially.

The slices of most tracks nest like brackets, which is checked for all tracks at once:

    depth   0 ████████████████   ██████
            1   █████ ███          ██
    lane    a slice that crosses the end of another goes to the first lane in which it nests

Slices must be sorted by (ts, -dur, id); in one nanosecond slices end before others begin. `Slices` are those of a range
of time and those still open from before.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.native import compiled


def around(track: Int32, begin: Int64, end: Int64) -> tuple[Int64, Int32]:
    """For each slice the position of the slice around it (-1: none), and the tracks on which slices cross.

    Slices must be grouped by track and sorted. The positions are meaningless on tracks where slices cross.
    """
    depth = _depth(track, begin, end)
    outer_of = np.full(len(track), -1, np.int64)
    inner = np.flatnonzero(depth > 0)
    if not len(inner):
        return outer_of, np.empty(0, np.int32)
    count = len(track)
    outer = np.flatnonzero(end > begin)
    sorted_keys = np.sort(depth[outer] * count + outer)
    last = np.searchsorted(sorted_keys, (depth[inner] - 1) * count + inner) - 1  # the last one before, one level up
    position = sorted_keys[last] % count
    crosses = (
        (last < 0) | (track[position] != track[inner]) | (end[position] < end[inner]) | (end[position] <= begin[inner])
    )
    outer_of[inner] = position
    return outer_of, np.unique(track[inner[crosses]])


def _depth(track: Int32, begin: Int64, end: Int64) -> Int64:
    """How many other slices of the track are open when each one begins."""
    count = len(track)
    lasts = end > begin  # a slice without duration closes before anything else begins
    before: Int64 = np.cumsum(lasts) - lasts
    closers = np.flatnonzero(lasts)
    times = np.concatenate([end[closers], begin])
    tracks = np.concatenate([track[closers], track])
    order = np.lexsort((times, tracks))  # stable: at one time, the ends come first
    is_end = order < len(closers)
    closed = np.empty(count, np.int64)
    closed[order[~is_end] - len(closers)] = np.cumsum(is_end)[~is_end]
    return before - closed


def enclosing(track: Int32, begin: Int64, end: Int64) -> Int64:
    """For each slice the position of the last one of its track that began before it and is open then (-1: none).

    Slices must be grouped by track and sorted.
    """
    outer = np.empty(len(track), np.int64)
    if compiled:
        times = np.ascontiguousarray(begin), np.ascontiguousarray(end)
        compiled.enclosing(np.ascontiguousarray(track, np.int32), *times, outer)
    else:
        _enclosing(track, begin, end, outer)
    return outer


def _enclosing(track: Int32, begin: Int64, end: Int64, outer: Int64) -> None:
    """Fills `outer` as `enclosing` does, in Python: all tracks at once, then those with crossings."""
    outer[:], crossed = around(track, begin, end)
    for number in crossed.tolist():
        first, last = np.searchsorted(track, [number, number + 1])
        _around_crossing(begin[first:last], end[first:last], outer[first:last])
        outer[first:last] += np.where(outer[first:last] >= 0, first, 0)


def _around_crossing(begin: Int64, end: Int64, outer: Int64) -> None:
    """Fills `outer` for the slices of one track."""
    open_: list[tuple[int, int]] = []  # (end, position); ends fall: only slices that outlast later ones matter
    for position, (starts, stops) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        while open_ and open_[-1][0] <= starts:
            open_.pop()
        outer[position] = open_[-1][1] if open_ else -1
        while open_ and open_[-1][0] <= stops:
            open_.pop()
        open_.append((stops, position))


def lanes(begin: Int64, end: Int64, lane: Int32, first: int) -> None:
    """Fills `lane` for the slices of one track from position `first` on; those before are open and have one."""
    if compiled:
        compiled.lanes(begin, end, lane, first)
    else:
        _lanes(begin, end, lane, first)


def _lanes(begin: Int64, end: Int64, lane: Int32, first: int) -> None:
    """As `lanes`, in Python."""
    lane[first:] = 0
    some = first + np.flatnonzero(_enclose_an_edge(begin, end)[first:])  # others don't cross any
    open_ = _Lanes()
    near = lane[:first] < len(lane)  # in further ones no other comes to lie: of so many, one before is free
    for number, stops in zip(lane[:first][near].tolist(), end[:first][near].tolist(), strict=True):
        open_.push(number, stops)
    numbers = []
    lowest = open_.stacks[0]
    for starts, stops in zip(begin[some].tolist(), end[some].tolist(), strict=True):
        while lowest[-1] <= starts:
            lowest.pop()
        number = 0 if lowest[-1] >= stops else open_.first(starts, stops)
        open_.push(number, stops)
        numbers.append(number)
    lane[some] = numbers


def _enclose_an_edge(begin: Int64, end: Int64) -> Bools:
    """In which slices another one begins or ends: two slices that cross each enclose an edge of the other."""
    times = np.sort(np.concatenate([begin, end]), kind="stable")
    return np.searchsorted(times, end, "left") > np.searchsorted(times, begin, "right")


#: An end after all others.
_NEVER = 1 << 63


class _Lanes:
    """The ends of open slices by lane, innermost last, and a tree over the innermost ones, to find a lane in few steps.

    Node n of the tree has the nodes 2n and 2n + 1 below it; the nodes from `_capacity` on are lanes. Lane 0, where most
    slices are, isn't kept in the tree: the caller looks at it first.
    """

    def __init__(self) -> None:
        self.stacks: list[list[int]] = [[_NEVER]]
        self._capacity = 1
        self._least = [_NEVER, _NEVER]
        self._most = [0, 0]

    def push(self, number: int, stops: int) -> None:
        """Opens a slice on a lane."""
        while number >= len(self.stacks):
            self.stacks += [[_NEVER] for _ in range(self._capacity)]
            self._capacity *= 2
            ends = [stack[-1] for stack in self.stacks[1:]]
            self._least = [0] * self._capacity + [_NEVER, *ends]
            self._most = [0] * self._capacity + [0, *ends]
            for node in range(self._capacity - 1, 0, -1):
                self._look_below(node)
        self.stacks[number].append(stops)
        if number:
            self._tell(number)

    def first(self, starts: int, stops: int) -> int:
        """The first lane but lane 0 in which a slice nests; the next one if there is none."""
        while self._may_have(1, starts, stops):
            node = 1
            while node < self._capacity:
                node = 2 * node if self._may_have(2 * node, starts, stops) else 2 * node + 1
            if self._least[node] > starts:
                return node - self._capacity
            stack = self.stacks[node - self._capacity]
            while stack[-1] <= starts:
                stack.pop()
            self._tell(node - self._capacity)
        return len(self.stacks)

    def _may_have(self, node: int, starts: int, stops: int) -> bool:
        """Whether a lane below the node is free for a slice, or has slices that ended before it begins."""
        return self._most[node] >= stops or self._least[node] <= starts

    def _tell(self, number: int) -> None:
        node = self._capacity + number
        self._least[node] = self._most[node] = self.stacks[number][-1]
        while node := node >> 1:
            self._look_below(node)

    def _look_below(self, node: int) -> None:
        self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])
        self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])


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
        """Concatenates with the slices that follow."""
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
        """For each slice the last one that began before it and is open at its start, -1 where there is none."""
        outer = self._around.copy()
        for first, last in self._spans():
            index = enclosing(self.track[first:last], self.begin[first:last], self.end[first:last])
            outer[first:last] = np.where(index >= 0, index + first, -1)
        return outer

    def innermost(self, track: Int32, ts: Int64) -> Int64:
        """The slice on the track that began last among those open at ts, else among those that end at ts, else -1.

        A slice is open from its start on, one without duration during one nanosecond.
        """
        last = _last_begun(self.track, self.begin, track, ts)
        slices = np.full(len(ts), -1, np.int64)
        ended = slices.copy()
        asking = np.flatnonzero(last >= 0)
        while len(asking):
            at, now = last[asking], ts[asking]
            is_open = (self.end[at] > now) | (self.begin[at] == now)
            slices[asking[is_open]] = at[is_open]
            ends = (self.end[at] == now) & (ended[asking] < 0)
            ended[asking[ends]] = at[ends]
            last[asking] = self._outer[at]
            asking = asking[~is_open & (last[asking] >= 0)]
        return np.where(slices >= 0, slices, ended)

    def next(self, track: Int32, ts: Int64) -> Int64:
        """The first new slice on the track that begins at ts or later, -1 where there is none."""
        new = np.flatnonzero(self._is_new)
        before = _count_before(self.track[new], self.begin[new], track, ts)
        there = before < len(new)
        there[there] = self.track[new][before[there]] == track[there]
        slices = np.full(len(ts), -1, np.int64)
        slices[there] = new[before[there]]
        return slices


def _last_begun(track: Int32, begin: Int64, asked_track: Int32, ts: Int64) -> Int64:
    """The position of the last slice of the track that begins at ts or before, -1 where there is none."""
    count = len(track)
    order = np.lexsort((np.concatenate([begin, ts]), np.concatenate([track, asked_track])))
    is_query = order >= count
    last = np.empty(len(ts), np.int64)
    last[order[is_query] - count] = np.cumsum(~is_query)[is_query] - 1
    there = last >= 0
    there[there] = track[last[there]] == asked_track[there]
    return np.where(there, last, -1)


def _count_before(track: Int32, begin: Int64, asked_track: Int32, ts: Int64) -> Int64:
    """How many slices come before the first one of the track that begins at ts or later."""
    asked_count = len(ts)
    order = np.lexsort((np.concatenate([ts, begin]), np.concatenate([asked_track, track])))
    is_query = order < asked_count
    before = np.empty(asked_count, np.int64)
    before[order[is_query]] = np.cumsum(~is_query)[is_query]
    return before
