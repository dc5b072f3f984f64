"""Turns each line of a profiler into a row; all other lines are reported as unrecognised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import to_ns
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .lines import MARK, Kernel, data_of, kernel_of, onnxjs_event, profile_event

_LIMIT = 1 << 62

#: Category of onnxjs's profiler -> kind. Times of WebGL's timer, which have no start, are kernels.
_ONNXJS = {"session": "range", "node": "op", "op": "op", "backend": "op"}

#: The location that Chrome puts in a line of its own where a log is copied, and the brackets of a profile's list.
_STRUCTURE = re.compile(r"\s*(?:[\w.@/-]{1,80}\.(?:m?js|ts):\d{1,7}\s*)?(?:[\[\]]\s*)?")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an event for each line with a start, a summary for each line without one."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "onnxruntime-web"})
    rows.fact("clock", facts={"kind": "session"})
    has_device = False
    for line in lines:
        text = line.text
        kernel = kernel_of(text) or data_of(text)
        if kernel:
            problem = _add_kernel(kernel, rows)
            if not has_device:
                has_device = bool(rows.fact("device", device=0, facts={"api": "webgpu"}))
        elif found := onnxjs_event(text):
            problem = _add_onnxjs(found, rows)
        elif event := profile_event(text):
            problem = _add_event(event, rows)
        elif _STRUCTURE.fullmatch(text):
            lines.structure()
            continue
        elif MARK in text or '{"cat" : "' in text:
            problem = ("bad-record", "a line of the profiler that is cut off or isn't as expected")
        else:
            continue
        if problem:
            lines.skip(*problem)
        else:
            lines.used()
        yield from rows.ready()
    yield from rows.rest()


def _add_kernel(kernel: Kernel, rows: RowBuilder) -> tuple[str, str] | None:
    """Adds a kernel; returns the kind of issue and a detail if it can't be a row."""
    if kernel.dur < 0:
        return "negative-duration", f"{kernel.dur} ns"
    if max(abs(kernel.start or 0), kernel.dur) >= _LIMIT // 2:
        return "time-range", f"{kernel.dur} ns"
    shared: dict[str, Any] = {"device": 0, "layer": kernel.node, "args": kernel.args}
    if kernel.start is None:
        rows.summary("kernel", kernel.name, unit="ns", count=1, total=float(kernel.dur), **shared)
    else:
        rows.event("kernel", kernel.name, ts=kernel.start, dur=kernel.dur, **shared)
    return None


def _add_onnxjs(found: re.Match[str], rows: RowBuilder) -> tuple[str, str] | None:
    """Adds an event of onnxjs, which begins its duration before its end. The GPU's timer counts from 0."""
    dur, end = (to_ns(Decimal(found[key]), "ms")[0] for key in ("dur", "end"))
    if end >= _LIMIT:
        return "time-range", f"{end} ns"
    name, category = found["name"], found["category"]
    shared: dict[str, Any] = {"cat": category, "args": {"logged": found["logged"]} if found["logged"] else None}
    if dur == end and name.startswith("ProgramManager.run"):
        rows.summary("kernel", name, unit="ns", count=1, total=float(dur), device=0, **shared)
    else:
        kind = _ONNXJS.get(category, "range")
        rows.event(kind, name, ts=end - dur, dur=dur, timing="derived", track=f"Profiler.{category}", **shared)
    return None


def _add_event(event: dict[str, Any], rows: RowBuilder) -> tuple[str, str] | None:
    """Adds an event of a profile, whose times are µs."""
    ts, dur, cat, name, args = (event[key] for key in ("ts", "dur", "cat", "name", "args"))
    if dur < 0:
        return "negative-duration", f"{dur} us"
    if max(abs(ts), dur, abs(event["pid"]), abs(event["tid"])) >= _LIMIT // 2000:
        return "time-range", f"{dur} us"
    place: dict[str, Any] = {"pid": event["pid"], "tid": event["tid"]}
    kind = {"Session": "range", "Node": "op", "Kernel": "kernel"}.get(cat, "api")
    if kind == "op" and name.endswith(("_fence_before", "_fence_after")):
        kind = "sync"
    if kind == "kernel" or "cache_key" in args:
        kind, place = "kernel", {"device": 0}
    elif kind == "op":
        place["layer"] = name.removesuffix("_kernel_time")
        for key, column in (("op_name", "operation"), ("provider", "library")):
            if isinstance(args.get(key), str):
                place[column] = args.pop(key)
    rows.event(kind, name, ts=ts * 1000, dur=dur * 1000, cat=str(cat), args=args, **place)
    return None
