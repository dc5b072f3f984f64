"""The two files of ggml's OpenCL backend when it is built with GGML_OPENCL_PROFILING.

cl_profiling.csv: each kernel that ran, in order, without its time; columns are found by their headings

    op name, kernel name, duration (ms), global size, local size, output size                        early 2025
    op name, kernel name, queued duration (ms), submit duration(ms), exec duration (ms), complete ... 2025
    op name, kernel name, exec duration (ms), global size, local size, output size                   since 2025
    ffn_out-3,kernel_mul_mm_f16_f32_l4_lm,1.204000,2048x16x1,128x1x1,2048x16x1x1

cl_trace.json: the same kernels in a list of trace events that is never closed

    [
    {"name": "kernel_add", "cat": "OpenCL", "ph": "B", "ts": 81204, "pid": "", "tid": "Host"},
    {"name": "kernel_add", "cat": "OpenCL", "ph": "E", "ts": 81209, "pid": "", "tid": "Host"},
    {"name": "kernel_add", "cat": "OpenCL", "ph": "B", "ts": 81311, "pid": "", "tid": "Device"},
    {"name": "kernel_add", "cat": "OpenCL", "ph": "E", "ts": 81320, "pid": "", "tid": "Device"},

Host: from the queueing of a kernel to its submission. Each begin is followed by its own end, so that slices of the host
overlap freely.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import number, to_ns
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

_CSV = re.compile(rb"(?:\xef\xbb\xbf)?\s*op name\s*,\s*kernel name\s*,[^\n]{0,300}\bduration ?\(ms\)")
_TRACE = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\[\s*\{"name": "[^"\n]{0,500}", "cat": "OpenCL", "ph": "B", "ts": \d+, "pid": "", '
    rb'"tid": "Host"'
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for either file."""
    start = sample.head[:1024]
    if _CSV.match(start):
        return Match(Score.DIALECT, "has the headings of ggml's cl_profiling.csv")
    if _TRACE.match(start):
        return Match(Score.DIALECT, "has the first event of ggml's cl_trace.json")
    return None


_HEADING = re.compile(r"\s+|(?<=\S)(?=\()")
_KERNEL = re.compile(r"[A-Za-z_]\w*")
_SIZE = re.compile(r"\d{1,15}(?:x\d{1,15}){2}")

#: Spellings of the duration of a kernel, in lower case.
_DURATIONS = ("exec duration (ms)", "duration (ms)")
_NAMES, _TENSOR, _GLOBAL, _LOCAL = "kernel name", "op name", "global size", "local size"


def add_kernels(lines: Lines, rows: RowBuilder, report: Report) -> Iterator[Batch]:
    """Yields a summary with one occurrence for each kernel."""
    headings: list[str] = []
    for line in lines:
        text = line.text
        if not text.strip():
            lines.structure()
        elif "kernel name" in text and (headings_here := _headings(text)):
            headings = headings_here
            lines.structure()
        elif headings:
            cells = text.rsplit(",", len(headings) - 1)  # only the tensor's name, the first cell, may have a comma
            problem = (
                _add_columns(dict(zip(headings, map(str.strip, cells), strict=True)), rows)
                if len(cells) == len(headings)
                else ("bad-record", "too few cells")
            )
            if problem:
                lines.skip(*problem)
            else:
                lines.used()
        yield from rows.ready()
    yield from rows.rest()


def _headings(text: str) -> list[str]:
    """The headings in lower case, with one blank between words; empty if the line has none of a duration."""
    headings = [_HEADING.sub(" ", cell.strip().lower()) for cell in text.split(",")]
    is_table = _NAMES in headings and headings[0] == _TENSOR and len(set(headings)) == len(headings)
    return headings if is_table and not set(_DURATIONS).isdisjoint(headings) else []


def _add_columns(cells: dict[str, str], rows: RowBuilder) -> tuple[str, str] | None:
    """Adds a kernel; returns the kind of issue and a detail if the row isn't one."""
    key = next(key for key in _DURATIONS if key in cells)
    ms, name = number(cells.pop(key)), cells.pop(_NAMES)
    if not _KERNEL.fullmatch(name):
        return "bad-record", "no kernel name"
    if ms is None or not ms.is_finite():
        return "bad-record", "no duration"
    if ms < 0:
        return "negative-duration", f"{ms} ms"
    if ms > 1 << 42:
        return "time-range", f"{ms} ms"
    columns: dict[str, Any] = {"total": float(to_ns(ms, "ms")[0]), "layer": cells.pop(_TENSOR) or None}
    columns |= _launch(cells.get(_GLOBAL, ""), cells.get(_LOCAL, ""))
    if "grid_x" in columns:
        del cells[_GLOBAL], cells[_LOCAL]
    args = {heading: _value(cell) for heading, cell in cells.items() if cell}
    rows.summary("kernel", name, unit="ns", count=1, device=0, args=args, **columns)
    return None


@lru_cache(maxsize=65_536)
def _launch(work_items: str, group: str) -> dict[str, int]:
    """The grid in groups and the block of a launch; empty if the sizes aren't known or no multiples."""
    if not _SIZE.fullmatch(work_items) or not _SIZE.fullmatch(group):
        return {}
    totals, blocks = (list(map(int, size.split("x"))) for size in (work_items, group))
    if not all(totals) or not all(blocks) or any(total % block for total, block in zip(totals, blocks, strict=True)):
        return {}
    grids = [total // block for total, block in zip(totals, blocks, strict=True)]
    sizes = {"grid": grids, "block": blocks}
    return {f"{what}_{axis}": size for what in sizes for axis, size in zip("xyz", sizes[what], strict=True)}


def _value(cell: str) -> float | str:
    value = number(cell)
    return cell if value is None or not value.is_finite() else float(value)


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
            lines.skip("bad-record", "not a kernel event")
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
                lines.skip_deferred("bad-record", number, number, "a start without an end")
                begin = None
            if event["ph"] == "B":
                begin, number = event, line.number
                lines.defer()
            else:
                lines.skip("end-without-begin")
        if begin and lines.peek() is None:
            lines.skip_deferred("cut", number, number, "a start without an end")
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
    first = source.beginning(1024).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "ggml-opencl"})
    rows.fact("device", device=0, facts={"api": "opencl"})
    add = add_slices if first in (b"[", b"{") else add_kernels
    yield from add(lines, rows, conversion.report)


FORMAT = Format(
    "ggml-opencl",
    "ggml OpenCL profiles: cl_profiling.csv, cl_trace.json",
    patterns=("cl_profiling*.csv", "cl_trace*.json"),
    probe=probe,
    read=read,
    words=("op name", '"opencl"'),
)
