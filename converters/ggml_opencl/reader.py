"""Reads either file, line by line.

The events of cl_trace.json, one a line: each end belongs to the start on the line before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .profiling import add_kernels

HOST, DEVICE = "Host", "Device"

#: Times in µs are lower than this: 2^62 ns.
_LATEST = (1 << 62) // 1000


def add_slices(lines: Lines, rows: RowBuilder, report: Report) -> Iterator[Batch]:
    """Yields kernels of the device, and for each the time that it waited on the host."""
    rows.fact("clock", facts={"kind": "monotonic"})
    rows.fact("track", track=HOST, name="queued until submitted")
    begin: dict[str, Any] | None = None
    number = 0
    for line in lines:
        event = _event(line.text)
        if line.text.strip() in ("", "[", "]"):
            lines.structure()
        elif event is None:
            lines.skip("bad-record", "not an event of a kernel")
        elif begin and event["ph"] == "E" and all(begin[key] == event[key] for key in ("name", "tid")):
            if event["ts"] < begin["ts"]:
                lines.skip_deferred("negative-duration", number, number, f"{event['ts'] - begin['ts']} us")
                lines.skip("negative-duration", f"{event['ts'] - begin['ts']} us")
            else:
                _add(begin, event["ts"], rows)
                lines.used(2)
            begin = None
        else:
            if begin:
                lines.skip_deferred("bad-record", number, number, "a begin without its end")
                begin = None
            if event["ph"] == "B":
                begin, number = event, line.number
                lines.defer()
            else:
                lines.skip("end-without-begin")
        if begin and lines.peek() is None:
            lines.skip_deferred("cut", number, number, "a begin without its end")
        yield from rows.ready()
    yield from rows.rest()


def _event(text: str) -> dict[str, Any] | None:
    """The start or end on a line; None for anything else."""
    try:
        event = json.loads(text.strip().removeprefix("[").rstrip("],"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or event.get("ph") not in ("B", "E") or event.get("tid") not in (HOST, DEVICE):
        return None
    ts = event.get("ts")
    return event if type(ts) is int and 0 <= ts < _LATEST and isinstance(event.get("name"), str) else None


def _add(begin: dict[str, Any], end: int, rows: RowBuilder) -> None:
    times = {"ts": begin["ts"] * 1000, "dur": (end - begin["ts"]) * 1000}
    cat = begin.get("cat")
    cat = cat if isinstance(cat, str) else None
    if begin["tid"] == DEVICE:
        rows.event("kernel", begin["name"], device=0, cat=cat, **times)
    else:
        rows.event("overhead", begin["name"], track=HOST, cat=cat, **times)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each kernel of cl_profiling.csv, or the slices of cl_trace.json."""
    with source.open(quiet=True) as stream:
        first = stream.read(1024).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "ggml-opencl"})
    rows.fact("device", device=0, facts={"api": "opencl"})
    add = add_slices if first in (b"[", b"{") else add_kernels
    yield from add(lines, rows, conversion.report)
