"""Fields of many messages -> their bytes, by compiled code where there is any, else row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ktrace.model.arrays import Int64
from ktrace.native import compiled

from .fields import Field, Kept, in_order, row_bytes


class Part(NamedTuple):
    """Messages with the same fields, and the position of each among all messages."""

    fields: Sequence[Field]
    positions: Int64


def encoder(parts: Sequence[Part], count: int) -> Callable[[], memoryview]:
    """Returns a function that makes the bytes of `count` messages, one after the other; a thread may call it.

    Each position belongs to one message of one part.
    """
    return _compiled(parts, count) if compiled else partial(_by_rows, parts, count)


def _compiled(parts: Sequence[Part], count: int) -> Callable[[], memoryview]:
    kept = Kept()
    order = np.empty(count, np.int64)
    described = []
    for number, (fields, positions) in enumerate(parts):
        order[positions] = np.arange(len(positions)) + (number << 32)
        described.append((len(positions), [field.step(kept) for field in in_order(fields)]))
    at = kept.array(order, "<i8")

    def encode(kept: Kept = kept) -> memoryview:
        return memoryview(compiled.encode(described, at, count)).toreadonly()

    return encode


def _by_rows(parts: Sequence[Part], count: int) -> memoryview:
    """Makes the bytes row by row: slow, and what the tests hold compiled code against."""
    messages = [b""] * count
    for part in parts:
        fields = in_order(part.fields)
        for at, position in enumerate(part.positions.tolist()):
            messages[position] = row_bytes(fields, at)
    return memoryview(b"".join(messages))
