"""Recognises the tables of PyTorch's profiler by their headings above a rule of dashes."""

from __future__ import annotations

from ktrace.converters._shared.text.likely import likely_lines
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

from .grid import grid_at

#: Headings contain one of these.
_WORDS = ("self cpu", "cpu total", "cpu time", "self cuda", "cuda total", "self xpu", "time avg", " total %")


def probe(sample: Sample) -> Match | None:
    """DIALECT for headings of PyTorch above a rule and a row."""
    for number, _ in likely_lines(sample, _WORDS):
        if found := grid_at(sample.lines, number - 1):
            words = ", ".join(f"'{column.heading}'" for column in found.columns.columns[:4])
            return Match(
                Score.DIALECT, f"contains a table of PyTorch's profiler with the columns {words} (line {number})"
            )
    return None
