"""Where input comes from: a file, a folder, standard input or a URL; gzip, zstd and zip are seen through.

A probe sees a `Sample` (a head, and a tail where that is cheap; the tables of a database; the files of a folder); a
reader opens the whole as a stream.
"""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from ktrace.errors import InputError, import_extra
from ktrace.input.compression import PACKED, codec_of, member_name, split_member, unpacked
from ktrace.input.sqlite_file import MAGIC, Tables, tables_of

HEAD = 1 << 20
TAIL = 1 << 16

#: Files of a folder beyond which it isn't taken for one of traces.
MOST_FILES = 100_000

#: Suffixes of outputs that are compressed.
COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True)
class Sample:
    """What a probe may look at.

    `name` is the file's name without a compression suffix, `head` its first bytes (at most 1 MiB,
    decompressed), `tail` its last ones (empty where the file can't be seeked or `head` is all of it),
    `whole` whether `head` is all of it. An SQLite database has its `tables` with their columns, or says in `damage` why
    not. A folder has a `listing` of the files in it, however deep ("host/12_kernel_trace.csv"), and no head.
    """

    name: str
    head: bytes = b""
    tail: bytes = b""
    whole: bool = True
    listing: tuple[str, ...] | None = None
    tables: Tables | None = None
    damage: str = ""

    @cached_property
    def text(self) -> str | None:
        """The head as text, or None where it is binary."""
        encoding = text_encoding(self.head)
        if encoding is None:
            return None
        return self.head.decode(encoding, "replace").removeprefix("\ufeff")

    @cached_property
    def folded(self) -> str:
        """The text in lower case; empty for a binary."""
        return (self.text or "").lower()

    @cached_property
    def lines(self) -> list[str]:
        """The lines of `text`, the last one dropped where it may be cut; empty for a binary."""
        lines = (self.text or "").splitlines()
        return lines if self.whole else lines[:-1]


def text_encoding(head: bytes) -> str | None:
    """The encoding of a text that begins so, None for a binary. Other than UTF-8 a byte order mark is needed."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    start = head[:4096]
    if b"\0" in start:
        return None
    control = sum(byte < 32 and byte not in b"\t\n\r\f\x1b\b" for byte in start)
    return None if control * 50 > len(start) else "utf-8"


@dataclass
class Source:
    """One input. `path` is as the user gave it; `label` names its rows. `traces.zip!a.json` is a file in an archive.

    `stand_in` is a file of this machine that is read in the place of what `path` names, and says the same.

    Raises InputError for what can't be opened, with the remedy.
    """

    path: str
    label: str = ""
    on_cut: Callable[[str, str], None] | None = None
    progress: Callable[[int], None] | None = None
    stand_in: Path | None = None
    _spool: IO[bytes] | None = field(default=None, repr=False)
    _copy: Path | None = field(default=None, repr=False)
    _file: str = field(init=False, repr=False)
    _member: str | None = field(init=False, repr=False)
    _codec: str | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        self.label = self.label or stem(self.path)
        self._file, self._member = (str(self.stand_in), None) if self.stand_in else split_member(self.path)

    def with_stand_in(self, file: Path) -> Source:
        """The same input, read from another file that says the same."""
        return Source(self.path, self.label, self.on_cut, stand_in=file)

    @cached_property
    def is_folder(self) -> bool:
        """Whether the input is a folder: on this machine, or a URL that ends in '/'."""
        if self.stand_in:
            return False
        if "://" in self.path:
            return self.path.endswith("/")
        # pathlib takes "" for the current folder, and raises without permission.
        return self.path != "-" and os.path.isdir(self.path)  # noqa: PTH112

    @property
    def name(self) -> str:
        """The file's name without a compression suffix."""
        name = "stdin" if self.path == "-" else PurePosixPath((self._member or self.path).replace(os.sep, "/")).name
        for suffix in PACKED:
            name = name.removesuffix(suffix)
        return name

    @cached_property
    def size(self) -> int | None:
        """Bytes of the input as it is stored, where that is known."""
        return None if self._file == "-" or "://" in self._file else Path(self._file).stat().st_size

    def sample(self) -> Sample:
        """The head (and tail) for the probes."""
        if self.is_folder:
            return Sample(self.name, listing=self._listing())
        with self.open(quiet=True) as stream:
            head = stream.read(HEAD)
            whole = len(head) < HEAD
        if head.startswith(MAGIC):
            return self._database(head, whole)
        return Sample(self._shown_name(), head, b"" if whole else self._tail(), whole)

    def _database(self, head: bytes, whole: bool) -> Sample:
        """The sample of an SQLite database."""
        try:
            with self.local_path() as path:
                return Sample(self._shown_name(), head, whole=whole, tables=tables_of(path))
        except sqlite3.Error as error:
            return Sample(self._shown_name(), head, whole=whole, damage=str(error))

    def _shown_name(self) -> str:
        """The name of the file, in an archive that of the file in it."""
        if self._codec != "zip":
            return self.name
        with self._raw() as raw:
            return member_name(raw, self.path, self._member)

    def _listing(self) -> tuple[str, ...]:
        """The files in the folder and below it, but hidden ones, in the order of their names."""
        if "://" in self.path:
            from ktrace.input.stores import open_store

            return tuple(sorted(open_store(self.path).files()))
        found: list[str] = []
        for folder, folders, files in os.walk(self.path, onerror=self._refuse_listing):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            below = Path(folder).relative_to(self.path)
            found += [(below / name).as_posix() for name in files if not name.startswith(".")]
            if len(found) > MOST_FILES:
                raise InputError(
                    f"holds more than {MOST_FILES:,} files",
                    path=self.path,
                    expected="a folder of traces",
                    remedy="name one further in",
                )
        return tuple(sorted(found))

    def _refuse_listing(self, error: OSError) -> None:
        raise InputError(f"can't be listed: {error.strerror}", path=self.path, remedy="chmod +rx, or copy it") from None

    def _tail(self) -> bytes:
        """The last bytes of a plain file, nothing where they can't be had without reading it all."""
        with self._raw() as raw:
            if not raw.seekable() or codec_of(raw.read(4)):
                return b""
            raw.seek(-TAIL, os.SEEK_END)
            return raw.read()

    def open(self, *, quiet: bool = False) -> BinaryIO:
        """The decompressed bytes as a stream.

        Compressed data that ends too early is an ordinary end of the stream, told to `on_cut` (not where
        `quiet`). `progress` is told how many stored bytes were taken.
        """
        raw: BinaryIO = self._raw()
        if self.progress and not quiet:
            raw = io.BufferedReader(_Counted(raw, self.progress))
        self._codec = codec_of(_peek(raw))
        if self._codec is None:
            return raw
        return unpacked(raw, self._codec, self.path, None if quiet else self.on_cut, self._member)

    def in_ranges(self) -> bool:
        """Whether ranges of its bytes can be had: it isn't compressed, and is a file, or at a URL that allows it."""
        with self._raw() as raw:
            return raw.seekable() and codec_of(raw.read(4)) is None

    @contextmanager
    def local_path(self) -> Iterator[Path]:
        """A plain file on this machine that can be seeked: the input itself, or a temporary copy of it.

        Standard input, a URL and compressed input are copied, once; the copy lives as long as the source.
        """
        plain = self._file != "-" and Path(self._file).is_file()
        if plain:
            with self._raw() as raw:
                plain = codec_of(raw.read(4)) is None
        yield Path(self._file) if plain else self._copied()

    def _copied(self) -> Path:
        """The decompressed bytes as a temporary file."""
        if self._copy is None:
            folder = tempfile.mkdtemp(prefix="ktrace.")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            copy = Path(folder) / (self.name or "input")
            with self.open() as stream, copy.open("wb") as target:
                shutil.copyfileobj(stream, target, 1 << 20)
            self._copy = copy
        return self._copy

    def _raw(self) -> BinaryIO:
        """The stored bytes."""
        if self._file == "-":
            return self._stdin()
        if "://" in self._file:
            return self._remote()
        try:
            mode = os.stat(self._file).st_mode  # noqa: PTH116 (pathlib takes "" for the current folder)
            if stat.S_ISFIFO(mode):
                return self._fifo()
            if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                raise InputError("is a device", path=self.path, expected="a file", remedy="'-' is standard input")
            return open(self._file, "rb")
        except IsADirectoryError:
            raise InputError("is a folder", path=self.path, expected="a file", remedy="name the file in it") from None
        except FileNotFoundError:
            raise InputError("no such file", path=self.path, remedy="check the spelling and the folder") from None
        except PermissionError:
            raise InputError("no permission to read it", path=self.path, remedy="chmod +r, or copy it") from None
        except OSError as error:
            raise InputError(
                f"can't be opened: {error.strerror}", path=self.path, expected="a file", remedy="name another one"
            ) from None

    def _stdin(self) -> BinaryIO:
        """Standard input."""
        if sys.stdin is None:
            raise InputError("standard input is closed", path=self.path, remedy="name a file, or pipe one in")
        return self._spooled(sys.stdin.buffer)

    def _fifo(self) -> BinaryIO:
        """A named pipe, which can be read only once."""
        if self._spool:
            return self._spooled(self._spool)
        with open(self._file, "rb") as pipe:
            return self._spooled(pipe)

    def _spooled(self, stream: IO[bytes]) -> BinaryIO:
        """What can be read only once, kept in a temporary file so that it can be looked at and then read."""
        if self._spool is None:
            spool = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the source)
            weakref.finalize(self, spool.close)
            shutil.copyfileobj(stream, spool, 1 << 20)
            spool.flush()
            self._spool = spool
        again = os.fdopen(os.dup(self._spool.fileno()), "rb")
        again.seek(0)
        return again

    def _remote(self) -> BinaryIO:
        """A URL, by fsspec."""
        fsspec = import_extra("fsspec", "remote", "reading a URL", path=self.path)
        try:
            opened: BinaryIO = fsspec.open(self._file, "rb").open()
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"can't be opened: {error}", path=self.path) from None
        return opened


def stem(path: str) -> str:
    """The label of a path: its file name without suffixes that say only how it is stored."""
    name = printable(split_member(path)[1] or path)
    name = "stdin" if path == "-" else PurePosixPath(name.replace(os.sep, "/").rstrip("/")).name
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return name.rsplit(".", 1)[0] or name


def printable(path: str) -> str:
    """The path as text that can be written; bytes in it that are no UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


def _peek(raw: BinaryIO) -> bytes:
    head = raw.read(4)
    raw.seek(0)
    return head


class _Counted(io.RawIOBase):
    """A stream that tells how many bytes were taken from it."""

    def __init__(self, raw: BinaryIO, progress: Callable[[int], None]) -> None:
        self._raw = raw
        self._progress = progress

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._raw.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._raw.seek(offset, whence)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self._progress(len(data))
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()
