"""The figures of launches and of what limits kernels, and their tables. Times are ns, rates percent of the peak.

LaunchesAnswer
  launches   LaunchUse("gemm", grid (64, 32, 1), block (256, 1, 1), registers 96, shared 16,416, count 120, time 49 ms)
LimitsAnswer
  kernels    KernelLimits("gemm", launches 3, compute 88.6 %, memory 71.2 %, occupancy 24.6 of 25.0 %, by "registers")
  advice     Advice("gemm", "TheoreticalOccupancy", "Registers limit ...", speedup 11.4 %)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from ktrace.tables import Cell, Column, Table, brief, percent

if TYPE_CHECKING:
    import pyarrow as pa


class Lengths(msgspec.Struct, frozen=True):
    """The kernels that take at least `least` ns and less than `most`, None for no bound; `time` adds up theirs."""

    least: int
    most: int | None
    kernels: int
    time: int

    @property
    def label(self) -> str:
        """The bounds as text."""
        return f"{brief(self.least)} and longer" if self.most is None else f"below {brief(self.most)}"


class LengthsAnswer(msgspec.Struct):
    """How long kernels are: the shortest first, each row without those above it."""

    lengths: list[Lengths]

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A row for each range of durations that occurs."""
        whole = sum(one.kernels for one in self.lengths), sum(one.time for one in self.lengths)
        columns = (Column("kernels of"), Column("count", "count"), Column("share", "%"), Column("time", "ns"))
        rows: list[tuple[Cell, ...]] = [
            (one.label, one.kernels, percent(one.kernels, whole[0]), one.time, percent(one.time, whole[1]))
            for one in self.lengths
        ]
        return [Table("duration", "kernels by duration", (*columns, Column("share of time", "%")), rows)]


class CopyUse(msgspec.Struct, frozen=True):
    """The copies in one direction; `bytes` and what follows from it count those that state it, None if none does."""

    direction: str
    count: int
    time: int
    bytes: int | None
    median: float | None
    largest: int | None
    bandwidth: float | None


class CopiesAnswer(msgspec.Struct):
    """Copies by direction, the longest first."""

    copies: list[CopyUse]

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A row for each direction."""
        columns = (
            *(Column("copies"), Column("count", "count"), Column("time", "ns"), Column("bytes", "B")),
            *(Column("bandwidth", "B/s"), Column("median", "B"), Column("largest", "B")),
        )
        rows: list[tuple[Cell, ...]] = [
            (one.direction, one.count, one.time, one.bytes, one.bandwidth, one.median, one.largest)
            for one in self.copies[:top]
        ]
        return [Table("copy", "copies by direction", columns, rows, [], len(self.copies) - len(rows))]


Dims = tuple[int | None, int | None, int | None]


class LaunchUse(msgspec.Struct, frozen=True):
    """The launches of a kernel with one configuration; None is what the source doesn't tell."""

    kernel: str
    grid: Dims
    block: Dims
    registers: int | None
    shared: int | None
    occupancy: float | None
    count: int
    time: int

    @property
    def threads(self) -> int | None:
        """The threads of a launch."""
        sizes = [size for size in (*self.grid, *self.block) if size is not None]
        is_stated = self.grid[0] is not None and self.block[0] is not None
        product = 1
        for size in sizes:
            product *= size
        return product if is_stated else None


@dataclass
class LaunchesAnswer:
    """How kernels are launched, the heaviest first; `columns` are those of `Configurations.all`."""

    columns: pa.Table = field(repr=False)

    @property
    def launches(self) -> list[LaunchUse]:
        """The launches by configuration."""
        return self._uses(len(self.columns))

    def _uses(self, top: int | None) -> list[LaunchUse]:
        rows = zip(*(column.to_pylist() for column in self.columns.slice(0, top).columns), strict=True)
        return [LaunchUse(kernel, (x, y, z), (a, b, c), *rest) for kernel, x, y, z, a, b, c, *rest in rows]

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A row for each configuration, at most `top`."""
        columns = (
            *(Column("kernel"), Column("grid"), Column("block"), Column("threads", "count")),
            *(Column("registers", "count"), Column("shared", "B"), Column("occupancy", "%")),
            *(Column("count", "count"), Column("time", "ns"), Column("average", "ns")),
        )
        rows: list[tuple[Cell, ...]] = [
            (
                *(use.kernel, dims(use.grid), dims(use.block), use.threads),
                *(use.registers, use.shared, use.occupancy, use.count, use.time, use.time / use.count),
            )
            for use in self._uses(top)
        ]
        table = Table("launch", "launches by configuration", columns, rows, [], len(self.columns) - len(rows))
        return [table]


class KernelLimits(msgspec.Struct, frozen=True):
    """How near a kernel is to the limits of its device, means over its launches weighted by time.

    `rates` are percent of the peak by the names of `RATES`. `limited_by` is what limits the blocks of a multiprocessor:
    registers, shared memory, warps, blocks, barriers; several have the same limit. `waves` is how often all
    multiprocessors are filled. None, or absent, is what wasn't collected.
    """

    kernel: str
    launches: int
    time: int
    rates: dict[str, float]
    occupancy: float | None
    possible: float | None
    limited_by: str
    waves: float | None


class Advice(msgspec.Struct, frozen=True):
    """What a rule of Nsight Compute says of a kernel; `speedup` is its own estimate in percent, of so many launches."""

    kernel: str
    rule: str
    text: str
    speedup: float | None
    launches: int


#: The rates of a device, in the order of the table.
RATES = ("compute", "memory", "DRAM", "L2", "L1")


class LimitsAnswer(msgspec.Struct):
    """What limits kernels, the heaviest first, and what the profiler advises."""

    kernels: list[KernelLimits]
    advice: list[Advice] = msgspec.field(default_factory=list)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A row for each kernel, and one for each advice, at most `top` of each."""
        theoretical, waves = ("theoretical", Column("waves/SM")) if brief else ("possible", Column("waves", "x"))
        columns = (
            *(Column("kernel"), Column("time", "ns"), *(Column(name, "%") for name in RATES)),
            *(Column("occupancy", "%"), Column(theoretical, "%"), Column("limited by"), waves),
            Column("launches", "count"),
        )
        rows: list[tuple[Cell, ...]] = [
            (
                *(one.kernel, one.time, *(one.rates.get(name) for name in RATES)),
                *(one.occupancy, one.possible, one.limited_by or None, one.waves, one.launches),
            )
            for one in self.kernels[:top]
        ]
        more = len(self.kernels) - len(rows)
        limits = Table("limits", "Speed of Light: kernels against the peak of their device", columns, rows, [], more)
        tables = [limits]
        if self.advice:
            heads = (Column("kernel"), Column("speedup", "%"), Column("rule"), Column("advice", prose=True))
            rows = [(one.kernel, one.speedup, one.rule, one.text) for one in self.advice[:top]]
            more = len(self.advice) - len(rows)
            tables.append(Table("advice", "advice of the profiler's rules", heads, rows, [], more))
        return tables


def dims(sizes: Dims) -> str | None:
    """A grid or block as text: 64x32, 256."""
    stated = [size for size in sizes if size is not None]
    while len(stated) > 1 and stated[-1] == 1:
        stated.pop()
    return "x".join(map(str, stated)) or None
