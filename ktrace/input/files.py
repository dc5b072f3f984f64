"""Opens local files, those that the user named and those that are read along with them.

Nobody named what lies beside an input or in a folder: it may be a pipe that nobody writes to, or a link to anywhere. So
a file is opened without waiting for anybody, and what was opened must be a regular file. While the reading is
`confined`, its place must be allowed, too: that of the open file, whatever its name leads to before and after.

    with confined(require_allowed):         ktrace mcp: raises for a place outside of the allowed folders
        open_file("/data/run.json")
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ktrace.errors import InputError

#: Files of a folder, or entries that a pattern is compared with: what has more isn't searched for traces.
MOST_FILES = 100_000

#: Open files by their descriptors, on Linux.
_DESCRIPTORS = Path("/proc/self/fd")

#: What a file is that isn't a regular one.
_OTHERS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

#: Flags of `open`, where the system has them: never wait, take no terminal, leave nothing to other programs.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_RDONLY", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))

#: Raises whatever it likes for an open file that may not be read: its real path, and the name that led there.
Check = Callable[[str, str], None]

_check: list[Check] = []


class NotRegular(InputError):
    """The path is neither a regular file nor a folder; `is_pipe` if it is a named pipe."""

    def __init__(self, path: str, mode: int) -> None:
        kind = stat.S_IFMT(mode)
        remedy = "'-' is standard input" if kind == stat.S_IFCHR else "copy what it gives to a file, or remove it"
        super().__init__(f"is {_OTHERS.get(kind, 'no regular file')}", path=path, expected="a file", remedy=remedy)
        self.is_pipe = kind == stat.S_IFIFO


@contextmanager
def confined(check: Check) -> Iterator[None]:
    """Within this block, in all threads, whatever is opened here is handed to `check` before it is read."""
    _check.append(check)
    try:
        yield
    finally:
        _check.remove(check)


def is_confined() -> bool:
    """Whether not every file may be read: then libraries may open no names, which may lead elsewhere by then."""
    return bool(_check)


def open_file(path: str | Path, *, ours: bool = False) -> BinaryIO:
    """Opens a regular file for reading. `ours`: a temporary file of this process, which is in no allowed folder.

    Raises OSError, NotRegular, IsADirectoryError, and what the check of `confined` raises.
    """

    def opener(name: str, _: int) -> int:
        descriptor = os.open(name, _FLAGS)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(name)
            if not stat.S_ISREG(mode):
                raise NotRegular(name, mode)
            if not ours:
                _require_allowed(descriptor, name)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    if not ours:
        _require_allowed_name(path)
    mode = os.stat(path).st_mode  # noqa: PTH116 (pathlib reads "" as the current folder)
    if stat.S_IFMT(mode) in _OTHERS:  # to open a device may do something
        raise NotRegular(str(path), mode)
    return open(path, "rb", opener=opener)


def name_of_open(file: BinaryIO) -> Path | None:
    """A name that leads to an open file and to nothing else while it is open, for libraries; None without such names.

    It opens the file anew, at its start. Linux has such names.
    """
    name = _DESCRIPTORS / str(file.fileno())
    return name if sys.platform == "linux" and name.exists() else None


def is_name_of_open(path: Path) -> bool:
    """Whether a path is one of `name_of_open`."""
    return path.parent == _DESCRIPTORS


def files_in(folder: str | Path, most: int = MOST_FILES) -> Iterator[str]:
    """Yields the files in a folder and below it, relative to it, in no order.

    Hidden ones and hidden folders are left out, links to folders aren't followed. Raises OSError, InputError where
    there are more than `most`, and what the check of `confined` raises.
    """
    count = 0
    for where, folders, names in _walked(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        shown = [name for name in names if not name.startswith(".")]
        count += len(shown)
        if count > most:
            raise InputError(
                f"contains more than {most:,} files",
                path=str(folder),
                expected="a folder of traces",
                remedy="name a folder inside it",
            )
        yield from (os.path.join(where, name) if where != os.curdir else name for name in shown)  # noqa: PTH118


def entries_of(folder: str | Path) -> list[tuple[str, bool, bool]]:
    """Returns the names in a folder, in no order, and of each whether it is a link, wherever that leads, or a folder.

    Raises OSError and what the check of `confined` raises.
    """
    _require_allowed_name(folder)
    if os.scandir not in os.supports_fd:  # Windows
        return _entries(folder)
    opened = os.open(folder, _FLAGS | os.O_DIRECTORY)
    try:
        _require_allowed(opened, str(folder))
        return _entries(opened)
    finally:
        os.close(opened)


def _entries(folder: str | Path | int) -> list[tuple[str, bool, bool]]:
    with os.scandir(folder) as entries:
        return [(one.name, one.is_symlink(), one.is_dir(follow_symlinks=False)) for one in entries]


def _walked(folder: str | Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields each folder from this one down, relative to it, with the names of its folders and of its files."""

    def refuse(error: OSError) -> None:
        raise error

    _require_allowed_name(folder)
    if not hasattr(os, "fwalk"):  # Windows
        for place, folders, names in os.walk(folder, onerror=refuse):
            yield os.path.relpath(place, folder), folders, names
        return
    opened = os.open(folder, _FLAGS | os.O_DIRECTORY)
    try:
        _require_allowed(opened, str(folder))
        for place, folders, names, _ in os.fwalk(os.curdir, onerror=refuse, dir_fd=opened):
            yield os.path.normpath(place), folders, names
    finally:
        os.close(opened)


def _require_allowed_name(path: str | Path) -> None:
    """Checks where a name leads before it is used: what isn't allowed is told the same whether it is there or not."""
    if _check:
        real = os.path.realpath(path)
        for check in [*_check]:
            check(real, str(path))


def _require_allowed(descriptor: int, path: str) -> None:
    if _check:
        place = _place_of(descriptor, path)
        for check in [*_check]:
            check(place, path)


def _place_of(descriptor: int, path: str) -> str:
    """The path of an open file as the system knows it, else its real path now, if that is the same file."""
    try:
        return str((_DESCRIPTORS / str(descriptor)).readlink())
    except OSError:
        pass
    real = os.path.realpath(path)
    if not os.path.samestat(os.lstat(real), os.fstat(descriptor)):
        raise InputError("was replaced while it was opened", path=path, remedy="try again")
    return real
