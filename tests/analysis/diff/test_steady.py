"""Slow steps that only one side has: named, beyond its noise, and no pass for a gate; a warm-up is set apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from idle_traces import Row, host, work, written
from test_few_steps import MS, diff

import ktrace
from ktrace.analysis.answers.diff import CLEAR, NOISE
from ktrace.analysis.answers.diff.comparison import gate

EVEN = [1.04, 1.041, 1.039, 1.04, 1.042, 1.038]
SLOW = {
    "throttled": ([1.04, 1.041, 1.039, 1.34, 1.338, 1.342], "steps from #3 on take 1.29 times as long as those before"),
    "every second": ([1.04, 1.34, 1.039, 1.341, 1.041, 1.338], "every second step, #1 first, takes 1.29 times as long"),
    "one": ([1.04, 1.041, 1.039, 2.54, 1.041, 1.04], "step #3 takes 2.44 times as long as the others"),
}


@pytest.mark.parametrize("what", SLOW)
def test_slow_steps_of_one_side_are_no_noise(what: str) -> None:
    times, words = SLOW[what]
    found = diff(EVEN, times)
    assert found.wall is not None and found.wall.test is not None
    assert (found.wall.verdict, found.wall.test.slow) == (CLEAR, "b")
    assert any(said.startswith(f"b isn't steady: {words}") for said in found.verdict)
    assert "within noise" not in " ".join(found.verdict[:1])
    assert found.verdict[-1].startswith("Because of its slow steps, the change exceeds the noise (6 and 6 steps, q ")
    assert gate(found, 5).failed and not gate(found, 50).failed
    assert [(one.subject["side"], one.code) for one in found.findings if one.code.startswith("unsteady.")] == [
        ("b", {"throttled": "unsteady.shift", "every second": "unsteady.period", "one": "unsteady.single"}[what])
    ]
    back = diff(times, EVEN)
    assert any(said.startswith(f"a isn't steady: {words}") for said in back.verdict)
    assert not gate(back, 0).failed


@pytest.mark.parametrize("what", SLOW)
def test_slow_steps_of_both_sides_are_no_change(what: str) -> None:
    times, _ = SLOW[what]
    found = diff(times, [1.001 * ms for ms in times])
    assert found.wall is not None and found.wall.verdict == NOISE
    assert not gate(found, 0).failed
    worse = diff(times, [1.2 * ms for ms in times])
    assert gate(worse, 5).failed


def test_steps_that_get_slower_throughout_fail_a_gate() -> None:
    found = diff(EVEN, [1.04, 1.101, 1.159, 1.22, 1.281, 1.339])
    words = "steps get slower throughout: the second half, from #3 on, takes 1.16 times as long as the first"
    assert any(said.startswith(f"b isn't steady: {words}") for said in found.verdict)
    assert found.wall is not None and found.wall.verdict == CLEAR and gate(found, 5).failed
    assert [one.code for one in found.findings if one.code.startswith("unsteady.")] == ["unsteady.trend"]


def test_what_costs_less_than_the_limit_passes() -> None:
    found = diff(EVEN * 3, [*EVEN, *EVEN, 1.04, 1.5, *EVEN[:4]])
    assert any("b isn't steady: step #13 takes" in said for said in found.verdict)
    assert not gate(found, 5).failed


def test_a_warm_up_is_named_and_not_compared() -> None:
    found = diff(EVEN, [3.04, *EVEN[1:]])
    assert found.compared == (6, 5)
    assert found.wall is not None and found.wall.total_b == sum(EVEN[1:]) / 5 * MS
    assert (
        "The warm-up of b isn't compared: the first step, #0, takes 2.92 times as long as the others"
        " (3.04 ms instead of 1.04 ms)." in found.verdict
    )
    assert not gate(found, 0).failed
    assert found.notes[-1] == "Totals and counts are averages per step: a has 6 steps, b 5 steps."
    slower = diff(EVEN, [3.04, *[1.2 * ms for ms in EVEN[1:]]])
    assert slower.wall is not None and slower.wall.verdict == CLEAR and gate(slower, 5).failed
    few = diff(EVEN[:3], [3.04, *EVEN[1:3]])  # too few others: it is compared
    assert few.compared == (3, 3)
    assert few.verdict[2].startswith("b begins with a warm-up: the first step, #0, takes 2.92 times as long")


@pytest.mark.parametrize("queued", [0, 3])
def test_steps_whose_work_was_still_queued_are_not_compared(queued: int, tmp_path: Path) -> None:
    """Else their kernels would have got fewer, and the time of devices less."""
    a, b = (written(tmp_path / f"{name}.jsonl", _ahead(without)) for name, without in (("a", 0), ("b", queued)))
    found = ktrace.diff(a, b)
    assert found.compared == (8, 8 - (queued + 1 if queued else 0))
    assert found.whole.percent == pytest.approx(0, abs=0.1)
    note = "b.jsonl: the last 4 steps aren't compared, as work was still queued when the recording ended."
    assert (note in found.notes) is (queued > 0)
    assert not any("gemm" in line for line in found.verdict)


def _ahead(without: int) -> list[Row]:
    """Eight steps whose host is far ahead of the device, of which work at the end lacks."""
    rows: list[Row] = []
    for at in range(80):
        begin = 10_000 * at
        rows.append(host("cudaLaunchKernel", begin, begin + 4_000, at + 1))
        if at < 80 - 10 * without - (5 if without else 0):
            rows.append(work("gemm", 20_000 + 100_000 * at, 119_000 + 100_000 * at, at + 1))
    steps = [host(f"ProfilerStep#{step}", 100_000 * step, 100_000 * step + 99_000, kind="range") for step in range(8)]
    return [*rows, *steps]


def test_steady_sides_have_no_sentence_about_steps() -> None:
    assert not [said for said in diff(EVEN, EVEN[::-1]).verdict if "steady" in said or "warm-up" in said]
