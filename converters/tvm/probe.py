"""Recognises the outputs of TVM's profilers by their keys and headings."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

from .columns import DEBUG, REPORT, is_csv_heading

_CALLS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:calls|device_metrics|configuration)"\s*:')
_TYPED = re.compile(rb'"Duration \(us\)"\s*:\s*\{\s*"microseconds"\s*:')


def probe(sample: Sample) -> Match | None:
    """DIALECT for a report, a table of the debug executor or the summary of a time evaluator."""
    head = sample.head
    if head[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        if b'"microseconds"' in head and _CALLS.match(head) and _TYPED.search(head):
            return Match(Score.DIALECT, "is a profiling report of TVM as JSON")
        return None
    text = sample.text
    if not text:
        return None
    if "Duration (us)" in text:
        if REPORT.search(text):
            return Match(Score.DIALECT, "has the headings of TVM's profiling report")
        for line in sample.lines:
            if "Duration (us)" in line and is_csv_heading(line):
                return Match(Score.DIALECT, "has the headings of TVM's profiling report as CSV")
    if "Time(us)" in text and DEBUG.search(text):
        return Match(Score.DIALECT, "has the headings of TVM's debug executor")
    if "Execution time summary:" in text and "mean (" in text:
        return Match(Score.DIALECT, "has the summary of TVM's time evaluator")
    return None
