"""The fields of a single message as Python values, for messages that are rare or interned.

    fields = gather(data)                             number -> values
    pid = int32(first(fields, DESCRIPTOR["pid"], 0))

A message that comes once per event is parsed with others of its kind as columns (`text.protobuf`); this module is for
the rest.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from ktrace.converters._shared.columnar.protobuf import Int64, Value, fields_of


def gather(data: bytes) -> dict[int, list[Value]]:
    """Number -> the values of that field in a message. Raises ValueError where it is no protobuf."""
    found: dict[int, list[Value]] = {}
    for number, _, value in fields_of(data):
        found.setdefault(number, []).append(value)
    return found


def lenient(data: bytes) -> dict[int, list[Value]]:
    """The same; nothing of what is no protobuf."""
    try:
        return gather(data)
    except ValueError:
        return {}


def first(found: dict[int, list[Value]], number: int, default: Any) -> Any:
    """The value of a field that isn't repeated (the last one, as protobuf has it), of the type of the default."""
    value = found.get(number, [default])[-1]
    return value if isinstance(value, type(default)) else default


def text(value: Value) -> str:
    """A text field; bytes that are no UTF-8 become U+FFFD."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def message(value: Value) -> bytes:
    """A message field; an empty one where it is a number."""
    return value if isinstance(value, bytes) else b""


def as_bytes(value: Value) -> bytes:
    """A message field. Raises ValueError where it is a number."""
    if not isinstance(value, bytes):
        raise ValueError("a number where a message should be")
    return value


def int32(value: Any) -> int:
    """The number of an int32 field, of which a negative one stands as 64 bits."""
    low = int(value) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def int64(value: Any) -> int:
    """The number that stands as its two's complement."""
    return int(value) - (1 << 64) if int(value) >> 63 else int(value)


def double(value: Any) -> float:
    """The number of which the bits are given."""
    found: float = struct.unpack("<d", struct.pack("<Q", value))[0]
    return found


def bits(values: Int64) -> npt.NDArray[np.float64]:
    """Doubles of their bits."""
    return np.ascontiguousarray(values).view(np.float64)


def repeated(message: bytes, number: int) -> list[int]:
    """A repeated integer field, packed or not, as far as the message is protobuf."""
    found: list[int] = []
    try:
        for field_number, _, value in fields_of(message):
            if field_number == number:
                found += unpacked(value) if isinstance(value, bytes) else [value]
    except ValueError:
        pass
    return found


def unpacked(data: bytes) -> list[int]:
    """The varints that stand one behind the other; a last one that is cut is left out."""
    found, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value & 0xFFFFFFFFFFFFFFFF)
            value = shift = 0
    return found
