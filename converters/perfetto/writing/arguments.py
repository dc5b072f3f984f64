"""Arguments as messages: DebugAnnotations on the tracks of the host, ExtraComputeArgs on render stages.

An argument on a host track keeps its JSON type. Values without a protobuf type are texts with the type name `json`:
integers beyond 64 bits, empty objects and lists, values nested too deep or too long, null in a list. Any other null is
an argument of that type without a value, which viewers leave out. An argument of a stage is a number or a text; if its
name is spelled out instead of interned, it is JSON text.

Texts that a sequence interns: from its second use on, a number replaces a text.

Arguments that come as the JSON text of an object in each row, as they do from tables: made columns of their values.

    {"External id": 1, "device": 0}        External id  device
    {"External id": 2, "device": 1}   ->   1            0
                                           2            1

A column is encoded at once, while a text would be parsed and encoded on its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from ktrace.kit.columnar.dictionaries import is_utf8, no_gc, used_words
from ktrace.kit.trace_json.decode import MOST_KEYS, ODD_KEY, Columns
from ktrace.kit.trace_json.events import members_of
from ktrace.model.json_text import decoded, dump_json

from .. import field_numbers as f
from ..wire import bytes_field, bytes_tag, double, double_tag, int_field, int_tag, varint

#: Bytes of texts of one kind that are kept to intern them; further texts are spelled out.
REMEMBERED = 16 << 20

# The field numbers are the same in EventName, EventCategory, DebugAnnotationName, InternedString and the like.
_IID = f.EVENT_NAME["iid"]
_TEXT = bytes_tag(f.EVENT_NAME["name"])


class InternedTexts:
    """Texts (UTF-8) of one kind.

    `entries` is the field of InternedData; `iid` and `text` are the fields of the user that contain a number or the
    text. New entries gather in `fresh`.
    """

    def __init__(self, entries: int, iid: int, text: int) -> None:
        self.fresh: list[bytes] = []
        self._entries = bytes_tag(entries)
        self._iid = int_tag(iid)
        self._text = bytes_tag(text)
        self._known: dict[bytes, bytes] = {}
        self._seen_once: set[bytes] = set()
        self._budget = REMEMBERED

    def field(self, text: bytes, *, often: bool = True) -> bytes:
        """Returns the field of a text: a number if the text is used `often` or was used before."""
        known = self._known.get(text)
        if known is not None:
            return known
        if text in self._seen_once:
            self._seen_once.discard(text)
            return self._intern(text)
        if self._budget >= len(text):
            self._budget -= len(text)
            if often:
                return self._intern(text)
            self._seen_once.add(text)
        return self._text + varint(len(text)) + text

    def _intern(self, text: bytes) -> bytes:
        number = len(self._known) + 1
        entry = int_field(_IID, number) + _TEXT + varint(len(text)) + text
        self.fresh.append(self._entries + varint(len(entry)) + entry)
        field = self._known[text] = self._iid + varint(number)
        return field


class _Interning(Protocol):
    fresh: list[bytes]


def fresh(*tables: _Interning) -> bytes:
    """Returns the entries of InternedData that are new since the last call."""
    entries = b"".join(entry for table in tables for entry in table.fresh)
    for table in tables:
        table.fresh.clear()
    return entries


#: Levels of an argument that are nested messages; deeper values are JSON texts.
_DEEPEST = 32

#: Bytes of JSON of a list or object that is nested messages; a longer one is JSON text. The engine makes a row of each
#: element, and the messages take twenty times the memory of the text.
_LONGEST = 1 << 20

#: The cache of messages is limited to this many bytes.
_REMEMBERED = 16 << 20

#: Ids of the type names: a value that is JSON text, and a text that is all of `args`.
JSON_TYPE, ARGS_TYPE = 1, 2

#: Their entries of InternedData, written at the start of the sequence.
TYPE_NAMES = b"".join(
    bytes_field(
        f.INTERNED_DATA["debug_annotation_value_type_names"],
        int_field(f.EVENT_NAME["iid"], number) + bytes_field(f.EVENT_NAME["name"], name),
    )
    for number, name in ((JSON_TYPE, b"json"), (ARGS_TYPE, b"args"))
)

_ANNOTATION = bytes_tag(f.TRACK_EVENT["debug_annotations"])
_BOOL = int_tag(f.DEBUG_ANNOTATION["bool_value"])
_INT = int_tag(f.DEBUG_ANNOTATION["int_value"])
_UINT = int_tag(f.DEBUG_ANNOTATION["uint_value"])
_DOUBLE = double_tag(f.DEBUG_ANNOTATION["double_value"])
_ENTRY = bytes_tag(f.DEBUG_ANNOTATION["dict_entries"])
_ELEMENT = bytes_tag(f.DEBUG_ANNOTATION["array_values"])
_JSON = int_field(f.DEBUG_ANNOTATION["proto_type_name_iid"], JSON_TYPE)
_ARGS = int_field(f.DEBUG_ANNOTATION["proto_type_name_iid"], ARGS_TYPE)

_STAGE_INT = int_tag(f.EXTRA_COMPUTE_ARG["int_value"])
_STAGE_UINT = int_tag(f.EXTRA_COMPUTE_ARG["uint_value"])
_STAGE_DOUBLE = double_tag(f.EXTRA_COMPUTE_ARG["double_value"])
_STAGE_TEXT = f.EXTRA_COMPUTE_ARG["string_value"]
_STAGE_NAME = f.EXTRA_COMPUTE_ARG["name"]

_NESTED = (b"{", b"[")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

#: Key of the source's `args` -> the name that is written.
Naming = Callable[[str], str]


class _MessageCache:
    """Messages by the JSON text that they encode."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], bytes] = {}
        self._budget = _REMEMBERED

    def get(self, name: str, text: bytes, make: Callable[[str, bytes], bytes]) -> bytes:
        """Returns the message of a text under a name, and makes it if it isn't known."""
        known = self._known.get((name, text))
        if known is None:
            known = make(name, text)
            self._budget -= len(text) + len(known)
            if self._budget < 0:
                self._known.clear()
                self._budget = _REMEMBERED
            self._known[name, text] = known
        return known


class HostArguments:
    """DebugAnnotations. `names` and `texts` intern their names and text values."""

    tag = _ANNOTATION
    int_tag, uint_tag, double_tag, bool_tag = _INT, _UINT, _DOUBLE, _BOOL
    text_tag = bytes_tag(f.DEBUG_ANNOTATION["string_value"])

    def __init__(self) -> None:
        self.names = InternedTexts(
            f.INTERNED_DATA["debug_annotation_names"], f.DEBUG_ANNOTATION["name_iid"], f.DEBUG_ANNOTATION["name"]
        )
        self.texts = InternedTexts(
            f.INTERNED_DATA["debug_annotation_string_values"],
            f.DEBUG_ANNOTATION["string_value_iid"],
            f.DEBUG_ANNOTATION["string_value"],
        )
        self._remembered = _MessageCache()

    def head(self, name: str) -> bytes:
        """The field of an argument's name."""
        return self.names.field(name.encode("utf-8", "replace"))

    def text(self, name: str, value: bytes, *, often: bool) -> bytes:
        """An argument that is a text."""
        return self._field(self.head(name) + self.texts.field(value, often=often))

    def json(self, name: str, value: bytes) -> bytes:
        """An argument that is any JSON value."""
        if len(value) > _LONGEST and value[:1] in _NESTED:
            return self._field(self.head(name) + _JSON + self.texts.field(value, often=False))
        return self._remembered.get(name, value, self._json)

    def object(self, value: bytes, naming: Naming) -> bytes:
        """The arguments of a whole `args` object."""
        if len(value) > _LONGEST:
            with suppress(msgspec.DecodeError, RecursionError):
                return b"".join(self.json(naming(key), bytes(part)) for key, part in _members(value).items())
        return self._remembered.get("", value, lambda _, text: self._object(text, naming))

    def _json(self, name: str, text: bytes) -> bytes:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):  # an integer of thousands of digits, a thousand levels
            return self._field(self.head(name) + _JSON + self.texts.field(text, often=False))
        return self._field(self.head(name) + self._member(value))

    def _object(self, text: bytes, naming: Naming) -> bytes:
        try:
            members = json.loads(text)
        except (ValueError, RecursionError):
            return self._field(self.head("args") + _ARGS + self.texts.field(text, often=False))
        return b"".join(self._field(self.head(naming(key)) + self._member(value)) for key, value in members.items())

    def _field(self, body: bytes) -> bytes:
        return _ANNOTATION + varint(len(body)) + body

    def _member(self, value: Any, depth: int = 0) -> bytes:
        return _JSON if value is None else self._value(value, depth)

    def _value(self, value: Any, depth: int) -> bytes:
        kind = type(value)
        if kind is int and -(2**63) <= value < 2**63:
            return _INT + varint(value)
        if kind is str:
            try:
                return self.texts.field(value.encode())
            except UnicodeEncodeError:  # a lone surrogate
                return _JSON + self.texts.field(json.dumps(value).encode())
        if kind is float:
            return _DOUBLE + double(value)
        if kind is bool:
            return _BOOL + varint(value)
        if value and depth < _DEEPEST and kind is dict:
            return b"".join(
                _nested(_ENTRY, self.head(key) + self._member(item, depth + 1)) for key, item in value.items()
            )
        if value and depth < _DEEPEST and kind is list:
            return b"".join(_nested(_ELEMENT, self._value(item, depth + 1)) for item in value)
        return _JSON + self.texts.field(dump_json(value).encode("utf-8", "backslashreplace"))


def _nested(tag: bytes, body: bytes) -> bytes:
    return tag + varint(len(body)) + body


class StageArguments:
    """ExtraComputeArgs of a launch or of an interned kernel: the same message in different fields."""

    int_tag, uint_tag, double_tag, bool_tag = _STAGE_INT, _STAGE_UINT, _STAGE_DOUBLE, None
    text_tag = bytes_tag(_STAGE_TEXT)

    def __init__(self) -> None:
        self.names = InternedTexts(f.INTERNED_DATA["compute_arg_names"], f.EXTRA_COMPUTE_ARG["name_iid"], _STAGE_NAME)
        self.texts = InternedTexts(
            f.INTERNED_DATA["debug_annotation_string_values"],
            f.EXTRA_COMPUTE_ARG["string_value_iid"],
            _STAGE_TEXT,
        )

    def head(self, name: str) -> bytes:
        """The field of an argument's name."""
        return self.names.field(name.encode("utf-8", "replace"))

    def text(self, name: str, value: bytes, *, often: bool) -> bytes:
        """An argument that is a text, without tag and length."""
        return self.head(name) + self.texts.field(value, often=often)

    def json(self, name: str, value: bytes) -> bytes:
        """An argument that is any JSON value, without tag and length."""
        try:
            return self.value(name, json.loads(value))
        except (ValueError, RecursionError):
            return self._json_text(name, value)

    def value(self, name: str, value: Any) -> bytes:
        """The same of a value."""
        kind = type(value)
        if kind is int and -(2**63) <= value < 2**63:
            return self.head(name) + _STAGE_INT + varint(value)
        if kind is float:
            return self.head(name) + _STAGE_DOUBLE + double(value)
        if kind is str:
            try:
                return self.head(name) + self.texts.field(value.encode())
            except UnicodeEncodeError:
                return self._json_text(name, json.dumps(value).encode())
        return self._json_text(name, dump_json(value).encode("utf-8", "backslashreplace"))

    def object(self, value: bytes, naming: Naming) -> list[bytes]:
        """The arguments of a whole `args` object."""
        try:
            members = json.loads(value)
        except (ValueError, RecursionError):
            return [self._json_text("args", value)]
        return [self.value(naming(key), item) for key, item in members.items()]

    def _json_text(self, name: str, text: bytes) -> bytes:
        return bytes_field(_STAGE_NAME, name.encode("utf-8", "replace")) + self.texts.field(text)


#: Texts with fewer distinct values than one in so many rows are cheaper one by one.
_ROWS_PER_TEXT = 8


#: A number of more digits than Python reads.
_DIGITS = 4300
_HUGE = re.compile(rb"\d{%d}" % _DIGITS)


class ArgumentTexts:
    """Makes columns of argument texts; remembers their keys, for the order of the columns."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._usable = True

    def columns(self, texts: pa.Array) -> dict[str, pa.Array] | None:
        """Returns the values by key, null where a text lacks the key; None if the texts are better taken as such.

        They are if there are few distinct ones, or if one isn't an object, is damaged, or has too many or odd keys.
        """
        coded = decoded(texts).dictionary_encode()
        if not self._usable or len(coded.dictionary) * _ROWS_PER_TEXT < len(texts):
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
        columns = Columns()
        for row, text in enumerate(texts):
            self._usable = text[:1] == b"{" and len(columns) <= MOST_KEYS
            if not self._usable or (len(text) > _DIGITS and _HUGE.search(text)):
                return None
            columns.add(row, members_of(text))
        columns.settle()
        found = columns.finish(0, len(texts))
        self._keys |= dict.fromkeys(found)
        self._usable = len(self._keys) <= MOST_KEYS and not any(map(ODD_KEY.search, found))
        if not self._usable:
            return None
        return {key: used_words(found[key]) for key in self._keys if key in found}
