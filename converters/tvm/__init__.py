"""TVM: profiling reports, the table of the debug executor, the summary of a time evaluator.

    report.json()    {"calls":[{"Name":{"string":"fused_dense"},"Duration (us)":{"microseconds":12.5},...}],
                      "device_metrics":{"cuda0":{...}},"configuration":{"Executor":{"string":"VM"}}}
    report.csv()     Argument Shapes,Count,Device,Duration (us),Hash,Name,Percent
    print(report)    Name         Duration (us)  Percent  Device  Count   Argument Shapes
                     fused_dense          12.50    25.00   cuda0      1  float32[1, 64]
    debug executor   Node Name    Ops          Time(us)  Time(%)  Shape    Inputs  Outputs  Measurements(us)
    time evaluator   Execution time summary:

Facts: src/runtime/profiling.cc (2021 to 2026), python/tvm/contrib/debugger/debug_result.py and
python/tvm/runtime/module.py of apache/tvm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.likely import utf8_head

from .columns import grid_of, is_csv_heading

_CALLS = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:calls|device_metrics|configuration)"\s*:')
_TYPED = re.compile(rb'"Duration \(us\)"\s*:\s*\{\s*"microseconds"\s*:')

#: How many lines with a heading are examined.
_MOST = 50

#: Where a text without tables has its summary.
_FIRST = 1 << 18


def probe(sample: Sample) -> Match | None:
    """DIALECT for a report, a table of the debug executor or the summary of a time evaluator."""
    head = utf8_head(sample)
    if head[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        if _CALLS.match(head) and _TYPED.search(head):
            return Match(Score.DIALECT, "is a profiling report of TVM as JSON")
        return None
    if b"(us)" not in head and b"Execution time summary:" not in head[:_FIRST]:
        return None
    text = sample.text or ""
    for word in ("Duration (us)", "Time(us)"):
        for line in _lines_with(word, text):
            if is_csv_heading(line):
                return Match(Score.DIALECT, "has the headings of TVM's profiling report as CSV")
            if grid := grid_of(line):
                what = "profiling report" if grid.right else "debug executor"
                return Match(Score.DIALECT, f"has the headings of TVM's {what}")
    if "Execution time summary:" in text and "mean (" in text:
        return Match(Score.DIALECT, "has the summary of TVM's time evaluator")
    return None


def _lines_with(word: str, text: str) -> Iterator[str]:
    """Yields the first lines with a word."""
    at = 0
    for _ in range(_MOST):
        at = text.find(word, at)
        if at < 0:
            return
        end = text.find("\n", at)
        end = end if end >= 0 else len(text)
        yield text[text.rfind("\n", 0, at) + 1 : end].rstrip("\r")
        at = end


FORMAT = Format(
    "tvm",
    "TVM: profiling reports, debug executor, time evaluator",
    patterns=("*.json", "*.csv", "*.txt", "*.log"),
    probe=probe,
    read="ktrace.converters.tvm.reader:read",
    words=("duration (us)", "time(us)", "execution time summary", '"microseconds"'),
)
