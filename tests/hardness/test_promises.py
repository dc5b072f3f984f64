"""What SECURITY.md says of inputs: nothing in them is executed, nothing leaves the machine, nothing else is written."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from conftest import ROOT, SAMPLES
from nightly import few

from ktrace.errors import KtraceError
from ktrace.input.format import builtin_formats
from ktrace.pipeline.convert import convert

DATABASES = [
    pytest.param(fmt.name, path, id=f"{fmt.name}/{path.name}")
    for fmt in builtin_formats()
    if fmt.database
    for path in sorted((SAMPLES / fmt.name).glob("*"))
    if path.is_file() and path.read_bytes()[:6] == b"SQLite"
]

#: Converts every sample, and prints what Python's audit hooks say that it did beyond reading and computing.
WATCHED = """
import json, os, sys, tempfile
sys.path.insert(0, {root!r})
sys.dont_write_bytecode = True
from pathlib import Path
from tests.fuzz.driver import warm
from tests.fuzz.samples import samples
from ktrace.errors import KtraceError
from ktrace.pipeline.convert import convert

NEVER = ("socket.connect", "socket.getaddrinfo", "socket.bind", "subprocess.Popen", "os.system", "os.exec",
         "os.posix_spawn", "pickle.find_class", "sqlite3.load_extension", "sqlite3.enable_load_extension",
         "ctypes.dlopen", "webbrowser.open", "urllib.Request")
WRITES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
          "shutil.rmtree", "shutil.copyfile", "shutil.move")
mine, found, watching = {folder!r}, set(), False

def inside(path):
    if isinstance(path, int) or path is None or os.fsdecode(path) == os.devnull:
        return True
    return os.path.realpath(os.fsdecode(path)).startswith((mine, "/dev/shm/"))

def hook(event, args):
    if not watching:
        return
    if event in NEVER:
        found.add(event + " " + repr(args)[:200])
    elif event in WRITES and not inside(args[-1] if event in ("os.rename", "shutil.copyfile") else args[0]):
        if event != "os.rmdir" or args[1:] == (-1,):  # rmtree names what is in a folder by the folder's number
            found.add(event + " " + repr(args)[:200])
    elif event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        if not inside(args[0]):
            found.add("open " + repr(args)[:200])

warm()
tempfile.tempdir = mine
sys.addaudithook(hook)
done = 0
for several in samples().values():
    for sample in several[:{most}]:
        for suffix in ("perfetto", "parquet"):
            watching = True
            try:
                convert(sample.path, os.path.join(mine, f"{{done}}.{{suffix}}"), jobs=1)
            except KtraceError as error:
                watching = False
                print(error, file=sys.stderr)
            watching = False
            done += 1
print(json.dumps([done, sorted(found)]))
"""


@pytest.mark.parametrize(("most", "least"), few([pytest.param(1, 100), pytest.param(99, 400)], 1))
def test_reading_runs_no_program_and_opens_no_connection_and_writes_nowhere_else(
    most: int, least: int, tmp_path: Path
) -> None:
    """By the audit hooks of Python, for so many samples of every format."""
    code = WATCHED.format(root=str(ROOT), folder=os.path.realpath(tmp_path), most=most)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    converted, found = json.loads(done.stdout)
    assert converted > least
    assert found == []


def trapped(path: Path, target: Path) -> Path:
    """A copy of a database whose tables are views without end, and whose changes would fire triggers."""
    shutil.copy(path, target)
    with closing(sqlite3.connect(target, isolation_level=None)) as database:
        all_names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        names = [name for (name,) in all_names if not name.startswith("sqlite_")]
        for number, name in enumerate(names):
            columns = [row[1] for row in database.execute(f'PRAGMA table_info("{name}")')]
            if number % 2:
                fails = 'SELECT RAISE(FAIL, "a trigger ran")'
                database.execute(f'CREATE TRIGGER "t{number}" BEFORE DELETE ON "{name}" BEGIN {fails}; END')
                continue
            endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
            database.execute(f'ALTER TABLE "{name}" RENAME TO "moved {number}"')
            shown = ", ".join(f'x AS "{column}"' for column in columns)
            database.execute(f'CREATE VIEW "{name}" AS {endless} SELECT {shown} FROM n')
    return target


@pytest.mark.parametrize(("name", "path"), few(DATABASES, 1, by=lambda values: values[0]))
def test_views_and_triggers_of_a_database_never_run(name: str, path: Path, tmp_path: Path) -> None:
    """A view that ran would never end. The file stays as it is."""
    target = trapped(path, tmp_path / path.name)
    before = target.read_bytes()
    code = (
        "import sys; from ktrace.cli import main; sys.argv = ['ktrace', 'convert', sys.argv[1], '--from', sys.argv[2],"
        " '-o', sys.argv[1] + '.jsonl', '--jobs', '1']; main()"
    )
    command = [sys.executable, "-c", code, str(target), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    assert "a trigger ran" not in done.stderr
    assert "Traceback" not in done.stderr
    assert target.read_bytes() == before
    assert {found.name for found in tmp_path.iterdir()} <= {target.name, f"{target.name}.jsonl"}


@pytest.mark.parametrize("name", ["../../slip.json", "/tmp/slip.json", "a/../../../slip.json", "..\\..\\slip.json"])
def test_the_names_in_an_archive_name_no_files(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    path = folder / "run.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(SAMPLES / "kineto" / "shapes-of-products-attention-copies.json", name)
    report = convert(path, folder / "run.jsonl")
    assert report.written > 10
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == ["run.jsonl", "run.zip"]
    assert not Path("/tmp/slip.json").exists()


def test_a_database_in_an_archive_is_unpacked_below_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database needs a file; its name comes from the archive."""
    (tmp_path / "tmp" / "deep").mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp" / "deep"))
    (sample, *_) = sorted((SAMPLES / "nsys").glob("*.sqlite"))
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(sample, "../../../escaped.sqlite")
    try:
        convert(path, tmp_path / "run.jsonl")
    except KtraceError as error:
        assert str(path) in str(error)
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} <= {"run.zip", "run.jsonl"}
    assert not list(tmp_path.parent.glob("escaped*"))
