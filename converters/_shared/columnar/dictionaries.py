"""Dictionary columns: few distinct values, and for each row the index of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def constant(word: str, rows: int) -> pa.DictionaryArray:
    """A column with the same value in every row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([word], pa.string()))


def words(values: list[str], codes: npt.NDArray[Any]) -> pa.DictionaryArray:
    """A column of words from their codes."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(values, pa.string()))


def indices(column: pa.DictionaryArray) -> npt.NDArray[Any]:
    """The code of each row, -1 for null."""
    found = column.indices
    if found.null_count:
        found = found.fill_null(-1)
    numbers: npt.NDArray[Any] = found.to_numpy(zero_copy_only=False)
    return numbers
