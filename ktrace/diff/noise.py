"""Whether samples of both sides are further apart than chance would put them.

    a  10.1 10.2 10.0 10.3 10.1      p = 0.008: of all ways to deal these ten values to two sides, 2 of 252 put
    b  11.0 11.2 10.9 11.1 11.3      them as far apart; ratio of the medians 1.089, with bounds from order statistics

No shape of the distribution is assumed. Launches that follow one another aren't independent (clocks, caches, other
work), so that however many there are, they count as no more than `COUNTED`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ktrace.diff.model import Evidence
from ktrace.model.arrays import AnyArray, Int64

#: The part of rows called clear that may be so by chance.
LEVEL = 0.05
#: The confidence of an interval.
CONFIDENCE = 0.95
#: Samples of one side count as no more than this.
COUNTED = 1000
#: Samples of both sides up to which all ways to deal them are counted instead of approximated.
EXACT = 30


def rank_test(a: AnyArray, b: AnyArray) -> float:
    """The two-sided p of Mann and Whitney: the chance of ranks this far apart if both sides are of one distribution.

    Exact, also with ties, for `EXACT` values in all; else by the normal approximation with corrections for ties and
    continuity. 1.0 where a side is empty.
    """
    if not len(a) or not len(b):
        return 1.0
    values_a, counts_a = np.unique(a, return_counts=True)
    values_b, counts_b = np.unique(b, return_counts=True)
    values = np.union1d(values_a, values_b)
    of_a, of_b = np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
    of_a[np.searchsorted(values, values_a)] = counts_a
    of_b[np.searchsorted(values, values_b)] = counts_b
    if len(a) + len(b) <= EXACT:
        return _exact(of_a, of_b)
    return _approximate(of_a, of_b)


def _exact(of_a: Int64, of_b: Int64) -> float:
    """The part of all ways to deal the values that puts the sum of ranks at least as far from its mean."""
    both = of_a + of_b
    doubled = 2 * np.cumsum(both) - both + 1  # twice the mean rank of each value, a whole number
    ranks = np.repeat(doubled, both)
    taken, length = int(of_a.sum()), int(ranks.sum()) + 1
    ways = np.zeros((taken + 1, length))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : length - rank].copy()
    off = np.abs(np.arange(length) - taken * (len(ranks) + 1))
    seen = abs(int((of_a * doubled).sum()) - taken * (len(ranks) + 1))
    return min(1.0, float(ways[taken, off >= seen].sum() / ways[taken].sum()))


def _approximate(of_a: Int64, of_b: Int64) -> float:
    """By how many standard deviations the chance that a value of `b` is above one of `a` is off one half."""
    n, m = int(of_a.sum()), int(of_b.sum())
    below = np.cumsum(of_a) - of_a
    above = float((of_b * (below + of_a / 2)).sum()) / (n * m)
    both = (of_a + of_b).astype(np.float64)
    tied = float((both**3 - both).sum()) / (float(n + m) ** 3 - (n + m))
    n, m = min(n, COUNTED), min(m, COUNTED)
    deviation = math.sqrt((n + m + 1) / (12 * n * m) * (1 - tied))
    off = abs(above - 0.5) - 0.5 / (n * m)
    return math.erfc(max(off, 0.0) / deviation / math.sqrt(2)) if deviation else 1.0


def least_p(n: int, m: int) -> float:
    """The least p that so many samples can give, were all of one side above all of the other."""
    n, m = min(n, COUNTED), min(m, COUNTED)
    return 2 * math.exp(math.lgamma(n + 1) + math.lgamma(m + 1) - math.lgamma(n + m + 1)) if n and m else 1.0


def discoveries(ps: Sequence[float]) -> list[float]:
    """For each p the q of Benjamini and Hochberg: calling all with q <= 5 % clear errs in 5 % of them at most."""
    order = np.argsort(np.asarray(ps, np.float64), kind="stable")
    scaled = np.asarray(ps, np.float64)[order] * len(ps) / np.arange(1, len(ps) + 1)
    found = np.empty(len(ps))
    found[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return [float(q) for q in found]


@lru_cache(maxsize=2048)
def left_out(n: int) -> int | None:
    """How many order statistics lie outside the interval of a median at each end; None where `n` are too few.

    Both medians of a ratio lie in theirs with a probability of `CONFIDENCE`, so each does with its square root.
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
    """Between what the median lies with a probability of the square root of `CONFIDENCE`; None of fewer than 7."""
    n = min(len(rising), COUNTED)
    outside = left_out(n)
    if outside is None:
        return None
    place = outside * len(rising) // n
    return float(rising[place]), float(rising[len(rising) - 1 - place])


def evidence(samples: str, a: AnyArray, b: AnyArray) -> Evidence:
    """What samples of both sides, rising, say; each has one at least."""
    middle_a, middle_b = _quantile(a, 0.5), _quantile(b, 0.5)
    bounds_a, bounds_b = median_bounds(a), median_bounds(b)
    interval = None
    if bounds_a and bounds_b and bounds_a[0] > 0:
        interval = bounds_b[0] / bounds_a[1], bounds_b[1] / bounds_a[0]
    return Evidence(
        samples,
        len(a),
        len(b),
        p=rank_test(a, b),
        ratio=middle_b / middle_a if middle_a else None,
        interval=interval,
        spread_a=_spread(a, middle_a),
        spread_b=_spread(b, middle_b),
    )


def _quantile(rising: AnyArray, part: float) -> float:
    """The value below which this part lies, between its neighbours in proportion."""
    place = part * (len(rising) - 1)
    low = int(place)
    high = min(low + 1, len(rising) - 1)
    return float(rising[low]) + (place - low) * (float(rising[high]) - float(rising[low]))


def _spread(rising: AnyArray, middle: float) -> float | None:
    """The interquartile range in percent of the median; None of fewer than 3."""
    if len(rising) < 3 or not middle:
        return None
    return 100 * (_quantile(rising, 0.75) - _quantile(rising, 0.25)) / middle
