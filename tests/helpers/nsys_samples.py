"""Makes samples/nsys/: databases in the shape of Nsight Systems' export, with invented rows. `python nsys_samples.py`.

Nobody profiled anything for them. Tables and columns are those of schema 2.9 (2022) and of schema 3.25 (2026); rows are
given as dicts, what a row leaves out is null.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

PID, TID = 4242, 4242
#: As the exporter packs them: host, process, thread.
GLOBAL_PID = 1 << 48 | PID << 24
GLOBAL_TID = GLOBAL_PID | TID

_WHERE = "deviceId contextId streamId correlationId globalPid"
_KERNEL = (
    f"start end {_WHERE} demangledName shortName mangledName launchType cacheConfig registersPerThread gridX gridY "
    "gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId "
    "sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig"
)
_NVTX = (
    "start end eventType rangeId category color text:TEXT globalTid endGlobalTid textId domainId uint64Value "
    "int64Value doubleValue:REAL uint32Value int32Value floatValue:REAL jsonTextId jsonText:TEXT"
)
_CALL = "start end eventClass globalTid correlationId nameId returnValue callchainId"

#: Table -> its columns, whole numbers unless another type is named.
TABLES = {
    "StringIds": "id value:TEXT",
    "ThreadNames": "nameId priority globalTid",
    "PROCESSES": "globalPid pid name:TEXT",
    "ProcessStreams": "globalPid filenameId contentId",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName:TEXT name:TEXT nameEnum value:TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:TEXT localTime:TEXT",
    "TARGET_INFO_GPU": (
        "vmId id name:TEXT busLocation:TEXT totalMemory smCount uuid:TEXT cuDevice computeMajor computeMinor"
    ),
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid uuid:TEXT numMultiprocessors",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "nullStreamId hwId vmId processId deviceId contextId",
    "TARGET_INFO_CUDA_NULL_STREAM": "streamId hwId vmId processId deviceId contextId",
    "TARGET_INFO_CUDA_STREAM": "streamId hwId vmId processId contextId priority flag",
    "TARGET_INFO_NVTX_CUDA_STREAM": "name:TEXT hwId vmId processId deviceId contextId streamId",
    "TARGET_INFO_GPU_METRICS": "typeId sourceId typeName:TEXT metricId metricName:TEXT",
    "TARGET_INFO_NETWORK_METRICS": "metricsListId metricsIdx name:TEXT description:TEXT unit:TEXT",
    "META_DATA_EXPORT": "name:TEXT value:TEXT",
    "META_DATA_CAPTURE": "name:TEXT value:TEXT",
    "EXPORT_META_DATA": "name:TEXT value:TEXT",
    "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text:TEXT globalPid",
    "ENUM_CUDA_MEMCPY_OPER": "id name:TEXT label:TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": _KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        f"start end {_WHERE} bytes copyKind srcKind dstKind migrationCause graphNodeId virtualAddress copyCount"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": f"start end {_WHERE} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"start end {_WHERE} syncType eventId eventSyncId",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": f"timestamp {_WHERE} eventId eventSyncId",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"start end {_WHERE} graphId graphExecId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": _CALL,
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "start end eventClass globalTid correlationId nameId overheadType",
    "PROFILER_OVERHEAD": "start end globalTid nameId returnValue",
    "CUDNN_EVENTS": "start end eventClass globalTid nameId",
    "CUBLAS_EVENTS": "start end eventClass globalTid nameId",
    "CUDA_GRAPH_EVENTS": "start end eventClass globalTid nameId graphId originalGraphId graphExecId",
    "CUDA_GRAPH_NODE_EVENTS": "start end eventClass globalTid nameId graphNodeId originalGraphNodeId",
    "OSRT_API": "start end eventClass globalTid nameId returnValue nestingLevel callchainId",
    "MPI_P2P_EVENTS": "start end globalTid textId commHandle tag remoteRank size requestHandle",
    "MPI_COLLECTIVES_EVENTS": "start end globalTid textId commHandle rootRank size recvSize requestHandle",
    "MPI_RANKS": "globalTid rank",
    "CUDA_CALLCHAINS": "id symbol module unresolved originalIP stackDepth",
    "SAMPLING_CALLCHAINS": "id symbol module originalIP stackDepth",
    "COMPOSITE_EVENTS": "id start cpu threadState globalTid cpuCycles",
    "SCHED_EVENTS": "start cpu isSchedIn globalTid",
    "NVTX_EVENTS": _NVTX,
    "CUDA_GPU_MEMORY_USAGE_EVENTS": (
        "start globalPid deviceId contextId address pc bytes memKind memoryOperationType name:TEXT correlationId"
    ),
    "CUDA_GPU_MEMORY_POOL_EVENTS": "start globalPid deviceId address operationType poolType correlationId",
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": "start globalPid address originalFaultPc CpuInstruction module unresolvedFaultPc",
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": "start end globalPid deviceId address numberOfPageFaults faultAccessType",
    "GPU_METRICS": "rawTimestamp timestamp typeId metricId value",
    "NET_NIC_METRIC": "start end globalId metricsListId metricsIdx value",
    "GENERIC_EVENTS": "rawTimestamp timestamp typeId data:TEXT",
    "GENERIC_EVENT_TYPES": "typeId sourceId data:TEXT",
    "VULKAN_WORKLOAD": "start end eventClass globalTid correlationId nameId gpu contextId color textId",
}


class Strings:
    """Numbers for texts, from 100 on."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.ids.setdefault(text, 100 + len(self.ids))

    def rows(self) -> list[Row]:
        return [{"id": number, "value": text} for text, number in self.ids.items()]


def make(path: Path, tables: Mapping[str, Sequence[Row]], *, more: Mapping[str, str] | None = None) -> Path:
    """Writes a database of these rows; `more` are columns of further tables, or more columns of known ones."""
    columns = {**TABLES, **(more or {})}
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA page_size = 512")
        for table, rows in tables.items():
            fields = [column.partition(":")[::2] for column in columns[table].split()]
            key = " PRIMARY KEY" if table == "StringIds" else ""
            declared = ", ".join(f'"{name}" {kind or "INTEGER"}{key if name == "id" else ""}' for name, kind in fields)
            database.execute(f'CREATE TABLE "{table}" ({declared})')
            marks = ", ".join("?" * len(fields))
            values = [[row.get(name) for name, _ in fields] for row in rows]
            database.executemany(f'INSERT INTO "{table}" VALUES ({marks})', values)
        database.commit()
        database.execute("VACUUM")
    return path


def place(correlation: int | None, stream: int = 7, device: int = 0, pid: int = PID) -> Row:
    """Where a row on the device stands."""
    return {
        "deviceId": device,
        "contextId": 1,
        "streamId": stream,
        "correlationId": correlation,
        "globalPid": 1 << 48 | pid << 24,
    }


def kernel(strings: Strings, name: str, start: int, end: int, correlation: int, stream: int = 7, **more: Any) -> Row:
    """A row of CUPTI_ACTIVITY_KIND_KERNEL."""
    whole = strings(name)
    return {
        "start": start,
        "end": end,
        **place(correlation, stream),
        "demangledName": whole,
        "shortName": strings(re.split(r"[<(]", name.removeprefix("void "))[0]),
        "mangledName": strings(f"_Z{name[:8]}"),
        "launchType": 1,
        "cacheConfig": 0,
        "registersPerThread": 64,
        **{"gridX": 128, "gridY": 2, "gridZ": 1, "blockX": 256, "blockY": 1, "blockZ": 1},
        "staticSharedMemory": 1024,
        "dynamicSharedMemory": 32768,
        "localMemoryPerThread": 0,
        "localMemoryTotal": 1 << 20,
        "gridId": correlation,
        "sharedMemoryExecuted": 65536,
        "sharedMemoryLimitConfig": 0,
        **more,
    }


def call(strings: Strings, name: str, start: int, end: int, correlation: int, kind: int = 0, **more: Any) -> Row:
    """A row of CUPTI_ACTIVITY_KIND_RUNTIME."""
    return {
        "start": start,
        "end": end,
        "eventClass": kind,
        "globalTid": GLOBAL_TID,
        "correlationId": correlation,
        "nameId": strings(name),
        "returnValue": 0,
        **more,
    }


def nvtx(kind: int, start: int, end: int | None = None, text: str | None = None, **more: Any) -> Row:
    """A row of NVTX_EVENTS."""
    return {"start": start, "end": end, "eventType": kind, "text": text, "globalTid": GLOBAL_TID, **more}


def environment(name: str) -> list[Row]:
    """Rows of TARGET_INFO_SYSTEM_ENV."""
    said = {
        "Hostname": name,
        "OsDescription": "Linux of no distribution",
        "CpuDescription": "a CPU of 8 cores",
        "DeviceEnvironment": "TOKEN=not-to-be-shown",
    }
    return [
        {"globalVid": 1 << 48, "devStateName": "Local (CLI)", "name": key, "nameEnum": number, "value": value}
        for number, (key, value) in enumerate(said.items())
    ]


def gpu(number: int, name: str = "NVIDIA Imaginary 9000") -> Row:
    """A row of TARGET_INFO_GPU."""
    return {
        "vmId": 1 << 48,
        "id": number,
        "name": name,
        "busLocation": f"0000:{number + 1:02x}:00.0",
        "totalMemory": 16 << 30,
        "smCount": 64,
        "uuid": f"00000000-0000-0000-0000-00000000000{number}",
        "cuDevice": number,
        "computeMajor": 9,
        "computeMinor": 0,
    }


def old() -> dict[str, list[Row]]:
    """Schema 2.9: calls that stand twice, one with its call chain; MPI as a domain; no words for numbers."""
    text = Strings()
    gemm = "void gemm<float, 128>(float const*, float*)"
    frames = [("saxpy", "app"), ("main", "app"), ("__libc_start_main", "libc.so.6")]
    return {
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            kernel(text, gemm, 31_000, 49_000, 12),
            kernel(text, "saxpy", 49_000, 53_000, 13, registersPerThread=26),
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            {"start": 12_000, "end": 30_500, **place(11), "bytes": 262_144, "copyKind": 1, "srcKind": 0, "dstKind": 2},
            {"start": 60_000, "end": 70_500, **place(14), "bytes": 131_072, "copyKind": 2, "srcKind": 2, "dstKind": 0},
        ],
        "CUPTI_ACTIVITY_KIND_MEMSET": [
            {"start": 9_000, "end": 9_900, **place(10), "value": 0, "bytes": 4096, "memKind": 2}
        ],
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": [{**place(15), "eventId": 3}],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            call(text, "cuModuleGetLoadingMode", 1_000, 1_900, 1, kind=1),
            call(text, "cudaMemset_v3020", 7_000, 8_800, 10),
            call(text, "cudaMemcpy", 10_000, 30_900, 11, kind=67, callchainId=0),
            call(text, "cudaMemcpy_v3020", 10_200, 30_700, 11),
            call(text, "cudaLaunchKernel", 30_950, 31_600, 12, kind=67, callchainId=1),
            call(text, "cudaLaunchKernel_v7000", 31_000, 31_500, 12),
            call(text, "cuLaunchKernel", 31_100, 31_400, 12, kind=1),
            call(text, "cudaLaunchKernel_v7000", 32_000, 32_400, 13),
            call(text, "cudaMemcpy_v3020", 59_000, 71_000, 14),
            call(text, "cudaEventRecord_v3020", 72_000, 72_500, 15),
        ],
        "CUDA_CALLCHAINS": [
            {"id": chain, "symbol": text(name), "module": text(module), "originalIP": 4096 + depth, "stackDepth": depth}
            for chain, names in ((0, frames[1:]), (1, frames))
            for depth, (name, module) in enumerate(names)
        ],
        "NVTX_EVENTS": [
            nvtx(75, 500, None, "MPI", domainId=1),
            nvtx(39, 600, None, "MPI Rank 0", domainId=0),
            nvtx(59, 2_000, 6_000, None, textId=text("MPI_Init"), domainId=1),
            nvtx(59, 6_500, 58_000, "step 1", domainId=0),
            nvtx(59, 73_000, None, "never popped", domainId=0),
        ],
        "OSRT_API": [
            {
                **{"start": 73_500, "end": 74_000, "eventClass": 27, "globalTid": GLOBAL_TID, "nameId": text("write")},
                **{"returnValue": 12, "nestingLevel": 0, "callchainId": 0},
            }
        ],
        "SCHED_EVENTS": [
            {"start": 100, "cpu": 3, "isSchedIn": 0, "globalTid": GLOBAL_TID},
            {"start": 400, "cpu": 3, "isSchedIn": 1, "globalTid": GLOBAL_TID},
            {"start": 30_000, "cpu": 3, "isSchedIn": 0, "globalTid": GLOBAL_TID},
            {"start": 30_200, "cpu": 5, "isSchedIn": 1, "globalTid": GLOBAL_TID},
        ],
        "COMPOSITE_EVENTS": [
            {"id": 1, "start": 5_000, "cpu": 3, "threadState": 1, "globalTid": GLOBAL_TID, "cpuCycles": 900},
            {"id": 2, "start": 6_000, "cpu": 3, "threadState": 1, "globalTid": GLOBAL_TID, "cpuCycles": 800},
        ],
        "SAMPLING_CALLCHAINS": [
            {"id": sample, "symbol": text(name), "module": text(module), "originalIP": 4096, "stackDepth": depth}
            for sample in (1, 2)
            for depth, (name, module) in enumerate(frames[1:])
        ],
        "PROFILER_OVERHEAD": [
            {"start": 200, "end": 450, "globalTid": GLOBAL_TID, "nameId": text("Injection startup"), "returnValue": 0}
        ],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [],
        "PROCESSES": [
            {"globalPid": GLOBAL_PID, "pid": PID, "name": "/opt/app/saxpy"},
            {"globalPid": 1 << 48 | 1 << 24, "pid": 1, "name": "init"},
        ],
        "ThreadNames": [{"nameId": text("saxpy"), "priority": 20, "globalTid": GLOBAL_TID}],
        "ProcessStreams": [
            {"globalPid": GLOBAL_PID, "filenameId": text("pid_4242_stdout.log"), "contentId": text("ok\n")}
        ],
        "TARGET_INFO_GPU": [gpu(0)],
        "TARGET_INFO_CUDA_NULL_STREAM": [
            {"streamId": 7, "hwId": 0, "vmId": 1, "processId": PID, "deviceId": 0, "contextId": 1}
        ],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_000, "utcTime": "2023-11-14T22:13:20"}],
        "TARGET_INFO_SYSTEM_ENV": environment("node1"),
        "EXPORT_META_DATA": [
            {"name": "EXPORT_PRODUCT_NAME", "value": "NVIDIA Nsight Systems"},
            {"name": "EXPORT_PRODUCT_VERSION", "value": "2022.2.1.31"},
            {"name": "EXPORT_SCHEMA_VERSION", "value": "2.9.1"},
        ],
        "StringIds": text.rows(),
    }


def new() -> dict[str, list[Row]]:
    """Schema 3.25: a graph as one row, waits, domains and payloads, GPU metrics, memory, another ordinal of a GPU."""
    text = Strings()
    way = [{"id": 1, "name": "CUDA_MEMCPY_KIND_HTOD", "label": "Host-to-Device"}]
    way += [{"id": 11, "name": "CUDA_MEMCPY_KIND_UVM_HTOD", "label": "Unified Host-to-Device"}]
    nccl = '{"NCCL communicator ID": 77, "Message size [bytes]": 4096, "Rank": 0}'
    sms, clock = {"typeId": 0xFF0003, "metricId": 11}, {"typeId": 0xFF0003, "metricId": 0}
    return {
        "CUPTI_ACTIVITY_KIND_KERNEL_V2": [
            kernel(text, "void norm<half>(half*)", 21_000, 24_000, 21, clusterX=2),
            kernel(text, "ncclDevKernel_AllReduce_Sum_f16_RING_LL(args)", 24_000, 29_000, 22, 8),
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            {"start": 10_000, "end": 12_000, **place(20), "bytes": 8192, "copyKind": 1, "srcKind": 1, "dstKind": 2}
            | {"copyCount": 4},
            {"start": 13_000, "end": 13_500, **place(None, 0), "bytes": 65_536, "copyKind": 11, "migrationCause": 2},
        ],
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [
            {"start": 30_000, "end": 41_000, **place(24), "graphId": 5, "graphExecId": 6}
        ],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
            {"start": 23_500, "end": 24_000, **place(26, 8), "syncType": 2, "eventId": 9, "eventSyncId": 501},
            {"start": 42_000, "end": 45_000, **place(25, (1 << 32) - 1), "syncType": 4, "eventId": (1 << 32) - 1}
            | {"eventSyncId": (1 << 32) - 1},
        ],
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": [{"timestamp": 23_400, **place(23), "eventId": 9, "eventSyncId": 501}],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            call(text, "cudaMemcpyBatchAsync_v12080_ptsz", 9_000, 9_800, 20),
            call(text, "cudaLaunchKernel_v7000", 20_000, 20_700, 21),
            call(text, "cudaLaunchKernelExC_v11060", 22_000, 22_400, 22),
            call(text, "cudaEventRecord_v3020", 21_000, 21_300, 23),
            call(text, "cudaStreamWaitEvent_v3020", 21_400, 21_800, 26),
            call(text, "cudaGraphLaunch_v10000", 29_000, 29_700, 24),
            call(text, "cudaDeviceSynchronize_v3020", 41_900, 45_100, 25),
        ],
        "CUPTI_ACTIVITY_KIND_OVERHEAD": [
            {"start": 20_100, "end": 20_300, "eventClass": 103, "globalTid": GLOBAL_TID, "correlationId": 21}
            | {"nameId": text("Lazy Function Loading"), "overheadType": 7}
        ],
        "CUDNN_EVENTS": [
            {
                "start": 19_800,
                "end": 22_900,
                "eventClass": 28,
                "globalTid": GLOBAL_TID,
                "nameId": text("cudnnNormForward"),
            }
        ],
        "CUDA_GRAPH_EVENTS": [
            {"start": 5_000, "end": 5_500, "eventClass": 95, "globalTid": GLOBAL_TID, "nameId": text("cudaGraphCreate")}
            | {"graphId": 5}
        ],
        "NVTX_EVENTS": [
            nvtx(75, 100, None, "NCCL", domainId=1),
            nvtx(33, 110, None, "communication", domainId=1, category=3),
            nvtx(59, 19_000, 46_000, "iteration 7", domainId=0, color=-16_711_936, uint32Value=7),
            nvtx(59, 21_900, 22_600, None, textId=text("ncclAllReduce"), domainId=1, category=3, jsonText=nccl),
            nvtx(60, 18_000, 44_000, "request 1", domainId=0, rangeId=1, endGlobalTid=GLOBAL_TID + 1),
            nvtx(60, 20_000, 45_500, "request 2", domainId=0, rangeId=2, endGlobalTid=GLOBAL_TID),
            nvtx(34, 45_600, None, "done", domainId=0, jsonText='"a text"'),
            nvtx(76, 50_000, None, None, domainId=1),
        ],
        "CUDA_GPU_MEMORY_USAGE_EVENTS": [
            {"start": 6_000, "globalPid": GLOBAL_PID, "deviceId": 0, "contextId": 1, "address": 1 << 40, "pc": 0}
            | {"bytes": size, "memKind": kind, "memoryOperationType": given_back, "start": start}
            for start, size, kind, given_back in (
                (6_000, 4096, 2, 0),
                (6_500, 512, 1, 0),
                (7_000, 1024, 2, 0),
                (46_000, 4096, 2, 1),
            )
        ],
        "CUDA_GPU_MEMORY_POOL_EVENTS": [
            {
                "start": 5_900,
                "globalPid": GLOBAL_PID,
                "deviceId": 0,
                "address": 1 << 41,
                "operationType": 1,
                "poolType": 1,
            }
        ],
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS": [
            {
                "start": 12_900,
                "globalPid": GLOBAL_PID,
                "address": 1 << 42,
                "CpuInstruction": text("fill"),
                "module": text("app"),
            }
        ],
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS": [
            {"start": 12_950, "end": 13_400, "globalPid": GLOBAL_PID, "deviceId": 0, "address": 1 << 42}
            | {"numberOfPageFaults": 3, "faultAccessType": 1}
        ],
        "GPU_METRICS": [
            {"rawTimestamp": 90_000 + time, "timestamp": time, **metric, "value": value}
            for time in (20_000, 30_000, 40_000)
            for metric, value in ((sms, time // 500), (clock, 1_980))
        ],
        "TARGET_INFO_GPU_METRICS": [
            {**sms, "sourceId": 1, "typeName": "GA100 GPU 3", "metricName": "SMs Active [Throughput %]"},
            {**clock, "sourceId": 1, "typeName": "GA100 GPU 3", "metricName": "GPC Clock Frequency [MHz]"},
        ],
        "NET_NIC_METRIC": [
            {"start": 20_000, "end": 30_000, "globalId": 5, "metricsListId": 1, "metricsIdx": 0, "value": 900}
        ],
        "TARGET_INFO_NETWORK_METRICS": [
            {"metricsListId": 1, "metricsIdx": 0, "name": "IB: Bytes sent", "description": "sent", "unit": "B"}
        ],
        "MPI_COLLECTIVES_EVENTS": [
            {"start": 47_000, "end": 48_000, "globalTid": GLOBAL_TID, "textId": text("MPI_Allreduce"), "commHandle": 91}
            | {"size": 64, "recvSize": 64}
        ],
        "MPI_RANKS": [{"globalTid": GLOBAL_TID, "rank": 3}],
        "GENERIC_EVENTS": [{"rawTimestamp": 1, "timestamp": 16_000, "typeId": 2, "data": '{"watts": 310.5}'}],
        "GENERIC_EVENT_TYPES": [{"typeId": 2, "sourceId": 1, "data": '{"Name": "power"}'}],
        "VULKAN_WORKLOAD": [
            {"start": 15_000, "end": 15_800, "eventClass": 54, "globalTid": GLOBAL_TID, "nameId": text("vkCmdDispatch")}
            | {"gpu": 3}
        ],
        "HOLODECK_EVENTS": [
            {"start": 17_000, "end": 17_500, "globalTid": GLOBAL_TID, "nameId": text("beam"), "power": 5}
        ],
        "HOLODECK_SETTINGS": [{"key": "safety", "value": "on"}],
        "DIAGNOSTIC_EVENT": [
            {"timestamp": 0, "timestampType": 1, "source": 3, "severity": 1, "text": "Profiling has started."}
            | {"globalPid": -(1 << 57)},
            {"timestamp": 48_500, "timestampType": 1, "source": 1, "severity": 2, "globalPid": GLOBAL_PID}
            | {"text": "Not all CUDA events were collected."},
        ],
        "PROCESSES": [{"globalPid": GLOBAL_PID, "pid": PID, "name": "python3"}],
        "ThreadNames": [{"nameId": text("python3"), "priority": 20, "globalTid": GLOBAL_TID}],
        "TARGET_INFO_GPU": [gpu(2), gpu(3)],
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 3, "cudaId": 0, "pid": PID, "uuid": "MIG-0", "numMultiprocessors": 16}],
        "TARGET_INFO_CUDA_CONTEXT_INFO": [
            {"nullStreamId": 7, "hwId": 0, "vmId": 1, "processId": PID, "deviceId": 0, "contextId": 1}
        ],
        "TARGET_INFO_CUDA_STREAM": [
            {
                "streamId": 8,
                "hwId": 0,
                "vmId": 1,
                "processId": PID,
                "contextId": 1,
                "priority": (1 << 32) - 5,
                "flag": 2,
            }
        ],
        "TARGET_INFO_NVTX_CUDA_STREAM": [
            {
                "name": "communication",
                "hwId": 0,
                "vmId": 1,
                "processId": PID,
                "deviceId": 0,
                "contextId": 1,
                "streamId": 8,
            }
        ],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_780_000_000_000_000_000}],
        "TARGET_INFO_SYSTEM_ENV": environment("node2"),
        "ENUM_CUDA_MEMCPY_OPER": way,
        "META_DATA_EXPORT": [
            {"name": "EXPORT_PRODUCT_VERSION", "value": "2026.2.1.210"},
            {"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"},
            {"name": "EXPORT_PARAM_TIME_SHIFT", "value": "1000"},
        ],
        "META_DATA_CAPTURE": [
            {"name": "PROCESS_0:COMMAND", "value": "python3"},
            {"name": "PROCESS_0:ARGUMENT_0", "value": "train.py"},
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": 'TOKEN="not-to-be-shown"'},
        ],
        "StringIds": text.rows(),
    }


MORE = {
    "CUPTI_ACTIVITY_KIND_KERNEL_V2": f"{_KERNEL} clusterX clusterY clusterZ",
    "HOLODECK_EVENTS": "start end globalTid nameId power",
    "HOLODECK_SETTINGS": "key:TEXT value:TEXT",
}

#: In schema 2.9 the records of CUDA events have no time.
OLD_MORE = {
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": f"{_WHERE} eventId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"start end {_WHERE} syncType eventId",
}


def main() -> None:
    """Writes the samples."""
    folder = Path(__file__).parent.parent.parent / "samples" / "nsys"
    folder.mkdir(exist_ok=True)
    make(folder / "schema-2.9-calls-twice-mpi-as-a-domain.sqlite", old(), more=OLD_MORE)
    make(folder / "schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite", new(), more=MORE)


if __name__ == "__main__":
    main()
