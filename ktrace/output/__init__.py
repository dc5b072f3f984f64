"""Writes batches to an output: to a temporary file next to the target, which replaces it when the conversion succeeds.

swap    replaces folders and several files in one step, also when killed
write   passes batches to a writer, through the stages that its format needs; the protocols of writers
parts   writes numbered parts (`--split-by`), or an archive with a Perfetto trace for each source
"""

from __future__ import annotations

import builtins
import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from ktrace.errors import OutputError
from ktrace.model.schema import RECORDS
from ktrace.output.swap import is_ours, recover, swap_files
from ktrace.parallel.interruption import INTERRUPTION
from ktrace.parallel.threads import WriteBehind
from ktrace.scratch import Held, make, name_for, remove, system_folder

#: ISA-L has levels 0 to 3; this is the highest fast one.
GZIP_LEVEL = 2


def replaces(overwrite: bool | None) -> bool:
    """Whether an output that exists is replaced; where `overwrite` is None in notebooks, whose cells run again."""
    return "__IPYTHON__" in vars(builtins) if overwrite is None else overwrite


class Sink:
    """One output: a file, a folder, standard output ('-'), or a device or pipe, which is never replaced.

    The target doesn't change before `commit()`; `abort()` removes all temporary files. Output whose name ends in .gz
    or .zst is compressed. A symbolic link is kept, and its target is written. Raises OutputError if the target exists
    and `overwrite` isn't set, also if it appears only meanwhile; `make()` raises it if the folder can't be written to.

    `inside` is the folder of temporary files that a part shares with other parts; it is next to their targets.
    `others` lists files of other people in a folder that is overwritten: they stay.
    """

    def __init__(self, path: str, *, overwrite: bool = False, folder: bool = False, inside: Path | None = None) -> None:
        self.path = path
        self.is_folder = folder
        if path == "-" and getattr(sys.stdout, "closed", True):  # None, too
            raise OutputError("standard output is closed", path=path, remedy="name a file with -o")
        self.others: list[str] = []
        self._overwrite = overwrite
        self._held: Held | None = None
        self._streams: list[BinaryIO] = []
        self._target = Path(os.path.realpath(path))
        self._is_stream = path == "-" or _is_stream(self._target)
        self._is_sent = False
        self._is_part = inside is not None
        where = inside or (system_folder() if self._is_stream else self._target.parent)
        if not self._is_stream:
            if inside is None:
                recover(where)
            self._check(self._target)
        self._temporary = where / name_for("ktrace" if self._is_stream else self._target.name)

    def make(self) -> None:
        """Creates the temporary file or folder, readable only by its owner. `abort` knows its name in any case."""
        try:
            self._held = make(self._temporary, folder=self.is_folder, lock=not self._is_part)
        except OSError as error:
            raise OutputError(
                f"can't write there: {error.strerror}", path=self.path, remedy="choose another folder with -o"
            ) from None

    @property
    def move(self) -> tuple[Path, Path]:
        """The finished temporary file or folder, and the place where it belongs."""
        return self._temporary, self._target

    def _check(self, target: Path) -> None:
        if target.is_symlink():
            raise OutputError("is a symbolic link to itself", path=self.path, remedy="another name with -o")
        is_folder = os.path.isdir(target)  # noqa: PTH112 (pathlib raises without permission)
        if self.is_folder and is_folder:
            self._check_folder(target)
        elif os.path.exists(target) and not self._overwrite:  # noqa: PTH110
            raise self._exists()
        elif self.is_folder and os.path.exists(target):  # noqa: PTH110
            raise OutputError("is a file", path=self.path, expected="a folder", remedy="another name with -o")
        if is_folder and not self.is_folder:
            raise OutputError("is a folder", path=self.path, expected="a file name", remedy="name a file in it")

    def _exists(self, what: str = "already exists") -> OutputError:
        return OutputError(what, path=self.path, remedy="--overwrite (in Python overwrite=True), or another name")

    def _check_folder(self, target: Path) -> None:
        """Raises OutputError unless the folder is empty, or contains only Parquet files and may be overwritten.

        Those that ktrace writes into a folder are replaced, and all others stay.
        """
        inside = sorted(target.iterdir())
        if any(path.suffix != ".parquet" or path.is_symlink() or not path.is_file() for path in inside):
            raise OutputError("is a folder that contains other files", path=self.path, remedy="another name with -o")
        if inside and not self._overwrite:
            raise self._exists()
        names = {f"{record}.parquet" for record in RECORDS}
        self.others = [path.name for path in inside if not is_ours(path)]
        if taken := names & set(self.others):
            raise OutputError(
                f"has a file {min(taken)} that ktrace didn't write", path=self.path, remedy="another name with -o"
            )

    def open(self, name: str | None = None) -> BinaryIO:
        """Opens a byte stream to the output, or to the file `name` of an output folder."""
        stream: BinaryIO = open(self._temporary / name if name else self._temporary, "wb", buffering=1 << 18)  # noqa: SIM115
        self._streams.append(stream)
        target = name or self.path
        if target.endswith(".gz"):
            from isal import igzip

            # Without a name and a time, so that equal inputs yield equal bytes.
            packer: Any = igzip.IGzipFile
            stream = packer("", "wb", GZIP_LEVEL, stream, mtime=0)
        elif target.endswith(".zst"):
            import pyarrow as pa

            stream = pa.CompressedOutputStream(pa.PythonFile(stream), "zstd")  # level 1
        if stream is not self._streams[-1]:
            self._streams.append(stream)
        in_background: Any = WriteBehind(stream)
        self._streams.append(in_background)
        result: BinaryIO = in_background
        return result

    def finish(self) -> int:
        """Closes the output before `commit` and returns its size in bytes."""
        self._close()
        files = self._temporary.iterdir() if self.is_folder else [self._temporary]
        return sum(file.stat().st_size for file in files)

    def pass_on(self) -> None:
        """Closes the output. A device or a pipe gets it now, and a file appears with `commit`."""
        self._close()
        if self._is_stream and not self._is_sent:
            with open(self._temporary, "rb") as done:
                self._send(done)
            self._is_sent = True

    def commit(self) -> None:
        """Moves the output to its target."""
        self.pass_on()
        if self._is_stream:
            self._temporary.unlink()
            self.release()
            return
        self.prepare()
        try:
            if self.is_folder or not self._overwrite:
                swap_files([self.move], [], overwrite=self._overwrite)
            else:
                self._temporary.replace(self._target)
        except FileExistsError:
            raise self._exists("now exists: it appeared during the conversion") from None
        finally:
            self.release()

    def prepare(self) -> None:
        """Gives the finished output its permissions, and other people's files in the folder a name in the new one."""
        mask = os.umask(0)
        os.umask(mask)
        for name in self.others:
            _link(self._target / name, self._temporary / name)
        self._temporary.chmod((0o777 if self.is_folder else 0o666) & ~mask)

    def release(self) -> None:
        """Ends the lock of the temporary file, which has its final name now or was removed."""
        if self._held:
            self._held.release()

    def _send(self, done: BinaryIO) -> None:
        """Copies the finished output to standard output, the device or the pipe."""
        if self.path == "-":
            shutil.copyfileobj(done, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        with open(self._target, "wb") as target:
            shutil.copyfileobj(done, target)

    def abort(self) -> None:
        """Removes all temporary files."""
        with contextlib.suppress(OSError, ValueError):
            self._close()
        remove(self._temporary)
        self.release()

    def _close(self) -> None:
        while self._streams:
            self._streams.pop().close()


def _link(file: Path, to: Path) -> None:
    """Gives a file a second name; copies it where the file system has no links."""
    try:
        os.link(file, to)
    except OSError:
        shutil.copy2(file, to)


def _is_stream(target: Path) -> bool:
    """Returns whether the target is a device, a pipe or a socket, which passes bytes on instead of storing them."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


class Output(Protocol):
    """An output that is written next to its target: one sink or several."""

    path: str

    def make(self) -> None:
        """Creates the temporary files."""

    def commit(self) -> None:
        """Moves the output to its target."""

    def abort(self) -> None:
        """Removes all temporary files."""


AnyOutput = TypeVar("AnyOutput", bound=Output)


@contextlib.contextmanager
def writing(sink: AnyOutput) -> Iterator[AnyOutput]:
    """Creates the output, commits it at the end of the block, and aborts it on any error or Ctrl-C.

    Raises OutputError if the disk fails.
    """
    try:
        with disk_errors(sink.path):
            sink.make()
            yield sink
            INTERRUPTION.check()
            sink.commit()
    except BaseException:
        sink.abort()
        raise


@contextlib.contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """Turns errors of the disk into OutputError; a pipe that its reader has closed stays BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"can't be written: {error.strerror or error}",
            path=path,
            remedy="free some space, there and in the temporary folder (TMPDIR), or choose another disk with -o",
        ) from error
