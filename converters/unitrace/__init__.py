"""Text that Intel's unitrace, onetrace, cl_tracer and ze_tracer print: summaries, timelines (-t), calls (-c).

=== Device Timing Summary ===
                Total Execution Time (ns):            214649009
== L0 Backend ==
                                 Kernel,        Calls,            Time (ns),     Time (%),         Average (ns), ...
"GEMM[SIMD32 {1; 1024; 1} {1024; 1; 1}]",            4,             89769760,    91.937500,             22442440, ...

Thread 47342 Device 59736512 : "GEMM[...]" [ns] 1368 (append) 1400 (submit) 1793 (start) 4645 (end)
>>>> [271632470] <PID:12> <TID:13> clCreateBuffer: context = 0x5591dba3f860 flags = 4 ...
<<<< [271640078] <PID:12> <TID:13> clCreateBuffer [7608 ns] result = 0x5591dbaa5760 -> CL_SUCCESS (0)
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_SIGNS = (
    (
        "=== ",
        re.compile(r"^=== (?:API|Device|Kernel) (?:Timing|Submission|Properties)(?: (?:Summary|Results))?:? ===", re.M),
    ),
    (
        " (submit) ",
        re.compile(r"^.* \[ns\] (?:= )?\d+ \((?:append|queued)\) \d+ \(submit\) \d+ \(start\) \d+ \(end\)", re.M),
    ),
    ("<<<< [", re.compile(r"^<<<< \[\d+\] (?:<PID:\d+> )?(?:<TID:\d+> )?[a-z]{2,4}[A-Z]\w+ \[\d+ ns\]", re.M)),
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a title, a line of a timeline or a call."""
    if b"\0" in sample.head[:4096]:
        return None
    if b"=== " not in sample.head and b" (submit) " not in sample.head and b"<<<< [" not in sample.head:
        return None
    text = sample.text
    for word, sign in _SIGNS:
        if text and word in text and (match := sign.search(text)):
            return Match(Score.DIALECT, f"contains '{match[0].strip()[:60]}'")
    return None


FORMAT = Format(
    "unitrace",
    "Intel unitrace, onetrace, cl_tracer, ze_tracer: summaries, timelines and calls as text",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read="ktrace.converters.unitrace.reader:read",
    words=("=== ", " (submit) ", "<<<< ["),
    prose=True,
)
