"""Huawei Ascend's timelines: trace_view.json of torch_npu and MindSpore, msprof_*.json and its parts, timeline_display.

    [{"name": "process_name", "pid": 800, "tid": 0, "args": {"name": "Ascend Hardware"}, "ph": "M"},
     {"name": "Mul1", "pid": 800, "tid": 3, "ts": "1704161511422904.204", "dur": 1.35, "ph": "X",
      "args": {"Model Id": 4294967295, "Task Type": "AI_VECTOR_CORE", "Stream Id": 3, "connection_id": 8}}]

A bare list; times are epoch µs with three digits as text, or numbers. A process is a layer: host, device or analysis;
its metadata, with labels such as "NPU 1", may be anywhere.

A layer of communication (HCCL) has operators and, on other threads, their tasks, which "Ascend Hardware" has, too:

    {"name": "hcom_allReduce__77_0_1", "pid": 33, "tid": 0, "ts": "100.000", "dur": 71.0, "args": {"connection_id": 44}}
    {"name": "Memcpy", "pid": 33, "tid": 1, "ts": "151.000", "dur": 20.0,
     "args": {"stream id": 9, "task id": 4, "task type": "Memcpy"}}
    {"name": "SDMA_SQE", "pid": 5, "tid": 9, "ts": "151.000", "dur": 20.0,
     "args": {"Task Type": "SDMA_SQE", "Task Id": 4}}

Facts: msprof's assemblers of timelines (csrc/application/timeline), torch_npu's profiler/analysis, 2023 to 2026.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.ascend_folder import JSON, chosen

_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{\s*"(?:name|ph|pid|cat|ts|tid|args|dur)"')

#: The bytes that are searched: metadata is at the start of each layer, flows are at the end of trace_view.json.
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


FORMAT = Format(
    "ascend-json",
    "Huawei Ascend timelines (torch_npu, MindSpore, msprof) as JSON",
    patterns=("trace_view*.json", "msprof_*.json"),
    probe=probe,
    read="ktrace.converters.ascend_json.reader:read",
    words=(
        "ascend",
        "async_npu",
        "async_task_queue",
        "overlap analysis",
        "duration estimated(us)",
        "iteration refresh",
        "ai core freq",
        '"npu',
        "fwd thread id",
        '"fullname"',
    ),
    reads_folders=True,
    document=True,
    holds="blocks",
)
