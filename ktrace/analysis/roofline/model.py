"""What is known of the cost of work, and the rates that follow from it.

Item("aten::mm", 8x64, 64x32 bf16, 24 calls, 1.2 ms, FLOPs, bytes)        work with the same inputs on one device
Rate("gemm", 12.3 TFLOP/s, 410 GB/s, bound by compute, 61 % of the roof)  items together
DeviceRate("device 0", utilisation 23 %, FLOPs known of 71 % of the time)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum

from ktrace.analysis.roofline.peaks import Peak


@dataclass(frozen=True)
class Item:
    """Work of one device with the same operator and inputs.

    `calls` is the number of operators (of kernels, where the source measured them), `kernels` that of pieces of work,
    `time` their total in ns. `flops` and `bytes` are those of all calls together: None if they aren't known; 0 FLOPs
    if the bytes decide the time. `device` is an index of the devices of the answer.
    """

    operation: str
    name: str
    shapes: str
    precision: str
    device: int
    calls: int
    kernels: int
    time: int
    flops: float | None
    bytes: float | None


@dataclass(frozen=True)
class Device:
    """A device: its name in the source, the time from its first to its last work, and the total of all its work, in ns.

    `span` is None if the source has no times of single kernels. `unlaunched` is the part of `time` whose call isn't in
    the trace, so that its operator isn't known either; 0 where the source states figures of the work itself.
    """

    label: str
    name: str | None
    span: int | None
    time: int
    unlaunched: int = 0


@dataclass(frozen=True)
class Rate:
    """The rates of some items together.

    `flops` and `bytes` are totals of the items for which they are known, which took `flops_time` and `bytes_time` ns.
    `computing` and `moving` are the shortest times, in ns, that the peak rates of the device allow for them, over the
    items whose roof is known: these took `roofed_time` ns, and at best `best` ns.
    """

    key: str
    calls: int
    kernels: int
    time: int
    flops: float
    flops_time: int
    bytes: float
    bytes_time: int
    computing: float
    moving: float
    best: float
    roofed_time: int
    item: Item | None = field(default=None, repr=False)

    @property
    def tflops(self) -> float | None:
        """Achieved TFLOP/s; None if no FLOPs are known."""
        return self.flops / self.flops_time / 1e3 if self.flops and self.flops_time else None

    @property
    def gb_per_s(self) -> float | None:
        """Achieved GB/s of the known bytes."""
        return self.bytes / self.bytes_time if self.bytes_time else None

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte; None if the bytes alone decide."""
        return self.flops / self.bytes if self.flops and self.bytes else None

    @property
    def bound(self) -> str | None:
        """The roof that limits: "compute" or "memory"; None without peak rates."""
        if not self.roofed_time:
            return None
        return "compute" if self.computing > self.moving else "memory"

    @property
    def reached(self) -> float | None:
        """The shortest possible time in percent of the time; None without peak rates."""
        return 100 * self.best / self.roofed_time if self.roofed_time else None

    @property
    def of_compute(self) -> float | None:
        """The shortest time for the FLOPs in percent of the time."""
        return 100 * self.computing / self.roofed_time if self.roofed_time and self.computing else None

    @property
    def of_memory(self) -> float | None:
        """The shortest time for the bytes in percent of the time."""
        return 100 * self.moving / self.roofed_time if self.roofed_time else None


def rate_of(key: str, items: list[Item], peaks: list[Peak | None]) -> Rate:
    """The rates of some items; `peaks` are those of the devices."""
    flops = [item for item in items if item.flops]
    moved = [item for item in items if item.bytes is not None]
    best, computing, moving, time = [], [], [], 0
    for item in items:
        peak = peaks[item.device]
        if peak is None or item.flops is None:
            continue
        shortest, shortest_moving = peak.seconds(item.flops, item.bytes, item.precision)
        if shortest_moving is None or (item.flops and shortest is None):
            continue
        computing.append(1e9 * (shortest or 0.0))
        moving.append(1e9 * shortest_moving)
        best.append(max(computing[-1], moving[-1]))
        time += item.time
    return Rate(
        key,
        sum(item.calls for item in items),
        sum(item.kernels for item in items),
        sum(item.time for item in items),
        fsum(item.flops or 0 for item in flops),
        sum(item.time for item in flops),
        fsum(item.bytes or 0 for item in moved),
        sum(item.time for item in moved),
        fsum(computing),
        fsum(moving),
        fsum(best),
        time,
        items[0] if len(items) == 1 else None,
    )


@dataclass(frozen=True)
class DeviceRate:
    """How near a device came to what it can do.

    `utilisation` is the time that the known FLOPs take at the peak rate of their type, in percent of the span of the
    device ("model FLOPs utilisation"); None without a span, or if a rate isn't known. `flops_known` and `bytes_known`
    are the parts of the time of its work for which FLOPs and bytes are known, in percent; work that does no arithmetic
    to speak of counts as known.
    """

    device: Device
    peak: Peak | None
    flops: float
    flops_known: float | None
    bytes_known: float | None
    utilisation: float | None

    @property
    def tflops(self) -> float | None:
        """The known FLOPs over the span of the device, in TFLOP/s."""
        return self.flops / self.device.span / 1e3 if self.device.span and self.flops else None
