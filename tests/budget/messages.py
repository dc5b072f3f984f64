"""Inputs in binary formats: messages of protobuf, reports of Nsight Compute, pickles and MessagePack."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ktrace.converters.perfetto.wire import bytes_field, int_field, text_field

from .shapes import Record
from .source import Source
from .texts import Texts

_TIMELINE = frozenset(("name", "start", "extent", "track"))


@dataclass(frozen=True)
class Perfetto(Source):
    """Slices of a trace: a descriptor for each track, a packet for each begin and each end, in the order of time."""

    sample: str = "perfetto/phases-of-an-older-chrome.pftrace"

    @property
    def fields(self) -> frozenset[str]:
        """What a row has, as shapes ask for it."""
        return _TIMELINE | {"filling", "key"}

    def lacks(self, shape: str) -> str:
        """Returns why the shape has no meaning for these rows, or nothing."""
        return "a time has 64 bits" if shape == "number" else super().lacks(shape)

    def write(self, folder: Path, records: Iterator[Record]) -> Path:
        """Writes a trace."""
        path = folder / "made.pftrace"
        tracks: set[int] = set()
        packets: list[tuple[int, int, bytes]] = []
        with path.open("wb") as out:
            for record in records:
                if record.track not in tracks:
                    tracks.add(record.track)
                    track = int_field(1, 7 + record.track) + text_field(2, f"track {record.track}")
                    out.write(bytes_field(1, bytes_field(60, track) + int_field(10, 1)))
                own = int_field(11, 7 + record.track)
                begin = int_field(9, 1) + own + text_field(23, record.name or "slice") + _annotations(record)
                packets.append((record.start, 0, begin))
                packets.append((record.start + record.dur, 1, int_field(9, 2) + own))
            for ts, _, event in sorted(packets, key=lambda packet: packet[:2]):
                out.write(bytes_field(1, int_field(8, 1000 + ts) + int_field(10, 1) + bytes_field(11, event)))
        return path


def _annotations(record: Record) -> bytes:
    """The arguments of a row: one of its own, very many, or very many empty ones."""
    if not record.filling:
        return b""
    kind, _, size = record.filling.partition(" ")
    if kind == "keys":
        return bytes_field(4, text_field(10, f"key {size}") + int_field(4, 1))
    one = bytes_field(4, text_field(10, "a") + int_field(4, 1)) if kind == "row" else bytes_field(4, b"")
    return one * (int(size) // len(one) + 1)


@dataclass(frozen=True)
class XPlane(Source):
    """Events on the lines of a plane of a host, each with its metadata."""

    sample: str = "xplane/tpu-loop-sums-lines-backwards-since-1970.xplane.pb"

    @property
    def fields(self) -> frozenset[str]:
        """What a row has, as shapes ask for it."""
        return _TIMELINE

    def lacks(self, shape: str) -> str:
        """Returns why the shape has no meaning for these rows, or nothing."""
        return "a time has 64 bits" if shape == "number" else super().lacks(shape)

    def write(self, folder: Path, records: Iterator[Record]) -> Path:
        """Writes a space of one plane."""
        ids: dict[str, int] = {}
        lines: dict[int, list[bytes]] = {}
        for record in records:
            name = ids.setdefault(record.name or "event", len(ids) + 1)
            event = int_field(1, name) + int_field(2, 1000 * record.start) + int_field(3, 1000 * record.dur)
            lines.setdefault(record.track, []).append(bytes_field(4, event))
        plane = [text_field(2, "/host:CPU")]
        for track, events in lines.items():
            head = int_field(1, track + 1) + text_field(2, f"line {track}") + int_field(3, 1_767_323_045_000_000_000)
            plane.append(bytes_field(3, head + b"".join(events)))
        for name, number in ids.items():
            entry = int_field(1, number) + bytes_field(2, int_field(1, number) + text_field(2, name))
            plane.append(bytes_field(4, entry))
        path = folder / "made.xplane.pb"
        path.write_bytes(bytes_field(1, b"".join(plane)))
        return path


@dataclass(frozen=True)
class Report(Source):
    """Results of Nsight Compute: the block of one is repeated behind the others, with another name of the kernel."""

    sample: str
    name: str

    @property
    def fields(self) -> frozenset[str]:
        """What a row has, as shapes ask for it."""
        return frozenset(("name",))

    def write(self, folder: Path, records: Iterator[Record]) -> Path:
        """Writes the sample and a block for each row."""
        path = self.copy(folder)
        header, payload = next(block for block in _blocks(path.read_bytes()) if (2, 1) in _fields(block[0]))
        with path.open("ab") as out:
            for record in records:
                if record.name is None:
                    out.write(_sized(header) + payload)
                    continue
                entry = _sized(_renamed(payload[4:], self.name.encode(), record.name.encode()))
                out.write(_sized(int_field(2, 1) + int_field(5, len(entry))) + entry)
        return path


def _sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _blocks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The header and the payload of each block of a report."""
    at = 4
    (size,) = struct.unpack_from("<I", data, at)
    at += 4 + size
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        header = data[at + 4 : at + 4 + size]
        at += 4 + size
        length = next((value for number, value in _fields(header) if number == 5), 0)
        assert isinstance(length, int)
        yield header, data[at : at + length]
        at += length


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        else:
            size, at = (8 if tag & 7 == 1 else 4, at) if tag & 7 != 2 else _varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def _renamed(entry: bytes, old: bytes, new: bytes) -> bytes:
    """Returns a message with another text in a field of its own."""
    at, parts = 0, []
    while at < len(entry):
        begin = at
        tag, at = _varint(entry, at)
        if tag & 7 == 2:
            size, at = _varint(entry, at)
            value = entry[at : at + size]
            at += size
            if value == old:
                parts.append(bytes_field(tag >> 3, new))
                continue
        elif tag & 7 == 0:
            _, at = _varint(entry, at)
        else:
            at += 8 if tag & 7 == 1 else 4
        parts.append(entry[begin:at])
    return b"".join(parts)


@dataclass(frozen=True)
class Encoded(Source):
    """Rows of a document in JSON, in another encoding of the same values."""

    texts: Texts
    suffix: str
    encode: Callable[[Any], bytes]

    @property
    def sample(self) -> str:  # type: ignore[override]
        """The sample in JSON."""
        return self.texts.sample

    @property
    def fields(self) -> frozenset[str]:
        """What a row has, as shapes ask for it."""
        return self.texts.fields - {"filling", "key"}

    def lacks(self, shape: str) -> str:
        """Returns why the shape has no meaning for these rows, or nothing."""
        return "a time has 64 bits" if shape == "number" else super().lacks(shape)

    def write(self, folder: Path, records: Iterator[Record]) -> Path:
        """Writes the document."""
        path = self.texts.write(folder, (record._replace(name=_escaped(record.name)) for record in records))
        document = json.loads(path.read_text("utf-8"))
        path.unlink()
        made = path.with_suffix(self.suffix)
        made.write_bytes(self.encode(document))
        return made


def _escaped(name: str | None) -> str | None:
    return None if name is None else json.dumps(name)[1:-1]


def pickled(texts: Texts) -> Encoded:
    """Rows of a document in JSON as a pickle."""
    return Encoded(texts, ".pickle", pickle.dumps)


def packed(texts: Texts) -> Encoded:
    """Rows of a document in JSON as MessagePack."""
    return Encoded(texts, ".hatchet_msgpack", msgspec.msgpack.encode)
