"""Dictionary columns: few distinct values, and for each row the index of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import AnyArray


def constant(word: str, rows: int) -> pa.DictionaryArray:
    """A column with the same value in every row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([word], pa.string()))


def words(values: list[str], codes: AnyArray) -> pa.DictionaryArray:
    """A column of words from their codes."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(values, pa.string()))


def mapped_words(column: pa.Array, value: Callable[[Any], Any], kind: pa.DataType | None = None) -> pa.DictionaryArray:
    """What `value` returns for each cell, computed once for each distinct one; null stays null.

    `kind` is the type of the new values, text by default.
    """
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = [None if cell is None else value(cell) for cell in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(values, kind or pa.string()))


def indices(column: pa.DictionaryArray) -> AnyArray:
    """The code of each row, -1 for null."""
    found = column.indices
    if found.null_count:
        found = found.fill_null(-1)
    numbers: AnyArray = found.to_numpy(zero_copy_only=False)
    return numbers
