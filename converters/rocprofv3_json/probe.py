"""Recognises rocprofv3's JSON by its outermost key."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_FIRST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:')


def probe(sample: Sample) -> Match | None:
    """MAGIC if the key is the document's first, DIALECT if it is elsewhere in the head."""
    if _FIRST.match(sample.head):
        return Match(Score.MAGIC, 'is a JSON document of "rocprofiler-sdk-tool"')
    if sample.head[:64].lstrip().startswith(b"{") and b'"rocprofiler-sdk-tool"' in sample.head:
        return Match(Score.DIALECT, 'contains the key "rocprofiler-sdk-tool"')
    return None
