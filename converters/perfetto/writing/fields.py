"""Fields of messages as columns: a value for each row, or for the rows that have it.

fields = [VarintField(tag, values), MessageField(tag, b"", [*inner fields])]
encoder([Part(fields, positions)], count)()

Columns become the bytes of many messages, by compiled code where there is any, else row by row: `step` describes a
field to `ktrace/native/messages.c`; `row_bytes` makes the bytes of a row where nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int32, Int64, UInt64
from ktrace.model.masks import present
from ktrace.native import compiled

from ..wire import varint

#: Bytes that compiled code may read beyond a piece.
_SURPLUS = 16

#: The kinds of steps, as in messages.c.
_CONSTANT, _VARINT, _NUMBER, _FIXED, _CODED, _TEXT, _MESSAGE = range(7)

#: kind, two constant parts, values or codes, offsets, data, which rows have the field, and steps of a message
Step = tuple[int, bytes, bytes, Any, Any, Any, Any, list[Any]]


def _array(values: Any, kind: str) -> Any:
    """Values as compiled code takes them: of a kind of numbers, aligned, without gaps; None stays None."""
    return None if values is None else np.require(values, kind, ("C", "A"))


class Field(Protocol):
    """A column as a field. `valid` tells which rows have it (None: all); `is_text` fields come last in a message."""

    valid: Bools | None
    is_text: bool

    def row(self, at: int) -> bytes:
        """The field of a row that has it."""

    def step(self) -> Step:
        """Describes the field to compiled code."""


@dataclass
class ConstantField:
    """The same bytes in each row."""

    data: bytes
    valid: Bools | None = None
    is_text: bool = False

    def row(self, at: int) -> bytes:
        """The field of a row."""
        return self.data

    def step(self) -> Step:
        """Describes the field to compiled code."""
        return _CONSTANT, self.data, b"", None, None, None, _array(self.valid, "?"), []


@dataclass
class NumberField:
    """A message of constant bytes and a varint: an argument that is an integer or a bool."""

    tag: bytes
    head: bytes
    values: UInt64
    valid: Bools | None = None
    is_text: bool = False

    def row(self, at: int) -> bytes:
        """The field of a row."""
        body = self.head + varint(int(self.values[at]))
        return self.tag + varint(len(body)) + body

    def step(self) -> Step:
        """Describes the field to compiled code."""
        return _NUMBER, self.tag, self.head, _array(self.values, "<u8"), None, None, _array(self.valid, "?"), []


@dataclass
class FixedField:
    """Eight bytes after constant bytes."""

    prefix: bytes
    values: UInt64
    valid: Bools | None = None
    is_text: bool = False

    def row(self, at: int) -> bytes:
        """The field of a row."""
        return self.prefix + int(self.values[at]).to_bytes(8, "little")

    def step(self) -> Step:
        """Describes the field to compiled code."""
        return _FIXED, self.prefix, b"", _array(self.values, "<u8"), None, None, _array(self.valid, "?"), []


@dataclass
class VarintField:
    """A varint after its tag."""

    prefix: bytes
    values: UInt64
    valid: Bools | None = None
    is_text: bool = False

    def row(self, at: int) -> bytes:
        """The field of a row."""
        return self.prefix + varint(int(self.values[at]))

    def step(self) -> Step:
        """Describes the field to compiled code."""
        return _VARINT, self.prefix, b"", _array(self.values, "<u8"), None, None, _array(self.valid, "?"), []


class PieceTable:
    """PieceTable of messages, by number. The last one is empty: it is the piece of the code -1.

    Tables with a piece of more than `short` bytes are texts, which come last in a message.
    """

    def __init__(self, pieces: list[bytes], short: int = 8) -> None:
        self.is_short = max(map(len, pieces), default=0) <= short
        self.pieces = [*pieces, b""]

    def joined(self) -> tuple[Int64, bytes]:
        """Where each piece begins and the last one ends, and their bytes, with surplus bytes for compiled code."""
        offsets = np.zeros(len(self.pieces) + 1, np.int64)
        np.cumsum([len(piece) for piece in self.pieces], out=offsets[1:])
        return offsets, b"".join(self.pieces) + bytes(_SURPLUS)


class CodedField:
    """An entry of a table for each row; -1 is none."""

    def __init__(self, table: PieceTable, codes: Int32) -> None:
        self.table = table
        self.codes = codes
        missing = codes < 0
        self.valid: Bools | None = ~missing if missing.any() else None
        self.is_text = not table.is_short

    def row(self, at: int) -> bytes:
        """The field of a row."""
        return self.table.pieces[int(self.codes[at])]

    def step(self) -> Step:
        """Describes the field to compiled code, for which -1 is enough to know that there is none."""
        offsets, data = self.table.joined()
        return _CODED, b"", b"", _array(self.codes, "<i4"), offsets, data, None, []


class TextField:
    """Bytes of any length; null is none."""

    is_text = True

    def __init__(self, texts: pa.LargeBinaryArray, valid: Bools | None = None) -> None:
        self.texts = texts
        self.valid = valid
        if valid is None and texts.null_count:
            self.valid = present(texts)

    def row(self, at: int) -> bytes:
        """The field of a row."""
        text: bytes = self.texts[at].as_py()
        return text

    def step(self) -> Step:
        """Describes the field to compiled code."""
        _, offsets, data = self.texts.buffers()
        data = np.frombuffer(data or b"\0", np.uint8)
        first, last = self.texts.offset, self.texts.offset + len(self.texts) + 1
        bounds = np.frombuffer(offsets, "<i8")[first:last] if offsets else np.zeros(1)
        return _TEXT, b"", b"", None, _array(bounds, "<i8"), data, _array(self.valid, "?"), []


class MessageField:
    """Fields in a nested message, like the three axes of a grid."""

    def __init__(self, tag: bytes, head: bytes, fields: Sequence[Field], valid: Bools | None = None) -> None:
        self.tag, self.head, self.valid = tag, head, valid
        self.fields = in_order(fields)
        self.is_text = any(field.is_text for field in fields)

    def row(self, at: int) -> bytes:
        """The field of a row."""
        body = self.head + row_bytes(self.fields, at)
        return self.tag + varint(len(body)) + body

    def step(self) -> Step:
        """Describes the field to compiled code."""
        return (
            _MESSAGE,
            self.tag,
            self.head,
            None,
            None,
            None,
            _array(self.valid, "?"),
            [each.step() for each in self.fields],
        )


def in_order(fields: Sequence[Field]) -> list[Field]:
    """The fields in the order in which they are written: texts last."""
    return sorted(fields, key=lambda field: field.is_text)


def row_bytes(fields: Sequence[Field], at: int) -> bytes:
    """The bytes of a row: of each field that the row has."""
    return b"".join(field.row(at) for field in fields if field.valid is None or field.valid[at])


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
    order = np.empty(count, np.int64)
    described = []
    for number, (fields, positions) in enumerate(parts):
        order[positions] = np.arange(len(positions)) + (number << 32)
        described.append((len(positions), [field.step() for field in in_order(fields)]))
    return lambda: memoryview(compiled.encode(described, order)).toreadonly()


def _by_rows(parts: Sequence[Part], count: int) -> memoryview:
    """Makes the bytes row by row: slow, and what the tests hold compiled code against."""
    messages = [b""] * count
    for part in parts:
        fields = in_order(part.fields)
        for at, position in enumerate(part.positions.tolist()):
            messages[position] = row_bytes(fields, at)
    return memoryview(b"".join(messages))
