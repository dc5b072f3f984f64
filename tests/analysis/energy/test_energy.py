"""Energy against plain arithmetic over power that the test makes up, alone and on two streams at once."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.analysis.questions.energy import EnergyAnswer

UNIX = 1_750_000_000_000_000_000
EVERY = 100_000_000


def trace(path: Path, kernels: list[tuple[str, int, int, int]]) -> Path:
    """A Kineto trace of kernels: name, stream, begin and duration in us."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur,
         "args": {"device": 0, "stream": stream, "correlation": number}}
        for number, (name, stream, ts, dur) in enumerate(kernels, 1)
    ]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": UNIX, "traceEvents": events}))
    return path


def power(path: Path, watts: list[float], counter: str = "power.draw") -> Path:
    """A log of nvidia-smi with a sample every 100 ms from UNIX on."""
    lines = [f"timestamp, index, {counter} [W]"]
    lines += [
        f"2025/06/15 15:06:{40 + number // 10}.{number % 10}00, 0, {one:.2f} W" for number, one in enumerate(watts)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def energy(*paths: Path) -> EnergyAnswer:
    answer = ktrace.summary(list(paths), by=["energy"]).answers["energy"]
    assert isinstance(answer, EnergyAnswer)
    return answer


def at(watts: list[float], ns: int) -> float:
    piece = min(ns // EVERY, len(watts) - 2)
    return watts[piece] + (watts[piece + 1] - watts[piece]) * (ns - piece * EVERY) / EVERY


def integral(watts: list[float], begin: int, end: int) -> float:
    """Joules by the trapezoids between begin, the samples inside, and end."""
    edges = [begin, *(one for one in range(0, end, EVERY) if begin < one < end), end]
    return sum((at(watts, a) + at(watts, b)) / 2 * (b - a) / 1e9 for a, b in pairwise(edges))


@pytest.mark.parametrize("seed", range(15))
def test_joules_are_the_integral_over_each_kernel(tmp_path: Path, seed: int) -> None:
    chance = Random(f"energy {seed}")
    watts = [float(chance.randint(80, 700)) for _ in range(12)]
    kernels, ts = [], 0
    while ts < 1_000_000:
        dur = chance.randint(1, 90_000)
        kernels.append((chance.choice(("gemm_a", "relu_b")), 7, ts, dur))
        ts += dur + chance.randint(0, 20_000)
    found = energy(trace(tmp_path / "t.json", kernels), power(tmp_path / "smi.csv", watts))
    sums: dict[str, float] = {}
    for name, _, begin, dur in kernels:
        sums[name] = sums.get(name, 0) + integral(watts, begin * 1000, (begin + dur) * 1000)
    assert {one.name: one.joules for one in found.kernels} == pytest.approx(sums)
    assert all(one.low <= one.joules <= one.high for one in found.kernels)
    assert found.devices[0].whole == pytest.approx(integral(watts, 0, 11 * EVERY))
    assert found.devices[0].working.joules == pytest.approx(sum(sums.values()))


def test_steps_have_what_their_devices_drew_meanwhile(tmp_path: Path) -> None:
    """From the start of the first step to the end of the second, gaps between kernels included."""
    watts = [100.0, 300.0, 500.0, 200.0, 400.0]
    path = trace(tmp_path / "t.json", [("gemm_a", 7, 10_000, 100_000), ("relu_b", 7, 160_000, 90_000)])
    document = json.loads(path.read_text())
    for number, (begin, dur) in enumerate([(0, 150_000), (150_000, 170_000)]):
        document["traceEvents"].append(
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1}
            | {"ts": begin, "dur": dur, "args": {}}
        )
    path.write_text(json.dumps(document))
    found = energy(path, power(tmp_path / "smi.csv", watts))
    ends = ktrace.summary([path], by=["step"]).step_use
    assert [one.name for one in found.steps] == ["ProfilerStep#0", "ProfilerStep#1"]
    assert [one.time for one in found.steps] == [use.span for use in ends]
    begin = 320_000_000 - sum(use.span for use in ends)
    assert sum(one.joules for one in found.steps) == pytest.approx(integral(watts, begin, 320_000_000))
    assert all(one.low <= one.joules <= one.high for one in found.steps)


def test_work_at_once_shares_the_power_of_its_device(tmp_path: Path) -> None:
    kernels = [("gemm_a", 7, 0, 200_000), ("relu_b", 8, 100_000, 200_000)]
    found = energy(trace(tmp_path / "t.json", kernels), power(tmp_path / "smi.csv", [400.0] * 5))
    assert {one.name: one.joules for one in found.kernels} == pytest.approx({"gemm_a": 60, "relu_b": 60})
    assert found.devices[0].working.joules == pytest.approx(120)
    assert found.devices[0].busy == 300_000_000


def test_work_without_samples_is_said_and_has_no_energy(tmp_path: Path) -> None:
    kernels = [("gemm_a", 7, 350_000, 100_000)]
    found = energy(trace(tmp_path / "t.json", kernels), power(tmp_path / "smi.csv", [400.0] * 5))
    assert found.devices[0].uncovered == 50_000_000
    assert found.kernels[0].joules == pytest.approx(20)
    assert found.notes
    covered = energy(trace(tmp_path / "u.json", [("gemm_a", 7, 0, 100_000)]), tmp_path / "smi.csv")
    assert not covered.notes


def test_a_limit_is_no_power_drawn(tmp_path: Path) -> None:
    paths = [trace(tmp_path / "t.json", [("a", 7, 0, 10)]), power(tmp_path / "smi.csv", [700.0] * 5, "power.limit")]
    assert "energy" not in ktrace.summary(paths, by=["energy"]).answers
    sample = next((SAMPLES / "kineto").iterdir())
    assert "energy" not in ktrace.summary(sample, by=["energy"]).answers


def throttling(path: Path, masks: list[int], column: str = "clocks_throttle_reasons.active") -> Path:
    """A log of nvidia-smi with the reasons of lower clocks every 100 ms from UNIX on."""
    lines = [f"timestamp, index, clocks.current.sm [MHz], {column}"]
    lines += [
        f"2025/06/15 15:06:{40 + number // 10}.{number % 10}00, 0, 1410 MHz, 0x{mask:016x}"
        for number, mask in enumerate(masks)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_throttling_is_that_of_the_time_in_which_the_device_worked(tmp_path: Path) -> None:
    """Work in 100 to 300 and 500 to 600 ms; power capped from 200 to 700 ms, too hot from 500 ms to 600 ms."""
    run = trace(tmp_path / "run.json", [("gemm", 7, 100_000, 200_000), ("gemm", 7, 500_000, 100_000)])
    answer = energy(run, throttling(tmp_path / "smi.csv", [0, 0, 4, 4, 4, 4 | 0x20, 4, 0, 0]))
    assert [(one.label, one.reason, one.throttled, one.busy) for one in answer.throttled] == [
        ("device 0", "sw_power_cap", 200_000_000, 300_000_000),
        ("device 0", "sw_thermal_slowdown", 100_000_000, 300_000_000),
    ]
    assert [table.name for table in answer.tables()] == ["throttling"]


@pytest.mark.parametrize("masks", [[0] * 9, [1] * 9, [0x2 | 0x10 | 0x100] * 9, [0, 0, 0, 4, 4, 0, 0, 0, 0]])
def test_idle_set_or_unused_clocks_are_no_throttling(tmp_path: Path, masks: list[int]) -> None:
    """A device that waits, that runs at the clocks that were set, or whose clocks are lowered between its work."""
    run = trace(tmp_path / "run.json", [("gemm", 7, 100_000, 200_000), ("gemm", 7, 500_000, 100_000)])
    answers = ktrace.summary([run, throttling(tmp_path / "smi.csv", masks)], by=["energy"]).answers
    assert "energy" not in answers
