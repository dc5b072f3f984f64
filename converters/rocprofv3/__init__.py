"""rocprofv3's CSV files: one, or a folder of them as one trace (ROCm 6.2 to 7).

host/834304_kernel_trace.csv
"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",...
"KERNEL_DISPATCH","Agent 4",1,1,834304,1,10,"void add<float>(float*)",1,1550151853029637,1550151853042437,...

host/834304_hip_api_trace.csv
"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.columnar.csv_headings import headings_of
from ktrace.kit.rocm.tables import LIKELY, WORDS, is_v3, table_kind
from ktrace.kit.text.likely import likely_lines

from .files import TITLE, own_files


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of rocprofv3, and for a folder of files with its names."""
    if sample.listing is not None:
        own = own_files(sample.listing)
        return Match(Score.DIALECT, f"contains {len(own)} files of rocprofv3, such as {own[0].path}") if own else None
    for number, line in likely_lines(sample, (*LIKELY, "rocprofv3")):
        if TITLE.fullmatch(line):
            return Match(Score.DIALECT, f"contains the title of a rocprofv3 summary (line {number})")
        found = headings_of(line, table_kind) if "," in line and WORDS.search(line) else None
        if found and is_v3(found[0], found[1]):
            return Match(Score.DIALECT, f"contains the headings of rocprofv3 (line {number})")
    return None


FORMAT = Format(
    "rocprofv3",
    "ROCm rocprofv3 CSV, a file or a folder",
    patterns=("*_trace.csv", "*_counter_collection.csv", "*_stats.csv", "*_agent_info.csv"),
    probe=probe,
    read="ktrace.converters.rocprofv3.reader:read",
    words=("rocprofv3", "timestamp", "grid_size", "grd", "counter_name", "totaldurationns", "agent_type"),
    prose=True,
    reads_folders=True,
)
