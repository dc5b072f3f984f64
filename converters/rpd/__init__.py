"""RPD, the SQLite database of rocmProfileData (`runTracer.sh`, rpd_tracer), schema version 2, times in ns.

    rocpd_api      id, pid, tid, start, end, apiName_id, args_id         hipLaunchKernel, UserMarker
    rocpd_op       id, gpuId, queueId, start, end, description_id, opType_id      KernelExecution, CopyHostToDevice
    rocpd_api_ops  api_id, op_id                                          which call started which work
    rocpd_kernelapi, rocpd_copyapi   api_ptr_id, grid, workgroup, size    the arguments of the call
    rocpd_monitor  deviceType, deviceId, monitorType, start, end, value   sclk 1700
    rocpd_string   id, string

rocm-trace-lite writes these tables, too (src/trace_db.cpp, July 2026): rocpd_op has a column roctxId, its
completionSignal is the launch in words, and markers are ops of GPU -1.

rocpd, the database of rocprofiler-sdk, has the same prefix but other tables.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score


def probe(sample: Sample) -> Match | None:
    """MAGIC for a database with rocpd_op and rocpd_api; NEAR if it has only one of them."""
    if sample.tables is None:
        return None
    names = {name.casefold() for name in sample.tables}
    tables = [name for name in ("rocpd_op", "rocpd_api") if name in names]
    if len(tables) == 2:
        return Match(Score.MAGIC, "is an SQLite database with rocpd_op and rocpd_api")
    if tables:
        missing = "rocpd_api" if tables == ["rocpd_op"] else "rocpd_op"
        return Match(Score.NEAR, f"is an SQLite database with {tables[0]}, but without {missing}")
    return None


FORMAT = Format(
    "rpd",
    "ROCm rocmProfileData (RPD) and rocm-trace-lite database",
    patterns=("*.rpd",),
    probe=probe,
    read="ktrace.converters.rpd.reader:read",
    database=True,
)
