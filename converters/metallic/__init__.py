"""Statistics that Metallic's tools/analyze_jsonl.py (github cchance27/test-burn) prints from its raw JSON Lines.

    === Analyzing /tmp/prof.jsonl ===
    Total events: 179225

    GPU kernel aggregate (by kernel type):
      gemv (C): count=145 | total=365.77ms | avg=2.523ms | min=2.134ms | max=2.781ms | p95_ms=2.735ms, p99_ms=2.749ms

Sections repeat each other (a top 20 of kernels, the same by type, the same by shape) and nest (an iteration
contains a forward step, which contains blocks), so their totals can't be added up.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

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


FORMAT = Format(
    "metallic",
    "Metallic analysis text",
    patterns=("*.txt",),
    probe=probe,
    read="ktrace.converters.metallic.reader:read",
    words=("=== analyzing ", ": count="),
    prose=True,
)
