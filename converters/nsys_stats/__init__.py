"""Reports of Nsight Systems: the output of `nsys stats`, or a table copied from the window (2019 to 2026).

     ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

     Time (%)  Total Time (ns)  Instances  Avg (ns)  ...  Name
     --------  ---------------  ---------  --------       ------------------
         57.0    1,266,000,000        192   6596000  ...  nvjet_tst_320x128…

A copy from the window has tabs between the cells and a unit in each: `57.0% →1.266 s →192 →6.596 ms →nvjet…`.
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

#: The headings of a report have words of its own (converters/formats.py), or those of a total and of a count.
_TOTAL = re.compile(r"total[\s_]{0,9}(?:time|proj|message|\()", re.IGNORECASE)
_OWN = (
    *("strm", "grdx", "t-pri", "corrid", "rangestack", "projected start", "api start", "qcount", "q type", "peerrank"),
    *("send wait", "page faults", "migration size", "migration throughput", '"total', "<th>"),
)
#: What nsys says in place of a report, with a database of its own or the name of its export.
_SKIPPED = re.compile(r"SKIPPED: .{1,4000}\.sqlite does not contain .{1,200} data\.?\s*")
_COUNTS = ("inst", "calls", "count", "operations")


def probe(sample: Sample) -> Match | None:
    """DIALECT for the title of a report or its headings."""
    is_object = sample.is_json and (sample.text or "").lstrip().startswith("{")
    if not sample.text or is_object:
        return None
    if _may_be(sample):
        from .reports import recognised

        if match := recognised(sample, sample.text):
            return match
    return _of_skipped(sample)


def _of_skipped(sample: Sample) -> Match | None:
    """DIALECT for a report that nsys skipped: one that has no table."""
    from ktrace.kit.text.titles import likely_lines

    skipped = (line for line, text in likely_lines(sample, ("skipped:",)) if _SKIPPED.fullmatch(text.strip()))
    line = next(skipped, None)
    return None if line is None else Match(Score.DIALECT, f"says that nsys skipped a report (line {line})")


def _may_be(sample: Sample) -> bool:
    """Whether the text has the words at all; most files don't, and aren't searched for tables."""
    if sample.has_any(_OWN):
        return True
    from ktrace.kit.text.titles import likely_lines

    return any(map(_has_total_and_count, (line for _, line in likely_lines(sample, ("total",)))))


def _has_total_and_count(line: str) -> bool:
    words = line.lower()
    return "operations" in words or bool(_TOTAL.search(line) and any(count in words for count in _COUNTS))


FORMAT = Format(
    "nsys-stats",
    "Nsight Systems statistics: reports as `nsys stats` prints them",
    patterns=("*.txt", "*.tsv", "*_sum.csv", "*_trace.csv", "*_sum.json", "*_trace.json", "*_sum.html", "*_trace.html"),
    probe=probe,
    read="ktrace.converters.nsys_stats.reader:read",
    words=("total", "skipped:", *_OWN),
)
