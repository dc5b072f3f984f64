"""Counters: what profilers counted of kernels, and sampled of devices, by name.

The question of `ktrace summary --by counter`:

    gemm   SQ_WAVES     16,384  16,384        of each launch (rocprof, rocprofv3, ncu, nvprof): by kernel
    power  300 W  310 W  320 W                over time (nvidia-smi, nsys --gpu-metrics-devices): by device

Statistics have a mean, and a least and a greatest value where their source states these; they count as many launches as
their kernel has. Values aren't added up: whether that means anything depends on the counter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.question import Answer, Labels, Question, kernel_of
from ktrace.analysis.work.stored_columns import StoredColumns, source_of
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.masks import each_source, present, words_in
from ktrace.model.tracks import natural
from ktrace.store import Spill
from ktrace.store.events import values
from ktrace.store.joins import positions
from ktrace.store.vocabulary import RowKeys
from ktrace.tables import Cell, Column, Table

#: The columns of the model that it looks at, besides those of any summary.
COLUMNS = frozenset({"parent", "value", "unit", "device", "host", "metric", "avg", "min", "max", "count"})

#: The name of the question, as `--by` takes it.
NAME = "counter"

#: The columns of the least and the greatest value of statistics.
_ENDS = ("min", "max")

#: The parent of a counter that is of no launch.
_NONE = -1


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The question what was counted."""
    return Counters(spill)


class Counted(NamedTuple):
    """The values of a counter of a kernel or device: how many, their mean, the least and the greatest."""

    of: str
    counter: str
    unit: str | None
    times: int
    mean: float
    least: float
    greatest: float


class CountersAnswer(NamedTuple):
    """What was counted of kernels, in the order of their names, and what was sampled of devices."""

    kernels: list[Counted]
    devices: list[Counted]

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A table of kernels and one of devices, at most `top` rows of each."""
        tables = [
            _table("counter", "counters of kernels", "kernel", "launches", self.kernels, top),
            _table("counter device", "counters of devices", "device", "samples", self.devices, top),
        ]
        return [table for table in tables if table.rows]


def _table(name: str, title: str, of: str, many: str, each: list[Counted], top: int | None) -> Table:
    figures = (Column(name) for name in ("mean", "min", "max"))
    columns = (Column(of), Column("counter"), Column(many, "count"), *figures, Column("unit"))
    rows: list[tuple[Cell, ...]] = [
        (one.of, one.counter, one.times, one.mean, one.least, one.greatest, one.unit) for one in each[:top]
    ]
    return Table(name, title, columns, rows, [], len(each) - len(rows))


class _Values:
    """Values of counters with the launch that each is of; `name` is the column with the names of counters."""

    def __init__(self, spill: Spill, name: str) -> None:
        self.keys = RowKeys(("source", "host", "device", name, "unit"))
        figures = {"mean": "f8", "least": "f8", "greatest": "f8"}
        self.stored = StoredColumns(spill, f"counters {name}", parent="i8", counter="i4", **figures)

    def add(self, source: str, batch: Batch, is_value: Bools, mean: str) -> None:
        """Keeps these rows of a source: their mean from this column or `value`, the others from `min` and `max`."""
        middle, has_middle = values(batch.columns, mean)
        value, has_value = values(batch.columns, "value")
        middle = np.where(has_middle, middle, value)
        rows = np.flatnonzero(is_value & (has_middle | has_value))
        if not len(rows):
            return
        least, greatest = (
            np.where(is_stated, at, middle) for at, is_stated in (values(batch.columns, one) for one in _ENDS)
        )
        parent, has_parent = values(batch.columns, "parent")
        self.stored.add(
            source,
            parent=np.where(has_parent, parent, _NONE)[rows],
            counter=self.keys.number(batch, rows),
            **{"mean": middle[rows], "least": least[rows], "greatest": greatest[rows]},
        )

    def of(self, source: str, ids: Int64, names: Sequence[str], counts: Int64) -> Iterator[Counted]:
        """The counters of launches: their sorted ids, the name of what each launched, and how many each stands for."""
        rows = self.stored.for_source(source)
        place = positions(rows["parent"], ids)
        of_launch = place >= 0
        place = place[of_launch]
        code = {name: number for number, name in enumerate(dict.fromkeys(names))}
        kernel = np.array([code[name] for name in names], np.int64)[place]
        launches = {column: one[of_launch] for column, one in rows.items()}
        yield from self._added_up([*code], kernel, launches, counts[place])

    def without_launch(self, labels: Labels) -> Iterator[Counted]:
        """The counters that are of no launch, by device."""
        rows = self.stored.all()
        alone = rows["parent"] == _NONE
        rows = {column: one[alone] for column, one in rows.items()}
        of_key = [labels.device((source, host, device)) for source, host, device, _, _ in self.keys]
        code = {name: number for number, name in enumerate(dict.fromkeys(of_key))}
        device = np.array([code[name] for name in of_key], np.int64)[rows["counter"]]
        yield from self._added_up([*code], device, rows, np.ones(len(device), np.int64))

    def _added_up(self, names: list[str], of: Int64, rows: dict[str, Any], weight: Int64) -> Iterator[Counted]:
        """The values by name and counter; `of` are the places of the names, `weight` the number of each row."""
        group = of * max(len(self.keys), 1) + rows["counter"]
        order = np.argsort(group, kind="stable")
        which, first = np.unique(group[order], return_index=True)
        if not len(which):
            return
        count = np.add.reduceat(weight[order], first)
        mean = np.add.reduceat((rows["mean"] * weight)[order], first) / count
        least = np.minimum.reduceat(rows["least"][order], first)
        greatest = np.maximum.reduceat(rows["greatest"][order], first)
        keys = [*self.keys]
        for place, number in enumerate(which.tolist()):
            name, key = names[number // len(keys)], keys[number % len(keys)]
            figures = (int(count[place]), float(mean[place]), float(least[place]), float(greatest[place]))
            yield Counted(name, str(key[3]), key[4], *figures)


class Counters:
    """The question what was counted."""

    spans = False

    def __init__(self, spill: Spill) -> None:
        self._events, self._metrics = _Values(spill, "name"), _Values(spill, "metric")

    def see(self, batch: Batch) -> None:
        """Collects the counters among the events, and the metrics of launches among the summaries."""
        if batch.record == "events" and len(batch):
            self._events.add(source_of(batch), batch, words_in(batch.column("kind"), ("counter",)), "value")
        elif batch.record == "summaries":
            for source, rows in each_source(batch):
                is_metric = words_in(rows.column("kind"), ("metric",)) & present(rows.column("parent"))
                self._metrics.add(source, rows, is_metric, "avg")

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answer, if there are counters."""
        kernels = [*self._of_events(work), *self._of_tables(work)]
        devices = [*self._events.without_launch(labels)]
        if not kernels and not devices:
            return {}
        return {NAME: CountersAnswer(_sorted(kernels), _sorted(devices))}

    def _of_events(self, work: Work) -> Iterator[Counted]:
        names = [kernel_of(shape) for shape in work.shapes]
        for events in work.each() if work.is_on_devices else ():
            order = np.argsort(events.ids)
            launched = [names[shape] for shape in events.shape[order].tolist()]
            yield from self._events.of(events.source, events.ids[order], launched, np.ones(len(order), np.int64))

    def _of_tables(self, work: Work) -> Iterator[Counted]:
        launched: dict[str, dict[int, tuple[str, int]]] = {}
        for batch in work.gathered.statistics:
            for row in batch.to_pylist():
                if row["kind"] in DEVICE_KINDS:
                    launched.setdefault(row["source"], {})[row["id"]] = kernel_of(row), row.get("count") or 1
        for source, of_id in launched.items():
            ids = np.array(sorted(of_id), np.int64)
            names, counts = zip(*(of_id[id_] for id_ in ids.tolist()), strict=True)
            yield from self._metrics.of(source, ids, names, np.array(counts, np.int64))


def _sorted(each: list[Counted]) -> list[Counted]:
    """The counters by name; those of several sources are one."""
    alike: dict[tuple[str, str, str | None], Counted] = {}
    for one in each:
        key = (one.of, one.counter, one.unit)
        alike[key] = _joined(alike[key], one) if key in alike else one
    return [alike[key] for key in sorted(alike, key=lambda key: (natural(key[0]), natural(key[1]), key[2] or ""))]


def _joined(a: Counted, b: Counted) -> Counted:
    """A counter of one name in two sources."""
    times = a.times + b.times
    mean = (a.mean * a.times + b.mean * b.times) / times
    return a._replace(times=times, mean=mean, least=min(a.least, b.least), greatest=max(a.greatest, b.greatest))
