"""Compares launches in pairs, with those at the same places of the same steps.

    step 1   10.1 ─► 10.9   12.0 ─► 13.1   ...     +8 %, +9 %, ...: six parts of each step, as neighbours err alike
    step 2   10.3 ─► 11.2   11.9 ─► 12.8   ...     +9 %, +8 %, ...
    others   step 1 +2 %, step 2 -1 %              a step is slow or fast as a whole: an error of each step, not of each
                                                   part, in whatever direction

So a few steps of many launches show what their totals don't, and what all kernels of a step share isn't taken for the
change of one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktrace.analysis.diff.changes import Change
from ktrace.analysis.diff.noise import FEWEST, RUNS, students
from ktrace.model.arrays import Float64

#: The launches of a step are compared in so many parts with those at the same places: neighbours may err alike.
PARTS = 6


class Pairs:
    """The launches of the rows of a table, in pairs; `ratios` are the logarithms of steps × parts of each row."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.ratios = [_ratios(change) for change in changes]
        there = [place for place, of in enumerate(self.ratios) if of is not None]
        self._row = {place: number for number, place in enumerate(there)}
        means = [of.mean(axis=1) for of in self.ratios if of is not None]
        self._steps: Float64 = np.stack(means) if means else np.zeros((0, 0))
        self._order = np.argsort(self._steps, axis=0)
        self._launches = np.array([_count(changes[place]) for place in there], np.int64)

    def test(self, place: int) -> float | None:
        """Returns the two-sided p of the pairs of a row.

        None unless both sides have equally many launches in equally many steps, at least three in each, and each step
        of one takes longer than that of the other.
        """
        ratios = self.ratios[place]
        if ratios is None or ratios.shape[1] < FEWEST or abs(np.sign(ratios.mean(axis=1)).sum()) < len(ratios):
            return None
        shared, steps = self._shared(self._row[place]), len(ratios)
        own, common = float((ratios - shared[:, None]).var(ddof=1)) / ratios.size, float((shared**2).mean()) / steps
        freedom = ratios.size - 1
        if own + common:
            freedom = int((own + common) ** 2 / (own**2 / freedom + common**2 / steps))  # Satterthwaite's
        return students(float(ratios.mean()), own + common + 2 * RUNS**2, freedom)

    def _shared(self, row: int) -> Float64:
        """Returns by how much each step of all other rows is longer: medians over launches; of one row its own."""
        launches = self._launches.copy()
        launches[row] = 0
        if not launches.any():
            return np.array(self._steps[row])
        reached = np.cumsum(launches[self._order], axis=0)
        middle = np.argmax(2 * reached >= reached[-1], axis=0).tolist()
        return np.array([self._steps[self._order[of, step], step] for step, of in enumerate(middle)], np.float64)


def _ratios(change: Change) -> Float64 | None:
    a, b = (None if side is None else side.places for side in (change.a, change.b))
    if a is None or b is None or a.shape != b.shape or not a.size or min(a.min(), b.min()) <= 0:
        return None
    parts = min(a.shape[1], PARTS)
    first = np.arange(parts) * a.shape[1] // parts
    one, other = (np.add.reduceat(side.astype(np.float64), first, axis=1) for side in (a, b))
    return np.log(other / one)


def _count(change: Change) -> int:
    return change.a.places.size if change.a is not None and change.a.places is not None else 0
