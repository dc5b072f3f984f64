"""The report of the Intercept Layer for OpenCL Applications (clintercept_report.txt, or at the end of its log).

Total Enqueues: 16

Device Performance Timing Results for Intel(R) Graphics [0x5916] (24CUs, 1100MHz):

Total Time (ns): 457092230

                          Function Name,  Calls,     Time (ns), Time (%),  Average (ns),      Min (ns), ...
blur SIMD16 GWS[ 3840 x 2160 ] LWS[ NULL ],     16,     457091912,  100.00%,      28568244,      28467166, ...
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score

TITLE = re.compile(r"^ *(Host|Device) Performance Timing Results(?: for (.+))?: *$", re.MULTILINE)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a title of the report."""
    for part in (sample.head, sample.tail):
        if b"Performance Timing Results" in part and (
            found := TITLE.search(part.decode("utf-8", "replace").replace("\r", ""))
        ):
            return Match(Score.DIALECT, f"contains '{found[0].strip()[:60]}'")
    return None


FORMAT = Format(
    "clintercept",
    "OpenCL Intercept Layer: the report of its timings",
    patterns=("clintercept_report.txt", "*.txt", "*.log"),
    probe=probe,
    read="ktrace.converters.clintercept.reader:read",
    words=("performance timing results",),
    prose=True,
)
