"""Rows of several kept batches in any order, joined when they are asked for.

    kernels   ts dur name grid_x      0 1 2 3        kept batches of different columns
    calls     ts dur name tid         0 1 2 3
    wanted    kernel 2, call 2, kernel 3, call 3     a range of time

A writer that takes kernels and calls separately gets each as it was kept: columns that only other batches have are
never filled with nulls, and consecutive rows are a slice, not a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded, json_cells
from ktrace.store.vocabulary import Vocabularies

#: Arguments that are columns where batches are joined. With ever new keys, a column for each, of all rows, would take
#: quadratic time and memory; the rarest become members of `args`.
MOST_ARGUMENTS = 256

#: An argument is rare in a batch if at most one row of so many has it; so many rare ones may have columns.
ROWS_OF_RARE, MOST_RARE = 32, 64

Columns = TypeVar("Columns", pa.RecordBatch, pa.Array)


class GatheredRows:
    """Rows of `parts`: row `row` of part number `part`, in the order in which they are wanted."""

    def __init__(self, parts: list[pa.RecordBatch], part: Int64, row: Int64, words: Vocabularies) -> None:
        self._parts = parts
        self._part = part
        self._row = row
        self._words = words
        self._known: dict[str, pa.Array] = {}
        self.names = list(dict.fromkeys(name for part in parts for name in part.schema.names))

    @classmethod
    def whole(cls, columns: pa.RecordBatch, words: Vocabularies) -> GatheredRows:
        """All rows of one batch, in their order."""
        rows = np.arange(columns.num_rows)
        return cls([columns], np.zeros_like(rows), rows, words)

    def some(self, index: Int64) -> GatheredRows:
        """Some of the rows, with the columns that any of them has."""
        part = self._part[index]
        used = np.flatnonzero(np.bincount(part)) if len(part) else np.zeros(1, np.int64)
        return GatheredRows(
            [self._parts[one] for one in used], np.searchsorted(used, part), self._row[index], self._words
        )

    def __len__(self) -> int:
        return len(self._row)

    def column(self, name: str) -> pa.Array:
        """A column of all rows, with words for numbers."""
        if name not in self._known:
            pieces = list(self._pieces(None))
            found = [_some(part.column(name), rows) if name in part.schema.names else None for part, rows, _ in pieces]
            joined = _joined(name, found, [len(rows) for _, rows, _ in pieces], self._words)
            back = _back([places for _, _, places in pieces])
            self._known[name] = self._words.decode(name, joined if back is None else joined.take(back))
        return self._known[name]

    def batch(self, index: Int64 | None = None) -> Batch:
        """Some rows (None: all) as events, with the columns that any of them has, except `half`."""
        pieces = list(self._pieces(index))
        columns = join([_some(part, rows) for part, rows, _ in pieces], self._words)
        back = _back([places for _, _, places in pieces])
        if back is not None:
            columns = columns.take(back)
        names = [name for name in columns.schema.names if name != "half"]
        arrays = [self._words.decode(name, columns.column(name)) for name in names]
        return Batch("events", pa.RecordBatch.from_arrays(arrays, names=names))

    def _pieces(self, index: Int64 | None) -> Iterator[tuple[pa.RecordBatch, Int64, Int64]]:
        """Yields each part that has some of the rows, their rows in it, and their positions among the wanted rows."""
        part, row = (self._part, self._row) if index is None else (self._part[index], self._row[index])
        if not len(row):
            yield self._parts[0], row, row
        for number in np.flatnonzero(np.bincount(part)).tolist():
            places = np.flatnonzero(part == number)
            yield self._parts[number], row[places], places


def _back(places: list[Int64]) -> pa.Array | None:
    """The indices that bring rows sorted by part back to their positions; None where they are in order already."""
    place = np.concatenate(places)
    if not np.any(place[1:] < place[:-1]):
        return None
    back = np.empty(len(place), np.int64)
    back[place] = np.arange(len(place))
    return pa.array(back)


def _some(columns: Columns, rows: Int64) -> Columns:
    """Rows of a batch or a column; a slice of it where they are consecutive."""
    count = len(rows)
    if not count:
        return columns.slice(0, 0)
    if int(rows[-1]) - int(rows[0]) + 1 == count and not np.any(rows[1:] < rows[:-1]):
        return columns.slice(int(rows[0]), count)
    return columns.take(pa.array(rows))


def join(parts: list[pa.RecordBatch], words: Vocabularies) -> pa.RecordBatch:
    """The rows of several batches, any of which may lack a column or have it with another type."""
    if len(parts) == 1:
        return parts[0]
    parts = _narrowed(parts, words)
    names = list(dict.fromkeys(name for part in parts for name in part.schema.names))
    rows = [part.num_rows for part in parts]
    arrays = [
        _joined(name, [part.column(name) if name in part.schema.names else None for part in parts], rows, words)
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _narrowed(parts: list[pa.RecordBatch], words: Vocabularies) -> list[pa.RecordBatch]:
    """The parts with at most `MOST_ARGUMENTS` columns of arguments; those that fewest rows have are in `args`."""
    filled: Counter[str] = Counter()
    for part in parts:
        for name, column in zip(part.schema.names, part.columns, strict=True):
            if name.startswith("args."):
                filled[name] += len(column) - column.null_count
    if len(filled) <= MOST_ARGUMENTS:
        return parts
    rare = {name for name, _ in filled.most_common()[MOST_ARGUMENTS:]}
    return [_with_text(part, [name for name in part.schema.names if name in rare], words) for part in parts]


def without_rare(columns: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose rare arguments, if there are many, are members of the text `args`: an array takes 3 kB at least."""
    names = [name for name in columns.schema.names if name.startswith("args.")]
    if len(names) <= MOST_RARE:
        return columns
    few = columns.num_rows // ROWS_OF_RARE
    rare = [name for name in names if columns.num_rows - columns.column(name).null_count <= few]
    return columns if len(rare) <= MOST_RARE else _with_text(columns, rare, None)


def _with_text(part: pa.RecordBatch, rare: list[str], words: Vocabularies | None) -> pa.RecordBatch:
    """A batch with some of its columns of arguments as members of the text `args`; `words` has those of numbers."""
    if not rare:
        return part
    kept = [name for name in part.schema.names if name not in {*rare, "args"}]
    folded = [*rare, *(["args"] if "args" in part.schema.names else [])]
    columns = [words.decode(name, part.column(name)) if words else part.column(name) for name in folded]
    text = Batch("events", pa.RecordBatch.from_arrays(columns, names=folded)).args_text()
    return pa.RecordBatch.from_arrays([*(part.column(name) for name in kept), text], names=[*kept, "args"])


def _joined(name: str, found: list[pa.Array | None], rows: list[int], words: Vocabularies) -> pa.Array:
    kinds = {column.type for column in found if column is not None}
    if len(kinds) > 1:
        found = [None if column is None else _plain(name, words.decode(name, column)) for column in found]
        kinds = {column.type for column in found if column is not None}
    (kind,) = kinds
    return pa.concat_arrays(
        [pa.nulls(count, kind) if column is None else column for column, count in zip(found, rows, strict=True)]
    )


def _plain(name: str, column: pa.Array) -> pa.Array:
    """A column that has another type in other batches: an argument as JSON text, anything else as text."""
    return json_cells(column).cast(pa.binary()) if name.startswith("args.") else decoded(column).cast(pa.string())
