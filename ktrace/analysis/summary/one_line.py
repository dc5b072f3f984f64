"""The main figures of a summary in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrace.analysis.work.groups import OTHER
from ktrace.tables.figures import duration, exact, harmless, percent, shortened

if TYPE_CHECKING:
    from ktrace.analysis.summary.model import Summary

#: Sources that are named, and characters of the name of a kernel.
_NAMED, _LONGEST = 3, 60

#: What was added up.
_ADDED_UP = {"events": "events of device work", "statistics": "statistics", "host": "calls, operators or ranges"}


def one_line(summary: Summary) -> str:
    """The main figures: run.json: 15 events of device work, 930 us; busy 86.4% of 962 us; heaviest gemm 26.8%."""
    more = len(summary.sources) - _NAMED
    sources = ", ".join(map(harmless, summary.sources[:_NAMED])) + (f" and {more:,} more" if more > 0 else "")
    count = "" if summary.count is None else f"{summary.count:,} "
    counted = _ADDED_UP[summary.work] if summary.count != 0 else "nothing"
    total = f", {exact(summary.total)}" if summary.unit == "ns" else ""
    parts = [f"{sources}: {count}{counted}{total}"]
    span, busy = (sum(getattr(use, name) for use in summary.devices) for name in ("span", "busy"))
    if span:
        of = f"{len(summary.devices)} devices" if len(summary.devices) > 1 else duration(span)
        parts.append(f"busy {percent(busy, span):.1f}% of {of}")
    known = (group for by in ("operation", "kernel") for group in summary.groups.get(by, []) if group.key != OTHER)
    heaviest = next(known, None)
    if heaviest is not None and (share := percent(heaviest.total, summary.total)) is not None:
        parts.append(f"heaviest {shortened(harmless(heaviest.key), _LONGEST)} {share:.1f}%")
    return "; ".join(parts)
