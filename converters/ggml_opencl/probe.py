"""Recognises cl_profiling.csv by its headings and cl_trace.json by its first event."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_CSV = re.compile(rb"(?:\xef\xbb\xbf)?\s*op name\s*,\s*kernel name\s*,[^\n]{0,300}\bduration ?\(ms\)")
_TRACE = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\[\s*\{"name": "[^"\n]{0,500}", "cat": "OpenCL", "ph": "B", "ts": \d+, "pid": "", '
    rb'"tid": "Host"'
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for either file."""
    start = sample.head[:1024]
    if _CSV.match(start):
        return Match(Score.DIALECT, "has the headings of ggml's cl_profiling.csv")
    if _TRACE.match(start):
        return Match(Score.DIALECT, "has the first event of ggml's cl_trace.json")
    return None
