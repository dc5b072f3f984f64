"""Recognises the reports of benchmark_app by their headings and keys, its log by the words of a layer's line."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_HEADINGS = re.compile(r"^layerName([;,])execStatus\1layerType\1execType\1realTime \(ms\)", re.MULTILINE)
_LINE = re.compile(r"\b(?:EXECUTED|NOT_RUN|OPTIMIZED_OUT)[ \t]+layerType: [^\n]*\brealTime(?: \(ms\))?: ")
_KEYS = (b'"detailed_performance"', b'"avg_performance"')
_REPORT_KEYS = (b'"cmd_options"', b'"configuration_setup"', b'"execution_results"')
_REPORT = re.compile(r"(?:Command line parameters|Configuration setup)[;\r\n]")
_STEP = re.compile(r"^\[Step \d+/11\] ", re.MULTILINE)
_HEAD = 1 << 16

_REMEDY = "read the counters of the layers: benchmark_app -pc -report_type detailed_counters writes them next to it"


def probe(sample: Sample) -> Match | None:
    """DIALECT for counters of layers, NEAR for a report or a log of benchmark_app without them."""
    head = sample.head
    start = head[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"{":
        return _json(head)
    if start == b"<":
        found = b"execTimeMcs=" in head and b"<layer" in head
        return Match(Score.DIALECT, "is a runtime model of OpenVINO with times (execTimeMcs)") if found else None
    text = sample.text
    if not text:
        return None
    if "layerName" in text and _HEADINGS.search(text):
        return Match(Score.DIALECT, "has the headings of benchmark_app's counters")
    if "layerType: " in text and _LINE.search(text):
        return Match(Score.DIALECT, "has layers with counters, as benchmark_app prints them")
    if _REPORT.match(text) and "Execution results" in text:
        return Match(Score.NEAR, "is a report of benchmark_app about the run, without its layers", _REMEDY)
    if "[Step 1" in text and "[ INFO ] " in text and _STEP.search(text):
        return Match(Score.NEAR, "is a log of benchmark_app without counters of layers", "run benchmark_app with -pc")
    return None


def _json(head: bytes) -> Match | None:
    if b'"real_time"' in head and b'"nodes"' in head and any(key in head for key in _KEYS):
        return Match(Score.DIALECT, "is a report of benchmark_app with counters of layers")
    start = head[:_HEAD]
    if sum(key in start for key in _REPORT_KEYS) >= 2:
        return Match(Score.NEAR, "is a report of benchmark_app about the run, without its layers", _REMEDY)
    return None
