"""How the slices of a track nest: the slice around each, and lanes for slices that overlap partially.

The slices of most tracks nest like brackets, which is checked for all tracks at once:

    depth   0 ████████████████   ██████
            1   █████ ███          ██
    lane    a slice that crosses the end of another goes to the first lane in which it nests

Slices must be sorted by (ts, -dur, id); in one nanosecond slices end before others begin.
"""

from __future__ import annotations

import numpy as np

from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.native import address, compiled


def around(track: Int32, begin: Int64, end: Int64) -> tuple[Int64, Int32]:
    """For each slice the position of the slice around it (-1: none), and the tracks on which slices cross.

    Slices must be grouped by track and sorted. The positions are meaningless on tracks where slices cross.
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


def around_crossing(begin: Int64, end: Int64) -> Int64:
    """The position of the last slice begun before each slice and open then (-1: none), on one track with crossings."""
    found = np.full(len(begin), -1, np.int64)
    open_: list[tuple[int, int]] = []  # (end, position); ends fall: only slices that outlast later ones matter
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
    """Fills `lane` for the slices of one track from position `first` on; those before are open and have one."""
    if compiled:
        compiled.lanes(address(begin), address(end), address(lane), first, len(lane))
    else:
        _lanes(begin, end, lane, first)


def _lanes(begin: Int64, end: Int64, lane: Int32, first: int) -> None:
    """As `lanes`, in Python."""
    lane[first:] = 0
    some = first + np.flatnonzero(_enclose_an_edge(begin, end)[first:])  # others don't cross any
    open_ = _Lanes()
    for number, stops in zip(lane[:first].tolist(), end[:first].tolist(), strict=True):
        open_.push(number, stops)
    found = []
    lowest = open_.stacks[0]
    for starts, stops in zip(begin[some].tolist(), end[some].tolist(), strict=True):
        while lowest[-1] <= starts:
            lowest.pop()
        number = 0 if lowest[-1] >= stops else open_.first(starts, stops)
        open_.push(number, stops)
        found.append(number)
    lane[some] = found


def _enclose_an_edge(begin: Int64, end: Int64) -> Bools:
    """In which slices another one begins or ends: two slices that cross each enclose an edge of the other."""
    times = np.sort(np.concatenate([begin, end]), kind="stable")
    found: Bools = np.searchsorted(times, end, "left") > np.searchsorted(times, begin, "right")
    return found


#: An end after all others.
_NEVER = 1 << 63


class _Lanes:
    """The ends of open slices by lane, innermost last, and a tree over the innermost ones, to find a lane in few steps.

    Node n of the tree has the nodes 2n and 2n + 1 below it; the nodes from `room` on are lanes. Lane 0, where most
    slices are, isn't kept in the tree: the caller looks at it first.
    """

    def __init__(self) -> None:
        self.stacks: list[list[int]] = [[_NEVER]]
        self._room = 1
        self._least = [_NEVER, _NEVER]
        self._most = [0, 0]

    def push(self, number: int, stops: int) -> None:
        """Opens a slice on a lane."""
        while number >= len(self.stacks):
            self.stacks += [[_NEVER] for _ in range(self._room)]
            self._room *= 2
            ends = [stack[-1] for stack in self.stacks[1:]]
            self._least = [0] * self._room + [_NEVER, *ends]
            self._most = [0] * self._room + [0, *ends]
            for node in range(self._room - 1, 0, -1):
                self._look_below(node)
        self.stacks[number].append(stops)
        if number:
            self._tell(number)

    def first(self, starts: int, stops: int) -> int:
        """The first lane but lane 0 in which a slice nests; the next one if there is none."""
        while self._may_have(1, starts, stops):
            node = 1
            while node < self._room:
                node = 2 * node if self._may_have(2 * node, starts, stops) else 2 * node + 1
            if self._least[node] > starts:
                return node - self._room
            stack = self.stacks[node - self._room]
            while stack[-1] <= starts:
                stack.pop()
            self._tell(node - self._room)
        return len(self.stacks)

    def _may_have(self, node: int, starts: int, stops: int) -> bool:
        """Whether a lane below the node is free for a slice, or has slices that ended before it begins."""
        return self._most[node] >= stops or self._least[node] <= starts

    def _tell(self, number: int) -> None:
        node = self._room + number
        self._least[node] = self._most[node] = self.stacks[number][-1]
        while node := node >> 1:
            self._look_below(node)

    def _look_below(self, node: int) -> None:
        self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])
        self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])
