"""Tables of databases as blocks: types, refused rows, damage, changes beside the file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput, UnknownFormat
from ktrace.input.source import Source
from ktrace.kit.sqlite import opened
from ktrace.report import Report


def _made(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def _numbers(count: int) -> str:
    return f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "


def _read(path: Path, table: str, size: int) -> tuple[list[dict[str, object]], Report]:
    conversion = Conversion(Report())
    rows: list[dict[str, object]] = []
    with opened(Source(str(path)), conversion) as database:
        for block in database.blocks(table, size):
            assert len(block) <= size
            columns = {name: block.get(name) for name in database.tables[table]}
            for row in range(len(block)):
                values = {name: column[row].as_py() for name, column in columns.items() if column is not None}
                rows.append({"at": block.where(row), **values})
    return rows, conversion.report


@pytest.mark.parametrize("size", [1, 7, 1000, 65_536])
def test_rows_that_differ_late(tmp_path: Path, size: int) -> None:
    """A text in an integer column costs its row, a null that becomes a text or a number late costs nothing."""
    path = _made(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (start INTEGER, text TEXT, share REAL)",
        _numbers(3000) + "INSERT INTO t SELECT i, NULL, NULL FROM n",
        "UPDATE t SET text = 'x' || start, share = start * 0.5 WHERE start > 2900",
        "UPDATE t SET start = 'soon' WHERE start = 2950",
    )
    rows, report = _read(path, "t", size)
    assert [row["start"] for row in rows] == [n for n in range(1, 3001) if n != 2950]
    assert rows[-1] == {"at": "t row 3000", "start": 3000, "text": "x3000", "share": 1500.0}
    assert rows[2899]["text"] is None
    assert report.issues["bad-record"].places == [("t row 2950", "start is 'soon', not an integer")]
    assert report.reader.taken == 3000


@pytest.mark.parametrize("size", [1, 7, 500, 65_536])
def test_columns_that_are_constant_until_they_are_not(tmp_path: Path, size: int) -> None:
    """Those that say the same in all rows aren't fetched; each that changes is, from then on."""
    path = _made(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (i INTEGER, same INTEGER, late INTEGER, nil INTEGER, text TEXT, r REAL, then_null INTEGER)",
        _numbers(3000) + "INSERT INTO t SELECT i, 7, 1, NULL, NULL, NULL, 9223372036854775807 FROM n",
        "UPDATE t SET late = 2 WHERE i > 1600",
        "UPDATE t SET nil = i, text = 'x' WHERE i = 2222",
        "UPDATE t SET then_null = NULL WHERE i > 2900",
        "UPDATE t SET r = 0.5 WHERE i = 3000",
    )
    rows, report = _read(path, "t", size)
    with closing(sqlite3.connect(path)) as connection:
        wanted = connection.execute("SELECT i, same, late, nil, text, r, then_null FROM t").fetchall()
    assert [tuple(row.values())[1:] for row in rows] == wanted
    assert report.reader.taken == 3000


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    path = _made(
        tmp_path / "a.sqlite", "CREATE TABLE t (name TEXT)", "INSERT INTO t VALUES ('gemm'), (CAST(x'ff41' AS TEXT))"
    )
    rows, report = _read(path, "t", 100)
    assert [row["name"] for row in rows] == ["gemm", "\ufffdA"]
    assert report.issues["encoding"].places[0][0] == "t row 2"


def test_tables_without_rowid_and_types_without_names(tmp_path: Path) -> None:
    path = _made(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (id TEXT PRIMARY KEY, a, b BLOB) WITHOUT ROWID",
        "INSERT INTO t VALUES ('p', 1.5, x'00ff'), ('q', 2, NULL)",
    )
    rows, _ = _read(path, "t", 1)
    assert rows == [
        {"at": "t row 1", "id": "p", "a": 1.5, "b": b"\x00\xff"},
        {"at": "t row 2", "id": "q", "a": 2.0, "b": None},
    ]


def test_a_blob_that_no_reader_takes_is_an_argument_as_base64(tmp_path: Path) -> None:
    path = _made(tmp_path / "a.sqlite", "CREATE TABLE t (a INTEGER, b BLOB)", "INSERT INTO t VALUES (1, x'00ff')")
    with opened(Source(str(path)), Conversion(Report())) as database:
        (block,) = database.blocks("t", 10)
    assert block.rest()["args.a"].to_pylist() == [1]
    assert [json.loads(text) for text in block.rest()["args.b"].to_pylist()] == [{"$base64": "AP8="}]


def test_largest_and_negative_rowids(tmp_path: Path) -> None:
    path = _made(
        tmp_path / "a.sqlite",
        "CREATE TABLE t (a INTEGER)",
        f"INSERT INTO t (rowid, a) VALUES (-5, {-(2**63)}), ({2**63 - 1}, {2**63 - 1})",
    )
    rows, _ = _read(path, "t", 1)
    assert [row["a"] for row in rows] == [-(2**63), 2**63 - 1]


def test_changes_in_a_wal_beside_the_file(tmp_path: Path) -> None:
    """A profiler that still runs: what it has written stands beside the file, which stays as it is."""
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE t (a INTEGER)")
        writer.execute("INSERT INTO t VALUES (41)")
        writer.commit()
        before = path.read_bytes()
        rows, _ = _read(path, "t", 10)
        assert [row["a"] for row in rows] == [41]
        assert path.read_bytes() == before


def test_a_locked_database_is_read(tmp_path: Path) -> None:
    path = _made(tmp_path / "a.sqlite", "CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (41)")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert len(_read(path, "t", 10)[0]) == 1


def test_damage_names_table_and_row(tmp_path: Path) -> None:
    path = _made(
        tmp_path / "a.sqlite", "CREATE TABLE t (a INTEGER)", _numbers(20_000) + "INSERT INTO t SELECT i FROM n"
    )
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    path.write_bytes(data)
    with pytest.raises(DamagedInput, match=r"a\.sqlite: t( after row \d+)?: the database can't be read"):
        _read(path, "t", 100)


def test_what_no_format_knows_is_named(tmp_path: Path) -> None:
    import ktrace

    path = _made(tmp_path / "a.sqlite", "CREATE TABLE albums (a INTEGER)")
    with pytest.raises(UnknownFormat, match="SQLite database with the table albums"):
        ktrace.read(path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DamagedInput, match="unencrypted database"):
        ktrace.read(path)
    path.write_bytes(bytes(range(256)) * 4)
    with pytest.raises(UnknownFormat, match="it may be encrypted"):
        ktrace.read(path)
