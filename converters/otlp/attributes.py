"""Rows of a batch as attributes of OTLP: arguments under their own keys, columns as `ktrace.<column>`."""

from __future__ import annotations

import math
from typing import Any

from ktrace.model.batch import Batch
from ktrace.model.json_text import load_object
from ktrace.model.row_builder import to_rows

from .own import COLUMNS, PREFIX

#: Arguments that are members of a span, not attributes.
IDS = ("$trace_id", "$span_id", "$parent_span_id")


def rows_with_args(batch: Batch) -> list[dict[str, Any]]:
    """The rows as dicts, with `args` as a dict of its own."""
    texts = batch.args_text().to_pylist()
    plain = Batch(batch.record, batch.columns.drop_columns(batch.typed_args()))
    rows = to_rows(plain)
    for row, text in zip(rows, texts, strict=True):
        row["args"] = load_object(text)
    return rows


def attributes_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The attributes of a row: its arguments, then its columns."""
    own = {name: value for name, value in row["args"].items() if name not in IDS}
    columns = {PREFIX + name: row[name] for name in COLUMNS if name in row}
    return pairs(own | columns)


def pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Values as a list of `KeyValue`."""
    return [{"key": name, "value": any_value(value)} for name, value in values.items()]


def any_value(value: Any) -> dict[str, Any]:
    """A value as an `AnyValue`: integers as text, null as an empty one. What protobuf can't express becomes text."""
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if -(1 << 63) <= value < 1 << 63 else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _SPECIAL[str(value)]}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    return {"stringValue": str(value)}


_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
