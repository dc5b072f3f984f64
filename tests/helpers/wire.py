"""The wire format of Perfetto traces, walked without a protobuf library.

    repeats(path.read_bytes()) == []

Perfetto's decoder takes the last of a singular field that occurs twice; protobuf libraries merge the two. So no library
can tell whether a trace loses something that way: here every field of every message is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from ktrace.proto.extensions import load

_POOL, _FILE = load()


class Field(NamedTuple):
    """What the descriptors say of a field. `inner` is the message that it holds, None where it holds none."""

    name: str
    is_repeated: bool
    inner: Any


def repeats(data: bytes) -> list[str]:
    """Each singular field that occurs more than once in its message: "TracePacket.interned_data occurs 2 times"."""
    found = Counter(_repeats(memoryview(data), _POOL.FindMessageTypeByName("perfetto.protos.Trace")))
    return [f"{what}, in {count} messages" for what, count in found.items()]


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field of a message: an int for varints and fixed ones, bytes for the others."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 1 | 5 as kind:
                size = 8 if kind == 1 else 4
                yield tag >> 3, int.from_bytes(data[at : at + size], "little")
                at += size
            case 2:
                size, at = _varint(data, at)
                assert at + size <= len(data), "a field ends behind its message"
                yield tag >> 3, data[at : at + size]
                at += size
            case kind:
                raise AssertionError(f"wire type {kind}")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _repeats(data: memoryview, message: Any) -> Iterator[str]:
    known, seen = _fields_of(message.full_name), Counter[int]()
    for number, value in fields(data):
        seen[number] += 1
        field = known.get(number)
        assert field is not None, f"{message.full_name} has no field {number}"
        if field.inner is not None:
            assert isinstance(value, memoryview), f"{message.full_name}.{field.name} is a message"
            yield from _repeats(value, field.inner)
    for number, count in seen.items():
        if count > 1 and not known[number].is_repeated:
            yield f"{message.name}.{known[number].name} occurs {count} times"


@cache
def _fields_of(name: str) -> dict[int, Field]:
    message = _POOL.FindMessageTypeByName(name)
    own = [*message.fields, *(one for one in _FILE.extensions_by_name.values() if one.containing_type is message)]
    # Of proto2, all fields but the repeated ones have presence.
    return {one.number: Field(one.name, not one.has_presence, one.message_type) for one in own}
