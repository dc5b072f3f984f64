"""The spans in a text: documents of OTLP JSON, spans alone, objects of the console exporter, also between other lines.

An object of up to `WHOLE` bytes is decoded at once. A larger document, or a damaged one, is read member by member down
to its spans, so that memory doesn't grow with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ktrace.kit.trace_json.chunks import Nest, Text, value_at
from ktrace.kit.trace_json.salvage import may_try, mended_object
from ktrace.model.json_text import NOT_JSON, decode_document
from ktrace.report import Report

from .spans import Scope, as_otlp, is_console, make_scope, member, objects, scope_of

#: Greatest number of bytes of a document that is decoded at once, and of a span or resource of a larger one.
WHOLE, LARGEST = 4 << 20, 64 << 20

#: Bytes of a damaged object that are looked at to repair it.
REPAIRED = 1 << 16

#: What it costs if that is in vain, as bytes that are only read.
_COST = 16 * REPAIRED

#: The lists of resource spans in a document; `batches` is that of Grafana Tempo's API. Others have `spans` alone.
RESOURCES = ("resourceSpans", "resource_spans", "batches")
SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_SCOPE = ("scope", "instrumentationLibrary", "instrumentation_library")

_OBJECT = re.compile(rb'\{\s*"|\r?\n')
_LINE = re.compile(rb"[^\r\n]*")
_SPAN = re.compile(rb'\{\s*"(?:traceId|trace_id|spanId|span_id)"\s*:')
_NEXT_SPAN = re.compile(rb'\{\s*"(?:traceId|trace_id|spanId|span_id|name)"\s*:')


class Found(NamedTuple):
    """An object that should be a span, with its resource and scope, and where it is."""

    span: object
    scope: Scope
    where: str


class _Lost(Exception):
    """The structure of a document can't be followed further."""


class Documents:
    """Yields the spans of a text. What isn't a span is counted, and reported."""

    def __init__(self, text: Text, report: Report) -> None:
        self._text = text
        self._report = report
        self._truncated = False  # whether the last value goes on beyond what was looked at

    def __iter__(self) -> Iterator[Found]:
        text = self._text
        if text.peek(3) == b"\xef\xbb\xbf":
            text.pos += 3
            text.own("structure", 0)
        while first := text.skip_blank():
            if first in (b"[", b"]", b","):  # objects may be elements of a list
                text.step()
            elif first == b"{":
                yield from self._object()
            else:
                self._other_text()

    def _where(self) -> str:
        return f"byte {self._text.pos}"

    def _other_text(self) -> None:
        """Reads over text before an object or a line end; a line without an object is reported."""
        text = self._text
        start, at = text.pos, text.pos
        shown = text.peek(60).splitlines()[0]
        while (place := text.search(_OBJECT, at)) < 0:
            at = max(text.end - 1, text.pos)
            if text.end - text.pos > WHOLE:
                text.pos = at
            if not text.more():
                place = text.end
                break
        text.pos = place
        text.own("skipped", start)
        if text.peek() != b"{":
            self._report.record()
            self._report.issue("unrecognised", f"byte {start}", shown.decode("utf-8", "replace"))

    def _object(self) -> Iterator[Found]:
        """Reads the object that begins here."""
        where, start = self._where(), self._text.pos
        whole = self._value(WHOLE)
        if whole is None:
            yield from self._large()
            return
        obj = _decoded(whole)
        has_spans = isinstance(obj, dict) and (
            is_console(obj) or _is_span(obj) or any(key in obj for key in (*RESOURCES, "spans"))
        )
        self._text.own("read" if has_spans else "skipped", start)
        if isinstance(obj, dict) and is_console(obj):
            yield Found(as_otlp(obj), scope_of(obj), where)
        elif isinstance(obj, dict) and (lists := _resource_lists(obj)):
            for resource in lists:
                yield from _of_resource(resource, where)
        elif isinstance(obj, dict) and _is_span(obj):
            yield Found(obj, Scope(), where)
        elif isinstance(obj, dict) and _list(obj, "spans"):
            yield from _of_scope(obj, member(obj, "resource"), where)
        elif not has_spans:
            self._report.record()
            detail = "an object without spans" if isinstance(obj, dict) else "can't be decoded"
            if isinstance(obj, dict) and (signal := next((key for key in obj if key.startswith("resource")), "")):
                detail = f"an object with {signal}, without spans"
            self._report.issue("unrecognised", where, detail)

    def _value(self, limit: int = LARGEST) -> bytes | None:
        """The JSON text that begins here, repaired if that is possible.

        None if it isn't valid, has no end or is longer than `limit`.
        """
        value, text = self._sound(limit), self._text
        if value is not None or self._truncated or text.peek() != b"{" or not may_try(text, _COST):
            return value
        if (mended := mended_object(text.peek(REPAIRED))) is None:
            text.tried += _COST
            return None
        value, end, repairs = mended
        for repair in repairs:
            self._report.issue(repair.kind, f"byte {text.pos + repair.place}", repair.detail)
        text.pos += end
        return value

    def _sound(self, limit: int) -> bytes | None:
        """As `_value`, without repairs."""
        text = self._text
        value = value_at(text, text.pos, limit)
        self._truncated = value.fault in ("cut", "large")
        if value.fault:
            return None
        text.pos = value.end
        return text.part(value.start, value.end)

    def _large(self) -> Iterator[Found]:
        """Reads a document member by member. Where its structure is lost, text up to the next span is reported."""
        text = self._text
        try:
            for key in self._members():
                if key in RESOURCES and text.peek() == b"[":
                    for _ in self._elements():
                        yield from self._resource()
                elif key in SCOPES and text.peek() == b"[":  # resource spans without a list around them
                    yield from self._scopes(Scope(), None)
                elif key == "spans" and text.peek() == b"[":
                    yield from self._spans(Scope())
                else:
                    start = text.pos
                    if self._value() is None:
                        raise _Lost
                    text.own("read", start)
        except _Lost:
            self._report.record()
            if not text.peek():
                text.own("skipped", text.owned)
                self._report.issue("cut", self._where(), "the object isn't closed")
                return
            shown = text.peek(40).decode("utf-8", "replace")
            self._report.issue("bad-record", self._where(), f"not valid JSON: {shown}")
            text.pos += 1
            self._to_next_span()
            text.own("skipped", text.owned)

    def _to_next_span(self) -> None:
        """Goes to the next span of the line, whose resource isn't known then, or to the line's end."""
        text = self._text
        while (end := text.match(_LINE, text.pos)) == text.end and end - text.pos < LARGEST and text.more():
            pass
        span = text.search(_SPAN, text.pos, end)
        text.pos = end if span < 0 else span

    def _resource(self) -> Iterator[Found]:
        """Reads an element of the list of resource spans."""
        where, start = self._where(), self._text.pos
        whole = self._value(WHOLE)
        if whole is not None:
            self._text.own("read", start)
            yield from _of_resource(_decoded(whole), where)
            return
        resource: object = None
        for key in self._members():
            if key in SCOPES and self._text.peek() == b"[":
                yield from self._scopes(make_scope(resource, None), resource)
            else:
                value = self._needed()
                if key == "resource":
                    resource = _decoded(value)

    def _scopes(self, default: Scope, resource: object) -> Iterator[Found]:
        for _ in self._elements():
            where, start = self._where(), self._text.pos
            whole = self._value(WHOLE)
            if whole is not None:
                self._text.own("read", start)
                yield from _of_scope(_decoded(whole), resource, where)
                continue
            scope = default
            for key in self._members():
                if key == "spans" and self._text.peek() == b"[":
                    yield from self._spans(scope)
                else:
                    value = self._needed()
                    if key in _SCOPE:
                        scope = make_scope(resource, _decoded(value))

    def _spans(self, scope: Scope) -> Iterator[Found]:
        """Reads a list of spans; a damaged one is reported, and reading goes on at the next that can be recognised."""
        text = self._text
        for _ in self._elements():
            where, start = self._where(), text.pos
            value = self._value()
            if value is not None:
                text.own("read", start)
                yield Found(_decoded(value), scope, where)
                continue
            if end := self._broken_end():
                self._report.record()
                self._report.issue("bad-record", where, "a span that isn't valid JSON")
                text.pos += end
                text.own("skipped", start)
                continue
            at = text.pos + 1
            while (place := text.search(_NEXT_SPAN, at)) < 0 and text.end - text.pos <= LARGEST:
                at = max(at, text.end - 32)
                if not text.more():
                    break
            if place < 0:
                text.pos = text.end
                raise _Lost
            self._report.record()
            self._report.issue("bad-record", where, "a span that isn't valid JSON")
            text.pos = place
            text.own("skipped", start)

    def _needed(self) -> bytes:
        """Reads the value that begins here; null for a broken object, which is reported. Raises _Lost."""
        text = self._text
        start = text.pos
        value = self._value()
        if value is None and (end := self._broken_end()):
            self._report.issue("bad-record", self._where(), "an object that isn't valid JSON", 0)
            text.pos += end
            text.own("skipped", start)
            return b"null"
        if value is None:
            if self._truncated:
                text.pos = text.end
            raise _Lost
        text.own("read", start)
        return value

    def _broken_end(self) -> int:
        """The size of the broken object that begins here, by its brackets; 0 if that isn't clear."""
        return max(Nest().end(memoryview(self._text.peek(REPAIRED))), 0) if self._text.peek() == b"{" else 0

    def _members(self) -> Iterator[str]:
        """Yields the keys of the object that begins here; the caller reads the value after each. Raises _Lost."""
        text = self._text
        if text.peek() != b"{":
            raise _Lost
        text.step()
        while (first := text.skip_blank()) != b"}":
            if first == b",":
                text.step()
                continue
            key = _decoded(self._needed()) if first == b'"' else None
            if not isinstance(key, str) or text.skip_blank() != b":":
                raise _Lost
            text.step()
            text.skip_blank()
            yield key
        text.step()

    def _elements(self) -> Iterator[None]:
        """Goes to each element of the list that begins here; the caller reads it. Raises _Lost."""
        text = self._text
        text.step()
        while (first := text.skip_blank()) != b"]":
            if first == b",":
                text.step()
            elif first == b"{":
                yield
            else:
                raise _Lost
        text.step()


def _decoded(text: bytes) -> Any:
    """The value of a JSON text; None if it can't be decoded (a number out of range, invalid UTF-8, nesting)."""
    try:
        return decode_document(text)
    except NOT_JSON:
        pass
    try:
        return decode_document(text.decode("utf-8", "replace").encode())
    except NOT_JSON:
        return None


def _list(obj: dict[str, Any], key: str) -> list[Any]:
    """The list under exactly that key; empty if there is none."""
    value = obj.get(key)
    return value if isinstance(value, list) else []


def _resource_lists(obj: dict[str, Any]) -> list[Any]:
    """The resource spans of a document."""
    inner = obj.get("trace")
    obj = inner if isinstance(inner, dict) else obj
    if any(key in obj for key in SCOPES):
        return [obj]
    return [resource for key in RESOURCES for resource in _list(obj, key)]


def _is_span(obj: dict[str, Any]) -> bool:
    """Whether this is a span by itself, without a resource and a scope around it."""
    return member(obj, "startTimeUnixNano") is not None


def _of_resource(obj: object, where: str) -> Iterator[Found]:
    resource = member(obj, "resource") if isinstance(obj, dict) else None
    scopes = [scope for key in SCOPES for scope in _list(obj, key)] if isinstance(obj, dict) else [None]
    for scope in scopes:
        yield from _of_scope(scope, resource, where)


def _of_scope(obj: object, resource: object, where: str) -> Iterator[Found]:
    if not isinstance(obj, dict):
        yield Found(None, Scope(), where)
        return
    scope = make_scope(resource, next((obj[key] for key in _SCOPE if key in obj), None))
    for number, span in enumerate(objects(obj, "spans")):
        yield Found(span, scope, f"{where}, span {number}")
