"""Numbers of columns as whole ones: what is no number, and what no integer holds."""

from __future__ import annotations

import numpy as np

from ktrace.model.arrays import to_int64


def test_what_no_integer_holds_is_bounded() -> None:
    numbers = np.array([1.0, 2.9, np.nan, np.inf, -np.inf, 1e300])
    assert to_int64(numbers).tolist() == [1, 2, 0, 1 << 60, -(1 << 60), 1 << 60]
    assert to_int64(np.array([9_007_199_254_740_993])).tolist() == [9_007_199_254_740_993]
