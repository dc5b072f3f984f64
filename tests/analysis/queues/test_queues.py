"""How much is queued on streams, against a sweep in plain Python; what waits cost, against the answer "idle"."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED
from helpers.real_traces import at_hand

import ktrace
from ktrace.analysis.questions.idle import IdleAnswer
from ktrace.analysis.questions.queues import HostWait, QueueAnswer, StreamQueue, WaitsAnswer

REAL = (
    "pytorch_kineto/event_sync_trace.json.gz",
    "pytorch_kineto/sglang_Qwen3-8B_decode.json.gz",
    "pytorch_kineto/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "nsys_sqlite/h100_2gpu_1s.sqlite",
)
RUNTIME, STREAM = {"cat": "cuda_runtime", "pid": 1, "tid": 1}, 7


def event(name: str, ts: int, dur: int, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "ts": ts / 1000, "dur": dur / 1000, **RUNTIME, **more}


def launch(number: int, called: int, dur: int, began: int, lasts: int, name: str = "cudaLaunchKernel") -> list[Any]:
    args = {"device": 0, "stream": STREAM, "correlation": number}
    kernel = event("gemm", began, lasts, cat="kernel", pid=0, tid=STREAM, args=args)
    return [event(name, called, dur, args={"correlation": number}), kernel]


def trace(tmp_path: Path, events: list[Any]) -> Path:
    path = tmp_path / "run.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": events}))
    return path


def queues(path: Path) -> list[StreamQueue]:
    found = ktrace.summary(path, by=["queue"]).answers["queue"]
    assert isinstance(found, QueueAnswer)
    return found.streams


def waits(path: Path) -> list[HostWait]:
    found = ktrace.summary(path, by=["wait"]).answers["wait"]
    assert isinstance(found, WaitsAnswer)
    return found.waits


@pytest.mark.parametrize("seed", range(5))
def test_a_queue_is_what_a_sweep_finds(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    events, spans, at, free = [], [], 1_000_000, 0
    for number in range(1, 60):
        at += rng.choice((2_000, 3_000, 40_000))
        began = max(free, at + rng.choice((0, 5_000)))
        lasts = rng.choice((1_000, 10_000, 30_000))
        free = began + lasts
        spans.append((at, began))
        events += launch(number, at, 1_000, began, lasts)
    (found,) = queues(trace(tmp_path, events))
    times = sorted({time for span in spans for time in span})
    depth = [sum(called <= time < began for called, began in spans) for time in times]
    steps = [after - time for time, after in pairwise(times)]
    area = sum(count * step for count, step in zip(depth, steps, strict=False))
    empty = sum(step for count, step in zip(depth, steps, strict=False) if not count)
    span = times[-1] - times[0]
    assert (found.launches, found.longest, found.empty, found.span) == (len(spans), max(depth), empty, span)
    assert found.mean == pytest.approx(area / span)


def full(copies: bool = False) -> list[Any]:
    """A thousand launches in a row, and one that returns only after 2 ms; or it is a copy."""
    events, at = [], 0
    for number in range(1, 1_001):
        events += launch(number, at, 1_000, 20_000_000 + number * 10_000, 10_000)
        at += 2_000
    last = launch(1_001, at, 2_000_000, 40_000_000, 10_000, "cudaMemcpyAsync" if copies else "cudaLaunchKernel")
    if copies:
        last[1] |= {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)"}
    return events + last


def test_a_launch_is_blocked_where_the_queue_is_full(tmp_path: Path) -> None:
    (found,) = queues(trace(tmp_path, full()))
    assert (found.longest, found.blocked, found.lost) == (1_001, 1, 1_999_000)


def test_a_copy_that_waits_for_itself_is_not_blocked(tmp_path: Path) -> None:
    (found,) = queues(trace(tmp_path, full(copies=True)))
    assert (found.longest, found.blocked, found.lost) == (1_001, 0, 0)


def test_a_long_launch_on_a_short_queue_is_not_blocked(tmp_path: Path) -> None:
    events = [one for number in range(9) for one in launch(number + 1, number * 20_000, 1_000, number * 20_000, 500)]
    (found,) = queues(trace(tmp_path, events + launch(99, 500_000, 2_000_000, 2_600_000, 10)))
    assert (found.blocked, found.lost) == (0, 0)


def test_a_wait_costs_the_idle_time_after_it(tmp_path: Path) -> None:
    """The host waits for a kernel of 100 us in aten::item, and launches the next one 30 us later."""
    item = event("aten::item", 20_000, 110_000, cat="cpu_op")
    sync = event("cudaStreamSynchronize", 25_000, 80_000)
    events = [*launch(1, 0, 2_000, 4_000, 100_000), item, sync, *launch(2, 132_000, 2_000, 135_000, 10_000)]
    assert waits(trace(tmp_path, events)) == [
        HostWait("cudaStreamSynchronize", "aten::item", 1, 80_000, 31_000, 1, 31_000)
    ]


def test_a_wait_while_the_device_has_work_costs_nothing(tmp_path: Path) -> None:
    sync = event("cudaEventSynchronize", 10_000, 5_000)
    events = [*launch(1, 0, 2_000, 4_000, 100_000), *launch(2, 3_000, 2_000, 104_000, 10_000), sync]
    assert waits(trace(tmp_path, events)) == [HostWait("cudaEventSynchronize", None, 1, 5_000, 0, 0, 0)]


def test_without_calls_there_is_no_answer(tmp_path: Path) -> None:
    kernels = [one for one in launch(1, 0, 2_000, 4_000, 100_000) if one["cat"] == "kernel"]
    summary = ktrace.summary(trace(tmp_path, kernels), by=["queue", "wait"])
    assert not {"queue", "wait"} & summary.answers.keys()
    assert any("Queues and waits need" in note for note in summary.notes)


def agrees(path: Path) -> None:
    """The costs of all waits are the idle time for which the host's waits are the cause."""
    answers = ktrace.summary(path, by=["wait", "idle"]).answers
    idle, found = answers["idle"], answers.get("wait")
    assert isinstance(idle, IdleAnswer)
    caused = [cause for one in idle.devices for cause in one.causes if cause.cause == "host synchronised"]
    mine = found.waits if isinstance(found, WaitsAnswer) else []
    expected = sum(cause.time for cause in caused), sum(cause.gaps for cause in caused)
    assert (sum(one.idle for one in mine), sum(one.gaps for one in mine)) == expected


def test_costs_of_waits_are_the_idle_time_they_cause() -> None:
    agrees(SAMPLES / "kineto" / "one-step-of-training.pt.trace.json")


@pytest.mark.parametrize("name", REAL)
def test_costs_of_waits_of_real_traces_are_the_idle_time_they_cause(name: str) -> None:
    agrees(at_hand(SHARED / "corpus" / name))


def test_launches_of_a_real_trace_wait_for_a_full_queue() -> None:
    """A trace of ResNet: never more than 1,022 launches wait, and calls block as soon as so many do."""
    (found,) = queues(at_hand(SHARED / "corpus" / REAL[2]))
    assert (found.launches, found.longest, found.blocked, found.lost) == (6_095, 1_022, 552, 173_620_944)
