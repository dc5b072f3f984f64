"""Files that are read in pieces, each of which is compared with its checksum before it is used.

What the cache keeps may be damaged by then: by a disk, by another program, by a machine that lost power. Checksums are
those of what was written, CRC-32 of 256 KiB each (12 GB/s).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ktrace.errors import InputError
from ktrace.input.files import open_file
from ktrace.input.snapshot import FileBytes

_PIECE = 1 << 18

#: The size of a file, and the checksum of each piece.
Sums = tuple[int, Sequence[int]]


class Damaged(ValueError):
    """A stored file differs from what was written: its checksum or version is another one."""


def checksum(data: bytes | memoryview) -> int:
    """The checksum of a piece."""
    from isal import isal_zlib

    return int(isal_zlib.crc32(data))


def sums_of(path: Path) -> Sums:
    """The size and checksums of a file. Raises OSError."""
    sums = []
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            sums.append(checksum(piece))
        return file.tell(), sums


def synced(path: Path) -> None:
    """Has the system write a file to the disk. Raises OSError."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


class Checked:
    """A file with these sums, open as long as this is. Raises Damaged if it has another size, OSError if it is gone."""

    def __init__(self, path: Path, sums: Sums) -> None:
        self._path, (self.size, self._sums) = path, sums
        self._file = open_file(path, ours=True)
        self._data = FileBytes(self._file, str(path))
        if (len(self._data), len(self._sums)) != (self.size, -(-self.size // _PIECE)):
            raise Damaged(f"{path} has {len(self._data):,} bytes")

    def read(self, start: int = 0, stop: int | None = None) -> memoryview:
        """The bytes from one place to another. Raises Damaged."""
        stop = self.size if stop is None else stop
        if not 0 <= start <= stop <= self.size:
            raise Damaged(f"{self._path} has no bytes {start:,} to {stop:,}")
        first, last = start // _PIECE, -(-stop // _PIECE)
        try:
            data = memoryview(self._data[first * _PIECE : min(last * _PIECE, self.size)])
        except (OSError, InputError) as error:
            raise Damaged(f"{self._path} can't be read") from error
        for number in range(first, last):
            place = (number - first) * _PIECE
            if checksum(data[place : place + _PIECE]) != self._sums[number]:
                raise Damaged(f"{self._path} is damaged at byte {number * _PIECE:,}")
        return data[start - first * _PIECE : stop - first * _PIECE]

    def check(self) -> None:
        """Reads all of it. Raises Damaged."""
        for start in range(0, self.size, _CHECKED):
            self.read(start, min(start + _CHECKED, self.size))


#: Bytes that are checked at once.
_CHECKED = 16 * _PIECE
