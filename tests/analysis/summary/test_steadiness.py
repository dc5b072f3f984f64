"""Steps that don't take equally long: which are named, by what factor, and that noise isn't."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from idle_traces import Row, host, work, written
from nightly import examples
from sides import events, side

import ktrace
from ktrace.analysis.answers.summary.summary import StepUse, Summary
from ktrace.analysis.work.steadiness import unsteady

US = 1_000


def steps(*times: int, spans: tuple[int, ...] = ()) -> Summary:
    """A job whose steps take these us, on the host; `spans` are those on the device, with its kernels."""
    made = side("a", [events("gemm", [100 * US] * len(times), steps=len(times))], walls=[us * US for us in times])
    for place, us in enumerate(spans):
        made.step_use[place] = StepUse(made.steps[place], 1, times[place] * US, us * US, us * US, 0, 0, 0, 0, us * US)
    return made


SAID = {
    (1040, 1041, 1039, 1340, 1338, 1342): (
        "Not steady: steps from #3 on take 1.29 times as long as those before (1.34 ms instead of 1.04 ms)."
    ),
    (1340, 1338, 1342, 1341, 1040, 1041): (
        "Not steady: steps before #4 take 1.29 times as long as those from there on (1.34 ms instead of 1.04 ms)."
    ),
    (1040, 1340, 1039, 1341, 1041, 1338): (
        "Not steady: every second step, #1 first, takes 1.29 times as long as the others (1.34 ms instead of 1.04 ms)."
    ),
    (1040, 1041, 1039, 2540, 1041, 1038): (
        "Not steady: step #3 takes 2.44 times as long as the others (2.54 ms instead of 1.04 ms)."
    ),
    (*[1040, 1041] * 3, 2540, *[1040, 1039] * 4, 1900, 1040): (
        "Not steady: 2 single steps, #6 and #15, take 2.13 times as long as the others (2.22 ms instead of 1.04 ms)."
    ),
    (1040, 1041, 1340, 1338, 1342, 1040, 1039, 1041): (
        "Not steady: steps from #2 to #4 take 1.29 times as long as the others (1.34 ms instead of 1.04 ms)."
    ),
    (1040, 2541, 1040, 1039, 1041, 2539, 1040, 1038, 2540, 1040): (
        "Not steady: 3 single steps, #1, #5 and #8, take 2.44 times as long as the others (2.54 ms instead of 1.04 ms)."
    ),
    (1040, 1099, 1158, 1222, 1279, 1341, 1402, 1460): (
        "Not steady: steps get slower throughout: the second half, from #4 on, takes 1.22 times as long as the first"
        " (1.37 ms instead of 1.13 ms)."
    ),
    (1460, 1402, 1341, 1279, 1222, 1158, 1099): (
        "Not steady: steps get faster throughout: the first half, up to #2, takes 1.18 times as long as the second"
        " (1.40 ms instead of 1.19 ms)."
    ),
    (3040, 1041, 1039, 1040, 1041, 1038): (
        "Warm-up: the first step, #0, takes 2.92 times as long as the others (3.04 ms instead of 1.04 ms)."
    ),
    (3040, 2041, 1039, 1040, 1041, 1038, 1040): (
        "Warm-up: the first 2 steps, up to #1, take 2.44 times as long as the others (2.54 ms instead of 1.04 ms)."
    ),
}


@pytest.mark.parametrize("times", SAID)
def test_slow_steps_are_a_sentence(times: tuple[int, ...]) -> None:
    summary = steps(*times)
    assert [said for said in summary.verdict if said.startswith(("Not steady", "Warm-up"))] == [SAID[times]]
    (finding,) = (one for one in summary.findings if one.code.startswith("unsteady."))
    slow, others = int(finding.details["slow"] or 0), float(finding.details["others_ns"] or 0)
    assert finding.value == sum(sorted(us * US for us in times)[-slow:]) - slow * others
    assert finding.whole == sum(times) * US
    factor = float(SAID[times].split(" times")[0][-4:])
    assert finding.document()["details"]["factor"] == pytest.approx(factor, abs=0.005)


def test_a_warm_up_hides_nothing_after_it() -> None:
    said = steps(3040, 1040, 1041, 1340, 1338, 1342, 1341).verdict
    assert [one.split(" take")[0] for one in said if "times as long" in one] == [
        "Warm-up: the first step, #0,",
        "Not steady: steps from #3 on",
    ]


@pytest.mark.parametrize("times", [(1040, 1041, 1039, 1040, 1042, 1038), (1040, 1080, 1030, 1060), (1000, 2500), (9,)])
def test_steps_that_take_equally_long_are_no_sentence(times: tuple[int, ...]) -> None:
    assert not [said for said in steps(*times).verdict if "times as long" in said]


def test_steps_without_numbers_have_no_order() -> None:
    summary = steps(1040, 1041, 1039, 1340, 1338, 1342)
    assert summary.unsteady
    summary.steps[:] = "abcdef"
    assert not summary.unsteady


def test_the_first_step_of_a_device_that_lags_behind_is_no_warm_up() -> None:
    """Nothing comes before it, so that it takes longer; nor is a host slow that waits for the step of another one."""
    walls = (400, 400, 400, 1100, 1100, 1100)
    made = steps(*walls, spans=(1500, 1100, 1101, 1100, 1099, 1100))
    first = made.step_use[0]
    made.step_use[0] = StepUse(first.label, 1, first.wall, 1100 * US, 1100 * US, 0, 0, 0, 0, first.span)
    assert not made.unsteady
    warm = steps(*walls, spans=(1500, 1100, 1101, 1100, 1099, 1100))  # its kernels take longer
    assert [one.way for one in warm.unsteady] == ["warm-up"]


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.03])
@pytest.mark.parametrize("number", [3, 4, 6, 12, 50])
def test_noise_is_not_called_unsteady(noise: float, number: int) -> None:
    """At most 2 % of recordings, of whatever length; measured on 2,000 each, it is at most 0.3 %."""
    chance = np.random.default_rng([number, round(1000 * noise)])
    runs = 1e6 * np.exp(chance.normal(0, noise, (examples(200), number)))
    assert sum(bool(unsteady(times)) for times in runs) <= 0.02 * len(runs)


@pytest.mark.parametrize("noise", [0.001, 0.01])
@pytest.mark.parametrize("way", ["shift", "period", "single", "warm-up", "trend"])
def test_a_third_more_is_found_in_six_steps(way: str, noise: float) -> None:
    slow = {"shift": [3, 4, 5], "period": [1, 3, 5], "single": [4], "warm-up": [0]}
    factor = np.linspace(1, 1.33, 6) if way == "trend" else np.where(np.isin(np.arange(6), slow.get(way, [])), 1.33, 1)
    chance = np.random.default_rng(7)
    for _ in range(examples(50)):
        times = 1e6 * np.exp(chance.normal(0, noise, 6)) * factor
        assert [one.way for one in unsteady(times)] == [way]


@pytest.mark.parametrize("queued", [0, 5])
def test_steps_whose_work_was_still_queued_are_not_compared(queued: int) -> None:
    """The host is far ahead; of the last steps no work is there, and their time on the host isn't the others'."""
    spans = (600, 601, 599, 600, 601, 600)
    assert not steps(*[140] * (6 + queued), spans=spans).unsteady
    (slow,) = steps(*[140] * (6 + queued), spans=(*spans[:4], 900, 901)).unsteady
    assert slow.way == "shift" and np.flatnonzero(slow.slow).tolist() == [4, 5]


@pytest.mark.parametrize("nested", [True, False])
def test_the_steps_of_two_loops_are_not_one_series(nested: bool, tmp_path: Path) -> None:
    """A profiler's step within an iteration of the program; or training, then something else that is faster."""
    rows, now = list[Row](), 0
    for at in range(12):
        begin, dur = now, 900_000 if nested or at < 6 else 100_000
        rows += [host("cudaLaunchKernel", now + 500, now + 5_000, at + 1)]
        rows += [work("gemm", now + 9_000, now + 9_000 + dur, at + 1)]
        now += dur + 20_000
        rows += [host("cudaDeviceSynchronize", now - 12_000, now - 1_000)]
        outer, inner = f"Iteration {at}", f"ProfilerStep#{at}"
        rows += [host(outer if nested or at < 6 else f"step {at - 6}", begin, now, kind="range")]
        rows += [host(inner, begin + 100, now - 500, kind="range")] if nested else []
        now += 1_000
    summary = ktrace.summary(written(tmp_path / "run.jsonl", rows), by=["operation"])
    assert not summary.unsteady
    loops = [f"Iteration {at}" for at in range(12)]
    assert sorted(summary.steps) == sorted(loops if nested else [*loops[:6], *(f"step {at}" for at in range(6))])
    assert sum(use.count for use in summary.step_use) == 12


def _on_streams(streams: int, dur: int, *, first: float = 1.0, waits: bool = False) -> list[Row]:
    """Six steps of two kernels on each of some streams, which nothing keeps together but a wait at each step's end.

    The kernels of the first step take `first` times as long.
    """
    rows: list[Row] = []
    now, free, number = 0, [0] * streams, 0
    for step in range(6):
        begin = now
        for at in [stream for stream in range(streams) for _ in range(2)]:
            number += 1
            rows.append(host("cudaLaunchKernel", now, now + 5_000, number))
            start = max(now + 7_000, free[at] + 900)
            free[at] = start + round(dur * (first if step == 0 else 1)) + number % 7 * 100
            rows.append(work("gemm", start, free[at], number, stream=at))
            now += 7_000
        if waits or step == 5:
            rows.append(host("cudaDeviceSynchronize", now, max(*free, now) + 2_000))
            now = max(*free, now) + 3_000
        rows.append(host(f"ProfilerStep#{step}", begin, now, kind="range"))
    return rows


@pytest.mark.parametrize("streams", [2, 4, 16])
@pytest.mark.parametrize("dur", [20_000, 50_000, 200_000])
def test_steps_that_overlap_on_the_device_show_no_warm_up(streams: int, dur: int, tmp_path: Path) -> None:
    """The first step has the device alone until all streams work; of each other one a part runs beside the last."""
    summary = ktrace.summary(written(tmp_path / "run.jsonl", _on_streams(streams, dur)), by=["operation"])
    assert not summary.unsteady
    assert not any("warm-up" in one.lower() for one in summary.verdict)


@pytest.mark.parametrize("streams", [2, 4, 16])
def test_a_warm_up_on_several_streams(streams: int, tmp_path: Path) -> None:
    rows = _on_streams(streams, 200_000, first=3, waits=True)
    summary = ktrace.summary(written(tmp_path / "run.jsonl", rows), by=["operation"])
    assert [one.way for one in summary.unsteady] == ["warm-up"]
    assert any(one.startswith("Warm-up: the first step, #0,") for one in summary.verdict)


def test_kernels_beside_the_step_before_tell_of_no_warm_up() -> None:
    made = steps(*[400] * 6, spans=(1500, 1000, 1001, 1000, 999, 1000))
    assert [one.way for one in made.unsteady] == ["warm-up"]
    for place in range(1, 6):
        one = made.step_use[place]
        made.step_use[place] = StepUse(one.label, 1, one.wall, one.busy, one.compute, 0, 0, 0, 0, one.span, 100 * US)
    assert not made.unsteady


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_step_that_only_one_of_two_inputs_has_is_not_held_against_the_others(is_whole: bool, tmp_path: Path) -> None:
    """The average of step #6 is of both inputs, that of others of one, unless both have all."""
    for name, numbers in (("a", range(8)), ("b", range(8) if is_whole else [6])):
        rows: list[Row] = []
        for number in numbers:
            begin, long = 200_000_000 * number, 100_000_000 if number == 6 and (name == "b" or is_whole) else 1_000_000
            rows += [host(f"ProfilerStep#{number}", begin, begin + long, kind="range")]
            rows += [host("cudaLaunchKernel", begin + 10, begin + 20, number + 1)]
            rows += [work("gemm", begin + 30, begin + long - 10, number + 1)]
        written(tmp_path / f"{name}.jsonl", rows)
    found = ktrace.summary([tmp_path / "a.jsonl", tmp_path / "b.jsonl"]).unsteady
    assert [(one.way, one.slow.tolist()) for one in found] == (
        [("single", [False] * 6 + [True, False])] if is_whole else []
    )


@pytest.mark.parametrize(("clock", "unsteady"), [(1, True), (65_536, False)])
def test_a_coarse_clock_tells_of_no_slow_steps(clock: int, unsteady: bool, tmp_path: Path) -> None:
    """Every third step takes 9 % longer, which is less than a step of the clock."""
    rows, now = [], 0
    for step in range(12):
        begin = now
        for at in range(4):
            number, dur = 4 * step + at + 1, 70_001 + 70_000 * at
            rows.append(host("cudaLaunchKernel", now, now + 3_000, number))
            rows.append(work("gemm", now + 6_000, now + 6_000 + dur, number))
            now += dur + 10_000
        now += 65_000 * (step % 3 == 2)
        rows.append(host(f"ProfilerStep#{step}", begin, now, kind="range"))
    for row in rows:
        end = (row["ts"] + row["dur"]) // clock * clock
        row["ts"] = row["ts"] // clock * clock
        row["dur"] = end - row["ts"]
    summary = ktrace.summary(written(tmp_path / "run.jsonl", rows), by=["step"])
    assert any(one.code == "unsteady.period" for one in summary.findings) is unsteady
    assert any(one.code == "check.times_quantised" for one in summary.findings) != unsteady
