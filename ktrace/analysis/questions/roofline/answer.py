"""Roofline: the answer by operation, by operator with its shapes, and by device; rates and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import fsum

import msgspec

from ktrace.analysis.questions.roofline.peaks import Peak, Peaks, published
from ktrace.analysis.work.question import Answer
from ktrace.tables import Cell, Column, Table, percent


class RooflineItem(msgspec.Struct, frozen=True):
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


class RooflineDevice(msgspec.Struct, frozen=True):
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
class RooflineRate:
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
    item: RooflineItem | None = field(default=None, repr=False)

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


def rate_of(key: str, items: list[RooflineItem], peaks: list[Peak | None]) -> RooflineRate:
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
    return RooflineRate(
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


class DeviceRate(msgspec.Struct, frozen=True):
    """How near a device came to what it can do.

    `utilisation` is the time that the known FLOPs take at the peak rate of their type, in percent of the span of the
    device ("model FLOPs utilisation"); None without a span, or if a rate isn't known. `flops_known` and `bytes_known`
    are the parts of the time of its work for which FLOPs and bytes are known, in percent; work that does no arithmetic
    to speak of counts as known.
    """

    device: RooflineDevice
    peak: Peak | None
    flops: float
    flops_known: float | None
    bytes_known: float | None
    utilisation: float | None

    @property
    def tflops(self) -> float | None:
        """The known FLOPs over the span of the device, in TFLOP/s."""
        return self.flops / self.device.span / 1e3 if self.device.span and self.flops else None


@dataclass(frozen=True)
class RooflineAnswer:
    """What is known of the FLOPs and bytes of device work, and the rates that follow.

    `items` are the pieces of work with a known cost, `work` the devices, `peaks` the peak rates; `notes` are sentences
    about where the figures come from.
    """

    items: list[RooflineItem]
    work: list[RooflineDevice]
    peaks: Peaks = field(default_factory=published, repr=False)
    notes: list[str] = field(default_factory=list)

    def against(self, peaks: Peaks) -> RooflineAnswer:
        """The same work, compared with other peak rates."""
        return replace(self, peaks=peaks)

    @cached_property
    def peak_of(self) -> list[Peak | None]:
        """The peak rates of each device, None if they aren't known."""
        return [self.peaks.for_device(device.name) for device in self.work]

    @property
    def time(self) -> int:
        """The time of all device work, with and without a known cost, in ns."""
        return sum(device.time for device in self.work)

    @cached_property
    def operations(self) -> list[RooflineRate]:
        """The rates of each operation, such as gemm; the one that took most time first."""
        groups: dict[str, list[RooflineItem]] = {}
        for item in self.items:
            groups.setdefault(item.operation, []).append(item)
        return sorted((rate_of(key, items, self.peak_of) for key, items in groups.items()), key=lambda one: -one.time)

    @cached_property
    def operators(self) -> list[RooflineRate]:
        """The rates of each operator with the same inputs; the one that took most time first."""
        rates = (rate_of(item.name, [item], self.peak_of) for item in self.items)
        return sorted(rates, key=lambda one: -one.time)

    @cached_property
    def devices(self) -> list[DeviceRate]:
        """How near each device came to what it can do."""
        return [self._device(number, device) for number, device in enumerate(self.work)]

    def _device(self, number: int, device: RooflineDevice) -> DeviceRate:
        items = [item for item in self.items if item.device == number]
        arithmetic = [item for item in items if item.flops]
        peak = self.peak_of[number]
        shortest = [peak.seconds(item.flops, None, item.precision)[0] if peak else None for item in arithmetic]
        rated = bool(shortest) and None not in shortest
        best = 1e9 * fsum(one for one in shortest if one is not None) if rated else None
        return DeviceRate(
            device,
            peak,
            fsum(item.flops or 0 for item in arithmetic),
            percent(sum(item.time for item in items if item.flops is not None), device.time),
            percent(sum(item.time for item in items if item.bytes is not None), device.time),
            percent(best, device.span),
        )

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The answer as tables; see `ktrace.analysis.work.question.Answer`."""

        return tables(self, top, brief=brief)


def against(answers: Mapping[str, Answer], peaks: Peaks) -> dict[str, Answer]:
    """The answers that depend on peak rates, computed against the given ones."""
    return {name: one.against(peaks) for name, one in answers.items() if isinstance(one, RooflineAnswer)}


#: The key of work whose cost isn't known.
NOT_KNOWN = "cost not known"

#: The key of work whose call isn't in the trace.
UNLAUNCHED = "launch not known"

_RATES = (Column("TFLOP/s"), Column("GB/s"), Column("bound"), Column("reached", "%"))
_MORE = (
    *(Column("FLOP"), Column("moved", "B"), Column("FLOP/B")),
    *(Column("of compute", "%"), Column("of memory", "%"), Column("kernels", "count")),
)


def tables(answer: RooflineAnswer, top: int | None = None, *, brief: bool = False) -> list[Table]:
    """The tables `roofline`, `roofline by operator` and `roofline of devices`."""
    return [_operations(answer, brief), _operators(answer, top, brief), _devices(answer, brief)]


def _operations(answer: RooflineAnswer, brief: bool) -> Table:
    columns = (Column("operation"), Column("time", "ns"), Column("share", "%"), Column("calls", "count"), *_RATES)
    rows = [(one.key, *_shared(one, answer), *_figures(one, brief)) for one in answer.operations]
    unlaunched = sum(device.unlaunched for device in answer.work)
    not_known = answer.time - sum(one.time for one in answer.operations) - unlaunched
    for key, time in ((NOT_KNOWN, not_known), (UNLAUNCHED, unlaunched)):
        if time > 0:
            rows.append((key, time, percent(time, answer.time), None, *_NONE[: len(_RATES) if brief else None]))
    title = "roofline: by operation"
    # Where the figures come from, and what they lack
    notes = list(answer.notes)
    used = [number for number in range(len(answer.work)) if any(item.device == number for item in answer.items)]
    missing = sorted(
        {answer.work[number].name or "a device without a name" for number in used if answer.peak_of[number] is None}
    )
    if missing:
        notes.append(f"No peak rates are known for {', '.join(missing)}; --peaks FILE adds them.")
    return Table("roofline", title, (*columns, *(() if brief else _MORE)), rows, notes)


def _operators(answer: RooflineAnswer, top: int | None, brief: bool) -> Table:
    several = len(answer.work) > 1
    columns = [Column("operator"), Column("time", "ns")]
    columns += [] if brief else [Column("share", "%")]
    columns += [Column("calls", "count"), *_RATES]
    columns += [] if brief else _MORE
    columns += [Column("device")] if several else []
    columns += [Column("type"), Column("shapes")]
    rows: list[tuple[Cell, ...]] = []
    for one in answer.operators[:top]:
        item = one.item
        if item is None:
            continue
        row: list[Cell] = [item.name, one.time]
        row += [] if brief else [percent(one.time, answer.time)]
        row += [one.calls, *_figures(one, brief)]
        row += [answer.work[item.device].label] if several else []
        row += [item.precision, item.shapes]
        rows.append(tuple(row))
    more = len(answer.operators) - len(rows)
    title = "roofline: by operator and shape"
    return Table("roofline by operator", title, tuple(columns), rows, more=more)


def _devices(answer: RooflineAnswer, brief: bool) -> Table:
    columns = [Column("device"), Column("FLOPs known", "%"), Column("bytes known", "%"), Column("TFLOP/s")]
    columns += [Column("utilisation", "%"), Column("name")]
    columns += [] if brief else [Column("span", "ns"), Column("FLOP"), Column("peaks"), Column("source of peaks")]
    rows: list[tuple[Cell, ...]] = []
    for one in answer.devices:
        row: list[Cell] = [one.device.label, one.flops_known, one.bytes_known, one.tflops, one.utilisation]
        row += [one.device.name]
        peak = one.peak
        row += [] if brief else [one.device.span, one.flops or None]
        row += [] if brief else [peak.about, peak.source] if peak else [None, None]
        rows.append(tuple(row))
    return Table("roofline of devices", "roofline: by device", tuple(columns), rows)


#: The empty cells of `_figures`.
_NONE: tuple[Cell, ...] = (None,) * (len(_RATES) + len(_MORE))


def _shared(one: RooflineRate, answer: RooflineAnswer) -> tuple[Cell, ...]:
    return one.time, percent(one.time, answer.time), one.calls


def _figures(one: RooflineRate, brief: bool) -> tuple[Cell, ...]:
    rates: tuple[Cell, ...] = one.tflops, one.gb_per_s, one.bound, one.reached
    if brief:
        return rates
    moved = one.bytes if one.bytes_time else None
    return *rates, one.flops or None, moved, one.intensity, one.of_compute, one.of_memory, one.kernels
