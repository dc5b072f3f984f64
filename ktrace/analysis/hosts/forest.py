"""Nests spans by thread, and finds the span around each call.

thread 4242   [ ## backward ##            ]         0
                [ aten::mm ]  [ aten::add ]         1, 2: the parent is 0
                  ^ call                            of 1
thread 4300   [ a backward operator ]               3: a root, unless `outer` names a span of another thread
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ktrace.analysis.work.columns import BLOCK
from ktrace.analysis.work.joining import innermost
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.store.joins import starts

#: Returns for spans without a parent the index of one around them on another thread, -1 where there is none.
Outer = Callable[[Int32, Int64], Int64]


class Spans(NamedTuple):
    """Slices of threads: `thread` is the number of the thread, `name` that of the name."""

    thread: Int32
    begin: Int64
    end: Int64
    name: Int64

    def __len__(self) -> int:
        return len(self.begin)

    def where(self, mine: Bools | Int64) -> Spans:
        """Some of the spans: where a mask is true, or by index."""
        return Spans(self.thread[mine], self.begin[mine], self.end[mine], self.name[mine])


class Forest(NamedTuple):
    """For each span the index of the one around it, for each time on a thread that of the innermost; -1: none."""

    parent: Int64
    owner: Int64

    @classmethod
    def of(cls, spans: Spans, thread: Int32, at: Int64, nests: Bools, outer: list[Outer]) -> Forest:
        """Nests spans on the threads that have `nests`, and finds those around times; then asks each of `outer`."""
        count = len(spans)
        alone = ~nests[spans.thread]
        track = np.concatenate([spans.thread, thread])
        found = _innermost(track, np.concatenate([spans.begin, at]), np.concatenate([spans.end, at]))
        parent, owner = found[:count], found[count:]
        if alone.any():
            parent[alone] = -1
            owner[~nests[thread]] = -1
        _leave_crossed(parent, spans)
        for find in outer:
            for around, threads, begin in ((parent, spans.thread, spans.begin), (owner, thread, at)):
                lost = np.flatnonzero(around < 0)
                around[lost] = find(threads[lost], begin[lost])
        return cls(parent, owner)

    def levels(self) -> Iterator[Int64]:
        """Yields the spans without a parent, then those in them, and so on."""
        depth, ancestor = (self.parent >= 0).astype(np.int64), self.parent.copy()
        above = np.flatnonzero(ancestor >= 0)
        while len(above):  # an ancestor twice as far each time
            further = ancestor[above]
            depth[above] += depth[further]
            ancestor[above] = ancestor[further]
            above = above[ancestor[above] >= 0]
        order = np.argsort(depth, kind="stable")
        bounds = np.cumsum(np.bincount(depth)) if len(depth) else np.zeros(0, np.int64)
        yield from np.split(order, bounds[:-1])


def _innermost(track: Int32, begin: Int64, end: Int64) -> Int64:
    """The index of the innermost slice around each slice, in blocks between times at which no slice is open."""
    if len(track) <= BLOCK:
        return innermost(track, begin, end)
    order = np.lexsort((begin, track))
    cuts = _cuts(track[order], begin[order], end[order])
    found = np.full(len(track), -1, np.int64)
    first = 0
    while first < len(order):
        place = np.searchsorted(cuts, min(first + BLOCK, len(order)))
        rows = np.sort(order[first : cuts[place]])  # slices that are equal nest in their order
        inside = innermost(track[rows], begin[rows], end[rows])
        found[rows] = np.where(inside >= 0, rows[inside], -1)
        first = int(cuts[place])
    return found


def _cuts(track: Int32, begin: Int64, end: Int64) -> Int64:
    """Where sorted slices begin after the end of all before them on their track; the last one is their number."""
    bounds = np.flatnonzero(starts((track,)))
    closed = np.ones(len(track), np.bool_)
    for low, high in pairwise([*bounds.tolist(), len(track)]):
        reached = np.maximum.accumulate(end[low:high])[:-1]
        here = begin[low + 1 : high]
        closed[low + 1 : high] = (here >= reached) & (here > begin[low : high - 1])
    closed[0] = False
    return np.append(np.flatnonzero(closed), len(track))


def _leave_crossed(parent: Int64, spans: Spans) -> None:
    """A span that outlasts the one in which it began stays in it only with its greater part."""
    inner = np.flatnonzero(parent >= 0)
    inner = inner[spans.end[inner] > spans.end[parent[inner]]]
    middle = spans.begin[inner] + (spans.end[inner] - spans.begin[inner]) // 2
    while len(inner):
        out = spans.end[parent[inner]] <= middle
        inner, middle = inner[out], middle[out]
        parent[inner] = parent[parent[inner]]
        there = parent[inner] >= 0
        inner, middle = inner[there], middle[there]
