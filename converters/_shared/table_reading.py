"""The rows of one table of an SQLite database as blocks of Arrow columns.

ADBC reads them without a Python object a value: 1.0 M rows/s of 28 columns, where the module sqlite3 reads 0.4 M; the
next block is read while the last one is worked on. It takes the type of a column from its first row:

    SELECT 0 AS _rowid_, 0 AS start, '' AS text UNION ALL      a row that says the types, dropped again
    SELECT _rowid_, start, text FROM NVTX_EVENTS NOT INDEXED WHERE _rowid_ > 0

Rows of other types it refuses: they are read by sqlite3, and judged one by one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa

from ktrace.ahead import ahead
from ktrace.database import quoted_name
from ktrace.report import Report

from .blocks import Block

_ARROW = {"0": pa.int64(), "0.0": pa.float64(), "''": pa.string(), "x''": pa.binary()}
_WORDS = {"0": "integer", "0.0": "number", "''": "text", "x''": "blob"}
_FIRST = -(1 << 63)


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
        self._read = 0
        self.last = _FIRST

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows. Raises OSError and sqlite3.Error for what can't be read."""
        while True:
            try:
                yield from self._fast(size)
                return
            except OSError as error:
                if not isinstance(error, _Refused) and "Type mismatch" not in str(error):
                    raise
            yield from self._slow(size)

    def _fast(self, size: int) -> Iterator[Block]:
        import adbc_driver_sqlite.dbapi as adbc

        with adbc.connect(self._uri) as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(size)})
            cursor.execute(self._sql())
            reader = cursor.fetch_record_batch()
            if reader.schema.types[1 : 1 + len(self._types)] != [_ARROW[kind] for kind in self._types.values()]:
                raise _Refused("values of two types in the first rows")
            with closing(ahead(reader)) as batches:
                for number, batch in enumerate(batches):
                    rows = batch if number else batch.slice(1)
                    if rows.num_rows:
                        self._check_text(rows)
                        yield self._block(rows.column(0), rows.columns[1:])

    def _sql(self) -> str:
        types = ", ".join(f"{literal} AS {quoted_name(name)}" for name, literal in self._types.items())
        return f"SELECT 0 AS _rowid_, {types or 'NULL'} UNION ALL {self._select()}"

    def _select(self) -> str:
        """The rows that weren't read yet."""
        columns = ", ".join(map(quoted_name, self._types)) or "NULL"
        table = quoted_name(self._table)
        if self._rowid:
            after = f"_rowid_ > {self.last}" if self.last > _FIRST else ""
            conditions = " AND ".join(filter(None, (after, self._where)))
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

    def _slow(self, size: int) -> Iterator[Block]:
        """The next rows, those left out in which a value isn't of its column's type."""
        rows = self._connection.execute(f"{self._select()} LIMIT {size}").fetchall()
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
