"""Recognises the table of FlopCounterMode by its headings and the rule below them."""

from __future__ import annotations

from ktrace.converters._shared.text.likely import likely_lines
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

from .table import heading

_WORDS = ("% total",)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings above a rule."""
    if "FLOP" not in (sample.text or ""):
        return None
    for number, line in likely_lines(sample, _WORDS):
        if number < len(sample.lines) and heading(line, sample.lines[number]) is not None:
            return Match(Score.DIALECT, f"contains a table of PyTorch's FlopCounterMode (line {number})")
    return None
