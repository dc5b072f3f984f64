"""Kernels of NCCL, whose communicator and bytes only ranges on the host state, as in traces of Nsight Systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import SAMPLES

import ktrace
from ktrace.analysis.questions.collectives.answer import CollectivesAnswer


def collectives(path: Path) -> list[tuple[str, str, int | None, int]]:
    """Operation, group, bytes and count of each line, in the order of names and groups."""
    found = ktrace.summary(str(path), by=["collective"]).answers["collective"]
    assert isinstance(found, CollectivesAnswer)
    return sorted(((use.operation, use.group, use.largest, use.count) for use in found.collectives), key=str)


def trace(path: Path, steps: list[tuple[str, Any]]) -> Path:
    """A trace of one thread: steps are ranges (name, (comm, bytes)) and launches (kernel, None), 100 ns apart."""
    lines: list[dict[str, Any]] = [{"ktrace": "1.0"}]
    for number, (name, stated) in enumerate(steps):
        row = {"record": "event", "source": "run", "timing": "measured", "pid": 7, "ts": 1000 + 100 * number}
        if stated is not None:
            about = {"kind": "range", "track": "NCCL", "comm": stated[0], "bytes": stated[1], "tid": 8, "dur": 20}
            lines.append(row | about | {"id": 10 * number, "name": name})
        else:
            launch = {"kind": "api", "name": "cuLaunchKernelEx", "tid": 8, "dur": 10, "correlation": number}
            kernel = {"kind": "kernel", "name": name, "device": 0, "stream": 3, "dur": 50, "correlation": number}
            lines.append(row | launch | {"id": 10 * number})
            lines.append(row | kernel | {"id": 10 * number + 1, "ts": 5000 + 100 * number})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


REDUCE, GATHER, GENERIC = "ncclDevKernel_AllReduce_Sum_f16", "ncclDevKernel_AllGather_RING", "ncclDevKernel_Generic"


def test_the_only_range_since_the_last_launch_names_the_kernel(tmp_path: Path) -> None:
    steps = [
        ("ncclAllReduce", ("a", 4096)),
        (REDUCE, None),
        ("ncclBroadcast", ("b", 64)),
        (GENERIC, None),
        (REDUCE, None),  # of no range
    ]
    expected = [("all_reduce", "", None, 1), ("all_reduce", "a", 4096, 1), ("broadcast", "b", 64, 1)]
    assert collectives(trace(tmp_path / "run.jsonl", steps)) == expected


def test_a_group_of_several_names_none(tmp_path: Path) -> None:
    steps = [("ncclAllReduce", ("a", 4096)), ("ncclAllReduce", ("b", 8192)), (REDUCE, None), (REDUCE, None)]
    assert collectives(trace(tmp_path / "run.jsonl", steps)) == [("all_reduce", "", None, 2)]


def test_a_range_of_another_operation_names_none(tmp_path: Path) -> None:
    steps = [("ncclAllGather", ("a", 4096)), (REDUCE, None)]
    assert collectives(trace(tmp_path / "run.jsonl", steps)) == [("all_reduce", "", None, 1)]


def test_the_whole_of_a_gather_needs_the_number_of_ranks(tmp_path: Path) -> None:
    steps = [("ncclAllGather", ("a", 4096)), (GATHER, None)]
    assert collectives(trace(tmp_path / "run.jsonl", steps)) == [("all_gather", "a", None, 1)]


def test_a_sample_of_nsight_systems() -> None:
    path = SAMPLES / "nsys/schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite"
    assert collectives(path) == [("all_reduce", "77", 4096, 1)]
