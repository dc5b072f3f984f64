"""Keeps columns of numbers and Arrow rows, source by source, until a trace has been read.

    add("rank0", ts=..., dur=...)                  of("rank0")  ──►  its rows, in the order in which they came
    add("rank1", ts=..., dur=...)
    add("rank0", ts=..., dur=...)

They are in memory; above the limit of the `Spill` in files of its folder, which are memory-mapped, so that the system
may reclaim their pages at any time. The mapped numbers remain usable after the folder has been removed.

Texts are kept as numbers: millions of rows have some hundred combinations of values, their `Shapes`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ktrace.model.arrays import AnyArray, Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import each_source
from ktrace.store import BatchSpool, Spill

#: How many rows are processed at once, which bounds temporary columns.
BLOCK = 1 << 18


class StoredColumns:
    """Columns of numbers. No rows may be added after the first call of `of`."""

    def __init__(self, spill: Spill, name: str, /, **types: str) -> None:
        self._columns = {column: _Column(spill, f"{name}.{column}", np.dtype(kind)) for column, kind in types.items()}
        self._places: defaultdict[str, list[slice]] = defaultdict(list)
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def sources(self) -> list[str]:
        """The sources that have rows, in the order in which they came."""
        return list(self._places)

    def add(self, source: str, /, **columns: npt.ArrayLike) -> None:
        """Adds rows of a source: a column (or one value) for each name."""
        length = max(np.size(column) for column in columns.values())
        places = self._places[source]
        first = places.pop().start if places and places[-1].stop == self._rows else self._rows
        self._rows += length
        places.append(slice(first, self._rows))
        for name, column in self._columns.items():
            column.append(np.broadcast_to(np.asarray(columns[name], column.dtype), length))

    def leave_out(self, source: str) -> None:
        """Leaves out the rows of a source, from `of` and `sources` alone."""
        for place in self._places.pop(source, ()):
            self._rows -= place.stop - place.start

    def for_source(self, source: str) -> dict[str, Any]:
        """The columns of a source; they aren't writable."""
        places = self._places.get(source, [slice(0, 0)])
        return {
            name: column.whole[places[0]]
            if len(places) == 1
            else np.concatenate([column.whole[place] for place in places])
            for name, column in self._columns.items()
        }

    def all(self) -> dict[str, Any]:
        """The columns of all sources, in the order in which rows came."""
        return {name: column.whole for name, column in self._columns.items()}


class _Column:
    """A column of numbers in parts, in memory or in a file."""

    def __init__(self, spill: Spill, name: str, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._spill, self._name = spill, spill.take(name)
        self._waiting: list[AnyArray] = []
        self._file: Any = None

    def append(self, part: AnyArray) -> None:
        self._spill.add(part.nbytes)
        self._waiting.append(part)
        if self._spill.folder:
            if self._file is None:
                self._file = (self._spill.folder / self._name).open("wb")
            for one in self._waiting:
                one.tofile(self._file)
            self._waiting.clear()

    @cached_property
    def whole(self) -> AnyArray:
        """All parts, concatenated."""
        if self._file is not None:
            self._file.close()
            return _mapped(Path(self._file.name), self.dtype, "r")
        whole = np.concatenate([np.empty(0, self.dtype), *self._waiting])
        self._waiting.clear()
        return whole


def new_column(spill: Spill, name: str, length: int) -> Int64:
    """A writable column of `length` whole numbers."""
    spill.add(8 * length)
    if spill.folder is None or not length:
        return np.empty(length, np.int64)
    path = spill.folder / name
    with path.open("wb") as file:  # written now, so that a full disk is an error here and not a signal later
        for first in range(0, length, BLOCK):
            np.zeros(min(BLOCK, length - first), np.int64).tofile(file)
    return _mapped(path, np.dtype(np.int64), "r+")


def _mapped(path: Path, dtype: np.dtype[Any], mode: Any) -> AnyArray:
    return np.asarray(np.memmap(path, dtype, mode))


class StoredRows:
    """Arrow rows. No rows may be added after the first call of `of`."""

    def __init__(self, spill: Spill, name: str) -> None:
        self._batches = BatchSpool(spill, name)
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)

    @property
    def sources(self) -> list[str]:
        """The sources that have rows, in the order in which they came."""
        return list(self._numbers)

    def add(self, source: str, columns: pa.RecordBatch) -> None:
        """Adds rows of a source."""
        self._numbers[source].append(len(self._batches))
        self._batches.append(columns)

    def for_source(self, source: str) -> Iterator[pa.RecordBatch]:
        """The rows of a source."""
        return map(self._batches.get, self._numbers.get(source, []))


def source_of(batch: Batch) -> str:
    """The source of a batch with one source."""
    word: str = batch.column("source")[0].as_py()
    return word


def by_source(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yields the batches, with events and links split by source; nearly all have only one source."""
    for batch in batches:
        if batch.record in ("events", "links"):
            yield from (rows for _, rows in each_source(batch))
        else:
            yield batch
