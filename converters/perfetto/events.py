"""What stands on the tracks: TrackEvents with their names, categories and arguments, texts interned."""

from __future__ import annotations

import json
from typing import Any

from ktrace.jsontext import dump_json
from ktrace.model import Batch

from .._shared.arguments import argument_columns, argument_name, categories, values
from . import numbers as n
from .wire import bytes_field, bytes_tag, double, double_tag, int_field, int_tag, text_field, varint

#: Characters of texts of one kind that are remembered in order to intern them; the others are written out.
_REMEMBERED = 16 << 20

#: Arguments that are remembered in order to encode them once.
_KEPT = 1 << 16

_ANNOTATION = bytes_tag(n.TRACK_EVENT_DEBUG_ANNOTATIONS)
_BOOL = int_tag(n.DEBUG_ANNOTATION_BOOL_VALUE)
_INT = int_tag(n.DEBUG_ANNOTATION_INT_VALUE)
_DOUBLE = double_tag(n.DEBUG_ANNOTATION_DOUBLE_VALUE)
_ENTRY = bytes_tag(n.DEBUG_ANNOTATION_DICT_ENTRIES)
_ELEMENT = bytes_tag(n.DEBUG_ANNOTATION_ARRAY_VALUES)


class Interned:
    """Texts of one kind. Met for the second time, a text is interned: a number stands for it from then on.

    `entries` is the field of InternedData, `iid` and `text` those of the user that refer to a number or
    spell the text out. New entries gather in `fresh`. `at_once` interns at the first time.
    """

    def __init__(self, entries: int, iid: int, text: int, *, at_once: bool = False) -> None:
        self.fresh: list[bytes] = []
        self._entries = entries
        self._iid = iid
        self._text = text
        self._at_once = at_once
        self._known: dict[str, bytes] = {}
        self._met: set[str] = set()
        self._budget = _REMEMBERED

    def field(self, text: str) -> bytes:
        """The field that says the text."""
        known = self._known.get(text)
        if known is not None:
            return known
        if text in self._met or (self._at_once and self._budget > 0):
            return self._intern(text)
        if self._budget > 0:
            self._budget -= len(text)
            self._met.add(text)
        return text_field(self._text, text)

    def _intern(self, text: str) -> bytes:
        self._met.discard(text)
        if self._at_once:
            self._budget -= len(text)
        number = len(self._known) + 1
        # The fields are numbered alike in EventName, EventCategory, DebugAnnotationName and InternedString.
        entry = int_field(n.EVENT_NAME_IID, number) + text_field(n.EVENT_NAME_NAME, text)
        self.fresh.append(bytes_field(self._entries, entry))
        field = self._known[text] = int_field(self._iid, number)
        return field


class Encoder:
    """Encodes the rows of batches as the bodies of TrackEvents, without type, track and time."""

    def __init__(self) -> None:
        self._names = Interned(n.INTERNED_DATA_EVENT_NAMES, n.TRACK_EVENT_NAME_IID, n.TRACK_EVENT_NAME)
        self._categories = Interned(
            n.INTERNED_DATA_EVENT_CATEGORIES, n.TRACK_EVENT_CATEGORY_IIDS, n.TRACK_EVENT_CATEGORIES, at_once=True
        )
        self._keys = Interned(
            n.INTERNED_DATA_DEBUG_ANNOTATION_NAMES, n.DEBUG_ANNOTATION_NAME_IID, n.DEBUG_ANNOTATION_NAME, at_once=True
        )
        self._texts = Interned(
            n.INTERNED_DATA_DEBUG_ANNOTATION_STRING_VALUES,
            n.DEBUG_ANNOTATION_STRING_VALUE_IID,
            n.DEBUG_ANNOTATION_STRING_VALUE,
        )
        self._kept: dict[tuple[str, type, Any], bytes] = {}  # (key, type, value) -> annotation
        self._met: set[tuple[str, type, Any]] = set()

    def fresh(self) -> bytes:
        """The entries interned since the last call, as a field of a packet; empty where there are none."""
        entries: list[bytes] = []
        for interned in (self._categories, self._names, self._keys, self._texts):
            entries += interned.fresh
            interned.fresh.clear()
        return bytes_field(n.TRACE_PACKET_INTERNED_DATA, b"".join(entries)) if entries else b""

    def bodies(self, batch: Batch) -> list[bytes]:
        """For each row its category, name and arguments."""
        columns = argument_columns(batch)
        parts = [
            [self._categories.field(category) for category in categories(batch)],
            [self._names.field(name) for name in values(batch, "name")],
        ]
        if batch.has("args"):
            names: dict[str, str] = {}
            parts.append([self._source_arguments(text, columns, names) for text in values(batch, "args")])
        parts += ([self._annotation(name, value) for value in column] for name, column in columns.items())
        return [b"".join(row) for row in zip(*parts, strict=True)]

    def _source_arguments(self, text: str | None, columns: dict[str, list[Any]], names: dict[str, str]) -> bytes:
        """The annotations of an `args` object. `names` remembers under which name a key is shown."""
        if text is None:
            return b""
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError):  # an integer of thousands of digits, a thousand levels
            return self._encode("args", text)
        found = []
        for key, value in arguments.items():
            name = names.get(key)
            if name is None:
                name = names[key] = argument_name(key, columns)
            found.append(self._annotation(name, value))
        return b"".join(found)

    def _annotation(self, name: str, value: Any) -> bytes:
        """An argument as a field of a TrackEvent; nothing for null.

        One that is met again is kept: by then the texts in it are interned.
        """
        if value is None:
            return b""
        kind = type(value)
        if kind is float:
            return self._encode(name, value)
        key = (name, kind, repr(value) if kind is dict or kind is list else value)
        known = self._kept.get(key)
        if known is None:
            known = self._encode(name, value)
            if len(self._met) + len(self._kept) >= _KEPT:
                self._met.clear()
                self._kept.clear()
            if key in self._met:
                self._kept[key] = known
            self._met.add(key)
        return known

    def _encode(self, name: str, value: Any) -> bytes:
        body = self._keys.field(name) + self._value(value)
        return _ANNOTATION + varint(len(body)) + body

    def _value(self, value: Any, depth: int = 0) -> bytes:
        """The value of an annotation. What protobuf has no number for, or what is nested too deep, is a text."""
        kind = type(value)
        if kind is int:
            return _INT + varint(value) if -(2**63) <= value < 2**63 else self._texts.field(str(value))
        if kind is str:
            return self._texts.field(value)
        if kind is float:
            return _DOUBLE + double(value) if value - value == 0 else self._texts.field(_SPELLED[str(value)])
        if kind is bool:
            return _BOOL + varint(value)
        if depth == _DEEPEST and (kind is dict or kind is list):
            return self._texts.field(dump_json(value))
        if kind is dict and any(item is not None for item in value.values()):
            fields = (
                self._keys.field(key) + self._value(item, depth + 1) for key, item in value.items() if item is not None
            )
            return b"".join([_ENTRY + varint(len(field)) + field for field in fields])
        if kind is list and value:
            fields = (self._value(item, depth + 1) for item in value)
            return b"".join([_ELEMENT + varint(len(field)) + field for field in fields])
        return self._texts.field(_EMPTY.get(kind) or str(value))


#: Levels of an argument that are nested messages; what is below them is a JSON text.
_DEEPEST = 32

#: How what has no value of its own is spelled.
_EMPTY = {type(None): "null", dict: "{}", list: "[]"}

#: How JSON spells the floats that are no numbers.
_SPELLED = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
