"""Writes one report of `nsys stats`: the one that the end of the file's name states.

The report cuda_gpu_kern_sum: a row for each kernel, with exact figures.

Durations are counted: memory grows with the number of different durations of each kernel, not with the kernels.
"""

from __future__ import annotations

import math
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.errors import UsageError
from ktrace.input.source import COMPRESSED
from ktrace.model.arrays import Bools, Int64
from ktrace.model.json_text import decoded, encoded
from ktrace.model.masks import truth, words_in
from ktrace.output.sink import Sink
from ktrace.stages.order.timeline import Timeline, TimelineBatch

from .gpu_trace import GpuTrace, quoted

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


#: The end of a file's name -> the kinds of events in that report.
REPORTS = {
    "_cuda_gpu_trace.csv": ("kernel", "memcpy", "memset"),
    "_cuda_gpu_kern_sum.csv": ("kernel",),
}


class Writer:
    """A TimelineWriter of kernels, and in a trace of copies and memsets. The reports have no place for other rows.

    Rows that were laid out from a table have no time of their own: they aren't written.
    """

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        name = _plain_name(sink.path)
        ends = [end for end in REPORTS if name.endswith(end)]
        if not ends:
            raise UsageError(
                f"the name '{sink.path}' doesn't state the report of nsys",
                expected=f"a name that ends in {' or '.join(REPORTS)}",
                remedy="another name with -o, or another format with --to",
            )
        if conversion.options.get("gpu", "auto") != "auto":
            raise UsageError("--gpu is for Perfetto, nsys-csv has one form", remedy="leave it out")
        self._kinds = REPORTS[ends[0]]
        stream = sink.open()
        self._trace = GpuTrace(stream) if "memcpy" in self._kinds else None
        self._sum = None if self._trace else KernelSum(stream)
        #: What was left out of the last batch: "12 api, 3 arrow ends".
        self.left_out = ""

    def start(self, timeline: Timeline) -> None:
        """Receives the tracks and the names of devices."""
        if self._trace:
            self._trace.start(timeline.tracks, timeline.catalog)

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows that the report has a place for, and returns their number."""
        mine = words_in(batch.column("kind"), self._kinds) & ~words_in(batch.column("timing"), ("synthetic",))
        if self._sum:
            mine &= truth(batch.column("dur").is_valid())
        self._note(batch, mine)
        rows = np.flatnonzero(mine)
        if len(rows) and self._trace:
            self._trace.write(batch.taken(rows), batch.track[rows])
        elif len(rows) and self._sum:
            found = batch.taken(rows)
            self._sum.write(found.column("name"), found.column("dur").to_numpy())
        return len(rows)

    def close(self) -> None:
        """Writes the sums."""
        if self._sum:
            self._sum.close()

    def _note(self, batch: TimelineBatch, mine: Bools) -> None:
        """Remembers the kinds of the rows that are left out."""
        left = decoded(batch.column("kind")).filter(pa.array(~mine)).to_pylist()
        counts = Counter(f"{kind} without a time" if kind in self._kinds else kind for kind in left)
        words = [f"{count:,} {kind}" for kind, count in counts.most_common()]
        self.left_out = ", ".join([*words, *([f"{batch.link_ends:,} arrow ends"] if batch.link_ends else [])])


def _plain_name(path: str) -> str:
    """The name of a file in lower case, without a suffix of compression."""
    name = Path(path).name.lower()
    return next((name.removesuffix(end) for end in COMPRESSED if name.endswith(end)), name)
