"""The fuzzer notices what goes wrong, some cases of every format hold, and what once broke doesn't break again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from nightly import few

from fuzz.case import Case, Order
from fuzz.checks import check_output
from fuzz.child import Limits, Outcome, run
from fuzz.samples import samples
from ktrace.errors import DamagedInput, OutputError
from ktrace.input.format import builtin_formats
from ktrace.pipeline.convert import convert

BROKEN = sorted(path.parent for path in Path(__file__).parent.glob("broken/*/finding.json"))


def fuzzer(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs the fuzzer in a process of its own, whose children have no locks of a test's threads."""
    command = [sys.executable, "-m", "tests.fuzz", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("cases", few([60, 2_000], 1))
def test_no_case_of_a_fixed_seed_is_a_finding(cases: int) -> None:
    """Two cases of each format; about a tenth of a second of CPU time each."""
    done = fuzzer("--cases", str(cases), "--seed", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{cases:,} cases of" in done.stdout


def test_what_once_broke_ends_as_it_should() -> None:
    assert BROKEN
    done = fuzzer("--replay", *map(str, BROKEN))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_format_that_reads_joins_by_its_samples() -> None:
    assert set(samples()) == {fmt.name for fmt in builtin_formats() if fmt.reads and not fmt.closed}


@pytest.mark.parametrize("fmt", list(samples()))
def test_a_name_is_always_the_same_case(fmt: str, tmp_path: Path) -> None:
    case = Case(samples()[fmt][0], 7)
    assert Case.named(str(case)) == case
    laid = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        _, done = case.lay(tmp_path / name)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        laid.append(([path.read_bytes() for path in files], done))
    assert laid[0] == laid[1]
    assert case.order() == case.order()


def test_most_cases_change_the_sample(tmp_path: Path) -> None:
    changed = 0
    for number, several in enumerate(samples().values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        path, _ = Case(several[0], 1).lay(folder)
        mine = sorted(path.rglob("*")) if path.is_dir() else [path]
        theirs = sorted(several[0].path.rglob("*")) if path.is_dir() else [several[0].path]
        changed += [file.read_bytes() for file in mine if file.is_file()] != [
            file.read_bytes() for file in theirs if file.is_file()
        ]
    assert changed > 0.8 * len(samples())


class Fake:
    """An order that does what a test says."""

    command = "fake"

    def __init__(self, act: Callable[[Path, Path], Any]) -> None:
        self.act = act

    def run(self, path: Path, out: Path) -> tuple[str, str, str]:
        return self.act(path, out) or ("done", "", "")


def ran(act: Callable[[Path, Path], Any], folder: Path, **limits: int) -> Outcome:
    def lay(target: Path) -> tuple[Path, list[str]]:
        (target / "input").write_text("x")
        return target / "input", []

    return run(lay, Fake(act), folder / "case", Limits(**limits))  # type: ignore[arg-type]


def fails(path: Path, out: Path) -> None:
    Case.named("no such format/x/1")


def loops(path: Path, out: Path) -> None:
    while True:
        pass


def sleeps(path: Path, out: Path) -> None:
    time.sleep(600)


def dies(path: Path, out: Path) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def fills(path: Path, out: Path) -> None:
    bytearray(300 << 20)


def leaves_an_output(path: Path, out: Path) -> tuple[str, str, str]:
    (out / "part").write_text("half of it")
    return "refused", "", "an error"


def leaves_a_temporary_file(path: Path, out: Path) -> None:
    tempfile.mkstemp()


def leaves_a_file_beside_the_input(path: Path, out: Path) -> None:
    path.with_name("input-wal").write_text("")


@pytest.mark.forks
@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (fails, "KeyError"),
        (loops, "hang"),
        (sleeps, "hang"),
        (dies, "crash SIGSEGV"),
        (fills, "memory"),
        (leaves_an_output, "leftover output"),
        (leaves_a_temporary_file, "leftover temporary files"),
        (leaves_a_file_beside_the_input, "changed input folder"),
        (lambda path, out: None, "done"),
    ],
)
def test_what_goes_wrong_in_a_case_is_its_outcome(act: Callable[[Path, Path], Any], kind: str, tmp_path: Path) -> None:
    assert ran(act, tmp_path, cpu=1, wall=5, memory=200 << 20).kind == kind


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (DamagedInput("has no end", path="run.json"), "refused", "run.json"),
        (DamagedInput("has no end"), "finding", "doesn't name the file"),
        (OutputError("can't be written", path="run.json"), "finding", "as one of the output"),
    ],
)
def test_an_error_of_ktrace_must_name_the_input(
    error: Exception, kind: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("fuzz.case.convert", convert)
    found = Order("csv", {}).run(Path("run.json"), tmp_path)
    assert found[0] == kind
    assert text in found[2]


def test_rows_that_are_missing_from_an_output_are_noticed(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    report = convert(samples()["jsonl"][0].path, target)
    assert check_output("jsonl", target, report) == ""
    kept = [line for line in target.read_bytes().splitlines(keepends=True) if b'"record":"link"' not in line]
    target.write_bytes(b"".join(kept))
    assert check_output("jsonl", target, report).startswith("unbalanced: jsonl has")
