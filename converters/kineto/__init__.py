"""PyTorch profiler traces (libkineto) of all versions, for CUDA, HIP, XPU, MTIA, HPU and the CPU alone.

    {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}],
     "baseTimeNanoseconds": 1724000000000000000, "traceEvents": [
      {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5842913001255.367, "dur": 7.770,
       "args": {"External id": 1, "device": 0, "context": 1, "stream": 7, "correlation": 1, "grid": [440, 1, 1]}}]}

`torch.profiler` writes them (export_chrome_trace, tensorboard_trace_handler), and so does dynolog on demand.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

#: Members of the document that only Kineto writes.
_KEYS = (
    *("schemaVersion", "deviceProperties", "computeProperties", "baseTimeNanoseconds", "distributedInfo"),
    *("trace_id", "record_shapes", "cupti_version", "roctracer_version", "with_modules"),
)
_KEY = re.compile(rb'"(%b)"\s*:' % b"|".join(key.encode() for key in _KEYS))
_CATEGORY = re.compile(
    rb'"cat"\s*:\s*"(cpu_op|Operator|cuda_runtime|cuda_driver|gpu_memcpy|gpu_memset|python_function|user_annotation'
    rb'|gpu_user_annotation|kernel|Kernel|ac2g|fwdbwd|cpu_instant_event|mtia_runtime|xpu_runtime|Runtime)"'
)
#: Categories of unitrace, another tool for PyTorch, which has "cpu_op" as well.
_OTHERS = re.compile(rb'"cat"\s*:\s*"(gpu_op"|(CL_)?Flow_[HD]2[HD]_)')
#: The call stack of an event of Triton's Proton, which has "kernel" and "baseTimeNanoseconds" as well.
_PROTON = re.compile(rb'"call_stack"\s*:\s*\[\s*"ROOT"')
#: A member of timelines of msprof op, which have "schemaVersion" as well (msopprof, core_timeline_visualizer.cpp).
_OPERATOR = b'"profilingType"'
_EVENTS = re.compile(rb'"traceEvents"\s*:')

#: The first bytes of both forms of `export_memory_timeline`, and a line of `export_stacks`.
MEMORY_TIMELINE = re.compile(rb"\[\s*\[\s*-?[0-9]+\s*,\s*[1-4]\s*,\s*-?[0-9]+\s*,\s*-?[0-9]+\s*\]")
MEMORY_BY_CATEGORY = re.compile(rb"\[\s*\[\s*[0-9]{9,18}\s*(?:,\s*[0-9]{9,18}\s*[,\]]|\]\s*,\s*\[\s*\[)")
_STACK = re.compile(r"\S[^;]*(;[^;]+)* [0-9]{1,15}")
_FRAME = re.compile(r"\([0-9]+\):[ _]")

#: The title of an HTML page of `export_memory_timeline`, and how to get the numbers in its picture.
_PICTURE = b"<title>GPU Memory Timeline HTML</title>"
NUMBERS = "export_memory_timeline to a name that ends in .raw.json.gz or .json instead of .html, and convert that"


def probe(sample: Sample) -> Match | None:
    """DIALECT for Kineto's own keys or categories, in the head or, where they come after the events, in the tail."""
    start = sample.head[:1024].lstrip(b"\xef\xbb\xbf \t\r\n")
    if MEMORY_TIMELINE.match(start):
        return Match(Score.DIALECT, "is a list of [time, action, bytes, category] of a memory timeline")
    if MEMORY_BY_CATEGORY.match(start):
        return Match(Score.DIALECT, "is a list of times and sizes by category of a memory timeline")
    if _PICTURE in start:
        return Match(Score.DIALECT, "is an HTML page with a picture of a memory timeline, without numbers", NUMBERS)
    if sample.text and not sample.is_json:
        lines = [line for line in sample.lines[:20] if line.strip()]
        if lines and all(map(_STACK.fullmatch, lines)) and 2 * sum(map(bool, map(_FRAME.search, lines))) >= len(lines):
            return Match(Score.DIALECT, "has stacks of Python frames with their times")
        return None
    if not start.startswith(b"{"):
        return None
    if b'"otherData": {"ktrace"' in sample.head[:256] or b'"otherData":{"ktrace"' in sample.head[:256]:
        return None
    events = _EVENTS.search(sample.head)
    if not events or _PROTON.search(sample.head, 0, 1 << 18) or _OPERATOR in sample.head[:1024]:
        return None
    match = _KEY.search(sample.head, 0, events.start()) or _KEY.search(sample.tail)
    if not match and sample.whole:
        match = _KEY.search(sample.head, sample.head.rfind(b"]"))
    if match:
        return Match(Score.DIALECT, f"has traceEvents and Kineto's '{match[1].decode()}'")
    category = _CATEGORY.search(sample.head) or _CATEGORY.search(sample.tail)
    if category and not _OTHERS.search(sample.head):
        return Match(Score.DIALECT, f"has traceEvents with Kineto's category '{category[1].decode()}'")
    return None


FORMAT = Format(
    "kineto",
    "PyTorch profiler (Kineto) JSON",
    patterns=("*.pt.trace.json",),
    probe=probe,
    read="ktrace.converters.kineto.reader:read",
    ranges="ktrace.converters.kineto.reader:ranges",
    read_range="ktrace.converters.kineto.reader:read",
    captures=True,
    holds="blocks",
)
