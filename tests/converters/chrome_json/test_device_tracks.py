"""Device work in Trace Event JSON that only the names of processes and threads tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ktrace

Slice = tuple[str, int, int, int, int]  # name, pid, tid, ts, dur

HOST: list[Slice] = [("forward", 1, 1, 0, 90), ("cudaLaunchKernel", 1, 1, 2, 3)]
WORK: list[Slice] = [
    ("gemm", 2, 70, 10, 20),
    ("Memcpy HtoD (Pinned -> Device)", 2, 70, 40, 10),
    ("gemm", 2, 80, 60, 20),
]


KINDS = [("gemm", "kernel"), ("Memcpy HtoD (Pinned -> Device)", "memcpy"), ("gemm", "kernel")]


def document(path: Path, processes: dict[int, str], threads: dict[tuple[int, int], str], slices: list[Slice]) -> Path:
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}} for pid, name in processes.items()
    ]
    events += [
        {"args": {"name": name}, "name": "thread_name", "ph": "M", "pid": pid, "tid": tid}
        for (pid, tid), name in threads.items()
    ]
    events += [
        {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur} for name, pid, tid, ts, dur in slices
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def work(path: Path) -> list[tuple[Any, ...]]:
    rows = ktrace.read(path).to_arrow()["events"].to_pylist()
    return [
        (row["name"], row["kind"], row["device"], row["stream"]) for row in rows if row["kind"] not in ("range", "op")
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("GPU 0", "GPU 0: AMD MI300X", "/device:GPU:0", "CUDA HW (0000:1b:00.0)", "CUDA device 0", "GPU", "CUDA"),
        *("cuda:0", "Device 0", "Tesla V100", "NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 4090 (0)", "gfx942"),
        *("AMD Instinct MI300X [0]", "Intel(R) Data Center GPU Max 1550", "H100 80GB HBM3"),
    ],
)
@pytest.mark.parametrize(
    "streams", [("stream 7", "stream 8"), ("Stream #7(Kernel)", "HSA queue 8"), ("Queue 7", "Queue 8")]
)
def test_a_process_that_is_a_device(tmp_path: Path, name: str, streams: tuple[str, str]) -> None:
    views = [("gemm", 2, 90, 10, 20), ("step 1", 2, 91, 0, 90)]
    threads = {(1, 1): "main", (2, 70): streams[0], (2, 80): streams[1], (2, 90): "XLA Ops", (2, 91): "Steps"}
    path = document(tmp_path / "a.json", {1: "python", 2: name}, threads, [*HOST, *WORK, *views])
    assert work(path) == [
        ("gemm", "kernel", 0, 7),
        ("Memcpy HtoD (Pinned -> Device)", "memcpy", 0, 7),
        ("gemm", "kernel", 0, 8),
    ]
    summary = ktrace.summary(path)
    assert [(one.key, one.total) for one in summary.heaviest["operation"]] == [("gemm", 40_000), ("copy", 10_000)]
    report = ktrace.read(path).report
    assert report.balanced()


@pytest.mark.parametrize(
    ("process", "thread", "place"),
    [
        ("GPU 1", "stream 7", (1, 7)),
        ("AMD Instinct MI300X (device 3)", "queue 0", (3, 0)),
        ("GPU", "kernels", (0, None)),
        ("GPU 1", "Steps", None),
        ("worker", "stream 7", None),
        ("GPU worker", "main", None),
    ],
)
def test_tracks_that_are_texts(process: str, thread: str, place: tuple[int, int | None] | None, tmp_path: Path) -> None:
    """Slices may name their process and thread by texts instead of numbers; these say whether it is a device."""
    place_of = {"ph": "X", "pid": process, "tid": thread}
    events = [{**place_of, "name": name, "ts": ts, "dur": dur} for name, _, _, ts, dur in WORK]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(events))
    assert work(path) == ([(name, kind, *place) for name, kind in KINDS] if place else [])
    summary = ktrace.summary(path)
    assert summary.work == ("events" if place else "host") and not any(
        "asynchronous" in line for line in summary.verdict
    )
    rows = ktrace.read(path).to_arrow()["events"].to_pylist()
    assert {row["track"] for row in rows} == {None if place else f"{process}/{thread}"}


def test_threads_that_are_streams(tmp_path: Path) -> None:
    slices = [(name, 1, tid, ts, dur) for name, _, tid, ts, dur in WORK]
    threads = {(1, 1): "main", (1, 70): "CUDA stream 7", (1, 80): "GPU 1 stream 8"}
    path = document(tmp_path / "a.json", {1: "app"}, threads, [*HOST, *slices])
    assert [(kind, device, stream) for _, kind, device, stream in work(path)] == [
        ("kernel", None, 7),
        ("memcpy", None, 7),
        ("kernel", 1, 8),
    ]


@pytest.mark.parametrize(
    ("process", "thread"),
    [
        *(("GPU Process", "CrGpuMain"), ("GPU worker", "queue 3"), ("GPUs", "stream 7"), ("Device Manager", "queue 3")),
        *(
            ("NVIDIA DALI", "queue 3"),
            ("AMD uProf", "stream 7"),
            ("NVIDIA A100-SXM4-80GB", "feeder"),
            ("devices", "queue 1"),
        ),
    ],
)
def test_other_processes_stay_what_they_are(tmp_path: Path, process: str, thread: str) -> None:
    path = document(tmp_path / "a.json", {1: "python", 2: process}, {(2, 70): thread, (2, 80): "stream reader"}, WORK)
    assert work(path) == []


def test_a_device_without_streams_shows_no_work(tmp_path: Path) -> None:
    threads = {(2, 70): "XLA Modules", (2, 80): "Framework Ops"}
    assert work(document(tmp_path / "a.json", {2: "GPU 0"}, threads, WORK)) == []


def test_categories_come_first(tmp_path: Path) -> None:
    path = document(tmp_path / "a.json", {2: "GPU 0"}, {(2, 70): "stream 7", (2, 80): "stream 8"}, WORK)
    document_ = json.loads(path.read_text())
    for event in document_["traceEvents"]:
        if event["ph"] == "X":
            event["cat"] = "cuda_runtime"
    path.write_text(json.dumps(document_))
    assert {kind for _, kind, _, _ in work(path)} == {"api"}
