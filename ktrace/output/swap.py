"""Puts finished files and folders in their places: all of them or, after an interruption, none.

    .run.perfetto.5f0c81a2b3c4d5e6.ktrace-swap      what moves where; written first, removed last
    run.000.perfetto -> .run.perfetto.5f0c81a2b3c4d5e6.0.ktrace-old           the old ones step aside
    .run.000.perfetto.9d1e....ktrace-tmp -> run.000.perfetto                  the new ones take their places

A process that is killed in between leaves that note. The next run in this folder undoes what it describes: the old
files are back, the new ones gone. Without a note the old files that still stand aside are removed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ktrace.scratch import SUFFIX, Held, make, remove, sweep, unheld

#: A new file or folder and the place where it belongs.
Move = tuple[Path, Path]

_NOTE, _OLD = ".ktrace-swap", ".ktrace-old"
_NOTE_NAME = re.compile(r"\..*\.[0-9a-f]{16}\.ktrace-swap", re.S)
_OLD_NAME = re.compile(r"(\..*\.[0-9a-f]{16})\.\d+\.ktrace-old", re.S)
_NEW_NAME = re.compile(r"\..*\.[0-9a-f]{16}\.ktrace-tmp", re.S)

#: Errors of file systems that have no hard links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES, errno.EXDEV}


def place(new: Path, target: Path) -> None:
    """Moves a file or an empty place's folder to a target. Raises FileExistsError if something is there by now."""
    if new.is_dir():
        try:
            new.rename(target)  # replaces an empty folder, nothing else
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
            raise
        return
    try:
        os.link(new, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        new.replace(target)
        return
    new.unlink()


def swap_files(moves: Sequence[Move], stale: Iterable[Path], *, overwrite: bool) -> None:
    """Moves all new files and folders of one folder to their places; the old ones there, and the stale ones, go.

    Raises OSError, FileExistsError if there is an old one without `overwrite`; then all is as it was before.
    """
    targets = [target for _, target in moves]
    old = [path for path in dict.fromkeys([*targets, *stale]) if os.path.lexists(path)]
    if len(moves) == 1 and (not old or (old == targets and not overwrite)):
        place(*moves[0])  # replaces nothing but an empty folder
        return
    if old and not overwrite:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(old[0]))
    base = f".{targets[0].name[:50]}.{os.urandom(8).hex()}"
    folder = targets[0].parent
    aside = [(path, folder / f"{base}.{number}{_OLD}") for number, path in enumerate(old)]
    note = _write_note(folder / f"{base}{_NOTE}", moves, aside)
    try:
        for path, beside in aside:
            path.rename(beside)
        for new, target in moves:
            place(new, target)
        note.path.unlink()  # from here on the new ones count
        _remove_all(aside)
    except BaseException:
        with suppress(OSError):  # else the note stays, for the next run
            if note.path.exists():
                _undo(folder, json.loads(note.path.read_text("utf-8", "surrogateescape")))
                note.remove()
            else:
                _remove_all(aside)
        raise
    finally:
        note.release()


def recover(folder: Path) -> None:
    """Undoes what killed processes left half done in a folder, and removes their temporary files."""
    if not hasattr(os, "geteuid"):
        return
    with suppress(OSError):
        names = os.listdir(folder)  # noqa: PTH208 (of a folder with very many files only the names are needed)
        for name in names:
            if _NOTE_NAME.fullmatch(name):
                with suppress(OSError, ValueError, KeyError, TypeError), unheld(folder / name):
                    _undo(folder, json.loads((folder / name).read_text("utf-8", "surrogateescape")))
                    (folder / name).unlink()
        for name in names:
            old_name = _OLD_NAME.fullmatch(name)
            if old_name and not os.path.lexists(folder / f"{old_name[1]}{_NOTE}"):
                with suppress(OSError), unheld(folder / name):
                    _remove_old(folder / name)
        if any(name.endswith(SUFFIX) for name in names):
            sweep(folder)


def _write_note(path: Path, moves: Sequence[Move], aside: Sequence[Move]) -> Held:
    """Writes down what is about to move. New files are known by their inodes, so that only they are ever removed."""
    new = []
    for source, target in moves:
        about = source.lstat()
        new.append([source.name, target.name, about.st_dev, about.st_ino])
    text = json.dumps({"new": new, "old": [[path.name, beside.name] for path, beside in aside]})
    held = make(path.with_name(path.name.removesuffix(_NOTE) + SUFFIX))
    try:
        held.path.write_text(text, "utf-8", "surrogateescape")
        held.path = held.path.rename(path)
    except BaseException:
        held.remove()
        raise
    return held


def _undo(folder: Path, note: dict[str, Any]) -> None:
    """Removes the new files that are in their places, and moves the old ones back. Raises OSError, ValueError."""
    for temporary, target, device, inode in note["new"]:
        _require_plain(_NEW_NAME, temporary, target)
        with suppress(FileNotFoundError):
            about = (folder / target).lstat()
            if (about.st_dev, about.st_ino) == (device, inode):
                remove(folder / target)
    for target, beside in note["old"]:
        _require_plain(_OLD_NAME, beside, target)
        with suppress(FileNotFoundError):
            place(folder / beside, folder / target)


def _require_plain(pattern: re.Pattern[str], ours: str, target: str) -> None:
    """Raises ValueError unless both are names of files in the folder itself, the first one of ours."""
    if not pattern.fullmatch(ours) or any(
        "/" in name or "\0" in name or name in ("", ".", "..") for name in (ours, target)
    ):
        raise ValueError("isn't a note of ktrace")


def _remove_all(aside: Sequence[Move]) -> None:
    for _, beside in aside:
        with suppress(OSError):
            _remove_old(beside)


def _remove_old(path: Path) -> None:
    """Removes an old file, or the files of an old folder that are ours or also in the new one; then the folder."""
    if not stat.S_ISDIR(path.lstat().st_mode):
        path.unlink()
        return
    for file in path.iterdir():
        if is_ours(file) or file.lstat().st_nlink > 1:
            file.unlink()
    with suppress(OSError):
        path.rmdir()


def is_ours(file: Path) -> bool:
    """Returns whether a file is one that ktrace writes into a folder: of such a name, with our version in it."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _FOOTER))
            return file.name in _NAMES and b"ktrace.version" in stream.read()
    except OSError:
        return False


#: The names of the files of a canonical folder, and the most bytes at their end that contain the version.
_NAMES = {f"{record}.parquet" for record in ("events", "summaries", "links", "catalog")}
_FOOTER = 1 << 20
