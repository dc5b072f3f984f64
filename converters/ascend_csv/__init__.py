"""CSV files of Huawei Ascend's profilers: torch_npu, MindSpore, msprof; one file, or a folder of them as one trace.

kernel_details.csv    Step Id,Device_id,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),...
                      1,0,1259,16,ZerosLike46,ZerosLike,AI_VECTOR_CORE,"1699529622790614.812	",607.98,...
op_summary_*.csv      Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),...
op_statistic_*.csv    Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.ascend_folder import CSV, chosen

from .tables import WORDS, table_kind

#: The headings are the first line; a few lines may be before them.
_LINES = 8


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of one of the tables, and for a folder of such files."""
    if sample.listing is not None:
        files = chosen(sample.listing)
        if files is None or files.what != CSV:
            return None
        return Match(Score.DIALECT, f"contains files of Ascend's profiler, such as {files.read[0]}")
    start = sample.head[:4096]
    if b"," not in start or not any(word.encode() in start for word in WORDS):
        return None
    for line in sample.lines[:_LINES] if len(sample.head) < 4096 else _first_lines(sample):
        if "," in line and (what := table_kind(line.split(","))):
            return Match(Score.DIALECT, f"has the headings of Ascend's table {what}")
    return None


def _first_lines(sample: Sample) -> list[str]:
    text = sample.head[: 1 << 14].decode("utf-8", "replace").removeprefix("\ufeff")
    return text.splitlines()[:_LINES]


FORMAT = Format(
    "ascend-csv",
    "Huawei Ascend tables (torch_npu, MindSpore, msprof) as CSV, a file or a folder",
    patterns=("kernel_details*.csv", "op_summary*.csv", "op_statistic*.csv", "task_time*.csv", "step_trace*.csv"),
    probe=probe,
    read="ktrace.converters.ascend_csv.reader:read",
    words=(
        "accelerator core",
        "task type",
        "task duration",
        "kernel_type",
        "core type",
        "op type",
        "api name",
        "computing",
        "iteration time",
        "total reserved",
        "timestamp(us)",
        "allocation time",
        "host self duration",
        "event_type",
        "compute_time",
        "victim rate",
    ),
    prose=True,
    reads_folders=True,
)
