"""Recognises the analysis by its title, else by its rows."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_TITLE = re.compile(r"^=== Analyzing .+ ===\s*$", re.M)
_ROW = re.compile(r"^ {2,}\S.*: count=\d+ \| total=[\d.]+ms \| avg=[\d.]+ms", re.M)
_EVENTS = re.compile(r"^Total events: \d+\s*$", re.M)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the title with a row or the number of events, or for a row without the title."""
    text = sample.text
    if not text:
        return None
    title, row, events = _TITLE.search(text), _ROW.search(text), _EVENTS.search(text)
    if title and (row or events):
        return Match(Score.DIALECT, f"has the line '{title.group().strip()}'")
    if row:
        return Match(Score.DIALECT, "has rows like 'name: count=… | total=…ms | avg=…ms'")
    if title:
        return Match(Score.NEAR, f"has the line '{title.group().strip()}', but no statistics")
    return None
