"""Trace Event JSON of the Intercept Layer for OpenCL Applications (clintercept_trace.json).

[
{"ph":"M","name":"clintercept_start_time","pid":825,"tid":0,"args":{"start_time":8334000904}},
{"ph":"M","name":"thread_name","pid":825,"tid":1.1,"args":{"name":"IOQ 0xaaab.0.0 Some GPU (CL_DEVICE_TYPE_GPU)"}},
{"ph":"X","pid":825,"tid":900,"name":"clEnqueueNDRangeKernel( mm )","ts":100.125,"dur":5.250,"args":{"id":2}},
{"ph":"X","pid":825,"tid":1.1,"name":"mm","ts":130.500,"dur":9.125,"args":{"id":2}},

A whole tid is a thread of the host. Device work has the tid <queue>.1, its name (`PerKernel`), <number>.<queue> with
three stages (`InStages`), or -<queue> in old versions. The id of a call and of the work that it enqueued are the same.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

_WORDS = (b'"clintercept_start_time"', b'"clintercept_eof"')


def probe(sample: Sample) -> Match | None:
    """DIALECT for metadata of the layer in a list of events."""
    if not sample.head[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        return None
    for word in _WORDS:
        if word in sample.head[:65_536] or word in sample.tail:
            return Match(Score.DIALECT, f"has the event {word.decode()}")
    return None


FORMAT = Format(
    "clintercept-json",
    "OpenCL Intercept Layer JSON",
    patterns=("clintercept_trace.json", "*.json"),
    probe=probe,
    read="ktrace.converters.clintercept_json.reader:read",
    words=('"clintercept_',),
)
