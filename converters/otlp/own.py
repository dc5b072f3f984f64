"""Columns of the model as attributes of spans that ktrace wrote: `ktrace.stream` is the column `stream`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ktrace.model.batch import TRACK_COLUMNS, arrow_schema

#: The columns that are attributes. Others are members of the span or of its resource.
COLUMNS = tuple(
    name
    for name in arrow_schema("events").names
    if name not in ("source", "id", "parent", "host", "pid", "clock", "ts", "args", "name", "dur")
)
PREFIX = "ktrace."


def own_columns(args: dict[str, Any]) -> dict[str, Any]:
    """Takes the columns out of the attributes; a value of another type than the column's stays an attribute."""
    schema = arrow_schema("events")
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        value = args.get(PREFIX + name)
        kind = schema.field(name).type
        wanted = int if pa.types.is_integer(kind) else float if pa.types.is_floating(kind) else str
        if type(value) is not wanted or (type(value) is int and not _in_range(value, kind)):
            continue
        if name != "kind" or value in _KINDS:
            columns[name] = args.pop(PREFIX + name)
    if columns:
        columns = dict.fromkeys(TRACK_COLUMNS[3:]) | {"cat": None} | columns
    return columns


def _in_range(value: int, kind: pa.DataType) -> bool:
    limit: int = 1 << (kind.bit_width - 1)
    return abs(value) < limit


_KINDS = frozenset(
    (
        "kernel",
        "memcpy",
        "memset",
        "graph",
        "api",
        "op",
        "range",
        "sync",
        "alloc",
        "overhead",
        "instant",
        "log",
        "sample",
    )
)
