"""Arguments that ktrace's writer made of columns become columns again (see sidecar.py, _shared/arguments.py).

id 17  kind "op"  timing "derived"  grid {x 3 y 4 z 5}  args.id "mine"  dims [..]      arguments of a slice
id=17, kind=op, timing=derived, grid_x=3, .., args {"id": "mine", "dims": [..]}        the row
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import arrow_schema
from ktrace.model.json_text import decoded, encoded

from ..proto.sidecar import CATEGORY_KINDS, RESERVED, STAGE_COLUMNS, STAGE_DERIVED
from .args import WHOLE

Columns = dict[str, pa.Array]

#: Arguments that become a column in a way of their own.
_OWN_WAY = ("id", "kind", "timing", "unfinished", "grid", "block", "value", "unit")

_COLUMNS = RESERVED - set(_OWN_WAY)


def restore_event(columns: Columns, arguments: Columns) -> Columns:
    """The columns of TrackEvents: `cat` is their category, which is the kind where no argument says the kind.

    Some categories say the kind, too (CATEGORY_KINDS).
    """
    category, by_type = columns["cat"], columns["kind"]
    said = _said_kind(category, arguments.pop("kind", None))
    if said is None:
        columns["kind"] = category
        del columns["cat"]
    else:
        columns["kind"] = said if not said.null_count else pc.coalesce(decoded(said), decoded(category))
        if said.null_count:
            columns["cat"] = pc.if_else(said.is_valid(), decoded(category), None)
    if columns["kind"].null_count:  # its category is lost
        columns["kind"] = pc.coalesce(decoded(columns["kind"]), decoded(by_type))
    return _restore(columns, arguments)


def _said_kind(category: pa.Array, said: pa.Array | None) -> pa.Array | None:
    """The kind that an argument says, else the category; None where neither says one in any row."""
    words = encoded(category)
    kinds = pa.array([CATEGORY_KINDS.get(word) for word in words.dictionary.to_pylist()], pa.string())
    if kinds.null_count == len(kinds):
        return said
    by_category = kinds.take(words.indices)
    return by_category if said is None else pc.coalesce(decoded(said), by_category)


def restore_stage(columns: Columns, arguments: Columns) -> Columns:
    """The columns of render stages: some arguments are named as the viewer wants them, or derived from columns."""
    origin = arguments.get("occupancy_source")
    for name in STAGE_DERIVED:
        arguments.pop(name, None)
    for name, column in STAGE_COLUMNS.items():
        if name in arguments:
            found, own = arguments.pop(name), arguments.get(f"args.{name}")
            arguments[column] = found if own is None else pc.if_else(own.is_valid(), None, decoded(found))
    if origin is not None and "occupancy" in arguments:  # where it repeats a metric, the counter has it
        metric = pc.fill_null(pc.equal(decoded(origin), "metric"), False)
        arguments["occupancy"] = pc.if_else(metric, None, decoded(arguments["occupancy"]))
    said = arguments.pop("kind", None)
    if said is not None:
        columns["kind"] = said if not said.null_count else pc.coalesce(decoded(said), decoded(columns["kind"]))
    if "cat" in arguments:
        columns["cat"] = arguments.pop("cat")
    return _restore(columns, arguments)


def _restore(columns: Columns, arguments: Columns) -> Columns:
    count = len(columns["ts"])
    types = {field.name: field.type for field in arrow_schema("events")}
    for name in ("id", "value", "unit"):
        said = arguments.pop(name, None)
        if said is not None:
            columns[name] = _filled(_number(said, types[name]), columns.get(name))
    timing = arguments.pop("timing", None)
    if timing is not None:
        columns["timing"] = pc.fill_null(decoded(timing), "measured")
    unfinished = arguments.pop("unfinished", None)
    if unfinished is not None:
        columns["dur"] = pc.if_else(pc.fill_null(unfinished, False), pa.scalar(None, pa.int64()), columns["dur"])
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


def _filled(column: pa.Array, other: pa.Array | None) -> pa.Array:
    return column if other is None or not column.null_count else pc.coalesce(column, other)


def _number(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """An argument as a column of the model. Numbers of two types came as JSON, which is read again."""
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind):
        return column
    if pa.types.is_dictionary(column.type) or pa.types.is_binary(column.type):
        values = [None if value is None else json.loads(value) for value in column.to_pylist()]
        return pa.array([None if value is None else float(value) for value in values]).cast(kind)
    return column.cast(kind)


def _dimensions(name: str, column: pa.Array) -> Columns:
    """Grid or block: {x, y, z}, or one number where only the product is known."""
    axes = [f"{name}_{axis}" for axis in "xyz"]
    if pa.types.is_integer(column.type):
        return {axes[0]: column}
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    distinct: list[Any] = [json.loads(value) for value in column.dictionary.to_pylist()]
    found = {}
    for axis, column_name in zip("xyz", axes, strict=True):
        values = [value.get(axis) if isinstance(value, dict) else value if axis == "x" else None for value in distinct]
        found[column_name] = pa.array(values, pa.int64()).take(column.indices)
    return found
