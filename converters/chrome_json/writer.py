"""Writes a timeline as Chrome trace JSON, an event a line."""

from __future__ import annotations

import json
import math
import re
from json.encoder import encode_basestring
from typing import Any

import ktrace
from ktrace.catalog import Catalog
from ktrace.conversion import Conversion
from ktrace.jsontext import dump_json
from ktrace.model import POINT_KINDS, Batch
from ktrace.order import Timeline, TimelineBatch
from ktrace.sink import Sink

from .._shared.arguments import RESERVED, argument_columns, argument_name, categories, values
from .rows import Rows

#: Entities whose facts go into `otherData`; names of processes and tracks are metadata events.
_FACTS = ("source", "host", "device", "clock")

#: Key of `otherData` under which viewers look for nothing.
OTHER_DATA_KEY = "ktrace"


class Writer:
    """A TimelineWriter of complete events (X), instants (i), counters (C) and flows (s, t, f)."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._stream = sink.open()
        self._report = conversion.report
        self._separator = ""

    def start(self, timeline: Timeline) -> None:
        """Writes the head. Times count from the begin of the trace."""
        self._origin, self._end = timeline.start, timeline.end
        self._rows = Rows(timeline.tracks, timeline.catalog)
        if self._origin:
            self._report.issue("origin", "output", f"{self._origin} ns were taken off", 0)
        about = {"version": ktrace.__version__, "origin_ns": self._origin} | _facts(timeline.catalog)
        head = {"displayTimeUnit": "ns", "otherData": {OTHER_DATA_KEY: about}}
        self._stream.write((dump_json(head)[:-1] + ',"traceEvents":[\n').encode("utf-8", "replace"))

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows and returns how many events and arrow ends it kept.

        A counter that is no number has no place.
        """
        events = batch.batch
        flows = self._flows(batch)
        lost = 0
        texts = {name: encode_basestring(name) for name in {*values(events, "name"), *categories(events)}}
        columns = (
            *(values(events, "kind"), values(events, "name"), categories(events), _arguments(events)),
            *(values(events, "ts"), values(events, "dur"), values(events, "value"), values(events, "unit")),
            *(batch.track.tolist(), values(events, "lane")),
        )
        lines: list[str] = []
        for row, (kind, name, cat, args, ts, dur, value, unit, track, lane) in enumerate(zip(*columns, strict=True)):
            time = _microseconds(ts - self._origin)
            if kind == "counter":
                if value is None or not math.isfinite(value):
                    lost += 1
                else:
                    lines.append(self._counter(track, name, time, value, unit))
                continue
            place = f'{self._rows.row(track, lane or 0)},"ts":{time}'
            what = f'"name":{texts[name]},"cat":{texts[cat]},{place}'
            if kind in POINT_KINDS:
                lines.append(f'{{"ph":"i","s":"t",{what},"args":{{{args}}}}}')
            else:
                width = _microseconds(self._end - ts if dur is None else dur)
                lines.append(f'{{"ph":"X",{what},"dur":{width},"args":{{{args}}}}}')
            lines += (f'{{"ph":"{phase}","id":{arrow},{_FLOW},{place}}}' for phase, arrow in flows.get(row, ()))
        self._lines(lines)
        return len(batch) + batch.link_ends - lost

    def close(self) -> None:
        """Writes the end."""
        self._stream.write(b"\n]}\n")

    def _counter(self, track: int, name: str, time: str, value: float, unit: str | None) -> str:
        """A value of a counter. Viewers show the name of the counter and that of the value, here its unit."""
        around = self._rows.series(track)
        shown = name if around in (None, name) else f"{around} {name}"
        number = int(value) if value.is_integer() and abs(value) < 2**53 else value
        what = f'"name":{encode_basestring(shown)},{self._rows.process(track)},"ts":{time}'
        return f'{{"ph":"C",{what},"args":{{{encode_basestring(unit or "value")}:{number}}}}}'

    def _flows(self, batch: TimelineBatch) -> dict[int, list[tuple[str, int]]]:
        """Row -> (phase, arrow number) of the arrow ends on it.

        An arrival is a step (t) as long as the arrow may go on: only in the last batch it is known not to (f).
        Viewers draw both alike, but an arrow that has ended can't go on.
        """
        rows, arrows, outs = (column.tolist() for column in (batch.arrows.row, batch.arrows.arrow, batch.arrows.out))
        is_last = len(batch.edges.ts) > 0 and batch.edges.ts[-1] >= self._end
        last = {arrow: index for index, (arrow, out) in enumerate(zip(arrows, outs, strict=True)) if not out}
        flows: dict[int, list[tuple[str, int]]] = {}
        for index, (row, arrow, out) in enumerate(zip(rows, arrows, outs, strict=True)):
            phase = "s" if out else "f" if is_last and last[arrow] == index else "t"
            flows.setdefault(row, []).append((phase, arrow))
        return flows

    def _lines(self, lines: list[str]) -> None:
        """Writes events, those that name new processes and threads first."""
        lines = self._rows.fresh + lines
        self._rows.fresh = []
        if lines:
            self._stream.write((self._separator + ",\n".join(lines)).encode("utf-8", "replace"))
            self._separator = ",\n"


_FLOW = '"name":"arrow","cat":"arrow","bp":"e"'


def _microseconds(ns: int) -> str:
    """Microseconds with three decimals, without a float in between."""
    whole, rest = divmod(ns, 1000)
    return f"{whole}.{rest:03}"


def _arguments(events: Batch) -> list[str]:
    """For each row the members of its `args` object, without the braces."""
    columns = argument_columns(events)
    parts = [[_member(key, value) for value in column] for key, column in columns.items()]
    if events.has("args"):
        names = "|".join(map(re.escape, RESERVED | columns.keys()))
        collision = re.compile(rf'"({names})"\s*:')
        parts.append([_source_members(text, columns, collision) for text in values(events, "args")])
    return [",".join(filter(None, row)) for row in zip(*parts, strict=True)]


def _member(key: str, value: Any) -> str:
    if value is None:
        return ""
    return f'"{key}":{value}' if type(value) is int else f"{encode_basestring(key)}:{dump_json(value)}"


def _source_members(text: str | None, columns: dict[str, list[Any]], collision: re.Pattern[str]) -> str:
    """The members of the source's own arguments, as they stand unless a key is that of a column."""
    if text is None:
        return ""
    if collision.search(text):
        text = dump_json({argument_name(key, columns): value for key, value in json.loads(text).items()})
    return text.strip()[1:-1]


def _facts(catalog: Catalog) -> dict[str, Any]:
    """What is known of sources, hosts, devices and clocks: entity -> facts, with the columns that identify it."""
    known: dict[str, Any] = {}
    for entity in _FACTS:
        entries = [
            entry.key | ({"name": entry.name} if entry.name else {}) | entry.facts for entry in catalog.of(entity)
        ]
        if entries:
            known[entity] = entries
    return known
