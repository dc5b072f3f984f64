"""Recognises canonical CSV by its column heads."""

from __future__ import annotations

import csv

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample, text_encoding

#: The columns required in a table of one record.
_REQUIRED = {
    "events": {"source", "id", "ts", "kind", "name", "timing"},
    "summaries": {"source", "id", "kind", "name", "metric"},
    "links": {"source", "id", "link", "key", "role"},
    "catalog": {"source", "id", "entity", "facts"},
}


def probe(sample: Sample) -> Match | None:
    """Certain with the heads `record`, `source` and `id`, or with those that one record requires."""
    line = (
        sample.head.partition(b"\n")[0].decode(text_encoding(sample.head[:2]) or "utf-8", "replace").strip("\ufeff\r")
    )
    if "," not in line or ("source" not in line and "record" not in line):
        return None
    try:
        heads = {head.strip() for head in next(csv.reader([line]))}
    except (csv.Error, StopIteration):
        return None
    if {"record", "source", "id"} <= heads:
        return Match(Score.MAGIC, "has the column heads record, source, id of a canonical table")
    for record, required in _REQUIRED.items():
        if required <= heads:
            return Match(Score.MAGIC, f"has the column heads {', '.join(sorted(required))} of canonical {record}")
    if "record" in heads and heads & {"source", "kind", "metric", "entity"}:
        return Match(Score.NEAR, "a table with the column head `record`, but without `source` and `id`")
    return None
