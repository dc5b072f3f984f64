"""Recognises rocprofv3's JSON by the key that all of it is under."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_FIRST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:')


def probe(sample: Sample) -> Match | None:
    """MAGIC where the key is the document's first, DIALECT where it stands in the head."""
    if _FIRST.match(sample.head):
        return Match(Score.MAGIC, 'is a JSON document of "rocprofiler-sdk-tool"')
    if sample.head[:64].lstrip().startswith(b"{") and b'"rocprofiler-sdk-tool"' in sample.head:
        return Match(Score.DIALECT, 'has the key "rocprofiler-sdk-tool"')
    return None
