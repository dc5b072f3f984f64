"""Shapes of Trace Event JSON that programs beside Kineto write: what they mean is found, nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ktrace

Row = dict[str, Any]


def read(folder: Path, events: list[Row], *, as_: str | None = None, **members: Any) -> ktrace.Trace:
    """The trace of a document of these events, read as a format that needn't be told."""
    path = folder / "trace.json"
    path.write_text(json.dumps(members | {"traceEvents": events}), "utf-8")
    return ktrace.read(path, as_)


def rows(trace: ktrace.Trace, record: str = "events") -> list[Row]:
    """The rows of a record in the order of the document, without what they haven't got."""
    found = sorted(trace.to_arrow()[record].to_pylist(), key=lambda row: row["id"])
    found = [{name: value for name, value in row.items() if value is not None} for row in found]
    return [row | {"args": json.loads(row["args"])} if "args" in row else row for row in found]


def whole(name: str, **more: Any) -> Row:
    """A slice."""
    return {"ph": "X", "name": name, "pid": 1, "tid": 2, "ts": 10, "dur": 5} | more


def test_halves_meet_though_only_the_begin_says_the_device(tmp_path: Path) -> None:
    begin = {"ph": "B", "cat": "kernel", "name": "k", "pid": 1, "tid": 2, "ts": 10, "args": {"device": 0, "stream": 7}}
    (event,) = rows(read(tmp_path, [begin, {"ph": "E", "pid": 1, "tid": 2, "ts": 20}]))
    assert (event["kind"], event["dur"], event["args"]) == ("kernel", 10_000, {"device": 0, "stream": 7})
    assert (event["pid"], event["tid"]) == (1, 2)


def test_paddle(tmp_path: Path) -> None:
    """Paddle's profiler: like Kineto, but for "correlation id", CudaRuntime and its own word for the occupancy."""
    args = {"device": 0, "context": 1, "stream": 7, "correlation id": 5, "theoretical achieved occupancy %": 12.5}
    trace = read(
        tmp_path,
        [
            whole("cudaLaunchKernel[0.010 ms]", cat="CudaRuntime", tid="22(C++)", args={"correlation id": 5}),
            {"ph": "s", "cat": "async", "name": "launch", "id": 5, "pid": 1, "tid": "22(C++)", "ts": 12},
            whole("gemm[0.1 ms]", cat="Kernel", pid=0, tid=7, ts=100, args=args),
            {"ph": "f", "bp": "e", "cat": "async", "name": "launch", "id": 5, "pid": 0, "tid": 7, "ts": 102},
            whole("MEMCPY_HtoD[0.1 ms]", cat="Memcpy", pid=0, tid=7, ts=200, args={"stream": 7, "bytes": 64}),
        ],
        schemaVersion="1.0.1",
        deviceProperties=[{"id": 0, "name": "NVIDIA A100", "smCount": 108}],
    )
    launch, kernel, copy = rows(trace)
    assert (launch["kind"], launch["track"], launch["correlation"]) == ("api", "22(C++)", 5)
    assert (kernel["kind"], kernel["correlation"], kernel["occupancy"]) == ("kernel", 5, 12.5)
    assert copy["copy_kind"] == "HtoD"
    facts = [json.loads(row["facts"]) for row in rows(trace, "catalog") if row["entity"] == "device"]
    assert facts[0]["sm_count"] == 108


@pytest.mark.parametrize(("own", "exact"), [({"span_index": "0"}, True), ({"span_indx": "0"}, True), ({}, False)])
def test_paddles_names_and_starts(tmp_path: Path, own: dict[str, str], exact: bool) -> None:
    """A name ends in the duration, and the exact start stands beside whole µs."""
    ts = 1_795_708_689_736_342
    trace = read(
        tmp_path,
        [
            whole("step[1.445 ms]", cat="ProfileStep", ts=ts + 1, dur=0.9, args={"start_time": "1.250 us"}),
            whole("relu[0]", cat="Operator", ts=ts + 55, dur=0.25, args={"start_time": "55.142 us"}),
            whole("add[60.770 us]", cat="Operator", ts=ts + 900, args={"start_time": "55.142 us"}),
            whole("mul[1.000 us]", cat="Operator", ts=ts + 80, args={"start_time": "soon"}),
            {"ph": "i", "name": "[memory]", "cat": "Free", "pid": 1, "tid": 2, "ts": ts + 90, "args": {"place": "cpu"}},
        ],
        schemaVersion="1.0.2",
        **own,
    )
    found = {row["name"]: row["ts"] - ts * 1000 for row in rows(trace)}
    if exact:  # relu has no duration in its name; the start of add is of another time
        assert found == {"step": 1_000, "relu[0]": 54_892, "add": 900_000, "mul": 80_000, "[memory]": 90_000}
    else:
        assert list(found.values()) == [1_000, 55_000, 900_000, 80_000, 90_000]
        assert "add[60.770 us]" in found


def test_counters_in_quotes(tmp_path: Path) -> None:
    """Bazel writes the values of its counters so."""
    values = {"cpu": "0.5", "more": "1e3", "text": "much", "long": "0.12345678901234567890"}
    found = rows(read(tmp_path, [{"ph": "C", "name": "c", "pid": 1, "ts": 1, "args": values}]))
    assert {row["name"]: row["value"] for row in found} == {"c cpu": 0.5, "c more": 1000.0}
    assert found[0]["args"] == {"text": "much", "long": "0.12345678901234567890"}


def test_a_host_that_waits_is_on_its_thread(tmp_path: Path) -> None:
    """Kineto for XPU: the call that waits has the pid -1 and the thread."""
    sync = whole("zeHostSynchronize", cat="xpu_sync", pid=-1, tid=6, args={"correlation": 79})
    (event,) = rows(read(tmp_path, [sync], schemaVersion=1))
    assert (event["kind"], event["tid"], event.get("stream")) == ("sync", 6, None)


def test_xla_work_is_recognised_by_its_details(tmp_path: Path) -> None:
    """JAX and TensorFlow: no categories; work on a stream has details, calls of the driver have them as well."""
    details = {"kernel_details": "regs:16 grid:4,1,1 block:128,1,1"}
    copied = {"memcpy_details": "kind_src:pageable kind_dst:device size:4096"}
    trace = read(
        tmp_path,
        [
            whole("fusion_1", args=details),
            whole("MemcpyH2D", ts=20, args=copied),
            whole("cuMemcpyHtoDAsync_v2", ts=30, args=copied),
            whole("fusion.1", ts=40, args={"hlo_module": "jit_f"}),
        ],
    )
    assert [row["kind"] for row in rows(trace)] == ["kernel", "memcpy", "range", "range"]
    assert rows(trace)[0]["args"] == details
    assert rows(trace)[1]["copy_kind"] == "HtoD"


def test_work_of_rocm_profile_data_is_recognised_by_its_kind(tmp_path: Path) -> None:
    kinds = {"KernelExecution": "kernel", "CopyDeviceToHost": "memcpy", "FillBuffer": "memset", "stream=0x1": "range"}
    found = rows(read(tmp_path, [whole("x", pid="0", tid="1", args={"desc": kind}) for kind in kinds]))
    assert [row["kind"] for row in found] == list(kinds.values())
    assert {(row["pid"], row["tid"]) for row in found} == {(0, 1)}


def test_launches_tell_kernels_but_calls_are_none(tmp_path: Path) -> None:
    args = {"grid": [1, 2, 3], "block": [32, 1, 1], "stream": 3}
    found = rows(read(tmp_path, [whole("k", args=args), whole("hipLaunchKernel", args=args)]))
    kernel, call = sorted(found, key=lambda row: row["name"] != "k")
    assert (kernel["kind"], kernel["grid_y"], kernel["stream"]) == ("kernel", 2, 3)
    assert (call["kind"], call["args"]) == ("range", args)


def test_launches_in_texts(tmp_path: Path) -> None:
    """ONNX Runtime writes all arguments as texts."""
    args = {"stream": "7", "grid_x": "4", "grid_y": "2", "block_x": "128", "op_name": "Conv"}
    (kernel,) = rows(read(tmp_path, [whole("conv", cat="Kernel", args=args)], as_="chrome"))
    assert (kernel["kind"], kernel["stream"], kernel["grid_x"], kernel["block_x"]) == ("kernel", 7, 4, 128)
    assert kernel["args"] == {"op_name": "Conv"}


def test_unitrace_is_no_kineto_trace(tmp_path: Path) -> None:
    """Intel's unitrace: cpu_op and gpu_op; a copy has the name of its call."""
    trace = read(
        tmp_path,
        [
            whole("zeCommandListAppendLaunchKernel", cat="cpu_op", args={"id": "7"}),
            whole("gemm[SIMD32 {128; 1; 1} {16; 2; 8}]", cat="gpu_op", ts=20, args={"id": "7"}),
            whole("zeCommandListAppendMemoryCopy(M2D)[4096 bytes]", cat="gpu_op", ts=30, args={"id": "8"}),
            whole("zeCommandListAppendBarrier", cat="gpu_op", ts=40, args={"id": "9"}),
        ],
    )
    assert [row["kind"] for row in rows(trace)] == ["api", "kernel", "memcpy", "sync"]
