"""How slices of a track nest: the slice around each, lanes for those that overlap partially.

A track is a row of brackets as long as its slices nest, which is checked for all tracks at once:

    depth   0 ████████████████   ██████
            1   █████ ███          ██
    lane    a slice that crosses another's end goes to the first lane in which it nests

Slices come sorted by (ts, -dur, id); one ends before another begins in the same nanosecond.
"""

from __future__ import annotations

import numpy as np

from ktrace.model.arrays import Bools, Int32, Int64


def around(track: Int32, begin: Int64, end: Int64) -> tuple[Int64, Int32]:
    """For each slice the position of the slice around it (-1: none), and the tracks on which slices cross.

    Slices are grouped by track and sorted. On tracks where slices cross the positions are of no use.
    """
    depth = _depth(track, begin, end)
    found = np.full(len(track), -1, np.int64)
    inner = np.flatnonzero(depth > 0)
    if not len(inner):
        return found, np.empty(0, np.int32)
    count = len(track)
    outer = np.flatnonzero(end > begin)
    known = np.sort(depth[outer] * count + outer)
    last = np.searchsorted(known, (depth[inner] - 1) * count + inner) - 1  # the last one before, one level up
    position = known[last] % count
    crosses = (
        (last < 0) | (track[position] != track[inner]) | (end[position] < end[inner]) | (end[position] <= begin[inner])
    )
    found[inner] = position
    return found, np.unique(track[inner[crosses]])


def _depth(track: Int32, begin: Int64, end: Int64) -> Int64:
    """How many slices of the track are open when each begins, itself left out."""
    count = len(track)
    lasts = end > begin  # a slice without duration closes before anything else begins
    before: Int64 = np.cumsum(lasts) - lasts
    closers = np.flatnonzero(lasts)
    times = np.concatenate([end[closers], begin])
    tracks = np.concatenate([track[closers], track])
    order = np.lexsort((times, tracks))  # stable: of one time, the ends come first
    is_end = order < len(closers)
    closed = np.empty(count, np.int64)
    closed[order[~is_end] - len(closers)] = np.cumsum(is_end)[~is_end]
    return before - closed


def around_crossing(begin: Int64, end: Int64) -> Int64:
    """For each slice of one track on which slices cross, the position of the last one begun before and still open."""
    found = np.full(len(begin), -1, np.int64)
    open_: list[tuple[int, int]] = []  # (end, position); ends fall, since an earlier end hides behind a later begin
    for position, (starts, stops) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        while open_ and open_[-1][0] <= starts:
            open_.pop()
        if open_:
            found[position] = open_[-1][1]
        while open_ and open_[-1][0] <= stops:
            open_.pop()
        open_.append((stops, position))
    return found


def lanes(begin: Int64, end: Int64, lane: Int32, first: int) -> None:
    """Fills `lane` of the slices of one track from position `first` on; those before are open and have theirs."""
    lane[first:] = 0
    some = first + np.flatnonzero(_enclose_an_edge(begin, end)[first:])  # others cross none
    stacks: list[list[int]] = [[_NEVER]]  # of each lane the ends of what is open, innermost last
    for number, stops in zip(lane[:first].tolist(), end[:first].tolist(), strict=True):
        while number >= len(stacks):
            stacks.append([_NEVER])
        stacks[number].append(stops)
    found = []
    lowest = stacks[0]
    for starts, stops in zip(begin[some].tolist(), end[some].tolist(), strict=True):
        while lowest[-1] <= starts:
            lowest.pop()
        if lowest[-1] >= stops:
            lowest.append(stops)
            found.append(0)
        else:
            found.append(_free_lane(stacks, starts, stops))
    lane[some] = found


def _enclose_an_edge(begin: Int64, end: Int64) -> Bools:
    """In which slices another begins or ends: a slice that crosses another holds its end or begin."""
    times = np.sort(np.concatenate([begin, end]), kind="stable")
    found: Bools = np.searchsorted(times, end, "left") > np.searchsorted(times, begin, "right")
    return found


#: An end after all others.
_NEVER = 1 << 63


def _free_lane(stacks: list[list[int]], starts: int, stops: int) -> int:
    """The first lane in which the slice nests, and puts it there."""
    for number, stack in enumerate(stacks):
        while stack[-1] <= starts:
            stack.pop()
        if stack[-1] >= stops:
            stack.append(stops)
            return number
    stacks.append([_NEVER, stops])
    return len(stacks) - 1
