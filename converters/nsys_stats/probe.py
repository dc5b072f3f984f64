"""Recognises the summary tables of Nsight Systems."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktrace.converters._shared.text.headings import Heading, heading
from ktrace.converters._shared.text.prefixes import without_prefix
from ktrace.converters._shared.text.tables import find_tables
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

from .html_tables import first_headings as html_headings
from .json_tables import first_headings as json_headings
from .tables import fits, is_memory, is_trace

_TITLE = re.compile(r"^ ?\*\* .+ \(\w+\):|^(?:CUDA|NVTX|Operating System Runtime).* Statistics(?: \(.*\))?:?$")

#: Words of which each of the reports has one among its headings.
_WORDS = ("Total", "Strm", "GrdX", "T-Pri", "CorrID", "RangeStack", "Projected Start", "API Start", "QCount")
_RARE_WORDS = ("PeerRank", "Send wait", "Page Faults", "Migration", "Utilization")


def probe(sample: Sample) -> Match | None:
    """DIALECT for the words that nsys writes: the title of a report, or its headings."""
    text = sample.text
    if not text or not any(word in text for word in (*_WORDS, *_RARE_WORDS)):
        return None
    for kind, first in (("JSON", json_headings), ("HTML", html_headings)):
        keys = first(text)
        if keys and (what := _evidence(tuple(map(heading, keys)))):
            return Match(Score.DIALECT, f"is {kind} with the headings of an nsys {what}")
    for table in find_tables(sample, fits):
        title = next(filter(None, (_TITLE.search(without_prefix(line)) for line in sample.lines)), None)
        if title:
            return Match(Score.DIALECT, f"has the title '{title.group().strip(' *:')}' of an nsys report")
        if what := _evidence(table.headings):
            return Match(Score.DIALECT, f"has the headings of an nsys {what} (line {table.line})")
    return None


def _evidence(headings: Sequence[Heading]) -> str:
    """What kind of report has these headings, '' where none has."""
    fields = fits(headings)
    if fields is None:
        return ""
    if is_trace(fields) or is_memory(fields):
        return "trace or memory report"
    return "summary" if _is_copy({head.key for head in headings}) else ""


def _is_copy(keys: set[str]) -> bool:
    """Whether an untitled table has the headings of nsys: a share of the time, a total, its count."""
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
