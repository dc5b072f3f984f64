"""Recognises the JSON by its event start_time with the clocks."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_START = re.compile(
    rb'"name"\s*:\s*"start_time"\s*,\s*"pid"\s*:\s*"\d+"\s*,\s*"args"\s*:\s*\{\s*"(?:CLOCK_MONOTONIC_RAW|CLOCK_MONOTONIC|QueryPerformanceCounter)"'
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the second event of the tools in a list."""
    head = sample.head[:8192]
    if head[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") and b'"start_time"' in head and _START.search(head):
        return Match(Score.DIALECT, "has the event start_time with the clocks of onetrace")
    return None
