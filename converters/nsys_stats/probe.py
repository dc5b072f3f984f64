"""Recognises the summary tables of Nsight Systems."""

from __future__ import annotations

import re

from ktrace.format import Match, Score
from ktrace.source import Sample

from .._shared.prefixes import bare
from .._shared.tables import Table, find_tables
from .columns import COLUMNS

_TITLE = re.compile(r"^ ?\*\* .+ \(\w+\):|^(?:CUDA|NVTX|Operating System Runtime).* Statistics(?: \(.*\))?:?$")


def probe(sample: Sample) -> Match | None:
    """DIALECT for the words that nsys writes: the title of a report, or its headings."""
    text = sample.text
    if not text or "Total" not in text:
        return None
    for table in find_tables(sample, COLUMNS.bind):
        title = next(filter(None, (_TITLE.search(bare(line)) for line in sample.lines)), None)
        if title:
            return Match(Score.DIALECT, f"has the title '{title.group().strip(' *:')}' of an nsys report")
        if _is_copy(table):
            return Match(Score.DIALECT, f"has the headings of an nsys summary (line {table.line})")
    return None


def _is_copy(table: Table) -> bool:
    """Whether an untitled table has the headings of nsys: a share of the time, a total, its count."""
    keys = {head.key for head in table.headings}
    return bool(keys & {"time", "time %"}) and bool(keys & {"instances", "num calls", "operation", "range"})
