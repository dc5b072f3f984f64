"""Arguments that come as the JSON text of an object in each row, as they do from tables: made columns of their values.

    {"External id": 1, "device": 0}        External id  device
    {"External id": 2, "device": 1}   ->   1            0
                                           2            1

A column is encoded at once, while a text would be parsed and encoded on its own.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa

from ktrace.kit.columnar.decoding import is_utf8, no_gc
from ktrace.kit.trace_json.gather import column_of
from ktrace.kit.trace_json.json_values import Raw
from ktrace.kit.trace_json.shapes import Shape, struct_of
from ktrace.model.json_text import decoded

#: Texts with fewer distinct values than one in so many rows are cheaper one by one.
_ROWS_PER_TEXT = 8

#: How often the keys are learnt anew for some texts, and from how many texts from the one that doesn't match on.
_ATTEMPTS = 10
_LEARNT = 64

_as_tuple = msgspec.structs.astuple


class ArgumentTexts:
    """Makes columns of argument texts; remembers their keys and the kinds of their values."""

    def __init__(self) -> None:
        self._shape = Shape()
        self._type: type[msgspec.Struct] = struct_of({})

    def columns(self, texts: pa.Array) -> dict[str, pa.Array] | None:
        """Returns the values by key, null where a text lacks the key; None if the texts are better taken as such.

        They are if there are few distinct ones, or if one isn't an object, is damaged, or has too many keys.
        """
        coded = decoded(texts).dictionary_encode()
        if self._shape.loose or len(coded.dictionary) * _ROWS_PER_TEXT < len(texts):
            return None
        with no_gc():
            try:
                found = self._decoded(coded.dictionary.cast(pa.binary()).to_pylist())
            except (msgspec.DecodeError, RecursionError):
                return None
        return None if found is None else {key: column.take(coded.indices) for key, column in found.items()}

    def _decoded(self, texts: list[bytes]) -> dict[str, pa.Array] | None:
        if not texts or not all(map(is_utf8, texts)):
            return None
        for _ in range(_ATTEMPTS):
            rows: list[tuple[object, ...]] = []
            decode = msgspec.json.Decoder(self._type).decode
            try:
                rows.extend(_as_tuple(decode(text)) for text in texts)
            except msgspec.ValidationError:
                if not self._learn(texts, len(rows)):
                    return None
                continue
            columns = {key: column_of(kind) for key, kind in self._shape.args.items()}
            for column, cells in zip(columns.values(), zip(*rows, strict=True), strict=True):
                column.add(cells)
            return {key: column.finish() for key, column in columns.items()}
        return None

    def _learn(self, texts: list[bytes], place: int) -> bool:
        """Learns from some texts throughout, and from those from a place on; returns whether columns are possible."""
        for text in (*texts[:: max(len(texts) // _LEARNT, 1)], *texts[place : place + _LEARNT]):
            self._shape.learn({"args": Raw(text)}, "")
            if self._shape.loose:
                return False
        self._type = struct_of(self._shape.args)
        return True
