"""Input as a stream of what it contains: from gzip, zstd and one file of a zip or tar archive, and text as UTF-8.

The content decides how it is compressed, not the name.
"""

from __future__ import annotations

import codecs
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from ktrace.errors import DamagedInput, InputError
from ktrace.input.limits import current

if TYPE_CHECKING:
    import tarfile

#: What the library raises for an archive whose directory or heads have odd values; OSError: a place before the file.
_ZIP_FAULTS = (
    *(zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError, IndexError, OSError),
)

#: What reading compressed data raises where it is damaged or cut off.
_FAULTS = (*_ZIP_FAULTS, EOFError, zlib.error, lzma.LZMAError, RuntimeError)

#: Suffixes of compressed files, from the outside in.
PACKED = (".gz", ".zst", ".zip", ".tgz", ".tar")

#: Suffixes of archives, whose files have names of their own.
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst")

#: Bytes at the start that tell how a file is packed: the mark of a tar archive follows 257 bytes.
CODEC_HEAD = 262

#: Compressed bytes that are inflated at once. Of damaged data the rest of these bytes is lost.
_BLOCK = 1 << 14

#: Most bytes of one read.
_GIVEN = 1 << 18


def codec_of(head: bytes) -> str | None:
    """Returns the compression by the first `CODEC_HEAD` bytes: gzip, zstd, zip or tar; None for plain data."""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"PK\x03\x04"):
        return "zip"
    skippable = head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5  # a zstd frame of metadata; data follows
    if head.startswith(b"\x28\xb5\x2f\xfd") or skippable:
        return "zstd"
    return "tar" if head[257:262] == b"ustar" else None


def unpacked(
    raw: BinaryIO, codec: str, path: str, on_cut: Callable[[str, str], None] | None, member: str | None = None
) -> BinaryIO:
    """Returns the decompressed bytes of `raw` as a stream.

    Data that ends too early is an ordinary end of the stream, told to `on_cut`. Of a zip archive it is the only file,
    or `member`. Raises DamagedInput for what can't be decompressed from its start, and for a bomb where it is read;
    InputError for several files.
    """
    stream: BinaryIO
    size: int | None = None
    if codec == "gzip":
        stream = _Inflated(raw)  # type: ignore[assignment]
    elif codec == "zip":
        stream, size = _unzipped(raw, path, member)
    else:
        import pyarrow as pa

        stream = pa.CompressedInputStream(pa.PythonFile(raw), "zstd")
    return io.BufferedReader(_Whole(stream, path, on_cut, raw if size is None else size), _GIVEN)


def split_member(path: str) -> tuple[str, str | None]:
    """Returns archive and file of a path like `traces.zip!rank0/trace.json`; (path, None) for other paths."""
    head, mark, member = path.partition("!")
    return (head, member) if mark and member and head.lower().endswith(ARCHIVES) else (path, None)


def member_name(raw: BinaryIO, path: str, member: str | None) -> str:
    """Returns the name, without folders, of the file in a zip archive."""
    with _opened(raw, path) as archive:
        return PurePosixPath(_member(archive, path, member).filename).name


def _unzipped(raw: BinaryIO, path: str, member: str | None) -> tuple[BinaryIO, int]:
    """Returns the content of the file in the archive as a stream, and the bytes that are stored of it."""
    archive = _opened(raw, path)
    info = _member(archive, path, member)
    try:
        opened: BinaryIO = archive.open(info)  # type: ignore[assignment]
    except RuntimeError:  # it needs a password
        raise InputError("is encrypted", path=path, remedy="unzip it first") from None
    except _ZIP_FAULTS as error:
        raise InputError(f"can't be unzipped: {error}", path=path, remedy="unzip it with another program") from None
    return opened, min(info.compress_size, raw.seek(0, io.SEEK_END))


def _opened(raw: BinaryIO, path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(raw)
    except (*_ZIP_FAULTS, RuntimeError) as error:
        raise DamagedInput(
            f"the zip archive is damaged: {error}",
            path=path,
            expected="a whole file: the directory of an archive is at its end",
            remedy="copy or export it again",
        ) from None


def _member(archive: zipfile.ZipFile, path: str, member: str | None) -> zipfile.ZipInfo:
    """Returns the file to read. Raises InputError with the names of the files if there isn't exactly one."""
    files = [
        info for info in archive.infolist() if not info.filename.endswith("/") and "__MACOSX/" not in info.filename[:9]
    ]
    matching = [info for info in files if member in (None, info.filename)]
    if len(matching) == 1:
        return matching[0]
    raise _not_one([info.filename for info in files], path, member)


def untarred(
    open_archive: Callable[[], BinaryIO], path: str, on_cut: Callable[[str, str], None] | None, member: str | None
) -> tuple[BinaryIO, str]:
    """Returns the content of the only file in a tar archive, or of `member`, as a stream, and its name.

    The archive is read twice: its files follow one another, without a directory. Links and devices aren't files here.
    Raises as `unpacked` does.
    """
    names = [info.name for info, _ in _tar_files(open_archive(), path)]
    matching = [name for name in names if member in (None, name)]
    if len(matching) != 1:
        raise _not_one(names, path, member)
    files = _tar_files(open_archive(), path)
    for info, content in files:
        if info.name == matching[0]:
            stream = _Whole(content, path, on_cut, info.size, files)
            return io.BufferedReader(stream, _GIVEN), PurePosixPath(info.name).name
    raise _not_one([], path, member)  # it changed since


def _tar_faults() -> tuple[type[Exception], ...]:
    """The exceptions of a damaged tar archive; the library is imported only to read one."""
    import tarfile

    return (*_FAULTS, tarfile.TarError)


def _tar_files(raw: BinaryIO, path: str) -> Generator[tuple[tarfile.TarInfo, BinaryIO]]:
    """Yields the files of a tar archive up to where it is cut off, each to be read before the next one; closes it."""
    import tarfile

    some = False
    try:
        with tarfile.open(fileobj=raw, mode="r|") as archive:
            for info in archive:
                content = archive.extractfile(info) if info.isreg() and not info.issparse() else None
                if content is not None and not PurePosixPath(info.name).name.startswith("._"):
                    some = True
                    yield info, content  # type: ignore[misc]
    except _tar_faults() as error:
        if not some:
            raise DamagedInput(
                f"the tar archive is damaged: {error}",
                path=path,
                expected="a whole archive",
                remedy="copy or export it again",
            ) from None
    finally:
        raw.close()


def _not_one(files: list[str], path: str, member: str | None) -> InputError:
    """The error of an archive that hasn't exactly one file of a name."""
    names = ", ".join(files[:8]) + (f" and {len(files) - 8} more" if len(files) > 8 else "")
    if member is not None:
        what = f"there is no {member} in it, but {names or 'nothing'}"
    else:
        what = f"contains {len(files)} files: {names}" if files else "is an empty archive"
    remedy = f"name one of them: '{path.partition('!')[0]}!{files[0]}'" if files else "check what wrote it"
    return InputError(what, path=path, expected="one file in the archive", remedy=remedy)


class _Inflated:
    """The content of gzip data, member after member, by ISA-L, which is three times as fast as zlib."""

    def __init__(self, raw: BinaryIO) -> None:
        from isal import isal_zlib

        make: Any = isal_zlib
        self._new: Callable[[], Any] = lambda: make.decompressobj(31)  # 15 bits of window, gzip's head and sum
        self._error: tuple[type[Exception], ...] = (make.error,)
        self._raw = raw
        self._member = self._new()
        self._input = b""
        self._output = memoryview(b"")

    def read1(self, size: int) -> memoryview:
        """Returns up to `size` bytes, none at the end. Raises EOFError or OSError if the data is cut or damaged."""
        while not self._output:
            data = self._input or self._raw.read(_BLOCK)
            self._input = b""
            if self._member.eof:
                if not data:
                    break
                data = data.lstrip(b"\0")  # tapes and block devices append zeros
                if not data:
                    continue
                self._member = self._new()
            elif not data:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            try:
                # No maximum length: with one, ISA-L withholds bytes at the end of a cut file.
                self._output = memoryview(self._member.decompress(data))
            except self._error as error:
                raise OSError(str(error)) from None
            if self._member.eof:
                self._input = self._member.unused_data
        given, self._output = self._output[:size], self._output[size:]
        return given

    def close(self) -> None:
        """Closes the stored data."""
        self._raw.close()


class _Whole(io.RawIOBase):
    """Decompressed data. Where it breaks off, `on_cut` is called and the stream ends normally.

    `stored` is the number of its stored bytes, or the stream of them, `files` those of the archive that it is
    in, which are closed with it. Raises DamagedInput where they give too many.
    """

    def __init__(
        self,
        stream: BinaryIO,
        path: str,
        on_cut: Callable[[str, str], None] | None,
        stored: BinaryIO | int,
        files: Generator[Any] | None = None,
    ) -> None:
        self._stream, self._files = stream, files
        self._faults: tuple[type[Exception], ...] = _FAULTS if files is None else _tar_faults()
        self._path = path
        self._on_cut = on_cut
        self._stored = stored
        self._limits = current()
        self._taken = 0
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._ended:
            return 0
        try:
            data = self._stream.read1(min(len(buffer), _GIVEN))  # type: ignore[attr-defined]
        except self._faults as error:
            data = memoryview(b"")
            if not self._taken:
                raise DamagedInput(
                    f"the compressed data is damaged: {error}",
                    path=self._path,
                    expected="whole gzip, zstd, zip or tar data",
                    remedy="copy or export it again",
                ) from None
            if self._on_cut:
                self._on_cut(f"byte {self._taken} of the decompressed data", str(error))
        self._ended = len(data) == 0
        self._taken += len(data)
        if self._taken > self._limits.unpacked:
            stored = self._stored if isinstance(self._stored, int) else self._stored.tell()
            self._limits.check_inflated(self._taken, stored, self._path)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        if self._files is not None:
            self._files.close()
        super().close()


class Chunked(io.RawIOBase):
    """A stream of the bytes of chunks, which are made of another stream; that is closed with it."""

    def __init__(self, raw: BinaryIO, chunks: Iterator[bytes]) -> None:
        self._raw, self._chunks, self._kept = raw, chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._kept:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._kept = chunk
        data, self._kept = self._kept[: len(buffer)], self._kept[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _recoded(stream: BinaryIO, encoding: str) -> Iterator[bytes]:
    """The text of a stream in UTF-8, whatever its encoding."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    while data := stream.read(1 << 16):
        yield decoder.decode(data).encode()
    yield decoder.decode(b"", final=True).encode()


#: Control characters that texts don't have.
_CONTROL = bytes({*range(32)} - {*b"\t\n\r\f\x1b\b"})


def text_encoding(head: bytes) -> str | None:
    """Returns the encoding of a text with this head, None if it is binary. UTF-16 needs a byte order mark."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    start = head[:4096]
    if b"\0" in start:
        return None
    control = len(start) - len(start.translate(None, _CONTROL))
    return None if control * 50 > len(start) else "utf-8"


def mark_size(stream: BinaryIO) -> int:
    """The number of bytes of the mark of UTF-8 at the start of a stream, which `utf8` leaves out."""
    return 3 if stream.peek(4)[:3] == b"\xef\xbb\xbf" else 0  # type: ignore[attr-defined]


def utf8(stream: BinaryIO) -> BinaryIO:
    """The stream in UTF-8, without its byte order mark."""
    if text_encoding(stream.peek(4)[:4]) == "utf-16":  # type: ignore[attr-defined]
        return io.BufferedReader(Chunked(stream, _recoded(stream, "utf-16")), 1 << 16)
    stream.read(mark_size(stream))
    return stream
