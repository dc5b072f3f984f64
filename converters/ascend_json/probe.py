"""Recognises a timeline of Ascend by the names of its layers, the arguments of its slices, or torch_npu's flows."""

from __future__ import annotations

import re

from ktrace.converters._shared.ascend.folder import JSON, chosen
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{\s*"(?:name|ph|pid|cat|ts|tid|args|dur)"')

#: The bytes that are searched: metadata is at the begin of each layer, flows are at the end of trace_view.json.
_HEAD = 1 << 16

#: Names of layers and arguments that only this profiler writes. Most of them begin with a blank or a rare word.
_OWN = (
    b'"Ascend Hardware"',
    b'"Overlap Analysis"',
    b'"async_npu"',
    b'"async_task_queue"',
    b'"duration estimated(us)"',
    b'"Iteration Refresh"',
    b'"AscendCL@',
    b'"AI Core Freq',
    b'"labels": "NPU',
    b'"labels":"NPU',
)
#: An operator of torch_npu: its time is a text. Kineto has this argument as well.
_FORWARD = b'"Fwd thread id"'
_QUOTED = re.compile(rb'"ts"\s*:\s*"[0-9]{10,19}\.[0-9]{3}"')
_DISPLAYED = re.compile(rb'"fullname"\s*:\s*"(?:Default|Gradients)/[^"]*"\s*,\s*"input_0"')


def probe(sample: Sample) -> Match | None:
    """DIALECT for a list of trace events with Ascend's own words, and for a folder with one such file."""
    if sample.listing is not None:
        files = chosen(sample.listing)
        if files is None or files.what != JSON:
            return None
        return Match(Score.DIALECT, f"contains {files.read[0]} of Ascend's profiler")
    if not _BEGIN.match(sample.head):
        return None
    head = sample.head[:_HEAD]
    for word in _OWN:
        if word in head or word in sample.tail:
            return Match(Score.DIALECT, f"is a list of trace events with {word.decode()} of Ascend's profiler")
    if _FORWARD in head and _QUOTED.search(head):
        return Match(Score.DIALECT, "is a list of trace events with times in quotes and operators of torch_npu")
    if b'"fullname"' in head and _DISPLAYED.search(head):
        return Match(Score.DIALECT, "is a list of trace events with the operators of MindSpore")
    return None
