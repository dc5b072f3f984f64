"""Small databases of ROCm's profilers by their documented tables, with invented rows: no profiler wrote them.

`python tests/converters/rocm_samples.py` writes those of samples/ anew.
"""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

Tables = dict[str, Sequence[tuple[Any, ...]]]

#: Columns of the tables of RPD, schema version 2.
RPD = {
    "rocpd_metadata": "id INTEGER PRIMARY KEY, tag TEXT, value TEXT",
    "rocpd_string": "id INTEGER PRIMARY KEY, string TEXT",
    "rocpd_api": "id INTEGER PRIMARY KEY, pid INT, tid INT, start INT, end INT, apiName_id INT, args_id INT",
    "rocpd_op": "id INTEGER PRIMARY KEY, gpuId INT, queueId INT, sequenceId INT, completionSignal TEXT,"
    " start INT, end INT, description_id INT, opType_id INT",
    "rocpd_api_ops": "id INTEGER PRIMARY KEY, api_id INT, op_id INT",
    "rocpd_kernelapi": "api_ptr_id INTEGER PRIMARY KEY, stream TEXT, gridX INT, gridY INT, gridZ INT, workgroupX INT,"
    " workgroupY INT, workgroupZ INT, groupSegmentSize INT, privateSegmentSize INT, kernelArgAddress TEXT,"
    " aquireFence TEXT, releaseFence TEXT, codeObject_id INT, kernelName_id INT",
    "rocpd_copyapi": "api_ptr_id INTEGER PRIMARY KEY, stream TEXT, size INT, width INT, height INT, kind INT,"
    " dst TEXT, src TEXT, dstDevice INT, srcDevice INT, sync INT, pinned INT",
    "rocpd_kernelcodeobject": "id INTEGER PRIMARY KEY, vgpr INT, sgpr INT, fbar INT",
    "rocpd_barrierop": "op_ptr_id INTEGER PRIMARY KEY, signalCount INT, aquireFence TEXT, releaseFence TEXT",
    "rocpd_op_inputSignals": "id INTEGER PRIMARY KEY, from_op_id INT, to_op_id INT",
    "rocpd_monitor": "id INTEGER PRIMARY KEY, deviceType TEXT, deviceId INT, monitorType TEXT, start INT, end INT,"
    " value TEXT",
}

_AT = 8_306_017_000_000_000
_BIG = 4_294_967_297

RPD_ROWS: Tables = {
    "rocpd_metadata": [(1, "schema_version", "2"), (2, "session_count", "1")],
    "rocpd_string": list(
        enumerate(
            (
                *("", "hipLaunchKernel", "hipMemcpyAsync", "UserMarker", "forward", "KernelExecution"),
                *("CopyHostToDevice", "void scale<float>(float*, int) [clone .kd]", "Barrier", "FillBuffer"),
                *("hipGraphLaunch", "dst=0x7f00 | size=0x1000", "OpTable::writeRows", "Task"),
            ),
            1,
        )
    ),
    "rocpd_api": [
        (_BIG, 500, 500, _AT, _AT + 90_000, 4, 5),
        (_BIG + 1, 500, 500, _AT + 1_000, _AT + 5_000, 3, 12),
        (_BIG + 2, 500, 500, _AT + 6_000, _AT + 9_000, 2, 1),
        (_BIG + 3, 500, 501, _AT + 10_000, _AT + 30_000, 11, 1),
        (_BIG + 4, 500, 501, _AT + 12_000, _AT + 13_000, 2, 1),
        (_BIG + 5, 500, 501, _AT + 40_000, _AT + 39_000, 2, 1),
        (_BIG + 6, 500, 501, _AT + 50_000, _AT + 51_000, 99, 1),
        (_BIG + 7, 500, 501, _AT + 52_000, _AT + 53_000, 13, 1),
    ],
    "rocpd_op": [
        (_BIG, 2, 0, 0, "", _AT + 7_000, _AT + 8_000, 1, 7),
        (_BIG + 1, 2, 1, 0, "0x10", _AT + 20_000, _AT + 24_000, 8, 6),
        (_BIG + 2, 2, 1, 0, "", _AT + 23_000, _AT + 29_000, 8, 6),
        (_BIG + 3, 2, 1, 0, "", 0, 0, 8, 6),
        (_BIG + 4, 2, 1, 0, "", _AT + 29_000, _AT + 29_500, 1, 9),
        (_BIG + 5, 2, 1, 0, "", 1 << 62, (1 << 62) + 1, 8, 6),
        (_BIG + 6, 2, 1, 0, "", None, _AT, 8, 6),
        (_BIG + 7, 2, 1, 0, "", _AT + 31_000, _AT + 32_000, 1, 10),
        (_BIG + 8, 3, 0, 0, "", _AT + 33_000, _AT + 34_000, 1, 14),
    ],
    "rocpd_api_ops": [
        (1, _BIG + 1, _BIG),
        (2, _BIG + 2, _BIG + 1),
        (3, _BIG + 3, _BIG + 2),
        (4, _BIG + 4, _BIG + 2),
        (5, None, _BIG + 4),
    ],
    "rocpd_kernelapi": [
        (_BIG + 2, "0x0", 64, 2, 1, 256, 1, 1, 4_096, 0, "", "", "agent", 1, 8),
        (_BIG + 4, "0x0", 8, 1, 1, 64, 1, 1, 0, 16, "", "", "", "", 8),
    ],
    "rocpd_copyapi": [(_BIG + 1, "0x55", 4_096, "", "", 1, "0x7f00", "0x10", 2, 0, 0, 1)],
    "rocpd_kernelcodeobject": [(1, 32, 48, 0)],
    "rocpd_barrierop": [(_BIG + 4, 2, "", "system")],
    "rocpd_op_inputSignals": [(1, _BIG, _BIG + 1), (2, None, _BIG)],
    "rocpd_monitor": [
        (1, "gpu", 2, "sclk", _AT, _AT + 20_000, "1700"),
        (2, "gpu", 2, "power", _AT + 20_000, None, "210.5"),
        (3, "cpu", 0, "load", _AT, _AT + 10, "n/a"),
    ],
}


#: Columns of the tables of rocm-trace-lite (src/trace_db.cpp), without those that it never fills.
RTL = {
    **{name: RPD[name] for name in ("rocpd_metadata", "rocpd_string", "rocpd_api", "rocpd_api_ops")},
    "rocpd_op": RPD["rocpd_op"] + ", roctxId INT",
}
_STRINGS = (
    "KernelExecution",
    "gemm_f16.kd",
    "UserMarker",
    "step 1",
    "here",
    "hipLaunchKernel",
    "size=64 kind=1",
    "fill",
)

RTL_ROWS: Tables = {
    "rocpd_metadata": [(1, "pid", "4242")],
    "rocpd_string": list(enumerate(_STRINGS, 1)),
    "rocpd_api": [(1, 4242, 4243, _AT + 500, _AT + 900, 6, 7)],
    "rocpd_op": [
        (1, 0, 140_000_000, 0, "hwq=0x7f00 wg=256,1,1 grid=4096,2,1", _AT + 1_000, _AT + 3_000, 2, 1, 7),
        (2, 1, 140_000_064, 0, "hwq=0x7f40 wg=64,4,1 grid=1000,4,1", _AT + 2_000, _AT + 2_500, 8, 1, 0),
        (3, 1, 140_000_064, 0, None, _AT + 4_000, _AT + 4_250, 8, 1, 0),
        (4, -1, 0, 0, None, _AT, _AT + 5_000, 4, 3, 7),
        (5, -1, 0, 0, None, _AT + 100, _AT + 100, 5, 3, 8),
    ],
}

#: Columns of the tables of rocpd that both schemas have alike.
_ROCPD = {
    "rocpd_metadata": "id INTEGER PRIMARY KEY, tag TEXT, value TEXT",
    "rocpd_string": "id INTEGER PRIMARY KEY, guid TEXT, string TEXT",
    "rocpd_info_node": "id INTEGER PRIMARY KEY, guid TEXT, hash BIGINT, machine_id TEXT, system_name TEXT,"
    " hostname TEXT",
    "rocpd_info_process": "id INTEGER PRIMARY KEY, guid TEXT, nid INT, ppid INT, pid INT, start BIGINT, end BIGINT,"
    " command TEXT, environment JSONB",
    "rocpd_info_thread": "id INTEGER PRIMARY KEY, guid TEXT, nid INT, ppid INT, pid INT, tid INT, name TEXT",
    "rocpd_info_agent": "id INTEGER PRIMARY KEY, guid TEXT, nid INT, pid INT, type TEXT, absolute_index INT,"
    " logical_index INT, type_index INT, uuid INT, name TEXT, product_name TEXT, vendor_name TEXT, extdata JSONB",
    "rocpd_info_queue": "id INTEGER PRIMARY KEY, guid TEXT, nid INT, pid INT, name TEXT",
    "rocpd_info_stream": "id INTEGER PRIMARY KEY, guid TEXT, nid INT, pid INT, name TEXT",
    "rocpd_info_pmc": "id INTEGER PRIMARY KEY, guid TEXT, nid INT, pid INT, agent_id INT, name TEXT, symbol TEXT,"
    " units TEXT",
    "rocpd_info_kernel_symbol": "id INTEGER PRIMARY KEY, guid TEXT, nid INT, pid INT, code_object_id INT,"
    " kernel_name TEXT, display_name TEXT, group_segment_size INT, sgpr_count INT, arch_vgpr_count INT,"
    " accum_vgpr_count INT",
    "rocpd_arg": "id INTEGER PRIMARY KEY, guid TEXT, event_id INT, position INT, type TEXT, name TEXT, value TEXT",
}

#: Those of schema 3, and of schema 4.1.
_NPT = "nid INT, pid INT, tid INT"
_SIZES = ", ".join(f"{of}_size_{axis} INT" for of in ("workgroup", "grid") for axis in "xyz")
_KERNEL = f"private_segment_size INT, group_segment_size INT, {_SIZES}, region_name_id INT, event_id INT, extdata JSONB"
ROCPD_3 = {
    **_ROCPD,
    "rocpd_track": f"id INTEGER PRIMARY KEY, guid TEXT, {_NPT}, name_id INT",
    "rocpd_event": "id INTEGER PRIMARY KEY, guid TEXT, category_id INT, stack_id INT, parent_stack_id INT,"
    " correlation_id INT, call_stack JSONB, line_info JSONB, extdata JSONB",
    "rocpd_pmc_event": "id INTEGER PRIMARY KEY, guid TEXT, event_id INT, pmc_id INT, value REAL, extdata JSONB",
    "rocpd_region": f"id INTEGER PRIMARY KEY, guid TEXT, {_NPT}, start BIGINT, end BIGINT, name_id INT, event_id INT,"
    " extdata JSONB",
    "rocpd_sample": "id INTEGER PRIMARY KEY, guid TEXT, track_id INT, timestamp BIGINT, event_id INT, extdata JSONB",
    "rocpd_kernel_dispatch": f"id INTEGER PRIMARY KEY, guid TEXT, {_NPT}, agent_id INT, kernel_id INT, dispatch_id INT,"
    f" queue_id INT, stream_id INT, start BIGINT, end BIGINT, {_KERNEL}",
    "rocpd_memory_copy": f"id INTEGER PRIMARY KEY, guid TEXT, {_NPT}, start BIGINT, end BIGINT, name_id INT,"
    " dst_agent_id INT, dst_address INT, src_agent_id INT, src_address INT, size INT, queue_id INT, stream_id INT,"
    " region_name_id INT, event_id INT, extdata JSONB",
    "rocpd_memory_allocate": f"id INTEGER PRIMARY KEY, guid TEXT, {_NPT}, agent_id INT, type TEXT, level TEXT,"
    " start BIGINT, end BIGINT, address INT, size INT, queue_id INT, stream_id INT, event_id INT, extdata JSONB",
}
ROCPD_4 = {
    **_ROCPD,
    "rocpd_info_category": "id INTEGER PRIMARY KEY, guid TEXT, name TEXT",
    "rocpd_track": f"id INTEGER PRIMARY KEY, guid TEXT, {_NPT}, agent_id INT, queue_id INT, stream_id INT, name_id INT",
    "rocpd_event": "id INTEGER PRIMARY KEY, guid TEXT, category_id INT, stack_id INT, parent_stack_id INT,"
    " correlation_id INT, extdata JSONB",
    "rocpd_pmc_event": "id INTEGER PRIMARY KEY, guid TEXT, event_id INT, pmc_id INT, value REAL",
    "rocpd_region": "id INTEGER PRIMARY KEY, guid TEXT, track_id INT, name_id INT, start BIGINT, end BIGINT,"
    " event_id INT",
    "rocpd_sample": "id INTEGER PRIMARY KEY, guid TEXT, track_id INT, name_id INT, timestamp BIGINT, event_id INT",
    "rocpd_kernel_dispatch": "id INTEGER PRIMARY KEY, guid TEXT, track_id INT, kernel_id INT, dispatch_id INT,"
    f" start BIGINT, end BIGINT, {_KERNEL}",
    "rocpd_memory_copy": "id INTEGER PRIMARY KEY, guid TEXT, track_id INT, start BIGINT, end BIGINT, name_id INT,"
    " dst_agent_id INT, dst_address INT, src_agent_id INT, src_address INT, size INT, event_id INT",
    "rocpd_memory_allocate": "id INTEGER PRIMARY KEY, guid TEXT, track_id INT, type TEXT, level TEXT, start BIGINT,"
    " end BIGINT, name_id INT, address INT, size INT, event_id INT",
    "rocpd_hip_event": "id INTEGER PRIMARY KEY, guid TEXT, track_id INT, start BIGINT, end BIGINT, event_id INT",
}

UUIDS = ("0000ddb5_8903_7a10_9c11_aa5511220001", "0000ddb5_8904_7b20_8d22_bb6622330002")

_T = 5_000_000_000_000
_AGENT_JSON = (
    '{"cu_count":304,"wave_front_size":64,"num_xcc":2,"num_shader_banks":32,"domain":0,"location_id":49920,'
    '"max_engine_clk_fcompute":2100}'
)
_STRINGS = (
    *("", "HIP_RUNTIME_API", "MARKER_CORE_RANGE_API", "KERNEL_DISPATCH", "MEMORY_COPY", "MEMORY_ALLOCATION"),
    *("hipLaunchKernel", "hipMemcpyAsync", "roctxRangePushA", "MEMORY_COPY_HOST_TO_DEVICE", "forward", "roctxMarkA"),
    *("hipMalloc", "hipEventQuery"),
)
_S = {word: number for number, word in enumerate(_STRINGS, 1)}


def rocpd_rows(guid: str, pid: int, *, own_ids: bool) -> Tables:
    """A process in schema 3: a marker around a copy and two launches, counters, odd rows.

    `own_ids`: ids of processes and threads are the system's numbers, as rocprofv3 has it; else they are counted.
    """
    process, thread = (pid, pid + 1) if own_ids else (1, 1)
    place = (77, process, thread)
    groups = (256, 1, 1, 1_000, 2, 1)

    def event(number: int, category: str, stack: int, more: str = "{}", outer: int = 0) -> tuple[Any, ...]:
        return (number, guid, _S[category], stack, 0, outer, "{}", "{}", more)

    def kernel(number: int, start: int | None, end: int, event_id: int | None, kernel_id: int = 1) -> tuple[Any, ...]:
        where = (*place, 4, kernel_id, number, 1, 0 if number % 2 else 3)
        return (number, guid, *where, start, end, 16, 4_096, *groups, 1, event_id, "{}")

    return {
        "rocpd_metadata": [(1, "schema_version", "3"), (2, "uuid", "_" + guid.replace("-", "_")), (3, "guid", guid)],
        "rocpd_string": [(number, guid, word) for word, number in _S.items()],
        "rocpd_info_node": [(77, guid, 1, "m1", "Linux", "node-a")],
        "rocpd_info_process": [(process, guid, 77, 1, pid, _T, _T + 1, "/opt/app --steps 2", '{"SECRET":"x"}')],
        "rocpd_info_thread": [(thread, guid, 77, 1, process, pid + 1, None)],
        "rocpd_info_agent": [
            (0, guid, 77, process, "CPU", 0, 0, 0, 0, "EPYC", "AMD EPYC", "CPU", "{}"),
            (4, guid, 77, process, "GPU", 4, 1, 0, 29_857, "gfx942", "AMD Instinct MI300X", "AMD", _AGENT_JSON),
        ],
        "rocpd_info_queue": [(0, guid, 77, process, "Default Queue"), (1, guid, 77, process, "Queue 0")],
        "rocpd_info_stream": [(0, guid, 77, process, "Default Stream"), (3, guid, 77, process, "Stream 0")],
        "rocpd_info_pmc": [
            (10, guid, 77, process, 4, "SQ_BUSY_CYCLES", "SQ_BUSY_CYCLES", ""),
            (11, guid, 77, process, 4, "GRBM_GUI_ACTIVE", "GRBM_GUI_ACTIVE", ""),
            (12, guid, 77, process, 4, "SQ_WAVES", "SQ_WAVES", ""),
        ],
        "rocpd_info_kernel_symbol": [
            (1, guid, 77, process, 1, "_Z5scalePfi.kd", "scale(float*, int) [clone .kd]", 1_024, 48, 32, 4),
            (2, guid, 77, process, 1, "_Z3addPfi.kd", None, 0, 32, 16, 0),
        ],
        "rocpd_track": [(1, guid, *place, _S["roctxMarkA"])],
        "rocpd_event": [
            event(1, "MARKER_CORE_RANGE_API", 1, '{"message": "forward"}'),
            event(2, "HIP_RUNTIME_API", 2),
            event(3, "HIP_RUNTIME_API", 3, outer=9),
            event(4, "HIP_RUNTIME_API", 4),
            event(5, "MARKER_CORE_RANGE_API", 5, '{"message": "say \\"hi\\"", "level": 2}'),
            event(6, "KERNEL_DISPATCH", 3, outer=9),
            event(7, "KERNEL_DISPATCH", 4),
            event(8, "MEMORY_COPY", 2),
            event(9, "MEMORY_ALLOCATION", 6),
            event(10, "MEMORY_ALLOCATION", 7),
            event(11, "KERNEL_DISPATCH", 8),
        ],
        "rocpd_arg": [
            (1, guid, 2, 0, "void*", "dst", "0x7f00"),
            (2, guid, 2, 1, "size_t", "sizeBytes", "4096"),
            (3, guid, 3, 0, "char const*", "name", 'a "b"'),
            (4, guid, 3, 1, "hipStream_t", "stream", None),
            (5, guid, 99, 0, "int", "lost", "1"),
        ],
        "rocpd_pmc_event": [
            (1, guid, 6, 10, 100.0, "{}"),
            (2, guid, 6, 10, 300.0, "{}"),
            (3, guid, 6, 11, 8_000.0, "{}"),
            (4, guid, 6, 12, 8.0, "{}"),
            (5, guid, 7, 12, 9.0, "{}"),
            (6, guid, 11, 12, 9.0, "{}"),
            (7, guid, 98, 12, 9.0, "{}"),
            (8, guid, 7, None, 9.0, "{}"),
            (9, guid, 7, 97, 1.5, "{}"),
        ],
        "rocpd_region": [
            (1, guid, *place, _T, _T + 90_000, _S["roctxRangePushA"], 1, "{}"),
            (2, guid, *place, _T + 1_000, _T + 5_000, _S["hipMemcpyAsync"], 2, "{}"),
            (3, guid, *place, _T + 6_000, _T + 9_000, _S["hipLaunchKernel"], 3, "{}"),
            (4, guid, *place, _T + 10_000, _T + 12_000, _S["hipLaunchKernel"], 4, "{}"),
            (5, guid, *place, _T + 13_000, _T + 12_000, _S["hipMalloc"], None, "{}"),
            (6, guid, *place, _T + 14_000, _T + 15_000, 500, None, '{"note": 1}'),
        ],
        "rocpd_sample": [(1, guid, 1, _T + 20_000, 5, "{}")],
        "rocpd_kernel_dispatch": [
            kernel(1, _T + 8_000, _T + 18_000, 6),
            kernel(2, _T + 17_000, _T + 27_000, 7, 2),
            kernel(3, 0, 0, 11),
            kernel(4, None, _T, None),
            kernel(5, _T + 30_000, _T + 31_000, None, 60),
            kernel(6, 1 << 62, (1 << 62) + 1, None),
        ],
        "rocpd_memory_copy": [
            (
                *(1, guid, *place, _T + 2_000, _T + 4_000, _S["MEMORY_COPY_HOST_TO_DEVICE"], 4, 32_512, 0, 0, 4_096),
                *(None, 0, None, 8, "{}"),
            )
        ],
        "rocpd_memory_allocate": [
            (1, guid, *place, 4, "ALLOC", "REAL", _T + 100, _T + 200, 32_512, 65_536, 0, 0, 9, '{"flags":"0x1"}'),
            (2, guid, *place, 4, "FREE", "REAL", _T + 80_000, _T + 80_100, 32_512, 0, 0, 0, 10, "{}"),
        ],
    }


def rocpd_4_rows(guid: str, pid: int) -> Tables:
    """The same process in schema 4: places are tracks, categories a table of their own, an odd table more."""
    rows = rocpd_rows(guid, pid, own_ids=False)
    words = {number: word for word, number in _S.items()}
    categories = sorted({words[row[2]] for row in rows["rocpd_event"]})
    numbers = {_S[word]: number for number, word in enumerate(categories, 1)}
    device = (77, 1, 1, 4)
    kernels = [(*row[:2], 2 if row[9] else 3, *row[6:8], *row[10:]) for row in rows["rocpd_kernel_dispatch"]]
    copies = [(*row[:2], 3, *row[5:13], row[16]) for row in rows["rocpd_memory_copy"]]
    allocs = [(*row[:2], 2, *row[6:10], _S["hipMalloc"], *row[10:12], row[14]) for row in rows["rocpd_memory_allocate"]]
    return rows | {
        "rocpd_metadata": [(1, "schema_version", "4"), (2, "guid", guid)],
        "rocpd_info_category": [(number, guid, word) for number, word in enumerate(categories, 1)],
        "rocpd_track": [
            (1, guid, 77, 1, 1, None, None, None, None),
            (2, guid, *device, 1, 3, None),
            (3, guid, *device, 1, 0, None),
        ],
        "rocpd_event": [(*row[:2], numbers[row[2]], *row[3:6], row[8]) for row in rows["rocpd_event"]],
        "rocpd_pmc_event": [row[:5] for row in rows["rocpd_pmc_event"]],
        "rocpd_region": [(*row[:2], 1, row[7], *row[5:7], row[8]) for row in rows["rocpd_region"]],
        "rocpd_sample": [(1, guid, 1, _S["roctxMarkA"], _T + 20_000, 5)],
        "rocpd_kernel_dispatch": kernels,
        "rocpd_memory_copy": copies,
        "rocpd_memory_allocate": allocs,
        "rocpd_hip_event": [(1, guid, 3, _T + 40_000, _T + 41_000, None)],
    }


def make_rocpd(path: Path, columns: dict[str, str], parts: dict[str, Tables]) -> Path:
    """Writes a database of several sets of tables; the key of each is what stands behind the names."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA page_size = 512")
        for suffix, rows in parts.items():
            for table, declared in columns.items():
                writer.execute(f'CREATE TABLE "{table}{suffix}" ({declared})')
                _insert(writer, table + suffix, rows.get(table, ()))
        if "" not in parts:
            for table in columns:
                union = " UNION ALL ".join(f'SELECT * FROM "{table}{suffix}"' for suffix in parts)
                writer.execute(f'CREATE VIEW "{table}" AS {union}')
        writer.commit()
    return path


def flattened(parts: Sequence[Tables]) -> Tables:
    """The rows of several processes in the same tables."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: [row for part in parts for row in part.get(name, ())] for name in names}


def make(path: Path, columns: dict[str, str], rows: Tables) -> Path:
    """Writes a database of those tables, in pages of 512 bytes."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA page_size = 512")
        for table, declared in columns.items():
            writer.execute(f'CREATE TABLE "{table}" ({declared})')
            _insert(writer, table, rows.get(table, ()))
        writer.commit()
    return path


def _insert(writer: sqlite3.Connection, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    for row in rows:
        writer.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)


def main() -> None:
    """Writes the samples."""
    samples = Path(__file__).parents[2] / "samples"
    make(samples / "rpd" / "two-calls-a-kernel-never-run-and-nulls.rpd", RPD, RPD_ROWS)
    make(samples / "rpd" / "rocm-trace-lite-with-markers.db", RTL, RTL_ROWS)
    few = {**RPD_ROWS, "rocpd_op": RPD_ROWS["rocpd_op"][:3], "rocpd_api": RPD_ROWS["rocpd_api"][:5]}
    tables = {name: RPD[name] for name in ("rocpd_string", "rocpd_api", "rocpd_op")}
    small = make(samples / "rpd" / "few.rpd", tables, few)
    with gzip.GzipFile(samples / "rpd" / "two-tables-and-strings-alone.rpd.gz", "wb", mtime=0) as packed:
        packed.write(small.read_bytes())
    small.unlink()
    guids = [uuid.replace("_", "-") for uuid in UUIDS]
    two = [rocpd_rows(guids[0], 4_000, own_ids=True), rocpd_rows(guids[1], 5_000, own_ids=False)]
    folder = samples / "rocpd"
    suffixed = {f"_{uuid}": rows for uuid, rows in zip(UUIDS, two, strict=True)}
    make_rocpd(folder / "two-processes-whose-ids-are-the-same-schema-3.db", ROCPD_3, suffixed)
    keyless = {table: declared.replace("INTEGER PRIMARY KEY", "INTEGER") for table, declared in ROCPD_3.items()}
    make_rocpd(folder / "two-processes-in-the-same-tables.db", keyless, {"": flattened(two)})
    make_rocpd(folder / "tracks-and-a-table-more-schema-4.db", ROCPD_4, {f"_{UUIDS[1]}": rocpd_4_rows(guids[1], 5_000)})


if __name__ == "__main__":
    main()
