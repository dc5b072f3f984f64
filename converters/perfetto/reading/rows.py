"""Rows with arguments as batches: rows with the same arguments form a batch, so that its columns are full.

id 17  kind "op"  timing "derived"  grid {x 3 y 4 z 5}  args.id "mine"  dims [..]      arguments of a slice
id=17, kind=op, timing=derived, grid_x=3, .., args {"id": "mine", "dims": [..]}        the row

Arguments that ktrace wrote for columns become columns again (sidecar.py, ktrace/kit/timelines.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.protobuf import distinct_of
from ktrace.model.arrays import AnyArray, Bools, Int32, Int64, UInt8
from ktrace.model.batch import INTERNAL, Batch, arrow_schema
from ktrace.model.json_text import decoded, encoded, json_cells, load_json

from ..sidecar import CATEGORY_KINDS, RESERVED, STAGE_COLUMNS, STAGE_DERIVED
from .argument_values import (
    BOOL,
    CHUNK_TEXT,
    DOUBLE,
    INT,
    JSON,
    NOTHING,
    TRACE_TEXT,
    WHOLE,
    Chunk,
    Values,
    copied_codes,
)
from .messages import bits

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
        mine = table if len(rows) == count else table.take(pa.array(rows))
        arguments: dict[str, pa.Array] = {}
        of_group = values_of.get(number)
        if of_group is not None:
            for key, which in _split(values.key[of_group]).items():
                at = of_group[which]
                row = place[values.row[at]]
                arguments[chunk.argument_names.texts[key]] = column_of(
                    chunk, row, values.value_type[at], values.number[at], len(rows)
                )
        found = restore(dict(zip(mine.schema.names, mine.columns, strict=True)), arguments)
        yield Batch("events", pa.RecordBatch.from_pydict(_present(found)))


def _present(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The columns with a value, cast to the types of the model."""
    schema = arrow_schema("events")
    found = {}
    for name, column in columns.items():
        if column.null_count == len(column) and name not in ("id", "ts"):
            continue
        kind = INTERNAL.get(name) or (schema.field(name).type if name in schema.names else column.type)
        as_it_is = column.type == kind or (pa.types.is_dictionary(column.type) and kind == pa.string())
        found[name] = column if as_it_is else _as(column, kind)
    return found


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column.cast(pa.string()).dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)


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
    found: Int64 = number[group]
    return found


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
        mine = np.flatnonzero(kind == TRACE_TEXT)
        codes[mine] = copied_codes(chunk, full[mine])
        return chunk.chunk_texts.column(_codes(codes, absent))
    for one in kinds:
        mine = np.flatnonzero(kind == one) if absent is None else np.flatnonzero((kind == one) & ~absent)
        if one != JSON and len(mine):
            texts = json_cells(column_of(chunk, np.arange(len(mine)), kind[mine], full[mine], len(mine)))
            codes[mine] = chunk.chunk_texts.codes(pc.fill_null(texts, "null").cast(pa.binary()))
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
            found, own = arguments.pop(name), arguments.get(f"args.{name}")
            arguments[column] = found if own is None else pc.if_else(own.is_valid(), None, decoded(found))
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
        given = arguments.pop(name, None)
        if given is not None:
            columns[name] = _filled(_number(given, types[name]), columns.get(name))
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
            columns[name] = _number(arguments.pop(name), types[name])
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


def _filled(column: pa.Array, other: pa.Array | None) -> pa.Array:
    return column if other is None or not column.null_count else pc.coalesce(column, other)


def _number(column: pa.Array, kind: pa.DataType) -> pa.Array:
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
    found = {}
    for axis, column_name in zip("xyz", axes, strict=True):
        values = [value.get(axis) if isinstance(value, dict) else value if axis == "x" else None for value in distinct]
        found[column_name] = pa.array(values, pa.int64()).take(column.indices)
    return found
