"""Writes output to a temporary file next to the target, and renames it when the conversion succeeds."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar

from ktrace.errors import OutputError
from ktrace.parallel.write_behind import WriteBehind

if TYPE_CHECKING:
    from ktrace.input.format import Format

#: ISA-L has levels 0 to 3; this is the highest fast one.
GZIP_LEVEL = 2


class Sink:
    """One output: a file, a folder, standard output ('-'), or a device or pipe, which is never replaced.

    The target doesn't change before `commit()`; `abort()` removes all temporary files. Output whose name ends in .gz
    or .zst is compressed. A symbolic link is kept, and its target is written. Raises OutputError if the target exists
    and `overwrite` isn't set; `make()` raises it if the folder can't be written to.
    """

    def __init__(self, path: str, *, overwrite: bool = False, folder: bool = False) -> None:
        self.path = path
        self.is_folder = folder
        if path == "-" and sys.stdout is None:
            raise OutputError("standard output is closed", path=path, remedy="name a file with -o")
        self._streams: list[BinaryIO] = []
        self._target = Path(os.path.realpath(path))
        self._is_stream = path == "-" or _is_stream(self._target)
        if not self._is_stream:
            self._check(self._target, overwrite)
        where = Path(tempfile.gettempdir()) if self._is_stream else self._target.parent
        # Long names are shortened, so that the temporary name doesn't exceed what file systems allow.
        prefix = "ktrace." if self._is_stream else f".{self._target.name[:50]}."
        self._temporary = where / f"{prefix}{secrets.token_hex(8)}.tmp"

    def make(self) -> None:
        """Creates the temporary file or folder, readable only by its owner. `abort` knows its name in any case."""
        try:
            if self.is_folder:
                self._temporary.mkdir(0o700)
            else:
                os.close(os.open(self._temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise OutputError(
                f"can't write there: {error.strerror}", path=self.path, remedy="choose another folder with -o"
            ) from None

    def _check(self, target: Path, overwrite: bool) -> None:
        if target.is_symlink():
            raise OutputError("is a symbolic link to itself", path=self.path, remedy="another name with -o")
        is_folder = os.path.isdir(target)  # noqa: PTH112 (pathlib raises without permission)
        if self.is_folder and is_folder:
            self._check_folder(target, overwrite)
        elif os.path.exists(target) and not overwrite:  # noqa: PTH110
            raise OutputError("exists already", path=self.path, remedy="--overwrite, or another name with -o")
        if is_folder and not self.is_folder:
            raise OutputError("is a folder", path=self.path, expected="a file name", remedy="name a file in it")

    def _check_folder(self, target: Path, overwrite: bool) -> None:
        """Raises OutputError unless the folder is empty, or contains only Parquet files and may be overwritten."""
        inside = [entry.name for entry in target.iterdir()]
        if any(name.rpartition(".")[2] != "parquet" for name in inside):
            raise OutputError("is a folder with other files in it", path=self.path, remedy="another name with -o")
        if inside and not overwrite:
            raise OutputError("exists already", path=self.path, remedy="--overwrite, or another name with -o")

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
        return in_background  # type: ignore[no-any-return]

    def finish(self) -> int:
        """Closes the output before `commit` and returns its size in bytes."""
        self._close()
        files = self._temporary.iterdir() if self.is_folder else [self._temporary]
        return sum(file.stat().st_size for file in files)

    def commit(self) -> None:
        """Moves the output to its target."""
        self._close()
        if self._is_stream:
            with open(self._temporary, "rb") as done:
                self._send(done)
            self._temporary.unlink()
            return
        target = self._target
        if self.is_folder and target.is_dir():
            shutil.rmtree(target)
        mask = os.umask(0)
        os.umask(mask)
        self._temporary.chmod((0o777 if self.is_folder else 0o666) & ~mask)
        self._temporary.replace(target)

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
        if self._temporary.is_dir():
            shutil.rmtree(self._temporary, ignore_errors=True)
        else:
            self._temporary.unlink(missing_ok=True)

    def _close(self) -> None:
        while self._streams:
            self._streams.pop().close()


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
        sink.make()
        yield sink
        sink.commit()
    except OSError as error:
        sink.abort()
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(
            f"can't be written: {error.strerror or error}",
            path=sink.path,
            remedy="free some space, there and in the temporary folder (TMPDIR), or choose another disk with -o",
        ) from error
    except BaseException:
        sink.abort()
        raise


def open_sink(path: str, fmt: Format, *, overwrite: bool = False) -> Sink:
    """Returns the output of that name: a folder if the name ends in a slash ("run.parquet/") or is an existing folder.

    Raises OutputError as `Sink` does, and for a folder name if the format writes a single file.
    """
    if path.endswith("/") and not fmt.folder:
        raise OutputError(f"is named as a folder, but {fmt.name} is one file", path=path, remedy="leave out the '/'")
    folder = fmt.folder and (path.endswith("/") or Path(path).is_dir())
    return Sink(path, overwrite=overwrite, folder=folder)
