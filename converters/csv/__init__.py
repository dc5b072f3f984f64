"""Canonical records as one flat CSV table, written by ktrace itself (model version 1), after RFC 4180.

    record,source,id,parent,...,ts,cat,args,kind,name,...
    "event","run",1,,...,1000,"","{""queued"":0}","kernel","gemm",...
    "summary","run",2,,...,,,,"kernel","gemm",...

Texts are quoted, numbers and column heads are not; an empty cell is null and `""` the empty text. `args` and `facts`
are JSON objects, `scope` is a JSON list. With `--table`, the columns are those of one record, without `record`.
"""

from __future__ import annotations

import csv

from ktrace.input.compression import text_encoding
from ktrace.kit import Format, Match, Sample, Score

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
        return Match(Score.MAGIC, "has the columns record, source, id of a canonical table")
    for record, required in _REQUIRED.items():
        if required <= heads:
            return Match(Score.MAGIC, f"has the columns {', '.join(sorted(required))} of canonical {record}")
    if "record" in heads and heads & {"source", "kind", "metric", "entity"}:
        return Match(Score.NEAR, "a table with the heading `record`, but without `source` and `id`")
    return None


FORMAT = Format(
    "csv",
    "canonical records as one flat table",
    patterns=("*.csv",),
    probe=probe,
    read="ktrace.converters.csv.reader:read",
    writer="ktrace.converters.csv.reader:Writer",
    texts="ktrace.converters.csv.reader:texts",
    words=("source", "record"),
    prose=True,
)
