"""Timing lines of llama.cpp and ggml in logs: of the server and the tools, of the Vulkan backend, of test-backend-ops.

    0.04.796.165 I slot print_timing: id  0 | task 3 | prompt eval time =    94.80 ms /    20 tokens (    4.74 ms ...
    llama_perf_context_print:        eval time =    2056.60 ms /    12 runs   (  171.38 ms per token,     5.83 ...
    Vulkan Timings:
    MUL_MAT_VEC q8_0 m=12288 n=1 k=2048: 46116 x 125.336 us = 5.78e+06 us (401.476 GFLOPS/s)
    Total time: 9.1e+06 us.
      MUL_MAT(type_a=q4_0,type_b=f32,m=4096,n=1):    852 runs -  1176.54 us/run - 117.44 MFLOP/run -  99.82 GFLOPS

`timings` reads the first two forms, `kernels` the others.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.titles import first_form

_FIGURE = re.compile(r"(?:print_timings?|perf_\w{0,20}print)(?:: |\] |\",)[^\n]{0,200}? time\s{1,20}=\s{1,20}[\d.]+ ms")

#: A heading of llama-batched-bench.
_BATCHED = "S_PP t/s"

#: What the lines of each form contain, the rest of such a line, and what they are.
_FORMS = (
    ("print_timing", re.compile(r"slot\s+print_timings?: id\s+\d+ \| task -?\d+ \|"), "timings of a server's slots"),
    ("print_timing", _FIGURE, "timings of llama.cpp"),
    ("perf_", _FIGURE, "timings of llama.cpp"),
    (
        "Vulkan Timings:",
        re.compile(r"^(?:[^\n]{0,40} )?Vulkan Timings:\s*$", re.MULTILINE),
        "timings of ggml's Vulkan backend",
    ),
    (" us/run - ", re.compile(r"\d runs - +[\d.]+ us/run - "), "timings of test-backend-ops"),
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for any of the timing lines, in the start or in the tail of a text that isn't JSON as a whole.

    Those below a table of llama-batched-bench sum it up, and are of its format.
    """
    start = sample.head[:64].lstrip()
    if re.match(rb"\[\s*(?:[\[{]|\Z)|\{\s*(?:\Z|\"(?!tid|timestamp|function))", start) or not sample.text:
        return None
    if _BATCHED in sample.text:
        return None
    what = first_form(sample, _FORMS)
    return Match(Score.DIALECT, f"has {what}") if what else None


FORMAT = Format(
    "llama",
    "llama.cpp timings in logs: server, tools, Vulkan backend, test-backend-ops",
    patterns=("*.log", "*.txt"),
    probe=probe,
    read="ktrace.converters.llama.reader:LlamaLog.read",
    words=("print_timing", "perf_", "vulkan timings:", "us/run"),
)
