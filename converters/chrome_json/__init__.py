"""Chrome trace JSON: the Trace Event Format of chrome://tracing, which Perfetto reads as well.

    {"displayTimeUnit":"ns","otherData":{"ktrace":{"origin_ns":1724000000000000000}},"traceEvents":[
    {"ph":"M","name":"process_name","pid":4242,"args":{"name":"python3"}},
    {"ph":"X","name":"ampere_sgemm_128x64_tn","cat":"kernel","pid":4242,"tid":7,"ts":12.345,"dur":3.210,"args":{"id":5}}
    ]}

Times are microseconds with three decimals, counted from the start of the trace: viewers read them through a double, in
which an epoch time would lose its nanoseconds.

reader     events of any program
read_back  rows of a file that ktrace wrote
writer     timeline -> JSON, with tracks and lanes as process and thread ids
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_OBJECT = re.compile(rb'"traceEvents"\s*:\s*\[')
_EVENT = re.compile(rb'"ph"\s*:\s*"[A-Za-z(),]"')
_OWN = re.compile(rb'"otherData"\s*:\s*\{\s*"ktrace"\s*:')

#: Similar formats: a pattern in the first bytes, what the input is, what to do.
_OTHERS = (
    (
        re.compile(rb"^\s*<(!DOCTYPE|html|!--)", re.I),
        "is HTML with a trace in it",
        "save its trace as JSON and convert that",
    ),
    (re.compile(rb'^\s*\{[^\[]{0,400}"spans"\s*:\s*\['), "is a Google Cloud trace", "export Trace Event JSON"),
)


def probe(sample: Sample) -> Match | None:
    """Returns a match for a list of events, or an object with one under `traceEvents`."""
    start = sample.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for pattern, what, remedy in _OTHERS:
        if pattern.search(start[:1024]) and not _OBJECT.search(start[:1024]):
            relevant = not what.endswith("in it") or b"BEGIN TRACE" in sample.head
            return Match(Score.NEAR, what, remedy) if relevant else None
    if sample.text and not sample.is_json:
        return None
    if start.startswith(b"{"):
        if _OWN.search(start[:4096]):
            return Match(Score.DIALECT, "is Chrome trace JSON that ktrace wrote")
        if _OBJECT.search(start):
            return Match(Score.SHAPE, "is an object with a list of traceEvents")
        if _OBJECT.search(sample.tail):
            return Match(Score.SHAPE, "has a list of traceEvents at its end")
        if _EVENT.search(start[:4096].split(b"\n", 1)[0]):
            return Match(Score.SHAPE, "has a trace event on each line")
    if start.strip() == b"[":
        return Match(Score.SHAPE, "is an empty list, as of trace events")
    if start.startswith(b"[") and _EVENT.search(start[:65_536]):
        return Match(Score.SHAPE, "is a list of trace events")
    return None


FORMAT = Format(
    "chrome",
    "Chrome trace JSON",
    patterns=("*.trace.json",),
    probe=probe,
    read="ktrace.converters.chrome_json.reader:read",
    writer="ktrace.converters.chrome_json.writer:Writer",
    timeline=True,
    ranges="ktrace.converters.chrome_json.reader:ranges",
    read_range="ktrace.converters.chrome_json.reader:read",
    holds="blocks",
)
