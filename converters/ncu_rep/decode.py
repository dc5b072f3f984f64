"""Decodes messages into dicts by the tables of `fields`, and counts unknown fields."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

from ktrace.kit.columnar.protobuf import FIXED32, FIXED64, LENGTH, VARINT, fields_of, signed_one

from .fields import FLAG, How, Shape

_WIRE = {
    How.INT: VARINT,
    How.SIGNED: VARINT,
    How.FLAG: VARINT,
    How.DOUBLE: FIXED64,
    How.FLOAT: FIXED32,
    How.TEXT: LENGTH,
    How.RAW: LENGTH,
}


class Decoder:
    """Decodes messages. `unknown` counts fields that no table has, by message and number; `texts` counts bad UTF-8."""

    def __init__(self) -> None:
        self.unknown: Counter[tuple[str, int]] = Counter()
        self.texts = 0

    def message(self, data: bytes, shape: Shape, what: str) -> dict[str, Any]:
        """Returns the fields of a message by name; errors call it `what`. Raises ValueError if it can't be decoded."""
        decoded: dict[str, Any] = {}
        for number, wire, value in fields_of(data):
            field = shape.get(number)
            if field is None:
                self.unknown[what, number] += 1
            elif field.how is not How.SKIP:
                item = self._item(value, wire, field.how, f"{what}, {field.name}")
                if field.many:
                    decoded.setdefault(field.name, []).append(item)
                else:
                    decoded[field.name] = item
        return decoded

    def _item(self, value: int | bytes, wire: int, how: How | Shape, what: str) -> Any:
        wanted = _WIRE[how] if isinstance(how, How) else LENGTH
        if wire != wanted:
            raise ValueError(f"{what}: wire type {wire}, expected {wanted}")
        if isinstance(value, bytes):
            if not isinstance(how, How):
                return self.message(value, how, what)
            return value if how is How.RAW else self.text(value)
        if how is How.DOUBLE:
            return struct.unpack("<d", value.to_bytes(8, "little"))[0]
        if how is How.FLOAT:
            return struct.unpack("<f", value.to_bytes(4, "little"))[0]
        if how is How.SIGNED:
            return signed_one(value)
        return bool(value) if how is FLAG else value

    def text(self, data: bytes) -> str:
        """Decodes bytes as text; replaces invalid UTF-8 and counts the text."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.texts += 1
            return data.decode("utf-8", "replace")
