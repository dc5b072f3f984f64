"""Recognises a console log of onnxruntime-web by the lines of its profilers."""

from __future__ import annotations

import re

from ktrace.converters._shared.text.likely import first_form
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_KERNEL = re.compile(r'\[profiling\] kernel "(?:(?!\[profiling\] kernel)[^\n])*execution time: -?\d+ ns')
_ONNXJS = re.compile(r"Profiler\.\w+\b[^\n]{0,60}\d\.\d\dms on event '")
_DATA = re.compile(r'\{"version":\d+,"inputsMetadata":\[')
_SESSION = re.compile(r'^[^\[{\n][^\n]{0,200}\{"cat" : "Session",', re.MULTILINE)


#: What the lines of each profiler contain, the rest of such a line, and why that is onnxruntime-web.
_FORMS = (
    ('[profiling] kernel "', _KERNEL, "lines '[profiling] kernel ... execution time: ... ns'"),
    ("ms on event '", _ONNXJS, "lines 'Profiler.... ms on event ... at ...'"),
    ('"inputsMetadata":[', _DATA, "the data of WebGPU profiling as JSON"),
    ('{"cat" : "Session",', _SESSION, "events of an ONNX Runtime profile between lines of a console"),
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a line of one of the profilers, in the begin or in the tail of a text that isn't JSON as a whole."""
    start = sample.head[:64].lstrip()
    if re.match(rb'\[\s*(?:[\[{]|\Z)|\{(?!"version":)', start) or not sample.text:
        return None
    what = first_form(sample, _FORMS)
    return Match(Score.DIALECT, f"has {what}") if what else None
