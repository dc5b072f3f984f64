"""Journals beside a database: undone as SQLite does it, never handed to it, never believed where they name files."""

from __future__ import annotations

import random
import shutil
import sqlite3
import struct
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.cli import main
from ktrace.errors import DamagedInput
from ktrace.input.sqlite_file import JOURNAL_MAGIC, connect, readonly_uri

RPD = SAMPLES / "rpd"


def unfinished(folder: Path, page: int, seed: int) -> Path:
    """A database as a killed program leaves it: part of a transaction in the file, the journal beside it."""
    chance, path, memory = random.Random(seed), folder / "run.sqlite", "/dev/shm"  # where syncing costs nothing
    with (
        tempfile.TemporaryDirectory(dir=memory if Path(memory).is_dir() else None) as fast,
        closing(sqlite3.connect(f"{fast}/live.sqlite", isolation_level=None)) as live,
    ):
        live.execute(f"PRAGMA page_size = {page}")
        live.execute("PRAGMA cache_size = 5")
        live.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
        live.executemany("INSERT INTO t (text) VALUES (?)", ((chance.randbytes(90).hex(),) for _ in range(2000)))
        live.execute("BEGIN")
        for _ in range(400):
            live.execute("UPDATE t SET text = ? WHERE id = ?", (chance.randbytes(90).hex(), chance.randrange(2000)))
        live.execute("DELETE FROM t WHERE id > ?", (chance.randrange(1500, 2000),))
        live.executemany("INSERT INTO t (text) VALUES (?)", ((chance.randbytes(900).hex(),) for _ in range(300)))
        for suffix in ("", "-journal"):
            shutil.copy(f"{fast}/live.sqlite{suffix}", f"{path}{suffix}")
        live.execute("ROLLBACK")
    return path


def rows(path: Path) -> list[tuple[int, str]]:
    with readonly_uri(path) as uri, closing(connect(uri)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return connection.execute("SELECT id, text FROM t ORDER BY id").fetchall()


@pytest.mark.parametrize(("page", "seed"), [(512, 1), (1024, 2), (4096, 3), (65536, 4)])
def test_a_hot_journal_is_undone_as_sqlite_does_it(page: int, seed: int, tmp_path: Path) -> None:
    path = unfinished(tmp_path, page, seed)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    ours = rows(path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    (tmp_path / "theirs").mkdir()
    for suffix in ("", "-journal"):
        shutil.copy(f"{path}{suffix}", tmp_path / "theirs")
    with closing(sqlite3.connect(tmp_path / "theirs" / path.name)) as theirs:
        assert theirs.execute("SELECT id, text FROM t ORDER BY id").fetchall() == ours
    assert (tmp_path / "theirs" / path.name).read_bytes() != path.read_bytes()  # the journal was needed
    assert len(ours) == 2000


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_journal_is_undone_as_far_as_sqlite_undoes_it(cut: float, tmp_path: Path) -> None:
    path = unfinished(tmp_path, 1024, 5)
    journal = Path(f"{path}-journal")
    journal.write_bytes(journal.read_bytes()[: int(cut * journal.stat().st_size)])
    theirs = shutil.copy(path, tmp_path / "theirs.sqlite")
    shutil.copy(journal, f"{theirs}-journal")
    with closing(sqlite3.connect(theirs)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    with readonly_uri(path) as uri:
        assert Path(uri.removeprefix("file://").partition("?")[0]).read_bytes() == Path(theirs).read_bytes()


def test_a_journal_that_was_committed_changes_nothing(tmp_path: Path) -> None:
    """SQLite clears the header of a journal that it keeps (journal_mode = PERSIST)."""
    path = unfinished(tmp_path, 1024, 6)
    journal = Path(f"{path}-journal")
    journal.write_bytes(bytes(28) + journal.read_bytes()[28:])
    with readonly_uri(path) as uri:
        assert Path(uri.removeprefix("file://").partition("?")[0]).read_bytes() == path.read_bytes()


def naming(database: Path, victim: str) -> None:
    """Writes a journal beside a database whose last bytes name a file that SQLite would delete."""
    data = database.read_bytes()
    page = struct.unpack(">H", data[16:18])[0]
    page = 65536 if page == 1 else page
    header = (JOURNAL_MAGIC + struct.pack(">5I", 0, 1, len(data) // page, 512, page)).ljust(512, b"\0")
    name = victim.encode()
    tail = struct.pack(">I", (1 << 30) // page + 1) + name + struct.pack(">2I", len(name), sum(name)) + JOURNAL_MAGIC
    Path(f"{database}-journal").write_bytes(header + tail)


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize(
    "command", ["info", "convert", "summary", "validate", "map", "query", "batch", "diff", "merge"]
)
def test_no_command_deletes_what_a_journal_names(
    command: str, absolute: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, victim = tmp_path / "run.rpd", tmp_path / "victim"
    shutil.copy(next(RPD.glob("*.rpd")), path)
    victim.write_text("precious")
    naming(path, str(victim) if absolute else victim.name)
    monkeypatch.chdir(tmp_path)
    arguments = {
        "convert": ["run.rpd", "-o", "out.jsonl"],
        "merge": ["run.rpd", "run.rpd", "-o", "out.jsonl"],
        "diff": ["run.rpd", "run.rpd"],
        "query": ["run.rpd", "select count(*) from kernels"],
        "batch": ["run.rpd", "-o", "out.parquet/"],
    }
    monkeypatch.setattr("sys.argv", ["ktrace", command, *arguments.get(command, ["run.rpd"])])
    with pytest.raises(SystemExit) as ended:
        main()
    assert victim.read_text() == "precious"
    assert ended.value.code == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "the journal beside it belongs to a transaction over several databases" in told
    assert {file.name for file in tmp_path.iterdir()} - {"out.parquet"} == {"run.rpd", "run.rpd-journal", "victim"}


def test_a_journal_that_makes_a_database_huge_is_refused(tmp_path: Path) -> None:
    path = unfinished(tmp_path, 1024, 7)
    journal = Path(f"{path}-journal")
    data = bytearray(journal.read_bytes())
    data[16:20] = struct.pack(">I", 1 << 31)
    journal.write_bytes(data)
    with pytest.raises(DamagedInput, match=r"-journal: the journal beside it says that the database had 2,147,483,648"):
        rows(path)


def test_sqlite_opens_nothing_for_writing(tmp_path: Path) -> None:
    """Not even a copy: neither with a journal beside the file nor with a -wal."""
    path = unfinished(tmp_path, 1024, 8)
    with (
        readonly_uri(path) as uri,
        closing(connect(uri)) as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        connection.execute("CREATE TABLE other (a)")
    with closing(sqlite3.connect(tmp_path / "wal.sqlite", isolation_level=None)) as live:
        live.execute("PRAGMA journal_mode = WAL")
        live.execute("CREATE TABLE t (a)")
        with readonly_uri(tmp_path / "wal.sqlite") as uri, closing(connect(uri)) as connection:
            assert connection.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                connection.execute("CREATE TABLE other (a)")


def test_a_killed_profiler_loses_no_more_than_its_last_transaction(tmp_path: Path) -> None:
    """As a user sees it: rows of the last transaction aren't there, everything before them is."""
    path = tmp_path / "run.rpd"
    shutil.copy(next(RPD.glob("*.rpd")), path)
    whole = ktrace.convert(path, tmp_path / "whole.jsonl").written
    with closing(sqlite3.connect(path, isolation_level=None)) as live:
        live.execute("PRAGMA cache_size = 2")
        live.execute("BEGIN")
        live.execute("DELETE FROM rocpd_api")
        live.execute("CREATE TABLE filler (text)")
        live.executemany("INSERT INTO filler VALUES (?)", (("x" * 5000,) for _ in range(200)))
        (tmp_path / "killed").mkdir()
        for suffix in ("", "-journal"):
            shutil.copy(f"{path}{suffix}", tmp_path / "killed")
        live.execute("ROLLBACK")
    assert ktrace.convert(tmp_path / "killed" / "run.rpd", tmp_path / "killed.jsonl").written == whole
