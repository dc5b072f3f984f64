"""The tables of a container, one after the other, as Arrow batches of some rows."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput, import_extra
from ktrace.input.source import Source

from .optional import OPTIONAL
from .probe import ARROW

#: A table's name and some of its rows.
Part = tuple[str, pa.RecordBatch]

#: Bytes of the greatest mark of the end of a stream, behind which the next one begins.
_PEEK = 4


def arrow(source: Source, conversion: Conversion) -> Iterator[Part]:
    """The tables of streams that stand one after the other. What is cut off is told."""
    with source.open() as stream:
        number = 0
        while head := stream.read(_PEEK):
            number += 1
            if head != ARROW:
                raise _damaged(source, f"stream {number}", "doesn't begin as a stream of Arrow does")
            yield from _stream(_Behind(head, stream), f"stream {number}", source, conversion)


def _stream(stream: Any, place: str, source: Source, conversion: Conversion, name: str = "") -> Iterator[Part]:
    rows = 0
    try:
        reader = pa.ipc.open_stream(stream)
        name = (reader.schema.metadata or {}).get(b"table_name", name.encode()).decode()
        for batch in reader:
            rows += len(batch)
            yield name, batch
        if not rows:
            yield name, pa.RecordBatch.from_pylist([], reader.schema)
    except (pa.ArrowInvalid, OSError) as error:
        if not name:
            raise _damaged(source, place, str(error)) from None
        conversion.report.issue("cut", f"{name} behind row {rows}", str(error).splitlines()[0], 0)


class _Behind(io.RawIOBase):
    """A stream with the bytes that were read of it put back."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        taken = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(taken) :]
        wanted = -1 if size < 0 else size - len(taken)
        return taken + (self._stream.read(wanted) if wanted else b"")


def folder(source: Source, conversion: Conversion) -> Iterator[Part]:
    """The tables of a folder, by the names of their files."""
    for name in source.sample().listing or ():
        path = PurePosixPath(name)
        if len(path.parts) > 1 or path.suffix not in (".arrow", ".parquet"):
            continue
        file = Source(f"{source.path.rstrip('/')}/{name}", source.label, source.on_cut, source.progress)
        if path.suffix == ".arrow":
            with file.open() as stream:
                yield from _stream(stream, name, file, conversion, path.stem)
        else:
            yield from _parquet(file, path.stem, conversion)


def _parquet(file: Source, name: str, conversion: Conversion) -> Iterator[Part]:
    with file.local_path() as path:
        try:
            with pq.ParquetFile(path) as table:
                yield name, pa.RecordBatch.from_pylist([], table.schema_arrow)
                # pyarrow 18 refuses a file without row groups.
                for batch in table.iter_batches(conversion.batch_rows) if table.num_row_groups else ():
                    yield name, batch
        except (pa.ArrowInvalid, OSError) as error:
            raise _damaged(file, name, str(error).splitlines()[0]) from None


def hdf5(source: Source, conversion: Conversion) -> Iterator[Part]:
    """The tables of an HDF5 file. Raises InputError if h5py isn't installed.

    A number 0 and an empty text of a column in which nsys has nulls are taken as none, which is told.
    """
    h5py = import_extra("h5py", "hdf5", "reading HDF5", hint=", or export to SQLite", path=source.path)
    with source.local_path() as path:
        try:
            with h5py.File(path, "r") as file:
                for name, table in file.items():
                    if isinstance(table, h5py.Dataset) and table.ndim == 1 and table.dtype.names:
                        yield from _dataset(name, table, conversion)
        except (OSError, RuntimeError, ValueError) as error:
            raise _damaged(source, None, str(error).splitlines()[0]) from None


def _dataset(name: str, table: Any, conversion: Conversion) -> Iterator[Part]:
    """The rows of a table; none where a single row has zeros alone, which nsys writes for what it can't export so."""
    for first in range(0, max(1, len(table)), conversion.batch_rows):
        rows = table[first : first + conversion.batch_rows]
        columns = {column: _column(rows[column]) for column in table.dtype.names}
        if len(table) == 1 and not any(column[0].as_py() for column in columns.values()):
            columns = {column: values[:0] for column, values in columns.items()}
        lost = 0
        for column in OPTIONAL & columns.keys():
            columns[column], none = _without_zeros(columns[column])
            lost += none
        if lost:
            conversion.report.issue("no-nulls", name, f"{lost:,} values", lost)
        yield name, pa.RecordBatch.from_pydict(columns)


def _column(values: Any) -> pa.Array:
    if values.dtype == object or values.dtype.kind == "S":
        return pa.array([value.decode("utf-8", "replace") for value in values.tolist()], pa.string())
    return pa.array(np.ascontiguousarray(values))


def _without_zeros(column: pa.Array) -> tuple[pa.Array, int]:
    """The column with null in the place of 0 and "", and how many these are."""
    none = pa.scalar("") if pa.types.is_string(column.type) else pa.scalar(0, column.type)
    found = pa.compute.equal(column, none)
    return pa.compute.if_else(found, None, column), found.true_count


def _damaged(source: Source, where: str | None, what: str) -> DamagedInput:
    return DamagedInput(
        f"can't be read: {what}",
        path=source.path,
        where=where,
        expected="a whole export of Nsight Systems",
        remedy="export it again, best to SQLite: nsys export --type sqlite -o run.sqlite run.nsys-rep",
    )
