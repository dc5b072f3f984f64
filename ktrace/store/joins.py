"""Joins on several columns of numbers at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktrace.model.arrays import Bools, Int64, Scalars

Columns = Sequence[Scalars]


def fresh(columns: Columns) -> Bools:
    """Where sorted rows differ from the row before."""
    differs = np.zeros(len(columns[0]), np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return differs


def find(wanted: Columns, known: Columns) -> Int64:
    """For each wanted row the position of the first known row that is equal in all columns, -1 where none is."""
    count = len(known[0])
    columns = [np.concatenate(pair) for pair in zip(known, wanted, strict=True)]
    order = np.lexsort(columns[::-1])  # stable: of equal rows, the known ones come first
    starts = fresh([column[order] for column in columns])
    first = order[np.flatnonzero(starts)][np.cumsum(starts) - 1]
    found = np.empty(len(order), np.int64)
    found[order] = np.where(first < count, first, -1)
    return found[count:]


def among(values: Int64, known: Int64) -> Bools:
    """Which values are among known ones, which rise and are some."""
    found: Bools = known[np.minimum(np.searchsorted(known, values), len(known) - 1)] == values
    return found
