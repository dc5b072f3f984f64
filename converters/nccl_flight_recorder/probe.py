"""Recognises a dump by its keys, in a pickle or in JSON."""

from __future__ import annotations

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_PICKLE = tuple(bytes((0x80, version)) for version in range(2, 6))

#: Bytes in which keys are searched.
_FIRST = 1 << 14


def probe(sample: Sample) -> Match | None:
    """MAGIC for a pickle, DIALECT for JSON, with the keys of a dump."""
    head = sample.head
    is_pickle = head.startswith(_PICKLE)
    if not is_pickle and head[:32].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return None
    first = head[:_FIRST]
    collectives = b"entries" in first and b"profiling_name" in first and b"time_created_ns" in first
    groups = b"pg_config" in first and b"version" in first and (b"entries" in first or b"pg_status" in first)
    if not collectives and not groups:
        return None
    return Match(Score.MAGIC if is_pickle else Score.DIALECT, "is a dump of PyTorch's flight recorder")
