"""Reads a report of TVM as JSON, or what TVM prints.

Reads a report as JSON. Each value is an object whose key is its type: `{"microseconds": 12.5}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.json_items import Item, beginning, json_items, plain_value
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import NAME
from .calls import Calls
from .text_reports import read_text

_TYPES = frozenset({"string", "microseconds", "percent", "count", "ratio"})


def read_json(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each call, and for each device its total."""
    rows = RowBuilder(conversion)
    rows.fact("source", facts={"tool": "TVM"})
    calls, document = Calls(rows), -1
    for item in json_items(source, conversion.report):
        conversion.report.record()
        if item.document != document:
            document = item.document
            calls.begin()
        if item.problem:
            conversion.report.issue(item.problem, item.where, item.text[:80])
        elif outcome := _added(item, calls, rows):
            conversion.report.used(outcome=None if outcome == "rows" else outcome)
        else:
            kind = "bad-record" if item.key in ("calls", "device_metrics", "configuration") else "unrecognised"
            conversion.report.issue(kind, item.where, str(item.value)[:80])
        yield from rows.ready()
    yield from rows.rest()


def _added(item: Item, calls: Calls, rows: RowBuilder) -> str:
    """Adds an item; returns its outcome, "" if it isn't what it should be."""
    value = item.value
    if not isinstance(value, dict):
        return ""
    if item.key == "calls" and item.listed:
        return "rows" if calls.add(_metrics(value)) else ""
    if item.key == "device_metrics" and not item.listed:
        totals = [calls.add(_device(name, metrics), total=True) for name, metrics in value.items()]
        return ("rows" if any(totals) else "structure") if all(totals) else ""
    if item.key == "configuration" and not item.listed:
        facts = {key: plain_value(cell) for key, cell in _metrics(value).items()}
        rows.fact("source", facts={"configuration": facts} if facts else {})
        return "catalog"
    return ""


def _metrics(typed: dict[str, Any]) -> dict[str, Any]:
    """The metrics without their types. A value that has no known type is kept as it is."""
    return {key: _value(cell) for key, cell in typed.items()}


def _value(cell: Any) -> Any:
    if isinstance(cell, dict) and len(cell) == 1 and (kind := next(iter(cell))) in _TYPES:
        return cell[kind]
    return cell


def _device(name: str, metrics: Any) -> dict[str, Any]:
    """The metrics of a device, as those of a call named Total."""
    found = _metrics(metrics) if isinstance(metrics, dict) else {}
    return {"Device": name} | found | {NAME: "Total"}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each call, and the totals."""
    is_json = beginning(source).startswith("{")
    yield from read_json(source, conversion) if is_json else read_text(source, conversion)
