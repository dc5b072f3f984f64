"""Writes the tables of another container to an SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.input.sqlite_file import quoted_name
from ktrace.report import Report
from ktrace.scratch import scratch_folder

from . import HDF5
from .containers import TableBatch, arrow, folder, hdf5


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
    with source.open(quiet=True) as stream:
        is_hdf5 = stream.read(len(HDF5)) == HDF5
    return hdf5(source, conversion) if is_hdf5 else arrow(source, conversion)


def _write(database: sqlite3.Connection, batches: Iterator[TableBatch], source: Source, report: Report) -> None:
    """Writes the tables, texts that aren't UTF-8 with U+FFFD.

    Raises DamagedInput if the columns of a table change between batches.
    """
    known: dict[str, list[str]] = {}
    for table, batch in batches:
        names = batch.schema.names
        if table not in known:
            declared = ", ".join(f"{quoted_name(field.name)} {_kind(field.type)}" for field in batch.schema)
            try:
                database.execute(f"CREATE TABLE {quoted_name(table)} ({declared})")
            except sqlite3.Error as error:
                raise _damaged(source, table, str(error)) from None
            known[table] = names
        if names != known[table]:
            raise _damaged(source, table, "occurs twice, with other columns")
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
