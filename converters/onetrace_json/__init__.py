"""Trace Event JSON of Intel's onetrace, cl_tracer and ze_tracer (`--chrome-...`), the predecessors of unitrace.

[
{"ph":"M", "name":"process_name", "pid":"4321", "args":{"name":"solver"}},
{"ph":"M", "name":"start_time", "pid":"4321", "args":{"CLOCK_MONOTONIC_RAW":"7001", "CLOCK_REALTIME":"..."}},
{"ph":"X", "pid":"4321", "tid":"4322", "name":"zeInit", "ts": 18, "dur":5, "args": {"id": "1"}},
{"ph":"X", "pid":"4321", "tid":"0x55a9c7e51e70", "name":"GEMM", "ts": 318550, "dur":42710, "args": {"id": "2"}},

Pids and tids are texts, times whole µs, rounded down. The list has no end. The tid of device work is its queue, its
name (`--chrome-kernel-timeline`), or <id>.<queue> with three stages (`--chrome-device-stages`).
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_START = re.compile(
    rb'"name"\s*:\s*"start_time"\s*,\s*"pid"\s*:\s*"\d+"\s*,\s*"args"\s*:\s*\{\s*"(?:CLOCK_MONOTONIC_RAW|CLOCK_MONOTONIC|QueryPerformanceCounter)"'
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the second event of the tools in a list."""
    head = sample.head[:8192]
    if head[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") and b'"start_time"' in head and _START.search(head):
        return Match(Score.DIALECT, "has the event start_time with the clocks of onetrace")
    return None


FORMAT = Format(
    "onetrace-json",
    "Intel onetrace, cl_tracer, ze_tracer JSON",
    patterns=("*.json",),
    probe=probe,
    read="ktrace.converters.onetrace_json.reader:read",
    words=('"start_time"',),
)
