"""What is kept may be damaged in any way, or have no disk: no answer changes, none is lost, and what is wrong goes."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SAMPLES
from nightly import few
from running import viewing
from world import with_own_mounts

from ktrace.analysis.questions.overview import FILES, Stored, cache
from ktrace.analysis.questions.overview.answers import Overview
from ktrace.analysis.questions.overview.checked import _PIECE, Checked, Damaged, sums_of
from ktrace.cli import cli
from ktrace.errors import InputError, OutputError
from ktrace.pipeline import overview, selection
from ktrace.pipeline.overview import idle_causes, overviewed, window
from ktrace.pipeline.selection import Selection

pytestmark = pytest.mark.skipif(os.name == "nt", reason="open files can't be replaced")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KTRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(selection, "CACHE_MIN_BYTES", 0)
    return tmp_path / "cache"


def write_trace(path: Path, events: int = 9_000, name: str = "kernel") -> Path:
    """A trace with slices on two threads and a counter, of which each file has several pieces or all of one."""
    some = random.Random(7)
    rows: list[dict[str, Any]] = []
    for number in range(events):
        ts = 10 * number
        rows.append({"ph": "X", "name": f"{name} {number % 7}", "pid": 1, "tid": number % 2, "ts": ts, "dur": 5})
        rows[-1]["args"] = {"text": f"{some.random()} {some.random()}"}
        rows.append({"ph": "C", "name": "power", "pid": 1, "ts": ts, "args": {"W": some.randrange(400)}})
    path.write_text(json.dumps(rows), "utf-8")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(tmp_path_factory.mktemp("made") / "run.json")


@pytest.fixture
def trace(made: Path, tmp_path: Path) -> Path:
    return shutil.copy(made, tmp_path / "run.json")


def overwritten(path: Path, start: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)


def swapped(path: Path) -> None:
    """The file of the same name of another trace."""
    other = write_trace(path.parents[2] / "other.json", 4_000, "other")
    before = set(path.parents[1].iterdir())
    with overviewed([str(other)], Selection(), cached=True):
        (kept,) = set(path.parents[1].iterdir()) - before
    (kept / path.name).replace(path)
    shutil.rmtree(kept)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "64 other bytes in the middle": lambda path: overwritten(path, path.stat().st_size // 2, os.urandom(64)),
    "its first byte": lambda path: overwritten(path, 0, b"\xfe"),
    "its last bit": lambda path: overwritten(
        path, path.stat().st_size - 1, bytes([path.read_bytes()[-1] ^ 1]) if path.stat().st_size else b"x"
    ),
    "another figure": lambda path: path.write_bytes(path.read_bytes().replace(b"1", b"2")),
    "cut in the middle": lambda path: os.truncate(path, path.stat().st_size // 2),
    "without its last byte": lambda path: os.truncate(path, max(path.stat().st_size - 1, 0)),
    "with a byte more": lambda path: overwritten(path, path.stat().st_size, b"\0"),
    "empty": lambda path: os.truncate(path, 0),
    "all zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "zeros from a page on": lambda path: overwritten(
        path, min(4096, path.stat().st_size // 2), bytes(max(0, path.stat().st_size - 4096))
    ),
    "gone": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a link to nothing": lambda path: (path.unlink(), path.symlink_to("nothing")),
    "a file of the same trace": lambda path: shutil.copy(
        path.with_name("names.arrow" if path.name != "names.arrow" else "cells.arrow"), path
    ),
    "a file of another trace": swapped,
}

CASES = [(name, damage) for name in sorted(FILES) for damage in DAMAGES]

#: What each way into the cache is asked: all of the rows, some columns of them, the page.
COMMANDS = ("summary", "view")


def ask(command: str, trace: Path) -> tuple[object, ...]:
    """What a command says, and the page that it writes."""
    page = trace.with_name("page.html")
    options = ["-o", str(page), "--overwrite"] if command == "view" else ["--format", "json", "--by", "kernel,idle"]
    run = CliRunner().invoke(cli, [command, str(trace), *options])
    return run.exit_code, run.stdout, run.stderr, page.read_bytes() if command == "view" else b""


def whole(folder: Path) -> list[str]:
    """The files of the only entry that are as they were written."""
    (entry,) = cache.entries()
    assert entry.folder.parent == folder
    assert len(entry.inputs) == 1, "its index can be read"
    found = []
    for name, file in Stored(entry.folder)._files.items():
        with suppress(Damaged):
            file.check()
            found.append(name)
    return [*found, "index.json"]


def spoil(folder: Path, name: str, damage: str) -> bool:
    """Damages a file of the only entry. Returns whether it is another one than before."""
    (kept,) = folder.iterdir()
    path = kept / name
    before = path.read_bytes()
    DAMAGES[damage](path)
    return not path.is_file() or path.read_bytes() != before


@pytest.mark.parametrize(("name", "damage"), few(CASES, 2, by=lambda case: case[0]))
def test_no_damage_changes_an_answer_and_what_is_damaged_goes(
    folder: Path, trace: Path, name: str, damage: str
) -> None:
    expected = {command: ask(command, trace) for command in COMMANDS}
    assert [code for code, *_ in expected.values()] == [0, 0]
    for command in ("view", "summary", "view"):
        assert ask(command, trace) == expected[command], "from the cache"
    for first in COMMANDS:  # the one that comes upon it
        spoil(folder, name, damage)
        for command in (first, *COMMANDS):
            assert ask(command, trace) == expected[command]
        assert FILES - {*whole(folder)} <= {"lanes.rows", "readings.rows"}, "these were not looked at"


#: What is seen where a file is open already; a byte more is never looked at.
LAZY = [
    (name, damage)
    for name in ("rows.arrows", "lanes.rows", "readings.rows")
    for damage in list(DAMAGES)[:9]
    if damage != "with a byte more"
]


@pytest.mark.parametrize(("name", "damage"), few(LAZY, 1, by=lambda case: case[0]))
def test_what_is_damaged_while_it_is_viewed_is_read_anew(
    folder: Path, trace: Path, tmp_path: Path, name: str, damage: str
) -> None:
    def asked(found: Overview, out: str) -> list[object]:
        span = (found.length // 3, found.length // 2)
        wide = (0, found.length)
        said: list[object] = [
            found.sure(ask)
            for ask in (
                lambda: found.heavy(span),
                lambda: found.level(span, 6, None),
                lambda: found.found("kernel 3"),
                lambda: idle_causes(found, wide),
                lambda: found.counters(span, 4),
            )
        ]
        found.sure(lambda: window(found, span, str(tmp_path / out)))
        return [*map(repr, said), (tmp_path / out).read_bytes()]

    with overviewed([str(trace)], Selection(), cached=True) as (found, _):
        expected = asked(found, "one.perfetto")
    with overviewed([str(trace)], Selection(), cached=True) as (found, _):
        assert spoil(folder, name, damage)
        assert asked(found, "two.perfetto") == expected
        assert len(whole(folder)) == len(FILES)
        assert spoil(folder, name, damage)
        assert asked(found, "three.perfetto") == expected, "once more"


def test_the_page_of_a_view_gets_its_answers_whatever_becomes_of_the_cache(
    folder: Path, trace: Path, tmp_path: Path
) -> None:
    questions = ("about", "level?from=0&to=60000000&shift=12", "heavy?from=0&to=60000000", "idle?from=0&to=90000000")
    with viewing(tmp_path, trace, "--overview", "--no-browser") as view:
        ask = [f"{view.link}{one}" for one in (*questions, "found?words=kernel", "window?from=1000&to=2000000")]
        expected = [view.get(one)[::2] for one in ask]
        assert [status for status, _ in expected] == [200] * len(ask)
        for name in ("rows.arrows", "lanes.rows", "readings.rows"):
            spoil(folder, name, "all zeros")
            assert [view.get(one)[::2] for one in ask] == expected
        shutil.rmtree(folder)
        assert [view.get(one)[::2] for one in ask] == expected, "what is open stays"


def test_an_input_that_changed_meanwhile_is_not_taken_for_what_was_kept(folder: Path, trace: Path) -> None:
    with overviewed([str(trace)], Selection(), cached=True) as (found, _):
        spoil(folder, "rows.arrows", "all zeros")
        trace.write_text("[]", "utf-8")
        with pytest.raises(InputError, match="has changed, and what was kept of it is damaged"):
            found.sure(lambda: idle_causes(found, (0, found.length)))


def test_a_trace_in_the_place_of_another_is_not_taken_for_it(folder: Path, trace: Path) -> None:
    expected = ask("view", trace)
    (kept,) = folder.iterdir()
    place = kept.name
    shutil.rmtree(kept)
    other = write_trace(trace.with_name("other.json"), 500, "other")
    with overviewed([str(other)], Selection(), cached=True):
        (kept,) = folder.iterdir()
    kept.rename(folder / place)
    assert ask("summary", trace)[0] == 0
    assert ask("view", trace) == expected


@pytest.mark.parametrize("name", ["traces.def", "0.evt", "1.evt"])
def test_other_files_of_an_input_make_it_another_one(folder: Path, tmp_path: Path, name: str) -> None:
    """What was written over at the same time and size, too."""
    pytest.importorskip("otf2")
    run = tmp_path / "run"
    shutil.copytree(SAMPLES / "otf2/two-ranks-streams-late-receives", run)
    anchor = next(run.glob("*.otf2"))
    file = next(run.rglob(name.replace("traces", anchor.stem)))
    for path in (anchor, run):
        with overviewed([str(path)], Selection(), cached=True):
            before = len(list(folder.iterdir()))
        about = file.stat()
        file.write_bytes(file.read_bytes())
        os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
        with overviewed([str(path)], Selection(), cached=True) as (_, report):
            assert report.rows_read
        assert len(list(folder.iterdir())) == before + 1
        shutil.rmtree(folder)


# No disk for it.


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_of_the_cache_stops_nothing(
    folder: Path, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, places = overview.store, list[Path]()

    def small(batches: Iterator[Any], place: Path, *rest: Any) -> None:
        places.append(place)
        if place.parent == folder:
            next(batches)
            full()
        store(batches, place, *rest)

    monkeypatch.setattr(overview, "store", small)
    with overviewed([str(trace)], Selection(), cached=True) as (found, report):
        assert found.stored.rows == 18_000
        (note,) = report.issues["not-kept"].places
        assert note == (str(folder), "can't keep the rows: OSError: [Errno 28] No space left on device")
        assert places[1].exists()
    assert len(places) == 2
    assert not list(folder.iterdir())
    assert not places[1].exists()
    run = CliRunner().invoke(cli, ["view", str(trace), "-o", str(tmp_path / "page.html")])
    assert run.exit_code == 0
    assert "couldn't be kept for the next time" in run.stderr
    monkeypatch.setattr(overview, "store", full)
    with pytest.raises(OutputError, match="can't keep the rows"), overviewed([str(trace)], Selection(), cached=True):
        pass


def test_a_disk_that_is_really_full(trace: Path, tmp_path: Path) -> None:
    """A file system of 512 kB for the cache, and one of no bytes."""
    place = tmp_path / "small"
    place.mkdir()
    for size in ("512k", "4k"):
        view = f"{sys.executable} -m ktrace view {trace} -o {tmp_path}/page-{size}.html"
        script = f"mount -t tmpfs -o size={size} none {place} && chmod 700 {place} && KTRACE_CACHE={place} exec {view}"
        done = with_own_mounts(script)
        assert done.returncode == 0, done.stderr
        assert "couldn't be kept for the next time" in done.stderr
    pages = [path.read_bytes() for path in tmp_path.glob("page-*.html")]
    assert len(pages) == 2
    assert pages[0] == pages[1]


@pytest.mark.parametrize("place", ["a file", "no right to write", "below a file", "a name too long"])
def test_a_folder_that_cannot_be_used_is_noted(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = tmp_path / "cache"
    if place == "no right to write":
        folder.mkdir()
        folder.chmod(0o500)
        monkeypatch.setattr(cache.os, "access", lambda path, mode: False)  # root may write everywhere
    elif place == "a name too long":
        folder = tmp_path / ("a" * 300)
    else:
        folder.write_text("x", "utf-8")
        folder = folder / "below" if place == "below a file" else folder
    monkeypatch.setenv("KTRACE_CACHE", str(folder))
    monkeypatch.setattr(selection, "CACHE_MIN_BYTES", 0)
    with overviewed([str(trace)], Selection(), cached=True) as (found, report):
        assert found.stored.rows == 18_000
        assert report.issues["not-kept"].places == [(str(folder), "the folder can't be written to, or others can")]
    assert CliRunner().invoke(cli, ["summary", str(trace)]).exit_code == 0
    assert CliRunner().invoke(cli, ["cache"]).exit_code == 0


def test_it_is_on_the_disk_before_it_has_its_name(folder: Path, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, Path.rename
    monkeypatch.setattr(
        "ktrace.analysis.questions.overview.checked.os.fsync",
        lambda file: (done.append(os.path.realpath(f"/proc/self/fd/{file}")), fsync(file)),
    )
    monkeypatch.setattr(Path, "rename", lambda self, target: (done.append("renamed"), rename(self, target))[1])
    with overviewed([str(trace)], Selection(), cached=True):
        pass
    assert {Path(one).name for one in done[:-1]} == FILES
    assert done[-1] == "renamed"


def test_pieces_are_what_was_written_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = os.urandom(3 * _PIECE + 1_000)
    path.write_bytes(data)
    sums = sums_of(path)
    found = Checked(path, sums)
    for start, stop in (
        (0, 0),
        (5, 9),
        (0, len(data)),
        (_PIECE - 1, _PIECE + 1),
        (_PIECE, 2 * _PIECE),
        (len(data),) * 2,
    ):
        assert bytes(found.read(start, stop)) == data[start:stop]
    for start, stop in ((-1, 5), (9, 5), (0, len(data) + 1)):
        with pytest.raises(Damaged):
            found.read(start, stop)
    overwritten(path, 2 * _PIECE + 7, bytes([data[2 * _PIECE + 7] ^ 1]))
    assert bytes(found.read(0, 2 * _PIECE)) == data[: 2 * _PIECE], "the pieces before it are whole"
    for start, stop in ((2 * _PIECE, 2 * _PIECE + 1), (0, len(data)), (3 * _PIECE - 1, len(data))):
        with pytest.raises(Damaged):
            found.read(start, stop)
    with pytest.raises(Damaged):
        found.check()
    os.truncate(path, _PIECE)
    with pytest.raises(Damaged, match="can't be read"):
        found.read(3 * _PIECE, len(data))
    with pytest.raises(Damaged):
        Checked(path, sums)
