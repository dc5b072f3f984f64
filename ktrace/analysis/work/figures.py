"""Figures of groups of durations: count, total, average and percentiles, exact.

    group      0   1   0   0   1
    duration   5   9   1   3   7     ──►   0: count 3, total 9, median 3;  1: count 2, total 16, median 8

A percentile between two durations is interpolated linearly (type 7 of Hyndman and Fan, as in numpy, pandas and
spreadsheets): the median of 7 and 9 is 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ktrace.analysis.work.groups import Group, Spread
from ktrace.analysis.work.stored_columns import BLOCK, StoredColumns, new_column
from ktrace.model.arrays import AnyArray, Float64, Int32, Int64, Integers
from ktrace.store.spill import Spill

#: Returns the number of the group of each row, from columns.
Number = Callable[[dict[str, Any]], Int32]

#: numpy uses radix sort for 16-bit numbers, which is many times faster.
_SHORT = 1 << 16


def sorted_by(group: Integers, groups: int) -> Int64:
    """The indices of rows sorted by group; rows of one group keep their order."""
    short = group.astype(np.uint16) if groups <= _SHORT else group
    return np.argsort(short, kind="stable")


def by_group(group: Integers, groups: int) -> Callable[[int], Int64]:
    """A function that returns the indices of the rows of a group."""
    order = sorted_by(group, groups)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=groups))])
    return lambda number: order[bounds[number] : bounds[number + 1]]


class Durations:
    """Durations of work, from which groups are made.

    They are kept source by source, rising, with the number of their `shape`, and if there are any, of their `step` and
    `layer` (-1: none). Large columns are in files; the groups remain usable after the folder has been removed.
    """

    def __init__(self, spill: Spill, steps: int = 0, layers: int = 0, name: str = "durations") -> None:
        """`steps` and `layers` are the numbers of steps and layers; `name` is that of the files."""
        self._spill, self._steps = spill, steps
        self._names = ["dur", "shape", *(["step"] if steps else []), *(["layer"] if layers else [])]
        self._rows = StoredColumns(spill, name, **{column: "i8" if column == "dur" else "i4" for column in self._names})

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, source: str, **columns: AnyArray) -> None:
        """Adds all work of a source."""
        order = np.argsort(columns["dur"])
        for first in range(0, len(order), BLOCK):
            block = order[first : first + BLOCK]
            self._rows.add(source, **{name: columns[name][block] for name in self._names})

    def groups(
        self, by: str, number: Number, keys: Sequence[str], names: Sequence[str | None] | None = None
    ) -> list[Group]:
        """A group for each key that any row has, heaviest first; `number` returns the indices of the keys of rows.

        `names` are the whole names of the keys.
        """
        counts, steps = np.zeros(len(keys), np.int64), np.zeros((len(keys), self._steps))
        inside = np.zeros((len(keys), self._steps), np.int64)
        for rows in self._blocks():
            own = number(rows)
            counts += np.bincount(own, minlength=len(keys))
            if self._steps:
                _add_steps(steps, inside, own, rows)
        every = self._rising(f"by.{by}", number, counts)
        within = every
        if self._steps and int(inside.sum()) < len(self):
            within = self._rising(f"by.{by}.inside", number, inside.sum(axis=1), inside=True)
        found = []
        for place in np.flatnonzero(counts).tolist():
            mine = every(place)
            total = int(mine.sum())
            median, p95, p99 = percentiles(mine, (50, 95, 99))
            found.append(
                Group(
                    keys[place],
                    total,
                    len(mine),
                    total / len(mine),
                    median,
                    p95,
                    p99,
                    int(mine[0]),
                    int(mine[-1]),
                    name=names[place] if names else None,
                    durations=mine,
                    steps=steps[place] if self._steps else None,
                    step_counts=inside[place] if self._steps else None,
                    inside=within(place) if self._steps else None,
                )
            )
        return sorted(found, key=lambda one: -one.total)

    def totals(self, number: Int32, keys: Sequence[str]) -> list[Group]:
        """A group with its total and count for each key that any row has; `number` is the key of each shape."""
        counts, totals = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        for rows in self._blocks():
            own = number[rows["shape"]]
            counts += np.bincount(own, minlength=len(keys))
            np.add.at(totals, own, rows["dur"])
        there = np.flatnonzero(counts).tolist()
        return [Group(keys[place], int(totals[place]), int(counts[place])) for place in there]

    def _blocks(self, *, inside: bool = False) -> Iterator[dict[str, Any]]:
        """Yields the rows, those of each source in rising order; with `inside` only those in steps."""
        for source in self._rows.sources:
            rows = self._rows.of(source)
            for first in range(0, len(rows["dur"]), BLOCK):
                block = {name: column[first : first + BLOCK] for name, column in rows.items()}
                mine = block["step"] >= 0 if inside else slice(None)
                yield {name: column[mine] for name, column in block.items()}

    def _rising(self, name: str, number: Number, counts: Int64, *, inside: bool = False) -> Callable[[int], Int64]:
        """A function that returns the durations of a group, rising; with `inside` only those in steps."""
        bounds = np.concatenate([[0], np.cumsum(counts)])
        found = new_column(self._spill, name, int(bounds[-1]))
        free = bounds[:-1].copy()
        for rows in self._blocks(inside=inside):
            own = number(rows)
            counts = np.bincount(own, minlength=len(free))
            durations = rows["dur"][sorted_by(own, len(free))]
            there, first = np.flatnonzero(counts), 0
            for count, at in zip(counts[there].tolist(), free[there].tolist(), strict=True):
                found[at : at + count] = durations[first : first + count]
                first += count
            free += counts

        def rising(place: int) -> Int64:
            mine = found[bounds[place] : bounds[place + 1]]
            if len(self._rows.sources) > 1:
                mine.sort()
            return mine

        return rising


def _add_steps(totals: Float64, counts: Int64, own: Int32, rows: dict[str, Any]) -> None:
    """Adds the time and the number of rows of each group in each step.

    Sums of whole ns below 2^53 (104 days) are exact.
    """
    inside = rows["step"] >= 0
    cell = own[inside].astype(np.int64) * totals.shape[1] + rows["step"][inside]
    totals += np.bincount(cell, weights=rows["dur"][inside], minlength=totals.size).reshape(totals.shape)
    counts += np.bincount(cell, minlength=counts.size).reshape(counts.shape)


def percentiles(rising: Int64, which: Sequence[float]) -> list[float]:
    """Percentiles of some numbers in rising order."""
    place = np.asarray(which, np.float64) / 100 * (len(rising) - 1)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, len(rising) - 1)
    found: list[float] = (rising[low] + (rising[high] - rising[low]) * (place - low)).tolist()
    return found


def spread(times: Int64) -> Spread | None:
    """Median and extremes of some times, None if there are none."""
    if not len(times):
        return None
    rising = np.sort(times)
    median, p95 = percentiles(rising, (50, 95))
    return Spread(len(rising), int(rising.sum()), median, p95, int(rising[-1]))
