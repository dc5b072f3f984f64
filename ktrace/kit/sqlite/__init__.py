"""Tables of an SQLite database as Arrow columns, in ranges of rows; the database is read only and isn't trusted.

    for table in database.like("CUPTI_ACTIVITY_KIND_KERNEL"):      of any release: KERNEL, KERNEL_V2
        for block in database.blocks(table, conversion.batch_rows):
            start = block.take("start")                           an int64 column, None if the table doesn't have it

A column has one type: that of its first values, else the declared one.

table_reading       one table as blocks, by ADBC in ranges of rows
lookup              rows of one table for the rows of another: joins in bounded memory
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.input.sqlite_file import connect, quoted_name, readonly_uri, tables
from ktrace.kit.columnar.blocks import Block
from ktrace.report import Report, counted

from .table_reading import TableReading, cells, has_rowid

#: Part of a declaration -> a literal of the column's type: SQLite's own rule, in its order.
_AFFINITY = (
    ("INT", "0"),
    ("CHAR", "''"),
    ("CLOB", "''"),
    ("TEXT", "''"),
    ("BLOB", "x''"),
    ("REAL", "0.0"),
    ("FLOA", "0.0"),
    ("DOUB", "0.0"),
    ("", "0"),
)
_LITERALS = {"integer": "0", "real": "0.0", "text": "''", "blob": "x''"}

#: Rows of a table that are examined for the types of its columns.
_EXAMINED = 1000

#: Rows of a block when all blocks are concatenated.
_AT_ONCE = 1 << 16


@contextmanager
def opened(source: Source, conversion: Conversion) -> Iterator[Database]:
    """Opens the database of a source. Raises DamagedInput if it can't be opened."""
    with source.local_path() as path, readonly_uri(path) as uri:
        try:
            with closing(connect(uri)) as connection:
                yield Database(uri, connection, source.path, conversion)
        except sqlite3.Error as error:
            raise _damaged(source.path, None, error) from None


class Database:
    """The tables of a database. Names of tables and columns are found in any case."""

    def __init__(self, uri: str, connection: sqlite3.Connection, path: str, conversion: Conversion) -> None:
        self._uri = uri
        self._connection = connection
        self._path = path
        self._report, self.expanded = conversion.report, conversion.expanded
        self._known_types: dict[tuple[str, frozenset[str] | None], dict[str, str]] = {}
        self._declared: dict[str, str] = {}

    @cached_property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """Table -> its columns, as the database spells them, in the order of their creation."""
        return dict(tables(self._connection))

    def like(self, pattern: str) -> list[str]:
        """The tables of a name, a regular expression, in any case, with or without a release's suffix ("_V2")."""
        matching = re.compile(rf"(?:{pattern})(?:_V\d+)?", re.IGNORECASE)
        return [table for table in self.tables if matching.fullmatch(table)]

    def declare(self, *, whole: Iterable[str] = (), texts: Iterable[str] = ()) -> None:
        """Sets the type of columns of any table, by name, whatever the file contains.

        Rows with other values are reported as "bad-record"; a number in a column of texts becomes its digits.
        """
        self._declared |= dict.fromkeys(map(str.casefold, whole), _LITERALS["integer"])
        self._declared |= dict.fromkeys(map(str.casefold, texts), _LITERALS["text"])

    def count(self, table: str) -> int:
        """The number of rows."""
        count: int = self.query(table, f"SELECT count(*) FROM {quoted_name(table)}")[0][0]
        return count

    def report_unread(self, table: str) -> None:
        """Counts and reports the rows of a table of which nothing is known."""
        if rows := self.count(table):
            self._report.record(rows)
            self._report.issue("unrecognised", table, f"a table of {counted(rows, 'row')}", rows)

    def report_others(self, read_tables: Iterable[str]) -> None:
        """Counts and reports the rows of all tables but the known ones, by name in any case, and SQLite's own."""
        names = set(map(str.casefold, read_tables))
        for table in self.tables:
            if table.casefold() not in names and not table.casefold().startswith("sqlite_"):
                self.report_unread(table)

    def rowids(self, table: str) -> tuple[int, int]:
        """The least and the greatest rowid; (1, number of rows) of a table without rowids."""
        if not has_rowid(self._connection, table):
            return 1, self.count(table)
        name = quoted_name(table)
        least, greatest = self.query(table, f"SELECT (SELECT min(_rowid_) FROM {name}), max(_rowid_) FROM {name}")[0]
        return (1, 0) if least is None else (least, greatest)

    def damaged(self, table: str, what: str) -> DamagedInput:
        """Returns the error for a damaged table."""
        return _damaged(self._path, table, ValueError(what))

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Returns columns of all rows of a small table, None in place of absent columns.

        Returns no rows if the table is absent. Text that isn't UTF-8 contains U+FFFD.
        """
        name_in_file = next((name for name in self.tables if name.casefold() == table.casefold()), None)
        if name_in_file is None:
            return []
        columns_in_file = {column.casefold(): quoted_name(column) for column in self.tables[name_in_file]}
        selected = ", ".join(columns_in_file.get(column.casefold(), "NULL") for column in columns)
        return self.query(name_in_file, f"SELECT {selected} FROM {quoted_name(name_in_file)}")

    def query(self, table: str, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Returns the result of a query. Raises DamagedInput, which names the table."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _damaged(self._path, table, error) from None

    def has(self, table: str, column: str) -> bool:
        """Whether a table has a column, in any case."""
        return column.casefold() in map(str.casefold, self.tables[table])

    def blocks(
        self, table: str, size: int, columns: Sequence[str] | None = None, *, where: str = "", counted: bool = True
    ) -> Iterator[Block]:
        """Yields the rows of a table in the order of their rowids, at most `size` at once; counts each as a record.

        `columns` are the wanted columns, all by default; `where` is an SQL condition. A value of another type than its
        column's is reported as "bad-record", text that isn't UTF-8 as "encoding". With `counted` false, for rows that
        are read again, nothing is counted or reported. Raises DamagedInput, which names the table and the last row that
        could be read.
        """
        reading = self._reading(table, columns, where, counted=counted)
        self._report.at = lambda: reading.place
        try:
            yield from reading.blocks(size)
        except (sqlite3.Error, OSError) as error:
            raise _damaged(self._path, reading.place, error) from None

    def part(self, table: str, columns: Sequence[str], where: str = "") -> pa.Table:
        """Returns columns, and `_rowid_`, of the rows that meet an SQL condition, all at once; counts nothing."""
        types = self._types(table, columns)
        reading = self._reading(table, columns, where, counted=False)
        try:
            blocks = list(reading.stream(_AT_ONCE))
        except (sqlite3.Error, OSError) as error:
            raise _damaged(self._path, reading.place, error) from None
        parts = [pa.table({"_rowid_": block.numbers, **{name: block.get(name) for name in types}}) for block in blocks]
        return pa.concat_tables(parts) if parts else self._table({"_rowid_": "0", **types}, [])

    def _reading(self, table: str, columns: Sequence[str] | None, where: str, *, counted: bool) -> TableReading:
        report = self._report if counted else Report()
        return TableReading(self._connection, self._uri, table, self._types(table, columns), report, where)

    def among(
        self, table: str, column: str, numbers: Sequence[int], columns: Sequence[str], where: str = ""
    ) -> pa.Table:
        """As `part`, for the rows whose value in a column is one of the numbers."""
        types = self._types(table, [column, *columns])
        selected = ", ".join(map(quoted_name, types))
        sql = f"SELECT {selected} FROM {quoted_name(table)} WHERE {quoted_name(column)}"
        more = f" AND {where}" if where else ""
        rows = self.query(table, f"{sql} IN (SELECT value FROM json_each(?)){more}", [str(list(numbers))])
        return self._table(types, rows)

    @staticmethod
    def _table(types: dict[str, str], rows: list[tuple[Any, ...]]) -> pa.Table:
        arrays = [cells([row[i] for row in rows], literal) for i, literal in enumerate(types.values())]
        return pa.table(dict(zip(types, arrays, strict=True)))

    def _types(self, table: str, columns: Sequence[str] | None = None) -> dict[str, str]:
        """Column -> a literal of its type: that of its first values, else the declared one."""
        names = None if columns is None else frozenset(column.casefold() for column in columns)
        if (table, names) not in self._known_types:
            columns_read = [name for name in self.tables[table] if names is None or name.casefold() in names]
            self._known_types[table, names] = self._looked_up_types(table, columns_read)
        return self._known_types[table, names]

    def _looked_up_types(self, table: str, columns: list[str]) -> dict[str, str]:
        if not columns:
            return {}
        name = quoted_name(table)
        declared = {column: kind for _, column, kind, *_ in self.query(table, f"PRAGMA table_info({name})")}
        types_sql = ", ".join(f"group_concat(DISTINCT typeof({quoted_name(column)}))" for column in columns)
        seen = self.query(table, f"SELECT {types_sql} FROM (SELECT * FROM {name} LIMIT {_EXAMINED})")[0]
        return {
            column: self._declared.get(column.casefold()) or _literal(declared[column], words)
            for column, words in zip(columns, seen, strict=True)
        }


def _literal(declared: str, seen: str | None) -> str:
    kinds = set((seen or "").split(",")) - {"null", ""}
    chosen = next((_LITERALS[kind] for kind in ("text", "blob", "real", "integer") if kind in kinds), None)
    affinity = next(literal for word, literal in _AFFINITY if word in declared.upper())
    return affinity if chosen is None or (chosen == "0" and affinity == "0.0" and declared) else chosen


def _damaged(path: str, where: str | None, error: Exception) -> DamagedInput:
    return DamagedInput(
        f"the database can't be read: {str(error).removeprefix('[SQLite] ')}",
        path=path,
        where=where,
        expected="a whole, unencrypted SQLite database",
        remedy="copy or export it again, or try sqlite3 FILE .recover | sqlite3 NEW",
    )
