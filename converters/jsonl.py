"""Canonical records as JSON Lines, written by ktrace itself (model version 1).

    {"ktrace":"1.0"}
    {"record":"catalog","source":"run","id":0,"entity":"source","name":"run","facts":{"path":"run.md","format":"mlc"}}
    {"record":"event","source":"run","id":1,"ts":1000,"args":{"queued":0},"kind":"kernel","name":"gemm","dur":40,"timing":"measured"}

A record contains the columns that aren't null, in the order of the model.
"""

from __future__ import annotations

import json
from functools import partial

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.canonical.record_forms import JSON_LINES, RecordWriter, read_records, record_texts

_WORDS = ("event", "summary", "link", "catalog")


def probe(sample: Sample) -> Match | None:
    """Certain with a first line {"ktrace": ...}; near where only that line is missing."""
    line = next((line for line in sample.lines if line.strip()), "")
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(first, dict):
        return None
    if "ktrace" in first and "records" not in first:
        return Match(Score.MAGIC, f'has the first line {{"ktrace": {json.dumps(first["ktrace"])}}}')
    if first.get("record") in _WORDS and "source" in first:
        return Match(Score.NEAR, 'canonical records, but no first line {"ktrace": "1.0"}')
    return None


read = partial(read_records, form=JSON_LINES)
texts = partial(record_texts, form=JSON_LINES)


Writer = partial(RecordWriter, form=JSON_LINES)


FORMAT = Format(
    "jsonl",
    "canonical records, a line each",
    patterns=("*.jsonl",),
    probe=probe,
    read="ktrace.converters.jsonl:read",
    writer="ktrace.converters.jsonl:Writer",
    texts="ktrace.converters.jsonl:texts",
    words=('"ktrace"', '"record"'),
    holds="blocks",
)
