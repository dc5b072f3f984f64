"""The rows of one table of an SQLite database as blocks of Arrow columns.

ADBC reads them without a Python object a value: 1.0 M rows/s of 28 columns in a thread, 2.0 in two, where the module
sqlite3 reads 0.4 M. Ranges of rowids are read ahead of the one that is worked on, without the columns that say the same
in every row. It takes the type of a column from its first row:

    SELECT 0 AS _rowid_, 0 AS start, '' AS text UNION ALL      a row that says the types, dropped again
    SELECT _rowid_, start, text FROM NVTX_EVENTS NOT INDEXED WHERE _rowid_ >= 0

Rows of other types it refuses: they are read by sqlite3, and judged one by one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.sqlite_file import quoted_name
from ktrace.parallel.prefetch import prefetch, prefetch_map
from ktrace.report import Report

from ..columnar.blocks import Block
from .constants import ConstantColumns, column_of, condition

_ARROW = {"0": pa.int64(), "0.0": pa.float64(), "''": pa.string(), "x''": pa.binary()}
_WORDS = {"0": "integer", "0.0": "number", "''": "text", "x''": "blob"}
_FIRST = -(1 << 63)

#: Threads that fetch.
_THREADS = 2


class TableReading:
    """One reading of a table. `types` is column -> a literal of its type; `last` is the last rowid that was read.

    `where` is a condition in SQL, for some of the rows.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        uri: str,
        table: str,
        types: dict[str, str],
        report: Report,
        where: str = "",
    ) -> None:
        self._connection = connection
        self._uri = uri
        self._table = table
        self._types = types
        self._report = report
        self._where = where
        self._rowid = has_rowid(connection, table)
        self._constants = ConstantColumns()
        self._read = 0
        self.last = _FIRST

    @property
    def place(self) -> str:
        """How far it came, for a report."""
        return self._table if self.last == _FIRST else f"{self._table} behind row {self.last}"

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows. Raises OSError and sqlite3.Error for what can't be read."""
        ranges = self._ranges(size)
        with closing(prefetch_map(ranges, lambda bounds: self._fetched(bounds, size), _THREADS)) as fetched:
            for low, high in ranges:
                try:
                    batch = next(fetched)
                except OSError:
                    self._find_damage(low, high)
                    raise
                if batch is None:
                    self.last = max(low - 1, _FIRST)
                    yield from self._slow(size, high)
                elif batch.num_rows:
                    yield self._block(batch.column(0), batch.columns[1:])
        if not ranges:
            yield from self.stream(size)

    def _find_damage(self, low: int, high: int) -> None:
        """Finds the last of some rows that can be read."""
        with suppress(sqlite3.Error):
            for number, *_ in self._connection.execute(self._select(low, high)):
                self.last = number

    def _ranges(self, size: int) -> list[tuple[int, int]]:
        """Ranges of rowids with at most `size` rows each; none where rows have no rowids, or few of these are used."""
        if not self._rowid:
            return []
        name = quoted_name(self._table)
        least, greatest = self._connection.execute(
            f"SELECT (SELECT min(_rowid_) FROM {name}), max(_rowid_) FROM {name}"
        ).fetchone()
        pages = self._connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        if least is None or greatest - least > pages.fetchone()[0]:  # fewer than a row a byte of the file
            return []
        return [(low, min(low + size - 1, greatest)) for low in range(least, greatest + 1, size)]

    def stream(self, size: int) -> Iterator[Block]:
        """All rows by one query: what is best for few of a table."""
        while True:
            try:
                yield from self._fast(size)
                return
            except OSError as error:
                if not _is_refusal(error):
                    raise
            yield from self._slow(size)

    def _fetched(self, bounds: tuple[int, int], size: int) -> pa.RecordBatch | None:
        """The rows with these rowids, at most `size`, None where ADBC refuses them."""
        try:
            known = self._constants.known()
            if known:
                batch = self._range(bounds, size, known)
                if pc.min(batch.column(batch.num_columns - 1)).as_py() != 0:
                    return self._completed(batch, known)
            batch = self._range(bounds, size, {})
        except OSError as error:
            if not _is_refusal(error):
                raise
            return None
        if batch.num_rows:
            self._constants.learn(dict(zip(self._types, batch.columns[1:], strict=False)))
        return batch

    def _range(self, bounds: tuple[int, int], size: int, known: dict[str, int | None]) -> pa.RecordBatch:
        """The rows with these rowids; in place of the known columns one that says whether all have these values."""
        types = {name: literal for name, literal in self._types.items() if name not in known}
        same = f", {condition(known)}" if known else ""
        with self._reader(self._select(*bounds, types, same), size + 1, types, ", 1" if known else "") as reader:
            batch = reader.read_next_batch().slice(1)
            self._check_text(batch)
            return batch

    def _completed(self, batch: pa.RecordBatch, known: dict[str, int | None]) -> pa.RecordBatch:
        """The rows with the known columns."""
        fetched = iter(batch.columns[1:])
        columns = [
            column_of(known[name], _ARROW[literal], batch.num_rows) if name in known else next(fetched)
            for name, literal in self._types.items()
        ]
        return pa.RecordBatch.from_arrays([batch.column(0), *columns], ["_rowid_", *self._types])

    def _fast(self, size: int) -> Iterator[Block]:
        select = self._select(self.last + 1 if self.last > _FIRST else None)
        with self._reader(select, size, self._types) as reader, closing(prefetch(reader)) as batches:
            for number, batch in enumerate(batches):
                rows = batch if number else batch.slice(1)
                if rows.num_rows:
                    self._check_text(rows)
                    yield self._block(rows.column(0), rows.columns[1:])

    @contextmanager
    def _reader(self, select: str, size: int, types: dict[str, str], more: str = "") -> Iterator[pa.RecordBatchReader]:
        """The rows of a selection, behind one that only says the types; `more` is of further columns."""
        import adbc_driver_sqlite.dbapi as adbc

        first = ", ".join(f"{literal} AS {quoted_name(name)}" for name, literal in types.items())
        cursor = None
        try:
            with adbc.connect(self._uri) as connection, connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(size)})
                cursor.execute(f"SELECT 0 AS _rowid_, {first or 'NULL'}{more} UNION ALL {select}")
                reader = cursor.fetch_record_batch()
                if reader.schema.types[1 : 1 + len(types)] != [_ARROW[kind] for kind in types.values()]:
                    raise _Refused("values of two types in the first rows")
                yield reader
        except adbc.Error as error:  # of the first rows, or told again when the query is closed
            if cursor is not None:
                cursor._closed = True  # it would be closed once more when it is collected, with a traceback
            raise OSError(str(error).removeprefix("IO: ")) from None

    def _select(
        self, low: int | None = None, high: int | None = None, names: Iterable[str] | None = None, more: str = ""
    ) -> str:
        """The rows with these rowids; those that weren't read yet, where there are no rowids."""
        columns = (", ".join(map(quoted_name, self._types if names is None else names)) or "NULL") + more
        table = quoted_name(self._table)
        if self._rowid:
            bounds = (f"_rowid_ >= {low}" if low is not None else "", f"_rowid_ <= {high}" if high is not None else "")
            conditions = " AND ".join(filter(None, (*bounds, self._where)))
            return f"SELECT _rowid_, {columns} FROM {table} NOT INDEXED {'WHERE ' if conditions else ''}{conditions}"
        some = f"WHERE {self._where}" if self._where else ""
        return f"SELECT * FROM (SELECT 0, {columns} FROM {table} {some} LIMIT -1 OFFSET {self._read})"

    def _check_text(self, batch: pa.RecordBatch) -> None:
        for column in batch.columns:
            if pa.types.is_string(column.type):
                try:
                    column.validate(full=True)
                except pa.ArrowInvalid as error:
                    raise _Refused(str(error)) from None

    def _block(self, rowids: pa.Array, columns: list[pa.Array]) -> Block:
        numbers = rowids if self._rowid else pa.array(range(self._read + 1, self._read + 1 + len(rowids)), pa.int64())
        self._read += len(rowids)
        self.last = numbers[-1].as_py()
        self._report.record(len(rowids))
        return Block(f"{self._table} row", numbers, dict(zip(self._types, columns[: len(self._types)], strict=True)))

    def _slow(self, size: int, high: int | None = None) -> Iterator[Block]:
        """The next rows up to the rowid `high`, those left out in which a value isn't of its column's type."""
        select = self._select(self.last + 1 if self.last > _FIRST else None, high)
        rows = self._connection.execute(f"{select} LIMIT {size}").fetchall()
        if not rows:
            return
        fields = list(self._types.items())
        whole: list[tuple[Any, ...]] = []
        for number, row in enumerate(rows, self._read + 1):
            place = f"{self._table} row {row[0] if self._rowid else number}"
            values = [_fitting(value, literal) for value, (_, literal) in zip(row[1:], fields, strict=False)]
            misfit = next((i for i, value in enumerate(values) if value is _MISFIT), None)
            if misfit is not None:
                self._report.record()
                name, literal = fields[misfit]
                self._report.issue("bad-record", place, f"{name} is {row[1 + misfit]!r:.80}, no {_WORDS[literal]}")
                continue
            if any(isinstance(value, str) and "\ufffd" in value for value in values):
                self._report.issue("encoding", place)
            whole.append((row[0], *values))
        last, read = rows[-1][0], self._read + len(rows)
        if whole:
            arrays = [pa.array([row[i + 1] for row in whole], _ARROW[kind]) for i, (_, kind) in enumerate(fields)]
            yield self._block(pa.array([row[0] for row in whole], pa.int64()), arrays)
        self.last, self._read = (last if self._rowid else read), read


def cells(values: list[Any], literal: str) -> pa.Array:
    """Values of a column as an array of its type, null for one that isn't of it."""
    fitting = (_fitting(value, literal) for value in values)
    return pa.array([None if value is _MISFIT else value for value in fitting], _ARROW[literal])


class _Refused(OSError):
    """Rows that are to be read one by one."""


def _is_refusal(error: OSError) -> bool:
    return isinstance(error, _Refused) or "Type mismatch" in str(error)


_MISFIT = object()


def _fitting(value: Any, literal: str) -> Any:
    """The value as one of the type, `_MISFIT` where it is none."""
    if value is None:
        return None
    if literal == "''":
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if literal == "x''":
        return value if isinstance(value, bytes) else str(value).encode()
    if literal == "0":
        return value if isinstance(value, int) else _MISFIT
    return float(value) if isinstance(value, (int, float)) else _MISFIT


def has_rowid(connection: sqlite3.Connection, table: str) -> bool:
    """Whether the rows of a table have numbers (no view, not WITHOUT ROWID)."""
    try:
        connection.execute(f"SELECT _rowid_ FROM {quoted_name(table)} LIMIT 0")
    except sqlite3.OperationalError:
        return False
    return True
