"""Tables of Nsight Systems that no real file at hand has rows of, in the shape of NVIDIA's schema reference of 2026."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nsys_samples as made
import pytest
from conftest import SHARED

import ktrace
from ktrace.converters.nsys.facts import harmless, ranks

PID, TID = made.PID, made.GLOBAL_TID
WHERE = "start end deviceId contextId streamId correlationId globalPid"
MORE = {
    "CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE_AND_HOST_LAUNCH": f"{WHERE} greenContextId graphNodeId graphId",
    "CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS": f"{WHERE} eventClass ChannelID sourceBytes NumberOfOperations",
    "CUPTI_ACTIVITY_KIND_WARP_TRACE": "start end deviceId correlationId SMId globalPid BlockID WarpID",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "start end eventClass globalTid correlationId nameId overheadType",
    "GPU_VIDEO_ENGINE_WORKLOAD": "start end globalEngineId engineType engineId vmId globalPid apiId codecId",
    "ENUM_VIDEO_ENGINE_TYPE": "id name:TEXT label:TEXT",
    "GPU_CONTEXT_SWITCH_EVENTS": "tag vmId seqNo contextId timestamp globalPid gpuId",
    "ENUM_GPU_CTX_SWITCH": "id name:TEXT label:TEXT",
    "OPENGL_API": "start end eventClass globalTid correlationId nameId",
    "MPI_COMMUNICATORS": "rank timestamp commHandle size members:TEXT",
    "NET_NIC_METRIC": "start end globalId portId metricsListId metricsIdx value",
    "NIC_ID_MAP": "nicId globalId",
    "TARGET_INFO_NIC_INFO": "globalId stateName:TEXT nicId name:TEXT",
    "TARGET_INFO_COMPONENT": "componentId name:TEXT instance parentComponentId",
    "TARGET_INFO_PERF_METRIC": "id name:TEXT description:TEXT unit:TEXT",
    "PERF_EVENT_SOC_OR_CPU_METRIC_EVENT": "start end vmId componentId metricId value:REAL",
    "OSRT_FILE_ACCESS_EVENTS": "fileAccessId threadId startedAt endedAt eventType apiCallId bytesProcessed",
    "OSRT_FILE_ACCESS_DESCRIPTORS": "fileAccessId processId openedAt closedAt filePath:TEXT",
    "SCHED_EVENTS": "start cpu isSchedIn globalTid threadState threadBlock",
    "GENERIC_EVENT_SOURCES": "sourceId nameId data:TEXT",
    "GENERIC_EVENT_TYPES": "typeId sourceId nameId data:TEXT",
    "GENERIC_EVENT_TYPE_FIELDS": "typeId fieldIdx fieldNameId",
    "GENERIC_EVENTS": "genericEventId rawTimestamp timestamp typeId globalTid data:TEXT",
    "GENERIC_EVENT_DATA": "genericEventId fieldIdx intVal uintVal floatVal:REAL doubleVal:REAL",
}

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def read(folder: Path, tables: Rows, *, strings: made.Strings | None = None) -> ktrace.Trace:
    export = {"META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.26.1"}]}
    whole = {**tables, **export, "StringIds": (strings or made.Strings()).rows()}
    trace = ktrace.read(made.make(folder / "made.sqlite", whole, more=MORE))
    assert trace.report.balanced()
    return trace


def events(trace: ktrace.Trace) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = trace.to_arrow()["events"].to_pylist()
    for row in found:
        row["args"] = json.loads(row["args"]) if row["args"] else {}
    return found


def facts(trace: ktrace.Trace, entity: str) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for row in trace.to_arrow()["catalog"].to_pylist():
        if row["entity"] == entity and row["facts"]:
            said |= json.loads(row["facts"])
    return said


def test_events_whose_times_were_not_collected_are_no_instants_at_zero(tmp_path: Path) -> None:
    strings = made.Strings()
    where = made.place(9)
    calls = [made.call(strings, "cudaEventRecord_v3020", 2_000, 2_010, 9)]
    times = (0, None, 2_500)
    events_of = [{**where, "timestamp": time, "eventId": n, "eventSyncId": 40 + n} for n, time in enumerate(times)]
    tables = {"CUPTI_ACTIVITY_KIND_RUNTIME": calls, "CUPTI_ACTIVITY_KIND_CUDA_EVENT": events_of}
    trace = read(tmp_path, tables, strings=strings)
    assert [row["ts"] for row in events(trace) if row["kind"] == "instant"] == [2_500]
    (call,) = (row["id"] for row in events(trace) if row["kind"] == "api")
    links = trace.to_arrow()["links"].to_pylist()
    assert [(row["link"], row["event"], row["key"]) for row in links] == [
        ("event", call, f"{PID}:0"),
        ("event", call, f"{PID}:1"),
    ]
    assert not trace.report.issues


def test_work_and_traces_of_the_device_stand_on_it(tmp_path: Path) -> None:
    span = {"start": 10, "end": 40}
    tables = {
        "CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE_AND_HOST_LAUNCH": [{**span, **made.place(5)}],
        "CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS": [{**span, **made.place(6), "sourceBytes": 4_096}],
        "CUPTI_ACTIVITY_KIND_WARP_TRACE": [
            {**span, "deviceId": 1, "correlationId": 7, "SMId": 3, "globalPid": made.GLOBAL_PID, "WarpID": 2}
        ],
    }
    host, copy, warp = events(trace := read(tmp_path, tables))
    assert (host["name"], host["kind"], host["device"], host["stream"]) == ("host function", "range", 0, 7)
    assert (copy["name"], copy["kind"], copy["bytes"]) == ("[CUDA memory decompression]", "memcpy", 4_096)
    assert (copy["device"], copy["stream"], copy["correlation"]) == (0, 7, 6)
    assert (warp["name"], warp["device"], warp["track"], warp["args"]["WarpID"]) == ("warp", 1, "SM 3", 2)
    assert not trace.report.issues


def test_rows_without_a_name_are_named_by_their_numbers_words(tmp_path: Path) -> None:
    engine = {"start": 1, "end": 5, "engineType": 0, "engineId": 2, "globalPid": made.GLOBAL_PID, "apiId": 7}
    overhead = {"start": 1, "end": 2, "globalTid": TID, "overheadType": 3}
    tables = {
        "GPU_VIDEO_ENGINE_WORKLOAD": [engine, {**engine, "engineType": 9}],
        "ENUM_VIDEO_ENGINE_TYPE": [{"id": 0, "name": "NVDEC", "label": "NV Decode"}],
        "GPU_CONTEXT_SWITCH_EVENTS": [{"tag": 8, "timestamp": 4, "globalPid": made.GLOBAL_PID, "gpuId": 1}],
        "ENUM_GPU_CTX_SWITCH": [{"id": 8, "name": "START", "label": "Context start"}],
        "CUPTI_ACTIVITY_KIND_OVERHEAD": [overhead],
    }
    trace = read(tmp_path, tables)
    found = {row["name"]: row for row in events(trace)}
    assert found.keys() == {"NV Decode", "video engine 9", "Context start", "Buffer flush (Profiler)"}
    assert found["NV Decode"]["track"] == "video engine 2"
    switch = found["Context start"]
    assert (switch["kind"], switch["device"], switch["track"]) == ("instant", 1, "context switches")
    assert not trace.report.issues


def test_correlations_of_other_apis_do_not_launch_kernels(tmp_path: Path) -> None:
    strings = made.Strings()
    draw = {"start": 1, "end": 2, "eventClass": 5, "globalTid": TID, "correlationId": 7, "nameId": strings("glDraw")}
    tables = {
        "OPENGL_API": [draw],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [made.call(strings, "cudaLaunchKernel_v7000", 10, 20, 7)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [made.kernel(strings, "k(int)", 30, 40, 7)],
    }
    found = {row["name"]: row for row in events(read(tmp_path, tables, strings=strings))}
    assert (found["glDraw"]["correlation"], found["glDraw"]["args"]["correlationId"]) == (None, 7)
    ktrace.convert(tmp_path / "made.sqlite", tmp_path / "out.trace.json")
    rows = json.loads((tmp_path / "out.trace.json").read_bytes())["traceEvents"]
    starts = [row for row in rows if row["ph"] == "s"]
    slices = {(row["pid"], row["tid"], row["ts"]): row["name"] for row in rows if row["ph"] == "X"}
    assert [slices[row["pid"], row["tid"], row["ts"]] for row in starts] == ["cudaLaunchKernel_v7000"]


def test_gpu_metrics_of_old_exports_are_counters(tmp_path: Path) -> None:
    """Before there was GPU_METRICS the samples stood as JSON; there may be no time but the raw one."""
    kinds = [1 << 56 | 2 << 32 | 1 << 8 | gpu for gpu in (0, 1)]
    samples = [
        {
            **{"rawTimestamp": time, "timestamp": None if time == 200 else time, "typeId": kind},
            "data": json.dumps({"SM Active": str(time // 10), "GPC Clock Frequency [MHz]": 1_410}),
        }
        for time in (100, 200)
        for kind in kinds
    ]
    tables: dict[str, Any] = {
        "GENERIC_EVENT_SOURCES": [{"sourceId": 2, "data": '{"Name": "GpuMetrics"}'}],
        "GENERIC_EVENT_TYPES": [{"typeId": kind, "sourceId": 2, "data": '{"Name": "GA100"}'} for kind in kinds],
        "GENERIC_EVENTS": samples,
    }
    trace = read(tmp_path, tables)
    assert [(r["ts"], r["device"], r["track"], r["value"], r["unit"], r["kind"]) for r in events(trace)] == [
        (time, gpu, name, value, unit, "counter")
        for time in (100, 200)
        for gpu in (0, 1)
        for name, value, unit in (("SM Active", time / 10, None), ("GPC Clock Frequency [MHz]", 1_410.0, "MHz"))
    ]
    again = [{"rawTimestamp": 1, "timestamp": 100, "typeId": kinds[0], "metricId": 1, "value": 10}]
    both = read(tmp_path, tables | {"GPU_METRICS": again})
    assert [row["value"] for row in events(both)] == [10.0]
    assert both.report.issues["folded"].rows == 4


def test_values_of_events_in_a_table_of_their_own(tmp_path: Path) -> None:
    strings = made.Strings()
    tables = {
        "GENERIC_EVENT_TYPES": [{"typeId": 9, "sourceId": 1, "nameId": strings("sched:sched_switch")}],
        "GENERIC_EVENT_TYPE_FIELDS": [{"typeId": 9, "fieldIdx": 0, "fieldNameId": strings("next_pid")}],
        "GENERIC_EVENTS": [{"genericEventId": 5, "rawTimestamp": 3, "timestamp": 3, "typeId": 9, "globalTid": TID}],
        "GENERIC_EVENT_DATA": [
            {"genericEventId": 5, "fieldIdx": 0, "intVal": 4_711},
            {"genericEventId": 5, "fieldIdx": 1, "doubleVal": 0.5},
        ],
    }
    (event,) = events(read(tmp_path, tables, strings=strings))
    assert (event["name"], event["pid"]) == ("sched:sched_switch", PID)
    assert event["args"]["data"] == {"next_pid": 4_711, "field 1": 0.5}


def test_files_ports_parts_and_why_a_thread_left(tmp_path: Path) -> None:
    strings = made.Strings()
    port = {"start": 0, "end": 10, "globalId": 77, "metricsListId": 1, "metricsIdx": 0}
    tables = {
        "OSRT_FILE_ACCESS_DESCRIPTORS": [{"fileAccessId": 3, "processId": 8, "filePath": "/data/a.bin"}],
        "OSRT_FILE_ACCESS_EVENTS": [
            {
                **{"fileAccessId": 3, "threadId": 9, "startedAt": 10, "endedAt": 25, "eventType": 2},
                **{"apiCallId": strings("read"), "bytesProcessed": 4_096},
            }
        ],
        "NET_NIC_METRIC": [{**port, "portId": 1, "value": 5}, {**port, "portId": 2, "value": 6}],
        "NIC_ID_MAP": [{"nicId": 1, "globalId": 77}],
        "TARGET_INFO_NIC_INFO": [{"nicId": 1, "name": "mlx5_0"}],
        "TARGET_INFO_NETWORK_METRICS": [{"metricsListId": 1, "metricsIdx": 0, "name": "Bytes sent", "unit": "B/s"}],
        "TARGET_INFO_COMPONENT": [{"componentId": 4, "name": "core", "instance": 12}],
        "TARGET_INFO_PERF_METRIC": [{"id": 6, "name": "IPC", "unit": "1"}],
        "PERF_EVENT_SOC_OR_CPU_METRIC_EVENT": [{"start": 0, "end": 9, "componentId": 4, "metricId": 6, "value": 1.5}],
        "SCHED_EVENTS": [
            {"start": 5, "cpu": 0, "isSchedIn": 1, "globalTid": TID, "threadState": 1},
            {"start": 9, "cpu": 0, "isSchedIn": 0, "globalTid": TID, "threadState": 2, "threadBlock": 6},
        ],
        "MPI_COMMUNICATORS": [{"rank": 0, "timestamp": None, "commHandle": 5, "size": 4, "members": "0,1,2,3"}],
    }
    trace = read(tmp_path, tables, strings=strings)
    found = events(trace)
    (file,) = (row for row in found if row["kind"] == "api")
    assert (file["name"], file["pid"], file["tid"], file["ts"], file["dur"], file["bytes"]) == (
        "read",
        8,
        9,
        10,
        15,
        4_096,
    )
    assert file["args"]["filePath"] == "/data/a.bin"
    tracks = {row["track"]: row["value"] for row in found if row["kind"] == "counter"}
    assert tracks == {"Bytes sent (mlx5_0) (port 1)": 5, "Bytes sent (mlx5_0) (port 2)": 6, "IPC (core 12)": 1.5}
    (slice_,) = (row for row in found if row["track"] == "CPU 0")
    assert (slice_["dur"], slice_["args"]["threadState"], slice_["args"]["threadBlock"]) == (4, "2", "6")
    assert facts(trace, "source")["MPI_COMMUNICATORS"][0]["size"] == 4
    assert not trace.report.issues


LINES = ['RANK="3"', "WORLD_SIZE=8", "HF_TOKEN=hf_abc", "NCCL_DEBUG=INFO", "NCCL_AUTH_KEY=1", "PATH=/bin"]


def test_variables_of_a_launcher_are_kept_and_say_the_rank(tmp_path: Path) -> None:
    name = "PROCESS_0:ENVIRONMENT_VARIABLE"
    tables = {"META_DATA_CAPTURE": [{"name": name, "value": line} for line in LINES]}
    trace = read(tmp_path, tables)
    said = facts(trace, "source")
    assert said["environment"] == {"RANK": "3", "WORLD_SIZE": "8", "NCCL_DEBUG": "INFO"}
    assert (said["rank"], said["world_size"]) == (3, 8)
    assert trace.report.issues["environment"].rows == 3
    assert "hf_abc" not in json.dumps(trace.to_arrow()["catalog"].to_pylist())


@pytest.mark.skipif(not SHARED.joinpath("corpus/nsys_sqlite").is_dir(), reason="no real databases at hand")
def test_the_environment_of_a_real_file_says_its_rank() -> None:
    """All variables of 2022 stand in one text, with zero bytes between them."""
    said = facts(ktrace.read(SHARED / "corpus/nsys_sqlite/saxpy-mpi-cuda_nsys_perlmutter0.sqlite"), "source")
    assert {name: said["environment"][name] for name in ("SLURM_PROCID", "SLURM_GPUS_PER_TASK")} == {
        "SLURM_PROCID": "0",
        "SLURM_GPUS_PER_TASK": "1",
    }
    assert not any("KEY" in name or "PATH" in name for name in said["environment"])


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("CUDA_VISIBLE_DEVICES=MIG-8f5f3a2e-1b2c-5d4e-8f90-123456789abc", True),
        ("NCCL_COMM_ID=10.0.0.1:12345", True),
        ("NCCL_TOPO_FILE=/opt/topo.xml", True),
        ("NCCL_PLUGIN=AKIAIOSFODNN7EXAMPLEABCDEFG", False),
        ("NCCL_PROXY=http://me:secret@proxy", False),
        ("NCCL_NET_TOKEN=1", False),
        ("MY_RANK=1", False),
    ],
)
def test_what_looks_like_a_secret_is_not_shown(line: str, shown: bool) -> None:
    assert harmless([line]) == (
        {line.partition("=")[0]: line.partition("=")[2]} if shown else {},
        not shown,
    )


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "RANK": "1", "WORLD_SIZE": "8"}, {"rank": 1, "world_size": 8}),
        ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}, {"rank": 2, "world_size": 4}),
        ({"RANK": "8", "WORLD_SIZE": "8"}, {}),
        ({"RANK": "x", "WORLD_SIZE": "8"}, {}),
        ({"RANK": "1"}, {}),
    ],
)
def test_ranks(variables: dict[str, str], said: dict[str, int]) -> None:
    assert ranks(variables) == said
