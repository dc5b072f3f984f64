"""Failure modes: full disks, read-only places, limits, clocks, names. All is right, or a clear error."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import SAMPLES
from world import Done, listing, run, with_own_mounts

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and mounts as Linux has them"),
    pytest.mark.forks,
]

TRACE = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
LOG = SAMPLES / "doppler/prefill-and-three-decodes.log"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True, check=False
    ).returncode:
        pytest.skip("no right to mount a small disk here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fails(done: Done, *words: str) -> None:
    """Exit code 1, and an error that says these words."""
    assert done.code == 1, (done.code, done.err)
    assert "Traceback" not in done.err
    assert "bug in ktrace" not in done.err
    assert "not caught" not in done.err
    for word in words:
        assert word in done.err


@pytest.mark.parametrize("name", ["o.perfetto", "o.jsonl", "o.parquet/", "o.csv.gz", "o.tar"])
def test_a_full_disk_of_the_output(small_disk: Path, name: str) -> None:
    (small_disk / "filled").write_bytes(bytes(60 << 10))
    command = "merge" if name == "o.tar" else "convert"
    fails(run([command, TRACE, "-o", f"{small_disk}/{name}"]), "No space left on device", "free some space")
    assert listing(small_disk) == ["filled"]


def test_a_full_disk_of_the_temporary_folder(small_disk: Path, tmp_path: Path) -> None:
    def with_it() -> None:
        import tempfile

        tempfile.tempdir = str(small_disk)
        os.environ["TMPDIR"] = str(small_disk)

    text = b"\n" * (100 << 10) + TRACE.read_bytes()
    fails(run(["convert", "-", "-o", tmp_path / "o.csv"], before=with_it, stdin=text), "-: ", "TMPDIR")
    fails(
        run(
            ["convert", TRACE, "-o", "-", "--to", "jsonl", "--table", "events"],
            before=lambda: (with_it(), _fill(small_disk)),
        ),
        "No space left",
    )
    assert listing(tmp_path) == ["disk", "disk/filled"]


def _fill(disk: Path) -> None:
    (disk / "filled").write_bytes(bytes(62 << 10))


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """Without a mount: a limit for the size of a file is an error of the disk, too."""

    def limited() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    for name in ("o.jsonl", "o.parquet/", "o.perfetto"):
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        fails(run(["convert", TRACE, "-o", f"{out}/{name}"], before=limited), "File too large")
        assert not listing(out)


@pytest.mark.parametrize("name", ["o.perfetto", "o.parquet/", "o.tar", "data"])
def test_read_only_places(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir(0o555)
    mounted = os.getuid() == 0  # who may write anywhere, but for such a disk
    command = ["mount", "-t", "tmpfs", "-o", "ro,size=64k", "none", str(out)]
    if mounted and subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a read-only disk here")
    try:
        verb = {"o.tar": "merge", "data": "batch"}.get(name, "convert")
        fails(run([verb, TRACE, "-o", f"{out}/{name}"]), "can't write there", "choose another folder")
        assert not listing(out)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", out], check=True)


def test_two_runs_into_one_output(tmp_path: Path) -> None:
    """Of runs at the same moment one writes the output, and the others say that it is there."""
    out = tmp_path / "out"
    out.mkdir()
    for name, extra in (("o.jsonl", []), ("o.parquet/", []), ("p.jsonl", ["--split-by", "size=30kB"])):
        command = [sys.executable, "-m", "ktrace", "convert", str(TRACE), "-o", f"{out}/{name}", *extra]
        with ThreadPoolExecutor(2) as threads:
            runs = [threads.submit(subprocess.run, command, capture_output=True, text=True) for _ in range(2)]
        ended = sorted((one.result().returncode, one.result().stderr) for one in runs)
        assert [code for code, _ in ended] == [0, 1], ended
        assert "exists" in ended[1][1]
        first = f"{out}/{'p.000.jsonl' if extra else name}"
        assert run(["validate", first]).code == 0
    assert not [name for name in listing(out) if name.startswith(".")]


def test_without_shared_memory(tmp_path: Path) -> None:
    shutil.copy(TRACE, tmp_path / "rank0.json")
    shutil.copy(TRACE, tmp_path / "rank1.json")
    batch = f"{sys.executable} -m ktrace batch {tmp_path}/rank*.json -o {tmp_path}/out --jobs 2"
    script = f"mount -t tmpfs -o ro,size=4k none /dev/shm && exec {batch}"
    done = with_own_mounts(script)
    assert done.returncode == 0, done.stderr
    assert "2 done" in done.stderr


def test_with_64_open_files(tmp_path: Path) -> None:
    def limited() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    for number in range(70):
        shutil.copy(LOG, tmp_path / f"in{number}.log")
    many = sorted(tmp_path.glob("in*.log"))
    for arguments in (
        ["convert", TRACE, "-o", tmp_path / "o.perfetto"],
        ["convert", *many, "-o", tmp_path / "all.jsonl"],
        ["convert", TRACE, "-o", tmp_path / "parts.jsonl", "--split-by", "size=3kB"],
        ["merge", *many, "-o", tmp_path / "o.tar"],
    ):
        done = run(arguments, before=limited)
        assert done.code == 0, (arguments[0], done.err[-500:])
    assert len(list(tmp_path.glob("parts.*.jsonl"))) > 10


def test_with_512_mb_of_address_space(tmp_path: Path) -> None:
    import resource

    def limited(size: int) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "ktrace", "convert", str(TRACE), "-o", str(tmp_path / f"{size}.perfetto")],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size << 20, size << 20)),
        )
        return done.returncode, done.stderr

    assert limited(512)[0] == 0
    code, said = limited(180)
    assert code != 0
    assert "bug in ktrace" not in said
    assert listing(tmp_path) == ["512.perfetto"]


def test_a_clock_that_jumps(tmp_path: Path) -> None:
    def jumping() -> None:
        jumps = itertools.cycle([1e9, -1e9, 0.0, 4e9])
        now, steady = time.time, time.monotonic
        time.time = lambda: now() + next(jumps)
        time.monotonic = lambda: steady() + abs(next(jumps))
        time.time_ns = lambda: int(time.time() * 1e9)

    for name in ("o.perfetto", "o.jsonl", "o.parquet"):
        (tmp_path / name).mkdir()
        for folder, before in (("right", None), ("jumping", jumping)):
            done = run(
                ["convert", TRACE, "-o", tmp_path / name / folder, "--to", name.partition(".")[2]], before=before
            )
            assert done.code == 0, done.err
        assert (tmp_path / name / "right").read_bytes() == (tmp_path / name / "jumping").read_bytes()
    os.utime(shutil.copy(LOG, tmp_path / "future.log"), (4e9, 4e9))
    os.utime(shutil.copy(LOG, tmp_path / "past.log"), (-4e9, -4e9))
    for _ in range(2):
        done = run(["batch", tmp_path / "*.log", "-o", tmp_path / "data", "--jobs", "1"])
        assert done.code == 0, done.err
    assert "2 already there" in done.err


NAMES = [
    b"caf\xe9",
    b"\xff\xfe",
    b"new\nline",
    b"tab\t",
    b"esc\x1b[2J",
    b"\xed\xa0\x80",
    b" blank ",
    b"--option",
    b"a'b\"c",
    b"*[x]?",
]


def test_names_of_any_bytes_without_a_language(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHON"))}
    environment |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    (tmp_path / "in").mkdir()
    try:
        for name in NAMES:
            shutil.copy(LOG, tmp_path / "in" / os.fsdecode(name + b".log"))
    except OSError:
        pytest.skip("this disk takes only text as names")
    inputs = [b"in/" + name + b".log" for name in NAMES]
    out = b"out \xe9\n.jsonl"
    for arguments in (
        [b"convert", *inputs, b"-o", out],
        [b"info", inputs[0]],
        [b"batch", b"in/*.log", b"-o", b"data\xff", b"--jobs", b"1"],
        [b"batch", b"in/*.log", b"-o", b"data\xff", b"--jobs", b"1"],
        [b"convert", b"data\xff", b"-o", b"all.jsonl"],
        [b"validate", out],
    ):
        command = [os.fsencode(sys.executable), b"-m", b"ktrace", *arguments]
        done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=environment, check=False)
        assert done.returncode == 0, (arguments[0], done.stderr.decode("ascii", "replace"))
        assert b"\x1b" not in done.stdout + done.stderr
    assert (tmp_path / os.fsdecode(out)).stat().st_size > 100_000
