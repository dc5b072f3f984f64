"""Recognises the reports of Nsight Systems by their titles and headings: tables, JSON or HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktrace.input.source import Sample
from ktrace.kit import Match, Score
from ktrace.kit.text.headings import Heading, heading
from ktrace.kit.text.tables import find_tables
from ktrace.kit.text.titles import without_prefix

from .columns import columns_of, is_memory, is_trace
from .html_tables import first_headings as html_headings
from .json_tables import first_headings as json_headings

_TITLE = re.compile(r"^ ?\*\* .+ \(\w+\):|^(?:CUDA|NVTX|Operating System Runtime).* Statistics(?: \([^()]*\))?:?$")


def recognised(sample: Sample, text: str) -> Match | None:
    """DIALECT for the title of a report or its headings."""
    for kind, first in (("JSON", json_headings), ("HTML", html_headings)):
        keys = first(text)
        if keys and (report := _report_kind(tuple(map(heading, keys)))):
            return Match(Score.DIALECT, f"is {kind} with the headings of an nsys {report}")
    for table in find_tables(sample, columns_of):
        title = next(filter(None, (_TITLE.search(without_prefix(line)) for line in sample.lines)), None)
        if title:
            return Match(Score.DIALECT, f"has the title '{title.group().strip(' *:')}' of an nsys report")
        if report := _report_kind(table.headings):
            return Match(Score.DIALECT, f"has the headings of an nsys {report} (line {table.line})")
    return None


def _report_kind(headings: Sequence[Heading]) -> str:
    """Returns the kind of report with these headings, "" if no report has them."""
    fields = columns_of(headings)
    if fields is None:
        return ""
    if is_trace(fields) or is_memory(fields):
        return "trace or memory report"
    return "summary" if _is_summary({head.key for head in headings}) else ""


def _is_summary(keys: set[str]) -> bool:
    """Whether an untitled table has the headings of nsys: a share of the time, a total, its count."""
    shared = bool(keys & {"time", "time %"})
    if shared and keys & {"instances", "num calls", "operation", "range"}:
        return True
    counted = bool(keys & {"count", "operations"}) and len(keys & _STATISTICS) >= 3
    return (counted and (shared or "operation" in keys)) or any(rare <= keys for rare in _ALONE)


#: Statistics; a table whose other headings are common must have three of these.
_STATISTICS = {"avg", "average", "med", "min", "minimum", "max", "maximum", "stddev"}

#: Headings of summaries without shares that only nsys has.
_ALONE = (
    {"total message volume", "instances"},
    {"total proj time", "range"},
    {"qcount", "kernel name"},
    {"nvtx inst", "kern inst"},
    {"q type", "instances"},
)
