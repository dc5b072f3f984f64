"""The files that are read for an input: a file, what its format reads beside it, and all files of a folder.

    files_of("run/traces.otf2")     run/traces.otf2, run/traces.def, run/traces/0.evt, ...
    files_of("run.sqlite")          run.sqlite, run.sqlite-wal

A format declares what it reads beside one of its files (`Format.beside`). Which format a file has is known only after a
look at it, so these are the files that any format would read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from ktrace.input.compression import PACKED, split_member
from ktrace.input.files import MOST_FILES, entries_of, files_in
from ktrace.input.format import all_formats

#: What tells a file and its content from others: its real path, device and number, size, and when it and what the
#: system keeps of it changed last (ns).
State = tuple[str, int, int, int, int, int]


def companions(path: Path, patterns: Iterable[str]) -> Iterator[Path]:
    """Yields what is there beside a file under names that `Format.beside` declares, and links to folders of it.

    Raises OSError, and what the check of `confined` raises.
    """
    plain = next((path.name.removesuffix(suffix) for suffix in PACKED if path.name.endswith(suffix)), path.name)
    for pattern in patterns:
        where, _, last = pattern.rpartition("/")
        words = {"name": path.name, "plain": plain, "stem": path.stem}
        folder, names = path.parent / where.format(**words), [last.format(**words)]
        if "*" in last:
            names = []
            if folder.is_symlink():
                yield folder
            with suppress(FileNotFoundError, NotADirectoryError):
                names = sorted(name for name, _, _ in entries_of(folder) if fnmatchcase(name, last))
        yield from (one for name in names if os.path.lexists(one := folder / name))


def files_of(path: str, most: int = MOST_FILES) -> list[Path]:
    """The files that may be read for a local input, itself first, of a folder at most so many.

    Raises OSError, InputError for a folder with more.
    """
    file = Path(split_member(path)[0])
    if file.is_dir():
        return [file / name for name in sorted(files_in(file, most))]
    real = Path(os.path.realpath(file))  # SQLite looks for its files there
    beside = (one for base in dict.fromkeys((file, real)) for one in companions(base, _declared()))
    return list(dict.fromkeys((file, *beside)))


@cache
def _declared() -> tuple[str, ...]:
    return tuple(dict.fromkeys(pattern for fmt in all_formats() for pattern in fmt.read_beside))


def states_of(path: str, most: int = MOST_FILES) -> list[State]:
    """The states of all files that may be read for a local input. Raises as `files_of` does."""
    return [state for file in files_of(path, most) if (state := _state(file)) is not None]


def _state(file: Path) -> State | None:
    try:
        about = file.stat()
    except FileNotFoundError:
        return None
    times = about.st_mtime_ns, about.st_ctime_ns
    return os.path.realpath(file), about.st_dev, about.st_ino, about.st_size, *times
