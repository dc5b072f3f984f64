"""The cache of traces that were read before: a folder for each, named after what it was made of.

    ~/.cache/ktrace/3f6c0d…/     index.json  rows.arrows  lanes.rows  ...

The name is a hash of all files that are read for the inputs (path, size, inode, times of change), of what was selected,
and of the version and code of ktrace. Only this user can read the folders. One that another process uses may be
removed: it stays open there. What a killed process leaves is removed by a later one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from ktrace.analysis.questions.overview import FILES, VERSION, Stored
from ktrace.analysis.questions.overview.checked import Damaged, synced
from ktrace.errors import InputError
from ktrace.input.companions import State, states_of
from ktrace.input.compression import split_member
from ktrace.input.expand import expanded
from ktrace.report import Report
from ktrace.scratch import Held, make, name_for, new_folder, remove, sweep

#: The environment variable with the folder of the cache, and its value where there is none.
FOLDER, OFF = "KTRACE_CACHE", "off"

#: The most bytes that the cache takes, and the share of the free disk that it leaves.
MOST_BYTES, FREE_SHARE = 8 << 30, 0.5

#: Days after which a trace that wasn't opened is removed.
MOST_DAYS = 30

#: Files of a folder that are looked at; with more it isn't kept.
_MOST_FILES = 10_000

#: Files with what ktrace does.
_CODE = (".py", ".so", ".pyd", ".toml")

_DAY = 86_400

#: A name that `key_of` gives.
_KEY = re.compile(r"[0-9a-f]{32}")

#: What opening a folder raises that isn't a trace of this version.
_UNREADABLE = (OSError, InputError, ValueError, KeyError, TypeError)


@dataclass(frozen=True)
class CachedTrace:
    """A trace in the cache: its folder, inputs, bytes, and when it was opened last (Unix time in s).

    The inputs of one that can't be read aren't known: it is damaged, or of another version.
    """

    folder: Path
    inputs: list[str]
    size: int
    used: float


def cache_folder() -> Path | None:
    """The folder of the cache: that which KTRACE_CACHE names, else where this system keeps caches of a user.

    None if that is off.
    """
    if named := os.environ.get(FOLDER):
        return None if named == OFF else Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "ktrace" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ktrace"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ktrace"


def has_cache() -> bool:
    """Whether there is a folder of the cache that can be used."""
    folder = cache_folder()
    return folder is not None and _is_ours(folder)


def found(key: str, *, all_rows: bool = False) -> Stored | None:
    """The stored trace with this key, marked as used; None if there is none. A damaged one is removed.

    With `all_rows` each row was checked; else what is found to be damaged where it is used raises Damaged.
    """
    folder = cache_folder()
    if folder is None or not has_cache():
        return None
    try:
        kept = Stored(folder / key)
        if kept.key != key:
            raise Damaged(f"{folder / key} is of another input")
        if all_rows:
            kept.check_rows()
    except _UNREADABLE:
        drop(key)
        return None
    with suppress(OSError):  # where nothing can be written
        os.utime(folder / key)
    return kept


def drop(key: str) -> None:
    """Removes the stored trace with this key, which can't be read; a folder of somebody else stays."""
    if (folder := cache_folder()) is not None:
        with suppress(OSError):
            if _is_unreadable(folder / key):
                remove(folder / key)


@contextmanager
def storing(key: str | None) -> Iterator[Held]:
    """Yields a new folder for a trace, in the cache if there is a key and the cache can be used.

    `keep` gives it its place in the cache; without that it is removed at the end of the block. Raises OSError if no
    folder can be made.
    """
    held = None
    if key and (folder := _usable(cache_folder())) is not None:
        with suppress(OSError):
            held = make(folder / name_for(key), folder=True)
    held = held or new_folder()
    try:
        yield held
    finally:
        held.remove()


def is_in_cache(held: Held) -> bool:
    """Whether a folder of `storing` is in the cache."""
    return held.path.parent == cache_folder()


def keep(held: Held, key: str) -> Path:
    """Gives a folder of `storing` its place in the cache. Returns where the trace is now."""
    if not is_in_cache(held):
        return held.path
    try:
        for file in held.path.iterdir():
            synced(file)
        place = held.path.rename(held.path.parent / key)
    except OSError:  # another process was quicker, or the disk is at fault
        return held.path
    with suppress(OSError):
        tidy(place.parent, keep=place)
    return place


def _usable(folder: Path | None) -> Path | None:
    """The folder, made if need be; None if it can't be used, or if others than this user may write to it."""
    if folder is None:
        return None
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if _is_ours(folder) and os.access(folder, os.W_OK) else None


def _is_ours(folder: Path) -> bool:
    """Whether there is such a folder, it is this user's, and others may not write to it."""
    try:
        about = folder.stat()
    except OSError:
        return False
    if not stat.S_ISDIR(about.st_mode):
        return False
    return not hasattr(os, "geteuid") or (about.st_uid == os.geteuid() and not stat.S_IMODE(about.st_mode) & 0o022)


def key_of(paths: Sequence[str], format: str | None, chosen: Sequence[object]) -> str | None:
    """What names the stored trace of these inputs, read as this format with what was chosen; None if it can't be told.

    Nothing but files and folders of this machine has a key.
    """
    from ktrace import __version__

    if cache_folder() is None:
        return None
    files: list[tuple[str, list[State]]] = []
    for one in expanded(paths, Report(), format):
        path = Path(split_member(one.path)[0])
        if not (path.is_dir() or path.is_file()):
            return None
        try:
            files.append((os.path.realpath(one.path), states_of(one.path, _MOST_FILES)))
        except (OSError, InputError):  # too many files, or one that can't be looked at
            return None
    text = json.dumps([__version__, _code(), VERSION, [*chosen], files])
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@lru_cache
def _code() -> int:
    """When the code of ktrace was changed last (ns): what it reads from an input may have changed with it."""
    from ktrace import __file__ as package

    paths = (
        os.stat(os.path.join(folder, name)).st_mtime_ns  # noqa: PTH116, PTH118 (800 files, in 5 ms)
        for folder, _, names in os.walk(os.path.dirname(package), followlinks=True)  # noqa: PTH120
        for name in names
        if name.endswith(_CODE)
    )
    return max(paths, default=0)


def entries(folder: Path | None = None) -> list[CachedTrace]:
    """The traces in the cache, the one that was used last first."""
    folder = folder or cache_folder()
    inside, traces = list[Path](), list[CachedTrace]()
    with suppress(OSError):
        inside = list(folder.iterdir()) if folder else []
    for one in inside:
        with suppress(OSError):
            if (inputs := _inputs(one)) is not None:
                size = sum(file.stat().st_size for file in one.iterdir())
                traces.append(CachedTrace(one, inputs, size, one.stat().st_mtime))
    return sorted(traces, key=lambda entry: -entry.used)


def _inputs(folder: Path) -> list[str] | None:
    """The inputs of a trace, none of one that can't be read; None if the folder isn't a trace."""
    try:
        return [source["path"] for source in Stored(folder).report().inputs]
    except _UNREADABLE:
        return [] if _is_unreadable(folder) else None


def _is_unreadable(folder: Path) -> bool:
    """Whether what can't be read is a trace all the same: by its name, and all names of its files. Raises OSError."""
    if not _KEY.fullmatch(folder.name) or not folder.is_dir() or folder.is_symlink():
        return False
    names = {file.name for file in folder.iterdir()}
    return bool(names) and names <= FILES


def clear(folder: Path | None = None) -> list[CachedTrace]:
    """Removes all traces from the cache, and returns them."""
    removed = entries(folder)
    for entry in removed:
        remove(entry.folder)
    return removed


def tidy(folder: Path, keep: Path) -> None:
    """Removes traces that are old, or one too many for the size of the cache, but for `keep`."""
    sweep(folder)
    traces = entries(folder)
    free = shutil.disk_usage(folder).free + sum(entry.size for entry in traces)
    left = min(MOST_BYTES, int(free * FREE_SHARE))
    for entry in traces:
        left -= entry.size
        if entry.folder != keep and (left < 0 or time.time() - entry.used > MOST_DAYS * _DAY):
            remove(entry.folder)
