"""Outputs that replace others: all or nothing, also where the process is killed between any two steps."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ktrace.errors import OutputError
from ktrace.input.detection import by_name
from ktrace.output import Sink, writing
from ktrace.output import swap as module
from ktrace.output.parts import NumberedOutputs
from ktrace.output.swap import recover
from ktrace.scratch import SUFFIX, make, name_for, scratch_folder, sweep

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
OURS = b"PAR1 ktrace.version PAR1"


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Does the work in a child, which dies at its step-th change of a folder. Returns whether it died."""
    child = os.fork()
    if not child:
        steps = itertools.count(1)
        for name in ("rename", "replace", "link", "unlink", "rmdir", "mkdir"):
            counted = _counting(getattr(os, name), steps, step)
            setattr(os, name, counted)
            if hasattr(pathlib, "_NormalAccessor"):  # Python 3.10: paths have bound the functions already
                setattr(pathlib._NormalAccessor, name, staticmethod(counted))
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def _counting(real: Callable[..., object], steps: Iterator[int], last: int) -> Callable[..., object]:
    def counted(*arguments: object, **options: object) -> object:
        if next(steps) == last:
            os._exit(9)
        return real(*arguments, **options)

    return counted


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_folder(target: Path, text: bytes, *, overwrite: bool = True) -> None:
    with writing(Sink(str(target), overwrite=overwrite, folder=True)) as sink:
        for name in ("events.parquet", "links.parquet"):
            sink.open(name).write(OURS + text)


def write_parts(target: Path, text: bytes, count: int, *, overwrite: bool = True) -> None:
    with writing(NumberedOutputs(str(target), by_name("jsonl", writes=True), overwrite=overwrite)) as parts:
        for number in range(count):
            parts.begin().open().write(text + b"%d" % number)


@needs_fork
def test_a_folder_that_is_overwritten_is_old_or_new_wherever_it_is_killed(tmp_path: Path) -> None:
    seen = set()
    for step in itertools.count(1):
        folder = tmp_path / str(step)
        folder.mkdir()
        write_folder(folder / "run.parquet", b"old")
        (folder / "run.parquet" / "mine.parquet").write_bytes(b"mine")
        died = killed_at(step, lambda at=folder: write_folder(at / "run.parquet", b"new"))  # type: ignore[misc]
        recover(folder)
        found = content(folder)
        assert found.pop("run.parquet/mine.parquet") == b"mine", step
        assert set(found) == {"run.parquet/events.parquet", "run.parquet/links.parquet"}, (step, found)
        assert len(set(found.values())) == 1, (step, found)
        seen.add(found["run.parquet/links.parquet"].removeprefix(OURS))
        assert [path.name for path in folder.iterdir()] == ["run.parquet"], step
        if not died:
            break
    assert seen == {b"old", b"new"}
    assert step > 5


@needs_fork
def test_parts_that_are_overwritten_are_of_one_run_wherever_it_is_killed(tmp_path: Path) -> None:
    seen = set()
    for step in itertools.count(1):
        folder = tmp_path / str(step)
        folder.mkdir()
        write_parts(folder / "run.jsonl", b"old", 3)
        died = killed_at(step, lambda at=folder: write_parts(at / "run.jsonl", b"new", 2))  # type: ignore[misc]
        recover(folder)
        found = content(folder)
        old, new = (
            {f"run.00{number}.jsonl": b"%s%d" % (run, number) for number in range(count)}
            for run, count in ((b"old", 3), (b"new", 2))
        )
        assert found in (old, new), step
        seen.add(len(found))
        if not died:
            break
    assert seen == {3, 2}
    assert step > 8


@needs_fork
def test_new_parts_are_all_there_or_none(tmp_path: Path) -> None:
    for step in itertools.count(1):
        folder = tmp_path / str(step)
        folder.mkdir()
        died = killed_at(step, lambda at=folder: write_parts(at / "run.jsonl", b"new", 3, overwrite=False))  # type: ignore[misc]
        recover(folder)
        assert len(content(folder)) in (0, 3), step
        if not died:
            break
    assert len(content(folder)) == 3


def test_what_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    for name, is_folder in (("out.txt", False), ("out.parquet", True)):
        target = tmp_path / name
        with pytest.raises(OutputError, match="appeared during"), writing(Sink(str(target), folder=is_folder)) as sink:
            sink.open("events.parquet" if is_folder else None).write(b"mine")
            target.write_bytes(b"somebody's")
        assert target.read_bytes() == b"somebody's"
        target.unlink()
    with (
        pytest.raises(OutputError, match=r"part\.001.*appeared during"),
        writing(NumberedOutputs(str(tmp_path / "part.jsonl"), by_name("jsonl", writes=True))) as parts,
    ):
        for _ in range(3):
            parts.begin().open().write(b"mine")
        (tmp_path / "part.001.jsonl").write_bytes(b"somebody's")
    assert content(tmp_path) == {"part.001.jsonl": b"somebody's"}


def test_without_links_nothing_is_replaced_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with writing(Sink(str(tmp_path / "out.txt"))) as sink:
        sink.open().write(b"done")
    with pytest.raises(OutputError, match="appeared"), writing(Sink(str(tmp_path / "two.txt"))) as sink:
        sink.open().write(b"mine")
        (tmp_path / "two.txt").write_bytes(b"somebody's")
    assert content(tmp_path) == {"out.txt": b"done", "two.txt": b"somebody's"}


def test_other_peoples_files_in_a_folder_stay(tmp_path: Path) -> None:
    target = tmp_path / "run.parquet"
    write_folder(target, b"old")
    (target / "mine.parquet").write_bytes(b"mine")
    sink = Sink(str(target), overwrite=True, folder=True)
    assert sink.others == ["mine.parquet"]
    write_folder(target, b"new")
    assert content(target)["mine.parquet"] == b"mine"
    assert content(target)["events.parquet"] == OURS + b"new"
    (target / "summaries.parquet").write_bytes(b"PAR1 somebody's figures")
    with pytest.raises(OutputError, match=r"has a file summaries\.parquet that ktrace didn't write"):
        write_folder(target, b"newer")
    (target / "summaries.parquet").unlink()
    (target / "folder.parquet").mkdir()
    with pytest.raises(OutputError, match="other files"):
        write_folder(target, b"newer")


def test_a_step_that_fails_puts_everything_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parts(tmp_path / "run.jsonl", b"old", 3)
    before = content(tmp_path)
    real, calls = module.place, itertools.count()

    def failing(new: Path, target: Path) -> None:
        if next(calls) == 1:
            raise OSError(28, "No space left on device")
        real(new, target)

    monkeypatch.setattr(module, "place", failing)
    with pytest.raises(OutputError, match="No space left"):
        write_parts(tmp_path / "run.jsonl", b"new", 3)
    assert content(tmp_path) == before


def test_a_forged_note_removes_and_moves_nothing(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "thesis.txt").write_text("mine")
    (inside / "diary.txt").write_text("mine")
    token = "0123456789abcdef"
    forged = [
        {"new": [[f".x.{token}.ktrace-tmp", "diary.txt", 0, 0]], "old": []},
        {"new": [[f".x.{token}.ktrace-tmp", "../thesis.txt", 0, 0]], "old": []},
        {"new": [], "old": [["../stolen.txt", "diary.txt"]]},
        {"new": [], "old": [["stolen.txt", "../thesis.txt"]]},
        {"new": 3},
        "nothing",
    ]
    for number, note in enumerate(forged):
        (inside / f".x{number}.{token}.ktrace-swap").write_text(json.dumps(note))
    recover(inside)
    assert (tmp_path / "thesis.txt").read_text() == (inside / "diary.txt").read_text() == "mine"
    assert not (tmp_path / "stolen.txt").exists()
    assert not (inside / "stolen.txt").exists()


@needs_fork
def test_a_later_run_removes_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "notes.tmp").write_text("somebody's")
    (tmp_path / f"-0123456789abcdef{SUFFIX}").write_text("somebody's")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (tmp_path / f".link.0123456789abcdef{SUFFIX}").symlink_to(elsewhere)
    child = os.fork()
    if not child:
        make(tmp_path / name_for("run.perfetto"))
        folder = make(tmp_path / f"ktrace-0123456789abcdef{SUFFIX}", folder=True)
        (folder.path / "rows").touch()
        os._exit(0)
    os.waitpid(child, 0)
    living = make(tmp_path / name_for("run.perfetto"))
    assert len(list(tmp_path.iterdir())) == 7
    sweep(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {
        "notes.tmp",
        f"-0123456789abcdef{SUFFIX}",
        "elsewhere",
        f".link.0123456789abcdef{SUFFIX}",
        living.path.name,
    }
    assert (elsewhere / "kept").exists()
    living.remove()


@pytest.mark.parametrize("folder", [False, True])
def test_an_interruption_before_the_lock_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: bool
) -> None:
    def interrupted(*_: object, **__: object) -> bool:
        assert len(list(tmp_path.iterdir())) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr("ktrace.scratch._locked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / name_for("run"), folder=folder)
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_taken_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(FileExistsError):
        make(tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_scratch_folder_goes_with_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch_folder() as folder:
        (folder / "rows").touch()
        sweep(tmp_path)
        assert folder.exists(), "a folder in use was removed"
    assert not list(tmp_path.iterdir())


@needs_fork
@pytest.mark.parametrize("folder", [False, True])
def test_runs_that_sweep_at_the_same_time_cost_no_temporary_file(tmp_path: Path, folder: bool) -> None:
    child = os.fork()
    if not child:
        while True:
            sweep(tmp_path)
    try:
        for _ in range(3000):
            held = make(tmp_path / name_for("run.perfetto"), folder=folder)
            assert held.path.exists()
            held.remove()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
