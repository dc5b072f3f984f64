"""Work by kernel and grid, for `ktrace diff`: launches of one grid are alike.

    gemm grid 32x8      640 launches, their durations in ascending order
    gemm grid 64x8      320 launches, ...

A trace may have tens of thousands of these, so that they are columns; a `Group` is made of the few that are shown.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.durations import Durations, Samples
from ktrace.analysis.work.groups import OF_GRID, Group
from ktrace.analysis.work.question import Key
from ktrace.model.arrays import Int64
from ktrace.store.vocabulary import RowKeys


class GridTexts(NamedTuple):
    """The texts of grids, and for each number of a grid the number of its text; -1 where the grid isn't known."""

    texts: list[str]
    number: Int64

    @classmethod
    def from_grids(cls, grids: RowKeys) -> GridTexts:
        """The texts of the grids that were gathered."""
        numbers: dict[str, int] = {"": -1}
        sizes = ("x".join(str(size) for size in grid if size is not None) for grid in grids)
        number = [numbers.setdefault(text, len(numbers) - 1) for text in sizes]
        return cls([*numbers][1:], np.array(number, np.int64))


class KernelGrids:
    """The launches of each kernel by grid. `key` tells the kernel of a shape of work."""

    def __init__(self, work: Work, durations: Durations, key: Key, grids: GridTexts) -> None:
        of_shape, self._kernels = work.by_shape(key)
        self._texts = grids.texts

        def cell(rows: dict[str, Any]) -> Int64:
            grid = grids.number[rows["grid"]]
            return np.where(grid < 0, -1, of_shape[rows["shape"]].astype(np.int64) * len(grids.texts) + grid)

        self._cells = durations.distinct(cell)
        self._columns = durations.columns(
            "grid", lambda rows: np.searchsorted(self._cells, cell(rows)).astype(np.int32), len(self._cells)
        )

    @cached_property
    def by_kernel(self) -> dict[str, dict[str, int]]:
        """The place of each grid of each kernel, without those that no step has if there are steps."""
        there = self._cells >= 0
        if self._columns.within is not None:
            there &= self._columns.within.counts > 0
        places: dict[str, dict[str, int]] = {}
        for place in np.flatnonzero(there).tolist():
            kernel, grid = divmod(int(self._cells[place]), len(self._texts))
            places.setdefault(self._kernels[kernel], {})[self._texts[grid]] = place
        return places

    def group(self, place: int) -> Group:
        """The launches of a kernel by one grid."""
        kernel, grid = divmod(int(self._cells[place]), len(self._texts))
        return self._columns.group(place, f"{self._kernels[kernel]}{OF_GRID}{self._texts[grid]}")

    def samples(self, places: Int64) -> Samples:
        """The durations of some of them."""
        return self._columns.every.of_groups(places)
