"""Writes a timeline as OTLP JSON: one document, with resource spans for each process in each run of time.

A slice is a span. Its parent is the slice around it on its track, or the one that `args.$parent_span_id` names.
Instants are events of their parent if it is in the same batch, else spans of 0 ns. An arrow is a link to the span where
it begins. Attributes are arguments under their own keys, and columns as `ktrace.<column>`.
"""

from __future__ import annotations

import math
import re
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

import ktrace
from ktrace.conversion import Conversion
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import dump_json, load_object
from ktrace.model.masks import slice_rows, words_in
from ktrace.model.row_builder import to_rows
from ktrace.model.tracks import Node, Process, arrange, host_of
from ktrace.output import Sink
from ktrace.stages.order import Timeline, TimelineBatch
from ktrace.stages.order.links import ARROW_KINDS

from .spans import CODES, COLUMNS, KINDS, PREFIX

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
    attributes = {name: value for name, value in row["args"].items() if not id_in(row["args"], name)}
    columns = {PREFIX + name: row[name] for name in COLUMNS if name in row}
    return pairs(attributes | columns)


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


#: Rows that become objects at once; limits memory.
CHUNK = 16_384

_EVENTS = ("instant", "log", "sample")

Ids = tuple[str, str]


class Writer:
    """A TimelineWriter of spans, events and links. Counters have no place in spans."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._stream = sink.open()
        self._report = conversion.report
        self._separator = b"\n"
        #: (track, lane) -> the open spans there, each with its serial, its ids.
        self._open: dict[tuple[int, int], list[tuple[int, Ids]]] = {}
        #: arrow -> the ids of the span where it begins.
        self._departures: dict[int, Ids] = {}

    def start(self, timeline: Timeline) -> None:
        """Writes the head. Times become those of the unix clock where there is one, and are never negative."""
        offsets = timeline.catalog.unix_offsets()
        self._offset = next(iter(offsets)) if len(offsets) == 1 else 0
        if timeline.start + self._offset < 0:
            self._report.issue("origin", "output", f"{timeline.start} ns were subtracted", 0)
            self._offset = -timeline.start
        self._end = timeline.end
        self._tracks = timeline.tracks
        self._resources = _resources(timeline)
        self._process = [self._resources[track.process][0] for track in timeline.tracks]
        sources = {track.source for track in timeline.tracks}
        self._traces = {name: blake2b(name.encode("utf-8", "replace"), digest_size=16).hexdigest() for name in sources}
        self._stream.write(b'{"resourceSpans":[')

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows and returns the number of events and arrow ends that it kept."""
        spans: dict[int, list[dict[str, Any]]] = {}
        parents, ids = self._parents(batch)
        self._add(batch, parents, ids, spans)
        for number, written in spans.items():
            resource = next(about for process, about in self._resources.values() if process == number)
            scope = {"name": "ktrace", "version": ktrace.__version__}
            entry = {"resource": resource, "scopeSpans": [{"scope": scope, "spans": written}]}
            self._stream.write(self._separator + msgspec.json.encode(entry))
            self._separator = b",\n"
        counters = int(np.count_nonzero(words_in(batch.column("kind"), ("counter",))))
        return len(batch) - counters + batch.link_ends

    def close(self) -> None:
        """Writes the end."""
        self._stream.write(b"\n]}\n")

    def _add(
        self, batch: TimelineBatch, parents: list[Ids | None], ids: list[Ids], spans: dict[int, list[dict[str, Any]]]
    ) -> None:
        """Makes the spans of a batch, by process."""
        links = self._links(batch, ids)
        owners: dict[tuple[str, int], dict[str, Any]] = {}
        late: list[tuple[int, dict[str, Any]]] = []
        for first in range(0, len(batch), CHUNK):
            index = np.arange(first, min(first + CHUNK, len(batch)))
            for number, row in zip(index.tolist(), rows_with_args(batch.taken(index)), strict=True):
                if row["kind"] in _EVENTS and number not in links and "parent" in row:
                    late.append((number, row))
                elif row["kind"] != "counter":
                    span = self._span(row, ids[number], parents[number], links.get(number, []))
                    owners[row["source"], row["id"]] = span
                    spans.setdefault(self._process[batch.track[number]], []).append(span)
        for number, row in late:
            owner = owners.get((row["source"], row["parent"]))
            if owner is None:
                span = self._span(row, ids[number], parents[number], [])
                spans.setdefault(self._process[batch.track[number]], []).append(span)
                continue
            plain = {name: value for name, value in row.items() if name in ("args", "value", "unit", "bytes", "cat")}
            time = str(row["ts"] + self._offset)
            event = {"timeUnixNano": time, "name": row["name"], "attributes": attributes_of(plain)}
            owner.setdefault("events", []).append(event)

    def _span(self, row: dict[str, Any], ids: Ids, parent: Ids | None, links: list[Ids]) -> dict[str, Any]:
        args, start = row["args"], row["ts"] + self._offset
        dur = row.get("dur", 0 if row["kind"] in _EVENTS else None)
        above = args.get("$parent_span_id") if "$span_id" in args else parent[1] if parent else None
        span: dict[str, Any] = {"traceId": ids[0], "spanId": ids[1]}
        if isinstance(above, str):
            span["parentSpanId"] = above
        cat, status = row.get("cat"), args.get("$status")
        span |= {
            "name": row["name"],
            "kind": KINDS.index(cat) if cat in KINDS and "$span_id" in args else 1,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + dur) if dur is not None else str(self._end + self._offset),
            "attributes": attributes_of(row),
        }
        if links:
            span["links"] = [{"traceId": trace, "spanId": other} for trace, other in links]
        if status in CODES:
            span["status"] = {"code": CODES.index(status)}
        return span

    def _links(self, batch: TimelineBatch, ids: list[Ids]) -> dict[int, list[Ids]]:
        """For each row where arrows end, the spans where they begin."""
        arrows = batch.arrows
        own_parents = self._own_parents(batch)
        links: dict[int, list[Ids]] = {}
        numbers = zip(*(column.tolist() for column in (arrows.row, arrows.arrow, arrows.out, arrows.kind)), strict=True)
        ends = list(numbers)
        for row, arrow, out, _ in ends:
            if out:
                self._departures[arrow] = ids[row]
        for (row, arrow, out, kind), peer in zip(ends, arrows.peer.tolist(), strict=True):
            if out or not peer or (row in own_parents and ARROW_KINDS[kind] == "async"):
                continue
            departure = self._departures.get(arrow) or (ids[row][0], _number(peer))
            links.setdefault(row, []).append(departure)
        return links

    def _own_parents(self, batch: TimelineBatch) -> set[int]:
        """The rows whose span already names its parent."""
        if not batch.has("args"):
            return set()
        texts = batch.column("args").to_pylist()
        return {number for number, text in enumerate(texts) if text and '"$parent_span_id"' in text}

    def _parents(self, batch: TimelineBatch) -> tuple[list[Ids | None], list[Ids]]:
        """For each row the ids of the slice around it on its lane, and its own ids."""
        ids = self._ids(batch)
        parents: list[Ids | None] = [None] * len(batch)
        edges = batch.edges
        columns = (column.tolist() for column in (edges.row, edges.track, edges.lane))
        ends_later = slice_rows(batch).tolist()  # not points, nor device work that may overlap
        for row, track, lane in zip(*columns, strict=True):
            stack = self._open.setdefault((track, lane), [])
            if row < 0:
                if stack:
                    stack.pop()
                continue
            parents[row] = stack[-1][1] if stack else None
            if ends_later[row]:
                stack.append((row, ids[row]))
        return parents, ids

    def _ids(self, batch: TimelineBatch) -> list[Ids]:
        """The ids of each row: those in its arguments, else the source's trace and the row's number."""
        sources = [self._traces[self._tracks[track].source] for track in batch.track.tolist()]
        ids = [(source, _number(serial)) for source, serial in zip(sources, batch.serial.tolist(), strict=True)]
        if batch.has("args"):
            for number, text in enumerate(batch.column("args").to_pylist()):
                if text and '"$trace_id"' in text:
                    args, (trace, span) = load_object(text), ids[number]
                    ids[number] = id_in(args, "$trace_id") or trace, id_in(args, "$span_id") or span
        return ids


def _resources(timeline: Timeline) -> dict[Process, tuple[int, dict[str, Any]]]:
    """The resource of each process: its name, host and process id, and what the source says about it."""
    resources: dict[Process, tuple[int, dict[str, Any]]] = {}
    nodes: list[Node] = arrange(timeline.tracks, timeline.catalog)
    for number, node in enumerate(nodes):
        process = node.key
        assert isinstance(process, Process)
        resources[process] = (number, {"attributes": pairs(_about(process, node, timeline.catalog))})
    return resources


def _about(process: Process, node: Node, catalog: Catalog) -> dict[str, Any]:
    entry = catalog.get("process", source=process.source, host=process.host, pid=process.pid)
    host = host_of(process, catalog)
    about: dict[str, Any] = {"service.name": node.shown.without_pid or node.shown.name}
    about |= {"host.name": host} if host else {}
    about |= {"process.pid": process.pid} if process.pid is not None else {}
    facts = entry.facts if entry else {}
    return about | {name: value for name, value in facts.items() if name not in about}


def _number(serial: int) -> str:
    """The id of a row: its number, spread over the 8 bytes as OTLP wants ids that differ early."""
    return f"{(serial * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF:016x}"
