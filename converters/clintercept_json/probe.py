"""Recognises the layer's JSON by its metadata."""

from __future__ import annotations

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_WORDS = (b'"clintercept_start_time"', b'"clintercept_eof"')


def probe(sample: Sample) -> Match | None:
    """DIALECT for metadata of the layer in a list of events."""
    if not sample.head[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        return None
    for word in _WORDS:
        if word in sample.head[:65_536] or word in sample.tail:
            return Match(Score.DIALECT, f"has the event {word.decode()}")
    return None
