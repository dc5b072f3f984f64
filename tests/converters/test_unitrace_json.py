"""unitrace's JSON: figures computed here with json, devices, launches, shapes of both backends."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ktrace
from ktrace.input.detection import detect

SAMPLES = Path(__file__).parent.parent.parent / "samples" / "unitrace-json"
SAMPLE = SAMPLES / "two-backends-a-tile-and-mpi.json"
CUT = SAMPLES / "killed-before-the-end.json"
LAST = 2**32 - 1


@pytest.fixture(scope="module")
def source() -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(SAMPLE.read_text(), parse_float=Decimal)["traceEvents"]
    return events


@pytest.fixture(scope="module")
def events() -> pd.DataFrame:
    return ktrace.read(SAMPLE).events


def device_work(events: pd.DataFrame) -> pd.DataFrame:
    return events[events["cat"] == "gpu_op"].sort_values("ts")


def test_device_work_has_the_times_devices_and_queues_of_the_source(
    source: list[dict[str, Any]], events: pd.DataFrame
) -> None:
    expected = sorted(
        [int(event["ts"] * 1000), int(event["dur"] * 1000), LAST - event["pid"], LAST - event["tid"]]
        for event in source
        if event.get("cat") == "gpu_op"
    )
    assert device_work(events)[["ts", "dur", "device", "stream"]].astype(int).to_numpy().tolist() == expected
    assert len(expected) == 5


def test_copies_fills_and_barriers_are_no_kernels(events: pd.DataFrame) -> None:
    work = device_work(events)
    assert work["kind"].tolist() == ["memcpy", "kernel", "sync", "kernel", "memset"]
    assert work["name"].tolist() == [
        "zeCommandListAppendMemoryCopy(M2D)",
        "at::f<int, 4>(x)",
        "zeCommandListAppendBarrier",
        "GEMM",
        "zeCommandListAppendMemoryFill(D)",
    ]
    assert work["bytes"].dropna().astype(int).tolist() == [4096, 65536]
    assert work["copy_kind"].dropna().tolist() == ["HtoD"]


def test_groups_are_the_grid_and_work_items_of_opencl_are_divided(events: pd.DataFrame) -> None:
    kernels = device_work(events)[device_work(events)["kind"] == "kernel"]
    shape = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]
    assert kernels[shape].astype(int).to_numpy().tolist() == [[12, 3, 1, 256, 2, 1], [16, 64, 1, 64, 1, 1]]
    assert [json.loads(args)["simd"] for args in kernels["args"]] == [32, 16]
    assert json.loads(kernels["args"].tolist()[1])["global_size"] == [1000, 64, 1]
    assert json.loads(device_work(events)["args"].tolist()[4]) == {"id": "9", "tile": 1}


def test_calls_ranges_and_marks_of_the_host(source: list[dict[str, Any]], events: pd.DataFrame) -> None:
    host = events[events["pid"] == 7815]
    calls = [event["name"] for event in source if event.get("cat") == "cpu_op" and event["ph"] == "X"]
    assert host[host["kind"] == "api"]["name"].tolist() == calls
    ranges = host[host["kind"] == "range"].sort_values("ts")
    assert ranges[["name", "dur"]].to_numpy().tolist() == [["epoch 1", 998_750], ["ioctl", 2_500]]
    assert host[host["kind"] == "instant"]["name"].tolist() == ["checkpoint"]


def test_flows_to_the_device_are_launches_with_two_ends() -> None:
    links = ktrace.read(SAMPLE).links
    launches = links[links["link"] == "launch"]
    ends = {(row.key, row.role, pd.isna(row.device)) for row in launches.itertuples()}
    assert {("Flow_H2D_2_0/dep/2", "out", True), ("Flow_H2D_2_0/dep/2", "in", False)} <= ends
    assert set(links["role"]) == {"out", "in"}
    assert len(links) == 9 and len(launches) == 5


def test_devices_and_queues_have_the_names_of_their_processes_and_threads() -> None:
    catalog = ktrace.read(SAMPLE).catalog
    devices = catalog[catalog["entity"] == "device"]
    assert devices["device"].astype(int).tolist() == [0, 1]
    assert devices["name"].tolist()[0].startswith("RANK 0 DEVICE<node7>[Intel(R) Data Center GPU Max 1100]")
    assert catalog[catalog["entity"] == "stream"]["name"].tolist() == [
        "Thread 7816 L0 CCS<0,0>",
        "CL Queue<0x55d0>",
        "L0",
    ]
    assert catalog[catalog["entity"] == "process"]["pid"].astype(int).tolist() == [7815]


def test_a_list_without_an_end_is_read_up_to_the_cut() -> None:
    trace = ktrace.read(CUT)
    assert "cut" in trace.report.issues
    whole = CUT.read_text().count('"dur"')
    assert len(trace.events) == whole == 3


CALL = '{"ph": "X", "tid": 1, "pid": 1, "name": "aten::add", "cat": "cpu_op", "ts": 1.0, "dur": 2.0}'
HOST = '{"ph": "M", "name": "process_name", "pid": 1, "ts": 5.0, "args": {"name": "HOST<a>"}}'


@pytest.mark.parametrize(("events", "name"), [(CALL, "kineto"), (f"{HOST},\n{CALL}", "unitrace-json")])
def test_calls_alone_are_told_from_kinetos(tmp_path: Path, events: str, name: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(f'{{ "traceEvents":[\n{events}\n]\n}}\n')
    found = detect(path)
    assert found[0].format == name
    assert len(found) == 1 or found[0].score > found[1].score


def test_what_ktrace_writes_of_it_is_not_unitraces(tmp_path: Path) -> None:
    out = tmp_path / "out.trace.json"
    ktrace.convert(SAMPLE, out)
    assert detect(out)[0].format == "chrome"
