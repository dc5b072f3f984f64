"""The work that events tell of, with what groups it: names, labels, tracks, steps, layers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ktrace.model import HOST_KINDS, TRACK_COLUMNS, Batch
from ktrace.summary.figures import by_group
from ktrace.summary.gather import Gathered, Gathering, durations, kinds_in
from ktrace.summary.launched import Correlated, innermost, launches, linked
from ktrace.summary.model import DeviceUse, Int64
from ktrace.summary.shapes import Shapes
from ktrace.summary.use import COMMUNICATION, COMPUTE, COPY, Place, device_use

Int32 = npt.NDArray[np.int32]
Shape = dict[str, Any]
Columns = dict[str, Any]


class Events:
    """The work of some events as columns, without slices that have no end (`unfinished` of them).

    `work` has ts, dur, correlation, occupancy and shape, the place of its shape in `shapes`.
    """

    def __init__(self, gathered: Gathered, work: Columns, shapes: Shapes) -> None:
        done = work["dur"] >= 0
        self.unfinished = int(np.count_nonzero(~done))
        if self.unfinished:
            work = {name: column[done] for name, column in work.items()}
        self.ts: Int64 = work["ts"]
        self.dur: Int64 = work["dur"]
        self.shape: Int32 = work["shape"]
        self.shapes = shapes.all()
        self._work, self._gathered, self._done = work, gathered, done

    @cached_property
    def _unjoined(self) -> tuple[Int64, Int64]:
        """The places of work without a correlation, and their ids."""
        rows = self._gathered.unjoined.whole()
        mine = self._done[rows["place"]]
        return (np.cumsum(self._done) - 1)[rows["place"][mine]], rows["id"][mine]

    @classmethod
    def of_work(cls, gathered: Gathered) -> Events:
        """Device work."""
        return cls(gathered, gathered.work.whole(), gathered.shapes)

    @classmethod
    def of_host(cls, gathered: Gathered) -> Events:
        """Calls and operators, else ranges, each with the time that it didn't spend in others of its thread."""
        of_kind = [kinds_in(Batch("events", rows), HOST_KINDS)[0] for rows in gathered.host]
        kept = of_kind if any(mine.any() for mine in of_kind) else [~mine for mine in of_kind]
        shapes, threads = Shapes(gathered.shapes.names), Shapes(TRACK_COLUMNS)
        columns = Gathering(ts="i8", dur="i8", correlation="i8", occupancy="f4", shape="i4", thread="i4")
        for rows, mine in zip(gathered.host, kept, strict=True):
            batch = Batch("events", rows.filter(pa.array(mine)))
            if not len(batch):
                continue
            every = np.arange(len(batch))
            columns.add(
                ts=batch.column("ts").to_numpy(),
                dur=durations(batch),
                correlation=0,
                occupancy=np.nan,
                shape=shapes.number(batch, every),
                thread=threads.number(batch, every),
            )
        work = columns.whole()
        own = np.maximum(work["dur"], 0)
        around = innermost(work["thread"], work["ts"], work["ts"] + own)
        inside = np.zeros(len(own), np.int64)
        np.add.at(inside, around[around >= 0], own[around >= 0])
        work["dur"] = np.where(work["dur"] < 0, work["dur"], np.maximum(work["dur"] - inside, 0))
        return cls(gathered, work, shapes)

    def __len__(self) -> int:
        return len(self.ts)

    def by_shape(self, value: Callable[[Shape], Any]) -> tuple[Int32, list[Any]]:
        """A number for each shape, and the values that they stand for."""
        known: dict[Any, int] = {}
        numbers = [known.setdefault(value(shape), len(known)) for shape in self.shapes]
        return np.array(numbers, np.int32), list(known)

    @cached_property
    def places(self) -> tuple[Int32, list[tuple[Any, ...]]]:
        """The device of each piece of work, and (source, host, device) of each."""
        numbers, found = self.by_shape(lambda shape: (shape["source"], shape["host"], shape["device"]))
        return numbers[self.shape], found

    @cached_property
    def roles(self) -> npt.NDArray[np.uint8]:
        """What each piece of work is to the use of its device."""
        roles = [_role(shape) for shape in self.shapes]
        return np.array(roles, np.uint8)[self.shape]

    @cached_property
    def calls(self) -> dict[str, Any]:
        """The calls that may have launched work."""
        return self._gathered.calls.whole()

    @cached_property
    def call(self) -> Int64:
        """The place of the call that launched each piece of work, -1 where it isn't known."""
        threads, thread, calls = self._gathered.threads.all(), self.calls["thread"], self.calls
        numbers: dict[Any, int] = {}
        of, on = _places(threads, numbers)
        process, machine = _places(self.shapes, numbers)
        process = np.where(process < 0, _only(of, on, machine), process)
        work = Correlated(self._work["correlation"], process[self.shape], machine[self.shape])
        known = Correlated(calls["correlation"], of[thread], on[thread])
        found = launches(work, known, calls["ts"], calls["ts"] + np.maximum(calls["dur"], 0))
        if self._gathered.links:
            sources: dict[str, int] = {}
            mine = np.array([sources.setdefault(shape["source"], len(sources)) for shape in self.shapes], np.int32)
            theirs = np.array([sources.setdefault(one["source"], len(sources)) for one in threads], np.int32)
            place, id_ = self._unjoined
            ends = mine[self.shape[place]], id_
            found[place] = linked(self._gathered.links, sources, ends, (theirs[thread], calls["id"]))
        return found

    @cached_property
    def waits(self) -> Int64:
        """How long each piece of work came after the return of its call, -1 where that isn't known."""
        found = np.full(len(self), -1, np.int64)
        mine = np.flatnonzero(self.call >= 0)
        call = self.call[mine]
        ended = self.calls["dur"][call] >= 0
        mine, call = mine[ended], call[ended]
        found[mine] = np.maximum(self.ts[mine] - self.calls["ts"][call] - self.calls["dur"][call], 0)
        return found

    def devices(self, label: Callable[[tuple[Any, ...]], str], rank: Callable[[str], int | None]) -> list[DeviceUse]:
        """The use of each device, in the order of their names."""
        which, found = self.places
        rows_of = by_group(which, len(found)) if len(found) > 1 else lambda number: slice(None)
        end = self.ts + self.dur
        uses = []
        for number, (source, host, device) in enumerate(found):
            rows = rows_of(number)
            if not len(end[rows]):
                continue
            waits = self.waits[rows]
            entry = self._gathered.catalog.get("device", source=source, host=host, device=device)
            name = entry.name if entry else None
            place = Place(label((source, host, device)), source, device, rank(source), name)
            occupancy = self._work["occupancy"][rows]
            uses.append(device_use(place, self.ts[rows], end[rows], self.roles[rows], waits[waits >= 0], occupancy))
        return sorted(uses, key=lambda use: natural(use.label))


def _role(shape: Shape) -> int:
    if shape["operation"] == "collective" or shape["comm"] is not None:
        return COMMUNICATION
    return COPY if shape["kind"] == "memcpy" else COMPUTE


def _only(process: Int32, machine: Int32, wanted: Int32) -> Int32:
    """The process of each wanted machine where it has just one among these, else -1."""
    of: dict[int, set[int]] = {}
    for on, number in zip(machine.tolist(), process.tolist(), strict=True):
        of.setdefault(on, set()).add(number)
    found = [next(iter(of[on])) if len(of.get(on, ())) == 1 else -1 for on in wanted.tolist()]
    return np.array(found, np.int32)


def _places(shapes: list[Shape], numbers: dict[Any, int]) -> tuple[Int32, Int32]:
    """The numbers of the process (-1: not known) and of the machine of each shape."""
    machine = [numbers.setdefault((one["source"], one["host"]), len(numbers)) for one in shapes]
    process = [
        -1 if one["pid"] is None else numbers.setdefault((one["source"], one["host"], one["pid"]), len(numbers))
        for one in shapes
    ]
    return np.array(process, np.int32), np.array(machine, np.int32)


def natural(text: str) -> list[tuple[int, int | str]]:
    """A key by which texts are sorted so that L2 comes before L10."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", text) if part]
