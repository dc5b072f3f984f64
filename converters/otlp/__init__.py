"""OpenTelemetry spans (OTLP): JSON, protobuf, and what the console exporter of the Python SDK prints.

    {"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"vllm.llm_engine"}}]},
      "scopeSpans":[{"scope":{"name":"vllm"},"spans":[{"traceId":"5b8e...","spanId":"eee1...","parentSpanId":"",
        "name":"llm_request","kind":2,"startTimeUnixNano":"1724000000000000123","endTimeUnixNano":"..."}]}]}]}

A file is one document or a document per line (the collector's file exporter); protobuf is one message, or messages that
follow their length: 4 bytes, big endian (the collector's file exporter, each message perhaps in zstd), or a varint
(OpenTelemetry's file exporter specification). The console exporter prints an object per span, between other text.

reader     spans as rows
documents  JSON text, small documents whole and large ones span by span
messages   protobuf as the objects that JSON has
spans      checks an object of OTLP or of the console exporter, and makes a span of it
writer     timeline -> OTLP JSON
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_FIRST = re.compile(rb'\s*[\[{]\s*"resourceSpans"\s*:')
_KEYS = (b'"resourceSpans"', b'"resource_spans"', b'"scopeSpans"', b'"instrumentationLibrarySpans"')
_TIME = b'"startTimeUnixNano"'
_CONSOLE = re.compile(rb'"context": \{\s*"trace_id": "0x[0-9a-f]{32}",\s*"span_id": "0x[0-9a-f]{16}"')
#: A span with its trace id and its id, the first two fields; a resource's first attribute has a key and a value.
_SPAN = re.compile(rb"\x0a\x10.{16}\x12\x08.{8}", re.DOTALL)
#: The keys of a document are within this many bytes; spans of the console exporter may come anywhere.
_BEGIN = 1 << 16
_ZSTD = b"\x28\xb5\x2f\xfd"


def probe(sample: Sample) -> Match | None:
    """MAGIC for a document of OTLP JSON, DIALECT for other texts with spans and for protobuf."""
    head = sample.head
    if not head:
        return None
    if (head[0] == 0x0A or head[0] < 4 or b"\0" in head[:256]) and not sample.text:
        return _binary(head)
    start = head[:_BEGIN]
    if b'pans"' in start:
        if _FIRST.match(start):
            return Match(Score.MAGIC, 'is an object that begins with "resourceSpans"')
        for key in _KEYS:
            if key in start and (_TIME in head or b'"traceId"' in head or b'"trace_id"' in head):
                return Match(Score.DIALECT, f"contains OTLP's key {key.decode()}, and spans")
    if head.lstrip()[:1] in (b"{", b"[") and (_TIME in start or b'"start_time_unix_nano"' in start):
        return Match(Score.DIALECT, "contains spans with OTLP's key startTimeUnixNano")
    if b'"trace_id": "0x' in head and _CONSOLE.search(head):
        return Match(Score.DIALECT, "contains spans as OpenTelemetry's console exporter prints them")
    return _binary(head)


def _binary(head: bytes) -> Match | None:
    """A protobuf message, alone or after its length."""
    if head[:1] == b"\x0a":
        start = 0
    elif head[0] < 4 and head[4:8] == _ZSTD:
        return Match(
            Score.DIALECT, "contains messages in zstd, each after its length, as the collector's file exporter"
        )
    elif head[0] < 4 and head[4:5] in (b"\x0a", b"{"):
        start = 4
    else:
        start = _after_number(head, 0)
        if not 0 < start < 6 or head[start : start + 1] != b"\x0a":
            return None
    if head[start : start + 1] == b"{":
        return Match(Score.DIALECT, "contains OTLP JSON after its length") if _FIRST.match(head, start) else None
    inside = _after_number(head, start + 1)
    if head[inside : inside + 1] not in (b"\x0a", b"\x12") or not _is_resource(head, inside):
        return None
    return Match(Score.DIALECT, "is a protobuf message with a resource or scope, and a span with its ids")


def _is_resource(head: bytes, at: int) -> bool:
    """Whether resource spans begin here: an attribute's key follows, or a span with ids comes soon."""
    if head[at] == 0x0A:
        resource = _after_number(head, at + 1)
        if resource > 0 and head[resource : resource + 1] == b"\x0a":
            pair = _after_number(head, resource + 1)
            key = _after_number(head, pair + 1) if head[pair : pair + 1] == b"\x0a" else 0
            if key > 0:
                end = key + head[key - 1]
                text = head[key:end]
                if text and text.isascii() and head[end : end + 1] == b"\x12" and b"." in text:
                    return True
    return _SPAN.search(head, at, at + 65_536) is not None


def _after_number(head: bytes, at: int) -> int:
    """Where the varint ends that begins at a position; 0 if there is none."""
    for end in range(at, min(at + 10, len(head))):
        if head[end] < 0x80:
            return end + 1
    return 0


FORMAT = Format(
    "otlp",
    "OpenTelemetry spans: OTLP JSON and protobuf, console exporter",
    patterns=("*.otlp.json", "*.otlp.jsonl"),
    probe=probe,
    read="ktrace.converters.otlp.reader:read",
    writer="ktrace.converters.otlp.writer:Writer",
    timeline=True,
    holds="rows",
)
