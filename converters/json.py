"""Canonical records as one JSON document, written by ktrace itself (model version 1).

    {"ktrace":"1.0","records":[
    {"record":"catalog","source":"run","id":0,"entity":"source","name":"run","facts":{"path":"run.md","format":"mlc"}},
    {"record":"event","source":"run","id":1,"ts":1000,"kind":"kernel","name":"gemm","dur":40,"timing":"measured"}
    ]}

The records are those of JSON Lines. A document in this layout is read as a stream; any other is decoded whole.
"""

from __future__ import annotations

import json
import re
from functools import partial

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.canonical.record_forms import DOCUMENT, RecordWriter, read_records, record_texts

_HEAD = re.compile(r'\s*\{\s*"ktrace"\s*:\s*("[^"]*"|[^\s",{}]+)\s*,\s*"records"\s*:\s*\[')
_RECORDS = re.compile(r'\s*(\{\s*"records"\s*:\s*)?\[\s*\{\s*"record"\s*:\s*"(event|summary|link|catalog)"')


def probe(sample: Sample) -> Match | None:
    """Certain with an object that has "ktrace" and "records"; near where "ktrace" is missing."""
    text = sample.text or ""
    if match := _HEAD.match(text):
        return Match(Score.DIALECT, f'is an object with "ktrace": {match.group(1)} and "records"')
    if sample.whole and text.lstrip().startswith("{") and '"ktrace"' in text and '"records"' in text:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict) and {"ktrace", "records"} <= document.keys():
            return Match(Score.DIALECT, f'is an object with "ktrace": {json.dumps(document["ktrace"])} and "records"')
    if _RECORDS.match(text):
        return Match(Score.NEAR, 'canonical records, but no {"ktrace": "1.0", "records": [...]} around them')
    return None


read = partial(read_records, form=DOCUMENT)
texts = partial(record_texts, form=DOCUMENT)


Writer = partial(RecordWriter, form=DOCUMENT)


FORMAT = Format(
    "json",
    "canonical records, one document",
    patterns=("*.json",),
    probe=probe,
    read="ktrace.converters.json:read",
    writer="ktrace.converters.json:Writer",
    texts="ktrace.converters.json:texts",
    words=('"ktrace"', '"record"'),
    document=True,
    holds="blocks",
)
