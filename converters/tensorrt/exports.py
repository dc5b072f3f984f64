"""Reads the JSON that trtexec exports, an object at a time: profiles, times of queries, layers.

Names aren't escaped in a profile; an object that isn't JSON for that reason is repaired.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.boundary import BadFiles
from ktrace.input.source import Source
from ktrace.kit.text.json_items import Item, json_items, plain_value
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .folder import in_order
from .layers import kind_of, milliseconds
from .queries import Queries

_UNESCAPED = re.compile(r'\{(?=.*\}\s*\Z)\s*"name"\s*:\s*"(?P<name>.*)"\s*,\s*(?P<rest>"timeMs"\s*:.*)\}\s*', re.DOTALL)
_FIGURE = re.compile(r'"(\w+)"\s*:\s*([-+]?\d[-+\d.eE]*)')

#: Key of a profile -> column. Others become arguments.
_FIGURES = {"timeMs": "total", "averageMs": "avg", "medianMs": "median"}


def read_exports(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of each object; the kind of document shows in its keys."""
    rows = RowBuilder(conversion)
    rows.fact("source", facts={"tool": "TensorRT trtexec"})
    exports = _Exports(rows, conversion, join=source.is_folder)
    bad = BadFiles(conversion.report)
    for place, file in in_order(source, conversion) if source.is_folder else [("", source)]:
        exports.begin(place)
        for item in bad.left_out(file.path, json_items(file, conversion.report)):
            conversion.report.record()
            exports.add(item)
            yield from rows.ready()
    bad.end()
    exports.end()
    yield from rows.rest()


class _Description(NamedTuple):
    """The description of a layer: its name, the columns and the arguments of its row."""

    name: str
    place: dict[str, Any]
    args: dict[str, Any]


class _Exports:
    """Adds the objects of all documents. `join`: descriptions of layers wait for the layers' times."""

    def __init__(self, rows: RowBuilder, conversion: Conversion, *, join: bool) -> None:
        self._rows = rows
        self._join = join
        self._waiting: dict[str, deque[_Description]] = {}
        self._place = ""
        self._report = conversion.report
        self._queries = Queries(rows, conversion.report)
        self._document = -1
        self._tables = -1
        self._count: int | None = None
        self._bindings: list[str] = []

    def begin(self, place: str) -> None:
        """Begins another file; in the report, `place` precedes the places in it."""
        self._place = f"{place}: " if place else ""
        self._document = -1

    def add(self, item: Item) -> None:
        """Adds the rows of an item, or reports why there are none."""
        if item.document != self._document:
            self._document, self._count = item.document, None
            self._tables += 1
            self._queries.restart()
            self._end_document()
        value = item.value
        if item.problem:
            value = _repaired(item.text) if item.problem == "bad-record" else None
            if value is None:
                self._report.issue(item.problem, self._place + item.where, item.text[:80])
                return
            self._report.issue("json-repair", self._place + item.where, "quotes in a name", 0)
        if not self._row(item, value):
            kind = "bad-record" if isinstance(value, (dict, str)) else "unrecognised"
            self._report.issue(kind, self._place + item.where, str(value)[:80])

    def _row(self, item: Item, value: Any) -> bool:
        """Adds a value; returns whether it was understood."""
        if item.key == "Layers" and item.listed:
            return self._layer(value)
        if item.key == "Bindings" and item.listed and isinstance(value, str):
            self._bindings.append(value)
            self._report.used(outcome="catalog")
            return True
        if not isinstance(value, dict):
            return False
        if "timeMs" in value or "averageMs" in value:
            return self._profiled(value)
        if "computeMs" in value or "startComputeMs" in value:
            return self._queries.add(self._place + item.where, value)
        if len(value) == 1 and type(value.get("count")) is int and 0 <= value["count"] < 1 << 63:
            self._count = value["count"]
            self._report.used(outcome="folded")
            return True
        return False

    def _profiled(self, value: dict[str, Any]) -> bool:
        """Adds a layer with its times."""
        name, args = value.get("name"), {}
        figures: dict[str, Any] = {}
        for key, cell in value.items():
            if key in _FIGURES and (time := milliseconds(cell)) is not None:
                figures[_FIGURES[key]] = time
            elif key == "percentage" and isinstance(cell, (int, Decimal)) and milliseconds(cell) is not None:
                figures["percent"] = float(cell)
            elif key != "name":
                args[key] = plain_value(cell)
        if not isinstance(name, str) or not name or not figures.keys() & {"total", "avg"}:
            return False
        kind, way = kind_of(name)
        place: dict[str, Any] = {"table": self._tables, "copy_kind": way, "count": self._count}
        if known := self._waiting.get(name):
            about = known.popleft()
            place |= about.place
            args = about.args | args
            self._report.used(outcome="folded")
        self._rows.summary(kind, name, unit="ns", args=args, **figures, **place)
        self._report.used()
        return True

    def _layer(self, value: Any) -> bool:
        """Adds the description of a layer: an object, or its name alone."""
        about = value if isinstance(value, dict) else {"Name": value}
        name = about.get("Name")
        if not isinstance(name, str) or not name:
            return False
        args = {key: plain_value(cell) for key, cell in about.items() if key != "Name"}
        stream = args.get("StreamId")
        place: dict[str, Any] = {}
        if type(stream) is int and abs(stream) < 1 << 63:
            place["stream"] = args.pop("StreamId")
        if isinstance(args.get("LayerType"), str):
            place["cat"] = args.pop("LayerType")
        found = _Description(name, place, args)
        if self._join:
            self._waiting.setdefault(name, deque()).append(found)
        else:
            self._note(found)
        return True

    def _note(self, layer: _Description) -> None:
        self._rows.summary("note", layer.name, metric="layer", table=self._tables, args=layer.args, **layer.place)
        self._report.used()

    def end(self) -> None:
        """Adds the descriptions of layers without times."""
        self._end_document()
        for layers in self._waiting.values():
            for layer in layers:
                self._note(layer)
        self._waiting = {}

    def _end_document(self) -> None:
        """Adds what is known at the end of a document: the tensors that the engine reads and writes."""
        if self._bindings:
            self._rows.fact("source", facts={"bindings": self._bindings})
            self._bindings = []


def _repaired(text: str) -> dict[str, Any] | None:
    """Reads an object of a profile whose name contains quotes or backslashes as they are; None for other text."""
    found = _UNESCAPED.fullmatch(text.strip().lstrip(","))
    if not found:
        return None
    figures: dict[str, Any] = {}
    for key, digits in _FIGURE.findall(found["rest"]):
        try:
            figures[key] = Decimal(digits)
        except ArithmeticError:
            return None
    return {"name": found["name"], **figures}
