"""A varint of protobuf: seven bits of a number in each byte, the lowest first, without anything else to import."""

from __future__ import annotations

from typing import Any


def varint(data: Any, at: int) -> tuple[int, int]:
    """The number of at most 64 bits at a position of bytes or an array of them, and where it ends.

    Raises IndexError where the data ends first, ValueError for more than ten bytes.
    """
    value = shift = 0
    while True:
        byte = int(data[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")


def varint_or_none(data: bytes, at: int) -> tuple[int | None, int]:
    """As `varint`; None for what it refuses, and the position behind the bytes that it looked at."""
    try:
        return varint(data, at)
    except IndexError:
        return None, len(data)
    except ValueError:
        return None, at + 10
