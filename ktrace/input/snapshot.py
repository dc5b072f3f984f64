"""Inputs that are read at any place, and may change meanwhile: never by a mapping of the file.

Where a mapped file becomes shorter, touching what is gone kills the process with SIGBUS: no error, no tidying up.
`FileBytes` reads by `pread`, and `snapshot_bytes` maps a copy; both end in an error that says what happened.
"""

from __future__ import annotations

import mmap
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, overload

from ktrace.errors import DamagedInput, InputError
from ktrace.input.limits import copied
from ktrace.input.source import Source
from ktrace.input.sqlite_file import has_changes_beside

#: Files of at most so many bytes are read into memory, larger ones copied to the temporary folder and mapped there.
IN_MEMORY = 64 << 20


class FileBytes:
    """The bytes of an open file, as many as it has at first: `data[5]`, `data[5:9]`, `len(data)`.

    Threads and forked processes may share it. Raises DamagedInput where the file has become shorter.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file = file
        self._path = path
        self._size = os.fstat(file.fileno()).st_size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> bytes: ...

    def __getitem__(self, place: int | slice) -> int | bytes:
        if isinstance(place, int):
            return self[place : place + 1][0]
        start, stop, _ = place.indices(self._size)
        data = self._read(max(stop - start, 0), start)
        if len(data) < stop - start:
            raise changed(self._path, f"byte {start + len(data)}")
        return data

    def read_into(self, target: memoryview, start: int) -> None:
        """Fills a buffer with the bytes from a place on. Raises DamagedInput if the file ends before."""
        done = 0
        if hasattr(os, "preadv"):
            while done < len(target) and (count := os.preadv(self._file.fileno(), [target[done:]], start + done)):
                done += count
        else:
            data = self[start : start + len(target)]
            target[: len(data)] = data
            done = len(data)
        if done < len(target):
            raise changed(self._path, f"byte {start + done}")

    def _read(self, size: int, start: int) -> bytes:
        if not hasattr(os, "pread"):  # Windows, where no process is forked
            self._file.seek(start)
            return self._file.read(size)
        file = self._file.fileno()
        data = os.pread(file, size, start)
        while data and len(data) < size and (more := os.pread(file, size - len(data), start + len(data))):
            data += more  # one call reads at most 2 GiB
        return data


@contextmanager
def snapshot_bytes(source: Source) -> Iterator[bytes | mmap.mmap]:
    """Yields all bytes of an input, as they were when they were read, at a cost in memory of at most `IN_MEMORY`.

    Raises InputError if the disk is too full for a copy.
    """
    with source.local_path() as path, path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= IN_MEMORY:
            yield file.read()
            return
        if source.is_copy(path):
            yield _mapped(file)
            return
        with tempfile.TemporaryFile(prefix="ktrace.") as copy:
            copied(file, copy, tempfile.gettempdir(), source.path)
            copy.flush()
            if copy.tell() < size:
                raise changed(source.path, f"byte {copy.tell()}")
            yield _mapped(copy)


def _mapped(file: BinaryIO) -> mmap.mmap:
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def changed(path: str, where: str | None = None) -> DamagedInput:
    """Returns the error for a file that changed while it was read."""
    return DamagedInput(
        "the file changed while it was read",
        path=path,
        where=where,
        expected="a file that no program shortens or replaces",
        remedy="wait until it is complete, or copy it and read the copy",
    )


@contextmanager
def unchanged(path: str) -> Iterator[None]:
    """Within this block a local file may not become shorter, nor be written over. Raises DamagedInput if it was.

    A file that grows, as logs do, is read up to the end that it has at that time. A database with a `-wal` is read from
    a copy.
    """
    before = None if has_changes_beside(Path(path)) else _status(path)
    try:
        yield
    except (InputError, OSError):
        _require_same(path, before)
        raise
    _require_same(path, before)


def _status(path: str) -> os.stat_result | None:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _require_same(path: str, before: os.stat_result | None) -> None:
    now = _status(path)
    if before is None or now is None or before.st_ino != now.st_ino or now.st_size > before.st_size:
        return
    if now.st_size < before.st_size or now.st_mtime_ns != before.st_mtime_ns:
        raise changed(path)
