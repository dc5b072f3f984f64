"""The Trace Event JSON of XLA's profiler (JAX, TensorFlow): `<host>.trace.json.gz` and `perfetto_trace.json.gz`.

{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}},
{"ph":"X","pid":1,"tid":17,"ts":1611.362,"dur":18.24,"name":"loop_add_fusion","args":{"correlation_id":"18"}},{}]}
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"displayTimeUnit"\s*:\s*"ns"\s*,')
_PLANE = re.compile(rb'"process_name"\s*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*"/(?:host|device):')

#: The names of processes come first.
_HEAD = 1 << 16


def probe(sample: Sample) -> Match | None:
    """DIALECT for an object that begins so, with a process named after a plane."""
    if _BEGIN.match(sample.head) and _PLANE.search(sample.head[:_HEAD]):
        return Match(Score.DIALECT, "begins as XLA's profiler does, and its processes are planes")
    return None


FORMAT = Format(
    "xprof-json",
    "Trace Event JSON of XLA's profiler (JAX, TensorFlow)",
    patterns=("*.trace.json", "perfetto_trace.json"),
    probe=probe,
    read="ktrace.converters.xprof_json.reader:read",
    words=('"process_name"',),
)
