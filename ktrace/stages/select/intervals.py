"""Sets of time intervals: their union and intersection, their length, and which rows overlap them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ktrace.model.arrays import Bools, Int64
from ktrace.store.events import LIMIT


class Intervals(NamedTuple):
    """Rising intervals [begin, end) in ns that don't touch each other."""

    begin: Int64
    end: Int64

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, int]]) -> Intervals:
        """The union of pairs (begin, end), clipped to the range of times."""
        ends = np.array([*pairs], object).reshape(-1, 2).clip(-LIMIT, LIMIT).astype(np.int64)
        return cls.union(ends[:, 0], ends[:, 1])

    @classmethod
    def union(cls, begin: Int64, end: Int64) -> Intervals:
        """The interval union: intervals that touch become one, empty ones are dropped."""
        lasts = end > begin
        if not lasts.all():
            begin, end = begin[lasts], end[lasts]
        if not len(begin):
            return cls(begin, end)
        if np.any(begin[1:] < begin[:-1]):
            order = np.argsort(begin, kind="stable")
            begin, end = begin[order], end[order]
        reached = np.maximum.accumulate(end)
        later = np.flatnonzero(begin[1:] > reached[:-1]) + 1
        return cls(begin[np.append(0, later)], reached[np.append(later - 1, len(reached) - 1)])

    @property
    def length(self) -> int:
        """The total time of the intervals."""
        return int((self.end - self.begin).sum())

    def gaps(self) -> Int64:
        """The length of the gap after each interval but the last, in ns."""
        return self.begin[1:] - self.end[:-1]

    def pairs(self) -> list[tuple[int, int]]:
        """The (begin, end) of each interval."""
        return list(zip(self.begin.tolist(), self.end.tolist(), strict=True))

    def intersection(self, other: Intervals) -> Intervals:
        """The intervals that are in both sets."""
        common, at, other_at = [], 0, 0
        while at < len(self.begin) and other_at < len(other.begin):
            end = min(self.end[at], other.end[other_at])
            common.append((int(max(self.begin[at], other.begin[other_at])), int(end)))
            at, other_at = at + int(self.end[at] == end), other_at + int(other.end[other_at] == end)
        return Intervals.from_pairs((begin, end) for begin, end in common if begin < end)

    def until(self, times: Int64) -> Int64:
        """The cumulative length of the intervals before each of these times, in ns."""
        if not len(self.begin):
            return np.zeros(len(times), np.int64)
        before = np.concatenate([[0], np.cumsum(self.end - self.begin)])
        at = np.searchsorted(self.begin, times, "right")  # so many have begun
        over = np.maximum(self.end[at - 1] - times, 0)  # what is left of the last one
        return np.where(at > 0, before[at] - over, 0)

    def overlap(self, ts: Int64, end: Int64) -> Bools:
        """Which rows overlap one of the intervals; a row without duration takes one nanosecond."""
        at = np.searchsorted(self.end, ts, "right")  # the first that ends after the row begins
        there = at < len(self.end)
        mask: Bools = there.copy()
        mask[there] = self.begin[at[there]] < np.maximum(end[there], ts[there] + 1)
        return mask

    def contain(self, ts: Int64) -> Bools:
        """Which times are in one of the intervals."""
        return self.overlap(ts, ts)


#: All times.
ALWAYS = Intervals.from_pairs([(-LIMIT, LIMIT)])

#: No times.
NEVER = Intervals.from_pairs([])
