"""Fields of messages as columns: a value for each row, or for the rows that have it.

fields = [VarintField(tag, values), MessageField(tag, b"", [*inner fields])]
encode([Part(fields, positions)], count)      # in encoding.py

`put` writes a field with numpy; `step` describes it to `ktrace/native/messages.c`, which makes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int32, Int64, UInt64
from ktrace.model.masks import present
from ktrace.native import address

from .message_columns import MessageColumns, Pieces

#: At most this many groups of rows with the same fields; the smallest groups are merged to one.
_GROUPS = 24

#: Fields that distinguish groups: the bits of a number.
_BITS = 63

#: Rows that are written at once, so that they fit in the processor's cache.
_CHUNK = 1 << 15

#: Longer beginnings of a number's message have a length of two bytes or more.
_SHORT = 100

#: The kinds of steps, as in messages.c.
_CONSTANT, _VARINT, _NUMBER, _FIXED, _CODED, _TEXT, _MESSAGE = range(7)

#: kind, two constant parts, addresses of values or codes, of offsets, of data, of `valid`, and steps of a message
Step = tuple[int, bytes, bytes, int, int, int, int, list[Any]]


class Kept:
    """Addresses of arrays, which it keeps."""

    def __init__(self) -> None:
        self._arrays: list[Any] = []

    def array(self, values: Any, kind: str) -> int:
        """The address of values of a kind of numbers."""
        array = np.ascontiguousarray(values, kind)
        self._arrays.append(array)
        return address(array)

    def buffer(self, data: Any) -> int:
        """The address of bytes."""
        return self.array(np.frombuffer(data or b"\0", np.uint8), "u1")

    def valid(self, valid: Bools | None) -> int:
        """The address of which rows have a field; 0 for all."""
        return 0 if valid is None else self.array(valid.view(np.uint8), "u1")


class Field(Protocol):
    """A column as a field. `valid` tells which rows have it (None: all); `is_text` fields come last in a message."""

    valid: Bools | None
    is_text: bool

    def put(self, out: MessageColumns, rows: Int64, where: Bools | None) -> None:
        """Writes the rows; with `where` only those that it selects."""

    def step(self, kept: Kept) -> Step:
        """Describes the field to compiled code."""


@dataclass
class ConstantField:
    """The same bytes in each row."""

    data: bytes
    valid: Bools | None = None
    is_text: bool = False

    def put(self, out: MessageColumns, rows: Int64, where: Bools | None) -> None:
        """Writes the rows."""
        out.constant(self.data, where)

    def step(self, kept: Kept) -> Step:
        """Describes the field to compiled code."""
        return _CONSTANT, self.data, b"", 0, 0, 0, kept.valid(self.valid), []


@dataclass
class NumberField:
    """A message of constant bytes and a varint: an argument that is an integer or a bool."""

    tag: bytes
    head: bytes
    values: UInt64
    valid: Bools | None = None
    is_text: bool = False

    def put(self, out: MessageColumns, rows: Int64, where: Bools | None) -> None:
        """Writes the rows."""
        if len(self.head) < _SHORT:
            out.number(self.tag, self.head, self.values[rows], where)
            return
        inner = MessageColumns(len(rows))
        inner.constant(self.head, where)
        inner.varint(b"", self.values[rows], where)
        out.message(self.tag, inner, where)

    def step(self, kept: Kept) -> Step:
        """Describes the field to compiled code."""
        return _NUMBER, self.tag, self.head, kept.array(self.values, "<u8"), 0, 0, kept.valid(self.valid), []


@dataclass
class FixedField:
    """Eight bytes after constant bytes."""

    prefix: bytes
    values: UInt64
    valid: Bools | None = None
    is_text: bool = False

    def put(self, out: MessageColumns, rows: Int64, where: Bools | None) -> None:
        """Writes the rows."""
        out.fixed(self.prefix, self.values[rows], where)

    def step(self, kept: Kept) -> Step:
        """Describes the field to compiled code."""
        return _FIXED, self.prefix, b"", kept.array(self.values, "<u8"), 0, 0, kept.valid(self.valid), []


@dataclass
class VarintField:
    """A varint after its tag."""

    prefix: bytes
    values: UInt64
    valid: Bools | None = None
    is_text: bool = False

    def put(self, out: MessageColumns, rows: Int64, where: Bools | None) -> None:
        """Writes the rows."""
        out.varint(self.prefix, self.values[rows], where)

    def step(self, kept: Kept) -> Step:
        """Describes the field to compiled code."""
        return _VARINT, self.prefix, b"", kept.array(self.values, "<u8"), 0, 0, kept.valid(self.valid), []


class CodedField:
    """An entry of a table for each row; -1 is none."""

    def __init__(self, table: Pieces, codes: Int32) -> None:
        self.table = table
        self.codes = codes
        missing = codes < 0
        self.valid: Bools | None = ~missing if missing.any() else None
        self.is_text = not table.is_short

    def put(self, out: MessageColumns, rows: Int64, where: Bools | None) -> None:
        """Writes the rows."""
        out.coded(self.table, self.codes[rows])

    def step(self, kept: Kept) -> Step:
        """Describes the field to compiled code, for which -1 is enough to know that there is none."""
        offsets, data = self.table.joined()
        return _CODED, b"", b"", kept.array(self.codes, "<i4"), kept.array(offsets, "<i8"), kept.buffer(data), 0, []


class TextField:
    """Bytes of any length; null is none."""

    is_text = True

    def __init__(self, texts: pa.LargeBinaryArray, valid: Bools | None = None) -> None:
        self.texts = texts
        self.valid = valid
        if valid is None and texts.null_count:
            self.valid = present(texts)

    def put(self, out: MessageColumns, rows: Int64, where: Bools | None) -> None:
        """Writes the rows."""
        out.text(self.texts.take(pa.array(rows)))

    def step(self, kept: Kept) -> Step:
        """Describes the field to compiled code."""
        _, offsets, data = self.texts.buffers()
        first, last = self.texts.offset, self.texts.offset + len(self.texts) + 1
        bounds = np.frombuffer(offsets, "<i8")[first:last] if offsets else np.zeros(1)
        return _TEXT, b"", b"", 0, kept.array(bounds, "<i8"), kept.buffer(data), kept.valid(self.valid), []


class MessageField:
    """Fields in a nested message, like the three axes of a grid."""

    def __init__(self, tag: bytes, head: bytes, fields: Sequence[Field], valid: Bools | None = None) -> None:
        self.tag, self.head, self.valid = tag, head, valid
        self.fields = in_order(fields)
        self.is_text = any(field.is_text for field in fields)

    def put(self, out: MessageColumns, rows: Int64, where: Bools | None) -> None:
        """Writes the rows."""
        inner = MessageColumns(len(rows))
        inner.constant(self.head, where)
        put(inner, self.fields, rows, where)
        out.message(self.tag, inner, where)

    def step(self, kept: Kept) -> Step:
        """Describes the field to compiled code."""
        return _MESSAGE, self.tag, self.head, 0, 0, 0, kept.valid(self.valid), [each.step(kept) for each in self.fields]


def in_order(fields: Sequence[Field]) -> list[Field]:
    """The fields in the order in which they are written: texts last."""
    return sorted(fields, key=lambda field: field.is_text)


def put(out: MessageColumns, fields: Sequence[Field], rows: Int64, where: Bools | None = None) -> None:
    """Writes fields in their order, each for the rows that have it."""
    for field in fields:
        which = where
        if field.valid is not None:
            own = field.valid[rows]
            which = own if which is None else own & which
        field.put(out, rows, which)


def groups(fields: Sequence[Field], count: int) -> Iterator[tuple[Int64, Sequence[Field]]]:
    """Yields `count` rows in groups of at most _CHUNK, and the fields of each group.

    Rows that have the same fields come together, and then no field has a `valid`.
    """
    optional = list(_optional(fields))
    key = np.zeros(count, np.int64)
    for valid in optional[:_BITS]:
        key = key << 1 | valid
    found = pa.array(key).dictionary_encode()
    codes = found.indices.to_numpy()
    counts = np.bincount(codes, minlength=len(found.dictionary))
    mixed = -1
    if len(counts) > _GROUPS:
        own = np.argsort(-counts, kind="stable")[: _GROUPS - 1]
        moved = np.full(len(counts), _GROUPS - 1, np.int32)
        moved[own] = np.arange(len(own))
        codes = moved[codes]
        counts = np.bincount(codes, minlength=_GROUPS)
        mixed = _GROUPS - 1
    order = np.argsort(codes.astype(np.uint8), kind="stable")
    start = 0
    for number, size in enumerate(counts.tolist()):
        rows = order[start : start + size]
        start += size
        same = number != mixed and len(optional) <= _BITS
        own_fields = _fields_of_row(fields, int(rows[0])) if same and size else fields
        for at in range(0, size, _CHUNK):
            yield rows[at : at + _CHUNK], own_fields


def _optional(fields: Sequence[Field]) -> Iterator[Bools]:
    """Which rows have each of the fields that some rows lack, also within messages."""
    for field in fields:
        if field.valid is not None:
            yield field.valid
        if isinstance(field, MessageField):
            yield from _optional(field.fields)


def _fields_of_row(fields: Sequence[Field], row: int) -> list[Field]:
    """The fields that a row has, for rows that all have the same ones."""
    found = []
    for field in fields:
        if field.valid is None or field.valid[row]:
            own = copy(field)
            own.valid = None
            if isinstance(own, MessageField):
                own.fields = _fields_of_row(own.fields, row)
            found.append(own)
    return found
