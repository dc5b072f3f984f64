"""How near to the machine: the answer, by operation, by operator with its shapes, and by device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import fsum

from ktrace.analysis.roofline.model import Device, DeviceRate, Item, Rate, rate_of
from ktrace.analysis.roofline.peaks import Peak, Peaks, published
from ktrace.analysis.work.question import Answer
from ktrace.tables.figures import percent
from ktrace.tables.table import Table


@dataclass(frozen=True)
class RooflineAnswer:
    """What is known of the FLOPs and bytes of device work, and the rates that follow.

    `items` are the pieces of work with a known cost, `work` the devices, `peaks` the peak rates; `notes` are sentences
    about where the figures come from.
    """

    items: list[Item]
    work: list[Device]
    peaks: Peaks = field(default_factory=published, repr=False)
    notes: list[str] = field(default_factory=list)

    def against(self, peaks: Peaks) -> RooflineAnswer:
        """The same work, compared with other peak rates."""
        return replace(self, peaks=peaks)

    @cached_property
    def peak_of(self) -> list[Peak | None]:
        """The peak rates of each device, None if they aren't known."""
        return [self.peaks.of(device.name) for device in self.work]

    @property
    def time(self) -> int:
        """The time of all device work, with and without a known cost, in ns."""
        return sum(device.time for device in self.work)

    @cached_property
    def operations(self) -> list[Rate]:
        """The rates of each operation, such as gemm; the one that took most time first."""
        groups: dict[str, list[Item]] = {}
        for item in self.items:
            groups.setdefault(item.operation, []).append(item)
        return sorted((rate_of(key, items, self.peak_of) for key, items in groups.items()), key=lambda one: -one.time)

    @cached_property
    def operators(self) -> list[Rate]:
        """The rates of each operator with the same inputs; the one that took most time first."""
        rates = (rate_of(item.name, [item], self.peak_of) for item in self.items)
        return sorted(rates, key=lambda one: -one.time)

    @cached_property
    def devices(self) -> list[DeviceRate]:
        """How near each device came to what it can do."""
        return [self._device(number, device) for number, device in enumerate(self.work)]

    def _device(self, number: int, device: Device) -> DeviceRate:
        mine = [item for item in self.items if item.device == number]
        arithmetic = [item for item in mine if item.flops]
        peak = self.peak_of[number]
        shortest = [peak.seconds(item.flops, None, item.precision)[0] if peak else None for item in arithmetic]
        rated = bool(shortest) and None not in shortest
        best = 1e9 * fsum(one for one in shortest if one is not None) if rated else None
        return DeviceRate(
            device,
            peak,
            fsum(item.flops or 0 for item in arithmetic),
            percent(sum(item.time for item in mine if item.flops is not None), device.time),
            percent(sum(item.time for item in mine if item.bytes is not None), device.time),
            percent(best, device.span),
        )

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The answer as tables; see `ktrace.analysis.work.question.Answer`."""
        from ktrace.analysis.roofline.tables import tables

        return tables(self, top, brief=brief)


def against(answers: Mapping[str, Answer], peaks: Peaks) -> dict[str, Answer]:
    """Those answers that depend on peak rates, with these."""
    return {name: one.against(peaks) for name, one in answers.items() if isinstance(one, RooflineAnswer)}
