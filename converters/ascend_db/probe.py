"""Recognises the databases of Ascend's profilers by their tables, and folders with one."""

from __future__ import annotations

from ktrace.converters._shared.ascend.folder import DB, chosen
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

#: Tables with rows that are read; one of them is enough next to STRING_IDS.
_OWN = ("TASK", "CANN_API", "PYTORCH_API", "COMMUNICATION_OP", "MSTX_EVENTS")


def probe(sample: Sample) -> Match | None:
    """MAGIC for STRING_IDS and one of the tables with times; NEAR without STRING_IDS."""
    if sample.listing is not None:
        files = chosen(sample.listing)
        if files is None or files.what != DB:
            return None
        return Match(Score.DIALECT, f"contains {files.read[0]} of Ascend's profiler")
    names = {name.upper(): {column.casefold() for column in own} for name, own in (sample.tables or {}).items()}
    found = next((name for name in _OWN if {"startns", "endns"} <= names.get(name, set())), None)
    if found is None:
        return None
    if "STRING_IDS" not in names:
        return Match(Score.NEAR, f"is an SQLite database with {found}, but without STRING_IDS")
    return Match(Score.MAGIC, f"is an SQLite database with {found} and STRING_IDS")
