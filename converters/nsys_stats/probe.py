"""Recognises the summary tables of Nsight Systems."""

from __future__ import annotations

import re

from ktrace.format import Match, Score
from ktrace.source import Sample

from .._shared.prefixes import bare
from .._shared.tables import Table, find_tables
from .tables import fits, is_memory, is_trace

_TITLE = re.compile(r"^ ?\*\* .+ \(\w+\):|^(?:CUDA|NVTX|Operating System Runtime).* Statistics(?: \(.*\))?:?$")

#: Words of which each of the reports has one among its headings.
_WORDS = ("Total", "Strm", "GrdX", "T-Pri", "CorrID", "RangeStack", "Projected Start", "API Start")
_RARE_WORDS = ("PeerRank", "Send wait", "Page Faults", "Migration", "Utilization")


def probe(sample: Sample) -> Match | None:
    """DIALECT for the words that nsys writes: the title of a report, or its headings."""
    text = sample.text
    if not text or not any(word in text for word in (*_WORDS, *_RARE_WORDS)):
        return None
    for table in find_tables(sample, fits):
        title = next(filter(None, (_TITLE.search(bare(line)) for line in sample.lines)), None)
        if title:
            return Match(Score.DIALECT, f"has the title '{title.group().strip(' *:')}' of an nsys report")
        fields = table.fields or {}
        if is_trace(fields) or is_memory(fields):
            return Match(Score.DIALECT, f"has the headings of an nsys trace or memory report (line {table.line})")
        if _is_copy(table):
            return Match(Score.DIALECT, f"has the headings of an nsys summary (line {table.line})")
    return None


def _is_copy(table: Table) -> bool:
    """Whether an untitled table has the headings of nsys: a share of the time, a total, its count."""
    keys = {head.key for head in table.headings}
    shared = bool(keys & {"time", "time %"})
    if shared and keys & {"instances", "num calls", "operation", "range"}:
        return True
    counted = bool(keys & {"count", "operations"}) and len(keys & _STATISTICS) >= 3
    return (counted and (shared or "operation" in keys)) or any(rare <= keys for rare in _ALONE)


#: Statistics of which a table has some where its other headings are anybody's.
_STATISTICS = {"avg", "average", "med", "min", "minimum", "max", "maximum", "stddev"}

#: Headings that only nsys has, of summaries without shares.
_ALONE = (
    {"total message volume", "instances"},
    {"total proj time", "range"},
    {"qcount", "kernel name"},
    {"nvtx inst", "kern inst"},
    {"q type", "instances"},
)
