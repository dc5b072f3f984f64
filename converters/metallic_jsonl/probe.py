"""Recognises Metallic's records by their keys."""

from __future__ import annotations

import json
import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

#: The number of lines that are examined.
_MOST_LINES = 2_000
_RECORD = re.compile(r'(?:^|\bMETRIC: )\s*(\{.*"event"\s*:.*)')


def probe(sample: Sample) -> Match | None:
    """DIALECT for a line that is a record with `timestamp`, `span_id` and a typed `event`."""
    text = sample.text
    if not text:
        return None
    near = None
    lines = text.splitlines() if sample.whole else sample.lines
    for number, line in enumerate(lines[:_MOST_LINES], 1):
        found = _RECORD.search(line)
        if not found:
            continue
        record = _object(found.group(1))
        event = record.get("event")
        if isinstance(event, dict) and isinstance(event.get("type"), str) and "data" in event:
            if "timestamp" in record and "span_id" in record:
                return Match(Score.DIALECT, f"line {number} is a record of Metallic of type {event['type']}")
            near = Match(Score.NEAR, f"line {number} has a typed event, but no timestamp or no span_id")
    return near


def _object(text: str) -> dict[str, object]:
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
