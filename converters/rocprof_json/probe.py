"""Recognises rocprof's JSON by its empty first event and the name of the first process."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_BEGIN = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"traceEvents"\s*:\s*\[\s*\{\s*\}\s*,\s*\{\s*"args"\s*:\s*\{\s*"name"\s*:\s*"(?:\d+ )?'
    rb"(?:Markers and Ranges|CPU|COPY|GPU)"
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a document that begins so."""
    if _BEGIN.match(sample.head):
        return Match(Score.DIALECT, "begins with an empty event and a process name of rocprof")
    return None
