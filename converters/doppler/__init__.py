"""The console log of Doppler (github clocksmith/doppler), an LLM engine for WebGPU in the browser.

    [browser:log] [3567.2ms][KernelSelect] matmul variant=f16 reason=path_override
    [browser:warning] [3717.9ms][Profile] Prefill (prefill):
    [browser:warning] [3718.2ms][Profile] GPU Profile Report
    ──────────────────────────────────────────────────
    Kernel                      Time (ms)       %
    ──────────────────────────────────────────────────
    attention                       24.27    21.2
    matmul:ffn_up:L0                 2.11     1.8
    ──────────────────────────────────────────────────
    TOTAL                           26.38   100.0

The browser's messages carry the ms since the page was opened; the command line tool around the browser
writes its own lines: [progress], [ok] and [metrics]. Each row of a report is the sum for one label over one
step, from WebGPU timestamps.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

_REPORT = re.compile(r"(?:^|[\]\s])GPU Profile Report\s*$", re.M)
_HEADER = re.compile(r"^Kernel\s+Time \(\w+\)\s+%\s*$", re.M)
_STAMPED = re.compile(r"^(?:\[browser:\w+\] )?\[\d+(?:\.\d+)?ms\]\[[A-Za-z]\w*\] ", re.M)
_BROWSER = re.compile(r"^\[browser:\w+\] ", re.M)
_TOOL = re.compile(r"^\[(?:metrics|ok)\] \S+=", re.M)


def probe(sample: Sample) -> Match | None:
    """DIALECT for its report, or for lines with Doppler's own time stamp."""
    text = sample.text
    if not text:
        return None
    if _REPORT.search(text) and (_HEADER.search(text) or _STAMPED.search(text)):
        return Match(Score.DIALECT, "has the line 'GPU Profile Report'")
    if match := _STAMPED.search(text):
        return Match(Score.DIALECT, f"has lines stamped like '{match.group().strip()}'")
    if _BROWSER.search(text):
        return Match(Score.SHAPE, "has lines that start with '[browser:'")
    if _REPORT.search(text) or _TOOL.search(text):
        return Match(Score.NEAR, "has a line like those of Doppler's log, but no kernel table or time stamp")
    return None


FORMAT = Format(
    "doppler",
    "Doppler browser log (WebGPU)",
    patterns=("*.log", "*.txt"),
    probe=probe,
    read="ktrace.converters.doppler.reader:read",
    words=("gpu profile report", "ms][", "[browser:", "[metrics] ", "[ok] "),
    prose=True,
    logged="any layer",
)
