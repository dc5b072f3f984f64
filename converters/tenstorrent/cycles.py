"""Cycles of a chip as times."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ktrace.model.masks import present

#: Cycles from here on aren't times: 2000 times as many don't fit int64. At 1 GHz that is after 53 days.
_LIMIT = (1 << 63) // 2000 - 1000

#: A time that `timed` refuses.
_REFUSED = (1 << 63) - 1


def nanoseconds(cycles: pa.Int64Array, mhz: int) -> pa.Int64Array:
    """Cycles since the chip's reset in ns, rounded half up; null stays null, cycles beyond the limit become refused."""
    known = present(cycles)
    numbers = cycles.fill_null(0).to_numpy(zero_copy_only=False)
    good = np.abs(numbers) < _LIMIT
    ns = np.where(good, (2000 * np.where(good, numbers, 0) + mhz) // (2 * mhz), _REFUSED)
    return pa.array(ns, mask=~known)
