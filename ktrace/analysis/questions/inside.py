"""Inside kernels: what warps do, how long they wait, and how they share a kernel's time.

The question of `ktrace summary --by inside`, of ranges whose `parent` is a kernel, on a track for each warp:

    gemm_ws_kernel   [                                   ]      a launch
      SM 0 warp 0      [load][ wait ][load]                     role "load, wait"
      SM 0 warp 1      [ wait  ][ mma      ][wait][ mma  ]      role "mma, wait"
      SM 3 warp 0      [load]                                   its SM is idle from here on: the tail

A warp lives from its first row to its last one, or as long as its row of the category "warp lifetime" says. Ranges
count without those inside them. Warps wait in ranges that are named so: wait, acquire, barrier, stall, sync.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.durations import spread
from ktrace.analysis.work.gather import inside_kernels
from ktrace.analysis.work.groups import Spread
from ktrace.analysis.work.question import Answer, Labels, Question, kernel_of
from ktrace.analysis.work.spans import innermost
from ktrace.analysis.work.stored_columns import StoredColumns, source_of
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import present, words_in
from ktrace.stages.select.intervals import Intervals
from ktrace.store import Spill
from ktrace.store.events import values
from ktrace.store.vocabulary import RowKeys
from ktrace.tables import Cell, Column, Table, percent

#: The columns of the model that it looks at, besides those of any summary.
COLUMNS = frozenset({"track", "parent", "cat", "device"})

#: The name of the question, as `--by` takes it.
NAME = "inside"

_LIFETIME = "warp lifetime"
_WAIT = re.compile(r"(?:^|[^a-z])(?:wait|acquire|barrier|stall|sync)", re.IGNORECASE)
_SM = re.compile(r"(SM \d+)\b")


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The question what warps do inside kernels."""
    return Inside(spill)


@dataclass(frozen=True)
class RangeInside:
    """A range of a kernel's code over all its warps; times in ns, each without the ranges inside it."""

    kernel: str
    name: str
    times: Spread
    is_wait: bool


@dataclass(frozen=True)
class Role:
    """Warps of a kernel that run the same ranges. Times in ns, summed over warps.

    `active` is in ranges other than waits; `overlapped` is the part of it in which a warp of another role of the same
    block was active, too: None for blocks with one role.
    """

    kernel: str
    name: str
    warps: int
    alive: int
    waiting: int
    active: int
    overlapped: int | None


@dataclass(frozen=True)
class KernelInside:
    """The launches of a kernel whose inside was recorded. Times in ns.

    `alive` is the time of all warps, `waiting` and `marked` the parts in waits and in any range. `tail` is the time in
    which multiprocessors had no warp any more while others still had, of `sm_time`, their time in all launches;
    `most` the time of the multiprocessor with the most warp time, relative to their mean. `last` is the warp that ends
    last in the longest launch.
    """

    name: str
    launches: int
    warps: int
    multiprocessors: int
    time: int
    alive: int
    waiting: int
    marked: int
    tail: int
    sm_time: int
    most: float
    last: str


@dataclass
class InsideAnswer:
    """What warps did inside kernels."""

    kernels: list[KernelInside]
    roles: list[Role]
    ranges: list[RangeInside]
    notes: list[str] = field(default_factory=list)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The kernels, the roles of their warps and the ranges of their code, at most `top` rows of each."""
        alive = {one.name: one.alive for one in self.kernels}
        kernels: list[tuple[Cell, ...]] = [
            (
                *(one.name, one.launches, one.multiprocessors or None, one.warps, one.time),
                *(percent(one.waiting, one.alive), percent(one.alive - one.marked, one.alive)),
                percent(one.tail, one.sm_time) if one.multiprocessors > 1 else None,
                one.most if one.multiprocessors > 1 else None,
                one.last,
            )
            for one in self.kernels
        ]
        roles: list[tuple[Cell, ...]] = [
            (
                *(one.kernel, one.name, one.warps, one.alive, percent(one.waiting, one.alive)),
                None if one.overlapped is None or not one.active else percent(one.overlapped, one.active),
            )
            for one in self.roles
        ]
        ranges: list[tuple[Cell, ...]] = [
            (
                *(one.kernel, one.name, one.times.total, percent(one.times.total, alive[one.kernel])),
                *(one.times.count, one.times.median, one.times.p95, one.times.max),
            )
            for one in self.ranges
        ]
        return [
            _table("inside", "inside kernels", _KERNELS, kernels, top, self.notes),
            _table("roles", "warp roles", _ROLES, roles, top),
            _table("in-kernel ranges", "ranges inside kernels, of all warps", _RANGES, ranges, top),
        ]


_KERNELS = (
    *(Column("kernel"), Column("launches", "count"), Column("SMs", "count"), Column("warps", "count")),
    *(Column("time", "ns"), Column("waiting", "%"), Column("unmarked", "%"), Column("tail", "%")),
    *(Column("busiest SM", "x"), Column("last warp")),
)
_ROLES = (
    *(Column("kernel"), Column("role"), Column("warps", "count"), Column("warp time", "ns"), Column("waiting", "%")),
    Column("overlapped", "%"),
)
_RANGES = (
    *(Column("kernel"), Column("range"), Column("warp time", "ns"), Column("share", "%"), Column("count", "count")),
    *(Column("median", "ns"), Column("p95", "ns"), Column("max", "ns")),
)


def _table(
    key: str,
    title: str,
    columns: tuple[Column, ...],
    rows: list[tuple[Cell, ...]],
    top: int | None,
    notes: Sequence[str] = (),
) -> Table:
    return Table(key, title, columns, rows[:top], list(notes), len(rows) - len(rows[:top]))


class Inside:
    """The question what warps do inside kernels."""

    spans = False

    def __init__(self, spill: Spill) -> None:
        types = {"parent": "i8", "ts": "i8", "dur": "i8", "name": "i4", "track": "i4", "lifetime": "i1"}
        self._rows = StoredColumns(spill, "inside", **types)
        self._names, self._tracks = RowKeys(("name",)), RowKeys(("track",))

    def see(self, batch: Batch) -> None:
        """Collects the ranges of one source that have a parent on their device, with a track of their own."""
        if batch.record != "events" or not batch.has("track"):
            return
        (dur, has_end), (parent, _) = (values(batch.columns, name) for name in ("dur", "parent"))
        rows = np.flatnonzero(inside_kernels(batch) & has_end & present(batch.column("track")))
        if len(rows):
            self._rows.add(
                source_of(batch),
                parent=parent[rows],
                ts=batch.column("ts").to_numpy()[rows],
                dur=dur[rows],
                name=self._names.number(batch, rows),
                track=self._tracks.number(batch, rows),
                lifetime=words_in(batch.column("cat"), (_LIFETIME,))[rows],
            )

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answer, if there are ranges whose parents are kernels."""
        tracks, names = [text for (text,) in self._tracks], [text for (text,) in self._names]
        waits = np.array([_WAIT.search(name) is not None for name in names], np.bool_)
        launches: dict[str, list[_Launch]] = {}
        for source in self._rows.sources:
            kernels = _kernels(work, source)
            rows = self._rows.for_source(source)
            order = np.argsort(rows["parent"], kind="stable")
            parents, begins = np.unique(rows["parent"][order], return_index=True)
            for parent, part in zip(parents.tolist(), np.split(order, begins[1:]), strict=True):
                if parent in kernels:
                    launch = _Launch({name: column[part] for name, column in rows.items()}, waits)
                    launches.setdefault(kernels[parent], []).append(launch)
        if not launches:
            return {}
        answer = InsideAnswer([], [], [])
        for kernel, each in launches.items():
            answer.kernels.append(_kernel(kernel, each, tracks))
            answer.roles += _roles(kernel, each, tracks, names)
            answer.ranges += _ranges(kernel, each, names)
        answer.kernels.sort(key=lambda one: -one.alive)
        answer.roles.sort(key=lambda one: -one.alive)
        answer.ranges.sort(key=lambda one: -one.times.total)
        return {NAME: answer}


class _Launch:
    """The rows of one launch: ranges with their self time, and how long each warp lives."""

    def __init__(self, rows: dict[str, Int64], waits: Bools) -> None:
        end = rows["ts"] + rows["dur"]
        self.warps, warp = np.unique(rows["track"], return_inverse=True)
        self.begin = np.full(len(self.warps), np.iinfo(np.int64).max)
        self.end = np.zeros(len(self.warps), np.int64)
        np.minimum.at(self.begin, warp, rows["ts"])
        np.maximum.at(self.end, warp, end)
        is_range = rows["lifetime"] == 0
        self.warp, self.name = warp[is_range], rows["name"][is_range]
        self.ts, self.stop = rows["ts"][is_range], end[is_range]
        around = innermost(self.warp.astype(np.int32), self.ts, self.stop)
        self.self_time = self.stop - self.ts
        inside = np.zeros(len(self.ts), np.int64)
        np.add.at(inside, around[around >= 0], (self.stop - self.ts)[around >= 0])
        self.self_time = np.maximum(self.self_time - inside, 0)
        self.is_wait = waits[self.name]

    @property
    def alive(self) -> Int64:
        """How long each warp lives."""
        times: Int64 = self.end - self.begin
        return times

    def per_warp(self, of: Bools) -> Int64:
        """The self time of some ranges, by warp."""
        times = np.zeros(len(self.warps), np.int64)
        np.add.at(times, self.warp[of], self.self_time[of])
        return times


def _kernel(name: str, launches: list[_Launch], tracks: list[str]) -> KernelInside:
    longest = max(launches, key=lambda one: int(one.end.max() - one.begin.min()))
    by_sm: dict[str, int] = {}
    tail = sm_time = 0
    for launch in launches:
        ends: dict[str, int] = {}
        for warp, alive, end in zip(launch.warps.tolist(), launch.alive.tolist(), launch.end.tolist(), strict=True):
            if place := _SM.search(tracks[warp]):
                by_sm[place[1]] = by_sm.get(place[1], 0) + alive
                ends[place[1]] = max(ends.get(place[1], 0), end)
        last = int(launch.end.max())
        tail += sum(last - end for end in ends.values())
        sm_time += len(ends) * int(last - launch.begin.min())
    return KernelInside(
        name,
        launches=len(launches),
        warps=sum(len(one.warps) for one in launches),
        multiprocessors=len(by_sm),
        time=sum(int(one.end.max() - one.begin.min()) for one in launches),
        alive=sum(int(one.alive.sum()) for one in launches),
        waiting=sum(int(one.self_time[one.is_wait].sum()) for one in launches),
        marked=sum(int(one.self_time.sum()) for one in launches),
        tail=tail,
        sm_time=sm_time,
        most=max(by_sm.values()) * len(by_sm) / sum(by_sm.values()) if any(by_sm.values()) else 1.0,
        last=tracks[longest.warps[int(longest.end.argmax())]],
    )


def _ranges(kernel: str, launches: list[_Launch], names: list[str]) -> list[RangeInside]:
    name = np.concatenate([one.name for one in launches])
    times = np.concatenate([one.self_time for one in launches])
    spreads = ((names[each], spread(times[name == each])) for each in np.unique(name).tolist())
    return [RangeInside(kernel, text, of, _WAIT.search(text) is not None) for text, of in spreads if of is not None]


def _roles(kernel: str, launches: list[_Launch], tracks: list[str], names: list[str]) -> list[Role]:
    """The warps by the set of ranges that they run."""
    figures: dict[tuple[int, ...], Int64] = {}
    shared: dict[tuple[int, ...], int] = {}
    for launch in launches:
        roles = [tuple(np.unique(launch.name[launch.warp == warp]).tolist()) for warp in range(len(launch.warps))]
        waiting, active = launch.per_warp(launch.is_wait), launch.per_warp(~launch.is_wait)
        for warp, role in enumerate(roles):
            sums = figures.setdefault(role, np.zeros(4, np.int64))
            sums += (1, launch.alive[warp], waiting[warp], active[warp])
        for role, time in _overlaps(launch, roles, tracks):
            shared[role] = shared.get(role, 0) + time
    of_kernel = []
    for role, sums in figures.items():
        warps, alive, waiting_time, active_time = sums.tolist()
        name = ", ".join(names[each] for each in role) or "(no range)"
        of_kernel.append(Role(kernel, name, warps, alive, waiting_time, active_time, shared.get(role)))
    return of_kernel


def _overlaps(launch: _Launch, roles: list[tuple[int, ...]], tracks: list[str]) -> list[tuple[tuple[int, ...], int]]:
    """By role, how long its warps were active while a warp of another role of their block was."""
    blocks: dict[str, list[int]] = {}
    for warp, track in enumerate(launch.warps.tolist()):
        blocks.setdefault(tracks[track].rpartition(" warp ")[0], []).append(warp)
    overlaps = []
    for warps in blocks.values():
        if len({roles[warp] for warp in warps}) < 2:
            continue
        active = {warp: _active(launch, warp) for warp in warps}
        for warp in warps:
            others = [active[other].pairs() for other in warps if roles[other] != roles[warp]]
            begin, end = np.array([pair for pairs in others for pair in pairs], np.int64).reshape(-1, 2).T
            overlaps.append((roles[warp], active[warp].intersection(Intervals.union(begin, end)).length))
    return overlaps


def _active(launch: _Launch, warp: int) -> Intervals:
    """The times of a warp in ranges, without those of waits."""
    of_warp = launch.warp == warp
    waits, work = of_warp & launch.is_wait, of_warp & ~launch.is_wait
    working = Intervals.union(launch.ts[work], launch.stop[work])
    idle = Intervals.union(launch.ts[waits], launch.stop[waits])
    edges = np.array([int(launch.begin.min()), *np.ravel(idle.pairs()).tolist(), int(launch.end.max())])
    return working.intersection(Intervals.union(edges[::2], edges[1::2]))


def _kernels(work: Work, source: str) -> dict[int, str]:
    """The names of kernels by their ids."""
    if source not in work.rows.sources or not work.is_on_devices:
        return {}
    events = work.for_source(source)
    names = [kernel_of(shape) for shape in work.shapes]
    return {identity: names[shape] for identity, shape in zip(events.ids.tolist(), events.shape.tolist(), strict=True)}
