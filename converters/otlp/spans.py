"""A span of any dialect, checked: from an object as OTLP JSON has it, or as the console exporter prints it.

Keys are those of OTLP JSON; the names of the protobuf fields (`trace_id`) are read as well. Ids are hexadecimal, or
base64 where a general protobuf library wrote the JSON. Enums are numbers or names. Spans that ktrace wrote have columns
of the model as attributes: `ktrace.stream` is the column `stream`.

The console exporter is `ReadableSpan.to_json` of the Python SDK (1.0 to 1.45):

    {"name": "decode", "context": {"trace_id": "0xed68...", "span_id": "0xee17...", "trace_state": "[]"},
     "kind": "SpanKind.INTERNAL", "parent_id": "0xb7ac...", "start_time": "2026-11-22T06:20:08.503503Z", ...,
     "status": {"status_code": "UNSET"}, "attributes": {"token": 0}, "events": [...], "links": [...],
     "resource": {"attributes": {"service.name": "infer-a"}, "schema_url": ""}}

It prints whole microseconds, computed through a float. Older ones have the resource's attributes in `resource`.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

from ktrace.kit.text.numbers import unix_ns
from ktrace.model.batch import TRACK_COLUMNS, arrow_schema

#: Greatest time in ns.
LIMIT = 1 << 62

#: Numbers of `SpanKind` and of `StatusCode` (opentelemetry/proto/trace/v1/trace.proto).
KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
CODES = ("UNSET", "OK", "ERROR")

#: Members that become arguments unless they are empty, and the arguments' names.
_OTHERS = {
    "traceState": "$trace_state",
    "flags": "$flags",
    "droppedAttributesCount": "$dropped_attributes",
    "droppedEventsCount": "$dropped_events",
    "droppedLinksCount": "$dropped_links",
}

_HEX = re.compile(r"[0-9a-fA-F]*")
_CAPITAL = re.compile(r"[A-Z]")
_DIGITS = re.compile(r"[0-9]{1,20}")


class BadSpan(Exception):
    """A span, event or link that can't be read: the kind of issue and its detail."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


@dataclass(slots=True)
class Scope:
    """The resource and the instrumentation scope of spans, as attributes."""

    resource: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    version: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SpanEvent:
    """An event in a span."""

    name: str
    ts: int
    args: dict[str, Any]


@dataclass(slots=True)
class SpanLink:
    """A link from a span to another one."""

    trace: str
    span: str
    args: dict[str, Any]


@dataclass(slots=True)
class Span:
    """A span. `end` is None where it isn't known; `bad` lists the events and links that can't be read."""

    name: str
    trace: str
    span: str
    parent: str
    kind: str
    start: int
    end: int | None
    scope: Scope
    args: dict[str, Any]
    events: list[SpanEvent]
    links: list[SpanLink]
    bad: list[BadSpan]

    @property
    def records(self) -> int:
        """The records of the source that the span consists of: itself, its events and its links."""
        return 1 + len(self.events) + len(self.links) + len(self.bad)


def member(obj: dict[str, Any], name: str) -> Any:
    """The member of that name, or of the name that protobuf has for it; None if there is none."""
    value = obj.get(name)
    return obj.get(_field(name)) if value is None else value


@cache
def _field(name: str) -> str:
    """The name that protobuf has for a member: trace_id for traceId."""
    return _CAPITAL.sub(lambda letter: "_" + letter[0].lower(), name)


def objects(obj: dict[str, Any], name: str) -> list[Any]:
    """The list of that name; empty if there is none."""
    value = member(obj, name)
    return value if isinstance(value, list) else []


def make_span(obj: dict[str, Any], scope: Scope) -> Span:
    """The span that an object describes. Raises BadSpan."""
    start = _time(obj, "startTimeUnixNano")
    end = _time(obj, "endTimeUnixNano")
    if start is None:
        raise BadSpan("bad-record", "no start time")
    if end is not None and end < start:
        raise BadSpan("negative-duration", f"{end - start} ns")
    trace, span = _id(obj, "traceId", 16), _id(obj, "spanId", 8)
    bad: list[BadSpan] = []
    events, links = [], []
    for event in objects(obj, "events"):
        try:
            events.append(_event(event))
        except BadSpan as problem:
            bad.append(problem)
    for link in objects(obj, "links"):
        try:
            links.append(_link(link))
        except BadSpan as problem:
            bad.append(problem)
    parent = _id(obj, "parentSpanId", 8)
    args = attributes(member(obj, "attributes"))
    ids = {"$trace_id": trace, "$span_id": span, "$parent_span_id": parent}
    args |= {key: value for key, value in ids.items() if value}
    args |= _status(member(obj, "status")) | _others(obj)
    kind = _word(member(obj, "kind"), KINDS, "SPAN_KIND_")
    return Span(_text(obj, "name"), trace, span, parent, kind, start, end, scope, args, events, links, bad)


def make_scope(resource: object, scope: object) -> Scope:
    """The resource and the scope that objects describe."""
    about = scope if isinstance(scope, dict) else {}
    attributes_of = attributes(member(resource, "attributes")) if isinstance(resource, dict) else {}
    return Scope(attributes_of, _text(about, "name"), _text(about, "version"), attributes(member(about, "attributes")))


def attributes(obj: object) -> dict[str, Any]:
    """Attributes by key: of a list of `KeyValue`, or an object that has the values themselves."""
    if isinstance(obj, dict):
        return dict(obj)
    if not isinstance(obj, list):
        return {}
    pairs = [pair for pair in obj if isinstance(pair, dict) and isinstance(pair.get("key"), str)]
    return {pair["key"]: plain(pair.get("value")) for pair in pairs}


#: The most bits of an integer that a float always holds.
_FLOAT_BITS = 1023


def plain(value: object) -> Any:
    """The value of an `AnyValue`; None for an empty one. 64-bit integers are texts in OTLP JSON."""
    if not isinstance(value, dict) or not value:
        return None
    name, held = next(iter(value.items()))
    if name in ("intValue", "int_value"):
        return int(held) if isinstance(held, str) and re.fullmatch(r"-?[0-9]{1,19}", held) else held
    if name in ("doubleValue", "double_value") and type(held) is int and held.bit_length() <= _FLOAT_BITS:
        return float(held)
    if name in ("arrayValue", "array_value"):
        return [plain(item) for item in objects(held, "values")] if isinstance(held, dict) else []
    if name in ("kvlistValue", "kvlist_value"):
        return attributes(objects(held, "values")) if isinstance(held, dict) else {}
    return held


def _event(obj: object) -> SpanEvent:
    if not isinstance(obj, dict):
        raise BadSpan("bad-record", "an event that isn't an object")
    ts = _time(obj, "timeUnixNano")
    if ts is None:
        raise BadSpan("bad-record", f"no time of the event {_text(obj, 'name')}")
    return SpanEvent(_text(obj, "name"), ts, attributes(member(obj, "attributes")) | _others(obj))


def _link(obj: object) -> SpanLink:
    if not isinstance(obj, dict):
        raise BadSpan("bad-record", "a link that isn't an object")
    span = _id(obj, "spanId", 8)
    if not span:
        raise BadSpan("bad-record", "a link without a span id")
    args = attributes(member(obj, "attributes")) | _others(obj)
    return SpanLink(_id(obj, "traceId", 16), span, args)


def _status(obj: object) -> dict[str, Any]:
    if not isinstance(obj, dict):
        return {}
    code, message = _word(member(obj, "code"), CODES, "STATUS_CODE_"), _text(obj, "message")
    return ({"$status": code} if code != "UNSET" else {}) | ({"$status_message": message} if message else {})


def _others(obj: dict[str, Any]) -> dict[str, Any]:
    values = {name: member(obj, key) for key, name in _OTHERS.items()}
    return {name: value for name, value in values.items() if value and isinstance(value, (int, str))}


def _word(value: object, words: tuple[str, ...], prefix: str) -> str:
    """The word of an enum, which may be a number, a word, or a word with its prefix."""
    if isinstance(value, str):
        return value.removeprefix(prefix).rpartition(".")[2] or words[0]
    if type(value) is int:
        return words[value] if 0 <= value < len(words) else str(value)
    return words[0]


def _text(obj: dict[str, Any], name: str) -> str:
    value = member(obj, name)
    return value if isinstance(value, str) else ""


def _time(obj: dict[str, Any], name: str) -> int | None:
    """A time in ns; None if it is absent or 0. Raises BadSpan."""
    value = member(obj, name)
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if value is None or value == 0:
        return None
    if type(value) is not int:
        raise BadSpan("bad-record", f"{name} isn't a whole number of ns: {str(value)[:40]}")
    if not 0 < value < LIMIT:
        raise BadSpan("time-range", f"{value} ns")
    return value


def _id(obj: dict[str, Any], name: str, size: int) -> str:
    """An id in lower-case hexadecimal digits; empty if it is absent or all zeros. Raises BadSpan.

    Another text is an id, too: who publishes a trace may have replaced its ids.
    """
    value = member(obj, name)
    if value is None or value == "":
        return ""
    if not isinstance(value, str):
        raise BadSpan("bad-record", f"{name} isn't a text: {str(value)[:40]}")
    text = value.removeprefix("0x")
    if len(text) != 2 * size or not _HEX.fullmatch(text):
        try:
            text = base64.b64decode(text, validate=True).hex()
        except (binascii.Error, ValueError):
            return value
        if len(text) != 2 * size:
            return value
    return "" if not text.strip("0") else text.lower()


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
        type_ = int if pa.types.is_integer(kind) else float if pa.types.is_floating(kind) else str
        if type(value) is not type_ or (type(value) is int and abs(value) >= 1 << (kind.bit_width - 1)):
            continue
        if name != "kind" or value in _KINDS:
            columns[name] = args.pop(PREFIX + name)
    if columns:
        columns = dict.fromkeys(TRACK_COLUMNS[3:]) | {"cat": None} | columns
    return columns


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


_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)")


def is_console(obj: dict[str, Any]) -> bool:
    """Whether the object is a span that the console exporter printed."""
    context = obj.get("context")
    return isinstance(context, dict) and "span_id" in context and "start_time" in obj


def scope_of(obj: dict[str, Any]) -> Scope:
    """The resource of such a span."""
    resource = obj.get("resource")
    if not isinstance(resource, dict):
        return Scope()
    inner = resource.get("attributes")
    return Scope(dict(inner) if isinstance(inner, dict) else dict(resource))


def as_otlp(obj: dict[str, Any]) -> dict[str, Any]:
    """The span as an object of OTLP."""
    status = obj.get("status")
    status = status if isinstance(status, dict) else {}
    return {
        **_context(obj.get("context")),
        "name": obj.get("name"),
        "kind": obj.get("kind"),
        "parentSpanId": obj.get("parent_id"),
        "startTimeUnixNano": _ns(obj.get("start_time")),
        "endTimeUnixNano": _ns(obj.get("end_time")),
        "status": {"code": status.get("status_code"), "message": status.get("description")},
        "attributes": obj.get("attributes"),
        "events": [
            {**event, "timeUnixNano": _ns(event.get("timestamp"))} if isinstance(event, dict) else event
            for event in _list(obj.get("events"))
        ],
        "links": [
            {**_context(link.get("context")), "attributes": link.get("attributes")} if isinstance(link, dict) else link
            for link in _list(obj.get("links"))
        ],
    }


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _context(obj: object) -> dict[str, Any]:
    about = obj if isinstance(obj, dict) else {}
    state = about.get("trace_state")
    ids = {"traceId": about.get("trace_id"), "spanId": about.get("span_id")}
    return ids | ({"traceState": state} if state not in ("[]", "{}") else {})


def _ns(value: object) -> object:
    """The ns since 1970 of a time as text; the value itself where it isn't such a text."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    time = unix_ns(*match.groups()) if match else None
    return value if time is None else time
