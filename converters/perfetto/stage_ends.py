"""Which ends among the edges of a timeline are those of render stages, which have no end of their own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from ktrace.order import TimelineBatch

from .._shared.arguments import slice_rows
from .encode import Bools, Int64

_KEY = np.dtype([("ts", "i8"), ("track", "i4"), ("lane", "i4")])
Keys = npt.NDArray[np.void]


class StageEnds:
    """Remembers the ends of stages that later batches have.

    An end says only when and where. Of one nanosecond, track and lane all ends are alike, but for those of slices
    without duration, which stand behind their begin. On most tracks there is nothing but stages: all ends are theirs.
    """

    def __init__(self, tracks: int, end: int) -> None:
        """`end` is the end of the trace, where slices without a known one end."""
        self._end = end
        self._open: Keys = np.empty(0, _KEY)
        self._mixed = np.zeros(tracks, np.bool_)

    def of_stages(self, batch: TimelineBatch, stage: Bools) -> Bools:
        """Which edges are ends of stages."""
        edges = batch.edges
        found = np.zeros(len(edges.row), np.bool_)
        slices = slice_rows(batch.batch)
        self._mixed[batch.track[slices & ~stage]] = True
        if not stage.any() and not len(self._open):
            return found
        length = pc.fill_null(batch.batch.column("dur"), -1).to_numpy(zero_copy_only=False)
        at_once = _at_once(edges.row, (length == 0) & slices)
        found[1:] = at_once[1:] & stage[edges.row[:-1]]
        self._open = np.concatenate([self._open, self._ends(batch, np.flatnonzero(stage & (length != 0)), length)])
        is_end = (edges.row < 0) & ~at_once
        mixed = self._mixed[edges.track]
        found |= is_end & ~mixed
        here = np.flatnonzero(is_end & mixed)
        ours = np.flatnonzero(self._mixed[self._open["track"]])
        gone = self._open["ts"] <= (edges.ts[-1] if len(edges.ts) else -1)
        if len(ours):
            keys = np.empty(len(here), _KEY)
            keys["ts"], keys["track"], keys["lane"] = edges.ts[here], edges.track[here], edges.lane[here]
            one, other = _common(keys, self._open[ours])
            found[here[one]] = True
            gone[ours] = False
            gone[ours[other]] = True
        self._open = self._open[~gone]
        return found

    def _ends(self, batch: TimelineBatch, rows: Int64, length: Int64) -> Keys:
        ends = np.empty(len(rows), _KEY)
        ts = batch.batch.column("ts").to_numpy()[rows]
        ends["ts"] = np.where(length[rows] < 0, self._end, ts + length[rows])
        ends["track"], ends["lane"] = batch.track[rows], batch.batch.column("lane").to_numpy()[rows]
        return ends


def _at_once(row: npt.NDArray[np.int32], empty: Bools) -> Bools:
    """Which edges are ends of slices without duration: they follow their begin."""
    at_once = np.zeros(len(row), np.bool_)
    before = row[:-1]
    at_once[1:] = (row[1:] < 0) & (before >= 0) & empty[before]
    return at_once


def _common(one: Keys, other: Keys) -> tuple[Int64, Int64]:
    """Positions of what two lists have in common, as often as both have it."""
    both = np.concatenate([one, other])
    order = np.lexsort((both["lane"], both["track"], both["ts"]))
    ordered = both[order]
    same = np.ones(len(both), np.bool_)
    for name in _KEY.names or ():
        same[1:] &= ordered[name][1:] == ordered[name][:-1]
    number = np.empty(len(both), np.int64)
    number[order] = np.cumsum(~same)
    first, second = _ranked(number[: len(one)]), _ranked(number[len(one) :])
    _, at_one, at_two = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    return at_one, at_two


def _ranked(numbers: Int64) -> Int64:
    """Each number together with how many equal ones stand before it."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    rank = np.empty(len(numbers), np.int64)
    rank[order] = np.arange(len(numbers)) - np.searchsorted(ordered, ordered)
    return numbers << 32 | rank
