"""Reads an export of trtexec, or its log; of the JSON an object at a time: profiles, times of queries, layers.

Names aren't escaped in a profile; an object that isn't JSON for that reason is repaired. A query of `--exportTimes` is
the call, the copies and the computation:

    startEnqMs .. endEnqMs            the call that enqueues the query           api "enqueue"
    startH2dMs .. endH2dMs            the copy of its inputs (2019: startInMs)   memcpy "H2D"
    startComputeMs .. endComputeMs    its kernels                                graph "GPU compute"
    startD2hMs .. endD2hMs            the copy of its outputs (2019: startOutMs) memcpy "D2H"

Times are ms since the first query was enqueued. trtexec prints six digits: after one second a begin is exact to
10 us, while durations (`computeMs`) remain exact. So a begin that would be inside the previous slice, by less than
these digits can show, is set to that slice's end.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.boundary import BadFiles
from ktrace.input.source import Source, begins_as_json, file_in
from ktrace.kit.text.json_items import Item, beginning, json_items, plain_value
from ktrace.kit.text.numbers import to_ns
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from . import own_files
from .log import TrtexecLog, kind_of, milliseconds

_LIMIT = 1 << 62


class _Phase(NamedTuple):
    """A part of a query: the keys of its begin, end and duration, and how it is shown."""

    start: str
    end: str
    length: str
    kind: str
    name: str
    copy_kind: str | None = None


_PHASES = (
    _Phase("startEnqMs", "endEnqMs", "", "api", "enqueue"),
    _Phase("startH2dMs", "endH2dMs", "h2dMs", "memcpy", "H2D", "HtoD"),
    _Phase("startInMs", "endInMs", "inMs", "memcpy", "H2D", "HtoD"),
    _Phase("startComputeMs", "endComputeMs", "computeMs", "graph", "GPU compute"),
    _Phase("startD2hMs", "endD2hMs", "d2hMs", "memcpy", "D2H", "DtoH"),
    _Phase("startOutMs", "endOutMs", "outMs", "memcpy", "D2H", "DtoH"),
)
_KEYS = frozenset(key for phase in _PHASES for key in phase[:3])


class _Slice(NamedTuple):
    phase: _Phase
    ts: int
    dur: int
    args: dict[str, Any]


class _Bad(Exception):
    """Raised for a query that can't be used; contains the kind of issue and its detail."""


class Queries:
    """Adds the events of queries. `restart` begins another list of them."""

    def __init__(self, rows: RowBuilder, report: Report) -> None:
        self._rows = rows
        self._report = report
        self._known = False
        self._correlation = 0
        self._ends: dict[str, int] = {}

    def restart(self) -> None:
        """Forgets where the slices of the list before ended."""
        self._ends = {}

    def add(self, where: str, query: dict[str, Any]) -> bool:
        """Adds a query or reports why it can't be read. Always True: the query is accounted for."""
        try:
            slices = [slice_ for phase in _PHASES if (slice_ := self._slice(phase, query, where))]
            if not any(slice_.phase.name == "GPU compute" for slice_ in slices):
                raise _Bad("bad-record", "no start or no duration of the computation")
        except _Bad as bad:
            kind, detail = bad.args
            self._report.issue(kind, where, detail)
            return True
        if not self._known:
            self._rows.fact("clock", facts={"kind": "session"})
            self._rows.fact("device", device=0, facts={"api": "cuda", "vendor": "NVIDIA"})
            self._known = True
        self._correlation += 1
        for slice_ in slices:
            self._event(slice_, query)
        self._report.used()
        return True

    def _event(self, part: _Slice, query: dict[str, Any]) -> None:
        phase, args = part.phase, dict(part.args)
        place: dict[str, Any] = {"track": phase.name, "copy_kind": phase.copy_kind}
        if phase.kind != "api":
            place["device"] = 0
        if phase.kind != "memcpy":
            place["correlation"] = self._correlation
        if phase.kind == "graph":
            others = {key: value for key, value in query.items() if key not in _KEYS}
            args |= {key: plain_value(value) for key, value in others.items()}
        ts = part.ts
        limit = self._ends.get(phase.name, ts)
        timing = "measured"
        if ts < limit <= ts + _step(query[phase.start]):
            args[phase.start] = float(query[phase.start])
            ts, timing = limit, "derived"
        self._ends[phase.name] = ts + part.dur
        self._rows.event(phase.kind, phase.name, ts=ts, dur=part.dur, timing=timing, args=args, **place)

    def _slice(self, phase: _Phase, query: dict[str, Any], where: str) -> _Slice | None:
        """The slice of a phase; None if the query doesn't have it or nothing was copied. Raises _Bad."""
        if query.get(phase.start) is None:
            return None
        begin, exact = _ns(query, phase.start)
        args: dict[str, Any] = {}
        if phase.length in query:
            length, whole = _ns(query, phase.length)
            if not whole:
                args[phase.length] = float(query[phase.length])
        elif query.get(phase.end) is not None:
            end, whole = _ns(query, phase.end)
            length = end - begin
        else:
            return None
        if length < 0:
            raise _Bad("negative-duration", f"{phase.name}: {length} ns")
        if phase.kind == "memcpy" and not length:
            return None
        if not (exact and whole):
            self._report.issue("rounded", where)
            if not exact:
                args[phase.start] = float(query[phase.start])
        return _Slice(phase, begin, length, args)


def _ns(query: dict[str, Any], key: str) -> tuple[int, bool]:
    value = query[key]
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise _Bad("bad-record", f"{key} isn't a number")
    try:
        time, exact = to_ns(Decimal(value), "ms")
    except ValueError:
        raise _Bad("time-range", f"{key}: {value}"[:80]) from None
    if abs(time) >= _LIMIT:
        raise _Bad("time-range", f"{key}: {value}"[:80])
    return time, exact


def _step(value: Any) -> int:
    """The last of the six digits of a number of ms, in ns."""
    place = Decimal(value).adjusted() + 1
    return int(10**place) if place >= 0 else 1


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
    for place, file in _in_order(source, conversion) if source.is_folder else [("", source)]:
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
        if queue := self._waiting.get(name):
            about = queue.popleft()
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
        description = _Description(name, place, args)
        if self._join:
            self._waiting.setdefault(name, deque()).append(description)
        else:
            self._note(description)
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
    match = _UNESCAPED.fullmatch(text.strip().lstrip(","))
    if not match:
        return None
    figures: dict[str, Any] = {}
    for key, digits in _FIGURE.findall(match["rest"]):
        try:
            figures[key] = Decimal(digits)
        except ArithmeticError:
            return None
    return {"name": match["name"], **figures}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields summaries of layers and of the run, or events of queries."""
    if source.is_folder:
        yield from read_exports(source, conversion)
        return
    begin = beginning(source)
    if begins_as_json(begin):
        yield from read_exports(source, conversion)
    else:
        yield from TrtexecLog.read(source, conversion)


def _in_order(folder: Source, conversion: Conversion) -> Iterator[tuple[str, Source]]:
    """Yields the files in the order in which they are read, each with its name; reports the other ones."""
    listing = folder.sample().listing or ()
    files = own_files(listing)
    for path in listing:
        if path not in files.values():
            conversion.report.issue("no-trace", path)
    for path in files.values():
        yield path, file_in(folder, path)
