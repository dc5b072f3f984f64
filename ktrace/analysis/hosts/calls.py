"""Calls of APIs: how long the host was in them, and the device work that they launched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ktrace.analysis.work.events import Events
from ktrace.analysis.work.figures import Durations
from ktrace.analysis.work.model import Group
from ktrace.analysis.work.spans import KINDS
from ktrace.model.arrays import AnyArray
from ktrace.store.joins import positions
from ktrace.store.spill import Spill
from ktrace.tables.figures import percent
from ktrace.tables.table import Column, Table

_API = KINDS.index("api")


@dataclass(frozen=True)
class ApiCalls:
    """The calls with one name: durations on the host, and the device work that they launched, in ns."""

    calls: Group
    launched: int
    device: int


@dataclass(frozen=True)
class ApiTable:
    """API calls by name, the longest total first."""

    rows: list[ApiCalls]
    has_device: bool
    notes: list[str] = field(default_factory=list)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A table with at most `top` rows."""
        figures = ("average", "median", "p95", "max") if brief else ("average", "median", "p95", "p99", "min", "max")
        columns = [Column("call"), Column("time", "ns"), Column("share", "%"), Column("calls", "count")]
        columns += [Column(name, "ns") for name in figures]
        columns += [Column("launched", "count"), Column("device time", "ns")] if self.has_device else []
        whole = sum(row.calls.total for row in self.rows)
        rows = []
        for row in self.rows[:top]:
            own = (row.calls.key, row.calls.total, percent(row.calls.total, whole), row.calls.count)
            device = (row.launched, row.device) if self.has_device else ()
            rows.append((*own, *(getattr(row.calls, name) for name in figures), *device))
        title = "API calls on the host"
        return [Table("api", title, tuple(columns), rows, self.notes, len(self.rows) - len(rows))]


class CallCosts:
    """Adds up API calls, source by source."""

    def __init__(self, spill: Spill, names: list[str]) -> None:
        """`names` are those of spans."""
        self._names = names
        self._durations = Durations(spill, name="api")
        self._launched, self._device = np.zeros((2, len(names)), np.int64)
        self._unfinished = 0

    def add(self, source: str, spans: dict[str, Any], events: Events | None) -> None:
        """Adds the calls among the spans of a source, and its device work."""
        mine = np.flatnonzero(spans["kind"] == _API)
        ids, name, dur = spans["id"][mine], spans["name"][mine], spans["dur"][mine]
        done = dur >= 0
        self._unfinished += len(dur) - int(np.count_nonzero(done))
        if done.any():
            self._durations.add(source, dur=dur[done], shape=name[done])
        if events is not None and len(events) and len(ids):
            self._add_work(ids, name, events)

    def _add_work(self, ids: AnyArray, name: AnyArray, events: Events) -> None:
        order = np.argsort(ids, kind="stable")
        span = positions(events.calls["id"], ids[order])
        known = np.append(np.where(span >= 0, name[order[span]], -1), -1)
        by = known[events.call]  # the last one is that of work without a call
        launching = by >= 0
        self._launched += np.bincount(by[launching], minlength=len(self._names))
        weights = events.dur[launching]
        self._device += np.bincount(by[launching], weights=weights, minlength=len(self._names)).astype(np.int64)

    def answer(self, has_device: bool) -> ApiTable | None:
        """The table, None if there are no calls."""
        if not len(self._durations):
            return None
        groups = self._durations.groups("api", lambda rows: rows["shape"], self._names)
        number = {name: place for place, name in enumerate(self._names)}
        places = [number[group.key] for group in groups]
        rows = [
            ApiCalls(group, int(self._launched[place]), int(self._device[place]))
            for group, place in zip(groups, places, strict=True)
        ]
        cut = [f"Not counted: {self._unfinished:,} calls without an end."] if self._unfinished else []
        return ApiTable(rows, has_device, cut)
