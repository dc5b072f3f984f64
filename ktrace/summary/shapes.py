"""Numbers for the combinations of values in some columns: rows by the million are of some hundred shapes.

source  stream  kind    short_name   number
run     7       kernel  gemm         0
run     7       kernel  norm         1
run     7       kernel  gemm         0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Int32, Int64
from ktrace.model.batch import Batch

#: So many combinations are counted in a table; of more the codes are sorted.
_FEW = 1 << 16


class Shapes:
    """The combinations of values of `names` that were seen, numbered in the order in which they came."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._number: dict[tuple[Any, ...], int] = {}

    def __len__(self) -> int:
        return len(self._number)

    def all(self) -> list[dict[str, Any]]:
        """Each combination by its number."""
        return [dict(zip(self.names, values, strict=True)) for values in self._number]

    def number(self, batch: Batch, rows: Int64) -> Int32:
        """The numbers of these rows of a batch."""
        if not len(rows):
            return np.zeros(0, np.int32)
        codes, size = np.zeros(len(rows), np.int64), 1
        columns: dict[str, tuple[Int64, pa.Array]] = {}
        for name in self.names:
            if not batch.has(name):
                continue
            own, words = _coded(batch.column(name), rows)
            columns[name] = own, words
            if len(words) < 2:
                continue
            if size * len(words) >= 1 << 62:
                found, codes = np.unique(codes, return_inverse=True)
                size = len(found)
            codes = codes * len(words) + own
            size *= len(words)
        first, which = _distinct(codes, size)
        values = [
            columns[name][1].take(pa.array(columns[name][0][first])).to_pylist()
            if name in columns
            else [None] * len(first)
            for name in self.names
        ]
        known = self._number
        numbers = [known.setdefault(key, len(known)) for key in zip(*values, strict=True)]
        return np.array(numbers, np.int32)[which]


def _coded(column: pa.Array, rows: Int64) -> tuple[Int64, pa.Array]:
    """Codes of the rows of a column from 0, and the values that they stand for, null last of those that have it."""
    if not pa.types.is_dictionary(column.type):
        taken = column if len(rows) == len(column) else column.take(pa.array(rows))
        encoded = taken.dictionary_encode(null_encoding="encode")
        return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary
    indices, words = column.indices, column.dictionary
    if column.null_count:
        indices = indices.fill_null(len(words))
        words = pa.concat_arrays([words, pa.nulls(1, words.type)])
    codes = indices.to_numpy(zero_copy_only=False)
    return (codes if len(rows) == len(column) else codes[rows]).astype(np.int64), words


def _distinct(codes: Int64, size: int) -> tuple[Int64, Int64]:
    """The first row of each code, and for each row the place of its code among these."""
    if size > len(codes) + _FEW:
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        return first, which
    place = np.full(size, -1, np.int64)
    place[codes[::-1]] = np.arange(len(codes))[::-1]
    first = place[place >= 0]
    numbers = np.cumsum(place >= 0) - 1
    return first, numbers[codes]
