"""The rows of one table of an SQLite database as blocks of Arrow columns.

ADBC reads them without a Python object for each value: 1.0 M rows/s of 28 columns in one thread, 2.0 M in two; the
module sqlite3 reads 0.4 M. Ranges of rowids are fetched in advance, without the columns that have the same value in
every row. ADBC takes the type of a column from the first row:

    SELECT 0 AS _rowid_, 0 AS start, '' AS text UNION ALL      a row that sets the types; it is dropped
    SELECT _rowid_, start, text FROM NVTX_EVENTS NOT INDEXED WHERE _rowid_ >= 0

It refuses rows of other types: sqlite3 reads these, and they are checked one by one.

Columns with the same value in every row: SQL compares them, which costs 9 ns a value; fetching them costs 35 ns.

    deviceId contextId launchType gridY  0 1 1 1     the same in all rows of the first range of a table, so
    SELECT ..., (deviceId, contextId, launchType, gridY) IS (0, 1, 1, 1)     replaces these columns in later ranges

A range in which a row differs is read again with all columns; from then on the columns that differ are fetched.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.columnar.blocks import Block
from ktrace.parallel.threads import prefetch, prefetch_map
from ktrace.report import Report

#: Fewer columns than this aren't worth the comparison.
_FEW = 3


class ConstantColumns:
    """The columns of a table that have had the same value in all rows so far: name -> value."""

    def __init__(self) -> None:
        self._values: dict[str, int | None] | None = None

    def known(self) -> dict[str, int | None]:
        """The columns that may be constant; none before anything is read."""
        values = self._values or {}
        return dict(values) if len(values) >= _FEW else {}

    def learn(self, columns: Mapping[str, pa.Array]) -> None:
        """Updates the constant columns with the columns of some rows."""
        constants = {name: value for name, column in columns.items() if (value := _value(column)) is not _VARIES}
        before = self._values
        self._values = {
            name: value  # type: ignore[misc]
            for name, value in constants.items()
            if before is None or (name in before and before[name] == value)
        }


def condition(values: Mapping[str, int | None]) -> str:
    """Returns an SQL expression that is 1 for a row with these values."""
    names = ", ".join(map(quoted_name, values))
    literals = ", ".join("NULL" if value is None else str(value) for value in values.values())
    return f"({names}) IS ({literals})"


def column_of(value: int | None, kind: pa.DataType, rows: int) -> pa.Array:
    """A column with the same value in all rows."""
    return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)


_VARIES = object()


def _value(column: pa.Array) -> object:
    """The value of a column that is the same whole number, or null, in all rows; else `_VARIES`."""
    if column.null_count == len(column):
        return None
    if column.null_count or column.type != pa.int64():
        return _VARIES
    span = pc.min_max(column)
    low, high = span["min"].as_py(), span["max"].as_py()
    return low if low == high and low > -(1 << 63) else _VARIES


_ARROW = {"0": pa.int64(), "0.0": pa.float64(), "''": pa.string(), "x''": pa.binary()}
_WORDS = {"0": "an integer", "0.0": "a number", "''": "text", "x''": "a blob"}
_FIRST = -(1 << 63)

#: Threads that fetch.
_THREADS = 2


class TableReading:
    """One reading of a table. `types` is column -> a literal of its type; `last` is the last rowid that was read.

    `where` is an SQL condition that selects rows.
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
        """How far the reading got, for a report."""
        return self._table if self.last == _FIRST else f"{self._table} after row {self.last}"

    def blocks(self, size: int) -> Iterator[Block]:
        """Yields all rows. Raises OSError and sqlite3.Error for rows that can't be read."""
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
        """Sets `last` to the last of these rows that can be read."""
        with suppress(sqlite3.Error):
            for number, *_ in self._connection.execute(self._select(low, high)):
                self.last = number

    def _ranges(self, size: int) -> list[tuple[int, int]]:
        """Ranges of rowids with at most `size` rows each; none if the table has no rowids, or if these are sparse."""
        if not self._rowid:
            return []
        name = quoted_name(self._table)
        least, greatest = self._connection.execute(
            f"SELECT (SELECT min(_rowid_) FROM {name}), max(_rowid_) FROM {name}"
        ).fetchone()
        pages = self._connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        if least is None or greatest - least > pages.fetchone()[0]:  # fewer than one row for each byte of the file
            return []
        return [(low, min(low + size - 1, greatest)) for low in range(least, greatest + 1, size)]

    def stream(self, size: int) -> Iterator[Block]:
        """Yields all rows of one query: the best way for few rows of a table."""
        while True:
            try:
                yield from self._fast(size)
                return
            except OSError as error:
                if not _is_refusal(error):
                    raise
            yield from self._slow(size)

    def _fetched(self, bounds: tuple[int, int], size: int) -> pa.RecordBatch | None:
        """The rows with these rowids, at most `size`; None if ADBC refuses them."""
        try:
            constants = self._constants.known()
            if constants:
                batch = self._range(bounds, size, constants)
                if pc.min(batch.column(batch.num_columns - 1)).as_py() != 0:
                    return self._completed(batch, constants)
            batch = self._range(bounds, size, {})
        except OSError as error:
            if not _is_refusal(error):
                raise
            return None
        if batch.num_rows:
            self._constants.learn(dict(zip(self._types, batch.columns[1:], strict=False)))
        return batch

    def _range(self, bounds: tuple[int, int], size: int, constants: dict[str, int | None]) -> pa.RecordBatch:
        """The rows with these rowids, with one column that compares the known columns instead of these."""
        types = {name: literal for name, literal in self._types.items() if name not in constants}
        same = f", {condition(constants)}" if constants else ""
        with self._reader(self._select(*bounds, types, same), size + 1, types, ", 1" if constants else "") as reader:
            batch = reader.read_next_batch().slice(1)
            self._check_text(batch)
            return batch

    def _completed(self, batch: pa.RecordBatch, constants: dict[str, int | None]) -> pa.RecordBatch:
        """Adds the known columns to the rows."""
        fetched = iter(batch.columns[1:])
        columns = [
            column_of(constants[name], _ARROW[literal], batch.num_rows) if name in constants else next(fetched)
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
        """The rows of a query, after a row that sets the types; `more` is the part of that row for further columns."""
        first = ", ".join(f"{literal} AS {quoted_name(name)}" for name, literal in types.items())
        query = f"SELECT 0 AS _rowid_, {first or 'NULL'}{more} UNION ALL {select}"
        with _rows(self._uri, query, size) as reader:
            if reader.schema.types[1 : 1 + len(types)] != [_ARROW[kind] for kind in types.values()]:
                raise _Refused("values of two types in the first rows")
            yield reader

    def _select(
        self, low: int | None = None, high: int | None = None, names: Iterable[str] | None = None, more: str = ""
    ) -> str:
        """The query for the rows with these rowids; without rowids, for the rows that weren't read yet."""
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
        if self._rowid:
            order = rowids.to_numpy()
            if order[0] <= self.last or np.any(order[1:] <= order[:-1]):
                raise _out_of_order()
        self._read += len(rowids)
        self.last = numbers[-1].as_py()
        self._report.record(len(rowids))
        columns_kept = {name: _kept(column) for name, column in zip(self._types, columns, strict=False)}
        return Block(f"{self._table} row", numbers, columns_kept)

    def _slow(self, size: int, high: int | None = None) -> Iterator[Block]:
        """Yields the next rows up to the rowid `high`, without those that have a value of another type.

        Raises sqlite3.DatabaseError for a damaged table whose rowids go back: it would be read for ever.
        """
        select = self._select(self.last + 1 if self.last > _FIRST else None, high)
        rows = self._connection.execute(f"{select} LIMIT {size}").fetchall()
        if not rows:
            return
        if self._rowid and any(one >= other for (one, *_), (other, *_) in pairwise([(self.last,), *rows])):
            raise _out_of_order()
        fields = list(self._types.items())
        whole: list[tuple[Any, ...]] = []
        for number, row in enumerate(rows, self._read + 1):
            place = f"{self._table} row {row[0] if self._rowid else number}"
            values = [_typed(value, literal) for value, (_, literal) in zip(row[1:], fields, strict=False)]
            misfit = next((i for i, value in enumerate(values) if value is _MISFIT), None)
            if misfit is not None:
                self._report.record()
                name, literal = fields[misfit]
                self._report.issue("bad-record", place, f"{name} is {row[1 + misfit]!r:.80}, not {_WORDS[literal]}")
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
    """Returns values as an array of the column's type, null for a value of another type."""
    typed = (_typed(value, literal) for value in values)
    return _kept(pa.array([None if value is _MISFIT else value for value in typed], _ARROW[literal]))


def _kept(column: pa.Array) -> pa.Array:
    """The column; blobs as large_binary, since a column of arguments that is binary has JSON texts."""
    return column.cast(pa.large_binary()) if pa.types.is_binary(column.type) else column


class _Refused(OSError):
    """Rows that must be read one by one."""


def _out_of_order() -> sqlite3.DatabaseError:
    return sqlite3.DatabaseError("rows occur twice, or not in the order of their rowids")


def _is_refusal(error: OSError) -> bool:
    return isinstance(error, _Refused) or "Type mismatch" in str(error)


_MISFIT = object()


def _typed(value: Any, literal: str) -> Any:
    """The value as the type of the literal, `_MISFIT` if it is of another type."""
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
    """Whether a table has rowids: it isn't a view, nor WITHOUT ROWID, and has no column of that name."""
    if any(
        name.casefold() == "_rowid_" for _, name, *_ in connection.execute(f"PRAGMA table_info({quoted_name(table)})")
    ):
        return False
    try:
        connection.execute(f"SELECT _rowid_ FROM {quoted_name(table)} LIMIT 0")
    except sqlite3.OperationalError:
        return False
    return True


@contextmanager
def _rows(uri: str, query: str, size: int) -> Iterator[pa.RecordBatchReader]:
    """Runs a query; its rows come in batches of `size`. Raises OSError with what SQLite says.

    ADBC's DB-API would do it too, but imports Polars wherever it is installed: 0.2 s of CPU time.
    """
    import adbc_driver_sqlite
    from adbc_driver_manager import AdbcConnection, AdbcStatement, Error

    try:
        with (
            adbc_driver_sqlite.connect(uri) as database,
            AdbcConnection(database) as connection,
            AdbcStatement(connection) as statement,
        ):
            statement.set_options(**{adbc_driver_sqlite.StatementOptions.BATCH_ROWS.value: str(size)})
            statement.set_sql_query(query)
            stream, _ = statement.execute_query()
            with pa.RecordBatchReader.from_stream(stream) as reader:
                yield reader
    except Error as error:  # in the first rows
        raise OSError(str(error).removeprefix("IO: ")) from None
