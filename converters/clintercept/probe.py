"""Recognises the report of the Intercept Layer by its titles."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

TITLE = re.compile(r"^ *(Host|Device) Performance Timing Results(?: for (.+))?: *$", re.MULTILINE)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a title of the report."""
    for part in (sample.head, sample.tail):
        if b"Performance Timing Results" in part and (
            found := TITLE.search(part.decode("utf-8", "replace").replace("\r", ""))
        ):
            return Match(Score.DIALECT, f"contains '{found[0].strip()[:60]}'")
    return None
