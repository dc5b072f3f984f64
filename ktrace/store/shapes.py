"""Numbers for the combinations of values in some columns, of which millions of rows have some hundred.

source  stream  kind    short_name   number
run     7       kernel  gemm         0
run     7       kernel  norm         1
run     7       kernel  gemm         0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Int32, Int64
from ktrace.model.batch import Batch
from ktrace.store.joins import coded, combined, distinct


class Shapes:
    """The combinations of values in the columns `names`, numbered in the order of their first appearance."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._number: dict[tuple[Any, ...], int] = {}

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yields the values of each combination, in the order of the names."""
        return iter(self._number)

    def all(self) -> list[dict[str, Any]]:
        """Each combination by its number."""
        return [dict(zip(self.names, values, strict=True)) for values in self]

    def number(self, batch: Batch, rows: Int64) -> Int32:
        """The numbers of these rows of a batch."""
        if not len(rows):
            return np.zeros(0, np.int32)
        columns = {name: coded(batch.column(name), rows) for name in self.names if batch.has(name)}
        codes = combined(((own, len(values)) for own, values in columns.values()), len(rows))
        first, which = distinct(*codes)
        values = [
            columns[name][1].take(pa.array(columns[name][0][first])).to_pylist()
            if name in columns
            else [None] * len(first)
            for name in self.names
        ]
        known = self._number
        numbers = [known.setdefault(key, len(known)) for key in zip(*values, strict=True)]
        return np.array(numbers, np.int32)[which]
