"""Tests whether samples of two sides are further apart than chance would put them.

    launches   10.1 10.2 10.0 10.3 10.1      p = 0.008: of all ways to deal these ten values to two sides, 2 of 252 put
               11.0 11.2 10.9 11.1 11.3      them as far apart; ratio of the medians 1.089, with bounds from order
                                             statistics
    steps      500 20 21 20                  p = 0.02: without the first step of each, the means are 34 times as far
               490 23 23 23                  apart as their own error

The tests of launches assume no shape of the distribution. Successive launches aren't independent (clocks, caches, other
work), so they count as at most `COUNTED`. No sample tells how much runs differ from one another, so `RUNS` is assumed.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from ktrace.analysis.answers.diff import Evidence
from ktrace.analysis.work.durations import Samples
from ktrace.analysis.work.steadiness import RUNS, student_t_p
from ktrace.model.arrays import AnyArray, Bools, Float64, Int64
from ktrace.store.joins import group_start_mask

#: Fewer samples of a side aren't tested.
FEWEST = 3
#: The confidence of an interval.
CONFIDENCE = 0.95
#: Samples of one side count as at most this number.
COUNTED = 1000
#: Up to this number of samples of both sides, all ways to deal them are counted exactly.
EXACT = 30


def rank_test(a: AnyArray, b: AnyArray) -> float:
    """Returns the two-sided p of the Mann-Whitney test: the probability of ranks this far apart by chance.

    It is exact, also with ties, for up to `EXACT` values in total; above that it is the normal approximation with
    corrections for ties and continuity. It is 1.0 if a side is empty.
    """
    n, m = len(a), len(b)
    if not n or not m:
        return 1.0
    both = np.sort(np.concatenate([a, b]))
    # A value that equals others has the mean of their ranks: twice that is a whole number.
    doubled = int(both.searchsorted(a, "left").sum() + both.searchsorted(a, "right").sum()) + n
    off = abs(doubled - n * (n + m + 1))
    equal = np.diff(np.flatnonzero(np.concatenate([_TRUE, both[1:] != both[:-1], _TRUE])))
    if n + m <= EXACT:
        return float(_rank_sum_distribution(tuple(equal.tolist()), n)[off])
    return _approximate(off / (2 * n * m), n, m, equal)


_TRUE = np.ones(1, np.bool_)


class Slow(NamedTuple):
    """Which steps of each side are slow other than by noise, None if none are; `alike` if those of both sides are."""

    a: Bools | None = None
    b: Bools | None = None
    alike: bool = False


#: No step is slow.
STEADY = Slow()


@lru_cache(maxsize=4096)
def _rank_sum_distribution(equal: tuple[int, ...], taken: int) -> Float64:
    """Returns the part of all ways to deal values that puts the rank sum of one side at least so far from its mean.

    `equal` tells how many of the values, in rising order, are equal; that side gets `taken` of them. Index of the
    result: twice the distance.
    """
    both = np.array(equal, np.int64)
    ranks = np.repeat(2 * np.cumsum(both) - both + 1, both)
    length = int(ranks.sum()) + 1
    ways = np.zeros((taken + 1, length))
    ways[0, 0] = 1
    for rank in ranks.tolist():
        ways[1:, rank:] += ways[:-1, : length - rank].copy()
    off = np.abs(np.arange(length) - taken * (len(ranks) + 1))
    beyond = np.cumsum(np.bincount(off, ways[taken])[::-1])[::-1]
    shares: Float64 = np.minimum(beyond / beyond[0], 1.0)
    return shares


def _approximate(off: float, n: int, m: int, equal: Int64) -> float:
    """Approximates p. The probability that a value of one side is above one of the other is `off` one half."""
    tied = float((equal.astype(np.float64) ** 3 - equal).sum()) / (float(n + m) ** 3 - (n + m))
    n, m = min(n, COUNTED), min(m, COUNTED)
    deviation = math.sqrt((n + m + 1) / (12 * n * m) * (1 - tied))
    off -= 0.5 / (n * m)
    return math.erfc(max(off, 0.0) / deviation / math.sqrt(2)) if deviation else 1.0


def step_test(a: Float64, b: Float64, *, fills: bool = False) -> float:
    """Returns the two-sided p of the totals of steps, in the order of the steps.

    Ranks of few steps show nothing, however far apart they are: 3 above 3 others are chance in 1 of 10 cases. So
    distances are tested, of all steps, or of those at the same places, as kinds of steps may take turns. A step unlike
    the others hides both: then ranks show a change of many steps, and the steps after the first show one of few, as the
    first may warm up, or find its data ready. Each p counts several times, so that together they err as often as one.
    With `fills`, the first is known to be unlike the others, as devices that lag behind have nothing before it: then
    the tests without it count fewer times, and those with it more.

    It is 1.0 for fewer than `FEWEST` steps of a side.
    """
    if min(len(a), len(b)) < FEWEST:
        return 1.0
    every, later = (20, 1.5) if fills else (1.5, 20)
    ranks = rank_test(a, b) if _exceeds_run_noise(float(np.median(a)), float(np.median(b))) else 1.0
    ps = [every * distance_test(a, b), 6 * ranks, later * distance_test(a[1:], b[1:])]
    if len(a) == len(b):
        ps += [every * _pairs_test(a, b), later * _pairs_test(a[1:], b[1:])]
    return min(1.0, *ps)


def launch_test(a: AnyArray, b: AnyArray) -> float:
    """Returns the two-sided p of the durations of launches, in rising order: by ranks, of few by distances, too.

    Each p of few counts several times, so that together they err as often as one.
    """
    ranks = rank_test(a, b) if _exceeds_run_noise(_quantile(a, 0.5), _quantile(b, 0.5)) else 1.0
    if len(a) + len(b) > EXACT or min(len(a), len(b)) < FEWEST:
        return ranks
    return min(1.0, 3 * ranks, 1.5 * distance_test(a, b))


def distance_test(a: AnyArray, b: AnyArray) -> float:
    """Returns the two-sided p of Student's test of two means; of Welch's, if the numbers of values differ."""
    n, m = len(a), len(b)
    of_a, of_b = float(a.var(ddof=1)) / n, float(b.var(ddof=1)) / m
    freedom = n + m - 2
    if n != m and (parts := of_a**2 / (n - 1) + of_b**2 / (m - 1)):
        freedom = int((of_a + of_b) ** 2 / parts)
    runs = (RUNS * float(a.mean())) ** 2 + (RUNS * float(b.mean())) ** 2
    return student_t_p(float(b.mean() - a.mean()), of_a + of_b + runs, freedom)


def _pairs_test(a: Float64, b: Float64) -> float:
    """Returns the two-sided p of Student's test of pairs: of ratios where all are above 0, of differences.

    Most changes are a part of a step. One that is the same time in steps of any length, such as a copy more, is rarer,
    so that its p counts 4 times.
    """
    p = _of_pairs(b - a, (RUNS * float(a.mean())) ** 2 + (RUNS * float(b.mean())) ** 2)
    return min(4 * p, _of_pairs(np.log(b / a), 2 * RUNS**2)) if min(a.min(), b.min()) > 0 else p


def _of_pairs(by: Float64, runs: float) -> float:
    """Returns the two-sided p of changes `by`, which runs alone move by the variance `runs`."""
    return student_t_p(float(by.mean()), float(by.var(ddof=1)) / len(by) + runs, len(by) - 1)


def _exceeds_run_noise(middle_a: Any, middle_b: Any) -> Any:
    """Whether two medians, or arrays of them, are further apart than those of two runs: by three deviations."""
    return abs(middle_b - middle_a) > 3 * math.sqrt(2) * RUNS * middle_a


def may_differ(a: Samples, b: Samples, level: Float64) -> Bools:
    """Tells of which groups the launches of both sides may be found to differ: where `launch_test` is at most `level`.

    It is computed for all groups at once. Ranks are tested as there, but Student's distribution is taken for the normal
    one, which leaves less beyond any distance: so some groups are named that the test doesn't find.
    """
    n, m = a.counts, b.counts
    (mean_a, var_a), (mean_b, var_b) = _moments(a), _moments(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt(var_a / n + var_b / m + (RUNS * mean_a) ** 2 + (RUNS * mean_b) ** 2)
        off = np.nan_to_num(np.abs(mean_b - mean_a) / deviation, nan=0.0)
    distances = np.array([math.erfc(one) for one in (off / math.sqrt(2)).tolist()])
    ranks = _rank_tests(a, b, _exceeds_run_noise(a.percentile(50), b.percentile(50)))
    few, enough = n + m <= EXACT, np.minimum(n, m) >= FEWEST
    least = np.where(few, np.minimum(3 * ranks, 1.5 * distances), ranks)
    candidates: Bools = enough & (least <= level)
    return candidates


def _moments(samples: Samples) -> tuple[Float64, Float64]:
    """Returns the mean and the variance of each group."""
    first, values = samples.bounds[:-1], samples.values.astype(np.float64)
    mean = np.add.reduceat(values, first) / samples.counts
    squares = np.add.reduceat((values - np.repeat(mean, samples.counts)) ** 2, first)
    return mean, squares / np.maximum(samples.counts - 1, 1)


def _rank_tests(a: Samples, b: Samples, tested: Bools) -> Float64:
    """Returns what `rank_test` does, for each group that is `tested`; 1.0 for the others."""
    groups, n, m = np.arange(len(a.counts)), a.counts, b.counts
    group = np.concatenate([np.repeat(groups, n), np.repeat(groups, m)])
    values = np.concatenate([a.values, b.values])
    order = np.lexsort((values, group))
    group, is_a = group[order], order < len(a.values)
    first = np.flatnonzero(group_start_mask((group, values[order])))  # of equal values of a group
    size = np.diff(np.append(first, len(group)))
    begins = (np.cumsum(n + m) - (n + m))[group[first]]
    # Twice the mean rank of equal values, less one: how many values are below, and how many below or equal.
    doubled = np.repeat(2 * (first - begins) + size, size)
    off = np.abs(np.bincount(group[is_a], doubled[is_a], len(groups)) + n - n * (n + m + 1)).astype(np.int64)
    ties = np.bincount(group[first], size.astype(np.float64) ** 3 - size, len(groups))
    ps = np.ones(len(groups))
    few = n + m <= EXACT
    places = np.flatnonzero(tested & few & (ties == 0))
    sizes, which = np.unique(np.stack((n, m), 1)[places], axis=0, return_inverse=True)
    for number, (one, other) in enumerate(sizes.tolist()):
        alike = places[which == number]
        ps[alike] = _rank_sum_distribution((1,) * (one + other), one)[off[alike]]
    bounds = np.searchsorted(group[first], np.append(groups, len(groups)))
    for place in np.flatnonzero(tested & ~(few & (ties == 0))).tolist():
        equal = size[bounds[place] : bounds[place + 1]]
        if few[place]:
            ps[place] = _rank_sum_distribution(tuple(equal.tolist()), int(n[place]))[off[place]]
        else:
            ps[place] = _approximate(off[place] / (2 * n[place] * m[place]), int(n[place]), int(m[place]), equal)
    return ps


@lru_cache(maxsize=2048)
def order_statistic_margin(n: int) -> int | None:
    """Returns how many order statistics lie outside the interval of a median at each end; None if `n` is too small.

    Both medians of a ratio lie in their intervals with the probability `CONFIDENCE`, each with its square root.
    """
    outside, ways, most = 0, 1, (1 - math.sqrt(CONFIDENCE)) / 2 * 2.0**n
    below = ways  # the ways in which at most `outside` of n values are below the median
    if below > most:
        return None
    while below <= most:
        ways = ways * (n - outside) // (outside + 1)
        outside += 1
        below += ways
    return outside - 1


def median_bounds(rising: AnyArray) -> tuple[float, float] | None:
    """Returns bounds of the median with probability sqrt(`CONFIDENCE`); None for fewer than 7 values."""
    n = min(len(rising), COUNTED)
    outside = order_statistic_margin(n)
    if outside is None:
        return None
    place = outside * len(rising) // n
    return float(rising[place]), float(rising[len(rising) - 1 - place])


def evidence_of_steps(a: Float64, b: Float64, *, fills: bool = False, slow: Slow = STEADY) -> Evidence:
    """Returns the evidence of the totals of steps: apart by ranks or by distance, whichever is less likely.

    If steps of the side that takes longer are slow for a reason that the other side lacks, and make most of the change,
    they are compared with the others of that side; if those of both sides are slow alike, the others of both sides are
    compared.
    """
    best = replace(evidence("steps", np.sort(a), np.sort(b)), p=step_test(a, b, fills=fills))
    if slow.alike and slow.a is not None and slow.b is not None:
        return replace(best, p=min(best.p, 1.5 * step_test(a[~slow.a], b[~slow.b])))
    name, side, mask = ("b", b, slow.b) if b.mean() > a.mean() else ("a", a, slow.a)
    if slow.alike or mask is None:
        return best
    more = float(mask.mean() * (side[mask].mean() - side[~mask].mean()))
    if 0 < more < 2 * abs(float(b.mean() - a.mean())):
        p = _split_test(side[mask], side[~mask])
        best = replace(best, p=p, slow=name) if p < best.p else best
    return best


def _split_test(slow: Float64, others: Float64) -> float:
    """Returns the two-sided p of Student's test of the means of two parts of one run, either of which may be single."""
    n, m = len(slow), len(others)
    within = (n * float(slow.var()) + m * float(others.var())) / (n + m - 2)
    variance = within * (1 / n + 1 / m) + (RUNS * float(others.mean())) ** 2
    return student_t_p(float(slow.mean() - others.mean()), variance, n + m - 2)


def evidence(samples: str, a: AnyArray, b: AnyArray) -> Evidence:
    """Returns the evidence of the samples of both sides, in rising order; each side has at least one."""
    middle_a, middle_b = _quantile(a, 0.5), _quantile(b, 0.5)
    bounds_a, bounds_b = median_bounds(a), median_bounds(b)
    interval = None
    if bounds_a and bounds_b and bounds_a[0] > 0:
        interval = bounds_b[0] / bounds_a[1], bounds_b[1] / bounds_a[0]
    return Evidence(
        samples,
        len(a),
        len(b),
        p=launch_test(a, b),
        ratio=middle_b / middle_a if middle_a else None,
        interval=interval,
        spread_a=_spread(a, middle_a),
        spread_b=_spread(b, middle_b),
    )


def _quantile(rising: AnyArray, part: float) -> float:
    """Returns the quantile, interpolated linearly between neighbouring values."""
    place = part * (len(rising) - 1)
    low = int(place)
    high = min(low + 1, len(rising) - 1)
    return float(rising[low]) + (place - low) * (float(rising[high]) - float(rising[low]))


def _spread(rising: AnyArray, middle: float) -> float | None:
    """Returns the interquartile range in percent of the median; None for fewer than 3 values."""
    if len(rising) < 3 or not middle:
        return None
    return 100 * (_quantile(rising, 0.75) - _quantile(rising, 0.25)) / middle
