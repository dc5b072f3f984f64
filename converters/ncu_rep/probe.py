"""Recognises a report of Nsight Compute by its first bytes, and reports a file that has only the name of one."""

from __future__ import annotations

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_MAGIC = b"NVR\0"


def probe(sample: Sample) -> Match | None:
    """MAGIC for the first bytes, NEAR for the name alone."""
    if sample.head.startswith(_MAGIC):
        return Match(Score.MAGIC, "begins with 'NVR', like reports of Nsight Compute")
    if not sample.name.lower().endswith(".ncu-rep") or sample.listing is not None:
        return None
    return Match(Score.NEAR, "is named '.ncu-rep', but doesn't begin with 'NVR'; copy it again")
