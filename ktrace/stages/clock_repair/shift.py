"""By how much the times of a device move, so that no work begins before the call that launched it.

    need = begin of the call - begin of the work        above 0: the work seems to begin before its call

             x                      the shift is a constant, the greatest need, or a line above all needs where
    ___x_____________x__ shift      these drift by far more than they scatter
     x    x x    x  x               need

A shift that falls would move work into the work before it. It falls while the device is idle, and by no more than that:

    busy   [ a ][ b ]      [ c ]         by   20 20 17
    moved      [ a ][ b ]     [ c ]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktrace.model.arrays import Int64
from ktrace.stages.align.moves import Move

#: The parts of the time whose greatest need makes the line, and those that tell how much it scatters.
_FINE, _COARSE = 1024, 16

#: Drift is told from scatter by so many pieces of work, so many times as much of it and so many ns more.
_LEAST, _TIMES, _MORE = 16, 4, 1_000

#: No clock drifts more than this (1,000 ppm).
_MOST_DRIFT = 1e-3


class Steps(NamedTuple):
    """The shift of a device: `by` so many ns from each time of `at` on, which rise; the first one also before."""

    at: Int64
    by: Int64

    def of(self, ts: Int64) -> Int64:
        """The shift at each time, in ns."""
        return self.by[np.maximum(np.searchsorted(self.at, ts, "right") - 1, 0)]


def move_of(begin: Int64, need: Int64) -> Move:
    """The least move, a constant or a line, that is nowhere below the needs of work with these begins, in ns."""
    line = _line(begin, need)
    if line is None:
        return Move(int(need.max()))
    return Move(int((need - line.times(begin) + begin).max()), line.rate, line.since)


def _line(begin: Int64, need: Int64) -> Move | None:
    """The slope of the needs; None where they don't drift."""
    since, length = int(begin.min()), int(begin.max() - begin.min())
    if len(begin) < _LEAST or not length:
        return None
    base = int(need.max())
    at, most = (begin - since).astype(np.float64), (need - base).astype(np.float64)
    top = _hull(*_greatest(at, most, length, _FINE))
    middle = float(at.mean())
    place = min(max(int(np.searchsorted(top[0], middle)), 1), len(top[0]) - 1)
    if not place:
        return None
    rate = float((top[1][place] - top[1][place - 1]) / (top[0][place] - top[0][place - 1]))
    coarse = _greatest(at, most, length, _COARSE)
    below = top[1][place] + rate * (coarse[0] - top[0][place]) - coarse[1]
    drift = abs(rate) * length
    if abs(rate) > _MOST_DRIFT or len(below) < _COARSE // 2 or drift <= _TIMES * float(np.median(below)) + _MORE:
        return None
    return Move(0, rate, since)


def _greatest(at: np.ndarray, most: np.ndarray, length: int, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """The point with the greatest need in each part of the time that has any."""
    part = np.minimum((at * (parts / length)).astype(np.int64), parts - 1)
    order = np.lexsort((at, most, part))
    last = np.flatnonzero(np.append(part[order][1:] != part[order][:-1], True))
    return at[order[last]], most[order[last]]


def _hull(at: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners of the least concave line above the points, whose times rise."""
    corners: list[int] = []
    for now in range(len(at)):
        while len(corners) > 1:
            a, b = corners[-2:]
            if (most[b] - most[a]) * (at[now] - at[a]) > (most[now] - most[a]) * (at[b] - at[a]):
                break
            corners.pop()
        corners.append(now)
    return at[corners], most[corners]


def steps_of(move: Move, begin: Int64, end: Int64) -> Steps:
    """The shift of a device whose work, in the order of its begins, begins and ends at these times, in ns."""
    if not move.rate:
        return Steps(begin[:1], np.array([move.offset], np.int64))
    by = move.times(begin) - begin
    reached = np.maximum.accumulate(end)
    idle = np.zeros(len(begin), np.int64)
    np.cumsum(np.maximum(begin[1:] - reached[:-1], 0), out=idle[1:])
    by = np.maximum.accumulate(by + idle) - idle
    changes = np.flatnonzero(np.append(True, by[1:] != by[:-1]))
    return Steps(begin[changes], by[changes])
