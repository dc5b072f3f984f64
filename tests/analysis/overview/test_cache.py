"""The cache: the same input is read once, another content again; nothing of it can hurt a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import SAMPLES, SHARED
from nightly import few

from ktrace.analysis.questions.overview import Stored, cache
from ktrace.analysis.questions.overview.cache import cache_folder, clear, entries, tidy
from ktrace.cli import cli
from ktrace.errors import InputError, OutputError
from ktrace.pipeline import overview, read, selection
from ktrace.pipeline.overview import overviewed
from ktrace.pipeline.selection import Selection
from ktrace.report import Report
from ktrace.scratch import SUFFIX
from ktrace.stages.select.wanted import Filter

SAMPLE = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KTRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_bytes(SAMPLE.read_bytes())
    return path


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The inputs of each reading."""
    found: list[list[str]] = []
    read = overview.read_selected

    def counted(paths: list[str], *arguments: object, **options: object) -> Iterator[object]:
        found.append(list(paths))
        return read(paths, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(overview, "read_selected", counted)
    return found


def rows_of(path: Path, selection: Selection | None = None, *, cached: bool = True) -> tuple[int, Report]:
    with overviewed([str(path)], selection or Selection(), cached=cached) as (found, report):
        return found.stored.rows, report


def test_the_second_opening_reads_nothing(folder: Path, trace: Path, readings: list[list[str]]) -> None:
    rows, report = rows_of(trace)
    again, kept = rows_of(trace)
    assert (rows, report.line(), report.to_dict()["issues"]) == (again, kept.line(), kept.to_dict()["issues"])
    assert report.inputs == kept.inputs
    assert len(readings) == 1
    assert [entry.inputs for entry in entries()] == [[str(trace)]]


@pytest.mark.parametrize("change", ["size", "time", "place"])
def test_another_content_is_read_again(
    folder: Path, trace: Path, readings: list[list[str]], change: str, tmp_path: Path
) -> None:
    rows_of(trace)
    other = trace
    if change == "size":
        trace.write_text(trace.read_text() + "\n")
    elif change == "time":
        os.utime(trace, ns=(1, 1))
    else:
        other = tmp_path / "other.json"
        other.write_bytes(trace.read_bytes())
    rows_of(other)
    assert len(readings) == 2


def test_another_selection_is_another_trace(folder: Path, trace: Path, readings: list[list[str]]) -> None:
    whole, _ = rows_of(trace)
    kernels, _ = rows_of(trace, Selection(filter=Filter(kinds=["kernel"])))
    assert 0 < kernels < whole
    rows_of(trace, Selection(jobs=1))
    assert len(readings) == 2, "the number of processes changes nothing in the rows"


def test_other_code_reads_again(
    folder: Path, trace: Path, readings: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of(trace)
    monkeypatch.setattr(cache, "_code", lambda: 1)
    rows_of(trace)
    assert len(readings) == 2


def test_without_the_cache_nothing_stays(folder: Path, trace: Path, readings: list[list[str]]) -> None:
    rows_of(trace, cached=False)
    rows_of(trace, cached=False)
    assert len(readings) == 2
    assert not folder.exists()


@pytest.mark.parametrize("damage", ["index.json", "rows.arrows", "lanes.rows", "version"])
def test_a_damaged_trace_is_read_again_or_found_out(
    folder: Path, trace: Path, readings: list[list[str]], damage: str
) -> None:
    rows_of(trace)
    (kept,) = folder.iterdir()
    if damage == "version":
        index = json.loads((kept / "index.json").read_text())
        (kept / "index.json").write_text(json.dumps(index | {"version": 0}))
    elif damage == "index.json":
        (kept / damage).write_text("{")
    else:
        (kept / damage).unlink()
    assert [entry.inputs for entry in entries()] == [[]]
    rows, _ = rows_of(trace)
    assert rows == 75
    assert len(readings) == 2
    rows_of(trace)
    assert len(readings) == 2, "the damaged one was removed"
    assert [entry.inputs for entry in entries()] == [[str(trace)]]


def test_what_cannot_be_read_is_cleared_and_what_is_not_ours_stays(folder: Path, trace: Path) -> None:
    rows_of(trace)
    (kept,) = folder.iterdir()
    (kept / "cells.arrow").unlink()
    ours = kept.rename(folder / ("0" * 32))
    other, empty, named = folder / ("1" * 32), folder / ("2" * 32), folder / "notes"
    for one in (other, empty, named):
        one.mkdir()
    (other / "index.json").write_text("{}")
    (other / "thesis.txt").write_text("mine")
    (named / "index.json").write_text("{}")
    run = CliRunner().invoke(cli, ["cache"])
    assert "(damaged, or of another version)" in run.output
    assert run.output.splitlines()[-1].startswith("1 trace, ")
    os.utime(ours, (1, 1))
    tidy(folder, keep=folder / "none")
    assert sorted(folder.iterdir()) == sorted([other, empty, named]), "it was old"
    assert clear() == []
    assert sorted(folder.iterdir()) == sorted([other, empty, named])


def test_off_is_no_folder(trace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KTRACE_CACHE", "off")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "off").mkdir()
    rows_of(trace)
    assert not list((tmp_path / "off").iterdir())
    assert CliRunner().invoke(cli, ["cache"]).output == "the cache is off: KTRACE_CACHE is off\n"
    answer = json.loads(CliRunner().invoke(cli, ["cache", "--format", "json", "--clear"]).output)
    assert (answer["folder"], answer["traces"]) == (None, [])


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners of files")
def test_a_folder_that_others_may_write_to_is_not_used(folder: Path, trace: Path, readings: list[list[str]]) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    rows_of(trace)
    rows_of(trace)
    assert len(readings) == 2
    assert not list(folder.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="no modes of files")
def test_only_this_user_can_read_it(folder: Path, trace: Path) -> None:
    rows_of(trace)
    assert folder.stat().st_mode & 0o077 == 0
    assert all(entry.folder.stat().st_mode & 0o077 == 0 for entry in entries())


def test_what_is_wrong_with_an_input_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"traceEvents": [')
    with pytest.raises(InputError):
        rows_of(tmp_path / "bad.json")
    assert not list(folder.iterdir())


def test_a_full_disk_is_an_error_that_names_the_folder(
    folder: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(overview, "store", full)
    with pytest.raises(OutputError, match="can't keep the rows") as error:
        rows_of(trace)
    assert error.value.path == str(folder)
    assert "KTRACE_CACHE" in str(error.value.remedy)
    assert not list(folder.iterdir())


def test_what_a_killed_process_leaves_is_removed(folder: Path, trace: Path) -> None:
    code = (
        "import os, signal, sys\nfrom ktrace.pipeline import overview\n"
        "from ktrace.pipeline.selection import Selection\n"
        "overview.store = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "with overview.overviewed([sys.argv[1]], Selection(), cached=True): pass"
    )
    assert subprocess.run([sys.executable, "-c", code, str(trace)], check=False).returncode == -9
    assert any(path.name.endswith(SUFFIX) for path in folder.iterdir())
    rows_of(trace)
    assert [path.name for path in folder.iterdir()] == [entry.folder.name for entry in entries()]


def test_two_at_once_both_have_the_trace(folder: Path, trace: Path) -> None:
    with overviewed([str(trace)], Selection(), cached=True) as (whole, _):
        first = whole.stored
        code = (
            "import sys\nfrom ktrace.pipeline.overview import overviewed\n"
            "from ktrace.pipeline.selection import Selection\n"
            "with overviewed([sys.argv[1]], Selection(), cached=True) as (found, _): print(found.stored.rows)"
        )
        run = [sys.executable, "-c", code, str(trace)]
        both = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        assert [process.communicate()[0].strip() for process in both] == [str(first.rows)] * 2
        clear()
        assert sum(len(batch) for batch in first.batches()) > 0, "what is open stays readable"
    assert not entries()


def test_the_oldest_go_first(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = [tmp_path / f"{number}.json" for number in range(3)]
    for number, path in enumerate(traces):
        path.write_bytes(SAMPLE.read_bytes())
        rows_of(path)
        (newest,) = [entry for entry in entries() if entry.inputs == [str(path)]]
        os.utime(newest.folder, (time.time() - 10 * (3 - number),) * 2)
    monkeypatch.setattr(cache, "MOST_BYTES", sum(entry.size for entry in entries()[:2]))
    tidy(folder, keep=newest.folder)
    assert [entry.inputs for entry in entries()] == [[str(traces[2])], [str(traces[1])]]
    os.utime(entries()[-1].folder, (1, 1))
    tidy(folder, keep=newest.folder)
    assert [entry.inputs for entry in entries()] == [[str(traces[2])]], "it wasn't opened for 30 days"


def test_the_command_shows_and_clears(folder: Path, trace: Path) -> None:
    rows_of(trace)
    run = CliRunner().invoke(cli, ["cache"])
    assert run.exit_code == 0
    assert str(trace) in run.output
    assert run.output.splitlines()[-1].startswith("1 trace, ")
    answer = json.loads(CliRunner().invoke(cli, ["cache", "--format", "json"]).output)
    assert [one["inputs"] for one in answer["traces"]] == [[str(trace)]]
    assert answer["traces"][0]["size_bytes"] == entries()[0].size
    cleared = json.loads(CliRunner().invoke(cli, ["cache", "--clear", "--format", "json"]).output)
    assert cleared["cleared"]
    assert len(cleared["traces"]) == 1
    assert json.loads(CliRunner().invoke(cli, ["cache", "--format", "json"]).output)["traces"] == []
    assert cache_folder() == folder


ANSWERED = [
    SAMPLE,
    *sorted(SAMPLES.glob("nsys/*.sqlite"))[:1],
    *sorted(SAMPLES.glob("chrome/*.json"))[:2],
    *sorted(SAMPLES.glob("rocprofv3-json/*.json"))[:1],
    *sorted(SAMPLES.glob("xplane/*.pb"))[:1],
    *sorted((SHARED / "corpus/pytorch_kineto").glob("*.json.gz"))[:3],
]


@pytest.mark.parametrize("path", few([path for path in dict.fromkeys(ANSWERED) if path.exists()], 2))
def test_answers_are_the_same_from_the_cache(
    folder: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "CACHE_MIN_BYTES", 0)
    questions = ["operation,kernel", "idle", "op,shape", "roofline", "critical-path", "memory", "launch"]
    commands = [
        *(["summary", str(path), "--by", by, "--format", "json"] for by in questions),
        ["query", str(path), "select kind, name, sum(dur) from events group by all order by all", "--format", "json"],
        ["diff", str(path), str(path), "--format", "json"],
        ["info", str(path), "--format", "json"],
    ]
    outputs = ["--report", str(tmp_path / "report.json"), "--overwrite", "-o"]
    written = [tmp_path / "out.jsonl", tmp_path / "out.perfetto"]

    def everything() -> list[object]:
        runs = [CliRunner().invoke(cli, command) for command in commands]
        answers: list[object] = [(run.exit_code, run.stdout, str(run.exception)) for run in runs]
        for out in written:
            run = CliRunner().invoke(cli, ["convert", str(path), *outputs, str(out)])
            answers += [run.exit_code, out.read_bytes(), (tmp_path / "report.json").read_text()]
        return answers

    before = everything()
    rows_of(path)
    reader = read.read_batches
    monkeypatch.setattr(read, "read_batches", lambda *_, **__: iter(()))
    again = everything()
    monkeypatch.setattr(read, "read_batches", reader)
    (stored,) = folder.iterdir()
    if Stored(stored).is_as_read:
        assert again == before
    assert everything() == before
