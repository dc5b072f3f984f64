"""Recognises the log by the version of its format, which is in each line."""

from __future__ import annotations

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

#: Bytes in which the first line is searched.
_FIRST = 1 << 14


def probe(sample: Sample) -> Match | None:
    """DIALECT for a line with the version of the format."""
    if b'"inspector_output_format_version"' in sample.head[:_FIRST]:
        return Match(Score.DIALECT, "has collectives with 'inspector_output_format_version' of NCCL's Inspector")
    return None
