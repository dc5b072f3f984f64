"""Recognises a canonical JSON document by its head."""

from __future__ import annotations

import json
import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_HEAD = re.compile(r'\s*\{\s*"ktrace"\s*:\s*("[^"]*"|[^\s",{}]+)\s*,\s*"records"\s*:\s*\[')
_RECORDS = re.compile(r'\s*(\{\s*"records"\s*:\s*)?\[\s*\{\s*"record"\s*:\s*"(event|summary|link|catalog)"')


def probe(sample: Sample) -> Match | None:
    """Certain with an object that has "ktrace" and "records"; near where "ktrace" is missing."""
    text = sample.text or ""
    if found := _HEAD.match(text):
        return Match(Score.DIALECT, f'is an object with "ktrace": {found.group(1)} and "records"')
    if sample.whole and text.lstrip().startswith("{") and '"ktrace"' in text and '"records"' in text:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict) and {"ktrace", "records"} <= document.keys():
            return Match(Score.DIALECT, f'is an object with "ktrace": {json.dumps(document["ktrace"])} and "records"')
    if _RECORDS.match(text):
        return Match(Score.NEAR, 'canonical records, but no {"ktrace": "1.0", "records": [...]} around them')
    return None
