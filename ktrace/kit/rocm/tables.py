"""Recognises the CSV tables of ROCm's profilers by their headings: rocprof, rocprofv2, rocprofv3, rocprof-compute.

Index,KernelName,gpu-id,queue-id,...,grd,wgr,lds,...,SQ_WAVES,DispatchNs,BeginNs,EndNs,CompleteNs      rocprof
Dispatch_ID,GPU_ID,Queue_ID,PID,...,Kernel_Name,Start_Timestamp,End_Timestamp,SQ_WAVES   rocprofv2, pmc_perf
Kind,Agent_Id,Queue_Id,...,Kernel_Name,Correlation_Id,Start_Timestamp,...,Workgroup_Size_X,...         kernel_trace
Correlation_Id,Dispatch_Id,...,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp         counter_collection
Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp               hip_api_trace, ...
Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,... memory_copy_trace
Name,Calls,TotalDurationNs,AverageNs,Percentage,MinNs,MaxNs,StdDev                              kernel_stats, ...
Domain,ROCTX_ID,Message,Timestamp         Dispatch_ID,Timestamp,GPU_ID,PC_Sample,Shader_Engines          rocprofv2
Kind,Operation,Agent_Id,Start_Timestamp,End_Timestamp           anything else that rocprofv3 may trace: regions

Facts: the sources of rocprofiler-sdk (generateCSV.cpp) and rocprofiler, and real files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

DISPATCH, COUNTERS, OPERATION, API, COPY = "dispatch", "counters", "operation", "api", "copy"
ALLOCATION, SCRATCH, STATS, AGENTS, SAMPLES = "allocation", "scratch", "stats", "agents", "samples"
MARKER, REGION = "marker", "region"

#: (kind of table, the headings in lower case that it has; "a|b" is either). The first match wins.
KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        DISPATCH,
        ("kernel_name|kernelname|kernel-name", "grid_size|grid_size_x|grd", "workgroup_size|workgroup_size_x|wgr"),
    ),
    (
        OPERATION,
        ("domain", "operation|operation_name", "start_timestamp|begin_timestamp", "stop_timestamp|end_timestamp"),
    ),
    (COUNTERS, ("dispatch_id", "counter_name", "counter_value")),
    (API, ("domain", "function", "start_timestamp|begin_timestamp", "end_timestamp")),
    (COPY, ("direction", "source_agent_id", "start_timestamp", "end_timestamp")),
    (SCRATCH, ("kind", "operation", "alloc_flags", "start_timestamp", "end_timestamp")),
    (ALLOCATION, ("kind", "operation", "allocation_size", "start_timestamp", "end_timestamp")),
    (SAMPLES, ("sample_timestamp", "dispatch_id")),
    (SAMPLES, ("timestamp", "dispatch_id", "pc_sample")),
    (MARKER, ("domain", "roctx_id", "timestamp")),
    (STATS, ("name", "calls", "totaldurationns")),
    (AGENTS, ("node_id", "agent_type")),
    (REGION, ("kind", "operation", "start_timestamp", "end_timestamp")),
    (DISPATCH, ("dispatch_id|agent_id|gpu_id", "kernel_name", "start_timestamp", "end_timestamp")),
)

#: Headings contain one of these. Probes search for them first, because they read many lines.
WORDS = re.compile(
    r"kernel[_-]?name|\bfunction\b|\boperation(?:_name)?\b|counter_name|direction|sample_timestamp|totaldurationns|agent_type"
    r"|roctx_id|pc_sample",
    re.IGNORECASE,
)

#: Headings also contain one of these, in lower case.
LIKELY = ("timestamp", "grid_size", "grd", "counter_name", "totaldurationns", "agent_type")


def table_kind(cells: Sequence[str]) -> str | None:
    """Returns the kind of the table with those headings, None for other tables."""
    names = {cell.casefold() for cell in cells}
    return next((kind for kind, needs in KINDS if all(names & set(need.split("|")) for need in needs)), None)


def is_v3(cells: Sequence[str], kind: str) -> bool:
    """Whether the spellings show that a table of that kind comes from rocprofv3."""
    names = set(cells)
    if kind == STATS:
        return "MinNs" in names
    return bool(names & {"Agent_Id", "Source_Agent_Id", "Process_Id", "Sample_Timestamp", "Agent_Type"}) or (
        kind == REGION or (kind == COUNTERS and "Dispatch_Id" in names)
    )
