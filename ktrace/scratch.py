"""Temporary files and folders. What a killed process leaves behind is removed by a later run.

    $TMPDIR/ktrace-5f0c81a2b3c4d5e6.ktrace-tmp         a folder of rows that wait
    .run.perfetto.5f0c81a2b3c4d5e6.ktrace-tmp          an unfinished output, next to its target

The process that makes one keeps it locked (`flock`), and the lock ends with the process, however it ends. So one that
isn't locked is no longer in use. Without locks (Windows, some network file systems) nothing is removed.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: The end of the names of temporary files; a token of 16 digits stands before it.
SUFFIX = ".ktrace-tmp"

_OURS = re.compile(r"[.k].*[.-][0-9a-f]{16}\.ktrace-tmp", re.S)

#: How often a file or folder is created that other processes remove before it is locked.
_ATTEMPTS = 64


def name_for(target: str) -> str:
    """Returns a new temporary name next to a target; long names are shortened, since file systems limit them."""
    return f".{target[:50]}.{os.urandom(8).hex()}{SUFFIX}"


class Held:
    """A temporary file or folder, readable only by its owner, and locked until `release`."""

    def __init__(self, path: Path, lock: int | None) -> None:
        self.path = path
        self._lock = lock

    @property
    def lock(self) -> int:
        """The open file that has the lock."""
        assert self._lock is not None
        return self._lock

    def release(self) -> None:
        """Ends the lock: the file has its final name, or is removed."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remove(self) -> None:
        """Removes the file or the folder, and ends the lock."""
        remove(self.path)
        self.release()


def make(path: Path, *, folder: bool = False, lock: bool = True) -> Held:
    """Creates a file or folder of that name and locks it. Raises OSError, FileExistsError if the name is taken.

    Another process may `sweep` between the two steps; then what it removed is created again. An interruption between
    them leaves nothing.
    """
    try:
        for _ in range(_ATTEMPTS):
            if folder:
                path.mkdir(0o700)
            else:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            if not lock or os.name == "nt":  # where an open file can't be renamed
                return Held(path, None)
            with suppress(FileNotFoundError):
                held = Held(path, os.open(path, os.O_RDONLY))
                if _locked(held.lock, wait=True) and path.exists():
                    return held
                held.release()
    except FileExistsError:
        raise
    except BaseException:
        remove(path)
        raise
    raise FileExistsError(f"other processes removed {path} as soon as it was made, {_ATTEMPTS} times")


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yields a new folder in the temporary folder of the system; removes it at the end of the block."""
    held = new_folder()
    try:
        yield held.path
    finally:
        held.remove()


def new_folder() -> Held:
    """Creates a folder in the temporary folder of the system."""
    return make(system_folder() / f"ktrace-{os.urandom(8).hex()}{SUFFIX}", folder=True)


def system_folder() -> Path:
    """Returns the temporary folder of the system. The first time, removes what dead processes left there."""
    where = Path(tempfile.gettempdir())
    if where not in _SWEPT:
        _SWEPT.add(where)
        sweep(where)
    return where


#: The folders that this process has searched for temporary files of dead processes.
_SWEPT: set[Path] = set()


def sweep(where: Path) -> None:
    """Removes the temporary files and folders in a folder that this user made and no process holds any more."""
    if not hasattr(os, "geteuid"):
        return
    with suppress(OSError), os.scandir(where) as entries:
        for name in [entry.name for entry in entries if _OURS.fullmatch(entry.name)]:
            with suppress(OSError), unheld(where / name):
                remove(where / name)


@contextmanager
def unheld(path: Path) -> Iterator[None]:
    """Holds a file or folder that another process made, and no process holds now.

    Raises OSError if it is held, if it is somebody else's, or a symbolic link, or if this system has no locks.
    """
    lock = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        about = os.fstat(lock)
        regular = stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)
        if not regular or about.st_uid != os.geteuid() or not _locked(lock, assumed=True):
            raise BlockingIOError(f"{path} is in use")
        yield
    finally:
        os.close(lock)


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Locks a folder for the block, and yields whether that worked; without locks it always does."""
    if os.name == "nt":
        yield True
        return
    lock = os.open(folder, os.O_RDONLY)
    try:
        yield _locked(lock)
    finally:
        os.close(lock)


def remove(path: Path) -> None:
    """Removes a file or a folder; what can't be removed stays, for a later run."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _locked(file: int, *, assumed: bool = False, wait: bool = False) -> bool:
    """Locks a file. Returns False if another process has locked it; for a system without locks, `not known`."""
    try:
        import fcntl
    except ImportError:
        return not assumed
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # this file system has no locks
        return not assumed
    return True
