"""Files that change while they are read, and databases that a link names."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ktrace
import ktrace.pipeline.read
from ktrace.input.snapshot import FileBytes, snapshot_bytes
from ktrace.input.source import Source
from ktrace.model.batch import Batch

CHANGED = "the file changed while it was read"

#: Enough rows that every reader yields some of them before it has read half of the file.
ROWS = 150_000


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Kineto trace from which the others are made."""
    path = tmp_path_factory.mktemp("changing") / "run.pt.trace.json"
    event = '{"ph":"X","cat":"kernel","name":"k%d","pid":0,"tid":7,"ts":%d,"dur":1,"args":{"stream":7,"device":0}}'
    rows = ",\n".join(event % (number % 50, 2 * number) for number in range(ROWS))
    path.write_text(f'{{"schemaVersion":1,"traceEvents":[\n{rows}\n]}}')
    return path


def of_the_form(events: Path, name: str, folder: Path) -> Path:
    """The trace in a format, in the folder; it is made once."""
    made = events.with_name(name)
    if not made.exists():
        ktrace.convert(events, made)
    path = folder / name
    path.write_bytes(made.read_bytes())
    return path


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def written_over(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(file.read(1) or b"x")
    os.utime(path, ns=(1, 1))


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\n" * 4096)


def change_after_a_batch(monkeypatch: pytest.MonkeyPatch, path: Path, change: Callable[[Path], None]) -> None:
    """Changes the file as soon as its reader has yielded a batch of events."""
    read = ktrace.pipeline.read._rows

    def changing(*args: Any) -> Iterator[Batch]:
        pending = True
        for batch in read(*args):
            yield batch
            if pending and batch.record == "events":
                pending = False
                change(path)
        assert not pending

    monkeypatch.setattr(ktrace.pipeline.read, "_rows", changing)


@pytest.mark.parametrize("change", [halved, written_over])
@pytest.mark.parametrize("form", ["perfetto", "parquet", "csv", "jsonl", "arrow", "pt.trace.json"])
def test_a_file_that_is_cut_or_written_over_is_refused(
    events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, change: Callable[[Path], None]
) -> None:
    path = of_the_form(events, f"run.{form}", tmp_path)
    change_after_a_batch(monkeypatch, path, change)
    with pytest.raises(ktrace.DamagedInput, match=CHANGED) as raised:
        ktrace.convert(path, tmp_path / "out.jsonl.gz", jobs=1)
    assert str(raised.value).startswith(str(path))
    assert sorted(found.name for found in tmp_path.iterdir()) == [path.name]


def test_a_file_that_grows_is_read_up_to_its_end(events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = of_the_form(events, "run.perfetto", tmp_path)
    change_after_a_batch(monkeypatch, path, grown)
    assert ktrace.convert(path, tmp_path / "out.csv", jobs=1).reader.taken > ROWS


@pytest.mark.nightly
def test_a_perfetto_trace_cut_while_two_processes_read_it_ends_in_an_error(events: Path, tmp_path: Path) -> None:
    """In a process of its own: a mapped file would kill it with SIGBUS."""
    path = of_the_form(events, "run.perfetto", tmp_path)
    path.write_bytes(path.read_bytes() * (1 + (40 << 20) // path.stat().st_size))
    script = f"""
import os, ktrace.pipeline.read as reading, ktrace
from ktrace.cli import main
before = reading._rows
def changing(*args):
    for number, batch in enumerate(before(*args)):
        yield batch
        if number == 3:
            os.truncate({str(path)!r}, 4096)
reading._rows = changing
main()
"""
    arguments = ["convert", str(path), "-o", str(tmp_path / "out.csv"), "--jobs", "2"]
    result = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert (result.returncode, CHANGED in result.stderr) == (1, True), result
    assert [found.name for found in tmp_path.iterdir()] == ["run.perfetto"]


def database(path: Path) -> None:
    with sqlite3.connect(path) as made:
        made.execute(
            "CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid INT, tid INT, start INT, end INT,"
            " apiName_id INT, args_id INT)"
        )
        made.execute(
            "CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INT, queueId INT, sequenceId INT,"
            " completionSignal TEXT, start INT, end INT, description_id INT, opType_id INT)"
        )
        made.execute("CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT)")
        made.execute("CREATE TABLE rocpd_metadata (id INTEGER PRIMARY KEY, tag TEXT, value TEXT)")
        made.execute("CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id INT, op_id INT)")
        made.execute("INSERT INTO rocpd_string VALUES (1, 'hipLaunchKernel'), (2, '')")
        calls = ((number, 9 * number, 9 * number + 5) for number in range(ROWS))
        made.executemany("INSERT INTO rocpd_api VALUES (?, 1, 1, ?, ?, 1, 2)", calls)
    made.close()


def test_a_database_that_is_cut_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.rpd"
    database(path)
    change_after_a_batch(monkeypatch, path, halved)
    with pytest.raises(ktrace.DamagedInput, match=CHANGED):
        ktrace.convert(path, tmp_path / "out.csv", jobs=1)
    assert [found.name for found in tmp_path.iterdir()] == ["run.rpd"]


@pytest.mark.parametrize("links", [1, 2])
def test_a_database_that_a_link_names_is_read_with_its_wal(tmp_path: Path, links: int) -> None:
    folder, place = tmp_path / "data", tmp_path / "run.rpd"
    folder.mkdir()
    database(folder / "real.rpd")
    program = sqlite3.connect(folder / "real.rpd", isolation_level=None)
    program.execute("PRAGMA journal_mode = WAL")
    program.execute("PRAGMA wal_autocheckpoint = 0")
    program.execute("DELETE FROM rocpd_api WHERE id > 90")
    program.execute("INSERT INTO rocpd_api VALUES (1000, 1, 1, 5000, 5005, 1, 2)")
    assert (folder / "real.rpd-wal").stat().st_size > 0
    place.symlink_to("data/real.rpd")
    for number in range(1, links):
        (tmp_path / f"{number}.rpd").symlink_to(place.name)
        place = tmp_path / f"{number}.rpd"
    try:
        straight = ktrace.convert(folder / "real.rpd", tmp_path / "straight.csv", strict=True)
        linked = ktrace.convert(place, tmp_path / "linked.csv", strict=True)
    finally:
        program.close()
    assert linked.reader.taken == straight.reader.taken
    assert linked.rows["events"] == straight.rows["events"] == 92


def test_bytes_of_a_file_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(bytes(range(200)))
    with path.open("rb", 0) as file:
        data = FileBytes(file, "some")
        assert (len(data), data[0], data[199], data[3:7], data[190:], data[500:900], data[7:3]) == (
            *(200, 0, 199, bytes(range(3, 7)), bytes(range(190, 200))),
            *(b"", b""),
        )
        with pytest.raises(IndexError):
            data[200]
        os.truncate(path, 100)
        assert data[:100] == bytes(range(100))
        with pytest.raises(ktrace.DamagedInput, match=CHANGED):
            data[90:120]


@pytest.mark.parametrize("most", [10, 1 << 20])
def test_steady_bytes_stay_when_the_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("ktrace.input.snapshot.IN_MEMORY", most)
    path = tmp_path / "some"
    path.write_bytes(bytes(range(200)) * 1000)
    with snapshot_bytes(Source(str(path))) as data:
        os.truncate(path, 0)
        assert data[:] == bytes(range(200)) * 1000
