"""A file as packets, the few packets that are read one by one, and what packets refer to: interned texts, defaults.

    0a 1c | 40 e8 07 50 01 5a 14 ..        tag and length of a packet, then its fields

    fields = gather(data)                             number -> values
    pid = int32(first(fields, DESCRIPTOR["pid"], 0))

    packet { sequence 7, flags CLEARED      interned_data { event_names { iid 1 "gemm" } } }    a state begins
    packet { sequence 7, flags NEEDS_STATE  track_event { name_iid 1 } }                        is "gemm"

The data of a packet are alternatives of one field (a oneof), of which protobuf keeps the last.
`ktrace.kit.columnar.protobuf` parses messages that occur once per event as columns; `gather` is for the others.
Texts become codes of one pool for the whole trace, so that a row's text is a number until it is written.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.errors import DamagedInput
from ktrace.input.snapshot import FileBytes
from ktrace.input.source import Source
from ktrace.kit.columnar.protobuf import LENGTH, Column, Fields, Value, bounds_of, fields_of, run_of, signed_one
from ktrace.kit.varint import varint
from ktrace.model.arrays import Bools, Float64, Int32, Int64, UInt8, UInt64
from ktrace.report import Report

from .. import field_numbers as f
from ..sidecar import Sidecar, parse_begin


def gather(data: bytes) -> dict[int, list[Value]]:
    """Returns field number -> values of a message. Raises ValueError if it isn't protobuf."""
    fields: dict[int, list[Value]] = {}
    for number, _, value in fields_of(data):
        fields.setdefault(number, []).append(value)
    return fields


def lenient(data: bytes) -> dict[int, list[Value]]:
    """Returns the same; an empty dict if the message isn't protobuf."""
    try:
        return gather(data)
    except ValueError:
        return {}


def first(fields: dict[int, list[Value]], number: int, default: Any) -> Any:
    """The value of a singular field if it has the type of the default, else the default. The last value wins."""
    value = fields.get(number, [default])[-1]
    return value if isinstance(value, type(default)) else default


def text(value: Value) -> str:
    """A text field; invalid UTF-8 becomes U+FFFD."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def message(value: Value) -> bytes:
    """A message field; empty if the value is a number."""
    return value if isinstance(value, bytes) else b""


def as_bytes(value: Value) -> bytes:
    """A message field. Raises ValueError if the value is a number."""
    if not isinstance(value, bytes):
        raise ValueError("a number where a message should be")
    return value


def int32(value: Any) -> int:
    """The value of an int32 field; the wire has 64 bits for a negative one."""
    low = int(value) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def int64(value: Any) -> int:
    """The signed value of 64 bits in two's complement."""
    return signed_one(int(value))


def double(value: Any) -> float:
    """The double with these 64 bits."""
    result: float = struct.unpack("<d", struct.pack("<Q", value))[0]
    return result


def bits(values: Int64) -> Float64:
    """The doubles with these bits."""
    return np.ascontiguousarray(values).view(np.float64)


def repeated(message: bytes, number: int, *, fixed: bool = False) -> list[int]:
    """The values of a repeated field of varints or `fixed` 64 bits, packed or not, up to where it isn't protobuf."""
    values: list[int] = []
    try:
        for field_number, _, value in fields_of(message):
            if field_number != number:
                continue
            if not isinstance(value, bytes):
                values.append(value)
            else:
                values += np.frombuffer(value, "<u8", len(value) // 8).tolist() if fixed else _varints(value)
    except ValueError:
        pass
    return values


def _varints(data: bytes) -> list[int]:
    """The varints of a packed field, without a last one that is cut off."""
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value & 0xFFFFFFFFFFFFFFFF)
            value = shift = 0
    return values


#: Packets that are read at once.
PACKETS = 1 << 16

#: UInt8 whose packets are located at once.
_BLOCK = 1 << 23

_PACKET = 1 << 3 | LENGTH
_TEST = f.TRACE_PACKET["for_testing"]

#: Bytes that are decompressed at once.
_PART = 1 << 20

#: The first packet of a trace that ktrace wrote is shorter.
_LONGEST_MARK = 1 << 12

Data = FileBytes | bytes


def packets(data: Data, report: Report, base: int = 0) -> Iterator[tuple[Int64, Int64]]:
    """Yields the starts and ends of packets, up to PACKETS at a time; counts packets, reports a cut end and damage.

    `base` is added to a place in `data` to name it.
    """
    at, size = 0, len(data)
    while at < size:
        first, block = at, data[at : at + _BLOCK]
        ends = run_of(block, 0, len(block), _PACKET)
        head = _what_follows(block, ends[-1] if ends else 0)
        cut = bool(ends) and first + ends[-1] > size
        if cut:
            ends.pop()
        begin, end = bounds_of(block, 0, ends)
        for part in range(0, len(ends), PACKETS):
            report.record(len(ends[part : part + PACKETS]))
            yield begin[part : part + PACKETS] + first, end[part : part + PACKETS] + first
        at = first + (ends[-1] if ends else 0)
        if cut or (head == _PACKET and not ends) or (head == _PACKET and len(block) < _BLOCK and at < size):
            report.record()
            report.issue("cut", f"byte {base + at}", "the last packet is cut off")
            return
        if head != _PACKET:
            report.record()
            report.issue(
                "cut", f"byte {base + at}", "what follows isn't a packet, and packets after it can't be located"
            )
            return


def _what_follows(block: bytes, here: int) -> int:
    """The first byte after the packets of a block; that of a packet, too, if the block ends there; 0 for no length."""
    try:
        if block[here] == _PACKET:
            varint(block, here + 1)
        return block[here]
    except IndexError:
        return _PACKET
    except ValueError:
        return 0


def inflated(kind: str, data: bytes, most: int) -> bytes:
    """Returns the packets that a packet contains compressed, only the first `most` bytes and one more of them.

    Raises ValueError if they can't be decompressed.
    """
    try:
        if kind == "compressed_packets":
            return zlib.decompressobj().decompress(data, most + 1)
        import pyarrow as pa

        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            parts, size = [], 0
            while size <= most and (part := stream.read(min(most + 1 - size, _PART))):
                parts.append(part)
                size += len(part)
            return b"".join(parts)
    except (zlib.error, OSError) as error:
        raise ValueError(str(error)) from None


def find_sidecar(data: Data) -> Sidecar | None:
    """Returns the sidecar that the first packet begins; None if ktrace didn't write the trace."""
    try:
        size, used = varint(data[1:12], 0)
        packet = data[1 + used : 1 + used + size] if size < _LONGEST_MARK and data[0] == _PACKET else b""
        return parse_begin(test_event_text(first(gather(packet), _TEST, b"")))
    except (IndexError, ValueError):
        return None


def test_event_text(event: bytes) -> str:
    """The text of a TestEvent, '' if it has none. Raises ValueError if it isn't protobuf."""
    return text(first(gather(event), f.TEST_EVENT["str"], b""))


@contextmanager
def opened(source: Source) -> Iterator[FileBytes]:
    """Opens the whole trace. Raises DamagedInput if it is empty, and wherever it has become shorter."""
    with source.local_path() as path, path.open("rb", 0) as file:
        data = FileBytes(file, source.path)
        if not data:
            raise not_a_trace(source.path)
        yield data


def not_a_trace(path: str) -> DamagedInput:
    """The error for a file without a whole packet."""
    return DamagedInput(
        "isn't a Perfetto trace, or was cut off within its first packet",
        path=path,
        expected="packets: byte 0x0a, a length, and as many bytes",
        remedy="record or export it again; textproto and Chrome JSON are other formats",
    )


def joined_bytes(before: UInt8, data: Data, first: int, last: int) -> UInt8:
    """Bytes of earlier packets, data[first:last], and zeros, so that words can be read at every place."""
    begin, end = len(before), len(before) + last - first
    joined = np.empty(end + 1024, np.uint8)
    joined[:begin] = before
    joined[end:] = 0
    if isinstance(data, FileBytes):
        data.read_into(joined[begin:end].data, first)
    else:
        joined[begin:end] = np.frombuffer(data, np.uint8, last - first, first)
    return joined


#: Fields with the data of a packet, of those that become rows many at a time.
EVENT, STAGE, COUNTER = (
    f.TRACE_PACKET[name] for name in ("track_event", "gpu_render_stage_event", "gpu_counter_event")
)


class Alternatives:
    """Which data counts in packets that have several. `several` are the indices of these packets."""

    def __init__(self, fields: Fields) -> None:
        columns = [fields.get(number, LENGTH) for number in (EVENT, STAGE, COUNTER)]
        owner = np.concatenate([column.owner for column in columns])
        self.several: Int64 = np.flatnonzero(np.bincount(owner, minlength=fields.count) > 1)
        self._last = np.full(fields.count, -1, np.int64)
        if len(self.several):
            np.maximum.at(self._last, owner, np.concatenate([column.start for column in columns]))

    def kept(self, column: Column, taken: Bools) -> Bools:
        """Returns which values of a column are those of packets that are taken, and the last of their packet."""
        selected: Bools = taken[column.owner]
        return selected & (column.start == self._last[column.owner]) if len(self.several) else selected


#: Field of InternedData -> table of its texts. All entries have the number in field 1 and the text in field 2.
TEXTS = {
    f.INTERNED_DATA["event_categories"]: "categories",
    f.INTERNED_DATA["event_names"]: "names",
    f.INTERNED_DATA["debug_annotation_names"]: "keys",
    f.INTERNED_DATA["debug_annotation_string_values"]: "strings",
    f.INTERNED_DATA["compute_arg_names"]: "arg_names",
    f.INTERNED_DATA["correlation_id_str"]: "correlations",
    f.INTERNED_DATA["debug_annotation_value_type_names"]: "types",
}

#: An array maps interned numbers to codes that are below this for each entry, a dict the others.
_DENSE = 64


class TextPool:
    """Distinct texts and their codes."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.damaged = 0  # texts that aren't UTF-8
        self._codes: dict[bytes, int] = {}

    def code(self, text: bytes) -> int:
        """Returns the code of a text."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.texts)
            try:
                self.texts.append(text.decode())
            except UnicodeDecodeError:
                self.texts.append(text.decode("utf-8", "replace"))
                self.damaged += 1
        return code

    def codes(self, texts: pa.Array) -> Int32:
        """Returns the codes of an Arrow column of bytes."""
        distinct = texts.dictionary_encode()
        codes = np.array([self.code(text) for text in distinct.dictionary.to_pylist()], np.int32)
        result: Int32 = codes[distinct.indices.to_numpy()]
        return result

    def column(self, codes: Int32) -> pa.DictionaryArray:
        """Returns the texts of the codes as an Arrow dictionary without unused texts; -1 becomes null."""
        used = np.zeros(len(self.texts) + 1, np.bool_)
        used[codes] = True  # -1 indexes the last entry
        used[-1] = False
        present = np.flatnonzero(used)
        place = np.full(len(used), -1, np.int32)
        place[present] = np.arange(len(present), dtype=np.int32)
        indices = pa.array(place[codes], mask=codes < 0)
        texts = pa.array([self.texts[code] for code in present.tolist()], pa.string())
        return pa.DictionaryArray.from_arrays(indices, texts)


class TextCodes:
    """Number of an interned entry -> code of its text."""

    def __init__(self) -> None:
        self._count = 0
        self._codes = np.full(_DENSE, -1, np.int32)
        self._far: dict[int, int] = {}

    def put(self, number: int, code: int) -> None:
        """Sets the code of a number; a later entry replaces an earlier one."""
        self._count += 1
        if number >= _DENSE * self._count and number >= len(self._codes):
            self._far[number] = code
            return
        while number >= len(self._codes):
            self._codes = np.concatenate([self._codes, np.full(len(self._codes), -1, np.int32)])
            for near in [one for one in self._far if one < len(self._codes)]:
                self._codes[near] = self._far.pop(near)
        self._codes[number] = code

    def get(self, number: int) -> int:
        """Returns the code of a number, -1 if it is unknown."""
        return int(self._codes[number]) if number < len(self._codes) else self._far.get(number, -1)

    def find(self, numbers: UInt64) -> Int32:
        """Returns the codes of many numbers."""
        near = numbers < len(self._codes)
        codes: Int32 = np.where(near, self._codes[np.where(near, numbers, 0).astype(np.int64)], np.int32(-1))
        if self._far:
            distinct, back = np.unique(numbers[~near], return_inverse=True)
            codes[~near] = np.array([self._far.get(number, -1) for number in distinct.tolist()], np.int32)[back]
        return codes


@dataclass
class SequenceState:
    """The incremental state of a sequence, from a packet that clears it to the next such packet."""

    valid: bool = False
    texts: dict[str, TextCodes] = field(default_factory=lambda: {name: TextCodes() for name in TEXTS.values()})
    entries: dict[tuple[int, int], bytes] = field(default_factory=dict)  # (field of InternedData, iid) -> entry
    track: int | None = None  # the default track of its TrackEvents
    clock: int | None = None  # the default clock of its packets
    counter_tracks: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # of extra counters: integers, doubles
    machine: int = 0  # the machine of its packets
    cache: dict[Any, Any] = field(default_factory=dict)  # what bytes that refer to this state were decoded to

    def intern(self, data: bytes, pool: TextPool, keys: TextPool) -> None:
        """Adds the entries of an InternedData; `keys` gets the names of arguments, `pool` all other texts.

        Raises ValueError if it isn't protobuf.
        """
        for number, wire, entry in fields_of(data):
            if wire != 2 or not isinstance(entry, bytes):
                continue
            iid, text = _entry(entry)
            if number in TEXTS:
                table = TEXTS[number]
                self.texts[table].put(iid, (keys if table in ("keys", "arg_names") else pool).code(text))
            else:
                self.entries[number, iid] = entry

    def defaults(self, data: bytes) -> None:
        """Reads a TracePacketDefaults. Raises ValueError if it isn't protobuf."""
        for number, _, value in fields_of(data):
            if number == f.TRACE_PACKET_DEFAULTS["timestamp_clock_id"] and isinstance(value, int):
                self.clock = value
            elif number == f.TRACE_PACKET_DEFAULTS["track_event_defaults"] and isinstance(value, bytes):
                for inner, _, what in fields_of(value):
                    if inner == f.TRACK_EVENT_DEFAULTS["track_uuid"] and isinstance(what, int):
                        self.track = what
                self.counter_tracks = (
                    tuple(repeated(value, f.TRACK_EVENT_DEFAULTS["extra_counter_track_uuids"])),
                    tuple(repeated(value, f.TRACK_EVENT_DEFAULTS["extra_double_counter_track_uuids"])),
                )

    def with_defaults_of(self, other: SequenceState) -> SequenceState:
        """Returns a state with the same texts and no defaults."""
        return SequenceState(other.valid, other.texts, other.entries, machine=other.machine, cache=other.cache)


def _entry(data: bytes) -> tuple[int, bytes]:
    """Returns number and text of an interned entry."""
    if len(data) > 4 and data[0] == 8 and data[1] < 128 and data[2] == 18 and data[3] == len(data) - 4:
        return data[1], data[4:]
    iid, text = 0, b""
    for number, wire, value in fields_of(data):
        if number == 1 and isinstance(value, int):
            iid = value
        elif number == 2 and wire == 2 and isinstance(value, bytes):
            text = value
    return iid, text


def look_up(states: list[SequenceState], of_row: Int64, table: str, numbers: UInt64) -> Int32:
    """Returns the codes of interned numbers, each from the table of its row's state."""
    first = int(of_row[0]) if len(of_row) else 0
    if not len(of_row) or (of_row == first).all():
        return states[first].texts[table].find(numbers) if len(of_row) else np.empty(0, np.int32)
    codes = np.empty(len(numbers), np.int32)
    order = np.argsort(of_row, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(of_row[order])) + 1):
        codes[rows] = states[int(of_row[rows[0]])].texts[table].find(numbers[rows])
    return codes
