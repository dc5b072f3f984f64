"""Profiling lines of onnxruntime-web in the log of a browser's console, between lines of the page.

    [profiling] kernel "9920448|Gemm|fc1|GemmShared" input[0]: [4,32] | float32, output[0]: [4,64] | float32,
    start time: 0 ns, execution time: 70831 ns                                                       (on one line)
    v Profiler.node 2022-08-18T10:05:14.750Z|0.23ms on event 'conv1' at 512.40

The first form is that of `env.webgpu.profiling` (JSEP, from 1.16 on), the second that of WebGL and WebAssembly sessions
(onnxjs). A session with `enableProfiling` prints the JSON of an ONNX Runtime profile, an event a line.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.titles import first_form

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
    """DIALECT for a line of one of the profilers, in the start or in the tail of a text that isn't JSON as a whole."""
    start = sample.head[:64].lstrip()
    if re.match(rb'\[\s*(?:[\[{]|\Z)|\{(?!"version":)', start) or not sample.text:
        return None
    what = first_form(sample, _FORMS)
    return Match(Score.DIALECT, f"has {what}") if what else None


FORMAT = Format(
    "ort-web",
    "onnxruntime-web profiling in a console log",
    patterns=("*.log", "*.txt"),
    probe=probe,
    read="ktrace.converters.ort_web.reader:read",
    words=("[profiling] kernel", "ms on event", '"inputsmetadata"', '"cat" : "session"'),
)
