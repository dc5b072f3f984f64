"""Joins of tables of a database, some rows at a time."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.sqlite import opened
from ktrace.kit.sqlite.lookup import Children, Lookup
from ktrace.report import Report


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Events 3, 6, ... with a word each; arguments of 30,000 events in the order of the events, strays among them."""
    path = tmp_path / "a.db"
    shuffled = list(range(1, 30_001))
    random.Random(7).shuffle(shuffled)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, word TEXT, stack INTEGER)")
        writer.executemany(
            "INSERT INTO event VALUES (?, ?, ?)", [(3 * n, f"w{n % 7}", n if n % 5 else None) for n in range(50_000)]
        )
        writer.execute("CREATE TABLE arg (event INTEGER, name TEXT)")
        writer.executemany(
            "INSERT INTO arg VALUES (?, ?)", [(n // 2 if n % 1000 else None, f"a{n}") for n in range(60_000)]
        )
        writer.execute("CREATE TABLE shuffled (event INTEGER)")
        writer.executemany("INSERT INTO shuffled VALUES (?)", [(n,) for n in shuffled])
        writer.commit()
    return path


@pytest.mark.parametrize("keys", [[6, 9, None, 7, 6], [6, 149_997, 60_000, 1 << 62], list(range(0, 150_000, 2))])
def test_rows_by_their_key(database: Path, keys: list[int | None]) -> None:
    with opened(Source(str(database)), Conversion(Report())) as found:
        got = Lookup(found, "event", "id", ["word", "stack", "absent"]).get(pa.array(keys, pa.int64()))
    rows = [divmod(key, 3) if key is not None else (0, 1) for key in keys]
    real = [n if not rest and n < 50_000 else None for n, rest in rows]
    assert got["word"].to_pylist() == [None if n is None else f"w{n % 7}" for n in real]
    assert got["stack"].to_pylist() == [None if n is None or n % 5 == 0 else n for n in real]
    assert set(got) == {"word", "stack"}


def test_no_keys_give_nothing(database: Path) -> None:
    with opened(Source(str(database)), Conversion(Report())) as found:
        assert Lookup(found, "event", "id", ["word"]).get(pa.array([None], pa.int64())) == {}
        assert Children(found, "arg", "event", ["name"]).of(pa.array([], pa.int64())).columns == {}


def test_all_rows_of_some_keys(database: Path) -> None:
    conversion = Conversion(Report())
    with opened(Source(str(database)), conversion) as found:
        arguments = Children(found, "arg", "event", ["name"], counted=True)
        assert (arguments.rows, conversion.report.reader.taken) == (60_000, 60_000)
        rows, columns = arguments.of(pa.array([25_000, None, 7, 99_999, 500]))
        assert rows.tolist() == [0, 2, 2, 4]
        assert columns["name"].to_pylist() == ["a50001", "a14", "a15", "a1001"]
        assert conversion.report.reader.taken == 60_000
        every = Children(found, "shuffled", "event", []).of(pa.array(range(1, 30_001)))
        assert every.of.tolist() == list(range(30_000))
