"""Figures of groups of durations: count, total, average and percentiles, exact.

    group      0   1   0   0   1
    duration   5   9   1   3   7     ──►   0: count 3, total 9, median 3;  1: count 2, total 16, median 8

A percentile between two durations lies between them in proportion (type 7 of Hyndman and Fan, as of numpy, pandas and
spreadsheets): the median of 7 and 9 is 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ktrace.summary.model import Float64, Group, Int64, Spread

Int32 = npt.NDArray[np.int32]

#: numpy sorts numbers of 16 bits by their digits, many times faster.
_SHORT = 1 << 16


def sorted_by(group: npt.NDArray[np.integer], groups: int) -> Int64:
    """The places of rows by group, those of one group in the order in which they stand."""
    short = group.astype(np.uint16) if groups <= _SHORT else group
    return np.argsort(short, kind="stable")


def by_group(group: npt.NDArray[np.integer], groups: int) -> Callable[[int], Int64]:
    """A function that gives the places of the rows of a group."""
    order = sorted_by(group, groups)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=groups))])
    return lambda number: order[bounds[number] : bounds[number + 1]]


class Durations:
    """Durations of work in rising order, from which groups by anything are made."""

    def __init__(self, durations: Int64, steps: Int32 | None = None, step_count: int = 0) -> None:
        """`steps` is the number of the step of each piece of work, -1 where it is in none."""
        self._order = np.argsort(durations, kind="stable")
        self._rising = durations[self._order]
        self._steps = None if steps is None else steps[self._order]
        self._step_count = step_count

    def groups(self, group: Int32, keys: Sequence[str], names: Sequence[str | None] | None = None) -> list[Group]:
        """A group for each key that any row is of, heaviest first; `group` is the number of each row's key.

        `names` are the whole names of the keys.
        """
        own = group[self._order]
        rising = self._rising[sorted_by(own, len(keys))]
        counts = np.bincount(own, minlength=len(keys))
        starts = np.concatenate([[0], np.cumsum(counts)])
        steps = self._by_step(own, len(keys))
        found = []
        for number in np.flatnonzero(counts).tolist():
            mine = rising[starts[number] : starts[number + 1]]
            total = int(mine.sum())
            median, p95, p99 = percentiles(mine, (50, 95, 99))
            found.append(
                Group(
                    keys[number],
                    total,
                    len(mine),
                    total / len(mine),
                    median,
                    p95,
                    p99,
                    int(mine[0]),
                    int(mine[-1]),
                    name=names[number] if names else None,
                    durations=mine,
                    steps=None if steps is None else steps[number],
                )
            )
        return sorted(found, key=lambda one: -one.total)

    def _by_step(self, own: Int32, groups: int) -> Float64 | None:
        """The total of each group in each step. Sums of whole ns below 2^53 (104 days) are exact."""
        if self._steps is None:
            return None
        inside = self._steps >= 0
        cell = own[inside].astype(np.int64) * self._step_count + self._steps[inside]
        sums = np.bincount(cell, weights=self._rising[inside], minlength=groups * self._step_count)
        return sums.astype(np.float64, copy=False).reshape(groups, self._step_count)


def percentiles(rising: Int64, which: Sequence[float]) -> list[float]:
    """Percentiles of some numbers in rising order."""
    place = np.asarray(which, np.float64) / 100 * (len(rising) - 1)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, len(rising) - 1)
    found: list[float] = (rising[low] + (rising[high] - rising[low]) * (place - low)).tolist()
    return found


def spread(times: Int64) -> Spread | None:
    """Middle and extremes of some times, None of none."""
    if not len(times):
        return None
    rising = np.sort(times)
    median, p95 = percentiles(rising, (50, 95))
    return Spread(len(rising), int(rising.sum()), median, p95, int(rising[-1]))
