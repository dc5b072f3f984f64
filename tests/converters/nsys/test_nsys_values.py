"""Nsight Systems: values that SQLite and nsys itself cut or turn, and the numbers of devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nsys_samples as made
import nsys_values_samples as values
import pytest
from conftest import SAMPLES
from nsys_samples import PID, TID

import ktrace

SAMPLE = SAMPLES / "nsys" / "schema-3.11-cut-metrics-great-payloads-colours-addresses.sqlite"
Row = dict[str, Any]


def rows(trace: ktrace.Trace, record: str = "events") -> list[Row]:
    found: list[Row] = trace.to_arrow()[record].to_pylist()
    return found


def args(row: Row) -> Row:
    found: Row = json.loads(row["args"] or "{}")
    return found


@pytest.fixture(scope="module")
def trace() -> ktrace.Trace:
    return ktrace.read(SAMPLE)


def test_metrics_that_nsys_cut_are_whole(trace: ktrace.Trace) -> None:
    found = [(row["ts"], row["name"], row["value"]) for row in rows(trace) if row["kind"] == "counter"]
    assert found == [(at, values.METRICS[name][0], value) for at, name, value in values.MEASURED]
    left = [args(row).get("value") for row in rows(trace) if row["kind"] == "counter"]
    assert left == [705_032_704, None, -1_294_967_296, None, None, None]
    assert trace.report.issues["wrapped"].rows == 2
    assert trace.report.issues["folded"].rows == 3


def test_a_value_below_zero_without_a_whole_one_is_told(tmp_path: Path) -> None:
    tables = values.tables()
    del tables["GENERIC_EVENTS"]
    trace = ktrace.read(made.make(tmp_path / "a.sqlite", tables, more=values.MORE))
    assert [row["value"] for row in rows(trace) if row["kind"] == "counter"][2] == -1_294_967_296
    [(place, detail)] = trace.report.issues["wrapped"].places
    assert (place, "doesn't have the full value" in detail) == ("GPU_METRICS row 3", True)


def test_a_value_that_is_another_metrics_is_left_alone(tmp_path: Path) -> None:
    """900 is what 32 bits leave of another metric's 4,294,968,196 at the same time."""
    tables = values.tables()
    whole = (1 << 32) + 42
    tables["GENERIC_EVENTS"][2]["data"] = json.dumps({"PCIe TX Throughput": str(whole), "SMs Active": "42"})
    tables["GPU_METRICS"][4]["value"] = 42
    trace = ktrace.read(made.make(tmp_path / "a.sqlite", tables, more=values.MORE))
    assert [row["value"] for row in rows(trace) if row["kind"] == "counter"][4:] == [whole, 42]


def test_payloads_of_64_bits_and_colours(trace: ktrace.Trace) -> None:
    red, green = (args(row) for row in rows(trace) if row["name"] in ("red", "green"))
    assert red == {"color": "#FFFF0000", "uint64Value": values.GREAT}
    assert green == {"color": "#0076B900", "uint64Value": values.SMALL}


def test_a_colour_that_is_a_text_stays_as_it_is(tmp_path: Path) -> None:
    tables = values.tables()
    for row in tables["NVTX_EVENTS"]:
        if row.get("text") == "red":
            row["color"] = "crimson"
    trace = ktrace.read(made.make(tmp_path / "a.sqlite", tables, more=values.MORE))
    red, green = (args(row) for row in rows(trace) if row["name"] in ("red", "green"))
    assert (red["color"], green["color"]) == ("crimson", "#0076B900")


def test_ranges_of_processes_say_who_began_and_who_ended_them(trace: ktrace.Trace) -> None:
    thread, process = (row for row in rows(trace) if row["name"].startswith("by another"))
    assert (thread["pid"], thread["tid"], thread["track"]) == (PID, None, "NVTX")
    assert args(thread) == {"tid": TID, "endTid": TID + 1, "rangeId": 1}
    assert args(process) == {"tid": TID, "endTid": TID, "endPid": PID + 3, "rangeId": 1}


def test_frames_have_their_addresses(trace: ktrace.Trace) -> None:
    stacks = {row["name"]: json.loads(row["facts"]) for row in rows(trace, "catalog") if row["entity"] == "stack"}
    shown = [stacks[args(row)["stack"]] for row in rows(trace) if row["kind"] == "sample"]
    assert [stack["frames"] for stack in shown] == [["start", "main"]] * 3
    innermost, outermost = values.ADDRESSES
    assert [stack["addresses"] for stack in shown] == [
        *[[hex(outermost), hex(innermost)]] * 2,
        [hex(outermost + 16), hex(innermost + 16)],
    ]


def test_when_the_session_began_is_a_fact(trace: ktrace.Trace) -> None:
    source = next(row for row in rows(trace, "catalog") if row["entity"] == "source")
    assert json.loads(source["facts"])["session_start"] == values.tables()["TARGET_INFO_SESSION_START_TIME"][0]


# Which number a device has.


def devices(tmp_path: Path, known: list[tuple[int, int, int]], work: list[tuple[int, int]]) -> list[Row]:
    """Kernels of (pid, deviceId) in a database that says (gpu, ordinal, pid), by their rows."""
    text = made.Strings()
    kernels = [
        made.kernel(text, "k", 10 * number, 10 * number + 5, 1 + number) | {"deviceId": ordinal, "globalPid": pid << 24}
        for number, (pid, ordinal) in enumerate(work)
    ]
    metric = {"timestamp": 5, "metricId": 1, "value": 9}
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": gpu, "cudaId": ordinal, "pid": pid} for gpu, ordinal, pid in known],
        "GPU_METRICS": [metric | {"typeId": gpu} for gpu in range(4)],
        "StringIds": text.rows(),
    }
    return rows(ktrace.read(made.make(tmp_path / "a.sqlite", tables)))


def numbers(found: list[Row], kind: str) -> list[tuple[int | None, Row]]:
    return [(row["device"], args(row)) for row in found if row["kind"] == kind]


def place_of(found: list[tuple[int | None, Row]], key: str) -> list[tuple[int | None, int | None]]:
    return [(device, said.get(key)) for device, said in found]


def test_the_device_is_cudas_as_in_nvidias_reports(tmp_path: Path) -> None:
    found = devices(tmp_path, [(3, 0, PID), (2, 1, PID)], [(PID, 0), (PID, 1)])
    assert place_of(numbers(found, "kernel"), "gpuId") == [(0, 3), (1, 2)]
    assert place_of(numbers(found, "counter"), "gpuId") == [(None, 0), (None, 1), (1, 2), (0, 3)]


def test_an_ordinal_of_several_gpus_is_no_device(tmp_path: Path) -> None:
    """Two processes see one GPU each, and each calls it 0."""
    found = devices(tmp_path, [(2, 0, 7), (3, 0, 8)], [(7, 0), (8, 0)])
    assert place_of(numbers(found, "kernel"), "deviceId") == [(2, 0), (3, 0)]
    assert place_of(numbers(found, "counter"), "gpuId") == [(0, None), (1, None), (2, None), (3, None)]


def test_parts_of_a_gpu_are_devices(tmp_path: Path) -> None:
    """Ordinals 0 and 1 are two instances (MIG) of GPU 0."""
    found = devices(tmp_path, [(0, 0, PID), (0, 1, PID)], [(PID, 0), (PID, 1)])
    assert place_of(numbers(found, "kernel"), "gpuId") == [(0, None), (1, 0)]
    assert place_of(numbers(found, "counter"), "gpuId") == [(0, None), (None, 1), (2, None), (3, None)]


def test_the_facts_of_a_gpu_are_those_of_its_device(tmp_path: Path) -> None:
    trace = ktrace.read(made.make(tmp_path / "a.sqlite", made.new(), more=made.MORE))
    found = {row["device"]: json.loads(row["facts"]) for row in rows(trace, "catalog") if row["entity"] == "device"}
    assert {number: (facts.get("gpu"), facts["bus_id"]) for number, facts in found.items()} == {
        0: (3, "0000:04:00.0"),
        2: (None, "0000:03:00.0"),
    }
