"""Recognises the reports of Nsight Systems."""

from __future__ import annotations

import re

from ktrace.converters._shared.text.likely import likely_lines
from ktrace.input.format import Match
from ktrace.input.source import Sample

#: The headings of a report have words of its own (converters/formats.py), or those of a total and of a count.
_TOTAL = re.compile(r"total[\s_]{0,9}(?:time|proj|message|\()", re.IGNORECASE)
_OWN = (
    *("strm", "grdx", "t-pri", "corrid", "rangestack", "projected start", "api start", "qcount", "q type", "peerrank"),
    *("send wait", "page faults", "migration size", "migration throughput", '"total', "<th>"),
)
_COUNTS = ("inst", "calls", "count", "operations")


def probe(sample: Sample) -> Match | None:
    """DIALECT for the title of a report or its headings."""
    if not sample.text or sample.text[:64].lstrip().startswith("{") or not _may_be(sample):
        return None
    from .recognise import recognised

    return recognised(sample, sample.text)


def _may_be(sample: Sample) -> bool:
    """Whether the text has the words at all; most files don't, and aren't searched for tables."""
    if sample.has_any(_OWN):
        return True
    return any(map(_has_total_and_count, (line for _, line in likely_lines(sample, ("total",)))))


def _has_total_and_count(line: str) -> bool:
    words = line.lower()
    return "operations" in words or bool(_TOTAL.search(line) and any(count in words for count in _COUNTS))
