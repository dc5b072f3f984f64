"""Writes the tables of another container to an SQLite database.

Reads the tables of a container, one after the other, as Arrow batches.

Columns of nsys' tables that may be null and in which 0 has no other meaning, by its schemas 2.9 to 3.11.
"""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput, import_extra
from ktrace.input.boundary import BadFiles
from ktrace.input.source import Source, file_in
from ktrace.input.sqlite_file import quoted_name
from ktrace.report import Report, counted
from ktrace.scratch import scratch_folder

from . import ARROW, HDF5

OPTIONAL = frozenset(
    {
        *("end", "text", "textId", "jsonText", "jsonTextId", "endNameId", "name", "rangeId", "category", "color"),
        *("globalTid", "globalPid", "endGlobalTid", "correlationId", "callchainId", "rawTimestamp"),
        *("uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue"),
        *("graphNodeId", "originalGraphNodeId", "graphId", "graphExecId", "greenContextId", "mangledName"),
        *("migrationCause", "virtualAddress", "srcDeviceId", "srcContextId", "dstDeviceId", "dstContextId"),
        *("deprecatedSrcId", "copyCount", "eventSyncId", "originalIP", "unwindMethod"),
        *("kernelMode", "thumbCode", "unresolved", "specialEntry", "nextTaskId", "requestHandle"),
    }
)


#: A table's name and a batch of its rows.
TableBatch = tuple[str, pa.RecordBatch]

#: What Arrow raises for what it can't read; names of columns may be of any bytes.
_FAULTS = (pa.ArrowException, OSError, UnicodeDecodeError)

#: Bytes that are read to see whether another stream follows, and at once.
_PEEK, _BLOCK = 4, 16 << 20


def arrow(source: Source, conversion: Conversion) -> Iterator[TableBatch]:
    """Yields the tables of streams that follow one another. Reports a table that is cut off."""
    with source.open() as stream:
        number = 0
        while head := stream.read(_PEEK):
            number += 1
            if head != ARROW:
                raise _broken_container(source, f"stream {number}", "doesn't begin like an Arrow stream")
            yield from _stream(_PutBack(head, stream), f"stream {number}", source, conversion)


def _stream(stream: Any, place: str, source: Source, conversion: Conversion, stem: str = "") -> Iterator[TableBatch]:
    name, rows = "", 0
    try:
        reader = pa.ipc.open_stream(stream)
        name = (reader.schema.metadata or {}).get(b"table_name", stem.encode()).decode("utf-8", "replace")
        rows_of = pa.RecordBatch.from_pylist([], reader.schema)
        for batch in reader:
            _require_sound(batch)
            rows += len(batch)
            yield name, batch
        if not rows:
            yield name, rows_of
    except _FAULTS as error:
        if not name:
            raise _broken_container(source, place, str(error)) from None
        conversion.report.issue("cut", f"{name} after row {rows}", str(error).splitlines()[0], 0)


def _require_sound(batch: pa.RecordBatch) -> None:
    """Raises ArrowInvalid where lengths and offsets in a batch lead out of it: Arrow itself believes them.

    Texts may have any bytes.
    """
    for column in batch.columns:
        as_bytes = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(column.type)
        (column if as_bytes is None else column.view(as_bytes)).validate(full=True)


class _PutBack(io.RawIOBase):
    """A stream with the bytes put back that were read from it; of great lengths it reads what there is."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        taken = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(taken) :]
        return taken + (self._stream.read() if size < 0 else self._more(size - len(taken)))

    def _more(self, size: int) -> bytes:
        """Up to `size` bytes. A damaged length may be any: memory is taken for what there is."""
        parts = []
        while size and (part := self._stream.read(min(size, _BLOCK))):
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def folder(source: Source, conversion: Conversion) -> Iterator[TableBatch]:
    """Yields the tables of a folder; the names of the files are the names of the tables."""
    bad = BadFiles(conversion.report)
    for name in source.sample().listing or ():
        path = PurePosixPath(name)
        if len(path.parts) > 1 or path.suffix not in (".arrow", ".parquet"):
            continue
        file = file_in(source, name)
        read = _streamed if path.suffix == ".arrow" else _parquet
        yield from bad.left_out(file.path, read(file, path.stem, conversion))
    bad.end()


def _streamed(file: Source, name: str, conversion: Conversion) -> Iterator[TableBatch]:
    with file.open() as stream:
        yield from _stream(_PutBack(b"", stream), name, file, conversion, name)


def _parquet(file: Source, name: str, conversion: Conversion) -> Iterator[TableBatch]:
    with file.local_path() as path:
        try:
            with pq.ParquetFile(path) as table:
                yield name, pa.RecordBatch.from_pylist([], table.schema_arrow)
                # pyarrow 18 refuses a file without row groups.
                for batch in table.iter_batches(conversion.batch_rows) if table.num_row_groups else ():
                    yield name, batch
        except _FAULTS as error:
            raise _broken_container(file, name, str(error).splitlines()[0]) from None


def hdf5(source: Source, conversion: Conversion) -> Iterator[TableBatch]:
    """Yields the tables of an HDF5 file. Raises InputError if h5py is missing.

    In columns that nsys may leave null, 0 and the empty text are read as null, which is reported.
    """
    h5py = import_extra("h5py", "hdf5", "reading HDF5", hint=", or export to SQLite", path=source.path)
    with source.local_path() as path:
        try:
            with h5py.File(path, "r") as file:
                for name, table in file.items():
                    if isinstance(table, h5py.Dataset) and table.ndim == 1 and table.dtype.names:
                        yield from _dataset(name, table, conversion)
        except (OSError, RuntimeError, ValueError) as error:
            raise _broken_container(source, None, str(error).splitlines()[0]) from None


def _dataset(name: str, table: Any, conversion: Conversion) -> Iterator[TableBatch]:
    """Yields the rows of a table, but not a single row of zeros, which nsys writes for tables that it can't export."""
    for first in range(0, max(1, len(table)), conversion.batch_rows):
        rows = table[first : first + conversion.batch_rows]
        columns = {column: _column(rows[column]) for column in table.dtype.names}
        if len(table) == 1 and not any(column[0].as_py() for column in columns.values()):
            columns = {column: values[:0] for column, values in columns.items()}
        lost = 0
        for column in OPTIONAL & columns.keys():
            columns[column], zeros = _without_zeros(columns[column])
            lost += zeros
        if lost:
            conversion.report.issue("no-nulls", name, counted(lost, "value"), lost)
        yield name, pa.RecordBatch.from_pydict(columns)


def _column(values: Any) -> pa.Array:
    if values.dtype == object or values.dtype.kind == "S":
        return pa.array([value.decode("utf-8", "replace") for value in values.tolist()], pa.string())
    return pa.array(np.ascontiguousarray(values))


def _without_zeros(column: pa.Array) -> tuple[pa.Array, int]:
    """Returns the column with null in place of 0 and "", and how many there are."""
    zero = pa.scalar("") if pa.types.is_string(column.type) else pa.scalar(0, column.type)
    zeros = pa.compute.equal(column, zero)
    return pa.compute.if_else(zeros, None, column), zeros.true_count


def _broken_container(source: Source, where: str | None, detail: str) -> DamagedInput:
    return DamagedInput(
        f"can't be read: {detail}",
        path=source.path,
        where=where,
        expected="a complete export of Nsight Systems",
        remedy="export it again, preferably to SQLite: nsys export --type sqlite -o run.sqlite run.nsys-rep",
    )


@contextmanager
def exported(source: Source, conversion: Conversion) -> Iterator[Source]:
    """Provides the source with a database of its tables, in a temporary folder. Raises InputError."""
    with scratch_folder() as temporary:
        path = temporary / "tables.sqlite"
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.execute("BEGIN")
            _write(database, _batches(source, conversion), source, conversion.report)
            database.execute("COMMIT")
        yield source.with_stand_in(path)


def _batches(source: Source, conversion: Conversion) -> Iterator[TableBatch]:
    if source.is_folder:
        return folder(source, conversion)
    is_hdf5 = source.beginning(len(HDF5)) == HDF5
    return hdf5(source, conversion) if is_hdf5 else arrow(source, conversion)


def _write(database: sqlite3.Connection, batches: Iterator[TableBatch], source: Source, report: Report) -> None:
    """Writes the tables, texts that aren't UTF-8 with U+FFFD.

    Raises DamagedInput if the columns of a table change between batches.
    """
    tables: dict[str, list[str]] = {}
    for table, batch in batches:
        names = batch.schema.names
        if table not in tables:
            declared = ", ".join(f"{quoted_name(field.name)} {_kind(field.type)}" for field in batch.schema)
            try:
                database.execute(f"CREATE TABLE {quoted_name(table)} ({declared})")
            except sqlite3.Error as error:
                raise _damaged(source, table, str(error)) from None
            tables[table] = names
        if names != tables[table]:
            raise _damaged(source, table, "occurs twice, with different columns")
        marks = ", ".join("?" * len(names))
        columns = [
            _sound_texts(column, f"{table}.{name}", report) for name, column in zip(names, batch.columns, strict=True)
        ]
        rows = zip(*map(_values, columns), strict=True)
        database.executemany(f"INSERT INTO {quoted_name(table)} VALUES ({marks})", rows)


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "INTEGER"
    return "REAL" if pa.types.is_floating(kind) else "TEXT"


def _sound_texts(column: pa.Array, place: str, report: Report) -> pa.Array:
    """The column; one of texts that aren't UTF-8 with U+FFFD in them."""
    if not pa.types.is_string(column.type):
        return column
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        texts = [
            None if text is None else text.decode("utf-8", "replace") for text in column.view(pa.binary()).to_pylist()
        ]
        report.issue("encoding", place, "", sum("\ufffd" in text for text in texts if text))
        return pa.array(texts, pa.string())
    return column


def _values(column: pa.Array) -> list[object]:
    """Returns the values as SQLite stores them: unsigned numbers from 2^63 on become negative."""
    if column.type == pa.uint64():
        column = column.view(pa.int64())
    elif pa.types.is_binary(column.type):
        return [None if value is None else value.decode("utf-8", "replace") for value in column.to_pylist()]
    elif not (
        pa.types.is_integer(column.type)
        or pa.types.is_floating(column.type)
        or pa.types.is_boolean(column.type)
        or pa.types.is_string(column.type)
    ):
        try:
            column = column.cast(pa.string(), safe=False)
        except pa.ArrowException:  # lists and the like
            return [None if value is None else str(value) for value in column.to_pylist()]
    values: list[object] = column.to_pylist()
    return values


def _damaged(source: Source, table: str, detail: str) -> DamagedInput:
    return DamagedInput(
        detail, path=source.path, where=table, expected="tables of Nsight Systems", remedy="export it again"
    )
