"""Fields of many messages -> their bytes, by compiled code where there is any, else with numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Int64
from ktrace.native import compiled

from .fields import Field, Kept, groups, in_order, put
from .message_columns import MessageColumns


class Part(NamedTuple):
    """Messages with the same fields, and the position of each among all messages."""

    fields: Sequence[Field]
    positions: Int64


def encoder(parts: Sequence[Part], count: int) -> Callable[[], memoryview]:
    """Returns a function that makes the bytes of `count` messages, one after the other; a thread may call it.

    Each position belongs to one message of one part.
    """
    return _compiled(parts, count) if compiled else partial(_by_columns, parts, count)


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


def _by_columns(parts: Sequence[Part], count: int) -> memoryview:
    """Makes the bytes of rows that have the same fields together, and puts them in order then."""
    if not count:
        return memoryview(b"")
    positions, messages = [], []
    for part in parts:
        for rows, fields in groups(in_order(part.fields), len(part.positions)):
            message = MessageColumns(len(rows))
            put(message, fields, rows)
            positions.append(part.positions[rows])
            messages.append(message.rows())
    order = np.empty(count, np.int64)
    order[np.concatenate(positions)] = np.arange(count)
    rows = pa.concat_arrays(messages).take(pa.array(order))
    _, offsets, data = rows.buffers()
    bounds = np.frombuffer(offsets, np.int64)[rows.offset : rows.offset + len(rows) + 1]
    return memoryview(data)[int(bounds[0]) : int(bounds[-1])]
