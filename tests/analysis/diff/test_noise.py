"""Noise: p against all ways to deal the values, published tables and scipy (where installed); bounds by coverage."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from ktrace.analysis.answers.diff import noise
from ktrace.analysis.answers.diff.noise import (
    evidence,
    launch_test,
    may_differ,
    median_bounds,
    order_statistic_margin,
    rank_test,
)
from ktrace.analysis.work.durations import Samples
from ktrace.analysis.work.steadiness import benjamini_hochberg


def dealt(a: list[int], b: list[int]) -> Fraction:
    """p by definition: the part of all ways to deal the values whose U is as far from its mean; ties count half."""

    def off(one: list[int], other: list[int]) -> Fraction:
        u = sum(Fraction(x > y) + Fraction(x == y, 2) for x in one for y in other)
        return abs(u - Fraction(len(one) * len(other), 2))

    values = a + b
    seen, ways, far = off(a, b), 0, 0
    for places in combinations(range(len(values)), len(a)):
        one = [values[place] for place in places]
        other = [values[place] for place in range(len(values)) if place not in places]
        ways += 1
        far += off(one, other) >= seen
    return Fraction(far, ways)


def of_u(n: int, m: int, u: int) -> tuple[list[int], list[int]]:
    """Two sides without ties, of which in `u` pairs the value of `b` is below that of `a`."""
    b = []
    for place in range(m):
        below = min(u, n)
        b.append(100 * (n - below) - 50 + place)
        u -= below
    return list(range(0, 100 * n, 100)), b


@pytest.mark.parametrize("seed", range(12))
def test_p_is_that_of_all_ways_to_deal_the_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    a = rng.integers(0, 4 + seed, n).tolist()  # small numbers, so that there are ties
    b = rng.integers(1, 5 + seed, m).tolist()
    assert rank_test(np.array(a), np.array(b)) == pytest.approx(float(dealt(a, b)), abs=1e-12)


@pytest.mark.parametrize(("n", "critical"), [(5, 2), (6, 5), (7, 8), (8, 13), (9, 17), (10, 23), (15, 64), (20, 127)])
def test_the_published_critical_values_of_u(n: int, critical: int) -> None:
    """The tables of the two-sided test at 5 %, with equally many values on both sides."""
    at, beyond = (of_u(n, n, u) for u in (critical, critical + 1))
    for (a, b), u in ((at, critical), (beyond, critical + 1)):
        assert sum(y < x for x in a for y in b) == u
    assert rank_test(np.array(at[0]), np.array(at[1])) <= 0.05 < rank_test(np.array(beyond[0]), np.array(beyond[1]))


def test_the_approximation_is_near_the_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        a, b = rng.integers(0, 30, 14), rng.integers(3, 33, 16)
        exact = rank_test(a, b)
        with monkeypatch.context() as patched:
            patched.setattr(noise, "EXACT", 0)
            assert rank_test(a, b) == pytest.approx(exact, abs=0.015)


def test_p_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    rng = np.random.default_rng(7)
    for n, m in ((40, 50), (300, 200)):
        a, b = rng.integers(0, 50, n), rng.integers(4, 54, m)
        assert rank_test(a, b) == pytest.approx(stats.mannwhitneyu(a, b, method="asymptotic").pvalue, rel=1e-9)


def test_sides_that_say_nothing() -> None:
    empty, same = np.array([], np.int64), np.full(50, 7)
    assert rank_test(empty, same) == 1.0
    assert rank_test(same, same) == 1.0
    assert rank_test(np.array([3]), np.array([3])) == 1.0


def test_many_samples_count_as_no_more_than_a_thousand() -> None:
    a = np.arange(100_000)
    b = a + 300  # half a percent of the range of both: significant for so many independent ones
    assert rank_test(a, b) > 0.5
    assert rank_test(a, a + 10_000) < 1e-6


def test_the_published_example_of_benjamini_and_hochberg() -> None:
    """Their paper of 1995 has 15 p of a study; at 5 % their procedure rejects the first four."""
    ps = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    ps += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert sum(q <= 0.05 for q in benjamini_hochberg(ps)) == 4
    backwards = benjamini_hochberg(ps[::-1])
    assert backwards[::-1] == benjamini_hochberg(ps)
    assert benjamini_hochberg([]) == []


@pytest.mark.parametrize("n", [*range(1, 60), 99, 100, 500, 999, 1000])
def test_the_bounds_of_a_median_cover_it_as_often_as_said(n: int) -> None:
    """As many are left out at each end as may be, and no more, by the binomial distribution in whole numbers."""
    wanted = Fraction(math.sqrt(0.95))

    def covered(outside: int) -> Fraction:
        return 1 - 2 * Fraction(sum(math.comb(n, k) for k in range(outside + 1)), 2**n)

    outside = order_statistic_margin(n)
    if outside is None:
        assert covered(0) < wanted
        assert median_bounds(np.arange(n)) is None
    else:
        assert covered(outside) >= wanted > covered(outside + 1)


def test_the_interval_of_a_ratio_holds_it() -> None:
    """Of 400 comparisons whose ratio is 1.1 at least 95 % say an interval with 1.1 in it."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        a, b = np.sort(rng.lognormal(0, 0.1, 25)), np.sort(1.1 * rng.lognormal(0, 0.1, 40))
        interval = evidence("launches", a, b).interval
        assert interval is not None
        held += interval[0] <= 1.1 <= interval[1]
    assert held >= 380


def test_evidence_says_medians_and_spreads() -> None:
    a, b = np.array([10, 20, 30, 40, 50]), np.array([60, 60, 60])
    found = evidence("steps", a, b)
    assert (found.a, found.b, found.ratio) == (5, 3, 2.0)
    assert found.spread_a == pytest.approx(100 * 20 / 30)
    assert found.spread_b == 0.0
    assert found.interval is None
    assert evidence("steps", np.zeros(3), b).ratio is None


def many_samples(seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Both sides of 400 groups of 1 to 40 launches: with and without ties, apart and not, some without any spread."""
    drawn = np.random.default_rng(seed)
    sides: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for _ in range(400):
        middle, spread = drawn.integers(10, 10**6), drawn.choice([0.0, 0.001, 0.01, 0.3])
        factor = drawn.choice([1.0, 1.0, 1.003, 1.02, 1.3])
        for side, scale in zip(sides, (1.0, factor), strict=True):
            values = middle * scale * drawn.normal(1, spread, drawn.integers(1, 41))
            side.append(np.sort(np.maximum(values, 0).astype(np.int64)))
    return sides


def samples_of(groups: list[np.ndarray]) -> Samples:
    return Samples(np.concatenate(groups), np.array([*map(len, groups)]))


@pytest.mark.parametrize("seed", range(5))
def test_ranks_of_many_groups_at_once_are_those_of_each(seed: int) -> None:
    a, b = many_samples(seed)
    expected = [rank_test(one, other) for one, other in zip(a, b, strict=True)]
    assert noise._rank_tests(samples_of(a), samples_of(b), np.ones(len(a), np.bool_)).tolist() == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("level", [0.5, 0.015, 0.0002])
@pytest.mark.parametrize("seed", range(5))
def test_no_group_that_the_test_finds_is_left_out_before(seed: int, level: float) -> None:
    a, b = many_samples(seed)
    ps = [launch_test(one, other) if min(len(one), len(other)) >= 3 else 1.0 for one, other in zip(a, b, strict=True)]
    may = may_differ(samples_of(a), samples_of(b), np.full(len(a), level))
    assert not np.any((np.array(ps) <= level) & ~may)
    assert np.count_nonzero(may) <= 1.3 * np.count_nonzero(np.array(ps) <= level)  # and few others are kept


def test_samples_are_sorted_with_what_goes_with_them() -> None:
    samples, others = Samples(np.array([5, 1, 9, 2, 7]), np.array([2, 3])), np.array([0, 1, 2, 3, 4])
    samples.sort(others)
    assert (samples.of(1).tolist(), samples.of(0).tolist(), others.tolist()) == ([2, 7, 9], [1, 5], [1, 0, 3, 4, 2])
    assert samples.of_groups(np.array([1, 0])).values.tolist() == [2, 7, 9, 1, 5]
