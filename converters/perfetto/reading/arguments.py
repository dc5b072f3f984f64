"""Arguments as columns, and rows with the same arguments as a batch, so that its columns are full.

    debug_annotations { name_iid 3  int_value 8192 }        -> column args.bytes, int64
    debug_annotations { name_iid 4  dict_entries { .. } }   -> column args.dims, JSON text: each one decoded once

Arguments that ktrace wrote for columns become columns again (sidecar.py, ktrace/kit/timelines.py):

    id 17  kind "op"  timing "derived"  grid {x 3 y 4 z 5}  args.id "mine"  dims [..]      arguments of a slice
    id=17, kind=op, timing=derived, grid_x=3, .., args {"id": "mine", "dims": [..]}        the row
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
from ktrace.model.arrays import AnyArray, Bools, Int32, Int64, UInt8
from ktrace.model.batch import INTERNAL, Batch, arrow_schema
from ktrace.model.json_text import decoded, dump_json, encoded, json_cells, load_json

from .. import field_numbers as f
from ..sidecar import CATEGORY_KINDS, RESERVED, STAGE_COLUMNS, STAGE_DERIVED
from .messages import SequenceState, TextPool, bits, double, int64, look_up

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
    copied = [chunk.chunk_texts.code(chunk.trace_texts.texts[code].encode()) for code in distinct.tolist()]
    return np.array(copied, np.int64)[back]


def chunk_codes(chunk: Chunk, codes: Int32) -> Int32:
    """Copies texts of `trace_texts` to `chunk_texts` and returns their codes; -1, no text, stays -1."""
    copied = codes.copy()
    is_trace_text = codes >= 0
    copied[is_trace_text] = copied_codes(chunk, codes[is_trace_text].astype(np.int64))
    return copied


def joined_values(parts: list[Values]) -> Values:
    """Concatenates arguments; a later one of a row and key replaces an earlier one."""
    if len(parts) == 1:
        return parts[0]
    return Values(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def read_values(chunk: Chunk, row: Int64, state: Int64, start: Int64, size: Int64, spelling: Spelling) -> Values:
    """Reads the arguments at data[start : start + size]; `row` and `state` have the row and state of each."""
    fields = parse(chunk.data, start, start + size)
    count = len(start)
    key = np.full(count, -1, np.int32)
    iid, name = fields.get(spelling.name_iid, VARINT), fields.get(spelling.name, LENGTH)
    if len(iid.owner):
        key[iid.owner] = look_up(chunk.states, state[iid.owner], spelling.names, iid.value)
    if len(name.owner):
        key[name.owner] = chunk.argument_names.codes(texts_at(chunk.data, name.start, signed(name.value)))
    key[key < 0] = chunk.argument_names.code(b"")
    value_type, number = np.zeros(count, np.uint8), np.zeros(count, np.int64)

    def put(owner: Int64, is_what: int, numbers: Int64 | Int32 | int) -> None:
        value_type[owner], number[owner] = is_what, numbers

    for field_number, kind in ((spelling.bool, BOOL), (spelling.signed, INT)):
        column = fields.get(field_number, VARINT)
        put(column.owner, kind, signed(column.value))
    for field_number in spelling.unsigned:
        column = fields.get(field_number, VARINT)
        put(column.owner, INT, signed(column.value))
        beyond = column.value >> np.uint64(63) > 0
        if beyond.any():
            codes = [chunk.chunk_texts.code(str(value).encode()) for value in column.value[beyond].tolist()]
            put(column.owner[beyond], JSON, np.array(codes))
    column = fields.get(spelling.double, FIXED64)
    put(column.owner, DOUBLE, signed(column.value))
    column = fields.get(spelling.text, LENGTH)
    if len(column.owner):
        spelled = texts_at(chunk.data, column.start, signed(column.value))
        put(column.owner, CHUNK_TEXT, chunk.chunk_texts.codes(spelled))
    column = fields.get(spelling.text_iid, VARINT)
    if len(column.owner):
        put(column.owner, TRACE_TEXT, look_up(chunk.states, state[column.owner], "strings", column.value))
    _nested(chunk, fields, state, start, size, spelling, put)
    if chunk.by_ktrace:
        _as_written(chunk, fields, state, spelling, key, value_type, number)
    nothing = np.flatnonzero(value_type == NOTHING)
    if len(nothing):
        put(nothing, JSON, chunk.chunk_texts.code(b"null"))
    return Values(row, key, value_type, number)


def _as_written(
    chunk: Chunk, fields: Fields, state: Int64, spelling: Spelling, key: Int32, value_type: UInt8, number: Int64
) -> None:
    """Marks the texts that ktrace wrote as JSON.

    A DebugAnnotation has a type name for that; an argument of a render stage spells out its name.
    """
    if spelling.type_iid:
        types = fields.get(spelling.type_iid, VARINT)
        if not len(types.owner):
            return
        codes = look_up(chunk.states, state[types.owner], "types", types.value)
        names = [chunk.trace_texts.texts[code] if code >= 0 else "" for code in codes.tolist()]
        key[types.owner[[name == "args" for name in names]]] = chunk.argument_names.code(WHOLE)
        marked = types.owner
    else:
        marked = np.unique(fields.get(spelling.name, LENGTH).owner)
    texts = marked[value_type[marked] == TRACE_TEXT]
    for code in np.unique(number[texts]).tolist():
        number[texts[number[texts] == code]] = chunk.chunk_texts.code(chunk.trace_texts.texts[code].encode())
    value_type[marked[(value_type[marked] == TRACE_TEXT) | (value_type[marked] == CHUNK_TEXT)]] = JSON


def _nested(
    chunk: Chunk, fields: Fields, state: Int64, start: Int64, size: Int64, spelling: Spelling, put: Any
) -> None:
    """Puts the arguments that are messages, lists or JSON, as JSON texts."""
    owners = [fields.get(number, LENGTH).owner for number in spelling.nested]
    if not any(map(len, owners)):
        return
    has = np.zeros(len(start), np.bool_)
    for one in owners:
        has[one] = True
    owner = np.flatnonzero(has)
    codes = np.empty(len(owner), np.int64)
    of_state = state[owner]
    for one in distinct_of(of_state)[0].tolist():
        rows = np.flatnonzero(of_state == one)
        here = chunk.states[one]
        texts = texts_at(chunk.data, start[owner[rows]], size[owner[rows]]).dictionary_encode()
        made = [_remembered(data, here, chunk) for data in texts.dictionary.to_pylist()]
        codes[rows] = np.array(made, np.int64)[texts.indices.to_numpy()]
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


#: At least this many rows with the same arguments form a batch.
_ENOUGH = 64

#: Columns and arguments of some rows -> the columns of the model.
Restore = Callable[[dict[str, pa.Array], dict[str, pa.Array]], dict[str, pa.Array]]

_MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9], np.uint64)


def as_args(columns: dict[str, pa.Array], arguments: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Returns the arguments as columns `args.<key>`."""
    return columns | {f"args.{key}": column for key, column in arguments.items()}


def event_batches(
    chunk: Chunk, columns: dict[str, pa.Array], shape: Int64, values: Values, restore: Restore = as_args
) -> Iterator[Batch]:
    """Yields events with those columns and arguments, in an order that depends on the chunk alone.

    `shape` has a number per row; rows with different numbers are in different batches. If a row has an argument twice,
    the last one counts.
    """
    count = len(shape)
    if not count:
        return
    group = _groups(shape, values)
    rows_of = _split(group)
    values_of = _split(group[values.row]) if len(values.row) else {}
    table = pa.RecordBatch.from_pydict(columns)
    place = np.empty(count, np.int64)
    for number, rows in rows_of.items():
        place[rows] = np.arange(len(rows))
        columns_of_rows = table if len(rows) == count else table.take(pa.array(rows))
        arguments: dict[str, pa.Array] = {}
        of_group = values_of.get(number)
        if of_group is not None:
            for key, which in _split(values.key[of_group]).items():
                at = of_group[which]
                row = place[values.row[at]]
                arguments[chunk.argument_names.texts[key]] = column_of(
                    chunk, row, values.value_type[at], values.number[at], len(rows)
                )
        restored = restore(dict(zip(columns_of_rows.schema.names, columns_of_rows.columns, strict=True)), arguments)
        yield Batch("events", pa.RecordBatch.from_pydict(_present(restored)))


def _present(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The columns with a value, cast to the types of the model."""
    schema = arrow_schema("events")
    present = {}
    for name, column in columns.items():
        if column.null_count == len(column) and name not in ("id", "ts"):
            continue
        kind = INTERNAL.get(name) or (schema.field(name).type if name in schema.names else column.type)
        if column.type == kind or (pa.types.is_dictionary(column.type) and kind == pa.string()):
            present[name] = column
        elif pa.types.is_dictionary(kind):
            present[name] = column.cast(pa.string()).dictionary_encode()
        else:
            present[name] = column.cast(kind)
    return present


def _groups(shape: Int64, values: Values) -> Int64:
    """Returns a number per row, equal for rows of the same shape and names of arguments.

    All rows of a shape whose combinations are rare share one number.
    """
    mark = (shape.astype(np.uint64) + np.uint64(1)) * _MIX[0]
    keys = (values.key.astype(np.uint64) + np.uint64(1)) * _MIX[1]
    np.add.at(mark, values.row, keys ^ (keys >> np.uint64(29)) * _MIX[0])
    distinct, group = distinct_of(mark)
    size = np.bincount(group)
    few = size < _ENOUGH
    number = np.arange(len(distinct))  # in the order of their first rows
    shape_of = np.empty(len(distinct), np.int64)
    shape_of[group] = shape
    number[few] = len(size) + shape_of[few]
    return number[group]


def _split(group: Int64 | Int32) -> dict[int, Int64]:
    """Returns number -> the positions at which it is."""
    if not len(group):
        return {}
    low = int(group.min())
    near: AnyArray = group - low
    if int(near.max()) < 1 << 16:
        near = near.astype(np.uint16)  # which numpy sorts by radix
    order = np.argsort(near, kind="stable")
    cuts = np.flatnonzero(np.diff(near[order])) + 1
    return {int(near[part[0]]) + low: part for part in np.split(order, cuts)}


def column_of(chunk: Chunk, row: Int64, value_type: UInt8, number: Int64, count: int) -> pa.Array:
    """Returns one argument of `count` rows as an Arrow column; null for a row without it."""
    kinds = np.flatnonzero(np.bincount(value_type, minlength=NOTHING)).tolist()
    full = np.zeros(count, np.int64)
    full[row] = number
    absent: Bools | None = np.ones(count, np.bool_)
    absent[row] = False  # type: ignore[index]
    if not absent.any():  # type: ignore[union-attr]
        absent = None
    if kinds == [INT]:
        return pa.array(full, mask=absent)
    if kinds == [DOUBLE]:
        return pa.array(bits(full), mask=absent)
    if kinds == [BOOL]:
        return pa.array(full.astype(np.bool_), mask=absent)
    if kinds == [TRACE_TEXT]:
        return chunk.trace_texts.column(_codes(full, absent))
    if kinds == [CHUNK_TEXT]:
        return chunk.chunk_texts.column(_codes(full, absent))
    if kinds == [JSON]:
        return _as_json(chunk.chunk_texts.column(_codes(full, absent)))
    kind = np.zeros(count, np.uint8)
    kind[row] = value_type
    codes = full.copy()
    if kinds == [TRACE_TEXT, CHUNK_TEXT]:
        rows = np.flatnonzero(kind == TRACE_TEXT)
        codes[rows] = copied_codes(chunk, full[rows])
        return chunk.chunk_texts.column(_codes(codes, absent))
    for one in kinds:
        rows = np.flatnonzero(kind == one) if absent is None else np.flatnonzero((kind == one) & ~absent)
        if one != JSON and len(rows):
            texts = json_cells(column_of(chunk, np.arange(len(rows)), kind[rows], full[rows], len(rows)))
            codes[rows] = chunk.chunk_texts.codes(pc.fill_null(texts, "null").cast(pa.binary()))
    return _as_json(chunk.chunk_texts.column(_codes(codes, absent)))


def _codes(numbers: Int64, absent: Bools | None) -> Int32:
    codes = numbers.astype(np.int32)
    if absent is not None:
        codes[absent] = -1
    return codes


def _as_json(texts: pa.DictionaryArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(texts.indices, texts.dictionary.cast(pa.binary()))


Columns = dict[str, pa.Array]

#: Arguments that need more than a cast to become a column.
_SPECIAL = ("id", "kind", "timing", "unfinished", "grid", "block", "value", "unit")

_COLUMNS = RESERVED - set(_SPECIAL)


def restore_event(columns: Columns, arguments: Columns) -> Columns:
    """Restores the columns of TrackEvents.

    `cat` is the category: it is the kind if no argument states the kind. Some categories imply a kind (CATEGORY_KINDS).
    """
    category, by_type = columns["cat"], columns["kind"]
    given = _stated_kind(category, arguments.pop("kind", None))
    if given is None:
        columns["kind"] = category
        del columns["cat"]
    else:
        columns["kind"] = given if not given.null_count else pc.coalesce(decoded(given), decoded(category))
        if given.null_count:
            columns["cat"] = pc.if_else(given.is_valid(), decoded(category), None)
    if columns["kind"].null_count:  # its category is lost
        columns["kind"] = pc.coalesce(decoded(columns["kind"]), decoded(by_type))
    return _restore(columns, arguments)


def _stated_kind(category: pa.Array, given: pa.Array | None) -> pa.Array | None:
    """The kind that an argument states, else the one that the category implies; None if no row has either."""
    words = encoded(category)
    kinds = pa.array([CATEGORY_KINDS.get(word) for word in words.dictionary.to_pylist()], pa.string())
    if kinds.null_count == len(kinds):
        return given
    by_category = kinds.take(words.indices)
    return by_category if given is None else pc.coalesce(decoded(given), by_category)


def restore_stage(columns: Columns, arguments: Columns) -> Columns:
    """Restores the columns of render stages: some arguments have the viewer's names, or derive from columns."""
    origin = arguments.get("occupancy_source")
    for name in STAGE_DERIVED:
        arguments.pop(name, None)
    for name, column in STAGE_COLUMNS.items():
        if name in arguments:
            column_of_stage, argument = arguments.pop(name), arguments.get(f"args.{name}")
            arguments[column] = (
                column_of_stage if argument is None else pc.if_else(argument.is_valid(), None, decoded(column_of_stage))
            )
    if origin is not None and "occupancy" in arguments:  # a metric's occupancy is in its counter
        metric = pc.fill_null(pc.equal(decoded(origin), "metric"), False)
        arguments["occupancy"] = pc.if_else(metric, None, decoded(arguments["occupancy"]))
    given = arguments.pop("kind", None)
    if given is not None:
        columns["kind"] = given if not given.null_count else pc.coalesce(decoded(given), decoded(columns["kind"]))
    if "cat" in arguments:
        columns["cat"] = arguments.pop("cat")
    return _restore(columns, arguments)


def _restore(columns: Columns, arguments: Columns) -> Columns:
    count = len(columns["ts"])
    types = {field.name: field.type for field in arrow_schema("events")}
    for name in ("id", "value", "unit"):
        if name in arguments:
            given = _in_type(arguments.pop(name), types[name])
            columns[name] = pc.coalesce(given, columns[name]) if given.null_count and name in columns else given
    timing = arguments.pop("timing", None)
    if timing is not None:
        columns["timing"] = pc.fill_null(decoded(timing), "measured")
    unfinished = arguments.pop("unfinished", None)
    if unfinished is not None:
        columns["dur"] = pc.if_else(_true(unfinished), pa.scalar(None, pa.int64()), columns["dur"])
    for name in ("grid", "block"):
        if name in arguments:
            columns |= _dimensions(name, arguments.pop(name))
    whole = arguments.pop(WHOLE.decode(), arguments.pop("args", None))
    if whole is not None:
        columns["args"] = decoded(whole).cast(pa.string())
    for name in list(arguments):
        if name in _COLUMNS:
            columns[name] = _in_type(arguments.pop(name), types[name])
        elif name.startswith("x_"):
            columns[name] = arguments.pop(name)
    for name, column in arguments.items():
        columns[f"args.{name.removeprefix('args.')}"] = column
    if "kind" not in columns:
        columns["kind"] = pa.array(["range"] * count)
    return columns


def _true(column: pa.Array) -> pa.Array:
    """Which values are true. Stages have no booleans: their extra data are JSON."""
    plain = decoded(column)
    return pc.fill_null(plain if pa.types.is_boolean(plain.type) else pc.equal(plain.cast(pa.binary()), b"true"), False)


def _in_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """An argument as a column of the model. An argument with two types of numbers came as JSON and is decoded."""
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        return column
    if pa.types.is_dictionary(column.type) or pa.types.is_binary(column.type):
        values = [None if value is None else load_json(value) for value in column.to_pylist()]
        return pa.array([None if value is None else float(value) for value in values]).cast(kind)
    return column.cast(kind)


def _dimensions(name: str, column: pa.Array) -> Columns:
    """Grid or block: {x, y, z}, or one number if only the product is known."""
    axes = [f"{name}_{axis}" for axis in "xyz"]
    if pa.types.is_integer(column.type):
        return {axes[0]: column}
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    distinct: list[Any] = [load_json(value) for value in column.dictionary.to_pylist()]
    columns = {}
    for axis, column_name in zip("xyz", axes, strict=True):
        values = [value.get(axis) if isinstance(value, dict) else value if axis == "x" else None for value in distinct]
        columns[column_name] = pa.array(values, pa.int64()).take(column.indices)
    return columns
