"""Recognises the JSON of XLA's profiler by the names of its processes, which are planes."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"displayTimeUnit"\s*:\s*"ns"\s*,')
_PLANE = re.compile(rb'"process_name"\s*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*"/(?:host|device):')

#: The names of processes come first.
_HEAD = 1 << 16


def probe(sample: Sample) -> Match | None:
    """DIALECT for an object that begins so, with a process named after a plane."""
    if _BEGIN.match(sample.head) and _PLANE.search(sample.head[:_HEAD]):
        return Match(Score.DIALECT, "begins as XLA's profiler does, and its processes are planes")
    return None
