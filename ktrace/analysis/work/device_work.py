"""Device work from events, source by source, with what it is grouped by: names, labels, tracks, calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from ktrace.analysis.work.durations import COMMUNICATION, COMPUTE, COPY, Place, Usage, device_use, usage
from ktrace.analysis.work.gather import WORK, WorkInput, durations, is_never_set, kinds_in
from ktrace.analysis.work.groups import LACKS, DeviceUse
from ktrace.analysis.work.spans import innermost
from ktrace.analysis.work.stored_columns import BLOCK, StoredColumns
from ktrace.model.arrays import AnyArray, Bools, Int32, Int64, UInt8
from ktrace.model.batch import HOST_KINDS, TRACK_COLUMNS, Batch
from ktrace.store.joins import group_start_mask, is_among, sorted_by
from ktrace.store.launches import Correlated, find_launches, linked
from ktrace.store.vocabulary import RowKeys

Shape = dict[str, Any]

Result = TypeVar("Result")

#: An id that no arrow leads to.
_NOTHING = -1

#: So many rows are kept for other questions, some 200 bytes each; a source counts as so many rows more.
_MOST, _OVERHEAD = 1 << 18, 64


class Work:
    """The work of all sources, without the `unfinished` slices that have no end.

    Attributes of shapes are lists and arrays by the number of the shape; `each` yields the work of each source.
    """

    def __init__(self, gathered: WorkInput, rows: StoredColumns, shapes: RowKeys) -> None:
        self.gathered, self.rows = gathered, rows
        self.is_on_devices = rows is gathered.work
        self.unfinished = sum(int(np.count_nonzero(rows.for_source(source)["dur"] < 0)) for source in rows.sources)
        self.shapes = shapes.all()
        self.made_up = np.array([shape["timing"] == "synthetic" for shape in self.shapes], np.bool_)
        self._left_out = sum(
            int(np.count_nonzero(~self.counted(source) & (rows.for_source(source)["dur"] >= 0)))
            for source in rows.sources
        )
        self.threads = gathered.threads.all()
        self._by_shape: dict[Callable[[Shape], Any], tuple[Int32, list[Any]]] = {}
        self._found: dict[Any, Any] = {}
        named = zip(self.shapes, self.operations, strict=True)
        self.roles = np.array([_role(shape, operation) for shape, operation in named], np.uint8)
        self._only = _only_devices(self.shapes)
        self.device, self.devices = self.by_shape(self._device)
        numbers: dict[Any, int] = {}
        self.thread_places = _Places.of(self.threads, numbers)
        self.work_places = _Places.of(self.shapes, numbers).completed(self.thread_places)
        self._kept: dict[str, Events] = {}
        self._last: Events | None = None
        self._left = _MOST

    def _device(self, shape: Shape) -> tuple[str, str | None, int | None]:
        """The device; of a copy that names none that of all other work of its source, if there is one alone."""
        source, host, device = shape["source"], shape["host"], shape["device"]
        if device is None and shape["kind"] in ("memcpy", "memset"):
            device = self._only.get((source, host))
        return source, host, device

    def counted(self, source: str) -> Bools:
        """Which rows of a source count: not those without a time, nor tables that are drawn beside measured work."""
        columns = self.rows.for_source(source)
        counted = np.ones(len(columns["ts"]), np.bool_)
        if source in self.gathered.unset:
            counted = ~is_never_set(columns["ts"], columns["dur"])
        if self.made_up.any():
            made_up = self.made_up[columns["shape"]]
            counted &= ~made_up if not made_up.all() else True
        return counted

    @cached_property
    def operations(self) -> list[str | None]:
        """The operation of each shape; by the rules where rows aren't classified, None where there is none."""
        if self.gathered.is_classified:
            return [shape["operation"] for shape in self.shapes]
        by_rules = cache(lambda name, kind: self.gathered.taxonomy.labels(name, kind).operation)
        return [shape["operation"] or by_rules(shape["name"], shape["kind"]) for shape in self.shapes]

    @cached_property
    def processes(self) -> Int32:
        """The number of the process of each thread."""
        numbers: dict[Any, int] = {}
        keys = ((one["source"], one["host"], one["pid"]) for one in self.threads)
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int32)

    @cached_property
    def nesting_threads(self) -> Bools:
        """Whether the rows of each thread nest: rows without a thread are of many, and don't."""
        return np.array([thread["tid"] is not None for thread in self.threads], np.bool_)

    @classmethod
    def of_devices(cls, gathered: WorkInput) -> Work:
        """Device work."""
        return cls(gathered, gathered.work, gathered.shapes)

    @classmethod
    def of_host(cls, gathered: WorkInput) -> Work:
        """Calls and operators, else ranges, each with its own time: without the time of those inside it."""
        shapes, rows = RowKeys(gathered.shapes.names), StoredColumns(gathered.spill, "host_work", **WORK)
        for source in gathered.host.sources:
            columns = _of_host(gathered, source, shapes)
            if columns is not None:
                rows.add(source, **columns, correlation=0, occupancy=np.nan, id=_NOTHING)
        return cls(gathered, rows, shapes)

    def __len__(self) -> int:
        return len(self.rows) - self.unfinished - self._left_out

    def each(self) -> Iterator[Events]:
        """The work of each source."""
        return map(self.for_source, self.rows.sources)

    def for_source(self, source: str) -> Events:
        """The work of a source; that of the first and the last ones is kept, with what was found of it."""
        if source in self._kept:
            return self._kept[source]
        if self._last is None or self._last.source != source:
            self._last = Events(self, source)
            self._left -= len(self._last) + _OVERHEAD
            if self._left >= 0:
                self._kept[source] = self._last
        return self._last

    def forget(self) -> None:
        """Frees the work of sources at once, which refers to this: a diff reads its other side next."""
        self._kept, self._last, self._found = {}, None, {}

    def by_shape(self, value: Callable[[Shape], Any]) -> tuple[Int32, list[Any]]:
        """A number for each shape, and the values with these numbers. Computed once for a function."""
        if value not in self._by_shape:
            values = list(map(value, self.shapes))
            numbers = {one: number for number, one in enumerate(dict.fromkeys(values))}
            self._by_shape[value] = np.array([numbers[one] for one in values], np.int32), list(numbers)
        return self._by_shape[value]

    def once(self, find: Callable[[Work], Result]) -> Result:
        """The result of a function of all work, computed once for all questions."""
        if find not in self._found:
            self._found[find] = find(self)
        result: Result = self._found[find]
        return result


def _of_host(gathered: WorkInput, source: str, shapes: RowKeys) -> dict[str, Any] | None:
    """What the host did in one source."""
    threads = RowKeys(TRACK_COLUMNS)
    parts: list[tuple[AnyArray, ...]] = []
    for columns in gathered.host.for_source(source):
        (is_host,) = kinds_in(Batch("events", columns), HOST_KINDS)
        batch = Batch("events", columns.filter(pa.array(is_host if gathered.has_calls else ~is_host)))
        if len(batch):
            every = np.arange(len(batch))
            numbers = shapes.number(batch, every), threads.number(batch, every)
            parts.append((batch.column("ts").to_numpy(), durations(batch), *numbers))
    if not parts:
        return None
    ts, dur, shape, thread = map(np.concatenate, zip(*parts, strict=True))
    own_time = np.maximum(dur, 0)
    around = innermost(thread, ts, ts + own_time)
    inside = np.zeros(len(own_time), np.int64)
    np.add.at(inside, around[around >= 0], own_time[around >= 0])
    return {"ts": ts, "dur": np.where(dur < 0, dur, np.maximum(dur - inside, 0)), "shape": shape}


#: Work that waits longer than this, in ns, and longer than its device works at all, can't have waited: clocks differ.
_LEAST_SPAN = 1_000_000_000


class Events:
    """The work of one source as columns, without slices that have no end or no time."""

    def __init__(self, work: Work, source: str) -> None:
        self.source, self._all = source, work
        columns = work.rows.for_source(source)
        done = columns["dur"] >= 0
        done &= work.counted(source)
        if not done.all():
            columns = {name: column[done] for name, column in columns.items()}
        self.ts: Int64 = columns["ts"]
        self.dur: Int64 = columns["dur"]
        self.ids: Int64 = columns["id"]
        self.shape: Int32 = columns["shape"]
        self._columns = columns
        self.unlikely: list[str] = []  # devices whose work begins later after its calls than the device worked at all
        self._found: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self.ts)

    def once(self, find: Callable[[Work, Events], Result]) -> Result:
        """The result of a function of this source's work, computed once for all questions."""
        if find not in self._found:
            self._found[find] = find(self._all, self)
        result: Result = self._found[find]
        return result

    @property
    def grid(self) -> Int32:
        """The number of the grid of each piece of work among `WorkInput.grids`, which were asked for."""
        grid: Int32 = self._columns["grid"]
        return grid

    @cached_property
    def roles(self) -> UInt8:
        """The role of each piece of work for the use of its device."""
        return self._all.roles[self.shape]

    @cached_property
    def places(self) -> tuple[Int32, Int32]:
        """The index of the device of each piece of work among those of the source, and the numbers of these devices."""
        devices = self._all.device[self.shape]
        devices_here = np.flatnonzero(np.bincount(devices)).astype(np.int32)
        return np.searchsorted(devices_here, devices).astype(np.int32), devices_here

    @cached_property
    def by_device(self) -> Int64:
        """The rows by the index of their device and by time."""
        order = np.arange(len(self)) if np.all(self.ts[1:] >= self.ts[:-1]) else np.argsort(self.ts, kind="stable")
        place, places = self.places
        return order[sorted_by(place[order], len(places))] if len(places) > 1 else order

    @cached_property
    def rows_of_devices(self) -> list[Int64]:
        """The rows of each device, by its index, in the order of time."""
        counts = np.bincount(self.places[0], minlength=len(self.places[1]))
        return np.split(self.by_device, np.cumsum(counts)[:-1])

    @cached_property
    def spans(self) -> Int64:
        """The time from the start of the first to the end of the last work of each device, by its index."""
        order = self.by_device
        if not len(order):
            return order
        first = np.flatnonzero(group_start_mask((self.places[0][order],)))
        spans: Int64 = np.maximum.reduceat((self.ts + self.dur)[order], first) - self.ts[order[first]]
        return spans

    @cached_property
    def calls(self) -> dict[str, Any]:
        """The calls that may have launched work."""
        return self._all.gathered.calls.for_source(self.source)

    @cached_property
    def call(self) -> Int64:
        """The index of the call that launched each piece of work, -1 where it isn't known."""
        calls, correlation = self.calls, self._columns["correlation"]
        call = find_launches(
            self._all.work_places.correlated(correlation, self.shape, self._all.by_shape(_stream)[0]),
            self._all.thread_places.correlated(calls["correlation"], calls["thread"]),
            lambda: (-calls["ts"] - np.maximum(calls["dur"], 0), calls["ts"]),
            lambda: self.ts,
        )
        links = list(self._all.gathered.links.for_source(self.source))
        if links:
            unjoined = np.flatnonzero(call < 0)
            call[unjoined] = linked(links, self.ids[unjoined], calls["id"])
        return call

    @property
    def is_correlated(self) -> bool:
        """Whether each piece of work names its call, in the trace or not."""
        return bool(np.all((self._columns["correlation"] != 0) | (self.call >= 0)))

    @cached_property
    def waits(self) -> Int64:
        """The time from the return of its call to each piece of work, -1 where it isn't known.

        Of the work of one call, such as the kernels of a graph, only the first waits for the call; the others run after
        one another.
        """
        waits = np.full(len(self), -1, np.int64)
        ts, dur = self.calls["ts"], self.calls["dur"]
        for first in range(0, len(self) if len(ts) else 0, BLOCK):
            block = slice(first, first + BLOCK)
            call = self.call[block]
            wait = np.maximum(self.ts[block] - ts[call] - dur[call], 0)
            waits[block] = np.where((call >= 0) & (dur[call] >= 0), wait, -1)
        waits[self.followers] = -1
        return waits

    def lacking(self) -> list[str]:
        """Says how much work lacks its call, although most has one, and it would be among those by its number.

        Their records are lost. Work from before the recording has a lower number than all calls, and which call
        launched it may not be known.
        """
        launched, shared, correlation = self.call >= 0, int(np.count_nonzero(self.shared)), self._columns["correlation"]
        notes = (
            f"{self.source}: {shared:,} of {len(self):,} device activities have correlation ids of several calls of "
            "their process; which of these launched them isn't known.",
        )
        if 2 * np.count_nonzero(launched) <= len(self):
            return [*notes] if shared else []
        keys = correlation[launched]
        lost = int(np.count_nonzero(~launched & ~self.shared & (correlation > keys.min()) & (correlation < keys.max())))
        said = (
            f"{self.source}{LACKS}{lost:,} of {len(self):,} device activities have no call, though those around "
            "them do."
        )
        words = f"{said} Work may be lost, too, so times and counts may be too low."
        return [*([words] if lost else []), *(notes if shared else [])]

    @cached_property
    def shared(self) -> Bools:
        """Which work has the correlation of several calls, of which times don't tell the one that launched it."""
        correlation = self.calls["correlation"]
        return (self.call < 0) & is_among(self._columns["correlation"], correlation[correlation != 0])

    @cached_property
    def followers(self) -> Int64:
        """The indices of work that began after other work of the same call."""
        launched = np.flatnonzero(self.call >= 0)
        order = launched[np.lexsort((self.ts[launched], self.call[launched]))]
        call = self.call[order]
        rows: Int64 = order[1:][call[1:] == call[:-1]]
        return rows

    @cached_property
    def usages(self) -> list[Usage]:
        """The use of each device, by its index."""
        return [usage(self.ts[rows], (self.ts + self.dur)[rows], self.roles[rows]) for rows in self.rows_of_devices]

    def devices(self, label_of: Callable[[tuple[Any, ...]], str], rank: Callable[[str], int | None]) -> list[DeviceUse]:
        """The use of each device."""
        uses = []
        for number, place in enumerate(self.places[1].tolist()):
            rows, span = self.rows_of_devices[number], int(self.spans[number])
            source, host, device = key = self._all.devices[place]
            label = label_of(key)
            model = self._all.gathered.catalog.model(source, device, host)
            waits = self.waits[rows]
            waited = waits[waits >= 0]
            if len(waited) and waited.min() > max(span, _LEAST_SPAN):
                self.unlikely.append(label)
                waited = waited[:0]
            described = Place(label, source, device, rank(source), model)
            occupancy = self._columns["occupancy"][rows]
            uses.append(device_use(described, self.usages[number], span, waited, occupancy, self.dur[rows]))
        return uses


def _only_devices(shapes: list[Shape]) -> dict[tuple[str, str | None], int]:
    """The device of each source and host whose kernels are all on one."""
    devices: dict[tuple[str, str | None], set[int | None]] = {}
    for shape in shapes:
        if shape["device"] is not None or shape["kind"] == "kernel":
            devices.setdefault((shape["source"], shape["host"]), set()).add(shape["device"])
    only = {place: next(iter(there)) for place, there in devices.items() if len(there) == 1}
    return {place: device for place, device in only.items() if device is not None}


def _stream(shape: Shape) -> tuple[Any, ...]:
    return tuple(shape[name] for name in ("source", "host", "device", "context", "stream", "track"))


def _role(shape: Shape, operation: str | None) -> int:
    if operation == "collective" or shape["comm"] is not None:
        return COMMUNICATION
    return COPY if shape["kind"] == "memcpy" else COMPUTE


class _Places(NamedTuple):
    """The numbers of the process and the machine of each shape, and whether the process is known."""

    process: Int32
    machine: Int32
    known: Bools

    @classmethod
    def of(cls, shapes: list[Shape], numbers: dict[Any, int]) -> _Places:
        """The places of shapes; `numbers` has the numbers so far, and is extended."""
        machine = [numbers.setdefault((one["source"], one["host"]), len(numbers)) for one in shapes]
        process = [numbers.setdefault((one["source"], one["host"], one["pid"]), len(numbers)) for one in shapes]
        has_process = [one["pid"] is not None for one in shapes]
        return cls(np.array(process, np.int32), np.array(machine, np.int32), np.array(has_process, np.bool_))

    def completed(self, others: _Places) -> _Places:
        """Fills in unknown processes where all others on the machine have the same process."""
        processes: dict[int, set[int]] = {}
        for machine, process in zip(others.machine.tolist(), others.process.tolist(), strict=True):
            processes.setdefault(machine, set()).add(process)
        only = {machine: pids.pop() for machine, pids in processes.items() if len(pids) == 1}
        there = np.array([machine in only for machine in self.machine.tolist()], np.bool_)
        theirs = np.array([only.get(machine, -1) for machine in self.machine.tolist()], np.int32)
        return _Places(
            np.where(there & ~self.known, theirs, self.process).astype(np.int32), self.machine, self.known | there
        )

    def correlated(self, correlation: Int64, shape: Int32, lane: Int32 | None = None) -> Correlated:
        """Rows with these correlations and shapes, on the lane of each shape, else each shape on its own."""
        lanes = shape if lane is None else lane[shape]
        return Correlated(correlation, self.process[shape], self.machine[shape], self.known[shape], lanes)


def track_of_device(work: Work, source: str, device: int, track: str) -> dict[str, Any]:
    """The columns of a track below a device (an index of `Work.devices`), without a process if several use it."""
    shapes = [shape for shape, its in zip(work.shapes, work.device.tolist(), strict=True) if its == device]
    processes = {shape["pid"] for shape in shapes}
    _, host, number = work.devices[device]
    place = {"source": source, "host": host, "device": number, "track": track}
    return dict.fromkeys(TRACK_COLUMNS) | place | {"pid": processes.pop() if len(processes) == 1 else None}
