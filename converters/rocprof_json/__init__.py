"""rocprof's results.json (ROCm 2 to 6): Trace Event JSON with a process for the calls of each API and for each GPU.

    { "traceEvents":[{}
    ,{"args":{"name":"GPU0"},"ph":"M","pid":6,"name":"process_name","sort_index":2}
    ,{"ph":"X","name":"scale(float*)","pid":"6","tid":"0","ts":"4258451581700","dur":"12", "args":{"KernelName":...}}
    ,{"ts":4258451581680,"ph":"s","cat":"DataFlow","id":0,"pid":2,"tid":4001,"name":"dep"}

Numbers of slices are in quotes, times are whole µs.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_BEGIN = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"traceEvents"\s*:\s*\[\s*\{\s*\}\s*,\s*\{\s*"args"\s*:\s*\{\s*"name"\s*:\s*"(?:\d+ )?'
    rb"(?:Markers and Ranges|CPU|COPY|GPU)"
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a document that begins so."""
    if _BEGIN.match(sample.head):
        return Match(Score.DIALECT, "begins with an empty event and a process name of rocprof")
    return None


FORMAT = Format(
    "rocprof-json",
    "ROCm rocprof's results.json",
    patterns=("results*.json",),
    probe=probe,
    read="ktrace.converters.rocprof_json.reader:read",
    words=('"traceevents"',),
)
