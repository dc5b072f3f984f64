"""What an attack tried in vain, and must go on trying in vain: views and triggers of databases, archives, labels."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import MADE_SAMPLES, SAMPLES

import ktrace
from ktrace.errors import KtraceError

TRACE = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def databases() -> list[Path]:
    found = [file for file in MADE_SAMPLES if file.is_file() and file.open("rb").read(15) == b"SQLite format 3"]
    return list({file.parent: file for file in found}.values())


@pytest.mark.parametrize("sample", databases(), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_views_and_triggers_of_a_database_never_run(sample: Path, tmp_path: Path) -> None:
    """Each table becomes a view that never ends and that asks for an extension; triggers would write."""
    copy = tmp_path / sample.name
    shutil.copy(sample, copy)
    with sqlite3.connect(copy) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        names = [
            row[0]
            for row in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
        ]
        assert names
        for name in names[: len(names) // 2 + 1]:
            database.execute(f'ALTER TABLE "{name}" RENAME TO "moved {name}"')
            database.execute(
                f'CREATE VIEW "{name}" AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) '
                f"SELECT m.*, load_extension('/nowhere/evil.so') FROM \"moved {name}\" m, c"
            )
        for name in names[len(names) // 2 + 1 :]:
            database.execute(f'CREATE TRIGGER "on {name}" AFTER INSERT ON "{name}" BEGIN DELETE FROM "{name}"; END')
    database.close()
    before = copy.read_bytes()
    try:
        report = ktrace.convert(copy, tmp_path / "out.jsonl")
        assert report.balanced()
    except KtraceError as error:
        assert "extension" not in str(error)
    assert copy.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} <= {copy.name, "out.jsonl"}


@pytest.mark.parametrize(
    "name", ["../evil.json", "/tmp/evil-of-ktrace.json", "a/../../evil.json", "..\\evil.json", "link"]
)
@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_members_of_archives_are_written_nowhere(tmp_path: Path, name: str, kind: str) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    path = inside / f"run.{kind}"
    data = TRACE.read_bytes()
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr(name, data)
    else:
        with tarfile.open(path, f"w:{kind.partition('.')[2]}") as packed_tar:
            about = tarfile.TarInfo(name)
            about.size = len(data)
            if name == "link":
                about.type, about.linkname, about.size = tarfile.SYMTYPE, "/etc/passwd", 0
            packed_tar.addfile(about, io.BytesIO(data) if about.size else None)
    try:
        report = ktrace.convert(path, tmp_path / "out.jsonl")
        assert report.written > 50
    except KtraceError:
        assert not (tmp_path / "out.jsonl").exists()
    assert {file.name for file in inside.iterdir()} == {path.name}
    assert {file.name for file in tmp_path.iterdir()} <= {"in", "out.jsonl"}
    assert not Path("/tmp/evil-of-ktrace.json").exists()


def test_labels_of_sources_are_no_paths_in_an_archive(tmp_path: Path) -> None:
    inputs = []
    for number, label in enumerate(["../../evil", "/etc/passwd", "..", "a\0b", "C:\\evil", ".hidden"]):
        row = {"record": "event", "source": label, "id": 1, "ts": 0, "dur": 1, "kind": "op", "name": "x"}
        path = tmp_path / f"{number}.jsonl"
        path.write_text("\n".join(map(json.dumps, [{"ktrace": "1.0"}, row | {"timing": "measured"}])) + "\n")
        inputs.append(path)
    ktrace.merge(inputs, tmp_path / "out.tar", align="none")
    with tarfile.open(tmp_path / "out.tar") as archive:
        names = archive.getnames()
    assert len(names) == 7
    assert not [name for name in names if "/" in name or "\\" in name or name.startswith(".") or "\0" in name]
