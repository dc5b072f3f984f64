"""The protobuf wire format: a field is a tag (number and wire type), then a varint, 8 bytes, or a length and bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_SMALL = [bytes((n,)) for n in range(128)] + [bytes((n & 127 | 128, n >> 7)) for n in range(128, 4096)]
_DOUBLE = struct.Struct("<d").pack


def varint(value: int) -> bytes:
    """An integer of -2^63 to 2^64 - 1; a negative one takes ten bytes."""
    if 0 <= value < 4096:
        return _SMALL[value]
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def int_tag(number: int) -> bytes:
    """The tag of an integer, bool or enum."""
    return varint(number << 3 | _VARINT)


def bytes_tag(number: int) -> bytes:
    """The tag of a text or message; a length and the bytes follow it."""
    return varint(number << 3 | _BYTES)


def double_tag(number: int) -> bytes:
    """The tag of a double."""
    return varint(number << 3 | _FIXED64)


def int_field(number: int, value: int) -> bytes:
    """An integer, bool or enum field."""
    return int_tag(number) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """A message field."""
    return bytes_tag(number) + varint(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    """A text field. A lone surrogate, which UTF-8 can't encode, becomes '?'."""
    return bytes_field(number, value.encode("utf-8", "replace"))


def message(
    numbers: Mapping[str, int], **fields: int | str | bytes | list[int] | list[bytes] | list[str] | None
) -> bytes:
    """Fields of a message by their names, in this order: a list is a repeated field, None is none.

    An int becomes a varint, a str a text; bytes are an encoded message.
    """
    encoded = b""
    for name, given in fields.items():
        for value in given if isinstance(given, list) else (given,):
            if isinstance(value, int):
                encoded += int_field(numbers[name], value)
            elif isinstance(value, str):
                encoded += text_field(numbers[name], value)
            elif isinstance(value, bytes):
                encoded += bytes_field(numbers[name], value)
    return encoded


def double(value: float) -> bytes:
    """The eight bytes of a double, without a tag."""
    return _DOUBLE(value)
