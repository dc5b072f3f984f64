"""Recognises the tables of PyTorch's profiler by their headings above a rule of dashes."""

from __future__ import annotations

from ktrace.converters._shared.text.likely import likely_lines
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

from .grid import opens

#: One of these is in every line of headings.
_WORDS = ("self cpu", "cpu total", "cpu time", "self cuda", "cuda total", "self xpu", "time avg", " total %")


def probe(sample: Sample) -> Match | None:
    """DIALECT for headings of PyTorch above a rule, with a row below."""
    for number, _ in likely_lines(sample, _WORDS):
        if found := opens(sample.lines, number - 1):
            words = ", ".join(f"'{column.heading}'" for column in found.columns.columns[:4])
            return Match(Score.DIALECT, f"has a table of PyTorch's profiler with the columns {words} (line {number})")
    return None
