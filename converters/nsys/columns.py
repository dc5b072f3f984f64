"""Small conversions of columns: nulls to a number, words to their distinct ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Int64


def filled(column: pa.Array | None, rows: int, null: int) -> Int64:
    """Returns the numbers of a column with `null` in place of null, or in every row without a column."""
    if column is None:
        return np.full(rows, null, np.int64)
    numbers: Int64 = (column.fill_null(null) if column.null_count else column).to_numpy(zero_copy_only=False)
    return numbers


def filled_part(part: pa.Table, name: str, null: int) -> Int64:
    """Returns the numbers of a table's column with `null` in place of null, or everywhere if it has no integers."""
    if name not in part.column_names or not pa.types.is_int64(part.schema.field(name).type):
        return np.full(len(part), null, np.int64)
    return filled(part.column(name).combine_chunks(), len(part), null)


def distinct_words(words: Iterable[str | None]) -> tuple[pa.Int32Array, pa.StringArray]:
    """Returns the index of each word into the distinct words, and these."""
    places: dict[str, int] = {}
    indices = [None if word is None else places.setdefault(word, len(places)) for word in words]
    return pa.array(indices, pa.int32()), pa.array(list(places), pa.string())
