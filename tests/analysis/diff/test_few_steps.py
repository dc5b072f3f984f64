"""Few steps a side: what is far beyond their spread is found and fails a gate, and the same job isn't accused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from nightly import few
from sides import events, side

from ktrace.analysis.answers.diff import CLEAR, NOISE, UNKNOWN
from ktrace.analysis.answers.diff.compare import compared
from ktrace.analysis.answers.diff.comparison import Diff, gate
from ktrace.analysis.answers.diff.noise import RUNS, step_test
from ktrace.analysis.answers.diff.verdicts import Pairs
from ktrace.analysis.answers.summary.summary import StepUse, Summary

MS = 1_000_000


def diff(a: list[float], b: list[float]) -> Diff:
    """Two jobs whose steps take these ms, of which a kernel works 0.2 ms."""
    one, other = (
        side(name, [events("gemm", [200_000] * len(walls), steps=len(walls))], walls=[round(ms * MS) for ms in walls])
        for name, walls in (("a", a), ("b", b))
    )
    return compared(one, other)


FOUND = {
    "all steps": ([10.0, 10.1, 10.2], [12.1, 12.0, 12.2]),
    "45 times as long, but the first batch was ready": ([0.53, 0.52, 0.53, 0.52], [0.54, 30.0, 30.1, 30.0]),
    "of three steps the first": ([0.53, 0.52, 0.53], [0.54, 30.0, 30.1]),
    "both warm up": ([500.0, 20.0, 20.1, 20.2], [480.0, 40.1, 40.0, 40.2]),
    "both warm up, three steps": ([500.0, 20.0, 20.1], [480.0, 40.0, 40.1]),
    "kinds take turns": ([10.0, 20.0, 10.1, 20.1], [10.8, 21.5, 10.9, 21.6]),
    "kinds take turns, one more step": ([10.0, 12.0, 10.1, 12.1], [20.8, 24.5, 20.9, 24.6, 20.8]),
    "one step of many is unlike the others": ([10.0, 90.0, *[10.1, 10.2] * 4], [*[12.1, 12.2] * 4, 95.0, 12.0]),
}


@pytest.mark.parametrize("what", FOUND)
def test_what_is_far_beyond_the_spread_is_found(what: str) -> None:
    a, b = FOUND[what]
    found = diff(a, b)
    assert found.wall is not None
    assert found.wall.verdict == CLEAR or found.wall.medians
    assert gate(found, 5).failed
    assert "within noise" not in found.verdict[0]
    assert not gate(diff(b, a), 5).failed
    assert not gate(diff(a, a), 0).failed


def test_the_median_step_is_named_where_the_average_hides_it() -> None:
    found = diff([20.0, 20.1, 500.0, 20.2], [40.1, 40.0, 480.0, 40.2])
    assert found.verdict[0] == (
        "b takes 7.1% longer than a: 150 ms instead of 140 ms a step,"
        " and the median step 99.3% longer (40.1 ms instead of 20.1 ms)."
    )
    other = diff([20.0, 20.1, 500.0, 20.2], [40.1, 40.0, 400.0, 40.2])
    assert other.verdict[0].startswith("b takes 7.1% less time than a: ")
    assert other.verdict[0].endswith(", but the median step 99.3% longer (40.1 ms instead of 20.1 ms).")
    (wall, *_) = gate(other, 5).regressions
    assert (wall.name, wall.figure, wall.a, wall.b, wall.known) == ("wall", "median", 20.15 * MS, 40.15 * MS, True)
    assert str(wall).startswith("wall got slower: +99.3% in the median step, more than 5%")
    assert "median" not in diff([10.0, 10.1, 10.2], [12.1, 12.0, 12.2]).verdict[0]


NOISY: dict[str, Callable[[np.random.Generator, int], list[float]]] = {
    "steady": lambda chance, n: chance.normal(10, 0.01, n).tolist(),
    "spread of 5 %": lambda chance, n: chance.normal(10, 0.5, n).tolist(),
    "warm-up": lambda chance, n: [chance.uniform(30, 90), *chance.normal(10, 0.1, n - 1)],
    "kinds": lambda chance, n: [chance.normal(10 + place % 2 * 5, 0.1) for place in range(n)],
    "outliers": lambda chance, n: (chance.normal(10, 0.1, n) * (1 + 0.3 * (chance.random(n) < 0.1))).tolist(),
}


@pytest.mark.parametrize("what", NOISY)
@pytest.mark.parametrize("steps", [3, 4, 5, 10])
def test_the_same_job_is_not_accused(what: str, steps: int) -> None:
    """Runs of one job differ by `RUNS` beside what their steps do; level is 1.5 % for each question."""
    chance, wrong = np.random.default_rng(steps), {False: 0, True: 0}
    for _ in range(400):
        a, b = (np.array(NOISY[what](chance, steps)) * chance.normal(1, RUNS) for _ in "ab")
        for fills in wrong:
            wrong[fills] += step_test(a, b, fills=fills) <= 0.015
    assert max(wrong.values()) <= 0.03 * 400, wrong


def test_the_same_time_in_steps_of_any_length_is_a_change() -> None:
    """Three steps of unlike length: a kernel takes 2.2 ms more in each, or as much more in all, by chance."""

    def of(name: str, works: list[float]) -> Summary:
        return side(name, [events("gemm", [round(ms * MS) for ms in works], steps=3)], walls=[20 * MS] * 3)

    before = of("a", [1.156, 0.863, 0.528])
    found = compared(before, of("b", [3.361, 3.069, 2.735]))
    assert found.rows["kernel"][0].verdict == CLEAR
    assert found.verdict[1] == "The largest changes by kernel: gemm +2.21 ms."
    by_chance = compared(before, of("b", [3.361, 0.869, 4.935]))
    assert by_chance.rows["kernel"][0].verdict == UNKNOWN
    assert "The largest changes" not in " ".join(by_chance.verdict)


def _launches(chance: np.random.Generator, longer: float, blocks: float) -> list[int]:
    """Three steps, of which the second does less, of 48 launches of 10 to 40 us; 12 after another err alike."""
    shapes = np.random.default_rng(1).uniform(10_000, 40_000, 48)
    alike = np.repeat(chance.normal(1, blocks, 12), 12) * chance.normal(1, 0.02, 144)
    return [round(ns * longer) for ns in (np.concatenate([shapes, 0.7 * shapes, shapes]) * alike).tolist()]


def _of_launches(name: str, chance: np.random.Generator, longer: float = 1.0, blocks: float = 0.0) -> Summary:
    others = [events(f"norm {row}", chance.normal(9_000, 200, 3).astype(int).tolist(), steps=3) for row in range(30)]
    return side(name, [events("gemm", _launches(chance, longer, blocks), steps=3), *others])


def test_launches_at_the_same_places_show_what_three_steps_of_two_kinds_hide() -> None:
    chance = np.random.default_rng(3)
    a, b = _of_launches("a", chance), _of_launches("b", chance, 1.03)
    (gemm,) = (row for row in compared(a, b).rows["kernel"] if row.key == "gemm")
    assert (gemm.verdict, gemm.why[:8]) == (CLEAR, "launches")
    for one in (a, b):
        one.groups["kernel"] = [replace(group, places=None) for group in one.groups["kernel"]]
    (gemm,) = (row for row in compared(a, b).rows["kernel"] if row.key == "gemm")
    assert (gemm.verdict, gemm.why[:5]) == (NOISE, "steps")


@pytest.mark.parametrize("blocks", few([0.03, 0.0], 1))
def test_launches_of_the_same_job_are_not_accused(blocks: float) -> None:
    """Also where neighbours err alike, such as kernels beside one long collective."""
    chance, wrong, runs = np.random.default_rng(5), 0, 150
    for _ in range(runs):
        sides = (_of_launches(name, chance, chance.normal(1, RUNS), blocks) for name in "ab")
        wrong += any(row.verdict == CLEAR for row in compared(*sides).rows["kernel"])
    assert wrong <= 0.03 * runs


def test_what_all_kernels_of_a_step_share_is_no_change_of_one() -> None:
    """Steps that are 1 to 4 % longer: gemm alone, or all kernels."""

    def of(name: str, gemm: float, norms: float) -> Summary:
        chance, shared = np.random.default_rng(len(name)), np.repeat([0.4, 1.2, 1.4], 12)
        rows = {"gemm": (100_000, gemm)} | {f"norm {row}": (9_000, norms) for row in range(20)}
        durations = {row: ns * chance.normal(1, 0.02, 36) * (1 + more * shared) for row, (ns, more) in rows.items()}
        return side(name, [events(row, durations[row].astype(int).tolist(), steps=3) for row in rows])

    def p_of_gemm(gemm: float, norms: float) -> float:
        rows = compared(of("a", 0, 0), of("bb", gemm, norms)).rows["kernel"]
        found = Pairs(rows).test([row.key for row in rows].index("gemm"))
        assert found is not None
        return found

    assert p_of_gemm(0.025, 0) < 0.002
    assert p_of_gemm(0.025, 0.025) > 0.05


def test_idle_and_exposed_times_are_judged_together_where_the_time_is_within_noise() -> None:
    """Two chances to err: what would be clear of one alone isn't, unless it explains a time that is known to differ."""

    def of(name: str, idle: list[int], walls: tuple[int, ...], exposed: int) -> Summary:
        made = side(name, [events("gemm", [2 * MS + place for place in range(4)], steps=4)])
        times = zip(idle, walls, strict=True)
        made.step_use = [
            StepUse(f"step {place}", 1, wall * MS, 2 * MS, 2 * MS, 0, exposed, 0, exposed, 2 * MS + us * 1000)
            for place, (us, wall) in enumerate(times)
        ]
        return made

    a, b, uneven = [400, 410, 400, 410], [418, 420, 412, 421], (10, 12, 10, 12)
    alone = compared(of("a", a, uneven, 0), of("b", b, uneven, 0)).idle
    both = compared(of("a", a, uneven, MS), of("b", b, uneven, MS)).idle
    explains = compared(of("a", a, uneven, MS), of("b", b, (20, 24, 20, 24), MS)).idle
    assert alone and both and explains
    assert [one.verdict for one in (alone, both, explains)] == [CLEAR, NOISE, CLEAR]


def test_two_steps_are_too_few_to_test_and_their_spread_counts() -> None:
    apart = diff([10.0, 10.5], [20.0, 20.5])
    assert apart.wall is not None
    assert (apart.wall.verdict, apart.wall.why) == (UNKNOWN, "too few samples")
    assert gate(apart, 5).failed
    assert apart.verdict[-1] == "Whether the change exceeds noise isn't known: too few samples."
    near = diff([10.0, 12.0], [11.5, 13.5])
    assert near.wall is not None
    assert (near.wall.verdict, near.wall.test) == (NOISE, None)
    assert not gate(near, 5).failed
    assert near.verdict[-1] == "The change is within noise: too few steps to test it, but their totals overlap."
    assert gate(diff([10.0], [10.6]), 5).failed  # nothing is known of the spread
    assert not gate(diff([10.0], [10.4]), 5).failed


def test_what_too_few_steps_tell_is_doubted_and_not_called_a_change() -> None:
    """The time of the whole is within noise; its work lies apart, in each of two steps."""

    def sides(works: tuple[list[int], list[int]], walls: tuple[list[int], list[int]]) -> Diff:
        every = zip("ab", works, walls, strict=True)
        one, other = (
            side(name, [events("gemm", [us * 1000 for us in mine], steps=len(mine))], walls=[ms * MS for ms in times])
            for name, mine, times in every
        )
        return compared(one, other)

    few = sides(([200, 210], [230, 240]), ([10, 12], [11, 13]))
    assert (few.whole.verdict, few.wall and few.wall.verdict) == (UNKNOWN, NOISE)
    assert few.verdict[:2] == [
        "b takes 9.1% longer than a, within noise: 12.0 ms instead of 11.0 ms a step.",
        "No change by kernel is known to exceed noise. Whether gemm +30.0 us exceeds noise isn't known."
        " That its work is 14.6% more (235 us instead of 205 us) may be noise.",
    ]
    walls = [10, 12, 10, 12, 11], [11, 13, 10, 12, 11]
    enough = sides(([200, 210, 205, 200, 210], [230, 240, 235, 230, 240]), walls)
    assert ", but its work is 14.6% more (235 us instead of 205 us)." in enough.verdict[0]
    assert "may be noise" not in " ".join(enough.verdict)
    neither = sides(([200, 210], [230, 240]), ([10, 11], [12, 13]))
    assert "may be noise" not in " ".join(neither.verdict)  # the last sentence says it
    assert neither.verdict[-1] == "Whether the change exceeds noise isn't known: too few samples."


@pytest.mark.parametrize(("work", "is_said"), [(312_000, False), (340_000, True)])
def test_work_that_changed_the_other_way_in_one_step_is_said_from_5_points_on(work: int, *, is_said: bool) -> None:
    """Nothing is known of one step; 1.3 % more work in 1.4 % less time may be chance."""
    one = side("a", [events("gemm", [308_000] * 3, steps=3)], walls=[574_000, 577_000, 576_000])
    found = compared(one, side("b", [events("gemm", [work], steps=1)], walls=[568_000]))
    assert (found.wall and found.wall.verdict, found.whole.verdict) == (UNKNOWN, UNKNOWN)
    assert ("but its work is" in found.verdict[0]) is is_said


def test_idle_time_that_makes_the_time_is_named_before_a_kernel_where_both_are_within_noise() -> None:
    """1.5 ms more idle time, of steps that vary by 3 ms; idle time that a slower kernel fills is said after it."""

    def of(name: str, gemm: int, idle: list[int], rest: tuple[int, ...]) -> Summary:
        made = side(name, [events("gemm", [gemm + place for place in range(4)], steps=4)])
        made.step_use = [
            StepUse(f"step {place}", 1, gemm + more + wait, gemm + more, gemm + more, 0, 0, 0, 0, gemm + more + wait)
            for place, (wait, more) in enumerate(zip(idle, rest, strict=True))
        ]
        return made

    uneven = (0, 6 * MS, 2 * MS, 5 * MS)
    waits = compared(of("a", 2 * MS, [100_000] * 4, uneven), of("b", 2 * MS + 60_000, [1_600_000] * 4, uneven[::-1]))
    assert (waits.time and waits.time.verdict, waits.idle and waits.idle.verdict) == (NOISE, CLEAR)
    assert waits.verdict[1].startswith("Its device is idle for 1.60 ms instead of 100 us a step. ")
    filled = compared(of("a", 2 * MS, [900_000] * 4, uneven), of("b", 2 * MS + 300_000, [500_000] * 4, uneven[::-1]))
    assert (filled.time and filled.time.verdict, filled.idle and filled.idle.verdict) == (NOISE, CLEAR)
    assert filled.verdict[1].startswith("The largest changes by kernel: gemm +300 us.")


def test_the_first_step_of_devices_that_lag_behind_has_nothing_before_it() -> None:
    """Its copy is exposed in both runs; that of each later step is in the second run alone."""
    a, b = np.array([220.0, 0.0, 0.0]), np.array([206.0, 189.0, 203.0])
    assert step_test(a, b, fills=True) < 0.015 < step_test(a, b)
    assert step_test(a, np.array([206.0, 0.0, 0.0]), fills=True) == 1.0


def test_idle_time_that_makes_most_of_a_known_change_is_named() -> None:
    """Steps take 2 ms longer, known by the host; when devices are idle varies by more."""

    def of(name: str, walls: list[float], idle: list[float]) -> Summary:
        made = side(name, [events("gemm", [2 * MS + place for place in range(4)], steps=4)])
        times = zip(walls, idle, strict=True)
        made.step_use = [
            StepUse(f"step {place}", 1, round(wall * MS), 2 * MS, 2 * MS, 0, 0, 0, 0, round((2 + none) * MS))
            for place, (wall, none) in enumerate(times)
        ]
        return made

    before = of("a", [10.0, 10.1, 10.0, 10.1], [4, 8, 4, 8])
    after = compared(before, of("b", [12.0, 12.1, 12.0, 12.1], [10, 6, 10, 6]))
    assert (after.wall and after.wall.verdict, after.idle and after.idle.verdict) == (CLEAR, NOISE)
    assert after.verdict[1].startswith("Its device is idle for 8.00 ms instead of 6.00 ms a step. ")
    other = compared(before, of("b", [12.0, 12.1, 12.0, 12.1], [8, 5, 8, 5]))
    assert (other.wall and other.wall.verdict, other.idle and other.idle.verdict) == (CLEAR, NOISE)
    assert "idle" not in " ".join(other.verdict)


def test_a_large_change_is_no_noise_because_few_steps_make_it() -> None:
    for b, verdict in (([0.5, 30.0, 31.0, 0.5], CLEAR), ([30.0, 0.5, 0.5, 31.0], UNKNOWN)):  # the first is a stretch
        found = diff([0.5, 0.51, 0.5, 0.51], b)
        assert found.wall is not None
        assert (found.wall.verdict, gate(found, 5).failed) == (verdict, True)
    assert found.verdict[-1] == (
        "Whether the change exceeds noise isn't known: it is large, but the samples vary too much for a test."
    )
    warm = diff([10.0, 1.0, 1.01, 1.0], [22.0, 1.01, 1.0, 1.0])  # each side by itself varies as much
    assert warm.wall is not None
    assert (warm.wall.verdict, gate(warm, 5).failed) == (NOISE, False)


def test_a_kernel_is_not_named_for_a_change_that_it_has_no_part_in() -> None:
    """The step waits 30 ms longer; a kernel took 10 us more."""
    walls = [[ms * MS for ms in times] for times in ([10, 10, 10, 10], [40, 40, 40, 41])]
    a, b = (
        side(name, [events("gemm", [dur + place for place in range(4)], steps=4)], walls=mine)
        for name, dur, mine in (("a", 200_000, walls[0]), ("b", 210_000, walls[1]))
    )
    assert compared(a, b).rows["kernel"][0].verdict == CLEAR
    assert compared(a, b).verdict[1].endswith("No change by kernel exceeds both noise and 1% of that.")
    near = compared(a, side("b", [events("gemm", [210_000 + place for place in range(4)], steps=4)], walls=walls[0]))
    assert near.verdict[1].endswith("The largest changes by kernel: gemm +10.0 us.")
