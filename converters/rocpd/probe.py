"""Recognises rocpd by its tables, with any uuid in their names."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_WORK = re.compile(r"rocpd_(kernel_dispatch|region|memory_copy)(_[0-9a-f_]+)?", re.IGNORECASE)
_EVENT = re.compile(r"rocpd_event(_[0-9a-f_]+)?", re.IGNORECASE)


def probe(sample: Sample) -> Match | None:
    """MAGIC for tables of work and of events; RPD has neither."""
    if sample.tables is None:
        return None
    work = next((name for name in sample.tables if _WORK.fullmatch(name)), None)
    event = next((name for name in sample.tables if _EVENT.fullmatch(name)), None)
    if work and event:
        return Match(Score.MAGIC, f"is an SQLite database with {work} and {event}")
    if work or event:
        missing = "rocpd_event" if work else "rocpd_kernel_dispatch, rocpd_region or rocpd_memory_copy"
        return Match(Score.NEAR, f"is an SQLite database with {work or event}, but without {missing}")
    return None
