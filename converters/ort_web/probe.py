"""Recognises a console log of onnxruntime-web by the lines of its profilers."""

from __future__ import annotations

import re

from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_KERNEL = re.compile(r'\[profiling\] kernel "[^\n]*execution time: -?\d+ ns')
_ONNXJS = re.compile(r"Profiler\.\w+\b[^\n]{0,60}\d\.\d\dms on event '")
_DATA = re.compile(r'\{"version":\d+,"inputsMetadata":\[')
_SESSION = re.compile(r'^[^\[{\n][^\n]{0,200}\{"cat" : "Session",', re.MULTILINE)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a line of one of the profilers."""
    start = sample.head[:2].lstrip()
    if start in (b"[", b"[{") or (start.startswith(b"{") and not sample.head.startswith(b'{"version":')):
        return None  # a document of JSON
    text = sample.text
    if not text:
        return None
    if '[profiling] kernel "' in text and _KERNEL.search(text):
        return Match(Score.DIALECT, "has lines '[profiling] kernel ... execution time: ... ns'")
    if "ms on event '" in text and _ONNXJS.search(text):
        return Match(Score.DIALECT, "has lines 'Profiler.... ms on event ... at ...'")
    if '"inputsMetadata":[' in text and _DATA.search(text):
        return Match(Score.DIALECT, "has the data of WebGPU profiling as JSON")
    if '{"cat" : "Session",' in text and _SESSION.search(text):
        return Match(Score.DIALECT, "has events of an ONNX Runtime profile between lines of a console")
    return None
