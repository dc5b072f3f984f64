"""Dictionary columns: few distinct values, and for each row the index of one.

The combinations of values that occur in several columns.

Helpers for decoding much JSON.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import AnyArray
from ktrace.model.json_text import decoded, encoded


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
    coded = encoded(column)
    values = [None if cell is None else value(cell) for cell in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(values, kind or pa.string()))


def by_distinct(column: pa.Array, value: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """As `mapped_words`, as a column without a dictionary."""
    mapped = mapped_words(column, value, kind)
    return mapped.dictionary.take(mapped.indices)


def indices(column: pa.DictionaryArray) -> AnyArray:
    """The code of each row, -1 for null."""
    codes = column.indices
    if codes.null_count:
        codes = codes.fill_null(-1)
    numbers: AnyArray = codes.to_numpy(zero_copy_only=False)
    return numbers


def used_words(column: pa.Array) -> pa.Array:
    """A column whose dictionary has the words that rows have, in the order of their first rows; others unchanged."""
    if not pa.types.is_dictionary(column.type):
        return column
    codes, count = indices(column), len(column.dictionary)
    first = np.full(count + 1, len(codes))
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the first of equal ones is written last; -1 is the null
    first = first[:count]
    if count and first[-1] < len(codes) and np.all(first[1:] > first[:-1]):
        return column
    used = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))]
    new = np.full(count + 1, -1, np.int32)
    new[used] = np.arange(len(used))
    codes = new[codes]
    absent = pa.array(codes, mask=codes < 0) if column.null_count else pa.array(codes)
    return pa.DictionaryArray.from_arrays(absent, column.dictionary.take(pa.array(used)))


def combinations(columns: Sequence[pa.Array]) -> list[tuple[Any, ...]]:
    """Returns each combination of values once, in the order of their first rows.

    `pyarrow.Table.group_by` does this, too, but imports Arrow's datasets for it: 40 ms of CPU time.
    """
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        coded = decoded(column).dictionary_encode("encode")
        both = number * len(coded.dictionary) + coded.indices.to_numpy()
        number = pa.array(both).dictionary_encode().indices.to_numpy().astype(np.int64)
    # numbers rise from one first row to the next
    first = pa.array(np.flatnonzero(np.diff(np.maximum.accumulate(number), prepend=-1)) if len(number) else number)
    return list(zip(*(column.take(first).to_pylist() for column in columns), strict=True))


@contextmanager
def no_gc() -> Iterator[None]:
    """Turns the cycle collector off: it would visit all decoded objects repeatedly, at more than the cost of decoding.

    No decoded object is part of a cycle.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def is_utf8(text: bytes) -> bool:
    """Whether the text is valid UTF-8."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
