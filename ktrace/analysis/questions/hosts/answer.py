"""What operators, modules, ranges and calls cost, as tables by name or as the call tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from ktrace.analysis.work.device_work import Events
from ktrace.analysis.work.durations import Durations
from ktrace.analysis.work.groups import Group
from ktrace.analysis.work.spans import KINDS
from ktrace.report import counted
from ktrace.store import Spill
from ktrace.store.joins import positions
from ktrace.tables import Cell, Column, Table, percent

#: Between the names of a path.
_INSIDE = " › "

#: What a name is, in titles.
TITLES = {"op": "operator", "shape": "operator and shapes", "module": "module", "range": "range", "line": "line"}

#: The question about operators by the shapes of their inputs.
SHAPE = "shape"

#: Questions whose rows are ordered by the work that was launched with them innermost.
INNERMOST = ("op", SHAPE, "line")


@dataclass(frozen=True)
class HostCost:
    """A name or a path of the call tree. Times in ns.

    `calls` is how often the host ran it, `host` and `host_own` how long, with and without those inside it. `own` is
    the time of device work launched with it innermost, `total` the time of all work launched in it; `launched_own` and
    `launched` count this work. A name within itself counts once in `host`, `total` and `launched`. Kernels, and the
    row of work outside, have no calls. `level` is "range", "module", "op" or "kernel", "" for work outside;
    `path` are the names in the tree from the outermost on, empty outside of a tree. `instances` is the number of
    modules of a class, or with equal paths except for numbers.
    """

    name: str
    level: str
    calls: int | None
    host: int | None
    host_own: int | None
    total: int
    own: int
    launched: int
    launched_own: int
    path: tuple[str, ...] = field(default=(), kw_only=True)
    instances: int | None = field(default=None, kw_only=True)

    @property
    def depth(self) -> int:
        """How many names of the path are around it."""
        return max(len(self.path) - 1, 0)


class HostCosts(msgspec.Struct, frozen=True):
    """The costs of operators, modules or ranges; `by` tells which, "tree" for the call tree.

    `device` is the time of all device work, which the own times add up to; None if the trace has no device work.
    The rows of a tree are in the order of a walk through it.
    """

    by: str
    rows: list[HostCost]
    device: int | None
    notes: list[str] = msgspec.field(default_factory=list)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The table, with at most `top` rows: of a tree the heaviest, each with all rows around it."""
        shown = _heaviest(self.rows, top, self.device is None) if self.by == "tree" else self.rows[:top]
        device = self.device is not None
        columns, figures = _BY_DEVICE if device else _BY_HOST
        names = [Column(TITLES.get(self.by, "call tree") if brief else self.by)]
        names = [Column("operator"), Column("shapes")] if self.by == SHAPE else names
        names += [Column("instances", "count")] if self.by == "module" else []
        if self.by == "tree" and not brief:
            names = [Column("path"), Column("depth", "count"), Column("name"), Column("level")]
        order = _order(self.by, device) if brief else [column.name for column in columns]
        place = {column.name: place for place, column in enumerate(columns)}
        heads = [_short(columns[place[name]]) if brief else columns[place[name]] for name in order]
        whole = self.device if self.device is not None else sum(row.host_own or 0 for row in self.rows)
        rows = []
        for row in shown:
            cells = figures(row, whole)
            rows.append((*self._names(row, brief), *(cells[place[name]] for name in order)))
        what = "device time" if device else "host time"
        title = f"{what} by {TITLES[self.by]}" if self.by in TITLES else f"{what} in the call tree"
        return [Table(self.by, title, (*names, *heads), rows, self.notes, len(self.rows) - len(rows))]

    def _names(self, row: HostCost, brief: bool) -> tuple[Cell, ...]:
        if self.by == SHAPE:
            operator, _, shapes = row.name.removesuffix("]").partition(" [")
            return operator, shapes or None
        if self.by != "tree":
            return (row.name, row.instances) if self.by == "module" else (row.name,)
        if brief:
            return ("  " * row.depth + row.name,)
        return (_INSIDE.join(row.path), row.depth, row.name, row.level)


_DEVICE_COLUMNS = (
    Column("own time", "ns"),
    Column("own share", "%"),
    Column("total time", "ns"),
    Column("total share", "%"),
    Column("launched", "count"),
    Column("launched own", "count"),
    Column("calls", "count"),
    Column("host time", "ns"),
    Column("host own", "ns"),
)

_HOST_COLUMNS = (
    Column("host own", "ns"),
    Column("own share", "%"),
    Column("host time", "ns"),
    Column("calls", "count"),
)


def _device_figures(row: HostCost, whole: int) -> Sequence[Cell]:
    own_cells, total = (row.own, percent(row.own, whole)), (row.total, percent(row.total, whole))
    return (*own_cells, *total, row.launched, row.launched_own, row.calls, row.host, row.host_own)


def _host_figures(row: HostCost, whole: int) -> Sequence[Cell]:
    return row.host_own, percent(row.host_own, whole), row.host, row.calls


_BY_DEVICE = (_DEVICE_COLUMNS, _device_figures)
_BY_HOST = (_HOST_COLUMNS, _host_figures)


def _order(by: str, device: bool) -> list[str]:
    """The columns of the brief form: the time that rows are sorted by, its share, then the other time."""
    if not device:
        return (
            ["host own", "own share", "host time", "calls"]
            if by in INNERMOST
            else ["host time", "host own", "own share", "calls"]
        )
    columns = ["launched", "calls", "host time"]
    if by in INNERMOST:
        return ["own time", "own share", "total time", *columns]
    return [
        "total time",
        "total share",
        "own time",
        *(columns[:2] if by == "tree" else columns),
    ]  # names need the space


def _short(column: Column) -> Column:
    """The column of the brief form."""
    names = {"own share": "share", "total share": "share", "own time": "self", "total time": "total"}
    return Column(names.get(column.name, column.name.replace("host own", "host self")), column.unit)


def _heaviest(rows: list[HostCost], top: int | None, by_host: bool) -> list[HostCost]:
    """The heaviest rows of a tree whose outer rows are among them, in the order of the tree."""
    if top is None or len(rows) <= top:
        return rows
    weights = [(row.host or 0) if by_host else row.total for row in rows]
    order = sorted(range(len(rows)), key=lambda place: (-weights[place], rows[place].depth, place))
    chosen = set(order[:top])
    return list(_rooted(rows, chosen))


def _rooted(rows: list[HostCost], chosen: set[int]) -> Iterator[HostCost]:
    """Yields the chosen rows of a walk through a tree, without those below a row that isn't chosen."""
    deepest = 0
    for place, row in enumerate(rows):
        if row.depth <= deepest:
            deepest = row.depth
            if place in chosen:
                deepest += 1
                yield row


_API = KINDS.index("api")


class ApiCalls(msgspec.Struct, frozen=True):
    """The calls with one name: durations on the host, and the device work that they launched, in ns."""

    calls: Group
    launched: int
    device: int


class ApiTable(msgspec.Struct, frozen=True):
    """API calls by name, the longest total first."""

    rows: list[ApiCalls]
    has_device: bool
    notes: list[str] = msgspec.field(default_factory=list)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A table with at most `top` rows."""
        figures = ("average", "median", "p95", "max") if brief else ("average", "median", "p95", "p99", "min", "max")
        columns = [Column("call"), Column("time", "ns"), Column("share", "%"), Column("calls", "count")]
        columns += [Column(name, "ns") for name in figures]
        columns += [Column("launched", "count"), Column("device time", "ns")] if self.has_device else []
        whole = sum(row.calls.total for row in self.rows)
        rows = []
        for row in self.rows[:top]:
            call_cells = (row.calls.key, row.calls.total, percent(row.calls.total, whole), row.calls.count)
            device = (row.launched, row.device) if self.has_device else ()
            rows.append((*call_cells, *(getattr(row.calls, name) for name in figures), *device))
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
        calls = np.flatnonzero(spans["kind"] == _API)
        ids, name, dur = spans["id"][calls], spans["name"][calls], spans["dur"][calls]
        done = dur >= 0
        self._unfinished += len(dur) - int(np.count_nonzero(done))
        if done.any():
            self._durations.add(source, dur=dur[done], shape=name[done])
        if events is not None and len(events) and len(ids):
            order = np.argsort(ids, kind="stable")
            span = positions(events.calls["id"], ids[order])
            name_of_call = np.append(np.where(span >= 0, name[order[span]], -1), -1)
            by = name_of_call[events.call]  # the last one is that of work without a call
            launching = by >= 0
            np.add.at(self._launched, by[launching], 1)
            np.add.at(self._device, by[launching], events.dur[launching])

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
        cut = [f"Not counted: {counted(self._unfinished, 'call')} without an end."] if self._unfinished else []
        return ApiTable(rows, has_device, cut)
