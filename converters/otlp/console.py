"""Objects of the console exporters as those of OTLP: `ReadableSpan.to_json` of the Python SDK (1.0 to 1.45).

    {"name": "decode", "context": {"trace_id": "0xed68...", "span_id": "0xee17...", "trace_state": "[]"},
     "kind": "SpanKind.INTERNAL", "parent_id": "0xb7ac...", "start_time": "2026-11-22T06:20:08.503503Z", ...,
     "status": {"status_code": "UNSET"}, "attributes": {"token": 0}, "events": [...], "links": [...],
     "resource": {"attributes": {"service.name": "infer-a"}, "schema_url": ""}}

The SDK prints whole microseconds, computed through a float. Older ones have the resource's attributes in `resource`.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

from .spans import Scope

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)")


def is_console(found: dict[str, Any]) -> bool:
    """Whether the object is a span that the console exporter printed."""
    context = found.get("context")
    return isinstance(context, dict) and "span_id" in context and "start_time" in found


def scope_of(found: dict[str, Any]) -> Scope:
    """The resource of such a span."""
    resource = found.get("resource")
    if not isinstance(resource, dict):
        return Scope()
    inner = resource.get("attributes")
    return Scope(dict(inner) if isinstance(inner, dict) else dict(resource))


def as_otlp(found: dict[str, Any]) -> dict[str, Any]:
    """The span as an object of OTLP."""
    status = found.get("status")
    status = status if isinstance(status, dict) else {}
    return {
        **_context(found.get("context")),
        "name": found.get("name"),
        "kind": found.get("kind"),
        "parentSpanId": found.get("parent_id"),
        "startTimeUnixNano": _ns(found.get("start_time")),
        "endTimeUnixNano": _ns(found.get("end_time")),
        "status": {"code": status.get("status_code"), "message": status.get("description")},
        "attributes": found.get("attributes"),
        "events": [
            {**event, "timeUnixNano": _ns(event.get("timestamp"))} if isinstance(event, dict) else event
            for event in _list(found.get("events"))
        ],
        "links": [
            {**_context(link.get("context")), "attributes": link.get("attributes")} if isinstance(link, dict) else link
            for link in _list(found.get("links"))
        ],
    }


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _context(found: object) -> dict[str, Any]:
    about = found if isinstance(found, dict) else {}
    state = about.get("trace_state")
    ids = {"traceId": about.get("trace_id"), "spanId": about.get("span_id")}
    return ids | ({"traceState": state} if state not in ("[]", "{}") else {})


def _ns(value: object) -> object:
    """The ns since 1970 of a time as text; the value itself where it isn't such a text."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if not found:
        return value
    try:
        second = datetime.datetime.fromisoformat(f"{found[1]}+00:00")
    except ValueError:
        return value
    return (second - _EPOCH) // datetime.timedelta(seconds=1) * 10**9 + int((found[2] or "0").ljust(9, "0"))
