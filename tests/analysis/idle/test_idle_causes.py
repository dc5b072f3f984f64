"""Why devices are idle: the cause of each gap and what the host did in it, against hand figures and plain loops."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED
from idle_traces import Row, end_of, gaps, host, work, written
from real_traces import at_hand

import ktrace
from ktrace.analysis.idle.gaps import CAUSES
from ktrace.analysis.idle.model import DeviceIdle, IdleAnswer

REAL = [
    SAMPLES / "kineto/one-step-of-training.pt.trace.json",
    SAMPLES / "nsys/schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite",
    SAMPLES / "rocpd/tracks-and-a-table-more-schema-4.db",
    SHARED / "corpus/pytorch_kineto/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    SHARED / "corpus/nsys_sqlite/h100_2gpu_1s.sqlite",
]


def answer(path: Path) -> IdleAnswer:
    found = ktrace.summary(path, by=["idle"]).answers["idle"]
    assert isinstance(found, IdleAnswer)
    return found


def by_cause(device: DeviceIdle) -> dict[str, tuple[int, int, int]]:
    """Time, gaps and longest of each cause."""
    return {one.cause: (one.time, one.gaps, one.longest) for one in device.causes}


def meanwhile(device: DeviceIdle, cause: str) -> dict[str, tuple[str, int]]:
    """The kind and time of what the host did."""
    [found] = [one for one in device.causes if one.cause == cause]
    return {span.name: (span.kind, span.time) for span in found.host}


def only(tmp_path: Path, rows: list[Row]) -> DeviceIdle:
    [device] = answer(written(tmp_path / "run.jsonl", rows)).devices
    return device


def test_a_late_host_and_what_it_did(tmp_path: Path) -> None:
    """The operator begins in the gap, allocates, launches; the kernel begins 3 us after the launch has returned."""
    device = only(
        tmp_path,
        [
            host("launch", 0, 2_000, 1),
            work("gemm", 3_000, 20_000, 1),
            host("aten::mm", 25_000, 62_000, kind="op"),
            host("cudaMalloc", 30_000, 50_000),
            host("launch", 52_000, 57_000, 2),
            work("norm", 60_000, 70_000, 2),
        ],
    )
    assert (device.span, device.idle) == (67_000, 40_000)
    assert by_cause(device) == {"host late": (40_000, 1, 40_000)}
    assert meanwhile(device, "host late") == {
        "cudaMalloc": ("api", 20_000),
        "aten::mm": ("op", 7_000),
        "no call or range": ("", 5_000),
        "launch": ("api", 5_000),
        "launched, on its way to the device": ("", 3_000),
    }


@pytest.mark.parametrize(("begin", "cause"), [(4_000, "host synchronised"), (18_000, "host late")])
def test_a_host_that_waited_as_long_as_it_needs_to_launch(tmp_path: Path, begin: int, cause: str) -> None:
    """Without the wait, it would have launched before the gap in the first case, in the second one not."""
    rows = [
        host("launch", 0, 2_000, 1),
        host("cudaDeviceSynchronize", begin, 22_000),
        work("gemm", 3_000, 20_000, 1),
        host("launch", 30_000, 32_000, 2),
        work("norm", 35_000, 40_000, 2),
    ]
    assert by_cause(only(tmp_path, rows)) == {cause: (15_000, 1, 15_000)}


@pytest.mark.parametrize(("tid", "cause"), [(1, "host synchronised"), (2, "host late")])
def test_a_copy_whose_call_returns_when_it_is_done(tmp_path: Path, tid: int, cause: str) -> None:
    """It keeps its own thread from launching, and no other."""
    rows = [
        host("hipMemcpyDtoHAsync", 0, 21_000, 1),
        work("copy", 3_000, 20_000, 1, kind="memcpy"),
        host("launch", 25_000, 27_000, 2, tid=tid),
        work("norm", 30_000, 40_000, 2),
    ]
    assert by_cause(only(tmp_path, rows)) == {cause: (10_000, 1, 10_000)}


def test_work_that_was_queued(tmp_path: Path) -> None:
    """Short gaps are launch overhead; in long ones the work waited for something else than the host."""
    rows = [
        host("launch", 0, 1_000, 1),
        host("launch", 1_000, 2_000, 2),
        host("cudaGraphLaunch", 2_000, 3_000, 3),
        work("a", 4_000, 10_000, 1),
        work("b", 11_500, 20_000, 2),
        work("c", 30_001, 40_000, 3),
        host("launch", 40_500, 41_000, 4),
        work("d", 90_000, 91_000, 4),
        work("e", 92_000, 93_000),
    ]
    device = only(tmp_path, rows)
    queued = [(one.name, one.launched_by, one.time, one.gaps) for one in device.causes[0].queued]
    assert queued == [("d", "launch", 50_000, 1), ("c", "cudaGraphLaunch", 10_001, 1)]
    assert by_cause(device) == {
        "dependency": (60_001, 2, 50_000),
        "launch overhead": (1_500, 1, 1_500),
        "unknown": (1_000, 1, 1_000),
    }


def test_a_long_launching_call_is_the_host(tmp_path: Path) -> None:
    """A call that was there before the gap and loads a module through it."""
    rows = [
        host("launch", 0, 1_000, 1),
        work("a", 2_000, 10_000, 1),
        host("cuLaunchKernel", 8_000, 95_000, 2),
        work("b", 97_000, 99_000, 2),
    ]
    device = only(tmp_path, rows)
    assert by_cause(device) == {"host late": (87_000, 1, 87_000)}
    assert meanwhile(device, "host late")["cuLaunchKernel"] == ("api", 85_000)


def test_streams_of_a_device_are_one_and_devices_are_apart(tmp_path: Path) -> None:
    rows = [
        *(host("launch", 10 * number, 10 * number + 5, number) for number in range(1, 5)),
        work("a", 1_000, 9_000, 1, stream=1),
        work("b", 8_000, 12_000, 2, stream=2),
        work("c", 13_000, 14_000, 3, stream=1),
        work("d", 2_000, 3_000, 4, device=1),
    ]
    first, second = answer(written(tmp_path / "run.jsonl", rows)).devices
    assert (first.label, by_cause(first)) == ("device 0", {"launch overhead": (1_000, 1, 1_000)})
    assert (second.label, second.idle, second.causes) == ("device 1", 0, ())


def test_names_without_numbers_are_one(tmp_path: Path) -> None:
    """The numbers of steps, of PyTorch's NVTX ranges, of Python's objects."""
    rows: list[Row] = []
    for number, name in enumerate(["ProfilerStep#{}", "aten::mm, op_id = {}, seq = 12", "<built-in at 0x7f{}>"] * 2):
        at = 100_000 * number
        rows += [
            host(name.format(number), at, at + 90_000, kind="range"),
            host("launch", at + 50_000, at + 51_000, number + 1),
        ]
        rows += [work("gemm", at + 51_000, at + 90_000, number + 1)]
    found = meanwhile(only(tmp_path, rows), "host late")
    assert {name: time for name, (_, time) in found.items() if name not in ("launch", "no call or range")} == {
        "ProfilerStep#N": 50_000,
        "aten::mm": 100_000,
        "<built-in>": 100_000,
    }


def chance(seed: int, *, crossing: bool) -> list[Row]:
    """A trace with nested operators (or crossing ones) on two threads, two devices with two streams."""
    dice = random.Random(seed)
    rows: list[Row] = []
    for tid in (1, 2):
        at = 0
        while at < 150_000:
            at += dice.randrange(0, 4_000)
            begin, inner = at, at + dice.randrange(0, 500)
            if dice.random() < 0.3:
                name = dice.choice(["cudaStreamSynchronize", "cudaMalloc"])
                rows.append(host(name, inner, inner + dice.randrange(0, 30_000), tid=tid))
                inner = end_of(rows[-1])
            call = host("cudaLaunchKernel", inner, inner + dice.randrange(1, 9_000), len(rows) + 1, tid=tid)
            at = end_of(call) + dice.randrange(0, 500)
            over = dice.randrange(0, 6_000) if crossing else 0
            rows += [host(f"aten::{dice.randrange(5)}", begin, at + over, kind="op", tid=tid), call]
            lag = dice.choice([-500, 0, 700, 5_000, 25_000])
            begun = max(call["ts"] + lag, 0)
            kind = dice.choice(["kernel", "memcpy"])
            known = call["correlation"] if dice.random() < 0.9 else None
            place = {"stream": dice.randrange(2), "device": dice.randrange(2)}
            rows.append(work("some", begun, begun + dice.randrange(1, 7_000), known, kind=kind, **place))
    starts = [row["ts"] for row in rows if "device" in row]
    assert len(rows) > 30
    return rows if len(starts) == len(set(starts)) else chance(seed + 1_000, crossing=crossing)


@pytest.mark.parametrize("crossing", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_random_trace_against_plain_loops(tmp_path: Path, seed: int, crossing: bool) -> None:
    rows = chance(seed, crossing=crossing)
    summary = ktrace.summary(written(tmp_path / "run.jsonl", rows), by=["idle"])
    found = summary.answers["idle"]
    assert isinstance(found, IdleAnswer)
    assert [one.device for one in found.devices] == [0, 1]
    for device, use in zip(found.devices, summary.devices, strict=True):
        assert (device.idle, device.span) == (use.idle, use.span)
        expected = gaps(rows, int(device.device or 0))
        groups: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for gap in expected:
            groups[gap["cause"]].append(gap)
        times = {cause: [gap["end"] - gap["begin"] for gap in some] for cause, some in groups.items()}
        assert by_cause(device) == {cause: (sum(some), len(some), max(some)) for cause, some in times.items()}
        for cause in device.causes:
            hosts: defaultdict[str, list[int]] = defaultdict(list)
            for gap in groups[cause.cause]:
                for name, time in gap["host"].items():
                    hosts[name].append(time)
            spans = {one.name: (one.time, one.gaps, one.longest) for one in cause.host}
            assert spans == {name: (sum(some), len(some), max(some)) for name, some in hosts.items()}


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name[:20])
def test_causes_add_up_to_the_idle_time(path: Path) -> None:
    summary = ktrace.summary(at_hand(path), by=["idle"])
    found = summary.answers["idle"]
    assert isinstance(found, IdleAnswer)
    assert [(one.label, one.idle, one.span) for one in found.devices] == [
        (use.label, use.idle, use.span) for use in summary.devices
    ]
    assert any(one.causes for one in found.devices)
    for device in found.devices:
        assert sum(one.time for one in device.causes) == device.idle
        assert {one.cause for one in device.causes} <= set(CAUSES)
        for cause in device.causes:
            assert sum(span.time for span in cause.host) in (0, cause.time)
            assert bool(cause.host) == (cause.cause in ("host late", "host synchronised"))
            assert sum(one.time for one in cause.queued) == (cause.time if cause.cause == "dependency" else 0)


def test_work_without_a_duration_at_the_edges(tmp_path: Path) -> None:
    """It bounds the time of the device, and divides no gap."""
    rows = [
        work("a", 0, 0),
        work("b", 1_000, 2_000),
        work("c", 2_500, 2_500),
        work("d", 3_000, 4_000),
        work("e", 6_000, 6_000),
    ]
    device = only(tmp_path, rows)
    assert (device.span, device.idle) == (6_000, 4_000)
    assert by_cause(device) == {"unknown": (4_000, 3, 2_000)}
