"""Trace Event JSON of Intel's unitrace (`--chrome-call-logging`, `--chrome-kernel-logging` ...).

{ "traceEvents":[
{"ph": "M", "name": "process_name", "pid": 78154, "ts": 1695711384948305.000000, "args": {"name": "HOST<node7>"}},
{"ph": "M", "name": "process_name", "pid": 4294967295, ..., "args": {"name": "DEVICE<node7>[Intel(R) ...] 0:3a:0:0"}},
{"ph": "X", "tid": 4294967295, "pid": 4294967295, "name": "GEMM[SIMD32 {1; 1024; 1} {1024; 1; 1}]", "cat": "gpu_op",
 "ts": 1695711387928.273000, "dur": 2850.400000, "args": {"id": "12"}},
{"ph": "t", "tid": 4294967295, "pid": 4294967295, "name": "dep", "cat": "Flow_H2D_12_0", "ts": ..., "id": 12}

Devices and their queues have made-up pids and tids from 2^32 - 1 downwards; the process of the host has its own.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_PROCESS = re.compile(rb'"process_name"[^{}]{0,200}\{\s*"name"\s*:\s*"(?:RANK \d+ )?(?:HOST|DEVICE)<')
_WORK = re.compile(
    rb'"cat"\s*:\s*"gpu_op"[^{}]{0,200}\{\s*"id"\s*:\s*"\d+"|"cat"\s*:\s*"(?:CL_)?Flow_[HD]2[HD]_\d+_\d+"'
)


#: The first bytes, which contain a process or device work.
_HEAD = 1 << 18

_BEGIN = re.compile(
    rb'\s*\{\s*"traceEvents"\s*:\s*\[\s*\{\s*"ph"\s*:\s*"M"\s*,\s*"name"\s*:\s*"process_name"\s*,\s*"pid"\s*:\s*\d+\s*,'
    rb'\s*"ts"\s*:\s*[\d.]+\s*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*"(?:RANK \d+ )?HOST<'
)


def probe(sample: Sample) -> Match | None:
    """MAGIC for unitrace's first event, DIALECT for its processes elsewhere, or for its device work and flows."""
    head = sample.head[:_HEAD]
    if (
        b'"ph"' not in head[:65_536]
        or b'"otherData": {"ktrace"' in head[:256]
        or b'"otherData":{"ktrace"' in head[:256]
    ):
        return None
    if _BEGIN.match(head):
        return Match(Score.MAGIC, "begins with the process HOST<...>, as unitrace writes it")
    if (b"HOST<" in head or b"DEVICE<" in head) and _PROCESS.search(head):
        return Match(Score.DIALECT, "has a process HOST<...> or DEVICE<...>, as unitrace writes it")
    if (b'"gpu_op"' in head or b"Flow_" in head) and _WORK.search(head):
        return Match(Score.DIALECT, "has device work or flows as unitrace writes them")
    return None


FORMAT = Format(
    "unitrace-json",
    "Intel unitrace JSON (--chrome-...-logging)",
    patterns=("*.json",),
    probe=probe,
    read="ktrace.converters.unitrace_json.reader:read",
    words=('"ph"',),
)
