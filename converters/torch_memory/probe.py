"""Recognises a snapshot by its keys, in a pickle or in JSON."""

from __future__ import annotations

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_PICKLE = tuple(bytes((0x80, version)) for version in range(2, 6))

#: Bytes in which the first key is searched.
_FIRST = 4096


def probe(sample: Sample) -> Match | None:
    """MAGIC for a pickle, DIALECT for JSON, with the keys of a snapshot."""
    head = sample.head
    first = head[:_FIRST]
    if head.startswith(_PICKLE):
        if b"device_traces" in first or (b"segments" in first and _goes_on(sample)):
            return Match(Score.MAGIC, "is a pickle with the segments and traces of PyTorch's memory")
        return None
    if first.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return None
    if b'"device_traces"' in first or (b'"segments"' in first and (b'"segment_type"' in head or _goes_on(sample))):
        return Match(Score.DIALECT, "has the segments and traces of PyTorch's memory")
    return None


def _goes_on(sample: Sample) -> bool:
    """Whether other keys of a snapshot follow the first one."""
    return any(key in sample.head or key in sample.tail for key in (b"total_size", b"device_traces"))
