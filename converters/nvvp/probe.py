"""Recognises a database of nvprof by its tables."""

from __future__ import annotations

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample


def probe(sample: Sample) -> Match | None:
    """DIALECT for nvprof's table of strings together with one of CUPTI's records."""
    if sample.tables is None:
        return None
    columns = {table.casefold(): {name.casefold() for name in names} for table, names in sample.tables.items()}
    own = sorted(name for name in sample.tables if name.upper().startswith("CUPTI_ACTIVITY_KIND_"))
    if "_id_" in columns.get("stringtable", set()) and own:
        return Match(Score.DIALECT, f"has the tables StringTable and {own[0]} of nvprof")
    return None
