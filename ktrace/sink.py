"""Where output goes: a temporary file beside the target, renamed when all is well."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ktrace.errors import OutputError


class Sink:
    """One output: a file, a folder or standard output ('-').

    Nothing stands at the target before `commit()`; `abort()` leaves nothing behind. Output whose name
    ends in .gz or .zst is compressed. Raises OutputError where the target exists (unless `overwrite`)
    or can't be made.
    """

    def __init__(self, path: str, *, overwrite: bool = False, folder: bool = False) -> None:
        self.path = path
        self.is_folder = folder
        self._streams: list[BinaryIO] = []
        if path != "-":
            self._check(overwrite)
        where = Path(path).resolve().parent if path != "-" else Path(tempfile.gettempdir())
        prefix = f".{Path(path).name}." if path != "-" else "ktrace."
        try:
            if folder:
                self._temporary = Path(tempfile.mkdtemp(dir=where, prefix=prefix, suffix=".tmp"))
            else:
                handle, name = tempfile.mkstemp(dir=where, prefix=prefix, suffix=".tmp")
                os.close(handle)
                self._temporary = Path(name)
        except OSError as error:
            raise OutputError(
                f"can't write there: {error.strerror}", path=path, remedy="choose another folder with -o"
            ) from None

    def _check(self, overwrite: bool) -> None:
        target = Path(self.path)
        if self.is_folder and target.is_dir():
            self._check_folder(target, overwrite)
        elif target.exists() and not overwrite:
            raise OutputError("exists already", path=self.path, remedy="--overwrite, or another name with -o")
        if target.is_dir() and not self.is_folder:
            raise OutputError("is a folder", path=self.path, expected="a file name", remedy="name a file in it")

    def _check_folder(self, target: Path, overwrite: bool) -> None:
        """An empty folder may be filled, one of ours overwritten; somebody's folder is never removed."""
        inside = [entry.name for entry in target.iterdir()]
        if any(name.rpartition(".")[2] != "parquet" for name in inside):
            raise OutputError("is a folder with other files in it", path=self.path, remedy="another name with -o")
        if inside and not overwrite:
            raise OutputError("exists already", path=self.path, remedy="--overwrite, or another name with -o")

    def open(self, name: str | None = None) -> BinaryIO:
        """A stream of bytes to the output, or to the file `name` in a folder."""
        stream: BinaryIO = open(self._temporary / name if name else self._temporary, "wb", buffering=1 << 18)  # noqa: SIM115
        self._streams.append(stream)
        target = name or self.path
        if target.endswith(".gz"):
            # Level 6 with no name and no time, so that equal input gives equal bytes.
            stream = gzip.GzipFile("", "wb", 6, stream, mtime=0)  # type: ignore[assignment]
        elif target.endswith(".zst"):
            import pyarrow as pa

            stream = pa.CompressedOutputStream(pa.PythonFile(stream), "zstd")
        if stream is not self._streams[-1]:
            self._streams.append(stream)
        return stream

    def commit(self) -> None:
        """Puts the output in its place."""
        self._close()
        if self.path == "-":
            with open(self._temporary, "rb") as done:
                shutil.copyfileobj(done, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            self._temporary.unlink()
            return
        target = Path(self.path)
        if self.is_folder and target.is_dir():
            shutil.rmtree(target)
        mask = os.umask(0)
        os.umask(mask)
        self._temporary.chmod((0o777 if self.is_folder else 0o666) & ~mask)
        self._temporary.replace(target)

    def abort(self) -> None:
        """Leaves nothing behind."""
        with contextlib.suppress(OSError, ValueError):
            self._close()
        if self._temporary.is_dir():
            shutil.rmtree(self._temporary, ignore_errors=True)
        else:
            self._temporary.unlink(missing_ok=True)

    def _close(self) -> None:
        while self._streams:
            self._streams.pop().close()


@contextlib.contextmanager
def writing(sink: Sink) -> Iterator[Sink]:
    """Commits the sink at the end of the block, aborts it when anything goes wrong, Ctrl-C included.

    A failing disk becomes an OutputError.
    """
    try:
        yield sink
        sink.commit()
    except OSError as error:
        sink.abort()
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(
            f"can't be written: {error.strerror or error}",
            path=sink.path,
            remedy="free some space, or choose another disk with -o",
        ) from error
    except BaseException:
        sink.abort()
        raise
