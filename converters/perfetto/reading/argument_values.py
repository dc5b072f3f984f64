"""Arguments as columns: debug annotations of TrackEvents, arguments of render stages.

debug_annotations { name_iid 3  int_value 8192 }        -> column args.bytes, int64
debug_annotations { name_iid 4  dict_entries { .. } }   -> column args.dims, JSON text, decoded once per distinct bytes
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.protobuf import (
    FIXED64,
    LENGTH,
    VARINT,
    Fields,
    distinct_of,
    fields_of,
    parse,
    signed,
    texts_at,
)
from ktrace.model.arrays import Int32, Int64, UInt8
from ktrace.model.json_text import dump_json, load_json

from .. import field_numbers as f
from .messages import double, int64
from .sequence_state import SequenceState, TextPool, look_up

#: The type of a value. A text is in the pool of the trace or, if its packet spells it out, in that of the chunk.
NOTHING, BOOL, INT, DOUBLE, TRACE_TEXT, CHUNK_TEXT, JSON = range(7)

#: A name for an argument that contains all of `args`.
WHOLE = b"\0args"

#: A state caches this many JSON texts.
_REMEMBERED = 1 << 16

_D = f.DEBUG_ANNOTATION


class Spelling(NamedTuple):
    """The field numbers of a message that is an argument; `names` is the table of its interned names."""

    names: str
    name_iid: int
    name: int
    signed: int
    unsigned: tuple[int, ...]
    double: int
    text: int
    text_iid: int
    bool: int = 0
    nested: tuple[int, ...] = ()
    type_iid: int = 0


ANNOTATION = Spelling(
    "keys",
    _D["name_iid"],
    _D["name"],
    _D["int_value"],
    (_D["uint_value"], _D["pointer_value"]),
    _D["double_value"],
    _D["string_value"],
    _D["string_value_iid"],
    _D["bool_value"],
    tuple(_D[name] for name in ("nested_value", "legacy_json_value", "dict_entries", "array_values", "proto_value")),
    _D["proto_type_name_iid"],
)
_A = f.EXTRA_COMPUTE_ARG
STAGE_ARGUMENT = Spelling(
    "arg_names",
    _A["name_iid"],
    _A["name"],
    _A["int_value"],
    (_A["uint_value"],),
    _A["double_value"],
    _A["string_value"],
    _A["string_value_iid"],
)


@dataclass
class Chunk:
    """The bytes of some packets, and what their events refer to.

    `trace_texts` and `argument_names` are those of the whole trace. `chunk_texts` has the texts that these packets
    spell out, and is dropped with them.
    """

    data: UInt8
    states: list[SequenceState]
    trace_texts: TextPool
    argument_names: TextPool
    expanded: Callable[[int], None]  # gets the bytes that references within a value give
    chunk_texts: TextPool = field(default_factory=TextPool)
    by_ktrace: bool = False  # then some texts are JSON (writing/arguments.py)


class Values(NamedTuple):
    """Arguments of many rows; those of one row keep their order.

    row         int64 index of the row
    key         int32 code of the name in `Chunk.argument_names`
    value_type  uint8 NOTHING, BOOL, INT, DOUBLE, TRACE_TEXT, CHUNK_TEXT or JSON
    number      int64 the value, the bits of a double, or the code of the text
    """

    row: Int64
    key: Int32
    value_type: UInt8
    number: Int64


def copied_codes(chunk: Chunk, codes: Int64) -> Int64:
    """Copies texts of `trace_texts` to `chunk_texts` and returns their codes there."""
    distinct, back = np.unique(codes, return_inverse=True)
    own = [chunk.chunk_texts.code(chunk.trace_texts.texts[code].encode()) for code in distinct.tolist()]
    found: Int64 = np.array(own, np.int64)[back]
    return found


def chunk_codes(chunk: Chunk, codes: Int32) -> Int32:
    """Copies texts of `trace_texts` to `chunk_texts` and returns their codes; -1, no text, stays -1."""
    found = codes.copy()
    mine = codes >= 0
    found[mine] = copied_codes(chunk, codes[mine].astype(np.int64))
    return found


def joined_values(parts: list[Values]) -> Values:
    """Concatenates arguments; a later one of a row and key replaces an earlier one."""
    if len(parts) == 1:
        return parts[0]
    return Values(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def read_values(chunk: Chunk, row: Int64, state: Int64, start: Int64, size: Int64, spelling: Spelling) -> Values:
    """Reads the arguments at data[start : start + size]; `row` and `state` have the row and state of each."""
    found = parse(chunk.data, start, start + size)
    count = len(start)
    key = np.full(count, -1, np.int32)
    iid, name = found.get(spelling.name_iid, VARINT), found.get(spelling.name, LENGTH)
    if len(iid.owner):
        key[iid.owner] = look_up(chunk.states, state[iid.owner], spelling.names, iid.value)
    if len(name.owner):
        key[name.owner] = chunk.argument_names.codes(texts_at(chunk.data, name.start, signed(name.value)))
    key[key < 0] = chunk.argument_names.code(b"")
    value_type, number = np.zeros(count, np.uint8), np.zeros(count, np.int64)

    def put(owner: Int64, is_what: int, numbers: Int64) -> None:
        value_type[owner], number[owner] = is_what, numbers

    for field_number, kind in ((spelling.bool, BOOL), (spelling.signed, INT)):
        column = found.get(field_number, VARINT)
        put(column.owner, kind, signed(column.value))
    for field_number in spelling.unsigned:
        column = found.get(field_number, VARINT)
        put(column.owner, INT, signed(column.value))
        beyond = column.value >> np.uint64(63) > 0
        if beyond.any():
            codes = [chunk.chunk_texts.code(str(value).encode()) for value in column.value[beyond].tolist()]
            put(column.owner[beyond], JSON, np.array(codes))
    column = found.get(spelling.double, FIXED64)
    put(column.owner, DOUBLE, signed(column.value))
    column = found.get(spelling.text, LENGTH)
    if len(column.owner):
        put(column.owner, CHUNK_TEXT, _own(chunk, texts_at(chunk.data, column.start, signed(column.value))))
    column = found.get(spelling.text_iid, VARINT)
    if len(column.owner):
        put(
            column.owner,
            TRACE_TEXT,
            look_up(chunk.states, state[column.owner], "strings", column.value).astype(np.int64),
        )
    _nested(chunk, found, state, start, size, spelling, put)
    if chunk.by_ktrace:
        _as_written(chunk, found, state, spelling, key, value_type, number)
    nothing = np.flatnonzero(value_type == NOTHING)
    if len(nothing):
        put(nothing, JSON, np.int64(chunk.chunk_texts.code(b"null")))  # type: ignore[arg-type]
    return Values(row, key, value_type, number)


def _own(chunk: Chunk, texts: pa.Array) -> Int64:
    return chunk.chunk_texts.codes(texts).astype(np.int64)


def _as_written(
    chunk: Chunk,
    found: Fields,
    state: Int64,
    spelling: Spelling,
    key: Int32,
    value_type: UInt8,
    number: Int64,
) -> None:
    """Marks the texts that ktrace wrote as JSON.

    A DebugAnnotation has a type name for that; an argument of a render stage spells out its name.
    """
    if spelling.type_iid:
        types = found.get(spelling.type_iid, VARINT)
        if not len(types.owner):
            return
        codes = look_up(chunk.states, state[types.owner], "types", types.value)
        names = [chunk.trace_texts.texts[code] if code >= 0 else "" for code in codes.tolist()]
        key[types.owner[[name == "args" for name in names]]] = chunk.argument_names.code(WHOLE)
        marked = types.owner
    else:
        marked = np.unique(found.get(spelling.name, LENGTH).owner)
    texts = marked[value_type[marked] == TRACE_TEXT]
    for code in np.unique(number[texts]).tolist():
        number[texts[number[texts] == code]] = chunk.chunk_texts.code(chunk.trace_texts.texts[code].encode())
    value_type[marked[(value_type[marked] == TRACE_TEXT) | (value_type[marked] == CHUNK_TEXT)]] = JSON


def _nested(chunk: Chunk, found: Fields, state: Int64, start: Int64, size: Int64, spelling: Spelling, put: Any) -> None:
    """Puts the arguments that are messages, lists or JSON, as JSON texts."""
    owners = [found.get(number, LENGTH).owner for number in spelling.nested]
    if not any(map(len, owners)):
        return
    has = np.zeros(len(start), np.bool_)
    for one in owners:
        has[one] = True
    owner = np.flatnonzero(has)
    codes = np.empty(len(owner), np.int64)
    of_state = state[owner]
    for one in distinct_of(of_state)[0].tolist():
        mine = np.flatnonzero(of_state == one)
        here = chunk.states[one]
        texts = texts_at(chunk.data, start[owner[mine]], size[owner[mine]]).dictionary_encode()
        made = [_remembered(data, here, chunk) for data in texts.dictionary.to_pylist()]
        codes[mine] = np.array(made, np.int64)[texts.indices.to_numpy()]
    put(owner, JSON, codes)


def _remembered(data: bytes, state: SequenceState, chunk: Chunk) -> int:
    """Returns the code of the JSON text of a DebugAnnotation."""
    text = state.cache.get(data)
    if text is None:
        if len(state.cache) >= _REMEMBERED:
            state.cache.clear()
        text = state.cache[data] = annotation_json(data, state, chunk)
    return chunk.chunk_texts.code(text)


def annotation_json(data: bytes, state: SequenceState, chunk: Chunk) -> bytes:
    """Returns the JSON text of the value of a DebugAnnotation."""
    try:
        return _json_value(data, state, chunk)
    except (ValueError, RecursionError):
        return dump_json({"$base64": base64.b64encode(data).decode()}).encode()


def _json_value(data: bytes, state: SequenceState, chunk: Chunk) -> bytes:
    for number, _, value in fields_of(data):
        if number == _D["legacy_json_value"] and isinstance(value, bytes):
            text = value.decode("utf-8", "replace")
            try:
                load_json(text)
            except (ValueError, RecursionError):
                return dump_json(text).encode()
            return text.encode()
    return dump_json(annotation_value(data, state, chunk)).encode()


def annotation_value(data: bytes, state: SequenceState, chunk: Chunk) -> Any:
    """Returns the value of a DebugAnnotation. Raises ValueError if it isn't protobuf."""
    result: Any = None
    entries: dict[str, Any] = {}
    elements: list[Any] = []
    is_json = False
    for number, _, value in fields_of(data):
        if number == _D["dict_entries"] and isinstance(value, bytes):
            entries[annotation_name(value, state, chunk)] = annotation_value(value, state, chunk)
        elif number == _D["array_values"] and isinstance(value, bytes):
            elements.append(annotation_value(value, state, chunk))
        elif number in _SCALARS:
            result = _SCALARS[number](value)
        elif number == _D["proto_type_name_iid"]:
            is_json = chunk.by_ktrace
        elif number == _D["string_value_iid"] and isinstance(value, int):
            code = state.texts["strings"].get(value)
            result = chunk.trace_texts.texts[code] if code >= 0 else None
            chunk.expanded(len(result or ""))
        elif number == _D["nested_value"] and isinstance(value, bytes):
            result = _old_nested(value)
        elif number == _D["legacy_json_value"] and isinstance(value, bytes):
            text = value.decode("utf-8", "replace")
            try:
                result = load_json(text)
            except ValueError:
                result = text
        elif number == _D["proto_value"] and isinstance(value, bytes):
            result = {"$base64": base64.b64encode(value).decode()}
    if is_json and isinstance(result, str):
        return load_json(result)
    return entries or elements or result


def annotation_name(data: bytes, state: SequenceState, chunk: Chunk) -> str:
    """Returns the name of a DebugAnnotation. Raises ValueError if it isn't protobuf."""
    name = ""
    for number, _, value in fields_of(data):
        if number == _D["name_iid"] and isinstance(value, int):
            code = state.texts["keys"].get(value)
            name = chunk.argument_names.texts[code] if code >= 0 else ""
            chunk.expanded(len(name))
        elif number == _D["name"] and isinstance(value, bytes):
            name = value.decode("utf-8", "replace")
    return name


_SCALARS: dict[int, Callable[[Any], Any]] = {
    _D["bool_value"]: bool,
    _D["uint_value"]: int,
    _D["pointer_value"]: int,
    _D["int_value"]: int64,
    _D["double_value"]: double,
    _D["string_value"]: lambda value: value.decode("utf-8", "replace"),
}


def _old_nested(data: bytes) -> Any:
    """Returns the value of a NestedValue, by which older traces write objects and lists."""
    n = f.NESTED_VALUE
    kind = 0
    keys: list[str] = []
    values: list[Any] = []
    elements: list[Any] = []
    scalar: Any = None
    for number, _, value in fields_of(data):
        if number == n["nested_type"]:
            kind = int(value)
        elif number == n["dict_keys"] and isinstance(value, bytes):
            keys.append(value.decode("utf-8", "replace"))
        elif number == n["dict_values"] and isinstance(value, bytes):
            values.append(_old_nested(value))
        elif number == n["array_values"] and isinstance(value, bytes):
            elements.append(_old_nested(value))
        elif number == n["int_value"]:
            scalar = int64(value)
        elif number == n["double_value"]:
            scalar = double(value)
        elif number == n["bool_value"]:
            scalar = bool(value)
        elif number == n["string_value"] and isinstance(value, bytes):
            scalar = value.decode("utf-8", "replace")
    return dict(zip(keys, values, strict=False)) if kind == 1 else elements if kind == 2 else scalar
