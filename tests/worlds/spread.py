"""Whether a change is beyond the spread of a trace: computed from the unchanged trace and the noise put on it alone.

    kernel   5 steps of 7.7 ms, each 5 % by noise: of 72 rows, one must change by 21 %, so that 10 % isn't known

Asked is the best of Student's tests: of steps or launches, of those after the first, of either in pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktrace.analysis.work.steadiness import RUNS, student_t_p
from ktrace.model.arrays import Float64

#: A test may accuse this part of all unchanged tables of any number of rows, and finds this part of what is planted, of
#: few steps less: of 3 steps a side 8 in 10, so that more is called known than could be found.
WRONG, FOUND = 0.02, 0.95


def least(values: Sequence[float], noise: Sequence[float], rows: int) -> float:
    """The least change of the mean that a test finds in a table of `rows` rows, of one value or more of each side.

    `noise` is the standard deviation of what noise adds to each value, beside their own spread. Without end where
    there are too few values.
    """
    own, added = np.array(values, np.float64), np.array(noise, np.float64)
    return min(_least(own, added, rows), _least(own[1:], added[1:], rows))


def _least(own: Float64, added: Float64, rows: int) -> float:
    number = len(own)
    if number < 2:
        return float("inf")
    runs, mean_noise = 2 * (RUNS * float(own.mean())) ** 2, float((added**2).mean())
    apart = 2 * (float(own.var(ddof=1)) + mean_noise) / number, 2 * number - 2
    pairs = 2 * mean_noise / number, number - 1
    return min(_errors(rows, freedom) * float(np.sqrt(variance + runs)) for variance, freedom in (apart, pairs))


def _errors(rows: int, freedom: int) -> float:
    """How many times its error a change must be."""
    return _quantile(WRONG / rows, freedom) + _quantile(2 * (1 - FOUND), freedom)


def _quantile(p: float, freedom: int) -> float:
    """What a value of Student's distribution exceeds, up or down, with probability `p`."""
    low, high = 0.0, 1e9
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student_t_p(middle, 1.0, freedom) > p else (low, middle)
    return high
