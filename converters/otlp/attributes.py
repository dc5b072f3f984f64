"""Rows of a batch as attributes of OTLP: arguments under their own keys, columns as `ktrace.<column>`."""

from __future__ import annotations

import math
import re
from typing import Any

from ktrace.model.batch import Batch
from ktrace.model.json_text import dump_json, load_object
from ktrace.model.row_builder import to_rows

from .own import COLUMNS, PREFIX

#: A greater depth is text: readers of protobuf refuse a hundred levels.
_DEEPEST = 32

#: Arguments that are members of a span, not attributes, and their digits. Other ids of the source are attributes.
IDS = {"$trace_id": 32, "$span_id": 16, "$parent_span_id": 16}
_HEX = re.compile(r"[0-9a-f]*")


def rows_with_args(batch: Batch) -> list[dict[str, Any]]:
    """The rows as dicts, with `args` as a dict of its own."""
    texts = batch.args_text().to_pylist()
    plain = Batch(batch.record, batch.columns.drop_columns(batch.typed_args()))
    rows = to_rows(plain)
    for row, text in zip(rows, texts, strict=True):
        row["args"] = load_object(text)
    return rows


def id_in(args: dict[str, Any], name: str) -> str:
    """The id in an argument if it is one of OTLP's, else an empty text."""
    value = args.get(name)
    return value if isinstance(value, str) and len(value) == IDS.get(name) and _HEX.fullmatch(value) else ""


def attributes_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The attributes of a row: its arguments, then its columns."""
    own = {name: value for name, value in row["args"].items() if not id_in(row["args"], name)}
    columns = {PREFIX + name: row[name] for name in COLUMNS if name in row}
    return pairs(own | columns)


def pairs(values: dict[str, Any], depth: int = 0) -> list[dict[str, Any]]:
    """Values as a list of `KeyValue`."""
    return [{"key": name, "value": any_value(value, depth)} for name, value in values.items()]


def any_value(value: Any, depth: int = 0) -> dict[str, Any]:
    """A value as an `AnyValue`: integers as text, null as an empty one.

    What protobuf can't express becomes text, and so do lists and objects in more than `_DEEPEST` others.
    """
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if -(1 << 63) <= value < 1 << 63 else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _SPECIAL[str(value)]}
    if isinstance(value, (list, dict)) and depth > _DEEPEST:
        return {"stringValue": dump_json(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(item, depth + 1) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value, depth + 1)}}
    return {"stringValue": str(value)}


_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
