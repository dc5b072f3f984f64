"""Joins and groups of rows by one or several columns of numbers.

group_start_mask  where sorted rows begin a new group
each_group        the rows of each group, as a slice
greatest_so_far   for each sorted row the greatest value of its group up to it
find              for each row the first of others that is equal
positions         where values stand among sorted ones
isin_sorted       which values are among sorted ones
coded             a column as codes from 0, and the values that these stand for
combined          one code for the codes of several columns
distinct          the first row of each code, and for each row the position of its code
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int64, Integers, Scalars

Columns = Sequence[Scalars]

#: Codes of several columns stay below this number.
_CODES = 1 << 62

#: Codes are counted in a table if they are at most so many times as many as rows, and at most so many more.
_SPARSE, _TABLE = 16, 1 << 16

#: numpy uses radix sort for 16-bit numbers, which is many times faster.
_SHORT = 1 << 16


def group_start_mask(columns: Columns) -> Bools:
    """Which sorted rows differ from the row before, and so begin a group."""
    differs = np.zeros(len(columns[0]), np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return differs


def each_group(columns: Columns) -> Iterator[slice]:
    """Yields where each run of equal sorted rows is."""
    first = np.flatnonzero(group_start_mask(columns)).tolist()
    yield from map(slice, first, [*first[1:], len(columns[0])])


def greatest_so_far(values: Int64, columns: Columns) -> Int64:
    """For each row the greatest value so far in its run of equal sorted rows, such as how far a track has come."""
    if not len(values):
        return values.copy()
    group = np.cumsum(group_start_mask(columns)) - 1
    least, most, last = int(values.min()), int(values.max()), int(group[-1])
    if (most - least + 1) * (last + 1) < _CODES:  # the values of each group, raised above those of all before it
        base = group * (most - least + 1)
        raised: Int64 = np.maximum.accumulate(values - least + base)
        return raised - base + least
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    base = group * len(order)
    result: Int64 = values[order][np.maximum.accumulate(rank + base) - base]
    return result


def find(rows: Columns, among: Columns) -> Int64:
    """Left join by a stable sort: the first position in `among` that equals each row in all columns, -1 for none."""
    count = len(among[0])
    columns = [np.concatenate(pair) for pair in zip(among, rows, strict=True)]
    order = np.lexsort(columns[::-1])  # stable: of equal rows, those among which it looks come first
    begins = group_start_mask([column[order] for column in columns])
    first = order[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    position = np.empty(len(order), np.int64)
    position[order] = np.where(first < count, first, -1)
    return position[count:]


def positions(values: Int64, rising: Int64) -> Int64:
    """The first position of each value among rising ones, -1 where it isn't among them."""
    if not len(rising):
        return np.full(len(values), -1, np.int64)
    at = np.minimum(np.searchsorted(rising, values), len(rising) - 1)
    return np.where(rising[at] == values, at, -1)


def isin_sorted(values: Int64, rising: Int64) -> Bools:
    """Which values are among rising ones."""
    return positions(values, rising) >= 0


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


def combined(columns: Iterable[tuple[Integers, int]], rows: int) -> tuple[Int64, int]:
    """One code for each row, equal where all columns are equal, and how many codes there may be.

    `columns` are codes from 0, and for each column how many.
    """
    codes, size = np.zeros(rows, np.int64), 1
    for column, count in columns:
        if count < 2:
            continue
        if size * count >= _CODES:
            distinct_codes, codes = np.unique(codes, return_inverse=True)
            size = len(distinct_codes)
        codes = codes * count + column
        size *= count
    return codes, size


def sorted_by(group: Integers, groups: int) -> Int64:
    """The indices of rows sorted by group; rows of one group keep their order."""
    short = group.astype(np.uint16) if groups <= _SHORT else group
    return np.argsort(short, kind="stable")


def is_among(values: Int64, members: Int64) -> Bools:
    """Which values are among the members: `np.isin` hashes them, which takes many times as long for ids of rows."""
    rising = members if np.all(members[1:] >= members[:-1]) else np.sort(members)
    return isin_sorted(values, rising)


def distinct(codes: Int64, size: int) -> tuple[Int64, Int64]:
    """The first row of each code, and for each row the position of its code among these. Codes are below `size`."""
    if size > min(_SPARSE * len(codes), len(codes) + _TABLE):
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        return first, which
    place = np.full(size, -1, np.int64)
    place[codes[::-1]] = np.arange(len(codes))[::-1]
    first = place[place >= 0]
    numbers = np.cumsum(place >= 0) - 1
    return first, numbers[codes]


def ranges(first: Int64, count: Int64) -> Int64:
    """The numbers of some ranges, one after another: 5, 6, 7, 20, 21 where they begin at 5 and 20, and have 3 and 2."""
    ends = np.cumsum(count)
    return np.repeat(first - (ends - count), count) + np.arange(ends[-1] if len(ends) else 0)


def distinct_rows(columns: Sequence[pa.Array], rows: int) -> tuple[Int64, Int64]:
    """The first of the rows that are equal in all columns, and for each row the position of its first among these."""
    codes = ((codes_of, len(values)) for codes_of, values in map(coded, columns))
    return distinct(*combined(codes, rows))


class Moments:
    """Moments of groups, in which the last one up to a time is looked for again and again."""

    def __init__(self, group: Integers, time: Int64) -> None:
        self._times = np.sort(time)
        self._stride = len(time) + 1
        code = self._code(group, np.searchsorted(self._times, time, "left"))
        self._order = np.argsort(code, kind="stable")
        self._codes = code[self._order]

    def last(self, group: Integers, until: Int64) -> Int64:
        """The index of the last moment of each group up to a time, inclusive; -1 where there is none.

        Of several at the same time it is the last one in the order of the moments.
        """
        code = self._code(group, np.searchsorted(self._times, until, "right"))
        at = np.searchsorted(self._codes, code, "left") - 1
        there = np.append(self._codes, -1)[at] >= self._code(group, 0)  # the last one is for the place -1
        return np.where((at >= 0) & there, np.append(self._order, -1)[at], -1)

    def _code(self, group: Integers, rank: Int64 | int) -> Int64:
        return group.astype(np.int64) * self._stride + rank
