"""An input as a stream: a file, a folder, standard input or a URL, decompressed from gzip, zstd and zip.

A probe gets a `Sample`: the head of the input, the tail where that is cheap, the tables of a database, the files of a
folder. A reader opens the whole input as a stream.
"""

from __future__ import annotations

import io
import os
import re
import sqlite3
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, BinaryIO

from ktrace.errors import InputError, import_extra
from ktrace.input.boundary import input_faults
from ktrace.input.compression import (
    CODEC_HEAD,
    PACKED,
    Chunked,
    codec_of,
    member_name,
    split_member,
    text_encoding,
    unpacked,
    untarred,
)
from ktrace.input.files import NotRegular, files_in, is_confined, name_of_open, open_file
from ktrace.input.limits import NONE, copied, temporary_copy
from ktrace.input.ranks import Part
from ktrace.input.sqlite_file import MAGIC, Tables, tables_of
from ktrace.input.wrapping import Wrapping, unwrapped
from ktrace.naming.alike import near

_JSON = re.compile(r"\s*(?:\{\s*(?:[\"}]|\Z)|\[\s*(?:[\[{\"\]]|\Z))")

HEAD = 1 << 20
TAIL = 1 << 16

#: The most files of a folder that are compared with a name that isn't there.
_NEAR_FILES = 2_000

#: After the name of a file: the mapping of its columns, kept next to it (`mapping.py` beside this).
MAPPING_SUFFIX = ".ktrace.toml"

_WINDOW = 4 << 20

#: Suffixes of compressed outputs.
COMPRESSED = (".gz", ".zst")


def begins_as_json(text: str) -> bool:
    """Whether a text begins as a JSON object or list does."""
    return _JSON.match(text) is not None


@dataclass(frozen=True)
class Sample:
    """The part of an input that a probe sees.

    `name` is the file's name without a compression suffix, `head` its first bytes (at most 1 MiB, decompressed), `tail`
    its last bytes (empty where the file can't be seeked or `head` is all of it); `whole` tells whether `head` is all
    of it. For an SQLite database `tables` are its tables with their columns, or `damage` is why they can't be read.
    For a folder `listing` has the files in it and below it ("host/12_kernel_trace.csv"), and the head is empty.
    `mapping` is the file with a mapping of its columns that is kept next to it, '' if there isn't one.
    """

    name: str
    head: bytes = b""
    tail: bytes = b""
    whole: bool = True
    listing: tuple[str, ...] | None = None
    tables: Tables | None = None
    damage: str = ""
    mapping: str = ""

    @cached_property
    def text(self) -> str | None:
        """The head as text, None if it is binary."""
        encoding = text_encoding(self.head)
        if encoding is None:
            return None
        return self.head.decode(encoding, "replace").removeprefix("\ufeff")

    @cached_property
    def folded(self) -> str:
        """The text in lower case, empty if the head is binary."""
        return (self.text or "").lower()

    @cached_property
    def _searched(self) -> tuple[str, str]:
        """Head and tail in lower case; those of a binary input byte for byte, since it may be a text with odd bytes."""
        if self.text is None:
            return self.head.decode("latin-1").lower(), self.tail.decode("latin-1").lower()
        return self.folded, self.tail.decode("utf-8", "replace").lower()

    def has_any(self, words: Iterable[str], reach: int | None = None) -> bool:
        """Whether head (or its first `reach` characters) or tail of a text have one of the words, in lower case."""
        head, tail = self._searched
        return any(head.find(word, 0, reach) >= 0 or word in tail for word in words)

    @cached_property
    def is_json(self) -> bool:
        """Whether the input begins as a JSON object or list; `{'loss': 2.3}`, `[browser:error]`, `[12:34]` don't."""
        return begins_as_json(self.text or "")

    @cached_property
    def line_starts(self) -> list[int]:
        """Where each line of `folded` begins; the last number is its length."""
        return [0, *accumulate(map(len, self.folded.splitlines(keepends=True)))]

    @cached_property
    def lines(self) -> list[str]:
        """The lines of `text` without a last one that may be cut; none if the head is binary."""
        lines = (self.text or "").splitlines()
        return lines if self.whole else lines[:-1]


@dataclass
class Source:
    """One input. `path` is as the user gave it; `label` names its rows. `traces.zip!a.json` is a file in an archive.

    `stand_in` is a local file with the same content that is read instead of `path`. `regular` is set for what nobody
    named, such as a file of a folder: it must be a regular file, where others may be pipes. Where a `wrapping` is set,
    its text is read without that. A `part` is the text of one of several processes in it.

    Its methods raise InputError, with a remedy, if the input can't be opened.
    """

    path: str
    label: str = ""
    on_cut: Callable[[str, str], None] | None = None
    progress: Callable[[int], None] | None = None
    stand_in: Path | None = None
    regular: bool = False
    wrapping: Wrapping | None = None
    part: Part | None = None
    _spool: IO[bytes] | None = field(default=None, repr=False)
    _copy: Path | None = field(default=None, repr=False)
    _file: str = field(init=False, repr=False)
    _member: str | None = field(init=False, repr=False)
    _codec: str | None = field(init=False, default=None, repr=False)
    _inner: str = field(init=False, default="", repr=False)

    def __post_init__(self) -> None:
        self.label = self.label or stem(self.path)
        self._file, self._member = (str(self.stand_in), None) if self.stand_in else split_member(self.path)

    def with_stand_in(self, file: Path) -> Source:
        """Returns the same input, read from another file with the same content."""
        return Source(self.path, self.label, self.on_cut, stand_in=file)

    @cached_property
    def is_folder(self) -> bool:
        """Whether the input is a folder: a local one, or a URL that ends in '/'."""
        if self.stand_in:
            return False
        if "://" in self.path:
            return self.path.endswith("/")
        # pathlib reads "" as the current folder, and raises without permission.
        return self.path != "-" and os.path.isdir(self.path)  # noqa: PTH112

    @property
    def name(self) -> str:
        """The file's name without a compression suffix."""
        name = "stdin" if self.path == "-" else PurePosixPath((self._member or self.path).replace(os.sep, "/")).name
        for suffix in PACKED:
            name = name.removesuffix(suffix)
        return name

    @property
    def before(self) -> tuple[int, int]:
        """The lines before its text, and their bytes, which aren't read."""
        return (self.wrapping.lines, self.wrapping.size) if self.wrapping else (0, 0)

    @cached_property
    def mapping(self) -> Path | None:
        """The mapping kept next to a local file, `run.csv.ktrace.toml` of `run.csv` and of `run.csv.gz`; else None."""
        if self.path == "-" or "://" in self.path:
            return None
        plain = next((self.path.removesuffix(suffix) for suffix in PACKED if self.path.endswith(suffix)), self.path)
        names = dict.fromkeys((self.path + MAPPING_SUFFIX, plain + MAPPING_SUFFIX))
        return next((path for path in map(Path, names) if path.is_file()), None)

    @cached_property
    def size(self) -> int | None:
        """The stored size of the input in bytes, None if it isn't known."""
        return None if self._file == "-" or "://" in self._file else Path(self._file).stat().st_size

    @cached_property
    def stored(self) -> int:
        """The stored bytes of the input, of a folder those of all its files; as good as infinite if not known."""
        if self.is_folder and "://" not in self.path:
            return sum((Path(self.path) / name).stat().st_size for name in self._listing())
        if self.is_folder:
            return NONE
        if self.size:
            return self.size
        with self._raw() as raw:
            return raw.seek(0, os.SEEK_END) if raw.seekable() else NONE

    def sample(self) -> Sample:
        """Returns the sample for the probes. Raises InputError for whatever keeps it from being read."""
        with input_faults(self.path):
            if self.is_folder:
                return Sample(self.name, listing=self._listing())
            with self.open(quiet=True) as stream:
                head = stream.read(HEAD)
                whole = len(head) < HEAD
            if head.startswith(MAGIC):
                try:
                    with self.local_path() as path:
                        return Sample(self._shown_name(), head, whole=whole, tables=tables_of(path))
                except sqlite3.Error as error:
                    return Sample(self._shown_name(), head, whole=whole, damage=str(error))
            mapping = str(self.mapping or "")
            return Sample(self._shown_name(), head, b"" if whole else self._tail(), whole, mapping=mapping)

    def _shown_name(self) -> str:
        """Returns the name of the file; for an archive, the name of the file in it."""
        if self._codec == "tar":
            return self._inner
        if self._codec != "zip":
            return self.name
        with self._raw() as raw:
            return member_name(raw, self.path, self._member)

    def _listing(self) -> tuple[str, ...]:
        """Returns the files in the folder and below it in the order of their names, without hidden ones."""
        if "://" in self.path:
            from ktrace.input.stores import open_store

            return tuple(sorted(open_store(self.path).files()))
        try:
            return tuple(sorted(Path(name).as_posix() for name in files_in(self.path)))
        except OSError as error:
            why = f"can't be listed: {error.strerror}"
            raise InputError(why, path=self.path, remedy="chmod +rx, or copy it") from None

    def _tail(self) -> bytes:
        """Returns the last bytes of a plain file; none if that would need reading all of it."""
        with self._raw() as raw:
            if self.part or not raw.seekable() or codec_of(raw.read(CODEC_HEAD)):
                return b""
            raw.seek(-TAIL, os.SEEK_END)
            tail = raw.read()
        return self.wrapping.bare_text(tail) if self.wrapping else tail

    def beginning(self, size: int) -> bytes:
        """Returns the first decompressed bytes, for a reader that needs to know before it begins."""
        with self.open(quiet=True) as stream:
            return stream.read(size)

    def windows(self, overlap: int) -> Iterator[bytes]:
        """Yields the decompressed bytes in windows of 4 MB; each begins with the last bytes of the one before."""
        window = b""
        with self.open(quiet=True) as stream:
            while block := stream.read(_WINDOW):
                window = window[-overlap:] + block
                yield window

    def open(self, *, quiet: bool = False, bare: bool = True) -> BinaryIO:
        """Opens the decompressed bytes as a stream.

        Compressed data that ends too early ends the stream normally and calls `on_cut`. `progress` is called with the
        number of stored bytes at each read. Neither is called if `quiet`. Unless `bare`, lines keep the layers that
        their wrapping has, for a reader that takes them off itself and accounts for their bytes.
        """
        raw = self._unpacked(quiet=quiet)
        if self._codec == "tar" or (
            self._codec in ("gzip", "zstd") and codec_of(raw.peek(CODEC_HEAD)[:CODEC_HEAD]) == "tar"  # type: ignore[attr-defined]
        ):
            raw.close()
            on_cut = None if quiet else self.on_cut
            raw, self._inner = untarred(lambda: self._unpacked(quiet=True), self.path, on_cut, self._member)
            self._codec = "tar"
        if self.part:
            raw = io.BufferedReader(Chunked(raw, self.part.texts(raw)), 1 << 16)
        if self.wrapping is None:
            return raw
        wrapping = self.wrapping if bare else replace(self.wrapping, layers=())
        return io.BufferedReader(Chunked(raw, unwrapped(raw, wrapping)), 1 << 16)

    def _unpacked(self, *, quiet: bool) -> BinaryIO:
        """Opens the bytes that gzip, zstd or zip stored; a tar archive as it is."""
        raw: BinaryIO = self._raw()
        if self.progress and not quiet:
            raw = io.BufferedReader(_Counted(raw, self.progress))
        head = raw.read(CODEC_HEAD)
        raw.seek(0)
        self._codec = codec_of(head)
        if self._codec in (None, "tar"):
            return raw
        return unpacked(raw, self._codec, self.path, None if quiet else self.on_cut, self._member)

    def in_ranges(self) -> bool:
        """Whether ranges of its bytes can be read: it isn't compressed, and is a file or a URL that allows it."""
        if self.wrapping or self.part:
            return False
        with self._raw() as raw:
            return raw.seekable() and codec_of(raw.read(CODEC_HEAD)) is None

    @contextmanager
    def local_path(self) -> Iterator[Path]:
        """Yields a plain local file that can be seeked: the input itself, or a temporary copy of it.

        Standard input, a URL and compressed input are copied once; the copy lives as long as the source.
        """
        if self.wrapping or self.part or self._file == "-" or not Path(self._file).is_file():
            yield self._copied()
            return
        with self._raw() as raw:
            named: Path | None = None
            if codec_of(raw.read(CODEC_HEAD)) is None:
                named = name_of_open(raw) if is_confined() and not self.stand_in else Path(self._file)
            yield named or self._copied()

    def is_copy(self, path: Path) -> bool:
        """Whether a path that `local_path` gave is a copy, which no other program changes."""
        return path == self._copy

    def _copied(self) -> Path:
        """Copies the decompressed bytes to a temporary file."""
        if self._copy is None:
            with self.open() as stream:
                held = temporary_copy(stream, self.name or "input", self.path)
            weakref.finalize(self, held.remove)
            self._copy = held.path / (self.name or "input")
        return self._copy

    def _raw(self) -> BinaryIO:
        """Opens the stored bytes."""
        if self._file == "-":
            if sys.stdin is None:
                raise InputError("standard input is closed", path=self.path, remedy="name a file, or pipe one in")
            return self._spooled(sys.stdin.buffer)
        if "://" in self._file:
            return self._remote()
        try:
            return open_file(self._file, ours=self.stand_in is not None)
        except NotRegular as error:
            if error.is_pipe and not (self.regular or is_confined()):
                # a named pipe can be read only once
                if self._spool:
                    return self._spooled(self._spool)
                with open(self._file, "rb") as pipe:
                    return self._spooled(pipe)
            error.path = self.path
            raise
        except IsADirectoryError:
            raise InputError("is a folder", path=self.path, expected="a file", remedy="name the file in it") from None
        except FileNotFoundError:
            raise InputError(
                "no such file",
                path=self.path,
                expected=near_files(self._file),
                remedy="check the spelling and the folder",
            ) from None
        except PermissionError:
            raise InputError("no permission to read it", path=self.path, remedy="chmod +r, or copy it") from None
        except OSError as error:
            raise InputError(
                f"can't be opened: {error.strerror}", path=self.path, expected="a file", remedy="name another one"
            ) from None

    def _spooled(self, stream: IO[bytes]) -> BinaryIO:
        """Copies a stream that can be read only once to a temporary file, so that it can be sampled and then read."""
        if self._spool is None:
            spool = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the source)
            weakref.finalize(self, spool.close)
            copied(stream, spool, tempfile.gettempdir(), self.path)
            spool.flush()
            self._spool = spool
        again = os.fdopen(os.dup(self._spool.fileno()), "rb")
        again.seek(0)
        return again

    def _remote(self) -> BinaryIO:
        """Opens a URL by fsspec."""
        fsspec = import_extra("fsspec", "remote", "reading a URL", path=self.path)
        try:
            opened: BinaryIO = fsspec.open(self._file, "rb").open()
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"can't be opened: {error}", path=self.path) from None
        return io.BufferedReader(opened)  # type: ignore[type-var]  # readers of text peek


def stem(path: str) -> str:
    """Returns the label of a path: its file name without the suffixes of compression and file type."""
    name = printable(split_member(path)[1] or path)
    name = "stdin" if path == "-" else PurePosixPath(name.replace(os.sep, "/").rstrip("/")).name
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return name.rsplit(".", 1)[0] or name


def near_files(path: str) -> str | None:
    """Returns words on the files near to a path or pattern that names none, None if there are none."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for entry in islice(entries, _NEAR_FILES) if name[:1] == "." or entry.name[0] != "."]
    except OSError:
        return None
    alike = near(name, sorted(names))
    return f"a name such as {', '.join(map(printable, alike))}" if alike else None


def printable(path: str) -> str:
    """Returns the path as text that can be written; bytes that aren't UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


class _Counted(io.RawIOBase):
    """A stream that reports how many bytes were read from it."""

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


def file_in(folder: Source, path: str) -> Source:
    """Returns a file of a folder as a source of its own, whose cut is reported with its name."""
    on_cut = folder.on_cut
    named = on_cut and (lambda where, why: on_cut(f"{path}: {where}", why))
    return replace(folder, path=str(PurePath(folder.path) / path), on_cut=named, regular=True)
