"""Damages databases and tables value by value, with the libraries that wrote them, and databases page by page."""

from __future__ import annotations

import io
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

_VALUES: tuple[Any, ...] = (
    *(None, 0, -1, 1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 0.5, -0.0, 1e300, float("inf")),
    *(
        "",
        "x",
        "12",
        "-1",
        "1e5",
        "nan",
        "9" * 4400,
        "1" + "0" * 400,
        "a\x00b",
        "\x1b[2J",
        "x" * 70_000,
        "{",
        "[[[[",
        "0x12",
    ),
    *(b"", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"text", b"\x80\x04."),
)


def is_database(data: bytes) -> bool:
    """Returns whether the data begins as an SQLite database."""
    return data[:16] == b"SQLite format 3\x00"


def sqlite_pages(data: bytes, rng: Random) -> bytes:
    """Pages of a database are damaged, empty, in another place, or that of another page."""
    size = int.from_bytes(data[16:18], "big")
    size = 65_536 if size == 1 else size
    if size < 512 or len(data) < size:
        return data[: len(data) // 2]
    pages = [bytearray(data[at : at + size]) for at in range(0, len(data), size)]
    for _ in range(rng.choice((1, 1, 3))):
        one, other = rng.randrange(len(pages)), rng.randrange(len(pages))
        match rng.randrange(6):
            case 0:
                pages[one] = bytearray(size)
            case 1:
                pages[one][:] = pages[other]
            case 2:
                pages[one], pages[other] = pages[other], pages[one]
            case 3:
                at = rng.randrange(100) if one == 0 else rng.randrange(12)  # the headers of the file and of a page
                pages[one][at % len(pages[one])] = rng.randrange(256)
            case 4:
                del pages[one:]
                pages = pages or [bytearray(data[:size])]
            case _:
                pages[one][rng.randrange(len(pages[one])) :] = b""
                pages[one] += bytes(size - len(pages[one]))
    return b"".join(pages)


def sqlite_values(data: bytes, rng: Random) -> bytes:
    """Values of a database have other types, and tables and columns other names, by SQLite itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "database"
        path.write_bytes(data)
        with (
            suppress(sqlite3.Error, OverflowError, UnicodeDecodeError),
            closing(sqlite3.connect(path, isolation_level=None)) as database,
        ):
            database.text_factory = bytes
            database.execute("PRAGMA synchronous = OFF")
            database.execute("PRAGMA journal_mode = MEMORY")
            for _ in range(rng.choice((1, 1, 2, 4))):
                _change(database, rng)
        return path.read_bytes()


def _quoted(name: bytes) -> str:
    return '"' + name.decode("utf-8", "replace").replace('"', '""') + '"'


def _change(database: sqlite3.Connection, rng: Random) -> None:
    """Makes one change somewhere in a database."""
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    table = _quoted(rng.choice(tables))
    columns = [_quoted(row[1]) for row in database.execute(f"PRAGMA table_info({table})")]
    column, other = rng.choice(columns), rng.choice(columns)
    where = (
        ""
        if rng.random() < 0.2
        else f"WHERE rowid IN (SELECT rowid FROM {table} ORDER BY rowid LIMIT 1 OFFSET {rng.randrange(8)})"
    )
    match rng.randrange(12):
        case 0:
            database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        case 1:
            database.execute(f'ALTER TABLE {table} RENAME COLUMN {column} TO "{rng.choice(("x", "ID", "name", "1"))}"')
        case 2:
            database.execute(
                rng.choice((f"DROP TABLE {table}", f"DELETE FROM {table}", f'ALTER TABLE {table} RENAME TO "x y"'))
            )
        case 3:
            database.execute(
                f"UPDATE {table} SET {column} = CAST(x'fffe41ed' AS TEXT) {where}"
            )  # text that isn't UTF-8
        case 4:
            database.execute(f"UPDATE {table} SET {column} = {other} {where}")
        case 5:
            database.execute(f"UPDATE {table} SET {column} = -{column} {where}")
        case 6:
            database.execute(f"INSERT INTO {table} SELECT * FROM {table} {where}")
        case 7:
            body = f"SELECT * FROM {table}"
            database.execute(f'ALTER TABLE {table} RENAME TO "moved"')
            database.execute(f"CREATE VIEW {table} AS {body.replace(table, 'moved')}")
        case _:
            database.execute(f"UPDATE {table} SET {column} = ? {where}", (rng.choice(_VALUES),))


def arrow_values(data: bytes, rng: Random) -> bytes:
    """Columns of a Parquet or an Arrow file get lost, or have other names, types or values."""
    is_parquet = data[:4] == b"PAR1"
    try:
        table = pq.read_table(io.BytesIO(data)) if is_parquet else pa.ipc.open_file(data).read_all()
        table.validate(full=True)
        for _ in range(rng.choice((1, 1, 2))):
            table = _with_other_column(table, rng)
        out = io.BytesIO()
        if is_parquet:
            pq.write_table(table, out, row_group_size=rng.choice((None, 1, 7)))
        else:
            with pa.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table)
        return out.getvalue()
    except Exception:  # damaged before: Arrow raises anything
        return data[: rng.randrange(len(data) + 1)]


def _with_other_column(table: pa.Table, rng: Random) -> pa.Table:
    at = rng.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    values = column.to_pylist()
    match rng.randrange(9):
        case 0:
            return table.remove_column(at)
        case 1:
            return table.rename_columns(
                [*table.column_names[:at], rng.choice(("x", "", "ts", "id")), *table.column_names[at + 1 :]]
            )
        case 2:
            return table.append_column(name, column)  # twice
        case 3:
            return table.set_column(at, name, pa.nulls(len(table), rng.choice((column.type, pa.null(), pa.int64()))))
        case 4:
            return table.set_column(
                at, name, pa.array([str(value) for value in values], rng.choice((pa.string(), pa.large_string())))
            )
        case 5:
            kind = rng.choice(
                (
                    pa.float64(),
                    pa.int8(),
                    pa.uint64(),
                    pa.bool_(),
                    pa.timestamp("us"),
                    pa.binary(),
                    pa.decimal128(38, 2),
                )
            )
            return table.set_column(
                at, name, pa.array([rng.choice((None, 1, 0)) for _ in values]).cast(pa.int64()).cast(kind, safe=False)
            )
        case 6:
            return table.set_column(at, name, pa.array([[value] for value in values]))
        case 7:
            return pa.concat_tables([table.slice(0, rng.randrange(len(table) + 1)), table])
        case _:
            given = [rng.choice((value, None, *values)) for value in values]
            return table.set_column(at, name, pa.array(given, column.type))
