"""Reads the container: the file header, the blocks, the entries of their payloads. One entry is in memory at a time.

Messages are decoded into dicts by the tables of `fields`; unknown fields are counted.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from ktrace.errors import DamagedInput
from ktrace.kit.columnar.protobuf import FIXED32, FIXED64, LENGTH, VARINT, Shape, fields_of, signed_one

from .fields import BLOCK, COMMAND_LISTS, FILE, GRAPHS, LAUNCHES, RANGES, SOURCES

_WIRE = {
    **dict.fromkeys(("int", "signed", "flag"), VARINT),
    **dict.fromkeys(("text", "raw"), LENGTH),
    **{"double": FIXED64, "float": FIXED32},
}


class Decoder:
    """Decodes messages. `unknown` counts fields that no table has, by message and number; `texts` counts bad UTF-8."""

    def __init__(self) -> None:
        self.unknown: Counter[tuple[str, int]] = Counter()
        self.texts = 0

    def message(self, data: bytes, shape: Shape, what: str) -> dict[str, Any]:
        """Returns the fields of a message by name; errors call it `what`. Raises ValueError if it can't be decoded."""
        decoded: dict[str, Any] = {}
        for number, wire, value in fields_of(data):
            field = shape.get(number)
            if field is None:
                self.unknown[what, number] += 1
            elif field.how != "skip":
                item = self._item(value, wire, field.how, f"{what}, {field.name}")
                if field.many:
                    decoded.setdefault(field.name, []).append(item)
                else:
                    decoded[field.name] = item
        return decoded

    def _item(self, value: int | bytes, wire: int, how: str | Shape, what: str) -> Any:
        wire_type = _WIRE[how] if isinstance(how, str) else LENGTH
        if wire != wire_type:
            raise ValueError(f"{what}: wire type {wire}, expected {wire_type}")
        if isinstance(value, bytes):
            if not isinstance(how, str):
                return self.message(value, how, what)
            return value if how == "raw" else self.text(value)
        if how == "double":
            return struct.unpack("<d", value.to_bytes(8, "little"))[0]
        if how == "float":
            return struct.unpack("<f", value.to_bytes(4, "little"))[0]
        if how == "signed":
            return signed_one(value)
        return bool(value) if how == "flag" else value

    def text(self, data: bytes) -> str:
        """Decodes bytes as text; replaces invalid UTF-8 and counts the text."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.texts += 1
            return data.decode("utf-8", "replace")


MAGIC = b"NVR\0"

#: The version of the files of Nsight Compute 2022 to 2024.
VERSION = 7

#: The most bytes of the file header, of a block header, and of an entry that is read.
_MOST_FILE, _MOST_BLOCK, MOST_ENTRY = 1 << 16, 1 << 25, 3 << 24

_KINDS = (SOURCES, LAUNCHES, RANGES, COMMAND_LISTS, GRAPHS)
_CHUNK = 1 << 20


class Broken(Exception):
    """The file can't be read any further: it ends at `place` (`cut`), or the bytes there aren't a block or entry."""

    def __init__(self, place: int, detail: str, *, cut: bool) -> None:
        super().__init__(detail)
        self.place, self.detail, self.cut = place, detail, cut


class Block(NamedTuple):
    """The header of a block, and the byte at which its payload begins."""

    header: dict[str, Any]
    payload: int


class Entry(NamedTuple):
    """An entry of a payload: its kind, its place, its size and its data, None if it is too large to be read."""

    kind: str
    place: int
    size: int
    data: bytes | None


class Container:
    """Reads the stream of a report block by block. Raises DamagedInput if the stream doesn't begin like a report."""

    def __init__(self, stream: BinaryIO, decoder: Decoder, path: str) -> None:
        self._stream, self._decoder = stream, decoder
        self._at = 0
        self.version = self._begin(path)

    def _begin(self, path: str) -> int:
        try:
            if self._take(4, "the first bytes") != MAGIC:
                raise Broken(0, "it doesn't begin with 'NVR'", cut=False)
            header = self._decoder.message(self._read_sized(_MOST_FILE, "the file header"), FILE, "file header")
        except (Broken, ValueError) as error:
            raise DamagedInput(
                f"isn't a report of Nsight Compute: {error}",
                path=path,
                where=f"byte {self._at}",
                expected="'NVR', a zero, and the header of the file",
                remedy="copy the file again, or profile again; `ncu --import` can't read it either",
            ) from None
        version: int = header.get("version", 0)
        return version

    def blocks(self) -> Iterator[Block]:
        """Yields the blocks. The caller may read a block's payload; the rest of it is skipped. Raises Broken."""
        while head := self._read(4):
            place = self._at - len(head)
            if len(head) < 4:
                raise Broken(place, "the length of a block's header is cut off", cut=True)
            size = struct.unpack("<I", head)[0]
            if size > _MOST_BLOCK:
                raise Broken(place, f"a block's header can't have {size:,} bytes", cut=False)
            try:
                header = self._decoder.message(self._take(size, "a block's header"), BLOCK, "block header")
            except ValueError as error:
                raise Broken(place, f"the header of a block can't be read ({error})", cut=False) from None
            block = Block(header, self._at)
            yield block
            self._skip_to(block.payload + header.get("size", 0))

    def entries(self, block: Block) -> Iterator[Entry]:
        """Yields the entries of the block that was yielded last. Raises Broken."""
        end = block.payload + block.header.get("size", 0)
        for kind in _KINDS:
            for _ in range(block.header.get(kind, 0)):
                place = self._at
                if place + 4 > end:
                    raise Broken(place, f"a block has fewer {kind} than its header states", cut=False)
                size = struct.unpack("<I", self._take(4, f"the length of one of the {kind}"))[0]
                if self._at + size > end:
                    raise Broken(place, f"one of the {kind} is longer than its block", cut=False)
                if size > MOST_ENTRY or kind == SOURCES:
                    yield Entry(kind, place, size, None)
                    self._skip_to(place + 4 + size)
                else:
                    yield Entry(kind, place, size, self._take(size, f"one of the {kind}"))

    def fields(self, entry: Entry, most: int) -> Iterator[tuple[int, int, bytes | int]]:
        """Yields (number, wire type, value) for each field of an entry without data. Raises Broken.

        A field of more than `most` bytes is skipped, and its value is its size.
        """
        end = self._at + entry.size
        while self._at < end:
            tag = self._varint(end)
            wire = tag & 7
            if wire == 0:
                yield tag >> 3, wire, self._varint(end)
                continue
            size = {1: 8, 5: 4}.get(wire) if wire != 2 else self._varint(end)
            if size is None or self._at + size > end:
                raise Broken(self._at, "an entry isn't protobuf", cut=False)
            if size > most:
                self._skip_to(self._at + size)
                yield tag >> 3, wire, size
            else:
                yield tag >> 3, wire, self._take(size, "a field")

    def _varint(self, end: int) -> int:
        value = shift = 0
        while self._at < end and shift < 70:
            byte = self._take(1, "a number")[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise Broken(self._at, "an unterminated number", cut=False)

    def _read_sized(self, most: int, what: str) -> bytes:
        size = struct.unpack("<I", self._take(4, f"the length of {what}"))[0]
        if size > most:
            raise Broken(self._at - 4, f"{size:,} bytes are too many for {what}", cut=False)
        return self._take(size, what)

    def _take(self, size: int, what: str) -> bytes:
        place = self._at
        data = self._read(size)
        if len(data) < size:
            raise Broken(place, f"{what} is cut off", cut=True)
        return data

    def _read(self, size: int) -> bytes:
        """Reads `size` bytes, or fewer at the end of the file. A wrong size can't allocate more than the file has."""
        chunks, missing = [], size
        while missing and (chunk := self._stream.read(min(missing, _CHUNK))):
            chunks.append(chunk)
            missing -= len(chunk)
        self._at += size - missing
        return b"".join(chunks)

    def _skip_to(self, place: int) -> None:
        """Skips to a place; reads the last byte before it, since a seek may go beyond the end of the file."""
        if self._stream.seekable() and place - self._at > _CHUNK:
            self._stream.seek(place - self._at - 1, 1)
            self._at = place - 1
        while self._at < place:
            if not self._read(min(place - self._at, _CHUNK)):
                raise Broken(self._at, "a block is cut off", cut=True)
