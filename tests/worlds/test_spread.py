"""What is called known, Student's test finds in most worlds, and a third of it in few."""

from __future__ import annotations

import numpy as np
import pytest

from ktrace.analysis.answers.diff.noise import distance_test
from ktrace.analysis.work.steadiness import RUNS
from worlds.spread import WRONG, least


@pytest.mark.parametrize("steps", [3, 6])
def test_the_least_change_that_is_known_is_found(steps: int) -> None:
    """Steps of 10 ms, to which noise adds 2 %; a table has 20 rows."""
    chance, rows, worlds = np.random.default_rng(steps), 20, 400
    size = least([10.0] * steps, [0.2] * steps, rows)

    def found(more: float) -> float:
        sides = ([chance.normal(10, 0.2, steps) * chance.normal(1, RUNS) for _ in "ab"] for _ in range(worlds))
        return sum(distance_test(a, b + more) <= WRONG / rows for a, b in sides) / worlds

    assert found(size) > 0.75
    assert found(size / 3) < 0.1
    assert found(0) <= WRONG


def test_of_one_value_nothing_is_known() -> None:
    assert least([10.0], [0.1], 1) == float("inf")
