"""Files that nobody named: what isn't a regular file is never waited for, and nothing outside is read for a client."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import SAMPLES
from nightly import few

from ktrace.analysis.answers.mcp.access import Access, Refused
from ktrace.analysis.questions.overview import cache
from ktrace.errors import InputError, KtraceError
from ktrace.input import files
from ktrace.input.companions import files_of, states_of
from ktrace.input.detection import detect_all
from ktrace.input.files import confined, files_in, open_file
from ktrace.input.format import Score
from ktrace.input.source import Source
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no named pipes in folders")

#: Folders that are read as one input, and each file in them.
FOLDERS = sorted(
    folder
    for folder in SAMPLES.glob("*/*")
    if folder.is_dir() and any(one.score > Score.NEAR for one in detect_all(Source(str(folder)).sample()))
)
INSIDE = [(folder, name) for folder in FOLDERS for name in sorted(files_in(folder))]

#: Files that are read alone, some of each format.
ALONE = [
    path
    for folder in sorted(SAMPLES.iterdir())
    if folder.name != "real" and folder.is_dir()
    for path in sorted(one for one in folder.iterdir() if one.is_file() and one.suffix != ".toml")
]


def lay_pipe(path: Path) -> None:
    os.mkfifo(path)


def lay_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def lay_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


#: What lies where a file should -> how it is called.
ODD: dict[str, Callable[[Path], None]] = {"a named pipe": lay_pipe, "a socket": lay_socket, "a device": lay_device}


def read(path: Path) -> tuple[list[tuple[str, int]], str]:
    """The rows by record, and all that is said, of a reading that ends within some seconds."""
    report = Report()

    def run() -> tuple[list[tuple[str, int]], str]:
        try:
            rows = [(batch.record, len(batch)) for batch in read_batches([str(path)], report)]
        except InputError as error:
            return [], str(error)
        return rows, " ".join(f"{where} {what}" for issue in report.issues.values() for where, what in issue.places)

    threads = ThreadPoolExecutor(1)
    try:
        return threads.submit(run).result(timeout=30)
    finally:
        threads.shutdown(wait=False)


@pytest.mark.parametrize("kind", few(ODD, 1))
@pytest.mark.parametrize(("folder", "name"), few(INSIDE, 2, by=lambda case: case[0]))
def test_what_is_no_regular_file_is_never_waited_for(tmp_path: Path, folder: Path, name: str, kind: str) -> None:
    """In each folder that is one input: it is named, or it isn't read at all and nothing is lost with it."""
    if folder.parent.name == "otf2":
        pytest.importorskip("otf2")
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    before, _ = read(copy)
    (copy / name).unlink()
    ODD[kind](copy / name)
    rows, said = read(copy)
    if f"is {kind}" in said:
        assert name in said
    else:
        assert rows == before, said


def test_parts_of_these_folders_are_what_is_named(tmp_path: Path) -> None:
    """The files of the issue: each is told by its name."""
    for sample, name in (
        ("hpctoolkit/a-thread-and-two-gpu-streams", "trace.db"),
        ("hpctoolkit/a-thread-and-two-gpu-streams", "meta.db"),
        ("projections/version-5-without-cpu-times", "*.log*"),
        ("projections/version-5-without-cpu-times", "*.sts"),
        ("parquet/folder", "events.parquet"),
    ):
        copy = tmp_path / f"{Path(sample).name} {name.strip('*.')}"
        shutil.copytree(SAMPLES / sample, copy)
        file = next(copy.rglob(name))
        file.unlink()
        os.mkfifo(file)
        said = read(copy)[1]
        assert file.name in said
        assert "is a named pipe" in said


def test_a_pipe_beside_an_otf2_anchor_is_named(tmp_path: Path) -> None:
    pytest.importorskip("otf2")
    folder = SAMPLES / "otf2/two-ranks-streams-late-receives"
    for number, pattern in enumerate(("*.def", "*/*.evt", "*/*.def")):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        file = next(copy.glob(pattern))
        file.unlink()
        os.mkfifo(file)
        for path in (copy, next(copy.glob("*.otf2"))):
            rows, said = read(path)
            assert not rows
            assert f"{file}: is a named pipe" in said


def test_pipes_and_links_to_devices_beside_a_file_are_no_part_of_it(tmp_path: Path) -> None:
    """A mapping, changes of a database."""
    table = tmp_path / "run.csv"
    table.write_text("what,when,took\na,1,2\n", "utf-8")
    os.mkfifo(f"{table}.ktrace.toml")
    assert "unrecognised format" in read(table)[1]
    database = tmp_path / "run.sqlite"
    shutil.copy(next((SAMPLES / "nsys").glob("*.sqlite")), database)
    before = read(database)
    os.mkfifo(f"{database}-wal")
    os.mkfifo(f"{database}-journal")
    assert read(database) == before


def test_a_pipe_that_was_named_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "run.log"
    os.mkfifo(pipe)
    log = (SAMPLES / "doppler/prefill-and-three-decodes.log").read_bytes()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(pipe.write_bytes, log)
        rows, _ = read(pipe)
    assert rows


def test_a_pipe_that_a_pattern_finds_is_no_input(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "doppler/prefill-and-three-decodes.log", tmp_path / "run.log")
    os.mkfifo(tmp_path / "pipe.log")
    rows, said = read(tmp_path / "*.log")
    assert rows
    assert "pipe.log isn't a regular file" in said
    (tmp_path / "run.log").unlink()
    assert "pipe.log" in read(tmp_path / "*.log")[1]


@contextmanager
def linked_out(tmp_path: Path, path: Path) -> Iterator[Access]:
    """Moves a file out of the allowed folder, where a link to it stays."""
    outside = tmp_path / "secret"
    outside.mkdir(exist_ok=True)
    shutil.move(path, outside / path.name)
    path.symlink_to(outside / path.name)
    yield Access([tmp_path / "data"])


def rows_in_force(access: Access, path: Path) -> list[tuple[str, int]]:
    report = Report()
    with access.in_force():
        return [(batch.record, len(batch)) for batch in read_batches([str(path)], report)]


@pytest.mark.parametrize("path", few(ALONE, 1, by=lambda path: path.parent.name))
def test_no_format_opens_a_file_whose_link_leads_out(tmp_path: Path, path: Path) -> None:
    """Whatever was asked for before: what is opened counts, and it is read where it is inside."""
    data = tmp_path / "data"
    data.mkdir()
    own = data / path.name
    shutil.copy(path, own)
    for beside in path.parent.glob(f"{path.name}.*"):
        shutil.copy(beside, data)
    try:
        expected = read(own)[0]
        assert rows_in_force(Access([data]), own) == expected
    except KtraceError as error:
        assert not isinstance(error, Refused)
        expected = []
    with linked_out(tmp_path, own) as access, pytest.raises(Refused, match="isn't in an allowed folder"):
        rows_in_force(access, own)


def test_without_names_of_open_files_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on systems without /proc: libraries get copies, and a file is where its name leads, if that is this file."""
    monkeypatch.setattr(files, "_DESCRIPTORS", tmp_path / "none")
    for sample in ("nsys/*.sqlite", "parquet/*.parquet", "kineto/one-step*"):
        path = next(SAMPLES.glob(sample))
        own = tmp_path / "data" / path.name
        own.parent.mkdir(exist_ok=True)
        shutil.copy(path, own)
        assert rows_in_force(Access([own.parent]), own) == read(own)[0]
        with linked_out(tmp_path, own) as access, pytest.raises(Refused):
            rows_in_force(access, own)
    own.unlink()
    own.write_text("inside", "utf-8")
    real = os.path.realpath(own)

    def replaced(name: str) -> str:
        own.rename(tmp_path / "moved")
        own.write_text("another one", "utf-8")
        return real

    monkeypatch.setattr(files.os.path, "realpath", replaced)
    with Access([own.parent]).in_force(), pytest.raises(InputError, match="was replaced while it was opened"):
        open_file(own)


@pytest.mark.parametrize(("folder", "name"), few(INSIDE, 2, by=lambda case: case[0]))
def test_no_format_opens_a_file_of_a_folder_that_leads_out(tmp_path: Path, folder: Path, name: str) -> None:
    if folder.parent.name == "otf2":
        pytest.importorskip("otf2")
    copy = tmp_path / "data" / folder.name
    shutil.copytree(folder, copy)
    expected = read(copy)[0]
    assert rows_in_force(Access([tmp_path / "data"]), copy) == expected
    with linked_out(tmp_path, copy / name) as access:
        with pytest.raises(Refused):
            access.inputs(folder.name)
        (tmp_path / "secret" / Path(name).name).write_bytes(b"other")
        try:  # by then it was checked: only what opens it can know
            assert rows_in_force(access, copy) == expected, "it isn't read at all"
        except Refused as error:
            assert Path(name).name in str(error)


def test_a_folder_that_leads_out_is_not_listed(tmp_path: Path) -> None:
    folder = tmp_path / "secret/parquet"
    shutil.copytree(SAMPLES / "parquet/folder", folder)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/parquet").symlink_to(folder)
    with pytest.raises(Refused):
        rows_in_force(Access([tmp_path / "data"]), tmp_path / "data/parquet")


@pytest.mark.parametrize("suffix", [".ktrace.toml", "-wal", "-journal"])
def test_what_is_read_beside_a_file_leads_nowhere_else(tmp_path: Path, suffix: str) -> None:
    data, outside = tmp_path / "data", tmp_path / "secret"
    data.mkdir()
    outside.mkdir()
    if suffix == ".ktrace.toml":
        own = data / "run.csv"
        own.write_text("what,when,took\na,1,2\n", "utf-8")
    else:
        own = data / "run.sqlite"
        shutil.copy(next((SAMPLES / "nsys").glob("*.sqlite")), own)
    (outside / "other").write_bytes(b'name = "what"\n' * 100)
    Path(f"{own}{suffix}").symlink_to(outside / "other")
    with pytest.raises(Refused):
        Access([data]).inputs(own.name)
    with pytest.raises(Refused):
        rows_in_force(Access([data]), own)


def test_what_is_checked_is_the_open_file_and_not_its_name(tmp_path: Path) -> None:
    """Between the look at a name and its use the name leads elsewhere."""
    inside, outside = tmp_path / "data/run.json", tmp_path / "secret/run.json"
    for path in (inside, outside):
        path.parent.mkdir()
        path.write_text(path.parent.name, "utf-8")
    seen: list[str] = []

    def check(place: str, name: str) -> None:
        seen.append(Path(place).parent.name)
        if seen[-1] != "data":
            raise Refused("leads out", path=name)
        if len(seen) == 3:
            inside.unlink()
            inside.symlink_to(outside)

    with confined(check):
        with open_file(inside) as file:
            assert file.read() == b"data"
        with pytest.raises(Refused):
            open_file(inside)
        assert seen == ["data", "data", "data", "secret"], "its name, and what was opened"
        with pytest.raises(Refused):
            open_file(inside.parent / "../secret/run.json")
    assert open_file(inside).read() == b"secret", "without it nothing is checked"


def test_the_files_of_an_input_are_those_that_its_format_declares(tmp_path: Path) -> None:
    for name in (
        *("traces.otf2", "traces.def", "traces/0.evt", "traces/0.def", "traces.txt", "other.def"),
        *("run.csv.gz", "run.csv.gz.ktrace.toml", "run.csv.ktrace.toml", "run.csv"),
        *("run.sqlite", "run.sqlite-wal", "run.sqlite-journal", "run.nsys-rep"),
        *("folder/a", "folder/b/c", "folder/.hidden", "folder/.git/d"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, "utf-8")
    (tmp_path / "link.sqlite").symlink_to("run.sqlite")

    def found(name: str) -> list[str]:
        return [path.relative_to(tmp_path).as_posix() for path in files_of(str(tmp_path / name))]

    assert found("traces.otf2") == ["traces.otf2", "traces.def", "traces/0.def", "traces/0.evt"]
    assert set(found("run.csv.gz")) == {"run.csv.gz", "run.csv.gz.ktrace.toml", "run.csv.ktrace.toml"}
    assert set(found("run.sqlite")) == {"run.sqlite", "run.sqlite-wal", "run.sqlite-journal"}
    assert set(found("link.sqlite")) == {"link.sqlite", "run.sqlite", "run.sqlite-wal", "run.sqlite-journal"}
    assert set(found("run.nsys-rep")) == {"run.nsys-rep", "run.sqlite"}
    assert found("folder") == ["folder/a", "folder/b/c"]
    assert found("run.csv.gz!member")[0] == "run.csv.gz!member"


@pytest.mark.parametrize("path", few([*FOLDERS, *ALONE], 1, by=lambda path: path.parent.name))
def test_no_format_opens_what_it_does_not_declare(tmp_path: Path, path: Path) -> None:
    """Whatever Python opens below the folder of an input is one of its files."""
    own = tmp_path / "data" / path.name
    if path.is_dir():
        shutil.copytree(path, own)
    else:
        own.parent.mkdir()
        shutil.copy(path, own)
    for name in ("other.json", f"{own.stem}.json", f"{own.name}-shm"):
        (own.parent / name).write_text("{}", "utf-8")
    opened = set[Path]()
    _OPENED.append(opened)
    try:
        read(own)
    finally:
        _OPENED.remove(opened)
    below = {one for one in opened if own.parent in one.parents and not one.is_dir()}
    assert below <= set(files_of(str(own)))


_OPENED: list[set[Path]] = []


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _OPENED and isinstance(arguments[0], (str, bytes)):
        _OPENED[-1].add(Path(os.fsdecode(arguments[0])))


sys.addaudithook(_note)


def test_the_state_of_an_input_is_that_of_all_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Size and time of change that were put back, another file in its place: inode and ctime tell."""
    monkeypatch.setenv("KTRACE_CACHE", str(tmp_path / "cache"))
    anchor, events = tmp_path / "traces.otf2", tmp_path / "traces/0.evt"
    events.parent.mkdir()
    for path in (anchor, events):
        path.write_bytes(b"one")
    keys = [cache.key_of([str(anchor)], None, ())]
    for path in (anchor, events):
        about = path.stat()
        path.write_bytes(b"two")
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (about.st_size, about.st_mtime_ns)
        keys.append(cache.key_of([str(anchor)], None, ()))
        other = path.with_name("other")
        other.write_bytes(b"two")
        os.utime(other, ns=(about.st_atime_ns, about.st_mtime_ns))
        other.replace(path)
        keys.append(cache.key_of([str(anchor)], None, ()))
    events.with_name("1.evt").write_bytes(b"new")
    keys.append(cache.key_of([str(anchor)], None, ()))
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert states_of(str(anchor)) == states_of(str(anchor))
