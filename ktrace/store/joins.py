"""Joins and groups of rows by one or several columns of numbers.

starts     where sorted rows begin a new group
find       for each wanted row the first known row that is equal
positions  where values stand among sorted ones
among      which values are among sorted ones
coded      a column as codes from 0, and the values that these stand for
combined   one code for the codes of several columns
distinct   the first row of each code, and for each row the position of its code
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int64, Scalars

Columns = Sequence[Scalars]

#: Codes of several columns stay below this number.
_CODES = 1 << 62

#: Up to this many codes more than rows are counted in a table; more are sorted.
_TABLE = 1 << 16


def starts(columns: Columns) -> Bools:
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
    begins = starts([column[order] for column in columns])
    first = order[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    found = np.empty(len(order), np.int64)
    found[order] = np.where(first < count, first, -1)
    return found[count:]


def positions(wanted: Int64, known: Int64) -> Int64:
    """The first position of each wanted value among known ones, which are sorted; -1 where it isn't among them."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, at, -1)


def among(values: Int64, known: Int64) -> Bools:
    """Which values are among known ones, which are sorted."""
    found: Bools = positions(values, known) >= 0
    return found


def coded(column: pa.Array, rows: Int64 | None = None) -> tuple[Int64, pa.Array]:
    """The codes of a column from 0, and the values that they stand for; null has a code of its own.

    With `rows` only those rows.
    """
    some = rows is not None and len(rows) != len(column)
    if not pa.types.is_dictionary(column.type):
        encoded = (column.take(pa.array(rows)) if some else column).dictionary_encode(null_encoding="encode")
        return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary
    indices, values = column.indices, column.dictionary
    if column.null_count:
        indices = indices.fill_null(len(values))
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    codes = indices.to_numpy(zero_copy_only=False)
    return (codes[rows] if some else codes).astype(np.int64), values


def combined(columns: Iterable[tuple[Int64, int]], rows: int) -> tuple[Int64, int]:
    """One code for each row, equal where all columns are equal, and how many codes there may be.

    `columns` are codes from 0, and for each column how many.
    """
    codes, size = np.zeros(rows, np.int64), 1
    for own, count in columns:
        if count < 2:
            continue
        if size * count >= _CODES:
            known, codes = np.unique(codes, return_inverse=True)
            size = len(known)
        codes = codes * count + own
        size *= count
    return codes, size


def distinct(codes: Int64, size: int) -> tuple[Int64, Int64]:
    """The first row of each code, and for each row the position of its code among these. Codes are below `size`."""
    if size > len(codes) + _TABLE:
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        return first, which
    place = np.full(size, -1, np.int64)
    place[codes[::-1]] = np.arange(len(codes))[::-1]
    first = place[place >= 0]
    numbers = np.cumsum(place >= 0) - 1
    return first, numbers[codes]


def distinct_rows(columns: Sequence[pa.Array], rows: int) -> tuple[Int64, Int64]:
    """The first of the rows that are equal in all columns, and for each row the position of its first among these."""
    codes = ((own, len(values)) for own, values in map(coded, columns))
    return distinct(*combined(codes, rows))
