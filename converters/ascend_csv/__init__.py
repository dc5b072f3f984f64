"""CSV files of Huawei Ascend's profilers: torch_npu, MindSpore, msprof, msprof op; one file, or a folder as one trace.

kernel_details.csv    Step Id,Device_id,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),...
                      1,0,1259,16,ZerosLike46,ZerosLike,AI_VECTOR_CORE,"1699529622790614.812	",607.98,...
op_summary_*.csv      Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),...
op_statistic_*.csv    Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)
OpBasicInfo.csv       Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,Rated Freq,
PipeUtilization.csv   block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_cube_ratio,...,aiv_time(us),...
step_trace_raw_*.csv  step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail,...
core0.veccore0_instr_exe_*.csv    instr,addr,pipe,call_count,cycles,running_time(us),detail
core0.veccore0_code_exe_*.csv     code,call_count,cycles,running_time(us)

Tables are recognised by their headings without units, in lower case. Facts: the headings in msprof
(csrc/application/summary, msconfig) and torch_npu (profiler/analysis), 2023 to 2026; in msopprof
(profiling/device/data_parse/metric_csv_header.h; of the simulator sim_pc_to_code.cpp, sim_code_to_pc.cpp), 2026.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.ascend_folder import CSV, OP, chosen

#: The headings are the first line; a few lines may be before them.
_LINES = 8

_UNITS = ("(us)", "(ns)", "(ms)", "(kb)", "(mb)", "(%)")


@dataclass(frozen=True)
class Table:
    """A table: its name, and headings that it always has; one of each alternative ("a|b") is enough."""

    what: str
    headings: tuple[str, ...]

    def has(self, headings: frozenset[str]) -> bool:
        """Whether a table with these headings is of this kind."""
        return all(any(one in headings for one in heading.split("|")) for heading in self.headings)


TASKS, UNTIMED, TASK_TIME, OP_STATISTIC, COMMUNICATION = "tasks", "op_summary", "task_time", "op_statistic", "comm"
API, STEP_TIME, ITERATIONS, MEMORY, NPU_MEMORY = "api", "step_trace_time", "step_trace", "memory", "npu_mem"
ALLOCATIONS, OPERATORS, MARKS, AICPU, CACHE = "operator_memory", "operator_details", "msprof_tx", "aicpu", "l2_cache"
OPERATOR, CORES, STEPS, LINKS = "OpBasicInfo", "cores", "step_trace_raw", "hccl_raw"
INSTRUCTIONS, CODE = "instr_exe", "code_exe"

#: The first one that matches wins.
TABLES = (
    Table(
        TASKS,
        (
            "name|op name",
            "type|op type",
            "accelerator core|task type",
            "start time|task start time",
            "duration|task duration",
        ),
    ),
    Table(OPERATOR, ("op name", "op type", "task duration", "block dim", "pid|current freq")),
    Table(UNTIMED, ("op name", "op type|task type", "task duration")),
    Table(TASK_TIME, ("kernel_name", "kernel_type", "task_time", "task_start", "task_stop")),
    Table(OP_STATISTIC, ("op type", "core type", "count", "total time")),
    Table(COMMUNICATION, ("op type", "count", "total time", "min time", "avg time", "max time", "ratio")),
    Table(API, ("level", "api name", "time", "count", "avg")),
    Table(STEP_TIME, ("step", "computing", "communication(not overlapped)", "free")),
    Table(ITERATIONS, ("iteration id", "fp start", "iteration end", "iteration time")),
    Table(MEMORY, ("component", "timestamp", "total reserved")),
    Table(NPU_MEMORY, ("event", "timestamp", "memory", "hbm|ddr|allocated")),
    Table(ALLOCATIONS, ("name", "size", "allocation time", "release time")),
    Table(OPERATORS, ("name", "host self duration", "host total duration", "device self duration")),
    Table(MARKS, ("pid", "tid", "event_type", "start_time", "end_time", "message")),
    Table(AICPU, ("node", "compute_time", "memcpy_time", "task_time", "dispatch_time")),
    Table(CACHE, ("stream id", "task id", "hit rate", "victim rate", "op name")),
    Table(STEPS, ("step_num", "start_point", "end_point", "total", "fp_point")),
    Table(LINKS, ("step_num", "communication_cost", "wait_cost", "communication_operator_cost")),
    Table(CORES, ("block_id", "sub_block_id", "aic_total_cycles|aiv_total_cycles")),
    Table(CORES, ("aic_time", "aic_total_cycles")),
    Table(CORES, ("aic_l2_cache_hit_rate",)),
    Table(INSTRUCTIONS, ("instr", "pipe", "call_count", "cycles", "running_time")),
    Table(CODE, ("code", "call_count", "cycles", "running_time")),
)

#: Words of which each table has at least one, as its file spells them.
_WORDS = (
    *("Accelerator Core", "Task Type", "Task Duration", "kernel_type", "Core Type", "OP Type", "API Name", "Computing"),
    *("Iteration Time", "Total Reserved", "timestamp(us)", "Allocation Time", "Host Self Duration", "event_type"),
    *("Compute_time", "Victim Rate", "_total_cycles", "aic_l2_cache_hit_rate", "fp_point"),
    *("communication_operator_cost", "running_time(us)"),
)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of one of the tables, and for a folder of such files."""
    if sample.listing is not None:
        files = chosen(sample.listing)
        if files is None or files.what not in (CSV, OP):
            return None
        return Match(Score.DIALECT, f"contains files of Ascend's profiler, such as {files.read[0]}")
    start = sample.head[:4096]
    if b"," not in start or not any(word.encode() in start for word in _WORDS):
        return None
    for line in sample.lines[:_LINES] if len(sample.head) < 4096 else _first_lines(sample):
        if "," in line and (what := table_kind(line.split(","))):
            return Match(Score.DIALECT, f"has the headings of Ascend's table {what}")
    return None


def _first_lines(sample: Sample) -> list[str]:
    text = sample.head[: 1 << 14].decode("utf-8", "replace").removeprefix("\ufeff")
    return text.splitlines()[:_LINES]


def table_kind(cells: Sequence[str]) -> str | None:
    """Returns the table that has these headings, None for none."""
    names = frozenset(map(plain, cells))
    return next((table.what for table in TABLES if table.has(names)), None)


def plain(heading: str) -> str:
    """A heading without its unit, in lower case."""
    text = heading.strip().strip('"').strip().casefold()
    for unit in _UNITS:
        if text.endswith(unit):
            return text.removesuffix(unit).rstrip()
    return text


FORMAT = Format(
    "ascend-csv",
    "Huawei Ascend tables (torch_npu, MindSpore, msprof, msprof op) as CSV, a file or a folder",
    patterns=(
        *("kernel_details*.csv", "op_summary*.csv", "op_statistic*.csv", "task_time*.csv", "step_trace*.csv"),
        *("OpBasicInfo*.csv", "PipeUtilization*.csv", "step_trace_raw_*.csv", "hccl_raw_*.csv"),
        *("*_instr_exe*.csv", "*_code_exe*.csv"),
    ),
    probe=probe,
    read="ktrace.converters.ascend_csv.reader:read",
    words=tuple(map(str.casefold, _WORDS)),
    prose=True,
    reads_folders=True,
    holds="blocks",
)
