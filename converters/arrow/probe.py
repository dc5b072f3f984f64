"""Recognises canonical Arrow IPC files: magic bytes, and ktrace's key in the schema."""

from __future__ import annotations

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_MAGIC = b"ARROW1\0\0"


def probe(sample: Sample) -> Match | None:
    """Certain with the key "ktrace.version" in the schema, which is at the begin of the file."""
    if not sample.head.startswith(_MAGIC):
        return None
    if b"ktrace.version" in sample.head[:65_536]:
        return Match(Score.MAGIC, 'is an Arrow IPC file with the key "ktrace.version" in its schema')
    return Match(Score.NEAR, 'an Arrow IPC file, but without ktrace\'s key "ktrace.version" in its schema')
