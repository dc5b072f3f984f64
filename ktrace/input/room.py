"""Copies of inputs in the temporary folder, which they never fill: other programs need it, too."""

from __future__ import annotations

import shutil
from typing import IO

from ktrace.errors import InputError
from ktrace.input.limits import sized
from ktrace.scratch import Held, new_folder

#: Bytes that stay free: a twentieth of the disk, at most 256 MiB.
_LEFT_FREE, _PART_LEFT_FREE = 256 << 20, 20

#: Bytes that are copied at once, and those after which the free space is looked at again.
_BLOCK = 1 << 20
_BETWEEN = 16 << 20


def require_room(size: int, folder: str, path: str) -> None:
    """Raises InputError if a copy of so many bytes of the input would fill the disk of the folder."""
    total, _, free = shutil.disk_usage(folder)
    if free - size < min(_LEFT_FREE, total // _PART_LEFT_FREE):
        raise InputError(
            f"has no room for its copy: {folder} has {sized(free)} left",
            path=path,
            expected="room for the decompressed input in the folder of temporary files",
            remedy="set TMPDIR to a folder on a larger disk, or decompress it yourself",
        )


def copied(stream: IO[bytes], target: IO[bytes], folder: str, path: str) -> None:
    """Copies a stream to a file in the folder of temporary files. Raises InputError before the disk is full."""
    done = 0
    while block := stream.read(_BLOCK):
        if done % _BETWEEN < len(block):
            require_room(_BETWEEN, folder, path)
        target.write(block)
        done += len(block)


def temporary_copy(stream: IO[bytes], name: str, path: str) -> Held:
    """Copies a stream to a file of this name in a new temporary folder; returns the folder, which the caller removes.

    Raises as `copied` and the stream do; then no folder stays.
    """
    held = new_folder()
    try:
        with (held.path / name).open("wb") as target:
            copied(stream, target, str(held.path), path)
    except BaseException:
        held.remove()
        raise
    return held
