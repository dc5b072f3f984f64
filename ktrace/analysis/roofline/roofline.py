"""The question: collects operators with shapes and measured figures, and answers with the work that they cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ktrace.analysis.roofline.answer import Device, Item, RooflineAnswer
from ktrace.analysis.roofline.measured import Measured, item_of, merged, stated_items
from ktrace.analysis.roofline.operators import Operators
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.store.joins import combined, distinct
from ktrace.store.spill import Spill

if TYPE_CHECKING:
    from ktrace.analysis.work.device_work import Events, Shape, Work
    from ktrace.analysis.work.question import Labels

#: The name of the question.
NAME = "roofline"

#: Copies that leave the device: the bytes of their operator aren't all in its memory.
_LEAVING = re.compile("HtoD|DtoH|PtoP|HtoH|HostToDevice|DeviceToHost")

#: Where the figures come from.
SHAPES = (
    "By shape, the bytes are the least that is possible: each input read once, each output written once. "
    "The time is that of the work launched in the operator."
)
STATED = "FLOPs and bytes are XLA's own estimates."
COUNTED = "FLOPs and bytes are those that Nsight Compute counted: thread instructions, matrix operations, DRAM traffic."


class Roofline:
    """How near the work is to what the device can do."""

    spans = False

    def __init__(self, spill: Spill) -> None:
        self._operators = Operators(spill)
        self._measured = Measured(spill)

    def see(self, batch: Batch) -> None:
        """Collects the operators and figures of a batch."""
        if len(batch):
            self._measured.see(batch)
            if batch.record == "events":
                self._operators.see(batch)

    def answer(self, work: Work, labels: Labels) -> Mapping[str, RooflineAnswer]:
        """The answer, if the cost of any work is known."""
        if not len(work.gathered.work):
            return self._of_launches(work, labels)
        items: list[Item] = []
        notes: dict[str, None] = {}
        devices = [_Device(labels.device(key), _name(work, key)) for key in work.devices]
        for events in work.each():
            on = work.device[events.shape]
            stated, rows = stated_items(self._measured, work, events, on)
            unlaunched = (events.call < 0) if len(self._operators) else np.zeros(len(events), np.bool_)
            unlaunched[rows] = False
            for number in np.unique(on).tolist():
                devices[number].add(events, on == number, unlaunched)
            shaped = self._items(work, events, on, rows)
            items += stated + shaped
            notes |= {SHAPES: None} if shaped else {}
            notes |= {COUNTED if self._measured.has_counters else STATED: None} if stated else {}
        found = [device.done() for device in devices]
        return {NAME: RooflineAnswer(items, found, notes=[*notes])} if items else {}

    def _of_launches(self, work: Work, labels: Labels) -> Mapping[str, RooflineAnswer]:
        """The answer from launches without a place in time, which Nsight Compute reports."""
        items: list[Item] = []
        devices: dict[tuple[Any, ...], int] = {}
        times: list[int] = []
        for row, figures in self._measured.kernels():
            number = devices.setdefault((row["source"], row.get("host"), row.get("device")), len(devices))
            times += [0] * (number == len(times))
            times[number] += int(row["total"])
            if figures and figures != (None, None, None):
                items.append(item_of(row, number, 1, int(row["total"]), *figures))
        found = [Device(labels.device(key), _name(work, key), None, times[number]) for key, number in devices.items()]
        return {NAME: RooflineAnswer(merged(items), found, notes=[COUNTED])} if items else {}

    def _items(self, work: Work, events: Events, on: Any, but: Int64) -> list[Item]:
        """The work of a source that belongs to an operator with a known cost, except the rows `but`."""
        if not len(self._operators):
            return []
        staying = np.array([not _leaves(shape) for shape in work.shapes], np.bool_)
        counts = staying[events.shape]
        counts[but] = False
        mine = np.flatnonzero(counts)
        place, rows = self._operators.of(events, work.threads, mine)
        known = np.flatnonzero(place >= 0)
        known = known[rows["cost"][place[known]] >= 0]
        if not len(known):
            return []
        place, mine = place[known], mine[known]
        tensor = np.array([shape["precision"] == "tf32" for shape in work.shapes], np.bool_)[events.shape[mine]]
        return self._grouped(place, rows["cost"], on[mine], tensor, events.dur[mine])

    def _grouped(self, place: Int64, cost: Any, on: Any, tensor: Bools, dur: Int64) -> list[Item]:
        """Items of work: `place` is the operator of each piece, `on` its device, `tensor` whether it is in TF32."""
        first, which = distinct(place, int(place.max()) + 1)
        count = len(first)
        in_tf32 = np.bincount(which, weights=tensor, minlength=count) > 0
        key = cost[place[first]].astype(np.int64), on[first].astype(np.int64), in_tf32.astype(np.int64)
        member, group = distinct(*combined(((one, int(one.max()) + 1) for one in key), count))
        calls = np.bincount(group)
        kernels = np.bincount(group[which])
        time = np.zeros(len(calls), np.int64)
        np.add.at(time, group[which], dur)
        found = []
        for number, (one, device, tf32) in enumerate(zip(*(own[member].tolist() for own in key), strict=True)):
            known, operator = self._operators.costs[one], self._operators.operators[one]
            if known is None or operator is None:
                continue
            times = int(calls[number])
            found.append(
                Item(
                    known.operation,
                    operator.name,
                    operator.shapes,
                    "tf32" if tf32 and known.precision == "fp32" else known.precision,
                    device,
                    times,
                    int(kernels[number]),
                    int(time[number]),
                    None if known.flops is None else times * known.flops,
                    None if known.bytes is None else times * known.bytes,
                )
            )
        return found


def _leaves(shape: Shape) -> bool:
    """Whether a piece of work copies to or from somewhere else than the memory of its device."""
    return shape["kind"] == "memcpy" and bool(_LEAVING.search(shape["name"]))


def _name(work: Work, key: tuple[Any, ...]) -> str | None:
    source, host, device = key
    entry = work.gathered.catalog.get("device", source=source, host=host, device=device)
    return entry.name if entry else None


class _Device:
    """A device whose work is added up."""

    def __init__(self, label: str, name: str | None) -> None:
        self._label, self._name = label, name
        self._time = self._unlaunched = 0
        self._bounds: list[int] = []

    def add(self, events: Events, mine: Bools, unlaunched: Bools) -> None:
        """Adds the work of `mine`; of `unlaunched` no call is known."""
        begin, dur = events.ts[mine], events.dur[mine]
        self._time += int(dur.sum())
        self._unlaunched += int(dur[unlaunched[mine]].sum())
        self._bounds += [int(begin.min()), int((begin + dur).max())]

    def done(self) -> Device:
        """The device with all of its work."""
        span = max(self._bounds) - min(self._bounds) if self._bounds else None
        return Device(self._label, self._name, span, self._time, self._unlaunched)
