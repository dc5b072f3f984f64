"""What stages keep until they have seen all rows: in memory, above a limit in a temporary folder.

Two kinds of data are kept: whole batches (`BatchSpool`, Arrow IPC) and rows of a few numbers (`Runs`, numpy).
Files are read through a memory map, whose pages the system may reclaim at any time.

events        all events of a trace: their batches in any order, and a row of numbers for each
vocabulary    numbers for the words of text columns, for tracks, and for the combinations of values in some columns
joins         joins and groups of rows by columns of numbers
launches      which call launched which device work
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ktrace.model.arrays import AnyArray, Int64, Structured
from ktrace.scratch import Held, new_folder

#: Bytes of rows that wait in memory before they are spilled to disk.
SPILL_BYTES = 64 << 20

#: About how many rows are looked up, or yielded, at once.
RANGE_ROWS = 1 << 16

#: How many samples are taken of a range, when rows are cut into ranges of about equal size.
SAMPLES_PER_PART = 64


def serialized(columns: pa.RecordBatch) -> pa.Buffer:
    """The rows as a stream of Arrow, in one piece of memory that has nothing else."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as stream:
        stream.write_batch(columns)
    return sink.getvalue()


def deserialized(content: pa.Buffer | bytes) -> pa.RecordBatch:
    """The rows of such a stream, which aren't copied."""
    return pa.ipc.open_stream(content).read_next_batch()


class Spill:
    """The temporary folder, which is made when the bytes that wait exceed `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._folder: Held | None = None
        self._lock = Lock()
        self._names: set[str] = set()

    def take(self, name: str) -> str:
        """Reserves the name of a file. Raises ValueError if it is taken: writing would change rows still in use."""
        if name in self._names:
            raise ValueError(f"'{name}' is taken already in this folder")
        self._names.add(name)
        return name

    def add(self, nbytes: int) -> None:
        """Counts bytes that wait."""
        with self._lock:
            self._used += nbytes
            if self._used > self._limit and self._folder is None:
                self._folder = new_folder()
                weakref.finalize(self, self._folder.remove)

    @property
    def folder(self) -> Path | None:
        """The folder, None as long as everything is kept in memory."""
        return self._folder.path if self._folder else None

    def array(self, name: str, kind: str, count: int) -> AnyArray:
        """An array of zeros, which is in a file if the folder was made already."""
        if self.folder is None or not count:
            return np.zeros(count, kind)
        return np.asarray(np.memmap(self.folder / self.take(f"{name}.array"), kind, "w+", shape=(count,)))

    def close(self) -> None:
        """Removes the folder."""
        if self._folder:
            self._folder.remove()


class BatchSpool:
    """Arrow batches of any schemas, by number. A column with one value in all rows is kept as that value."""

    def __init__(self, spill: Spill, name: str) -> None:
        self._spill = spill
        self._name = spill.take(f"{name}.arrows")
        self._waiting: list[pa.RecordBatch] = []
        self._constants: list[dict[str, pa.Scalar]] = []
        self._names: list[list[str]] = []
        self._starts = [0]
        self._file: pa.OSFile | None = None

    def __len__(self) -> int:
        return len(self._names)

    def append(self, columns: pa.RecordBatch) -> None:
        """Keeps a batch. Not to be called after the first `get`."""
        names = columns.schema.names
        constants = {name: columns.column(name)[0] for name in names if _is_constant(columns.column(name))}
        if len(constants) == len(names):
            constants.popitem()  # a batch without columns has no rows
        self._names.append(names)
        self._constants.append(constants)
        varying = columns.drop_columns(list(constants))
        self._spill.add(varying.nbytes)
        self._waiting.append(varying)
        if self._spill.folder:
            self._write(self._spill.folder / self._name)

    def _write(self, path: Path) -> None:
        if self._file is None:
            self._file = pa.OSFile(str(path), "wb")
        for columns in self._waiting:
            with pa.ipc.new_stream(self._file, columns.schema) as stream:
                stream.write_batch(columns)
            self._starts.append(self._file.tell())
        self._waiting.clear()

    def get(self, number: int) -> pa.RecordBatch:
        """The batch with this number, from 0."""
        varying, constants = self._get(number), self._constants[number]
        columns = [
            pa.repeat(constants[name], varying.num_rows) if name in constants else varying.column(name)
            for name in self._names[number]
        ]
        return pa.RecordBatch.from_arrays(columns, names=self._names[number])

    def _get(self, number: int) -> pa.RecordBatch:
        if self._file is None:
            return self._waiting[number]
        start, stop = self._starts[number : number + 2]
        return pa.ipc.open_stream(self._mapped.slice(start, stop - start)).read_next_batch()

    @cached_property
    def _mapped(self) -> pa.Buffer:
        assert self._file is not None
        path, size = self._spill.folder, self._starts[-1]
        self._file.close()
        return pa.memory_map(str(path / self._name) if path else "").read_buffer(size)


def _is_constant(column: pa.Array) -> bool:
    """Whether a column of numbers has the same value in all rows."""
    if column.null_count or not pa.types.is_primitive(column.type) or pa.types.is_boolean(column.type):
        return False
    values = column.to_numpy()
    return len(values) > 1 and bool(values[0] == values[-1]) and bool(np.all(values == values[0]))


class Runs:
    """Rows of numbers in runs, each sorted by the first field.

    They are returned in rising ranges of that field, which are small enough for memory. `fields` are names with numpy
    types.
    """

    def __init__(self, spill: Spill, name: str, fields: list[tuple[str, str]]) -> None:
        self._spill = spill
        self._name = spill.take(f"{name}.rows")
        self._dtype = np.dtype(fields)
        self._key = fields[0][0]
        self._waiting: list[Structured] = []
        self._file: Any = None
        self.starts = [0]

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        return self._dtype.names or ()

    def append(self, **columns: npt.ArrayLike) -> None:
        """Keeps rows as one run: a column (or one value) for each field. Not to be called after the first reading."""
        key = np.asarray(columns[self._key])
        if not len(key):
            return
        run: Structured = np.empty(len(key), self._dtype)
        for name in self.fields:
            run[name] = columns[name]
        if np.any(key[1:] < key[:-1]):
            run = run[np.argsort(key, kind="stable")]
        self.starts.append(self.starts[-1] + len(run))
        self._spill.add(run.nbytes)
        self._waiting.append(run)
        if self._spill.folder:
            self._write(self._spill.folder / self._name)

    def _write(self, path: Path) -> None:
        if self._file is None:
            self._file = path.open("wb")
        for run in self._waiting:
            run.tofile(self._file)
        self._waiting.clear()

    @cached_property
    def rows(self) -> Structured:
        """The rows of all runs, concatenated; they are writable."""
        if self._file is None:
            rows = np.concatenate([np.empty(0, self._dtype), *self._waiting])
            self._waiting.clear()
            return rows
        self._file.close()
        return np.asarray(np.memmap(self._file.name, self._dtype, "r+", shape=(len(self),)))

    def run(self, number: int) -> Structured:
        """The rows of a run."""
        return self.rows[self.starts[number] : self.starts[number + 1]]

    def blocks(self, size: int) -> Iterator[tuple[int, Structured]]:
        """Yields the index of the first row and at most `size` rows at a time, in the order of `rows`; writable."""
        return ((start, self.rows[start : start + size]) for start in range(0, len(self), size))

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.starts) - 1

    def cuts(self, size: int) -> list[int]:
        """Values of the first field that cut the rows into ranges of about `size` rows (more where values repeat)."""
        if len(self) <= size:
            return []
        step = max(1, size // SAMPLES_PER_PART)
        sample = np.sort(self.rows[self._key][::step])
        return [int(value) for value in np.unique(sample[max(1, size // step) :: max(1, size // step)])]

    def between(self, low: int | None, high: int | None) -> Int64:
        """Indexes of the rows with low <= first field < high, in the order of that field, then of the runs."""
        indices = [np.arange(first, last) for first, last in self.spans(low, high, len(self))]
        if not indices:
            return np.empty(0, np.int64)
        index = np.concatenate(indices)
        return index if len(indices) == 1 else index[np.argsort(self.rows[self._key][index], kind="stable")]

    def spans(self, low: int | None, high: int | None, size: int) -> Iterator[tuple[int, int]]:
        """Yields where the rows with low <= first field < high stand, at most `size` at a time, run after run."""
        key = self.rows[self._key].__getitem__  # not numpy's search, which copies a column out of the rows first
        for start, stop in zip(self.starts, self.starts[1:], strict=False):
            run = range(start, stop)
            first = start if low is None else start + bisect_left(run, low, key=key)
            last = stop if high is None else start + bisect_left(run, high, key=key)
            yield from ((one, min(one + size, last)) for one in range(first, last, size))

    def parts(self, size: int) -> Iterator[Structured]:
        """All rows in rising ranges of the first field of about `size` rows."""
        for low, high in ranges(self.cuts(size)):
            index = self.between(low, high)
            if len(index):
                yield self.rows[index]


def ranges(cuts: list[int]) -> list[tuple[int | None, int | None]]:
    """The ranges between cuts, open at both ends: [3, 5] is (None, 3), (3, 5), (5, None)."""
    return list(zip([None, *cuts], [*cuts, None], strict=True))
