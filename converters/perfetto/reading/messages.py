"""The fields of a single message as Python values, for messages that are rare or interned.

    fields = gather(data)                             number -> values
    pid = int32(first(fields, DESCRIPTOR["pid"], 0))

`ktrace.kit.columnar.protobuf` parses messages that occur once per event as columns; this module is for the others.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ktrace.kit.columnar.protobuf import Value, fields_of, signed_one
from ktrace.model.arrays import Float64, Int64


def gather(data: bytes) -> dict[int, list[Value]]:
    """Returns field number -> values of a message. Raises ValueError if it isn't protobuf."""
    found: dict[int, list[Value]] = {}
    for number, _, value in fields_of(data):
        found.setdefault(number, []).append(value)
    return found


def lenient(data: bytes) -> dict[int, list[Value]]:
    """Returns the same; an empty dict if the message isn't protobuf."""
    try:
        return gather(data)
    except ValueError:
        return {}


def first(found: dict[int, list[Value]], number: int, default: Any) -> Any:
    """The value of a singular field if it has the type of the default, else the default. The last value wins."""
    value = found.get(number, [default])[-1]
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
    found: float = struct.unpack("<d", struct.pack("<Q", value))[0]
    return found


def bits(values: Int64) -> Float64:
    """The doubles with these bits."""
    return np.ascontiguousarray(values).view(np.float64)


def repeated(message: bytes, number: int) -> list[int]:
    """The values of a repeated integer field, packed or not, up to where the message stops being protobuf."""
    found: list[int] = []
    try:
        for field_number, _, value in fields_of(message):
            if field_number == number:
                found += unpacked(value) if isinstance(value, bytes) else [value]
    except ValueError:
        pass
    return found


def unpacked(data: bytes) -> list[int]:
    """The varints of a packed field, without a last one that is cut off."""
    found, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value & 0xFFFFFFFFFFFFFFFF)
            value = shift = 0
    return found
