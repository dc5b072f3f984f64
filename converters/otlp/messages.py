"""Protobuf messages as the objects that OTLP JSON has, and the framing of files of them.

The field numbers are those of opentelemetry-proto 1.x (trace/v1, common/v1, resource/v1). Field 2 of ResourceSpans was
`instrumentation_library_spans` until 0.15, with the same numbers inside; 0.15 to 0.18 had these as field 1000.

    0a .. ..                       a message: resource spans
    00 00 07 bd  0a .. ..          its length in 4 bytes, big endian: the collector's file exporter
    00 00 03 10  28 b5 2f fd ..    the same with `compression: zstd`; the content may be JSON
    bd 0f  0a .. ..                its length as a varint: the file exporter of the specification
"""

from __future__ import annotations

import base64
import io
import math
import re
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from ktrace.input.limits import current
from ktrace.kit.columnar.protobuf import NamedField, Shape, message, signed_one

#: Greatest number of bytes of a message that is read whole: a span, a resource, a compressed batch.
LARGEST = 64 << 20

ZSTD = b"\x28\xb5\x2f\xfd"


_CONTROL = re.compile(rb"[\x00-\x07\x0e-\x1a]")

#: How JSON begins. "{" and a line end are also the length of a message and its first tag.
_JSON = re.compile(rb'\s*(?:\[\s*)?\{\s*"')


class Damaged(Exception):
    """Bytes that aren't the message. `cut`: they end too early."""

    def __init__(self, what: str, *, cut: bool = False) -> None:
        super().__init__(what)
        self.cut = cut


_ANY = message("stringValue: text, boolValue: bool, intValue: int, doubleValue: double, 7 bytesValue: base64")
_PAIR = message("key: text, value: any", any=_ANY)
_ANY |= message(
    "5 arrayValue: list, kvlistValue: pairs",
    list=message("values: any*", any=_ANY),
    pairs=message("values: pair*", pair=_PAIR),
)

RESOURCE = message("attributes: pair*, droppedAttributesCount: int", pair=_PAIR)
SCOPE = message("name: text, version: text, attributes: pair*", pair=_PAIR)
SPAN = message(
    "traceId: hex, spanId: hex, traceState: text, parentSpanId: hex, name: text, kind: int, startTimeUnixNano: fixed",
    "endTimeUnixNano: fixed, attributes: pair*, droppedAttributesCount: int, events: event*, droppedEventsCount: int",
    "links: link*, droppedLinksCount: int, status: status, flags: fixed",
    pair=_PAIR,
    event=message("timeUnixNano: fixed, name: text, attributes: pair*, droppedAttributesCount: int", pair=_PAIR),
    link=message(
        "traceId: hex, spanId: hex, traceState: text, attributes: pair*, droppedAttributesCount: int, flags: fixed",
        pair=_PAIR,
    ),
    status=message("2 message: text, code: int"),
)

_WIRE = {"text": 2, "hex": 2, "base64": 2, "bool": 0, "int": 0, "double": 1, "fixed": 1}

#: How deep values may contain values, as in protobuf's own parsers.
_DEEPEST = 100


def decode(data: bytes, shape: Shape, depth: int = 0) -> dict[str, Any]:
    """The members of a message, without fields that it doesn't define. Raises Damaged."""
    if depth > _DEEPEST:
        raise Damaged("values nested too deeply")
    values: dict[str, Any] = {}
    pos, size = 0, len(data)
    while pos < size:
        tag, pos = varint(data, pos)
        wire = tag & 7
        if wire == 0:
            raw, pos = varint(data, pos)
        elif wire in (1, 5):
            raw, pos = pos, pos + (8 if wire == 1 else 4)
        elif wire == 2:
            length, raw = varint(data, pos)
            pos = raw + length
        else:
            raise Damaged(f"a field of wire type {wire}")
        if pos > size:
            raise Damaged("a field that is longer than its message")
        field = shape.get(tag >> 3)
        if field is None:
            continue
        value = _value(data, raw, pos, wire, field, depth)
        if field.many:
            values.setdefault(field.name, []).append(value)
        else:
            values[field.name] = value
    return values


def _value(data: bytes, raw: int, end: int, wire: int, field: NamedField, depth: int) -> Any:
    """The value of a field: a varint `raw`, or the bytes from `raw` to `end`."""
    kind = field.how
    if isinstance(kind, dict):
        if wire != 2:
            raise Damaged(f"{field.name} isn't a message")
        return decode(data[raw:end], kind, depth + 1)
    if wire != _WIRE[kind] and not (kind == "fixed" and wire == 5):
        raise Damaged(f"{field.name} has the wire type {wire}")
    if kind == "text":
        return data[raw:end].decode("utf-8", "replace")
    if kind == "hex":
        return data[raw:end].hex()
    if kind == "base64":
        return base64.b64encode(data[raw:end]).decode()
    if kind == "bool":
        return raw != 0
    if kind == "int":
        return signed_one(raw)
    if kind == "fixed":
        return int.from_bytes(data[raw:end], "little")
    number = struct.unpack("<d", data[raw:end])[0]
    return (
        number if math.isfinite(number) else "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    )


def varint(data: bytes, pos: int) -> tuple[int, int]:
    """The varint at a position, and where it ends. Raises Damaged."""
    value = shift = 0
    while True:
        if pos >= len(data) or shift > 63:
            raise Damaged("an unterminated number", cut=pos >= len(data))
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, pos
        shift += 7


def framing(head: bytes) -> str:
    """How the file begins: "message", "length" (4 bytes), "varint", or "" for text.

    A message has control characters, such as the tag 12 of its second field; text has none, unless it is damaged.
    """
    if not _CONTROL.search(head) or _JSON.match(head):
        return ""
    if len(head) >= 5 and head[0] < 4 and (head[4:5] in (b"\x0a", b"{") or head[4:8] == ZSTD):
        return "length"
    if head[:1] == b"\x0a":
        return "message"
    try:
        _, pos = varint(head[:10], 0)
    except Damaged:
        return ""
    return "varint" if head[pos : pos + 1] == b"\x0a" else ""


class Bytes:
    """A stream of bytes with its position."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.pos = 0

    def read(self, size: int) -> bytes:
        """The next bytes. Raises Damaged where fewer are left, or where they are too many to be read at once."""
        if size > LARGEST:
            raise Damaged(f"a message of {size:,} bytes")
        data = self._stream.read(size)
        self.pos += len(data)
        if len(data) < size:
            raise Damaged("the end of a message is missing", cut=True)
        return data

    def read_some(self, size: int) -> bytes:
        """The next bytes, fewer at the end of the stream."""
        data = self._stream.read(size)
        self.pos += len(data)
        return data

    def varint(self) -> int | None:
        """The next varint; None at the end of the stream. Raises Damaged."""
        data = self._stream.read(1)
        while data and data[-1] >= 0x80 and len(data) < 11:
            data += self._stream.read(1) or b"\0"
        self.pos += len(data)
        return varint(data, 0)[0] if data else None

    def skip(self, size: int) -> None:
        """Reads over bytes. Raises Damaged where they end too early."""
        while size > 0:
            size -= len(self.read(min(size, 1 << 20)))


def fields(data: Bytes, end: int | None) -> Iterator[tuple[int, int]]:
    """Yields the number and the length of each field up to a position (None: the end of the stream).

    The caller reads the bytes of a field before it takes the next one. Fields of other types are read over. Raises
    Damaged.
    """
    while end is None or data.pos < end:
        tag = data.varint()
        if tag is None:
            if end is not None:
                raise Damaged("the end of a message is missing", cut=True)
            return
        wire = tag & 7
        if wire == 2:
            length = data.varint()
            if length is None:
                raise Damaged("the end of a message is missing", cut=True)
            if end is not None and data.pos + length > end:
                raise Damaged("a field that is longer than its message")
            yield tag >> 3, length
        elif wire == 0:
            data.varint()
        elif wire in (1, 5):
            data.skip(8 if wire == 1 else 4)
        else:
            raise Damaged(f"a field of wire type {wire}")


def unpacked(data: bytes) -> BinaryIO:
    """The content of a frame as a stream, decompressed."""
    if data.startswith(ZSTD):
        data = current().whole(pa.CompressedInputStream(pa.BufferReader(data), "zstd"))
    return io.BufferedReader(io.BytesIO(data))
