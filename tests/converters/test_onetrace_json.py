"""onetrace's JSON: figures computed here with json, queues, stages, OpenCL's sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ktrace
from ktrace.input.detection import detect

SAMPLES = Path(__file__).parent.parent.parent / "samples" / "onetrace-json"
CALLS = SAMPLES / "calls-and-queues-without-end.json"
STAGES = SAMPLES / "stages-and-kernels-as-threads.json"


def slices(path: Path) -> list[dict[str, Any]]:
    events = json.loads(path.read_text().rstrip().rstrip(",") + "]")
    return sorted((event for event in events if event["ph"] == "X"), key=lambda event: event["ts"])


@pytest.mark.parametrize("path", [CALLS, STAGES], ids=lambda path: path.stem)
def test_all_slices_have_their_times(path: Path) -> None:
    trace = ktrace.read(path)
    events = trace.events.sort_values("ts")
    expected = [[event["ts"] * 1000, event["dur"] * 1000] for event in slices(path)]
    assert events[["ts", "dur"]].to_numpy().tolist() == expected
    assert set(trace.report.issues) == {"cut"}  # the tool never closes the list; quotes are no repair


def test_threads_are_numbers_and_queues_are_streams() -> None:
    events = ktrace.read(CALLS).events.sort_values("ts")
    assert events["kind"].tolist() == ["api", "api", "api", "memcpy", "kernel", "sync"]
    assert events["tid"].dropna().astype(int).tolist() == [4322, 4322, 4323]
    assert events["stream"].dropna().astype(int).tolist() == [0, 0, 1]
    assert events["device"].dropna().astype(int).tolist() == [0, 0, 0]
    assert set(events["pid"]) == {4321}


def test_only_the_execution_is_work() -> None:
    events = ktrace.read(STAGES).events.sort_values("ts")
    kernels = events[events["kind"] == "kernel"]
    assert kernels[["name", "dur"]].to_numpy().tolist() == [["GEMM", 30_000], ["softmax<float>", 9_000]]
    assert pd.isna(kernels["stream"].tolist()[1])
    assert (events["kind"] == "range").sum() == 2


@pytest.mark.parametrize(
    ("command", "grid"),
    [("zeCommandListAppendMemoryCopy(M2D)", [16, 8, 1]), ("clEnqueueWriteBuffer", [1, 4, 1])],
)
def test_sizes_are_groups_or_of_opencl_work_items(tmp_path: Path, command: str, grid: list[int]) -> None:
    path = tmp_path / "run.json"
    path.write_text(
        CALLS.read_text().replace("zeCommandListAppend", "clEnqueue" if "cl" in command[:2] else "zeCommandListAppend")
    )
    kernel = ktrace.read(path).events.query("name == 'GEMM'").iloc[0]
    assert kernel[["grid_x", "grid_y", "grid_z"]].astype(int).tolist() == grid
    assert kernel[["block_x", "block_y", "block_z"]].astype(int).tolist() == [64, 2, 1]


def test_it_is_told_from_other_lists(tmp_path: Path) -> None:
    assert detect(CALLS)[0].format == "onetrace-json"
    path = tmp_path / "a.json"
    path.write_text("\n".join(line for line in CALLS.read_text().splitlines() if "start_time" not in line))
    assert detect(path)[0].format == "chrome"


def test_names_bytes_and_ids_are_those_of_the_text() -> None:
    events = ktrace.read(CALLS).events
    assert events["name"].tolist() == [
        *("zeInit", "zeCommandListAppendLaunchKernel", "zeCommandListAppendMemoryCopy(M2D)", "GEMM"),
        *("zeCommandListAppendBarrier", "zeEventHostSynchronize"),
    ]
    assert events["bytes"].dropna().tolist() == [4096]
    assert [json.loads(args)["id"] for args in events["args"]] == list("123456")
