"""Recognises a log of llama.cpp or ggml by its timing lines."""

from __future__ import annotations

import re

from ktrace.converters._shared.text.likely import has_any
from ktrace.input.format import Match, Score
from ktrace.input.source import Sample

#: Every log that is read contains one of these, in lower case.
_LIKELY = ("print_timing", "_perf_context_print:", "perf_print:", "vulkan timings:", "us/run - ")

_FORMS = (
    (re.compile(r"slot\s+print_timings?: id\s+\d+ \| task -?\d+ \|"), "timings of a server's slots"),
    (
        re.compile(r"\b\w*(?:print_timings?|perf_\w*print)\b(?:: |\] |\",)[^\n]{0,200}time\s+=\s+[\d.]+ ms"),
        "timings of llama.cpp",
    ),
    (re.compile(r"^(?:[^\n]{0,40} )?Vulkan Timings:\s*$", re.MULTILINE), "timings of ggml's Vulkan backend"),
    (re.compile(r"\d runs - +[\d.]+ us/run - "), "timings of test-backend-ops"),
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for any of the timing lines."""
    if not sample.text or not has_any(sample, _LIKELY):
        return None
    for pattern, what in _FORMS:
        if pattern.search(sample.text):
            return Match(Score.DIALECT, f"has {what}")
    return None
