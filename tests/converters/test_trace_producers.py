"""Shapes of Trace Event JSON that programs beside Kineto write: what they mean is found, nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ktrace

Row = dict[str, Any]


def read(folder: Path, events: list[Row], **members: Any) -> ktrace.Trace:
    """The trace of a document of these events."""
    path = folder / "trace.json"
    path.write_text(json.dumps(members | {"traceEvents": events}), "utf-8")
    return ktrace.read(path)


def rows(trace: ktrace.Trace, record: str = "events") -> list[Row]:
    """The rows of a record in their order, without what they haven't got."""
    found = trace.to_arrow()[record].to_pylist()
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
