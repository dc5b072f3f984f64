"""The report cuda_gpu_kern_sum: a row for each kernel, with exact figures.

Durations are counted: memory grows with the number of different durations of each kernel, not with the kernels.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Int64
from ktrace.model.json_text import encoded

from .cells import quoted

HEADINGS = (
    *("Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"),
    "Name",
)

#: Durations that wait before equal ones are counted.
_WAITING = 1 << 20

_TENTH = Decimal("0.1")


class Kernel(NamedTuple):
    """The figures of a kernel, in ns."""

    name: str
    total: int
    instances: int
    median: Fraction
    least: int
    most: int
    deviation: float


class KernelSum:
    """Adds up the durations of kernels by name, and writes the report at the end."""

    def __init__(self, stream: BinaryIO, waiting: int = _WAITING) -> None:
        self._stream = stream
        self._limit = waiting
        self._numbers: dict[str, int] = {}
        #: Columns name, duration, count; the first of them has the counted durations, sorted.
        self._parts: list[Int64] = [np.empty((3, 0), np.int64)]
        self._waiting = 0

    def write(self, names: pa.Array, durations: Int64) -> None:
        """Adds kernels with these names."""
        coded = encoded(names)
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in coded.dictionary.to_pylist()]
        number = np.array(numbers, np.int64)[coded.indices.to_numpy()]
        self._parts.append(np.stack([number, durations, np.ones_like(durations)]))
        self._waiting += len(durations)
        if self._waiting > max(self._limit, self._parts[0].shape[1]):
            self._count()

    def _count(self) -> None:
        """Makes one row of equal durations of a kernel."""
        whole = np.concatenate(self._parts, axis=1)
        whole = whole[:, np.lexsort((whole[1], whole[0]))]
        first = np.flatnonzero(np.any(whole[:2, 1:] != whole[:2, :-1], axis=0)) + 1
        starts = np.concatenate([[0], first]) if whole.shape[1] else first
        counts = np.add.reduceat(whole[2], starts) if len(starts) else whole[2]
        self._parts = [np.stack([whole[0][starts], whole[1][starts], counts])]
        self._waiting = 0

    def close(self) -> None:
        """Writes the kernels by total time, greatest first."""
        kernels = sorted(self._kernels(), key=lambda kernel: (-kernel.total, kernel.instances, kernel.name.encode()))
        whole = sum(kernel.total for kernel in kernels)
        self._stream.write((",".join(HEADINGS) + "\n").encode())
        for kernel in kernels:
            cells = (
                _tenths(Fraction(100 * kernel.total, whole)) if whole else "",
                kernel.total,
                kernel.instances,
                _tenths(Fraction(kernel.total, kernel.instances)),
                _tenths(kernel.median),
                kernel.least,
                kernel.most,
                _tenths(Fraction(kernel.deviation)),
                quoted(kernel.name),
            )
            self._stream.write((",".join(map(str, cells)) + "\n").encode())

    def _kernels(self) -> list[Kernel]:
        self._count()
        (number, duration, count) = self._parts[0]
        bounds = np.searchsorted(number, np.arange(len(self._numbers) + 1))
        names = list(self._numbers)
        spans = zip(names, bounds, bounds[1:], strict=False)
        return [_figures(name, duration[low:high], count[low:high]) for name, low, high in spans if low < high]


def _figures(name: str, durations: Int64, counts: Int64) -> Kernel:
    """The figures of rising durations with the number of each."""
    least, until = int(durations[0]), np.cumsum(counts)
    total = sum(int(dur) * int(count) for dur, count in zip(durations, counts, strict=True))
    size = int(until[-1])
    middle = [int(durations[np.searchsorted(until, rank, side="right")]) for rank in ((size - 1) // 2, size // 2)]
    away = durations - np.float64(total / size)
    deviation = math.sqrt(float(np.sum(counts * away * away)) / (size - 1)) if size > 1 else 0.0
    return Kernel(name, total, size, Fraction(sum(middle), 2), least, int(durations[-1]), deviation)


def _tenths(number: Fraction) -> str:
    """The number with one decimal; a half is rounded up, as SQLite does."""
    return str((Decimal(number.numerator) / number.denominator).quantize(_TENTH, ROUND_HALF_UP))
