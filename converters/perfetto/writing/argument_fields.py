"""Columns of a batch as fields: arguments, texts and numbers of whatever type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Float64, UInt64
from ktrace.model.json_text import decoded
from ktrace.model.masks import present

from ..proto.wire import varint
from .arguments import HostArguments, Naming, StageArguments
from .fields import CodedField, Field, FixedField, MessageField, NumberField, PieceTable, TextField

#: Doubles represent every integer up to this.
_EXACT = 2.0**53

#: A column of plain texts with more distinct values isn't interned.
_DISTINCT = 1 << 10


def argument_field(name: str, column: pa.Array, into: HostArguments | StageArguments, tag: bytes) -> Field | None:
    """Returns a column as an argument; None if all its values are null."""
    if column.null_count == len(column):
        return None
    kind = column.type
    valid = validity(column)
    if pa.types.is_integer(kind):
        number = into.uint_tag if pa.types.is_unsigned_integer(kind) else into.int_tag
        return NumberField(tag, into.head(name) + number, whole(column), valid)
    if pa.types.is_floating(kind):
        body = into.head(name) + into.double_tag
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        return FixedField(tag + varint(len(body) + 8) + body, values.view(np.uint64), valid)
    if pa.types.is_boolean(kind):
        values = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
        if into.bool_tag is not None:
            return NumberField(tag, into.head(name) + into.bool_tag, values.astype(np.uint64), valid)
        words = [_whole_text(tag, into.json(name, word)) for word in (b"false", b"true")]
        codes = values.astype(np.int32)
        return CodedField(PieceTable(words), codes if valid is None else np.where(valid, codes, np.int32(-1)))
    return _text(name, column, into, tag)


def _text(name: str, column: pa.Array, into: HostArguments | StageArguments, tag: bytes) -> Field:
    value = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_json = pa.types.is_binary(value) or pa.types.is_large_binary(value)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
        if not is_json and len(column.dictionary) > max(_DISTINCT, len(column) // 2):
            text = TextField(decoded(column).cast(pa.large_binary()))
            return MessageField(tag, into.head(name), [MessageField(into.text_tag, b"", [text])], validity(column))

    def make(text: bytes, many: bool) -> bytes:
        body = into.json(name, text) if is_json else into.text(name, text, often=many)
        return body if isinstance(into, HostArguments) else _whole_text(tag, body)

    return coded(column, make)


def _whole_text(tag: bytes, body: bytes) -> bytes:
    return tag + varint(len(body)) + body


def coded(column: pa.Array, make: Callable[[bytes, bool], bytes]) -> CodedField:
    """Returns a column of texts or JSON as a table of pieces, one per distinct value that occurs.

    `make` gets the bytes of a value, and whether it occurs more than once, and returns the piece.
    """
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    elif column.dictionary.null_count:
        column = column.dictionary_decode().dictionary_encode()
    indices = column.indices.cast(pa.int32())
    codes = (indices.fill_null(-1) if indices.null_count else indices).to_numpy()
    counts = np.bincount(codes + 1, minlength=len(column.dictionary) + 1)[1:]
    used = np.flatnonzero(counts)
    if len(used) < len(counts):
        number = np.full(len(counts) + 1, -1, np.int32)
        number[used] = np.arange(len(used))
        codes = number[codes]
    values = column.dictionary.take(pa.array(used)).cast(pa.large_binary()).to_pylist()
    pieces = [make(value, count > 1) for value, count in zip(values, counts[used].tolist(), strict=True)]
    return CodedField(PieceTable(pieces), codes)


def source_argument_field(column: pa.Array, into: HostArguments, naming: Naming) -> Field | None:
    """Returns the `args` texts as arguments of the host; None if all are null."""
    if column.null_count == len(column):
        return None
    return coded(column, lambda text, _: into.object(text, naming))


def whole(column: pa.Array) -> UInt64:
    """Returns an integer column as the words of its varints; of a null it may be any word."""
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), np.uint64)
    values: Any = np.frombuffer(data, column.type.to_pandas_dtype())[column.offset :][: len(column)]
    words: UInt64 = values.astype(np.int64, copy=False).view(np.uint64)
    return words


def is_integral(values: Float64) -> Bools:
    """Returns which doubles an integer can replace: not -0.0, and none so large that it could be rounded."""
    found: Bools = (np.abs(values) < _EXACT) & (values == np.trunc(values)) & ~((values == 0) & np.signbit(values))
    return found


def any_of(valid: Sequence[Bools | None]) -> Bools | None:
    """Returns which rows have one of several fields; None: all."""
    found = [which for which in valid if which is not None]
    return np.logical_or.reduce(found) if found and len(found) == len(valid) else None


def validity(column: pa.Array) -> Bools | None:
    """Returns which rows aren't null; None if all are."""
    if not column.null_count:
        return None
    valid: Bools = present(column)
    return valid
