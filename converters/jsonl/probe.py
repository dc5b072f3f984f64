"""Recognises canonical JSON Lines by the first line."""

from __future__ import annotations

import json

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_WORDS = ("event", "summary", "link", "catalog")


def probe(sample: Sample) -> Match | None:
    """Certain with a first line {"ktrace": ...}; near where only that line is missing."""
    line = next((line for line in sample.lines if line.strip()), "")
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(first, dict):
        return None
    if "ktrace" in first and "records" not in first:
        return Match(Score.DIALECT, f'has the first line {{"ktrace": {json.dumps(first["ktrace"])}}}')
    if first.get("record") in _WORDS and "source" in first:
        return Match(Score.NEAR, 'canonical records, but no first line {"ktrace": "1.0"}')
    return None
