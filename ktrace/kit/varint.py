"""A varint of protobuf: seven bits of a number in each byte, the lowest first, without anything else to import."""

from __future__ import annotations


def varint(data: bytes, at: int) -> tuple[int | None, int]:
    """The number of at most 64 bits at a position, and where it ends.

    None where the data ends first, and where it has more than ten bytes; then the position is behind those looked at.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return None, at
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at
    return None, at
