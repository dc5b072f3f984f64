"""Recognises a log of Doppler by text that only Doppler prints."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_REPORT = re.compile(r"(?:^|[\]\s])GPU Profile Report\s*$", re.M)
_HEADER = re.compile(r"^Kernel\s+Time \(\w+\)\s+%\s*$", re.M)
_STAMPED = re.compile(r"^(?:\[browser:\w+\] )?\[\d+(?:\.\d+)?ms\]\[[A-Za-z]\w*\] ", re.M)
_BROWSER = re.compile(r"^\[browser:\w+\] ", re.M)
_TOOL = re.compile(r"^\[(?:metrics|ok)\] \S+=", re.M)


def probe(sample: Sample) -> Match | None:
    """DIALECT for its report, or for lines with Doppler's own time stamp."""
    text = sample.text
    if not text:
        return None
    if _REPORT.search(text) and (_HEADER.search(text) or _STAMPED.search(text)):
        return Match(Score.DIALECT, "has the line 'GPU Profile Report'")
    if found := _STAMPED.search(text):
        return Match(Score.DIALECT, f"has lines stamped like '{found.group().strip()}'")
    if _BROWSER.search(text):
        return Match(Score.SHAPE, "has lines that start with '[browser:'")
    if _REPORT.search(text) or _TOOL.search(text):
        return Match(Score.NEAR, "has a line like those of Doppler's log, but no kernel table or time stamp")
    return None
