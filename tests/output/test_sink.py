"""Output: nothing stands at the target before all is well, and nothing stays behind when it isn't."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ktrace.errors import OutputError
from ktrace.input.source import Source
from ktrace.output import Sink, writing
from ktrace.parallel.threads import WriteBehind


def test_the_output_appears_when_all_is_well(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    with writing(Sink(str(target))) as sink:
        sink.open().write(b"done")
        assert not target.exists()
    assert target.read_bytes() == b"done"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


@pytest.mark.parametrize(
    "error", [ValueError("bad"), KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")]
)
def test_nothing_stays_behind_when_it_fails(tmp_path: Path, error: BaseException) -> None:
    wanted = OutputError if isinstance(error, OSError) else type(error)
    for folder in (False, True):
        with pytest.raises(wanted), writing(Sink(str(tmp_path / "out"), folder=folder)) as sink:
            sink.open("a.parquet" if folder else None).write(b"half")
            raise error
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_explained() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(OutputError, match="No space left") as caught, writing(Sink("-")) as sink:
        sink._temporary.unlink()
        sink._temporary.symlink_to(full)
        sink.open().write(b"x" * (1 << 20))
    assert caught.value.remedy


def test_an_output_that_exists_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("mine")
    with pytest.raises(OutputError, match="already exists"):
        Sink(str(target))
    with writing(Sink(str(target), overwrite=True)) as sink:
        sink.open().write(b"new")
    assert target.read_text() == "new"


def test_somebodys_folder_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_text("cat")
    with pytest.raises(OutputError, match="other files"):
        Sink(str(tmp_path / "photos"), overwrite=True, folder=True)


def test_a_folder_of_ours_is_replaced_when_asked(tmp_path: Path) -> None:
    target = tmp_path / "run.parquet"
    for overwrite, text in ((False, b"1 ktrace.version"), (True, b"2 ktrace.version")):
        with writing(Sink(str(target), overwrite=overwrite, folder=True)) as sink:
            sink.open("events.parquet").write(text)
    assert (target / "events.parquet").read_bytes() == b"2 ktrace.version"
    with pytest.raises(OutputError, match="already exists"):
        Sink(str(target), folder=True)


def test_a_name_that_ends_in_gz_is_compressed_and_equal_every_time(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with writing(Sink(str(tmp_path / name))) as sink:
            sink.open().write(b"text" * 1000)
    stored = (tmp_path / "a.gz").read_bytes()
    assert gzip.decompress(stored) == b"text" * 1000
    assert stored[3:8] == b"\0\0\0\0\0", "no name and no time in the head"
    assert stored == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_what_is_written_compressed_in_many_parts_is_read_again(tmp_path: Path, suffix: str) -> None:
    chance = random.Random(len(suffix))
    parts = [chance.randbytes(chance.randrange(3000)) + b"x" * chance.randrange(5000) for _ in range(200)]
    path = tmp_path / f"a{suffix}"
    with writing(Sink(str(path))) as sink:
        stream = sink.open()
        for part in parts:
            stream.write(memoryview(part))
    with Source(str(path)).open() as stream:
        assert stream.read() == b"".join(parts)


def test_a_folder_that_is_not_there_is_explained(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="can't write there"), writing(Sink(str(tmp_path / "missing" / "out.txt"))):
        pytest.fail("nothing may be read for an output that can't be")


def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    with writing(Sink(str(tmp_path / "link.txt"), overwrite=True)) as sink:
        sink.open().write(b"new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match="link to itself"):
        Sink(str(tmp_path / "loop"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_written_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as thread:
        reader = thread.submit(pipe.read_bytes)
        with writing(Sink(str(pipe), overwrite=True)) as sink:
            sink.open().write(b"done")
        assert reader.result() == b"done"
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_the_longest_name_that_the_disk_takes_is_written(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 251 + ".csv")
    with writing(Sink(str(target))) as sink:
        sink.open().write(b"done")
    assert target.read_bytes() == b"done"


class _Full:
    """A disk that is full after some bytes."""

    def __init__(self, capacity: int) -> None:
        self.data = b""
        self.capacity = capacity
        self.closed = False

    def write(self, data: bytes) -> int:
        if len(self.data) + len(data) > self.capacity:
            raise OSError(28, "No space left on device")
        self.data += bytes(data)
        return len(data)

    def close(self) -> None:
        self.closed = True


def test_writes_behind_come_in_order() -> None:
    disk = _Full(1 << 30)
    stream = WriteBehind(disk)  # type: ignore[arg-type]
    parts = [bytes([number]) * (1 << 20) for number in range(12)]
    changing = bytearray(b"x" * 10)
    for part in parts:
        stream.write(part)
    stream.write(changing)
    changing[:] = b"y" * 10
    assert stream.tell() == 12 * (1 << 20) + 10
    stream.close()
    assert disk.data == b"".join(parts) + b"x" * 10
    assert disk.closed


def test_an_error_of_a_write_behind_is_raised() -> None:
    disk = _Full(6 << 20)
    stream = WriteBehind(disk)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="No space"):
        for _ in range(20):
            stream.write(b"0" * (1 << 20))
        stream.close()
    with contextlib.suppress(OSError):  # what was still waiting doesn't fit, either
        stream.close()
    assert disk.closed
    assert len(disk.data) <= 6 << 20
