"""Recognises rpd2tracing's output by its empty first object and the one after it."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{\s*\}\s*,\s*\{\s*"(?:name|pid)"\s*:')
_OWN = re.compile(rb'"ph"\s*:\s*"X"\s*,\s*"args"\s*:\s*\{\s*"desc"\s*:|"cat"\s*:\s*"api_op"')


def probe(sample: Sample) -> Match | None:
    """DIALECT for a list that begins so, with slices or flows of rpd2tracing."""
    if _BEGIN.match(sample.head) and _OWN.search(sample.head):
        return Match(Score.DIALECT, "begins with an empty object, and its slices have a `desc`")
    return None
