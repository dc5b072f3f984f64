"""Recognises LatencyPrism's CSV by its headings."""

from __future__ import annotations

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of either file."""
    from ktrace.converters._shared.text.tables import find_tables

    from .columns import columns_of

    for table in find_tables(sample, columns_of):
        words = "beta_pct" if "metric" in (table.fields or {}) else "counter_name, timestamp"
        return Match(Score.DIALECT, f"has the columns {words} of LatencyPrism (line {table.line})")
    return None
