"""The six rules of PyTorch's torch/profiler/_trace_validator.py, each planted in traces of its profiler."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ktrace
from ktrace.analysis.questions.checks import CHECKS

SEEDS = range(15)

Event = dict[str, Any]

_DESCRIBED = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 64, "Out msg nelems": 64}


def _event(cat: str, name: str, ts: int, dur: int, pid: int = 1, tid: int = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args}


def sound(rng: random.Random) -> list[Event]:
    """Forty kernels on two streams; each second one waits for an event of the first stream, and is synchronised."""
    events, now, done, number = [], 1_000, [0, 0], 0
    for at in range(40):
        number += 10
        stream = at % 2
        here = {"device": 0, "stream": 7 + stream, "context": 1}
        events.append(_event("cuda_runtime", "cudaLaunchKernel", now, 5, correlation=number, **{"External id": number}))
        begin = max(done[stream], now + rng.randrange(6, 12))
        done[stream] = begin + rng.randrange(20, 200)
        links = {"correlation": number, "External id": number}
        events.append(_event("kernel", "gemm", begin, done[stream] - begin, 0, 7 + stream, **here, **links))
        now += rng.randrange(20, 60)
        if not stream:
            record = _event("cuda_runtime", "cudaEventRecord", now, 2, correlation=number + 1)
            waits = {"cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 7}
            waits |= {"wait_on_cuda_event_record_corr_id": number + 1, "stream": 8, "device": 0}
            wait = _event("cuda_sync", "Stream Wait Event", now + 4, 2, 0, 8, correlation=number + 2, **waits)
            events += [record, wait]
            now += 10
        if at % 4 == 3:
            length = max(done[1] - now, 0) + 5
            synced = {"cuda_sync_kind": "Stream Sync", "stream": 8, "device": 0, "correlation": number + 3}
            call = _event("cuda_runtime", "cudaStreamSynchronize", now, length + 2, correlation=number + 3)
            events += [call, _event("cuda_sync", "Stream Sync", now, length, 0, 8, **synced)]
            now += length + 5
        name = "autograd::engine::evaluate_function: MmBackward0"
        events.append(_event("cpu_op", name, now, 3, 1, 2, **{"Sequence number": at + 1, "Fwd thread id": 1}))
        comms = _DESCRIBED | {"Group size": 2}
        events.append(_event("cpu_op", "record_param_comms", now + 4, 1, 1, 2, **comms))
        now += 8
    return events


def _of(events: list[Event], test: Callable[[Event], bool]) -> list[Event]:
    return [one for one in events if test(one)]


def _waits(events: list[Event]) -> list[Event]:
    return _of(events, lambda one: one["name"] == "Stream Wait Event")


def _early(rng: random.Random, events: list[Event]) -> None:
    for one in rng.sample(_of(events, lambda one: one["cat"] == "kernel"), 5):
        one["ts"] -= rng.randrange(400, 500)


def _unlinked(rng: random.Random, events: list[Event]) -> None:
    for one in rng.sample(_waits(events), 3):
        if rng.random() < 0.5:
            one["args"]["wait_on_cuda_event_record_corr_id"] = -1
        else:
            del one["args"]["wait_on_cuda_event_record_corr_id"]


def _outlasts(rng: random.Random, events: list[Event]) -> None:
    for one in _of(events, lambda one: one["name"] in ("Stream Sync", "cudaStreamSynchronize")):
        one["dur"] = 1


def _in_future(rng: random.Random, events: list[Event]) -> None:
    for one in rng.sample(_of(events, lambda one: one["name"] == "cudaEventRecord"), 3):
        one["ts"] += rng.randrange(10, 400)


def _missing(rng: random.Random, events: list[Event]) -> None:
    gone = rng.sample(_of(events, lambda one: one["name"] == "cudaEventRecord"), 3)
    events[:] = [one for one in events if not any(one is other for other in gone)]


def _undescribed(rng: random.Random, events: list[Event]) -> None:
    for one in rng.sample(_of(events, lambda one: one["name"] == "record_param_comms"), 4):
        del one["args"][rng.choice([*_DESCRIBED, "Group size"])]


def _shared(rng: random.Random, events: list[Event]) -> None:
    backward = _of(events, lambda one: "evaluate_function" in one["name"])
    for one in rng.sample(backward[1:], 3):
        one["name"] = "autograd::engine::evaluate_function: AddBackward0"
        one["args"]["Sequence number"] = 1


#: The rule of PyTorch -> what breaks it, and the check that says so.
RULES = {
    "check_gpu_kernel_causality": (_early, "cause_after_effect"),
    "check_stream_wait_corr_id_populated": (_unlinked, "waits_unlinked"),
    "check_stream_sync_overlap": (_outlasts, "work_outlasts_wait"),
    "check_stream_wait_corr_id_in_past": (_in_future, "wait_before_record"),
    "check_stream_wait_corr_id_in_past, no record": (_missing, "waits_unlinked"),
    "check_nccl_metadata": (_undescribed, "collectives_undescribed"),
    "check_backward_seq_id_uniqueness": (_shared, "sequence_shared"),
}


def failed(events: list[Event], path: Path) -> set[str]:
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
    path.write_text(json.dumps(head | {"traceEvents": events}), "utf-8")
    return {one.code.removeprefix("check.") for one in ktrace.summary(path, by=["idle"]).checks}


@pytest.mark.parametrize("rule", RULES)
def test_what_a_rule_forbids_is_said(rule: str, tmp_path: Path) -> None:
    plant, check = RULES[rule]
    for seed in SEEDS:
        rng = random.Random(seed)
        events = sound(rng)
        plant(rng, events)
        found = failed(events, tmp_path / "run.json")
        assert check in found, (seed, found)
        assert found <= {check, "work_outlasts_wait", "stream_overlaps"}, "what was planted may break these, too"
        assert rule == "check_gpu_kernel_causality" or found == {check}


@pytest.mark.parametrize("seed", SEEDS)
def test_sound_traces_break_none(seed: int, tmp_path: Path) -> None:
    assert failed(sound(random.Random(seed)), tmp_path / "run.json") == set()


def test_where_a_count_is_all_that_is_wrong_the_recording_is_sound() -> None:
    partial = {check for _, check in RULES.values() if CHECKS[check].partial}
    assert partial == {"waits_unlinked", "collectives_undescribed", "sequence_shared"}
