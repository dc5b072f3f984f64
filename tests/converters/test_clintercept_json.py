"""The OpenCL Intercept Layer's JSON: figures computed here with json, queues, stages, ids."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ktrace
from ktrace.input.detection import detect

SAMPLES = Path(__file__).parent.parent.parent / "samples" / "clintercept-json"
SAMPLE = SAMPLES / "queues-of-two-devices-stages-and-kernels.json"
OLD = SAMPLES / "old-queues-and-no-end.json"


@pytest.fixture(scope="module")
def slices() -> list[dict[str, Any]]:
    events = json.loads(SAMPLE.read_text(), parse_float=Decimal)
    return sorted((event for event in events if event["ph"] == "X"), key=lambda event: event["ts"])


@pytest.fixture(scope="module")
def events() -> pd.DataFrame:
    return ktrace.read(SAMPLE).events.sort_values("ts")


def test_all_slices_have_their_times(slices: list[dict[str, Any]], events: pd.DataFrame) -> None:
    expected = [[int(event["ts"] * 1000), int(event["dur"] * 1000)] for event in slices]
    assert events[["ts", "dur"]].to_numpy().tolist() == expected


def test_whole_tids_are_threads_and_the_others_devices(slices: list[dict[str, Any]], events: pd.DataFrame) -> None:
    host = [isinstance(event["tid"], int) for event in slices]
    assert events["device"].isna().tolist() == host
    assert (events["kind"] == "api").tolist() == host
    device = events[events["device"].notna()]
    assert device["kind"].tolist() == ["kernel", "memset", "memcpy", "range", "range", "kernel"]
    assert device["device"].astype(int).tolist() == [0, 1, 0, 1, 1, 1]
    assert [None if pd.isna(stream) else int(stream) for stream in device["stream"]] == [1, 2, None, 2, 2, 2]


def test_a_call_and_its_work_have_the_same_correlation_id(events: pd.DataFrame) -> None:
    call = events[events["name"].str.startswith("clEnqueueNDRangeKernel")].iloc[0]
    kernels = events[events["kind"] == "kernel"]
    assert kernels["correlation"].astype(int).tolist() == [2, 4]
    assert call["correlation"] == 2
    assert ktrace.read(SAMPLE).report.reader.removed["folded"] == 2  # the flow repeats it


def test_only_the_execution_is_work_and_its_name_is_the_kernels(events: pd.DataFrame) -> None:
    kernels = events[events["kind"] == "kernel"]
    assert kernels["name"].tolist() == ["mm", "mm"]
    assert kernels["dur"].sum() == 9125 + 1500
    assert kernels[["grid_x", "block_x", "block_y"]].iloc[0].astype(int).tolist() == [4, 16, 2]
    assert json.loads(kernels["args"].tolist()[0])["global_size"] == [64, 2]
    assert events[events["kind"] == "range"]["correlation"].isna().all()


def test_devices_and_queues_have_names() -> None:
    catalog = ktrace.read(SAMPLE).catalog
    assert catalog[catalog["entity"] == "device"]["name"].tolist() == [
        "Intel(R) Graphics (CL_DEVICE_TYPE_GPU)",
        "cpu-harlow (CL_DEVICE_TYPE_CPU)",
    ]
    assert catalog[catalog["entity"] == "stream"]["stream"].astype(int).tolist() == [1, 2]
    assert catalog[catalog["entity"] == "thread"]["tid"].astype(int).tolist() == [900]


def test_old_queues_and_a_list_without_an_end() -> None:
    trace = ktrace.read(OLD)
    assert "cut" in trace.report.issues
    assert trace.events[["kind", "dur"]].to_numpy().tolist() == [["api", 40_002], ["memcpy", 33_333], ["kernel", 7_125]]
    assert trace.events["stream"].astype(float).tolist()[1:] == [3, 3]
    assert "thread" not in set(trace.catalog["entity"])


def test_a_list_of_other_events_is_not_the_layers(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[\n{"ph":"X","pid":1,"tid":1,"name":"clFinish","ts":1.0,"dur":2.0}\n]\n')
    assert detect(path)[0].format == "chrome"
