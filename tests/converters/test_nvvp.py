"""nvprof's database: ours has the tables of its schema, version 9; a real one; both are compared with SQL."""

from __future__ import annotations

import gzip
import json
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

from ktrace.converters.nvvp.work import DRIVER, RUNTIME
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.pipeline.convert import convert
from ktrace.trace import read

SAMPLE = SAMPLES / "nvvp" / "a-range-a-fault-an-unknown-call-and-a-table-of-branches.nvvp"
START = 1496933427584362152
KERNEL = (
    "cacheConfig BLOB, sharedMemoryConfig INT, registersPerThread INT, partitionedGlobalCacheRequested INT, start INT,"
    " end INT, completed INT, deviceId INT, contextId INT, streamId INT, gridX INT, gridY INT, gridZ INT, blockX INT,"
    " blockY INT, blockZ INT, staticSharedMemory INT, dynamicSharedMemory INT, localMemoryPerThread INT,"
    " correlationId INT, gridId INT, name INT"
)
CALL = "cbid INT, start INT, end INT, processId INT, threadId INT, correlationId INT, returnValue INT"
TABLES = {
    "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "copyKind INT, srcKind INT, dstKind INT, flags INT, bytes INT, start INT, end INT, deviceId INT, contextId INT,"
        " streamId INT, correlationId INT, runtimeCorrelationId INT"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        "value INT, bytes INT, start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": CALL,
    "CUPTI_ACTIVITY_KIND_DRIVER": CALL,
    "CUPTI_ACTIVITY_KIND_MARKER": (
        "flags INT, timestamp INT, id INT, objectKind INT, objectId BLOB, name INT, domain INT"
    ),
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "overheadKind INT, objectKind INT, objectId BLOB, start INT, end INT",
    "CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER": (
        "counterKind INT, value INT, start INT, end INT, address INT, srcId INT, dstId INT, streamId INT, processId INT"
    ),
    "CUPTI_ACTIVITY_KIND_DEVICE": (
        "globalMemorySize INT, numMultiprocessors INT, computeCapabilityMajor INT, computeCapabilityMinor INT, id INT,"
        " name INT"
    ),
    "CUPTI_ACTIVITY_KIND_NAME": "objectKind INT, objectId BLOB, name INT",
    "CUPTI_ACTIVITY_KIND_CONTEXT": "contextId INT, deviceId INT, computeApiKind INT, nullStreamId INT",
    "CUPTI_ACTIVITY_KIND_BRANCH": "sourceLocatorId INT, diverged INT",
}


def thread(pid: int, tid: int) -> bytes:
    return struct.pack("<II", pid, tid)


ROWS: dict[str, list[tuple[Any, ...]]] = {
    "CONCURRENT_KERNEL": [
        (
            b"\0",
            0,
            32,
            0,
            START + 5000,
            START + 9000,
            START + 9000,
            0,
            1,
            7,
            16,
            2,
            1,
            128,
            1,
            1,
            1024,
            512,
            0,
            11,
            1,
            1,
        ),
        (b"\2", 0, 10, 0, START + 9000, START + 9500, START + 9600, 0, 1, 7, 4, 1, 1, 64, 1, 1, 0, 0, 0, 12, 2, 99),
        (b"\0", 0, 10, 0, 0, 0, 0, 0, 1, 7, 4, 1, 1, 64, 1, 1, 0, 0, 0, 13, 3, 1),
    ],
    "MEMCPY": [(1, 1, 3, 0, 4096, START + 1000, START + 2000, 0, 1, 7, 10, 0)],
    "MEMSET": [(0, 256, START + 2100, START + 2200, 0, 1, 4294967295, 0)],
    "RUNTIME": [
        (31, START + 500, START + 2500, 70, 71, 10, 0),
        (211, START + 3000, START + 4000, 70, 71, 11, 0),
        (9999, START + 4100, START + 4200, 70, 71, 12, 0),
    ],
    "DRIVER": [(307, START + 3100, START + 3900, 70, 71, 14, 0)],
    "MARKER": [
        (2, START + 100, 1, 2, thread(70, 71), 2, 0),
        (2, START + 200, 2, 1, thread(70, 0), 3, 4),
        (4, START + 9900, 1, 2, thread(70, 71), 0, 0),
        (1, START + 300, 3, 2, thread(70, 71), 5, 0),
        (4, START + 9950, 8, 2, thread(70, 71), 0, 0),
    ],
    "OVERHEAD": [(1 << 16, 2, thread(70, 71), START + 9600, START + 9700)],
    "UNIFIED_MEMORY_COUNTER": [
        (1, 65536, START + 600, START + 700, 4096, 0, 0, 0, 70),
        (3, 1, START + 800, 0, 8192, 0, 0, 0, 70),
    ],
    "DEVICE": [(16 << 30, 80, 7, 0, 0, 6)],
    "NAME": [(2, thread(70, 71), 7)],
    "CONTEXT": [(1, 0, 1, 7)],
    "BRANCH": [(1, 0), (2, 1)],
}
STRINGS = {1: "_Z3addPf", 2: "step 1", 3: "load", 4: "io", 5: "here", 6: "Tesla V100-SXM2-16GB", 7: "main"}


def make(path: Path) -> Path:
    """Writes the database; the sample is one of these."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA page_size = 512")
        database.execute("CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL UNIQUE)")
        database.execute("CREATE TABLE Version(version INTEGER)")
        database.execute("INSERT INTO Version VALUES(9)")
        database.executemany("INSERT INTO StringTable VALUES(?, ?)", STRINGS.items())
        for table, columns in TABLES.items():
            database.execute(f"CREATE TABLE {table}(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, {columns})")
            rows = ROWS[table.removeprefix("CUPTI_ACTIVITY_KIND_")]
            marks = ", ".join("?" * len(rows[0]))
            database.executemany(f"INSERT INTO {table} VALUES(NULL, {marks})", rows)
        database.commit()
    return path


def test_it_is_recognised() -> None:
    assert choose(Source(str(SAMPLE))).name == "nvvp"


def test_rows_are_those_of_sql() -> None:
    trace = read(SAMPLE)
    events = trace.events
    with closing(sqlite3.connect(SAMPLE)) as database:
        for kind, table in (("kernel", "CONCURRENT_KERNEL"), ("memset", "MEMSET")):
            sql = f"SELECT start, end - start, deviceId, correlationId FROM CUPTI_ACTIVITY_KIND_{table} WHERE start > 0"
            expected = [(start, dur, device, number or -1) for start, dur, device, number in database.execute(sql)]
            found = events[events.kind == kind][["ts", "dur", "device", "correlation"]].fillna(-1)
            assert [tuple(row) for row in found.values.tolist()] == expected
        sql = "SELECT start, threadId, correlationId FROM CUPTI_ACTIVITY_KIND_{}"
        calls = [row for table in ("RUNTIME", "DRIVER") for row in database.execute(sql.format(table))]
    api = events[events.kind == "api"]
    assert [tuple(row) for row in api[["ts", "tid", "correlation"]].values.tolist()] == calls
    assert api.name.tolist() == ["cudaMemcpy", "cudaLaunchKernel", "cuda 9999", "cuLaunchKernel"]
    assert set(events.pid.dropna()) == {70}


def test_kernels_copies_and_memory() -> None:
    trace = read(SAMPLE)
    events = trace.events
    kernels = events[events.kind == "kernel"]
    assert kernels.name.tolist() == ["add(float*)", "[string 99]"]
    assert kernels[["grid_x", "grid_y", "block_x", "registers", "shared_memory", "shared_dynamic"]].values.tolist() == [
        [16, 2, 128, 32, 1536, 512],
        [4, 1, 64, 10, 0, 0],
    ]
    work = events[events.context.notna()].sort_values("ts")
    assert work[["kind", "device", "context", "stream"]].fillna(-1).values.tolist() == [
        ["memcpy", 0, 1, 7],
        ["memset", 0, 1, -1],
        ["kernel", 0, 1, 7],
        ["kernel", 0, 1, 7],
    ]
    overhead = events[events.name == "Buffer flush"].iloc[0]
    assert (overhead.kind, overhead.ts, overhead.dur) == ("overhead", START + 9600, 100)
    assert [json.loads(args).get("cacheConfig") for args in kernels["args"]] == [
        {"$base64": "AA=="},
        {"$base64": "Ag=="},
    ]
    copies = events[events.kind == "memcpy"]
    assert copies[["name", "copy_kind", "bytes"]].values.tolist() == [
        ["[CUDA memcpy HtoD]", "HtoD", 4096],
        ["[Unified Memory Memcpy HtoD]", "HtoD", 65536],
    ]
    assert json.loads(copies["args"].iloc[0]) == {
        "srcKind": "Pageable",
        "dstKind": "Device",
        "flags": 0,
        "runtimeCorrelationId": 0,
    }
    assert events[events.kind == "memset"].stream.isna().all()
    fault = events[events.name == "[Unified Memory CPU page fault]"].iloc[0]
    assert (fault.kind, fault.ts) == ("instant", START + 800)
    assert [where for where, _ in trace.report.issues["bad-record"].places] == [
        "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL row 3"
    ]
    assert trace.report.issues["unrecognised"].rows == 2
    assert trace.report.reader.balanced()


def test_markers_are_ranges_and_instants() -> None:
    trace = read(SAMPLE)
    events = trace.events
    marks = events[events.name.isin(["step 1", "load", "here"])].sort_values("ts")
    assert marks[["kind", "name"]].values.tolist() == [["range", "step 1"], ["range", "load"], ["instant", "here"]]
    assert marks.dur.fillna(-1).tolist() == [9800, -1, -1]
    assert marks.tid.fillna(-1).tolist() == [71, -1, 71]
    assert marks.track.fillna("").tolist() == ["", "io", ""]
    assert trace.report.issues["end-without-begin"].places == [("CUPTI_ACTIVITY_KIND_MARKER row 5", "id 8")]


def test_the_catalog() -> None:
    catalog = read(SAMPLE).catalog.set_index("entity")
    assert catalog.name["device"] == "Tesla V100-SXM2-16GB"
    assert json.loads(catalog.facts["device"])["compute_capability"] == "7.0"
    assert (catalog.name["thread"], catalog.tid["thread"]) == ("main", 71)
    assert json.loads(catalog.facts["clock"])["kind"] == "unix"


def test_launches_are_joined(tmp_path: Path) -> None:
    convert(SAMPLE, tmp_path / "out.json", to="chrome")
    drawn = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "s" for event in drawn) == 3  # the copy and both kernels


@pytest.mark.parametrize(
    ("names", "number", "name"),
    [
        *((RUNTIME, *pair) for pair in ((13, "cudaLaunch"), (16, "cudaSetDevice"), (41, "cudaMemcpyAsync"))),
        *((RUNTIME, *pair) for pair in ((62, "cudaGetSurfaceReference"), (131, "cudaStreamSynchronize"))),
        *((RUNTIME, *pair) for pair in ((147, "cudaStreamWaitEvent"), (151, "cudaPointerGetAttributes"))),
        *((RUNTIME, *pair) for pair in ((165, "cudaDeviceSynchronize"), (186, "cudaDestroyTextureObject"))),
        *(
            (RUNTIME, *pair)
            for pair in ((206, "cudaMallocManaged"), (211, "cudaLaunchKernel"), (225, "cudaMemcpyAsync"))
        ),
        *((RUNTIME, *pair) for pair in ((255, "cudaDeviceGetP2PAttribute"), (273, "cudaFuncSetAttribute"))),
        *(
            (RUNTIME, *pair)
            for pair in ((286, "cudaGraphCreate"), (311, "cudaGraphLaunch"), (320, "cudaStreamEndCapture"))
        ),
        *((DRIVER, *pair) for pair in ((17, "cuCtxSynchronize"), (24, "cuModuleGetGlobal"), (33, "cuMemFree"))),
        *((DRIVER, *pair) for pair in ((127, "cuStreamDestroy"), (243, "cuMemAlloc"), (254, "cuMemsetD2D32"))),
        *((DRIVER, *pair) for pair in ((276, "cuMemcpyHtoD"), (296, "cuCtxGetApiVersion"), (307, "cuLaunchKernel"))),
        *((DRIVER, *pair) for pair in ((314, "cuCtxDisablePeerAccess"), (326, "cuStreamDestroy"))),
        *((DRIVER, *pair) for pair in ((367, "cuStreamCreateWithPriority"), (389, "cuDevicePrimaryCtxReset"))),
    ],
)
def test_numbers_of_calls(names: dict[int, str], number: int, name: str) -> None:
    """Pairs of CUPTI's headers, the last of each run of names among them."""
    assert names[number] == name


def test_the_sample_is_what_is_made_here(tmp_path: Path) -> None:
    made, sample = read(make(tmp_path / SAMPLE.name)), read(SAMPLE)
    for record in ("events", "summaries", "links"):
        assert made.to_arrow()[record].equals(sample.to_arrow()[record])


def test_metrics_and_events_are_below_their_kernels(tmp_path: Path) -> None:
    path = make(tmp_path / "counted.nvvp")
    rows = {
        "METRIC(id INT, value BLOB, correlationId INT, flags INT)": [
            (1210, struct.pack("<d", 0.75), 11, 0),
            (1211, struct.pack("<Q", 9), 12, 0),
            (1210, struct.pack("<d", 0.5), 99, 0),
            (1210, b"\1", 11, 0),
        ],
        "EVENT(id INT, value INT, domain INT, correlationId INT)": [(5, "4096", 1, 12), (6, 1 << 40, 1, 13)],
        "METRIC_INSTANCE(id INT, value BLOB, instance INT, correlationId INT, flags INT)": [
            (7, struct.pack("<d", -2.0), instance, 11, 0) for instance in (0, 1)
        ],
    }
    with closing(sqlite3.connect(path)) as database:
        for table, values in rows.items():
            name, columns = table.split("(")
            own = f"CUPTI_ACTIVITY_KIND_{name}"
            database.execute(f"CREATE TABLE {own}(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, {columns}")
            database.executemany(f"INSERT INTO {own} VALUES(NULL, {', '.join('?' * len(values[0]))})", values)
        database.commit()
    trace = read(path)
    kernels = trace.events[trace.events.kind == "kernel"].set_index("correlation")
    found = trace.events[trace.events.kind == "counter"]
    assert found[["name", "value"]].values.tolist() == [
        ["metric 1210", 0.75],
        ["metric 1211", 9],
        ["event 5", 4096],
        ["metric 7", -2],
        ["metric 7", -2],
    ]
    for (_, row), correlation in zip(found.iterrows(), (11, 12, 12, 11, 11), strict=True):
        owner = kernels.loc[correlation]
        fields = ["ts", "dur", "device", "context", "stream", "pid"]
        assert row["parent"] == owner["id"] and row[fields].tolist() == owner[fields].tolist()
    assert [json.loads(text)["instance"] for text in found["args"][-2:]] == [0, 1]
    whole = {(where, why) for where, why in trace.report.issues["bad-record"].places}
    assert {
        ("CUPTI_ACTIVITY_KIND_METRIC row 3", "no kernel has its correlationId"),
        ("CUPTI_ACTIVITY_KIND_METRIC row 4", "no value"),
        ("CUPTI_ACTIVITY_KIND_EVENT row 2", "no kernel has its correlationId"),
    } <= whole
    assert trace.report.balanced()
    convert([str(path)], str(tmp_path / "out.perfetto"))


def test_a_real_database(tmp_path: Path) -> None:
    """Numbers and sums of time of PyTorch on a V100, by SQL."""
    path = tmp_path / "net.sql"
    path.write_bytes(gzip.decompress((SAMPLES / "real/corpus/pyprof/net.sql.gz").read_bytes()))
    events = read(path).events
    tables = {
        "kernel": "CONCURRENT_KERNEL",
        "memcpy": "MEMCPY",
        "memset": "MEMSET",
        "api": "RUNTIME",
        "sync": "SYNCHRONIZATION",
    }
    with closing(sqlite3.connect(path)) as base:
        for kind, table in tables.items():
            row = base.execute(f"SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_{table}").fetchone()
            rows = events[events["kind"] == kind]
            assert (len(rows), rows["dur"].sum()) == row
        pairs = base.execute(
            "SELECT count(*), sum(e.timestamp - b.timestamp) FROM CUPTI_ACTIVITY_KIND_MARKER b JOIN"
            " CUPTI_ACTIVITY_KIND_MARKER e ON b.id = e.id WHERE b.flags = 2 AND e.flags = 4"
        ).fetchone()
    ranges = events[events["kind"] == "range"]
    assert (len(ranges), ranges["dur"].sum()) == pairs
    assert pairs[0] > 600
