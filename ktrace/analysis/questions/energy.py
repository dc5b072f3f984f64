"""Energy: the joules of devices, operations, kernels and steps, from samples of power beside the work.

The question of `ktrace summary --by energy`:

    power    300 W      310 W      320 W        of device 0, from nvidia-smi, DCGM, Prometheus or the trace itself
               |----------|----------|
    work        [ gemm    ] [ gemm  ]           each takes the integral of the power over its time

Between two samples the power is taken to go in a straight line; the bounds take it to be as low, or as high, as the
lower or higher of the two. Where several pieces of work run on a device at once, each takes an equal part, so that the
energy of all work is that of the device while it works. Work before the first or after the last sample has none.

The same logs say why clocks were lowered. How long a device was throttled while it worked is that time of each reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.gather import WATTS
from ktrace.analysis.work.groups import OTHER
from ktrace.analysis.work.occurrences import labels_of_steps, steps_of_device, steps_of_work
from ktrace.analysis.work.question import Answer, Labels, Question, kernel_of
from ktrace.analysis.work.stored_columns import StoredColumns, source_of
from ktrace.model.arrays import Int32, Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import NameTest, present, words_in
from ktrace.stages.align.moves import times_related
from ktrace.stages.select.intervals import Intervals
from ktrace.store import Spill
from ktrace.store.vocabulary import RowKeys
from ktrace.tables import Cell, Column, Table, percent

#: The columns of the model that it looks at, besides those of any summary.
COLUMNS = frozenset({"value", "unit", "device", "host", "track", "dur"})

#: The name of the question, as `--by` takes it.
NAME = "energy"

Floats = npt.NDArray[np.float64]

#: Counters in watts that are no power drawn.
_LIMIT = re.compile(r"limit|cap\b|_cap|max|min|target|enforced|default|budget|tdp", re.IGNORECASE)

#: The tracks of the reasons why clocks are lowered: of NVIDIA's tools, and columns of the others.
_REASONS = re.compile(r"clock event reasons|throttle", re.IGNORECASE)
#: Reasons for which no work takes longer than it was set up to.
_NO_THROTTLING = frozenset(("gpu_idle", "applications_clocks_setting", "display_clocks_setting", "sync_boost"))

_NS = 1e9


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The question what energy work took."""
    return Energy(spill)


@dataclass(frozen=True)
class Joules:
    """The energy of some work, in J; `low` and `high` are its bounds. `time` in ns is the part that has samples."""

    name: str
    joules: float
    low: float
    high: float
    time: int


@dataclass(frozen=True)
class DeviceEnergy:
    """The energy of a device while it was sampled, and of that while it worked, in J.

    `sampled` is the time between the first and the last sample, `busy` the part of it in which the device worked, and
    `uncovered` the time of work without samples, in ns. `counter` is the name of the samples, `every` the median time
    between two of them.
    """

    label: str
    counter: str
    every: int
    sampled: int
    whole: float
    busy: int
    working: Joules
    uncovered: int


@dataclass(frozen=True)
class Throttling:
    """How long a device worked, and how long of that it was throttled for one reason, in ns."""

    label: str
    reason: str
    throttled: int
    busy: int


@dataclass
class EnergyAnswer:
    """What energy devices, operations, kernels and steps took; of a step it is all that its devices drew meanwhile.

    `throttled` has the reasons why clocks were lowered while a device worked.
    """

    devices: list[DeviceEnergy]
    operations: list[Joules]
    kernels: list[Joules]
    steps: list[Joules] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    throttled: list[Throttling] = field(default_factory=list)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The devices, and their energy by operation and by kernel, at most `top` rows of each."""
        columns = (
            *(Column("device"), Column("energy", "J"), Column("while busy", "J"), Column("share", "%")),
            *(Column("mean power", "W"), Column("while busy at", "W"), Column("sampled", "ns"), Column("every", "ns")),
            *(Column("without samples", "ns"), Column("counter")),
        )
        rows: list[tuple[Cell, ...]] = [
            (
                *(one.label, one.whole, one.working.joules, percent(one.working.joules, one.whole)),
                *(_watts(one.whole, one.sampled), _watts(one.working.joules, one.busy), one.sampled, one.every),
                *(one.uncovered, one.counter),
            )
            for one in self.devices
        ]
        tables = [Table("energy", "energy of devices", columns, rows, self.notes)] if rows else []
        groups = (("operation", self.operations), ("kernel", self.kernels), ("step", self.steps))
        tables += [self._group(by, each, top) for by, each in groups if rows and (each or by != "step")]
        reasons: list[tuple[Cell, ...]] = [
            (one.label, one.reason, one.throttled, percent(one.throttled, one.busy)) for one in self.throttled
        ]
        heads = (Column("device"), Column("reason"), Column("throttled while busy", "ns"), Column("share of busy", "%"))
        return tables + ([Table("throttling", "throttling while devices worked", heads, reasons)] if reasons else [])

    def _group(self, by: str, each: Sequence[Joules], top: int | None) -> Table:
        whole = sum(one.joules for one in each)
        columns = (
            *(Column(by), Column("energy", "J"), Column("share", "%"), Column("at least", "J"), Column("at most", "J")),
            *(Column("time", "ns"), Column("mean power", "W")),
        )
        rows: list[tuple[Cell, ...]] = [
            (
                *(one.name, one.joules, percent(one.joules, whole), one.low, one.high, one.time),
                _watts(one.joules, one.time),
            )
            for one in each[:top]
        ]
        return Table(f"energy {by}", f"energy by {by}", columns, rows, [], len(each) - len(rows))


def _watts(joules: float, ns: int) -> float | None:
    return joules * _NS / ns if ns else None


class _Series(NamedTuple):
    """The power of a device: times in ns, strictly rising, and watts."""

    counter: str
    ts: Int64
    watts: Floats

    def moved(self, offset: int) -> _Series:
        """The series on another clock."""
        return self._replace(ts=self.ts + offset)

    def joules(self, times: Int64, watts: Floats) -> Floats:
        """The energy from the first sample to each of these times, which are within the samples.

        `watts` are those at the start and at the end of each piece between two samples: shape (pieces, 2).
        """
        step = np.diff(self.ts)
        whole = np.concatenate([[0.0], np.cumsum(step * watts.mean(axis=1))])
        piece = np.clip(np.searchsorted(self.ts, times, side="right") - 1, 0, len(step) - 1)
        inside = times - self.ts[piece]
        slope = (watts[piece, 1] - watts[piece, 0]) / step[piece]
        energy: Floats = (whole[piece] + inside * (watts[piece, 0] + slope * inside / 2)) / _NS
        return energy

    def curves(self) -> tuple[Floats, Floats, Floats]:
        """The power between samples: in straight lines, as low and as high as the samples around allow."""
        pairs = np.stack([self.watts[:-1], self.watts[1:]], axis=1)
        low, high = pairs.min(axis=1), pairs.max(axis=1)
        return pairs, np.stack([low, low], axis=1), np.stack([high, high], axis=1)


class Energy:
    """The question what energy work took."""

    spans = False

    def __init__(self, spill: Spill) -> None:
        self._counters = RowKeys(("source", "host", "device", "name", "unit"))
        self._samples = StoredColumns(spill, "power", ts="i8", value="f8", counter="i4")
        self._is_reason = NameTest(lambda track: _REASONS.search(track) is not None)
        self._reasons = RowKeys(("source", "host", "device", "track", "name"))
        self._throttled = StoredColumns(spill, "throttled", ts="i8", dur="i8", reason="i4")

    def see(self, batch: Batch) -> None:
        """Collects the samples of power, and the reasons of lower clocks, among the events of one source."""
        if batch.record != "events" or not len(batch):
            return
        if batch.has("track") and batch.has("dur"):
            self._see_reasons(batch)
        if not batch.has("value") or not batch.has("unit"):
            return
        power = words_in(batch.column("kind"), ("counter", "sample")) & words_in(batch.column("unit"), tuple(WATTS))
        power &= present(batch.column("value")) & present(batch.column("device"))
        rows = np.flatnonzero(power)
        if len(rows):
            self._samples.add(
                source_of(batch),
                ts=batch.column("ts").to_numpy()[rows],
                value=np.asarray(batch.column("value").take(rows), np.float64),
                counter=self._counters.number(batch, rows),
            )

    def _see_reasons(self, batch: Batch) -> None:
        rows = self._is_reason(batch.column("track")) & words_in(batch.column("kind"), ("range",))
        rows &= present(batch.column("dur")) & present(batch.column("device"))
        if rows.any():
            places = np.flatnonzero(rows)
            self._throttled.add(
                source_of(batch),
                ts=batch.column("ts").to_numpy()[places],
                dur=np.asarray(batch.column("dur").take(places), np.int64),
                reason=self._reasons.number(batch, places),
            )

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answer, if there are samples of the power of devices that work, or reasons of their lower clocks."""
        series, throttled = self._series(), self._throttling()
        if not (series or throttled) or not work.is_on_devices or not len(work):
            return {}
        sources = {*(source for source, _, _ in (*series, *throttled)), *work.rows.sources}
        offsets = times_related([*sources], work.gathered.catalog) or {}
        answer, steps = EnergyAnswer([], [], []), _Steps(work)
        groups: dict[str, dict[str, Sums]] = {"operation": {}, "kernel": {}}
        texts = {
            "operation": [operation or OTHER for operation in work.operations],
            "kernel": [kernel_of(shape) for shape in work.shapes],
        }
        for events in work.each():
            device, places = events.places
            for number, place in enumerate(places.tolist()):
                where, rows = work.devices[place], np.flatnonzero(device == number)
                if (reasons := _of_place(throttled, where, offsets)) is not None:
                    answer.throttled += _throttled(labels.device(where), events, rows, *reasons)
                if (related := _of_place(series, where, offsets)) is None:
                    continue
                power = related[0].moved(related[1])
                energy = _EnergyPieces(events, rows, power)
                answer.devices.append(energy.device(labels.device(where)))
                for by, sums in groups.items():
                    energy.add(events.shape[rows], texts[by], sums)
                steps.add(events, rows, power)
        if not answer.devices:
            return {NAME: answer} if answer.throttled else {}
        answer.operations, answer.kernels = (_sorted(groups[by]) for by in ("operation", "kernel"))
        answer.steps = steps.joules()
        if any(one.uncovered for one in answer.devices):
            answer.notes.append("Work before the first or after the last sample has no energy here.")
        return {NAME: answer}

    def _series(self) -> dict[_Place, _Series]:
        """The power of each device: of several counters that of an instant, else the first that has two samples."""
        rows, series = self._samples.all(), dict[_Place, _Series]()
        counters = [(number, *key) for number, key in enumerate(self._counters) if not _LIMIT.search(key[3])]
        for number, source, host, device, name, unit in sorted(counters, key=lambda one: "instant" not in one[4]):
            of_counter = rows["counter"] == number
            ts, first = np.unique(rows["ts"][of_counter], return_index=True)
            if len(ts) > 1:
                one = _Series(name, ts, rows["value"][of_counter][first] * WATTS[unit])
                series.setdefault((source, host, device), one)
        return series

    def _throttling(self) -> dict[_Place, _Reasons]:
        """When each device was throttled, by reason."""
        rows, reasons = self._throttled.all(), dict[_Place, _Reasons]()
        for number, (source, host, device, _, name) in enumerate(self._reasons):
            if name not in _NO_THROTTLING:
                of_reason = rows["reason"] == number
                begin = rows["ts"][of_reason]
                times = reasons.setdefault((source, host, device), {}).setdefault(name, [])
                times.append((begin, begin + rows["dur"][of_reason]))
        return reasons


#: Source, host and number of a device.
_Place = tuple[str, str | None, int | None]

#: Joules, at least, at most, ns.
Sums = Floats


#: Starts and ends of the time of a reason, by its name.
_Reasons = dict[str, list[tuple[Int64, Int64]]]

_Told = TypeVar("_Told")


def _of_place(facts: dict[_Place, _Told], place: _Place, offsets: dict[str, int]) -> tuple[_Told, int] | None:
    """What is told of a device by its own source, else by one that names it alike, and the offset to its clock."""
    if place in facts:
        return facts[place], 0
    source, host, number = place
    for (other, other_host, other_number), one in facts.items():
        if other_number == number and (host is None or other_host in (None, host)):
            is_related = source in offsets and other in offsets
            return one, offsets[other] - offsets[source] if is_related else 0
    return None


def _throttled(label: str, events: Events, rows: Int64, reasons: _Reasons, offset: int) -> Iterator[Throttling]:
    """How long a device, whose work is in these rows, was throttled while it worked, for each reason."""
    busy = Intervals.union(events.ts[rows], (events.ts + events.dur)[rows])
    for reason, times in sorted(reasons.items()):
        begin, end = (np.concatenate(side) + offset for side in zip(*times, strict=True))
        of_reason = Intervals.union(begin, end)
        time = int((busy.until(of_reason.end) - busy.until(of_reason.begin)).sum())
        if time:
            yield Throttling(label, reason, time, busy.length)


class _EnergyPieces:
    """The energy of each piece of work of a device."""

    def __init__(self, events: Events, rows: Int64, series: _Series) -> None:
        self._series = series
        begin, end = events.ts[rows], events.ts[rows] + events.dur[rows]
        self._begin, self._end = (np.clip(side, series.ts[0], series.ts[-1]) for side in (begin, end))
        self._uncovered = Intervals.union(begin, end).length - Intervals.union(self._begin, self._end).length
        edges = np.unique(np.concatenate([self._begin, self._end]))
        running = np.zeros(len(edges), np.int64)
        np.add.at(running, np.searchsorted(edges, self._begin), 1)
        np.add.at(running, np.searchsorted(edges, self._end), -1)
        at_once = np.maximum(np.cumsum(running)[:-1], 1)
        busy = np.cumsum(running)[:-1] > 0
        self._busy = int(np.diff(edges)[busy].sum())
        first, last = np.searchsorted(edges, self._begin), np.searchsorted(edges, self._end)
        self.joules: list[Floats] = []
        self.whole: list[float] = []
        for curve in series.curves():
            step = np.diff(series.joules(edges, curve))
            shared = np.concatenate([[0.0], np.cumsum(step / at_once)])
            self.joules.append(shared[last] - shared[first])
            self.whole.append(float(step[busy].sum()))

    def device(self, label: str) -> DeviceEnergy:
        """The energy of the device, whole and while it worked."""
        series = self._series
        sampled = int(series.ts[-1] - series.ts[0])
        whole = float(series.joules(series.ts[-1:], series.curves()[0])[0])
        joules, low, high = self.whole
        working = Joules(label, joules, low, high, self._busy)
        every = int(np.median(np.diff(series.ts)))
        return DeviceEnergy(label, series.counter, every, sampled, whole, self._busy, working, self._uncovered)

    def add(self, shape: Int32, texts: list[str], sums: dict[str, Sums]) -> None:
        """Adds the energy and the time of each piece to the sums of its text, which is by the shape of work."""
        figures = (*self.joules, (self._end - self._begin).astype(np.float64))
        totals = np.stack([np.bincount(shape, weights=each, minlength=len(texts)) for each in figures], axis=1)
        for number in np.unique(shape).tolist():
            sums[texts[number]] = sums.get(texts[number], np.zeros(4)) + totals[number]


class _Steps:
    """The energy that devices drew while they were at each step, as far as they were sampled then."""

    def __init__(self, work: Work) -> None:
        self._labels, _ = labels_of_steps(work.gathered)
        self._sums = np.zeros((len(self._labels), 4))

    def add(self, events: Events, rows: Int64, series: _Series) -> None:
        """Adds a device, whose work is in these rows."""
        if not len(steps_of_work(events).steps.label):
            return
        steps = steps_of_device(events, *steps_of_work(events), rows)
        begin, end = (np.clip(side, series.ts[0], series.ts[-1]) for side in (steps.begin, steps.end))
        curves = series.curves()
        figures = [*(series.joules(end, curve) - series.joules(begin, curve) for curve in curves), end - begin]
        np.add.at(self._sums, steps.label, np.stack(figures, axis=1))

    def joules(self) -> list[Joules]:
        """The steps in their order, without those that nothing was sampled of."""
        sums = dict(zip(self._labels, self._sums, strict=True))
        return [_joules(name, figures) for name, figures in sums.items() if figures[3]]


def _joules(name: str, figures: Sums) -> Joules:
    joules, low, high, time = figures.tolist()
    return Joules(name, joules, low, high, round(time))


def _sorted(sums: dict[str, Sums]) -> list[Joules]:
    return sorted((_joules(name, figures) for name, figures in sums.items()), key=lambda one: -one.joules)
