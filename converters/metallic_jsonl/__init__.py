"""Raw metrics of Metallic (github cchance27/test-burn, crates/metallic_instrumentation), one record per line.

    {"timestamp":"2025-10-21T17:03:11.123456789Z","span_id":7,"parent_span_id":null,"span_name":"decode",
     "event":{"type":"GpuOpCompleted","data":{"op_name":"block_3/sdpa#12","backend":"Metal","duration_us":142}}}
    METRIC: {"timestamp":…}

The first form is the file of METALLIC_METRICS_JSONL_PATH (each record on one line), the second the console's.
The timestamp of a record is the time of its emission, which is the end of the work.
"""

from __future__ import annotations

import json
import re

from ktrace.kit import Format, Match, Sample, Score

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


FORMAT = Format(
    "metallic-jsonl",
    "Metallic raw JSON Lines",
    patterns=("*.jsonl",),
    probe=probe,
    read="ktrace.converters.metallic_jsonl.reader:read",
    words=('"event"',),
)
