"""rocprof and rocprofv2, CSV and text, and rocprof-compute's tables of counters (ROCm 3 to 6).

Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,...,SQ_WAVES,DispatchNs,BeginNs,EndNs,CompleteNs
0,"vecCopy(double*, double*) [clone .kd]",2,0,0,1271546,1271546,1048576,256,0,0,...,16384,14102,14103,14104,14105

Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,...,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES
Domain(HIP_API_DOMAIN), Function(hipMalloc), Start_Timestamp(611510516160324), End_Timestamp(...), Correlation_ID(2)
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.rocm.tables import LIKELY, WORDS, is_v3, table_kind
from ktrace.kit.text.headings import headings_of
from ktrace.kit.text.titles import likely_lines

from .printed import printed_row

_PRINTED = re.compile(r"\w\([^()]*\), ?[\w-]+\(")


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of these tables, and for a printed row."""
    for number, line in likely_lines(sample, LIKELY):
        if "," not in line or not WORDS.search(line):
            continue
        found = headings_of(line, table_kind)
        if found and not is_v3(found[0], found[1]):
            return Match(Score.DIALECT, f"contains the headings of rocprof (line {number})")
        if _PRINTED.search(line) and (row := printed_row(line)) and table_kind(list(row)):
            return Match(Score.DIALECT, f"contains a row in rocprof's printed form (line {number})")
    return None


FORMAT = Format(
    "rocprof",
    "ROCm rocprof and rocprofv2 tables, CSV or text; rocprof-compute counters",
    patterns=("results*.csv", "pmc_perf*.csv", "*.txt"),
    probe=probe,
    read="ktrace.converters.rocprof.reader:read",
    words=("timestamp", "grid_size", "grd", "counter_name", "totaldurationns", "agent_type"),
    prose=True,
)
