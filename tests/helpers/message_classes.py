"""Messages of columns of fields, made by protobuf's own classes: what the encoder of ktrace is held against."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

from ktrace.converters.perfetto.writing.fields import (
    CodedField,
    ConstantField,
    Field,
    MessageField,
    Part,
    TextField,
    VarintField,
)
from ktrace.proto.extensions import message_class


def encode_by_classes(kind: str, parts: Sequence[Part], count: int) -> list[bytes]:
    """Returns `count` messages of a kind; each position belongs to one message of one part."""
    made, messages = message_class(kind), [b""] * count
    for part in parts:
        for at, position in enumerate(part.positions.tolist()):
            message = made()
            _put_row(message, part.fields, at)
            messages[position] = message.SerializeToString()
    return messages


def _put_row(message: Any, fields: Sequence[Field], at: int) -> None:
    for field in fields:
        if field.valid is None or field.valid[at]:
            _put(message, field, at)


def _put(message: Any, field: Field, at: int) -> None:
    if isinstance(field, ConstantField):
        message.MergeFromString(field.data)
    elif isinstance(field, CodedField):
        message.MergeFromString(field.table.pieces[int(field.codes[at])])
    elif isinstance(field, TextField):
        message.MergeFromString(field.texts[at].as_py())
    elif isinstance(field, VarintField):
        _put_number(message, field.tag, int(field.values[at]))
    elif isinstance(field, MessageField):
        inner = _add_message(message, field.tag)
        inner.MergeFromString(field.head)
        _put_row(inner, field.fields, at)
    else:
        raise TypeError(type(field))


@cache
def _field_of(message: Any, tag: bytes) -> Any:
    """The field of a message's descriptor with a tag: a varint whose last three bits aren't of the number."""
    number = sum((byte & 127) << 7 * place for place, byte in enumerate(tag)) >> 3
    return message.fields_by_number.get(number) or message.file.pool.FindExtensionByNumber(message, number)


def _value(message: Any, field: Any) -> Any:
    return message.Extensions[field] if field.is_extension else getattr(message, field.name)


def _add_message(message: Any, tag: bytes) -> Any:
    """The message in a field: a further one of a repeated field."""
    inner = _value(message, _field_of(message.DESCRIPTOR, tag))
    if hasattr(inner, "add"):
        return inner.add()
    inner.SetInParent()
    return inner


def _put_number(message: Any, tag: bytes, bits: int) -> None:
    """Sets a number by the 64 bits that it has in the wire format; adds it to a repeated field."""
    field = _field_of(message.DESCRIPTOR, tag)
    value: float = bits
    if field.cpp_type == field.CPPTYPE_DOUBLE:
        (value,) = struct.unpack("<d", bits.to_bytes(8, "little"))
    elif field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64, field.CPPTYPE_ENUM):
        value = bits - (bits >> 63 << 64)
    elif field.cpp_type == field.CPPTYPE_BOOL:
        value = bool(bits)
    if hasattr(values := _value(message, field), "append"):
        values.append(value)
    elif field.is_extension:
        message.Extensions[field] = value
    else:
        setattr(message, field.name, value)
