"""Times that were moved by hand when they were exported: unix time undoes that and says so, `keep_shift` keeps it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fork_server import program
from nsys_reports import exported, readable

import ktrace

#: What the session's clock and unix time say at the same moment.
START = 1_780_000_000_000_000_000

#: Begins of kernels since the start of the session.
KERNELS = (1_000_000, 2_500_000)


def export(path: Path, *, shift: int = 0, normal: bool = False, late: int = 0) -> Path:
    """A database as nsys 2023.4 writes it with --ts-shift and --ts-normalize, of a session that began `late`."""
    start = START + late
    moved = shift + (start if normal else 0)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        database.execute("INSERT INTO StringIds VALUES (1, 'k')")
        database.execute(
            'CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, deviceId INTEGER, '
            "contextId INTEGER, streamId INTEGER, demangledName INTEGER, globalPid INTEGER)"
        )
        rows = [(begin + moved, begin + moved + 700, 0, 1, 7, 1, 9 << 24) for begin in KERNELS]
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        database.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)")
        database.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?)", (start,))
        database.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        settings = {
            "EXPORT_PARAM_TIME_NORMALIZE": "true" if normal else "false",
            "EXPORT_PARAM_TIME_SHIFT": str(shift),
            "EXPORT_CONFIG_TIME_SHIFT": str(moved),
        }
        database.executemany("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", settings.items())
        database.commit()
    return path


def begins(path: Path) -> dict[str, list[int]]:
    """Source -> begins of its kernels in the merged timeline."""
    found: dict[str, list[int]] = {}
    for row in ktrace.read(path).to_arrow()["events"].to_pylist():
        if row["kind"] == "kernel":
            found.setdefault(row["source"], []).append(row["ts"])
    return {source: sorted(times) for source, times in found.items()}


def instants(path: Path) -> list[int]:
    """The unix time of each kernel, by the anchor of the source's clock."""
    tables = ktrace.read(path).to_arrow()
    [facts] = [row["facts"] for row in tables["catalog"].to_pylist() if row["entity"] == "clock"]
    clock: dict[str, Any] = json.loads(facts)
    kernels = [row["ts"] for row in tables["events"].to_pylist() if row["kind"] == "kernel"]
    return sorted(ts - clock["at_ns"] + clock["unix_ns"] for ts in kernels)


@pytest.mark.parametrize("shift", [0, 1_234_567_890_123, -1_234_567_890_123])
@pytest.mark.parametrize("normal", [False, True])
def test_the_instant_is_the_same_however_it_was_exported(tmp_path: Path, shift: int, normal: bool) -> None:
    path = export(tmp_path / "a.sqlite", shift=shift, normal=normal)
    assert instants(path) == [START + begin for begin in KERNELS]


@pytest.mark.parametrize("normal", [False, True])
def test_unix_time_undoes_a_shift_and_says_so(tmp_path: Path, normal: bool) -> None:
    first = export(tmp_path / "first.sqlite")
    second = export(tmp_path / "second.sqlite", shift=5_000_000_000, normal=normal, late=300)
    report = ktrace.merge([first, second], tmp_path / "out.jsonl")
    assert begins(tmp_path / "out.jsonl") == {"first": list(KERNELS), "second": [begin + 300 for begin in KERNELS]}
    assert report.alignment[1]["shift_undone_ns"] == 5_000_000_000
    assert report.issues["shift-undone"].places == [("second", "5s more than of the first input")]


@pytest.mark.parametrize("align", ["auto", "unix"])
@pytest.mark.parametrize("normal", [False, True])
def test_a_shift_that_is_kept_corrects_the_clock(tmp_path: Path, normal: bool, align: str) -> None:
    first = export(tmp_path / "first.sqlite", shift=-20)
    second = export(tmp_path / "second.sqlite", shift=5_000, normal=normal, late=300)
    report = ktrace.merge([first, second], tmp_path / "out.jsonl", keep_shift=True, align=align)
    expected = [begin + 300 + 5_000 for begin in KERNELS]
    assert begins(tmp_path / "out.jsonl") == {"first": [begin - 20 for begin in KERNELS], "second": expected}
    assert report.alignment[1]["shift_ns"] == 5_020
    assert "shift-undone" not in report.issues
    again = ktrace.merge([tmp_path / "out.jsonl"], tmp_path / "again.jsonl", keep_shift=True)
    assert begins(tmp_path / "again.jsonl") == begins(tmp_path / "out.jsonl")
    assert not again.issues


def test_equal_shifts_are_nothing_to_tell(tmp_path: Path) -> None:
    inputs = [export(tmp_path / f"{name}.sqlite", shift=77) for name in "ab"]
    report = ktrace.merge(inputs, tmp_path / "out.jsonl")
    assert "shift-undone" not in report.issues
    assert begins(tmp_path / "out.jsonl") == {name: [begin + 77 for begin in KERNELS] for name in "ab"}


def test_the_command_says_it(tmp_path: Path) -> None:
    inputs = [export(tmp_path / "a.sqlite"), export(tmp_path / "b.sqlite", shift=5_000_000_000)]
    command = [program(), "merge", *map(str, inputs), "--overwrite", "-o"]
    done = subprocess.run([*command, str(tmp_path / "o.jsonl")], capture_output=True, text=True, check=True)
    assert "b: -5s, by unix time, undoing the shift of +5s made at export" in done.stderr
    assert "--keep-shift keeps it" in done.stderr
    kept = subprocess.run(
        [*command, str(tmp_path / "o.jsonl"), "--keep-shift"], capture_output=True, text=True, check=True
    )
    assert "b: by unix time, keeping the shift of +5s made at export" in kept.stderr


@pytest.mark.skipif(
    not readable(2), reason="NVIDIA's nsys (KTRACE_NVIDIA_TOOLS), or a report that it can read, isn't here"
)
@pytest.mark.parametrize(("program", "report"), readable(), ids=lambda path: path.name)
def test_nvidias_own_options_leave_the_instant_as_it_is(tmp_path: Path, program: Path, report: Path) -> None:
    plain = tmp_path / "plain.sqlite"
    assert exported(program, report, plain, "--type", "sqlite")
    with closing(sqlite3.connect(plain)) as database:
        [(start,)] = database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
            pytest.skip("has no kernels")
        expected = sorted(ts + start for (ts,) in database.execute("SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL"))
    assert instants(plain) == expected
    for number, options in enumerate(
        (["--ts-shift=1234567890123"], ["--ts-normalize=true"], ["--ts-normalize=true", "--ts-shift=-98765"])
    ):
        path = tmp_path / f"{number}.sqlite"
        if not exported(program, report, path, "--type", "sqlite", *options):
            pytest.skip("this nsys has no such options")
        assert instants(path) == expected
