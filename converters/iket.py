"""NVIDIA IKET (In-Kernel Event Tracing, run-iket of CUTLASS): what each warp of a kernel did, by the device's clock.

    {"launches": [{"gridId": 0, "kernelName": "gemm_ws_kernel",
      "ranges": [{"rangeName": "tma_wait", "startTs": 1000, "endTs": 1096, "warpLocs": [{"smId": 0, "tpcId": 0,
        "gpcId": 0, "ctaId": [0, 0, 0], "warpId": 0}]}, ...],
      "markers": [{"markerName": "done", "timestamp": 4328, "location": {"smId": 0, ...}, "payloadVal": 5}],
      "warpLifetimes": [{"startTs": 904, "endTs": 4392, "warpLocation": {"smId": 0, ...}}]}]}

A launch becomes a kernel, from the first time of its warps to the last: a derived time, since the launch itself isn't
stated. Ranges, markers and lifetimes are rows on a track for each warp; their parent is the kernel. A range of several
warps is a row for each of them. Times are ns of the trace's own clock, in steps of 32 ns. Facts: NVIDIA's
documentation of IKET profiling in the CuTe DSL, and the keys of the JSON that run-iket writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.json_items import json_items, plain_value
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

_WORDS = ('"warplifetimes"', '"warplocs"', '"markername"')
_LAUNCHES = re.compile(r'\{\s*"launches"\s*:\s*\[')
_LAUNCH = re.compile(r'"(?:warpLocs|warpLifetimes|rangeName|markerName|gridId)"')

#: Times are below this.
_LATEST = 1 << 62

#: Categories: what a kernel's code marks, and the time from a warp's first instruction to its last.
RANGE, MARKER, LIFETIME = "in-kernel range", "in-kernel marker", "warp lifetime"

#: What of a launch isn't an argument.
_MEMBERS = ("kernelName", "ranges", "markers", "warpLifetimes")


def probe(sample: Sample) -> Match | None:
    """DIALECT for launches with ranges of warps."""
    if sample.text and sample.is_json and _LAUNCHES.match(sample.text.lstrip()) and _LAUNCH.search(sample.text):
        return Match(Score.DIALECT, "has launches with the ranges of their warps, as run-iket writes them")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a kernel for each launch, and what its warps did."""
    rows, report = RowBuilder(conversion), conversion.report
    rows.fact("source", facts={"tool": "NVIDIA IKET"})
    rows.fact("device", device=0, facts={"vendor": "NVIDIA", "api": "cuda"})
    rows.fact("clock", facts={"kind": "session", "resolution_ns": 32})
    for item in json_items(source, report):
        report.record()
        launch = plain_value(item.value) if not item.problem else None
        if item.problem or item.key != "launches" or not isinstance(launch, dict):
            report.issue(item.problem or "bad-record", item.where, item.text[:80] if item.problem else "no launch")
            continue
        yield from _add_launch(rows, report, launch, item.where)
    yield from rows.rest()


def _add_launch(rows: RowBuilder, report: Report, launch: dict[str, Any], where: str) -> Iterator[Batch]:
    """Adds a kernel with the rows of its warps; each range, marker and lifetime is a record."""
    pieces = [*_ranges(launch, report, where), *_markers(launch, report, where), *_lifetimes(launch, report, where)]
    if not pieces:
        report.issue("bad-record", where, "a launch without ranges, markers or warp lifetimes")
        return
    report.used()
    begin = min(piece.ts for piece in pieces)
    end = max(piece.ts + (piece.dur or 0) for piece in pieces)
    args = {key: value for key, value in launch.items() if key not in _MEMBERS}
    name = str(launch.get("kernelName") or "kernel")
    kernel = rows.event("kernel", name, ts=begin, dur=end - begin, device=0, timing="derived", args=args or None)
    for piece in pieces:
        kind = "instant" if piece.dur is None else "range"
        rows.event(
            kind,
            piece.name,
            ts=piece.ts,
            dur=piece.dur,
            device=0,
            track=piece.warp,
            parent=kernel,
            cat=piece.category,
            args=piece.args or None,
        )
        yield from rows.ready()


class _Piece(NamedTuple):
    """A range, lifetime or marker (`dur` None) of one warp."""

    name: str
    category: str
    ts: int
    dur: int | None
    warp: str
    args: dict[str, Any]


def _ranges(launch: dict[str, Any], report: Report, where: str) -> Iterator[_Piece]:
    for item in _items(launch, "ranges", report, where):
        name, times, warps = item.pop("rangeName", None), _times(item), item.pop("warpLocs", None)
        if not isinstance(name, str) or times is None or not isinstance(warps, list) or not warps:
            report.issue("bad-record", where, "a range without name, times or warps")
            continue
        report.used()
        args = {key: value for key, value in item.items() if value not in ([], None)}
        yield from (_Piece(name, RANGE, *times, _warp(warp), args) for warp in warps)


def _markers(launch: dict[str, Any], report: Report, where: str) -> Iterator[_Piece]:
    for item in _items(launch, "markers", report, where):
        name, ts, warp = item.pop("markerName", None), item.pop("timestamp", None), item.pop("location", None)
        if not isinstance(name, str) or not _is_time(ts):
            report.issue("bad-record", where, "a marker without name or time")
            continue
        report.used()
        yield _Piece(name, MARKER, ts, None, _warp(warp), item)


def _lifetimes(launch: dict[str, Any], report: Report, where: str) -> Iterator[_Piece]:
    for item in _items(launch, "warpLifetimes", report, where):
        times, warp = _times(item), item.pop("warpLocation", None)
        if times is None:
            report.issue("bad-record", where, "a warp lifetime without times")
            continue
        report.used()
        yield _Piece("warp", LIFETIME, *times, _warp(warp), item)


def _items(launch: dict[str, Any], key: str, report: Report, where: str) -> Iterator[dict[str, Any]]:
    """The objects of a list of a launch; anything else is reported."""
    items = launch.get(key)
    for item in items if isinstance(items, list) else []:
        report.record()
        if isinstance(item, dict):
            yield dict(item)
        else:
            report.issue("bad-record", where, f"{key} has something that isn't an object")


def _times(item: dict[str, Any]) -> tuple[int, int] | None:
    """Begin and duration in ns, taken out of a range; None where they aren't times."""
    begin, end = item.pop("startTs", None), item.pop("endTs", None)
    return (begin, end - begin) if _is_time(begin) and _is_time(end) and begin <= end else None


def _is_time(value: object) -> bool:
    return type(value) is int and 0 <= value < _LATEST


def _warp(place: object) -> str:
    """The track of a warp: SM 3 CTA 0,1,0 warp 2."""
    if not isinstance(place, dict):
        return "warp"
    block = place.get("ctaId")
    block = ",".join(map(str, block)) if isinstance(block, list) else block
    named = (("SM", place.get("smId")), ("CTA", block), ("warp", place.get("warpId")))
    return " ".join(f"{word} {value}" for word, value in named if value is not None) or "warp"


FORMAT = Format(
    "iket",
    "NVIDIA IKET, in-kernel event tracing of CUTLASS: ranges, markers and warp lifetimes (JSON)",
    patterns=("*.iket.json", "*.json"),
    probe=probe,
    read=read,
    words=_WORDS,
    document=True,
)
