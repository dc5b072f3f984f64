"""Sets of intervals of time, and which rows touch them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ktrace.ordering.eventstore import LIMIT

Bools = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]


class Intervals(NamedTuple):
    """Intervals [begin, end) in ns that rise and don't touch each other."""

    begin: Int64
    end: Int64

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Intervals:
        """The union of some (begin, end); those that touch become one."""
        found: list[list[int]] = []
        for begin, end in sorted((max(begin, -LIMIT), min(end, LIMIT)) for begin, end in pairs):
            if found and begin <= found[-1][1]:
                found[-1][1] = max(end, found[-1][1])
            elif begin < end:
                found.append([begin, end])
        return cls(np.array([begin for begin, _ in found], np.int64), np.array([end for _, end in found], np.int64))

    def pairs(self) -> list[tuple[int, int]]:
        """Each (begin, end)."""
        return list(zip(self.begin.tolist(), self.end.tolist(), strict=True))

    def both(self, other: Intervals) -> Intervals:
        """What is in both sets."""
        found, mine, theirs = [], 0, 0
        while mine < len(self.begin) and theirs < len(other.begin):
            end = min(self.end[mine], other.end[theirs])
            found.append((int(max(self.begin[mine], other.begin[theirs])), int(end)))
            mine, theirs = mine + int(self.end[mine] == end), theirs + int(other.end[theirs] == end)
        return Intervals.of((begin, end) for begin, end in found if begin < end)

    def touch(self, ts: Int64, end: Int64) -> Bools:
        """Which rows are in one of the intervals, at least in part; a row that takes no time is at its `ts`."""
        at = np.searchsorted(self.end, ts, "right")  # the first that ends after the row begins
        there = at < len(self.end)
        found: Bools = there.copy()
        found[there] = self.begin[at[there]] < np.maximum(end[there], ts[there] + 1)
        return found

    def hold(self, ts: Int64) -> Bools:
        """Which times are in one of the intervals."""
        return self.touch(ts, ts)


#: All of time.
ALWAYS = Intervals.of([(-LIMIT, LIMIT)])

#: No time.
NEVER = Intervals.of([])
