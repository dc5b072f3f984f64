"""Recognises RPD by its two main tables."""

from __future__ import annotations

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample


def probe(sample: Sample) -> Match | None:
    """MAGIC for a database with rocpd_op and rocpd_api; NEAR if it has only one of them."""
    if sample.tables is None:
        return None
    names = {name.casefold() for name in sample.tables}
    found = [name for name in ("rocpd_op", "rocpd_api") if name in names]
    if len(found) == 2:
        return Match(Score.MAGIC, "is an SQLite database with rocpd_op and rocpd_api")
    if found:
        missing = "rocpd_api" if found == ["rocpd_op"] else "rocpd_op"
        return Match(Score.NEAR, f"is an SQLite database with {found[0]}, but without {missing}")
    return None
