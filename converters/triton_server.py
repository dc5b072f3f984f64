"""Traces of Triton Inference Server (--trace-config triton,file=...): when each request waited, and was computed.

    [{"id": 1, "model_name": "resnet50", "model_version": 1, "request_id": "", "parent_id": 0},
     {"id": 1, "timestamps": [{"name": "REQUEST_START", "ns": 2356425054785863}]},
     {"id": 1, "timestamps": [{"name": "QUEUE_START", "ns": 2356425054791517}]},
     {"id": 1, "timestamps": [{"name": "COMPUTE_START", "ns": 2356425054887198}]}, ...]

A request becomes a range on a track of its own, with the ranges queue, input, compute and output in it, as Triton's own
trace_summary.py has them. Files of one trace have `.0`, `.1`, ... at their end. Facts: docs/user_guide/trace.md of
triton-inference-server/server, TRITONSERVER_InferenceTraceActivityString of its core.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.json_items import json_items, plain_value
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_WORDS = ('"request_start"', '"compute_start"', '"http_recv_start"', '"grpc_waitread_start"')
_STAMP = re.compile(r'"timestamps"\s*:\s*\[\s*\{\s*"name"\s*:\s*"[A-Z_ ]+"\s*,\s*"ns"\s*:\s*\d')

#: The parts of a request: where each begins and ends.
_PARTS = (
    ("receive", "HTTP_RECV_START", "HTTP_RECV_END"),
    ("receive", "GRPC_WAITREAD_START", "GRPC_WAITREAD_END"),
    ("queue", "QUEUE_START", "COMPUTE_START"),
    ("input", "COMPUTE_START", "COMPUTE_INPUT_END"),
    ("compute", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"),
    ("output", "COMPUTE_OUTPUT_START", "COMPUTE_END"),
    ("send", "HTTP_SEND_START", "HTTP_SEND_END"),
    ("send", "GRPC_SEND_START", "GRPC_SEND_END"),
)

#: Times are below this.
_LATEST = 1 << 63

#: Requests that are awaited at once. Those of a server end one after the other.
_MOST = 100_000


def probe(sample: Sample) -> Match | None:
    """DIALECT for the times of a request."""
    if sample.text and sample.is_json and _STAMP.search(sample.text):
        return Match(Score.DIALECT, "has times of requests, as Triton Inference Server traces them")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the ranges of each request."""
    rows, report = RowBuilder(conversion), conversion.report
    rows.tool_and_clock("Triton Inference Server", "monotonic")
    requests: dict[int, dict[str, Any]] = {}
    for item in json_items(source, report):
        report.record()
        value = plain_value(item.value) if not item.problem else None
        if item.problem or not isinstance(value, dict) or type(value.get("id")) is not int:
            report.issue(item.problem or "bad-record", item.where, item.text[:80] if item.problem else "no request")
            continue
        request = requests.setdefault(value["id"], {"stamps": {}})
        stamps = value.get("timestamps")
        if not isinstance(stamps, list):
            request |= {key: one for key, one in value.items() if key not in ("id", "stamps")}
            report.used(outcome="catalog")
            continue
        taken = [_take(stamp, request["stamps"]) for stamp in stamps]
        if all(taken):
            report.used()
        else:
            report.issue("bad-record", item.where, "a time stamp without a name or ns")
        if len(requests) > _MOST:
            oldest = next(iter(requests))
            _add(rows, oldest, requests.pop(oldest))
        yield from rows.ready()
    for number, request in requests.items():
        _add(rows, number, request)
        yield from rows.ready()
    yield from rows.rest()


def _take(stamp: object, stamps: dict[str, int]) -> bool:
    """Keeps a time stamp; False for anything else."""
    if not isinstance(stamp, dict) or not isinstance(stamp.get("name"), str) or type(stamp.get("ns")) is not int:
        return False
    if not 0 <= stamp["ns"] < _LATEST:
        return False
    stamps.setdefault(stamp["name"], stamp["ns"])
    return True


def _add(rows: RowBuilder, number: int, request: dict[str, Any]) -> None:
    """Adds a request with its parts."""
    stamps: dict[str, int] = request.pop("stamps")
    if not stamps:
        return
    track = f"request {number}"
    rows.fact("track", track=track, name=track)
    start, end = min(stamps.values()), max(stamps.values())
    name = str(request.get("model_name") or "request")
    args = {key: value for key, value in request.items() if value not in ("", None)}
    rows.event("range", name, ts=start, dur=end - start, track=track, cat="request", args=args | {"id": number})
    parts = _PARTS if "COMPUTE_INPUT_END" in stamps else (*_PARTS, ("compute", "COMPUTE_START", "COMPUTE_END"))
    for part, begin, finish in parts:
        if begin in stamps and stamps.get(finish, -1) >= stamps[begin]:
            ts = stamps[begin]
            rows.event("range", part, ts=ts, dur=stamps[finish] - ts, track=track, cat="request part")


FORMAT = Format(
    "triton-server",
    "Triton Inference Server traces: requests, their queueing, input, compute, output",
    patterns=("trace.json.*", "*.json"),
    probe=probe,
    read=read,
    words=_WORDS,
    document=True,
)
