"""Reads spans in two passes: the first finds parents and lanes, the second yields the rows.

A span is a range, its events are instants, its links are arrows. A parent that is drawn elsewhere has an arrow, too.
A process is one of the resources' (host, pid). Spans of a service overlap: many requests at once, children that run at
the same time. So the tracks of a service are lanes, and a span is in the lane of its parent where it fits there:

    vllm      request 1 ────────────────   request 3 ────
                prefill ── decode ─ decode ─
    vllm 2       request 2 ─────────────────────────
                   prefill ────  decode ── decode ──

48 bytes a span are kept between the passes.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.trace_json.chunks import Text
from ktrace.model.arrays import Int64
from ktrace.model.batch import POINT_KINDS, Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report
from ktrace.store.joins import positions
from ktrace.store.vocabulary import Interner

from . import messages
from .documents import Documents, Found
from .spans import LIMIT, BadSpan, Scope, Span, make_scope, make_span, own_columns


class Service(NamedTuple):
    """What has tracks of its own: a service in a process. `instance` tells services apart that have no process id."""

    host: str | None
    pid: int | None
    name: str
    instance: str


def service_of(resource: dict[str, Any]) -> Service:
    """The service that a resource describes, by the semantic conventions."""
    host, pid = resource.get("host.name"), resource.get("process.pid")
    if isinstance(pid, str) and pid.isdecimal() and len(pid) < 19:
        pid = int(pid)
    name, instance = resource.get("service.name"), resource.get("service.instance.id")
    return Service(
        host if isinstance(host, str) and host else None,
        pid if type(pid) is int and abs(pid) < LIMIT else None,
        str(name) if name else "spans",
        str(instance) if instance and type(pid) is not int else "",
    )


class SpanTracks:
    """Parents, tracks and lanes of all spans. Call `add` for each span, then `arrange`; row numbers count from 0."""

    def __init__(self) -> None:
        self.services: dict[Service, dict[str, Any]] = {}
        self._numbers = Interner()
        self._columns = {name: array("q") for name in ("key", "parent", "service", "start", "end")}

    def add(self, span: Span) -> None:
        """Adds a span."""
        service = service_of(span.scope.resource)
        number = self._numbers[service]
        self.services.setdefault(service, {}).update(span.scope.resource)
        parent = hash((span.trace, span.parent)) if span.parent else 0
        values = (hash((span.trace, span.span)), parent, number, span.start, LIMIT if span.end is None else span.end)
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(self.lane)

    def arrange(self) -> None:
        """Finds the parents, and assigns the lanes."""
        key, parent, service, start, end = (np.array(column, np.int64) for column in self._columns.values())
        self._columns = {}
        self._order = np.argsort(key, kind="stable")
        self._keys = key[self._order]
        self.service = service
        self.parent = np.where(parent != 0, self._find(parent), -1)
        self.parent[self.parent == np.arange(len(key))] = -1
        self.lane = _lanes(start, end, service, self.parent)
        self._names = self._track_names()

    def _find(self, keys: Int64) -> Int64:
        """The row of each key, -1 where there is none."""
        return np.append(self._order, -1)[positions(keys, self._keys)]

    def row_of(self, trace: str, span: str) -> int:
        """The row of a span, -1 if it isn't in the file."""
        return int(self._find(np.array([hash((trace, span))], np.int64))[0])

    def nested(self, row: int) -> bool:
        """Whether a span is shown below its parent."""
        parent = self.parent[row]
        return bool(self.lane[row] == self.lane[parent] and self.service[row] == self.service[parent])

    def place(self, row: int) -> dict[str, Any]:
        """The columns of the track of a span."""
        number = int(self.service[row])
        name, service = self._names[number]
        lane = int(self.lane[row])
        track = name if not lane else f"{name} {lane + 1}"
        return {"host": service.host, "pid": service.pid, "track": track}

    def lanes(self) -> dict[Service, int]:
        """How many lanes each service has."""
        return {
            service: int(self.lane[self.service == number].max()) + 1 for number, service in enumerate(self.services)
        }

    def track_name(self, service: Service) -> str:
        """The name of the first track of a service."""
        return self._names[self._numbers[service]][0]

    def _track_names(self) -> list[tuple[str, Service]]:
        """For each service the name of its tracks: its own, with the instance where several in a process have it."""
        counts: dict[tuple[str | None, int | None, str], int] = {}
        for service in self.services:
            counts[service[:3]] = counts.get(service[:3], 0) + 1
        return [
            (f"{service.name} ({service.instance[:8]})" if counts[service[:3]] > 1 else service.name, service)
            for service in self.services
        ]


def _lanes(start: Int64, end: Int64, service: Int64, parent: Int64) -> Int64:
    """The lane of each span within its service: that of its parent if it fits there, else one that is free."""
    lane = np.full(len(start), -1, np.int64)
    order = np.lexsort((-end, start, service))
    stacks: list[list[tuple[int, int]]] = []
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    current = -1
    ends, parents = end.tolist(), parent.tolist()
    for row, begin, group in zip(order.tolist(), start[order].tolist(), service[order].tolist(), strict=True):
        if group != current:
            current, stacks, busy, free = group, [], [], []
        while busy and busy[0][0] <= begin:
            number = heapq.heappop(busy)[1]
            stacks[number].clear()
            heapq.heappush(free, number)
        above = parents[row]
        if above >= 0 and service[above] == group and lane[above] >= 0:
            stack = stacks[lane[above]]
            while stack and stack[-1][0] <= begin:
                stack.pop()
            if stack and stack[-1][1] == above and ends[row] <= ends[above]:
                stack.append((ends[row], row))
                lane[row] = lane[above]
                continue
        if not free:
            free.append(len(stacks))
            stacks.append([])
        number = heapq.heappop(free)
        stacks[number].append((ends[row], row))
        heapq.heappush(busy, (ends[row], number))
        lane[row] = number
    return lane


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of all spans. Raises DamagedInput for a file that isn't OTLP from its first byte on."""
    places = SpanTracks()
    for span in _spans(source, Report(), quiet=True):
        places.add(span)
    places.arrange()
    rows = RowBuilder(conversion, first_id=len(places) + 1)
    rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
    for number, span in enumerate(_spans(source, conversion.report)):
        _add(span, number, places, rows, conversion.report)
        yield from rows.ready()
    _facts(places, rows)
    yield from rows.rest()


def _spans(source: Source, report: Report, *, quiet: bool = False) -> Iterator[Span]:
    """Yields the sound spans. Each record is counted; bad ones are reported."""
    with source.open(quiet=quiet) as stream:
        head = stream.peek(4096)[:4096]  # type: ignore[attr-defined]
        frames = messages.framing(head)
        text = None if frames else Text(stream)
        items = Documents(text, report) if text else _in_messages(messages.Bytes(stream), frames, source, report)
        for item in items:
            try:
                if not isinstance(item.span, dict):
                    raise BadSpan("bad-record", "a span that isn't an object")
                span = make_span(item.span, item.scope)
            except BadSpan as bad:
                report.record()
                report.issue(bad.kind, item.where, bad.detail)
                continue
            report.record(span.records)
            report.used(span.records - len(span.bad))
            for part in span.bad:
                report.issue(part.kind, item.where, part.detail)
            yield span
        if text:
            text.finish(report)


def _in_messages(data: messages.Bytes, frames: str, source: Source, report: Report) -> Iterator[Found]:
    """Yields the spans of a protobuf file. Raises DamagedInput if not even its first field is OTLP."""
    any_span = False
    try:
        for item in _resources(data) if frames == "message" else _frames(data, frames, report):
            any_span = True
            yield item
    except messages.Damaged as damage:
        if damage.cut:
            report.record()
            report.issue("cut", f"byte {data.pos}", str(damage))
        elif any_span:
            report.record()
            report.issue("bad-record", f"byte {data.pos}", f"{damage}; the rest of the file was left out")
        else:
            raise DamagedInput(
                str(damage),
                path=source.path,
                where=f"byte {data.pos}",
                expected="protobuf messages TracesData or ExportTraceServiceRequest",
                remedy="export it again, or as OTLP JSON",
            ) from None


def _frames(data: messages.Bytes, frames: str, report: Report) -> Iterator[Found]:
    """Yields the spans of messages that follow their lengths. Raises Damaged."""
    while True:
        if frames == "length":
            head = data.read_some(4)
            if 0 < len(head) < 4:
                raise messages.Damaged("the length of a message is missing", cut=True)
            size = int.from_bytes(head, "big") if head else None
        else:
            size = data.varint()
        if size is None:
            return
        start = data.pos
        content = data.read(size)
        try:
            stream = messages.unpacked(content)
            if stream.peek(1)[:1] == b"{":  # type: ignore[attr-defined]
                yield from Documents(Text(stream), report)
            else:
                yield from _resources(messages.Bytes(stream), start)
        except (OSError, messages.Damaged) as damage:
            report.record()
            report.issue("bad-record", f"message at byte {start}", str(damage))


def _resources(data: messages.Bytes, base: int = 0) -> Iterator[Found]:
    """Yields the spans of a message TracesData. Raises Damaged."""
    for number, length in messages.fields(data, None):
        if number != 1:
            data.skip(length)
            continue
        end = data.pos + length
        resource: dict[str, Any] | None = None
        for part, size in messages.fields(data, end):
            if part == 1:
                resource = messages.decode(data.read(size), messages.RESOURCE)
            elif part in (2, 1000):
                yield from _scope_spans(data, data.pos + size, resource, base)
            else:
                data.skip(size)


def _scope_spans(data: messages.Bytes, end: int, resource: dict[str, Any] | None, base: int) -> Iterator[Found]:
    scope = make_scope(resource, None)
    for number, size in messages.fields(data, end):
        where = f"byte {base + data.pos}"
        if number == 1:
            scope = make_scope(resource, messages.decode(data.read(size), messages.SCOPE))
        elif number == 2:
            content = data.read(size)
            try:
                span: object = messages.decode(content, messages.SPAN)
            except messages.Damaged:
                span = None
            yield Found(span, scope, where)
        else:
            data.skip(size)


def _add(span: Span, number: int, places: SpanTracks, rows: RowBuilder, report: Report) -> None:
    """Adds the rows of a span."""
    place, parent = places.place(number), int(places.parent[number])
    identity, above = number + 1, parent + 1 if parent >= 0 else None
    absent = []
    for link in span.links:
        other = places.row_of(link.trace, link.span)
        if other < 0:
            absent.append({"$trace_id": link.trace, "$span_id": link.span} | link.args)
            continue
        key = f"{link.trace}/{link.span} {span.trace}/{span.span}"
        _arrow(rows, "flow", key, other, number, span.start, places, link.args)
    if above is not None and not places.nested(number):
        _arrow(rows, "async", f"{span.trace}/{span.span}", parent, number, span.start, places, {})
    is_own = span.scope.name == "ktrace"
    args = span.args | ({} if is_own else _scope_args(span.scope)) | ({"$links": absent} if absent else {})
    columns: dict[str, Any] = {"kind": "range", "cat": span.kind, "parent": above, "timing": "measured"} | place
    columns["dur"] = None if span.end is None else span.end - span.start
    if is_own:
        columns |= own_columns(args)
    if columns["kind"] in POINT_KINDS:
        columns["dur"] = None
    rows.add("events", id=identity, name=span.name, ts=span.start, args=args, **columns)
    for event in span.events:
        rows.event("instant", event.name, ts=event.ts, parent=identity, args=event.args, **place)


def _arrow(
    rows: RowBuilder, kind: str, key: str, start: int, end: int, ts: int, places: SpanTracks, args: dict[str, Any]
) -> None:
    """Adds an arrow between two spans, by their numbers."""
    rows.link(kind, key, "out", event=start + 1, ts=ts, **places.place(start))
    rows.link(kind, key, "in", event=end + 1, ts=ts, args=args or None, **places.place(end))


def _scope_args(scope: Scope) -> dict[str, Any]:
    named = {"$scope": scope.name, "$scope.version": scope.version}
    return {name: value for name, value in named.items() if value} | {
        f"$scope.{key}": value for key, value in scope.attributes.items()
    }


def _facts(places: SpanTracks, rows: RowBuilder) -> None:
    """Adds what the resources say about hosts, processes, tracks and the program."""
    alone: dict[tuple[str | None, int | None], list[Service]] = {}
    for service, resource in places.services.items():
        alone.setdefault(service[:2], []).append(service)
        if service.host is not None:
            rows.fact("host", host=service.host, name=service.host, facts=_some(resource, _HOST))
    words = ("telemetry.sdk.language", "telemetry.sdk.version")
    sdks = {
        tuple(value if isinstance(value := r.get(word), str) else "" for word in words)
        for r in places.services.values()
    }
    facts = {"tool": "OpenTelemetry"}
    if len(sdks) == 1 and (version := next(iter(sdks))[1]):
        facts["version"] = version
    rows.fact("source", facts=facts)
    lanes = places.lanes()
    for (host, pid), services in alone.items():
        if len(services) == 1:
            resource = places.services[services[0]]
            about = resource | _some(resource, _PROCESS)
            name = services[0].name if "service.name" in resource else None
            rows.fact("process", host=host, pid=pid, name=name, facts=about)
        for order, service in enumerate(services):
            facts_of_service = places.services[service] if len(services) > 1 else {}
            base = places.track_name(service)
            for lane in range(lanes[service]):
                track = base if not lane else f"{base} {lane + 1}"
                sort = order * 1_000_000 + lane
                rows.fact(
                    "track",
                    host=host,
                    pid=pid,
                    track=track,
                    name=track,
                    order=sort,
                    facts=facts_of_service if not lane else {},
                )


def _some(resource: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {fact: resource[key] for key, fact in names.items() if isinstance(resource.get(key), str)}


_HOST = {"os.description": "os"}
_PROCESS = {"process.command_line": "command"}
