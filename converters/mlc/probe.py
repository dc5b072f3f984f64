"""Recognises kernel statistics of MLC-LLM by words in their titles or headings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

if TYPE_CHECKING:
    from ktrace.converters._shared.text.tables import Table

_TITLES = ("profiling analysis:", "kernel execution statistics")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a table below one of MLC's titles, or with MLC's three characteristic columns."""
    text = sample.text
    if not text or "|" not in text or not _may_be(sample.folded):
        return None
    from ktrace.converters._shared.text.tables import find_tables

    from .columns import columns_of

    for table in find_tables(sample, columns_of):
        for title in table.path:
            if any(words in title.text.casefold() for words in _TITLES):
                return Match(Score.DIALECT, f"has a table of kernels below the title '{title.text}'")
        if _has_typical_columns(table):
            return Match(Score.DIALECT, f"has the columns Iterations, Peak Time and Cumulative % (line {table.line})")
    return None


def _may_be(text: str) -> bool:
    """Whether the text has the words at all; checking first avoids searching most files for tables."""
    return any(title in text for title in _TITLES) or ("iterations" in text and "cumulative" in text)


def _has_typical_columns(table: Table) -> bool:
    from .columns import PEAKS

    keys = {head.key for head in table.headings}
    return {"iterations", "cumulative %"} <= keys and PEAKS.match(table.headings) is not None
