"""The protobuf wire format as columns: the fields of many messages at once.

Messages are parsed in lockstep: the first field of all of them, then the second, and so on. The last few, which are
longer than the others, are parsed one by one, to the same columns.

    packets   40 e8 07 50 01 5a ..      step 1: 40, the timestamp   1000   step 2: 50, the sequence   1   and so on
              40 d0 0f 50 01                                        2000                              1
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.kit.varint import varint
from ktrace.model.arrays import AnyArray, Bools, Int64, UInt8, UInt64
from ktrace.store.joins import ranges

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

#: From this many messages on lockstep pays; fewer are parsed one by one.
_FEW = 24

_HIGH = np.uint64(0x8080808080808080)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_FOLD = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)


class Column(NamedTuple):
    """One field of many messages: the message's index, the number (or the length of the bytes), where its bytes begin.

    A message that repeats the field occurs several times, in the order of the message.
    """

    owner: Int64
    value: UInt64
    start: Int64

    def last(self, count: int, default: int = 0) -> UInt64:
        """A value for each of `count` messages: the last one of a repeated field, as protobuf requires."""
        values = np.full(count, default, np.uint64)
        values[self.owner] = self.value
        return values

    def has(self, count: int) -> Bools:
        """Which of `count` messages have the field."""
        mask = np.zeros(count, np.bool_)
        mask[self.owner] = True
        return mask


_NONE = Column(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.int64))


class Fields:
    """The fields of `count` messages. `bad` are the messages that aren't valid protobuf."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._parts: defaultdict[int, list[Column]] = defaultdict(list)
        self._bad: list[Int64] = []

    @property
    def tags(self) -> list[int]:
        """The tags (field number and wire type) that occur."""
        return list(self._parts)

    @property
    def bad(self) -> Int64:
        """The messages that aren't valid protobuf; don't trust their fields."""
        return np.unique(np.concatenate(self._bad)) if self._bad else np.empty(0, np.int64)

    def get(self, number: int, wire: int) -> Column:
        """The field with that number and wire type."""
        parts = self._parts.get(number << 3 | wire)
        if not parts:
            return _NONE
        if len(parts) > 1:
            self._parts[number << 3 | wire] = parts = [Column(*map(np.concatenate, zip(*parts, strict=True)))]
        return parts[0]

    def add(self, tag: int, owner: Int64, value: UInt64, start: Int64) -> None:
        """Adds a field of some messages."""
        self._parts[tag].append(Column(owner, value, start))

    def mark_bad(self, owner: Int64) -> None:
        """Marks messages as invalid."""
        self._bad.append(owner)


def parse(data: UInt8, start: Int64, end: Int64) -> Fields:
    """Parses the fields of the messages at data[start:end], one level deep."""
    fields = Fields(len(start))
    near_the_end = end > len(data) - 16  # eight bytes can't be read at once there
    _in_lockstep(data, start, end, np.flatnonzero(~near_the_end & (end > start)), fields)
    for owner in np.flatnonzero(near_the_end).tolist():
        _one_by_one(data, owner, int(start[owner]), int(end[owner]), fields)
    return fields


def _spans(message: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields (tag, begin of the value, number) of each field: that of LENGTH is the number of its bytes.

    A last tag of -1 means that the message isn't valid protobuf.
    """
    at, end = 0, len(message)
    try:
        while at < end:
            tag, start = varint(message, at)
            wire = tag & 7
            if wire == VARINT:
                number, at = varint(message, start)
            elif wire == LENGTH:
                number, start = varint(message, start)
                at = start + number
            else:
                at = start + {FIXED64: 8, FIXED32: 4}.get(wire, end)
                number = int.from_bytes(message[start:at], "little")
            if at > end or tag < 8:
                break
            yield tag, start, number
        else:
            return
    except (IndexError, ValueError):
        pass
    yield -1, 0, 0


def _folded(words: UInt64) -> UInt64:
    """Decodes the varints in words, of at most eight bytes each."""
    value = words & _LOW
    for low, high, shift in _FOLD:
        value = (value & low) | ((value & high) >> shift)
    return value


def _in_lockstep(data: UInt8, start: Int64, end: Int64, which: Int64, fields: Fields) -> None:
    """Adds the first field of all those messages, then the second, and so on."""
    owner, at, stop = which, start[which], end[which]
    while len(owner) >= _FEW:
        tag, value_at = _varints(data, at)
        after = np.empty_like(at)
        for kind in [int(tag[0])] if (tag == tag[0]).all() else distinct_of(tag)[0].tolist():
            rows = np.flatnonzero(tag == kind) if (tag != kind).any() else slice(None)
            value, begin, end_of_field = _values(data, value_at[rows], kind & 7)
            ok = (end_of_field <= stop[rows]) & (end_of_field > at[rows])  # a length beyond 2^63 leads back
            if kind < 8 or (kind & 7) not in (VARINT, FIXED64, LENGTH, FIXED32):
                ok[:] = False
            if not ok.all():
                fields.mark_bad(owner[rows][~ok])
                end_of_field = np.where(ok, end_of_field, stop[rows])
                fields.add(kind, owner[rows][ok], value[ok], begin[ok])
            else:
                fields.add(kind, owner[rows], value, begin)
            after[rows] = end_of_field
        going = after < stop
        owner, at, stop = (owner[going], after[going], stop[going]) if not going.all() else (owner, after, stop)
    for message, first, last in zip(owner.tolist(), at.tolist(), stop.tolist(), strict=True):
        _one_by_one(data, message, first, last, fields)


def _words(data: UInt8) -> UInt64:
    """The eight bytes from each position on, as numbers."""
    return np.ndarray((max(len(data) - 7, 0),), "<u8", data, 0, (1,))


def _varints(data: UInt8, at: Int64) -> tuple[UInt64, Int64]:
    """Reads the numbers at these positions, and where they end. One of more than ten bytes ends far after `stop`."""
    first = data[at]
    if first.max() < 128:
        return first.astype(np.uint64), at + 1
    words = _words(data)
    word = words[at]
    stops = ~word & _HIGH
    lowest = stops & (~stops + np.uint64(1))
    value = _folded(word & (lowest - np.uint64(1)))
    length = (np.bitwise_count((lowest - np.uint64(1)) | lowest).astype(np.int64) + 7) >> 3
    long = np.flatnonzero(stops == 0)
    if len(long):  # negative numbers are ten bytes long
        more = words[np.minimum(at[long] + 8, len(words) - 1)]
        ninth, tenth = more & np.uint64(0xFF), (more >> np.uint64(8)) & np.uint64(0xFF)
        value[long] = (
            _folded(word[long])
            | (ninth & np.uint64(0x7F)) << np.uint64(56)
            | np.where(ninth >= 128, (tenth & np.uint64(1)) << np.uint64(63), np.uint64(0))
        )
        length[long] = np.where(ninth < 128, 9, np.where(tenth < 128, 10, 1 << 40))
    return value, at + length


def _values(data: UInt8, at: Int64, wire: int) -> tuple[UInt64, Int64, Int64]:
    """Reads value, start and end of fields; for LENGTH the value is the length, the start that of the bytes."""
    at = np.minimum(at, len(data) - 8)
    if wire == VARINT:
        value, end = _varints(data, at)
        return value, at, end
    if wire == LENGTH:
        value, begin = _varints(data, at)
        return value, begin, begin + np.minimum(value, np.uint64(1 << 62)).astype(np.int64)
    words = _words(data)[at]
    return (words, at, at + 8) if wire == FIXED64 else (words & np.uint64(0xFFFFFFFF), at, at + 4)


def _one_by_one(data: UInt8, owner: int, start: int, end: int, fields: Fields) -> None:
    """Adds the fields of one message."""
    message = data[start:end].tobytes()
    owners = np.array([owner])
    for tag, at, value in _spans(message):
        if tag < 0:
            fields.mark_bad(owners)
            return
        fields.add(tag, owners, np.array([value], np.uint64), np.array([start + at]))


def run_of(block: bytes, here: int, stop: int, tag: int) -> list[int]:
    """Returns the ends of the messages of a tag (one byte) that begin at `here` and before `stop`, one after the other.

    The last one may end beyond the block. A length that isn't whole, or has more than ten bytes, ends the run.
    """
    ends: list[int] = []
    append = ends.append
    try:
        while here < stop and block[here] == tag:
            length = block[here + 1]
            if length < 128:
                here += 2 + length
            elif (second := block[here + 2]) < 128:
                here += 3 + (length & 127 | second << 7)
            else:
                length, begin = varint(block, here + 1)
                here = begin + length
            append(here)
    except (IndexError, ValueError):
        pass
    return ends


def bounds_of(block: bytes, first: int, ends: list[int]) -> tuple[Int64, Int64]:
    """Returns where the messages of a run, which begins at block[first], begin and end, without their heads."""
    end = np.array(ends, np.int64)
    if not len(end):
        return end, end
    begin = np.concatenate([[first], end[:-1]]) + 2
    array = np.frombuffer(block, np.uint8)
    longer = np.flatnonzero(array[begin - 1] > 127)  # whose length has further bytes
    while len(longer):
        begin[longer] += 1
        longer = longer[array[begin[longer] - 1] > 127]
    return begin, end


def texts_at(data: UInt8, start: Int64, size: Int64) -> pa.Array:
    """Returns the bytes of `data` at these places as an Arrow column of bytes."""
    offsets = np.zeros(len(size) + 1, np.int32)
    offsets[1:] = np.cumsum(size)
    texts = data[ranges(start, size)].tobytes()
    return pa.Array.from_buffers(pa.binary(), len(size), [None, pa.py_buffer(offsets), pa.py_buffer(texts)])


def distinct_of(numbers: AnyArray) -> tuple[AnyArray, Int64]:
    """Returns the distinct numbers in the order of first occurrence, and for each number the index of its value."""
    coded = pa.array(numbers).dictionary_encode()
    return coded.dictionary.to_numpy(), coded.indices.to_numpy().astype(np.int64)


def combinations(first: Int64, columns: list[UInt64]) -> tuple[Int64, Int64]:
    """Returns the first row of each distinct combination of numbers, and for each row the index of its combination."""
    mark = np.zeros(len(first), np.uint64)
    for column in (first.astype(np.uint64), *columns):  # combinations are compared by a hash of 64 bits
        mark = (mark ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mark ^= mark >> np.uint64(31)
    distinct, of = distinct_of(mark)
    rows = np.empty(len(distinct), np.int64)
    rows[of[::-1]] = np.arange(len(first))[::-1]
    return rows, of


Value = int | bytes


def fields_of(message: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yields (number, wire type, value) of each field of one message. Raises ValueError if it isn't valid protobuf."""
    for tag, at, number in _spans(message):
        if tag < 0:
            raise ValueError("not a protobuf message")
        yield tag >> 3, tag & 7, message[at : at + number] if tag & 7 == LENGTH else number


class NamedField(NamedTuple):
    """A field of a message: its name, how its value is read or the fields of its message, whether it is a list."""

    name: str
    how: str | Shape
    many: bool


Shape = dict[int, NamedField]


def message(*fields: str, **messages: Shape) -> Shape:
    """Returns the fields of a message, each "name: how", numbered from 1 or from the number before a name.

    `how` is a word of the format or one of the `messages`, with "*" for a list.
    """
    shape: Shape = {}
    number = 0
    for field in ", ".join(fields).split(", "):
        name, _, how = field.partition(": ")
        given, _, rest = name.partition(" ")
        number, name = (int(given), rest) if given.isdecimal() else (number + 1, name)
        word = how.removesuffix("*")
        shape[number] = NamedField(name, messages.get(word, word), many=how != word)
    return shape


def signed(values: UInt64) -> Int64:
    """Numbers of an int64 field, which are encoded as two's complement."""
    return values.view(np.int64)


def signed_one(value: int) -> int:
    """The number of an int64 field with these 64 bits."""
    return value - (1 << 64) if value >> 63 else value
