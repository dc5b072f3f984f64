"""Device work in Perfetto traces of PyTorch, rocprofv3 and rocprof-sys: kinds, places, launches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace
from perfetto_reference import CORRELATION, decode
from perfetto_samples import BEGIN, END, FOLDER, SAMPLES, Sequence, annotated

import ktrace
from ktrace.model.batch import DEVICE_KINDS

(TORCH,) = FOLDER.glob("stages-of-torch-*")
(ROCPROF,) = FOLDER.glob("dispatches-*")


def rows(path: Path, record: str = "events") -> list[dict[str, Any]]:
    found = ktrace.read(path).to_arrow()[record].to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def saved(made: Any, path: Path) -> Path:
    path.write_bytes(made.SerializeToString())
    return path


def test_only_kernels_and_copies_are_device_work() -> None:
    kinds = [(row["name"], row["kind"]) for row in rows(TORCH)]
    assert sorted(kinds) == [
        ("EventRecord", "sync"),
        ("HostNode", "range"),
        ("Memcpy", "memcpy"),
        ("Stream Sync", "sync"),
        ("aten::mm", "op"),
        ("cudaGraphLaunch", "api"),
        ("cudaGraphLaunch", "api"),
        ("gemm(float*)", "kernel"),
        ("gemm(float*)", "kernel"),
        ("step 1", "range"),
    ]


def test_texts_of_stages_are_columns() -> None:
    first, second = (row for row in rows(TORCH) if row["kind"] == "kernel")
    (copy,) = (row for row in rows(TORCH) if row["kind"] == "memcpy")
    assert (first["registers"], first["shared_memory"], first["correlation"], first["context"]) == (40, 1024, 12, 3)
    assert [row["stream"] for row in (first, second, copy)] == [7, 100, 7]
    assert "args" not in first
    assert second["args"] == '{"stream id":"7"}'
    assert copy["bytes"] == 4096
    (sync,) = (row for row in rows(TORCH) if row["name"] == "Stream Sync")
    assert (sync["device"], sync["stream"], sync["dur"], "pid" in sync) == (0, 7, 650, False)
    names = {row["stream"]: row["name"] for row in rows(TORCH, "catalog") if row["entity"] == "stream"}
    assert names == {7: "stream 7", 100: "all-gather"}


def test_launches_are_correlations_and_edges_are_links() -> None:
    links = [(row["link"], row["role"]) for row in rows(TORCH, "links")]
    assert links == [("wait", "in"), ("wait", "out")]  # of the launches each has a correlation


def test_work_without_a_correlation_keeps_its_launch(tmp_path: Path) -> None:
    made = SAMPLES[TORCH.name]()
    for packet in made.packet:
        if not packet.HasField("gpu_render_stage_event"):
            continue
        extra = [one for one in packet.gpu_render_stage_event.extra_data if one.name != "correlation"]
        del packet.gpu_render_stage_event.extra_data[:]
        packet.gpu_render_stage_event.extra_data.extend(extra)
    links = [row["role"] for row in rows(saved(made, tmp_path / "a.pftrace"), "links") if row["link"] == "launch"]
    assert sorted(links) == ["in"] * 3 + ["out"] * 3


def test_dispatches_and_copies_as_slices() -> None:
    found = {row["name"]: row for row in rows(ROCPROF)}
    kernel = found["add(float*)"]
    assert (kernel["kind"], kernel["device"], kernel["stream"], kernel["correlation"]) == ("kernel", 4, 1, 2)
    assert (kernel["grid_x"], kernel["block_x"], kernel["shared_memory"], kernel["dur"]) == (4, 256, 512, 90)
    up, down = found["MEMORY_COPY_HOST_TO_DEVICE"], found["MEMORY_COPY_DEVICE_TO_HOST"]
    assert [(row["kind"], row["device"], row["copy_kind"], row["bytes"]) for row in (up, down)] == [
        ("memcpy", 4, "HtoD", 4096),
        ("memcpy", 4, "DtoH", 4096),
    ]
    assert len({row.get("track") for row in (kernel, up, down)}) == 3  # else their halves might be mixed up
    assert (found["hipLaunchKernel"]["kind"], found["hipLaunchKernel"]["correlation"]) == ("api", 2)
    assert (found["step"]["kind"], "correlation" in found["step"]) == ("range", False)


@pytest.mark.parametrize(("path", "submitted"), [(TORCH, 3), (ROCPROF, 3)])
def test_it_becomes_stages_with_launches(tmp_path: Path, path: Path, submitted: int) -> None:
    report = ktrace.convert(path, tmp_path / "out.perfetto")
    found = decode((tmp_path / "out.perfetto").read_bytes())
    calls = (event for _, _, event in found.events if event.HasExtension(CORRELATION))
    assert sum(len(call.Extensions[CORRELATION].render_stage_submission_event_ids) for call in calls) == submitted
    work = [row for row in rows(path) if row["kind"] in DEVICE_KINDS]
    back = [row for row in rows(tmp_path / "out.perfetto") if row["kind"] in DEVICE_KINDS]
    assert sorted((row["ts"], row["dur"], row["kind"]) for row in back) == sorted(
        (row["ts"], row["dur"], row["kind"]) for row in work
    )
    assert not report.issues


def slices(track: dict[str, Any], *events: dict[str, Any]) -> Any:
    """A trace with slices on one track that has a process of its own; `at` is the start and the end of a slice."""
    made = trace.Trace()
    main = Sequence(made, 1)
    described = main.packet().track_descriptor
    described.uuid, described.process.pid = 1, track.get("pid", 42)
    described = main.packet().track_descriptor
    described.uuid, described.parent_uuid = 2, 1
    if "tid" in track:
        described.thread.pid, described.thread.tid, described.thread.thread_name = 0, track["tid"], track["name"]
    else:
        described.name = track["name"]
    for given in events:
        begin, end = given["at"]
        fields = {"categories": [given["cat"]]} if "cat" in given else {}
        annotated(main.event(begin, BEGIN, track_uuid=2, name=given["name"], **fields), **given.get("args", {}))
        main.event(end, END, track_uuid=2)
    return made


def test_rocprof_sys(tmp_path: Path) -> None:
    sizes = {"workgroup_size": "(64,4,1)", "grid_size": "(128,9,1)", "stream_id": 0, "queue": 5, "corr_id": 8}
    made = slices(
        {"name": "GPU Kernel Dispatch [1] Queue 2"},
        {"at": (10, 30), "name": "add", "cat": "rocm_kernel_dispatch", "args": sizes},
    )
    (row,) = rows(saved(made, tmp_path / "a.pftrace"))
    assert (row["kind"], row["pid"], row["device"], row["stream"], row["correlation"]) == ("kernel", 42, 1, 2, 8)
    assert [row[f"grid_{axis}"] for axis in "xyz"] == [2, 3, 1]
    assert [row[f"block_{axis}"] for axis in "xyz"] == [64, 4, 1]
    assert "grid_size" in row["args"]  # 9 work-items aren't blocks of 4


def test_streams_of_rocprof_sys(tmp_path: Path) -> None:
    """A kernel there names no device, a copy the node of its agent, which counts CPUs."""
    ids = {"stream_id": 3, "corr_id": 8}
    made = slices(
        {"name": "HIP Activity Stream 3"},
        *(
            {"at": (begin, begin + 5), "name": name, "cat": "rocm_hip_stream", "args": ids | args}
            for begin, name, args in (
                (10, "MEMORY_COPY_HOST_TO_DEVICE", {"bytes": 64, "src_agent_id": 0, "dst_agent_id": 1}),
                (20, "add(float*)", {"queue": 5}),
                (30, "SCRATCH_MEMORY_ALLOC", {"allocation_size": 9}),
            )
        ),
    )
    found = rows(saved(made, tmp_path / "a.pftrace"))
    assert [row["kind"] for row in found] == ["memcpy", "kernel", "range"]
    assert {(row["pid"], row.get("device"), row["stream"]) for row in found} == {(42, None, 3)}
    assert (found[0]["copy_kind"], found[0]["bytes"]) == ("HtoD", 64)


def test_threads_and_streams_of_rocprofv3_by_their_names(tmp_path: Path) -> None:
    call = {"at": (5, 9), "name": "hipLaunchKernel", "cat": "hip_api", "args": {"corr_id": 2}}
    (row,) = rows(saved(slices({"name": "THREAD 2 (4243)"}, call), tmp_path / "a.pftrace"))
    assert (row["kind"], row["pid"], row["tid"], "track" in row) == ("api", 42, 4243, False)
    kernel = {
        "at": (5, 9),
        "name": "add",
        "cat": "kernel_dispatch",
        "args": {"agent": "GPU-1", "queue": 0, "stream_ID": 6},
    }
    (row,) = rows(saved(slices({"name": 'STREAM [" 6 "] '}, kernel), tmp_path / "b.pftrace"))
    assert (row["kind"], row["device"], row["stream"]) == ("kernel", 1, 6)


@pytest.mark.parametrize(
    ("name", "more", "kind"),
    [
        ("cudaLaunchKernel", {}, "api"),
        ("hipMemcpyAsync", {}, "api"),
        ("cuda_graph_replay", {}, "range"),
        ("cudaLaunchKernel", {"cat": "user"}, "range"),
    ],
)
def test_calls_without_cbid(tmp_path: Path, name: str, more: dict[str, str], kind: str) -> None:
    thread = {"pid": 42, "tid": 43, "name": "thread 43"}
    made = slices(thread, {"at": (5, 9), "name": name, "args": {"correlation": 3}, **more})
    (row,) = rows(saved(made, tmp_path / "a.pftrace"))
    assert (row["kind"], row.get("correlation")) == (kind, 3 if kind == "api" else None)


def test_threads_of_streams_without_categories(tmp_path: Path) -> None:
    made = slices(
        {"pid": 0, "tid": 7, "name": "stream 7 "},
        {"at": (5, 90), "name": "step"},
        {"at": (10, 30), "name": "gemm", "args": {"device": 0, "stream": 7, "correlation": 3, "grid": "?"}},
        {"at": (30, 40), "name": "Memcpy HtoD (Pinned -> Device)", "args": {"bytes": 8}},
        {"at": (40, 50), "name": "Event Sync", "args": {"cuda_sync_kind": "Event Sync"}},
    )
    found = {row["name"]: row for row in rows(saved(made, tmp_path / "a.pftrace"))}
    assert {name: row["kind"] for name, row in found.items()} == {
        "step": "range",
        "gemm": "kernel",
        "Memcpy HtoD (Pinned -> Device)": "memcpy",
        "Event Sync": "sync",
    }
    assert {(row["device"], row["stream"], "pid" in row) for row in found.values()} == {(0, 7, False)}


def test_other_slices_stay_what_they_are(tmp_path: Path) -> None:
    made = slices(
        {"name": "GPU 3"},
        {"at": (5, 90), "name": "draw", "cat": "cc", "args": {"stream": 4, "correlation": 3, "bytes": 8}},
    )
    (row,) = rows(saved(made, tmp_path / "a.pftrace"))
    assert (row["kind"], row["pid"], row["track"]) == ("range", 42, "2")
    assert row["args"] == '{"stream":4,"correlation":3,"bytes":8}'
