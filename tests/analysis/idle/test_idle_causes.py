"""Why devices are idle: the cause of each gap and what the host did in it, against hand figures and plain loops."""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED
from idle_traces import Row, end_of, gaps, host, work, written
from nightly import few
from real_traces import at_hand

import ktrace
from ktrace.analysis.questions.idle import DeviceIdle, IdleAnswer
from ktrace.analysis.work.gaps import CAUSES

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
        "launch delay": ("", 3_000),
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


@pytest.mark.parametrize(
    ("then", "cause"), [("cudaDeviceSynchronize", "host synchronised"), ("read_input", "host late")]
)
def test_a_host_that_waits_for_one_device_after_the_other(tmp_path: Path, then: str, cause: str) -> None:
    """A device has nothing to do while its host waits for another one: that is no late launch."""
    rows = [
        host("launch", 0, 2_000, 1),
        host("cudaDeviceSynchronize", 4_000, 22_000),
        work("gemm", 3_000, 20_000, 1),
        host("launch", 23_000, 25_000, 2),
        work("gemm", 26_000, 55_000, 2, device=1),
        host(then, 25_000, 57_000),
        host("launch", 58_000, 60_000, 3),
        work("norm", 62_000, 70_000, 3),
    ]
    summary = ktrace.summary(written(tmp_path / "run.jsonl", rows), by=["idle"])
    first, _ = summary.answers["idle"].devices
    assert {one.cause: one.time for one in first.causes} == {cause: 42_000}


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


@pytest.mark.parametrize(
    ("step", "meanwhile", "cause"),
    [("ProfilerStep#3", False, "host synchronised"), ("step", False, "host synchronised"), ("step", True, "host late")],
)
def test_a_wait_of_another_thread(tmp_path: Path, step: str, meanwhile: bool, cause: str) -> None:
    """As that of autograd, before it hands over: the launching thread is in its step, and else in nothing until then.

    A thread that computes in an operator when the gap begins doesn't wait for the other one.
    """
    rows = [
        host(step, 0, 100_000, kind="range"),
        host("launch", 0, 2_000, 1, tid=2),
        host("cudaStreamSynchronize", 2_500, 22_000, tid=2),
        *([host("aten::add", 10_000, 28_000, kind="op")] if meanwhile else []),
        work("gemm", 3_000, 20_000, 1),
        host("launch", 30_000, 32_000, 2),
        work("norm", 35_000, 40_000, 2),
    ]
    assert by_cause(only(tmp_path, rows)) == {cause: (15_000, 1, 15_000)}


@pytest.mark.parametrize(
    ("loader", "until", "cause"),
    [
        ("_MultiProcessingDataLoaderIter", 29_000, "host late"),
        ("_MultiProcessingDataLoaderIter", 25_000, "host synchronised"),
        ("_SingleProcessDataLoaderIter", 29_000, "host synchronised"),
    ],
)
def test_a_loader_that_is_late_after_a_wait(tmp_path: Path, loader: str, until: int, cause: str) -> None:
    """Workers of a loader would have been no sooner without the wait; what the thread loads itself would have."""
    rows = [
        host("launch", 0, 2_000, 1),
        host("cudaDeviceSynchronize", 3_000, 22_000),
        work("gemm", 3_000, 20_000, 1),
        host(f"enumerate(DataLoader)#{loader}.__next__", 22_500, until, kind="range"),
        host("launch", 30_000, 32_000, 2),
        work("norm", 35_000, 40_000, 2),
    ]
    assert by_cause(only(tmp_path, rows)) == {cause: (15_000, 1, 15_000)}


@pytest.mark.parametrize(("wait", "cause"), [(True, "dependency"), (False, "unknown")])
def test_work_that_was_queued(tmp_path: Path, wait: bool, cause: str) -> None:
    """Short gaps are launch overhead; in long ones work may have waited for an event or its graph, if there was one."""
    rows = [
        host("launch", 0, 1_000, 1),
        host("launch", 1_000, 2_000, 2),
        host("cudaGraphLaunch", 2_000, 3_000, 3),
        work("a", 4_000, 10_000, 1),
        work("b", 11_500, 20_000, 2),
        work("c", 30_001, 40_000, 3),
        *([host("cudaStreamWaitEvent", 40_100, 40_200)] if wait else []),
        host("launch", 40_500, 41_000, 4),
        work("d", 90_000, 91_000, 4),
        work("e", 92_000, 93_000),
    ]
    device = only(tmp_path, rows)
    queued = {one.name: (one.launched_by, one.time, one.gaps) for found in device.causes for one in found.queued}
    assert queued == {"c": ("cudaGraphLaunch", 10_001, 1)} | ({"d": ("launch", 50_000, 1)} if wait else {})
    expected = {"dependency": [10_001], "unknown": [1_000], "launch overhead": [1_500]}
    expected[cause] = [50_000, *expected[cause]]
    assert by_cause(device) == {word: (sum(some), len(some), max(some)) for word, some in expected.items()}


@pytest.mark.parametrize(
    ("call", "returned", "causes"),
    [
        ("hipGraphLaunch", 3_000, {"between graph nodes": (21_000, 2, 20_000)}),
        ("hipGraphLaunch", 35_500, {"between graph nodes": (1_000, 1, 1_000), "host late": (20_000, 1, 20_000)}),
        ("launch", 3_000, {"launch overhead": (1_000, 1, 1_000), "dependency": (20_000, 1, 20_000)}),
    ],
)
def test_gaps_between_the_nodes_of_a_graph(
    tmp_path: Path, call: str, returned: int, causes: dict[str, tuple[int, int, int]]
) -> None:
    """They have a cause of their own, unless the call that launches the nodes one by one hasn't got so far."""
    rows = [
        host(call, 0, returned, 1),
        work("a", 4_000, 5_000, 1),
        work("b", 6_000, 15_000, 1),
        work("c", 35_000, 36_000, 1),
    ]
    assert by_cause(only(tmp_path, rows)) == causes


@pytest.mark.parametrize(("more", "cause"), [([], "launch overhead"), (["cudaStreamWaitEvent"], "dependency")])
def test_one_stream_without_a_wait_has_no_dependency(tmp_path: Path, more: list[str], cause: str) -> None:
    """The gap is a little longer than what a launch explains; an event that the stream waits for explains it, too."""
    rows = [
        host("launch", 0, 1_000, 1),
        work("a", 4_000, 50_000, 1),
        *(host(name, 1_100, 1_200) for name in more),
        host("launch", 1_500, 2_000, 2),
        work("b", 62_000, 90_000, 2),
    ]
    assert by_cause(only(tmp_path, rows)) == {cause: (12_000, 1, 12_000)}


@pytest.mark.parametrize(
    ("lost", "cause"),
    [
        ("cudaLaunchKernel", "not recorded"),
        ("cudaMalloc", "host late"),
        ("cudaGraphLaunch", "host late"),
        (None, "host late"),
    ],
)
def test_a_launch_without_work_leaves_a_gap_unexplained(tmp_path: Path, lost: str | None, cause: str) -> None:
    """Its kernel may have run in the gap, if calls of its name have work as a rule; other calls launch nothing."""
    rows: list[Row] = []
    for number in range(5):
        at = 100_000 * number
        rows += [
            host("cudaLaunchKernel", at, at + 1_000, number + 1),
            work("gemm", at + 2_000, at + 90_000, number + 1),
        ]
    rows += [host(lost, 492_000, 493_000, 9)] if lost else []
    rows += [host("cudaLaunchKernel", 500_000, 501_000, 6), work("norm", 502_000, 503_000, 6)]
    summary = ktrace.summary(written(tmp_path / "run.jsonl", rows), by=["idle", "critical-path"])
    found = summary.answers["idle"]
    assert isinstance(found, IdleAnswer)
    causes = by_cause(found.devices[0])
    late = 4 + (cause == "host late")
    assert causes.pop("host late") == (12_000 * late, late, 12_000)
    assert causes == ({cause: (12_000, 1, 12_000)} if cause == "not recorded" else {})
    path = summary.answers["critical-path"].path.to_pylist()
    assert ((490_000, cause) in [(one["ts"], one["kind"]) for one in path]) is (cause == "not recorded")
    notes = " ".join(note for table in summary.tables() for note in table.notes)
    assert ("the trace lacks work that calls launched" in notes) is (cause == "not recorded")


@pytest.mark.parametrize(("latency", "cause"), [(1_500, "dependency"), (5_000, "launch overhead")])
def test_what_a_launch_needs_is_taken_from_the_trace(tmp_path: Path, latency: int, cause: str) -> None:
    """A gap of 12 us between queued work: it is longer than three launches of 1.5 us, not longer than three of 5 us."""
    rows: list[Row] = []
    for number in range(9):
        at = 100_000 * number
        rows += [host("launch", at, at + 1_000, number + 1)]
        rows += [work("gemm", at + 1_000 + latency, at + 50_000, number + 1)]
    rows += [host("cudaStreamWaitEvent", 801_100, 801_200), host("launch", 801_300, 802_000, 10)]
    rows += [work("norm", 862_000, 870_000, 10)]
    device = only(tmp_path, rows)
    assert by_cause(device)[cause] == (12_000, 1, 12_000)
    assert (device.latency, device.launches) == (latency, 8)


@pytest.mark.parametrize("synced", [False, True])
def test_what_was_queued_before_the_recording(tmp_path: Path, synced: bool) -> None:
    """A small copy of another stream is through at once; the first kernel begins 3 ms after its launch.

    If the host has waited for the whole device before, nothing was queued.
    """
    rows = [
        host("launch", 0, 1_000, 1),
        work("copy", 3_000, 4_000, 1, stream=2, kind="memcpy"),
        *([host("cudaDeviceSynchronize", 1_200, 20_000)] if synced else []),
        host("launch", 30_000, 32_000, 2),
        work("gemm", 3_000_000, 3_100_000, 2),
        host("launch", 3_120_000, 3_122_000, 3),
        work("gemm", 3_124_000, 3_150_000, 3),
    ]
    causes = by_cause(only(tmp_path, rows))
    assert causes.pop("host late") == (24_000, 1, 24_000)
    assert causes == {"dependency" if synced else "queued before the recording": (2_996_000, 1, 2_996_000)}
    verdict = " ".join(ktrace.summary(tmp_path / "run.jsonl").verdict)
    assert ("the work launched before profiling started isn't in the trace" in verdict) is not synced
    assert ("Look first at blocked work" in verdict) is synced
    host_first = "Look first at late launches (launch-bound): 24.0 us, 15.9% of the devices' time in"
    assert (host_first in verdict) is not synced


def test_work_before_all_launches(tmp_path: Path) -> None:
    """What begins before any call that launched work was launched before the recording; others are unknown."""
    rows = [
        work("gemm", 0, 5_000),
        work("gemm", 9_000, 10_000),
        host("launch", 11_000, 12_000, 1),
        work("gemm", 14_000, 20_000, 1),
        work("gemm", 24_000, 30_000),
    ]
    assert by_cause(only(tmp_path, rows)) == {
        "queued before the recording": (4_000, 1, 4_000),
        "host late": (4_000, 1, 4_000),
        "unknown": (4_000, 1, 4_000),
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
@pytest.mark.parametrize("seed", few(range(4), 2))
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


#: Real traces: idle time by cause, by loops over the JSON that aren't ktrace's; times of calls and work decide.
KINETO = {
    "sglang_Qwen3-8B_decode.json.gz": {"queued before the recording": 463_295_405, "dependency": 0},
    "graph_execution.json.gz": {"dependency": 0, "launch overhead": 362_354, "between graph nodes": 18_270},
    "gpu_only_trace.json.gz": {"dependency": 0},
    "nccl_data.json.gz": {"queued before the recording": 0},
    "rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": {"queued before the recording": 0},
}


@pytest.mark.parametrize("name", KINETO)
def test_real_gaps_against_plain_arithmetic(name: str) -> None:
    path = at_hand(SHARED / "corpus/pytorch_kineto" / name)
    (device,) = answer(path).devices
    found = {one.cause: one.time for one in device.causes}
    assert {cause: found.get(cause, 0) for cause in KINETO[name]} == KINETO[name]
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    work = [one for one in events if one.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and one["ph"] == "X"]
    calls = {one["args"]["correlation"]: one for one in events if one.get("cat") in ("cuda_runtime", "cuda_driver")}
    longest = queued_most = between = 0.0
    reached, graphs = None, set()
    for one in sorted(work, key=lambda one: float(one["ts"])):
        begin, call = float(one["ts"]), calls.get(one["args"]["correlation"])
        if reached is not None and begin > reached and call:
            longest = max(longest, begin - reached)
            queued_most = max(queued_most, begin - max(reached, float(call["ts"]) + call["dur"]))
            if one["args"]["correlation"] in graphs and float(call["ts"]) + call["dur"] <= reached:
                between += begin - reached
        graphs |= {one["args"]["correlation"]} if call and "GraphLaunch" in call["name"] else set()
        reached = max(reached or 0.0, begin + one["dur"])
    assert max(one.longest for one in device.causes) == pytest.approx(1000 * longest, abs=1000)
    assert found.get("between graph nodes", 0) == pytest.approx(1000 * between, abs=1000)
    assert (queued_most > 1000) is ("queued before the recording" in found)  # us: only one waits longer than a ms


@pytest.mark.parametrize(
    ("numbers", "read", "cause"),
    [
        ([0, 1, 2, 10, 11, 12, 20, 21, 22], False, "not recorded"),  # windows of a schedule
        ([0, 1, 2, 10, 11, 12, 20, 21, 22], True, "host late"),  # the host was recorded in between
        ([0, 1, 2, 3, 4, 5, 6, 7, 8], False, "host late"),  # every third step is followed by a pause
        ([0, 10, 20, 30, 40, 50, 60, 70, 80], False, "host late"),  # only each tenth step has a number
    ],
)
def test_steps_between_windows_are_not_the_hosts(tmp_path: Path, numbers: list[int], read: bool, cause: str) -> None:
    rows: list[Row] = []
    now = 0
    for place, number in enumerate(numbers):
        begin = now
        for at in range(4):
            correlation = 4 * place + at + 1
            rows += [host("cudaLaunchKernel", now, now + 3_000, correlation)]
            rows += [work("gemm", now + 6_000, now + 106_000, correlation)]
            now += 110_000
        rows.append(host(f"ProfilerStep#{number}", begin, now, kind="range"))
        if place % 3 == 2:
            rows += [host("read", now + 1_000, now + 1_900_000)] * read
            now += 2_000_000
    causes = by_cause(only(tmp_path, rows))
    assert max(causes, key=lambda one: causes[one][0]) == cause
    pauses = 2 * (4_000 + 2_000_000 + 6_000)
    assert causes[cause][0] == pauses if cause == "not recorded" else causes[cause][0] > 4_000_000 - 100_000
