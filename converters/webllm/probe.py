"""Recognises WebLLM's blocks by their three keys."""

from __future__ import annotations

import re
from itertools import islice

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_BLOCK = re.compile(r'"entryPoints\\?"\s*:\s*(?:\[|\\?")')
_TIMES = (re.compile(r'"start\\?"\s*:\s*\\?"?-?\d'), re.compile(r'"end\\?"\s*:\s*\\?"?-?\d'))

#: The number of characters on either side of `entryPoints` that are searched for the block's other keys.
_REACH = 4_000

#: The number of occurrences of `entryPoints` that are examined.
_LOOKS = 100


def probe(sample: Sample) -> Match | None:
    """DIALECT if `entryPoints`, `start` and `end` are near each other."""
    text = sample.text
    if not text:
        return None
    found = None
    for found in islice(_BLOCK.finditer(text), _LOOKS):
        near = text[max(0, found.start() - _REACH) : found.end() + _REACH]
        if all(time.search(near) for time in _TIMES):
            return Match(Score.DIALECT, "has blocks with the keys entryPoints, start and end")
    return Match(Score.NEAR, "has entryPoints, but no block with start and end") if found else None
