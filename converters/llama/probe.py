"""Recognises a log of llama.cpp or ggml by its timing lines."""

from __future__ import annotations

import re

from ktrace.converters._shared.text.likely import first_form
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

_FIGURE = re.compile(r"(?:print_timings?|perf_\w{0,20}print)(?:: |\] |\",)[^\n]{0,200}? time\s{1,20}=\s{1,20}[\d.]+ ms")

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
    """DIALECT for any of the timing lines, in the begin or in the tail of a text that isn't JSON as a whole."""
    start = sample.head[:64].lstrip()
    if re.match(rb"\[\s*(?:[\[{]|\Z)|\{\s*(?:\Z|\"(?!tid|timestamp|function))", start) or not sample.text:
        return None
    what = first_form(sample, _FORMS)
    return Match(Score.DIALECT, f"has {what}") if what else None
