"""The tables of all ranks joined: who is slow, always or for a while, and what stages, experts and links do.

    own time   the time of a step without exposed communication: what a rank computes, copies, and is idle
    peers      the ranks of the same stage, whose work is the same
    waiting    of a collective what it takes longer on a rank than on that of its ranks where it is shortest: it ends
               everywhere when the last has joined, so that no clocks are compared

A rank is a chronic straggler if its own time is among the longest of its peers more often than by chance, and long
beyond their median by a part of a step; a passing one in steps in which it departs from its own habit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ktrace.analysis.questions.collectives.rows import factor_of
from ktrace.analysis.work.steadiness import benjamini_hochberg, student_t_p
from ktrace.fleet.batch import Account
from ktrace.fleet.reduced import (
    BETWEEN_STAGES,
    COMPUTED,
    EXPOSED,
    IDLE,
    ROW,
    SPAN,
    Kind,
    RankTable,
    members_of,
)
from ktrace.model.arrays import AnyArray, Float64, Int64
from ktrace.store.joins import group_start_mask

#: At most this part of what is named is named by chance (Benjamini-Hochberg).
CHANCE = 0.01

#: Own time beyond that of the peers, in parts of a step, from which a straggler is named: a chronic, a passing one.
CHRONIC, PASSING = 0.02, 0.05

#: "Among the slowest" is this part of the peers.
SLOWEST = 1 / 16

#: Fewer peers, or steps, tell nothing.
FEWEST_PEERS, FEWEST_STEPS = 4, 3

#: The median bandwidth of a slow group in parts of that of all groups alike, and the fewest of these.
SLOW, _ALIKE = 0.8, 3

#: A median tells as much of noise as a mean square of so many times fewer values.
_EFFICIENCY = 3

#: More degrees of freedom make no difference.
_MOST_FREEDOM = 500

#: Rows of collectives that are joined at once, 100 bytes each.
_ROWS = 2_000_000


class Straggler(NamedTuple):
    """A rank that is slow: its place in `Fleet.ranks`, the steps in which it is, of how many, and by how much.

    In `last` steps it is the slowest of its `peers`; `excess` is the median of its own time beyond theirs, ns, `share`
    that in percent of a step.
    """

    place: int
    steps: list[int]
    of: int
    last: int
    peers: int
    excess: float
    share: float
    q: float


class StageUse(NamedTuple):
    """A stage: its ranks, and the medians over ranks and steps of the time of a step, and parts of it in percent.

    A bubble is the time in which a rank is idle, or does nothing but send to and receive from other stages.
    """

    stage: int
    ranks: int
    step: float
    compute: float
    bubble: float
    least: float
    most: float
    collectives: float


class ExpertUse(NamedTuple):
    """A group of ranks with experts: `factor` is how much more than the mean its busiest rank gets, over all exchanges.

    `busiest` is the rank that gets most in all, `share` that in percent of all; `even` is that of each if balanced.
    """

    group: str
    members: str
    exchanges: int
    moved: int
    factor: float
    busiest: RankTable
    share: float
    even: float


class LinkUse(NamedTuple):
    """The transfers of a group or pair: median bus bandwidth in bytes per second, and that of all groups alike.

    `alike` is their number; `lost` is the time that the transfers take beyond that, ns; `q` is that of being slower
    than these, None where too few are alike.
    """

    operation: str
    size: int
    group: str
    members: str
    hosts: str
    transfers: int
    bandwidth: float
    usual: float
    alike: int
    lost: float
    q: float | None


#: What became of each input, by its path.
FleetReport = Account[str]


@dataclass
class Fleet:
    """What the ranks of a job did. Arrays are (rank, step), ns, NaN for a step that a rank lacks.

    `steps` are the numbers of the steps, empty of recordings without, whose only column is the whole. `times` has a
    further first axis, as `RankTable.times`. `waited` is exposed waiting for other ranks in collectives.
    """

    ranks: list[RankTable]
    steps: list[int]
    times: Float64
    waited: Float64
    report: FleetReport
    chronic: list[Straggler] = field(default_factory=list)
    passing: list[Straggler] = field(default_factory=list)
    stages: list[StageUse] = field(default_factory=list)
    experts: list[ExpertUse] = field(default_factory=list)
    links: list[LinkUse] = field(default_factory=list)
    joined: int = 0
    alone: int = 0
    unnamed: int = 0
    incomplete: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def own(self) -> Float64:
        """The time of each step without exposed communication."""
        times: Float64 = self.times[SPAN] - self.times[EXPOSED]
        return times

    @property
    def step(self) -> float:
        """The median time of a step."""
        return float(np.nanmedian(self.times[SPAN]))

    def beyond(self) -> Float64:
        """Own time beyond the median of the peers."""
        times = self.own
        beyond = np.full(times.shape, np.nan)
        for peers in self.peers():
            beyond[peers] = times[peers] - medians(times[peers])
        return beyond

    def peers(self) -> list[Int64]:
        """The places of ranks whose work is the same: those of a stage."""
        stages = np.array([-1 if one.stage is None else one.stage.number for one in self.ranks], np.int64)
        return [np.flatnonzero(stages == stage) for stage in np.unique(stages).tolist()]


def together(read: Callable[[], Iterable[RankTable]], report: FleetReport) -> Fleet:
    """Joins the tables, which `read` reads once more for every two million collectives of all ranks."""
    ranks: list[RankTable] = []
    kinds: dict[Kind, int] = {}
    own_kinds: list[Int64] = []
    rows = 0
    for table in read():
        own_kinds.append(np.array([kinds.setdefault(kind, len(kinds)) for kind in table.kinds], np.int64))
        rows += len(table.rows) // ROW.itemsize
        table.kinds, table.rows = [], b""
        ranks.append(table)
    fleet = Fleet(ranks, *_times(ranks), report)
    joins = _Joins(fleet, list(kinds))
    parts = rows // _ROWS + 1
    for part in range(parts):
        joins.add(*_rows_of(read(), fleet, own_kinds, part, parts))
    order = sorted(range(len(ranks)), key=lambda at: (ranks[at].rank is None, ranks[at].rank or 0, ranks[at].label))
    fleet.ranks = [ranks[at] for at in order]
    fleet.times, fleet.waited = fleet.times[:, order], fleet.waited[order]
    fleet.chronic = chronic_of(fleet)
    fleet.passing = passing_of(fleet)
    fleet.stages = _stages(fleet)
    fleet.experts, fleet.links = joins.experts(), joins.links()
    return fleet


def _times(ranks: Sequence[RankTable]) -> tuple[list[int], Float64, Float64]:
    """The numbers of all steps, the times of ranks by steps, and no waiting yet."""
    steps = sorted({step for one in ranks for step in one.steps or ()})
    at = {step: place for place, step in enumerate(steps)}
    times = np.full((6, len(ranks), max(len(steps), 1)), np.nan)
    for place, one in enumerate(ranks):
        if one.steps is not None:
            times[:, place, [at[step] for step in one.steps]] = one.step_times()
        elif not steps:
            times[:, place] = one.step_times()
    return steps, times, np.where(np.isnan(times[SPAN]), np.nan, 0.0)


def medians(values: Float64) -> Float64:
    """The median of each column of those that are known; NaN where none is."""
    recorded = ~np.isnan(values).all(axis=0)
    medians = np.full(values.shape[1], np.nan)
    medians[recorded] = np.nanmedian(values[:, recorded], axis=0)
    return medians


def chronic_of(fleet: Fleet) -> list[Straggler]:
    """The ranks whose own time is among the longest of their peers' more often than by chance, the worst first.

    The test is binomial: of ranks that are alike each is the slowest of n in one of n steps, and among the slowest
    sixteenth in one of 16; the better of both, twice as probable.
    """
    times, step, excess = fleet.own, fleet.step, medians(fleet.beyond().T).tolist()
    tested: list[Straggler] = []
    ps: list[float] = []
    for peers in fleet.peers():
        many, part = len(peers), max(1, math.ceil(len(peers) * SLOWEST))
        if many < FEWEST_PEERS:
            continue
        place = _from_the_slowest(times[peers])  # (rank, step): 0 is the slowest
        for at, rank in enumerate(peers.tolist()):
            of, last = int((place[at] >= 0).sum()), int((place[at] == 0).sum())
            slow = np.flatnonzero((place[at] >= 0) & (place[at] < part)).tolist()
            p = min(1.0, 2 * min(_binomial(last, of, 1 / many), _binomial(len(slow), of, part / many)))
            ps.append(p)
            tested.append(Straggler(rank, slow, of, last, many, excess[rank], 100 * excess[rank] / step, p))
    named = [
        one._replace(q=q)
        for one, q in zip(tested, benjamini_hochberg(ps), strict=True)
        if q <= CHANCE and one.of >= FEWEST_STEPS and one.excess >= CHRONIC * step
    ]
    return sorted(named, key=lambda one: -one.excess)


def _from_the_slowest(times: Float64) -> Int64:
    """The place of each rank in each step: 0 is the slowest, and equal ones have the last place that they share.

    It is -1 for a rank that lacks the step, and in a step that most ranks lack.
    """
    place = np.full(times.shape, -1, np.int64)
    for step in range(times.shape[1]):
        here = np.flatnonzero(~np.isnan(times[:, step]))
        if len(here) >= FEWEST_PEERS and 2 * len(here) >= len(times):
            falling = -times[here, step]
            place[here, step] = np.searchsorted(np.sort(falling), falling, "right") - 1
    return place


def unjudged(fleet: Fleet) -> int:
    """How many ranks have too few peers, or steps in common with these, for a test."""
    lone = 0
    for peers in fleet.peers():
        compared = (_from_the_slowest(fleet.own[peers]) >= 0).any(axis=0)
        lone += len(peers) * (len(peers) < FEWEST_PEERS or int(compared.sum()) < FEWEST_STEPS)
    return lone


@lru_cache(maxsize=4096)
def _binomial(often: int, of: int, chance: float) -> float:
    """The probability of at least so many of so many, each by this chance, which is between 0 and 1."""
    yes, no = math.log(chance), math.log1p(-chance)
    ways = [math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1) for k in range(often, of + 1)]
    terms = (math.exp(way + k * yes + (of - k) * no) for k, way in enumerate(ways, often))
    return min(1.0, math.fsum(terms))


def passing_of(fleet: Fleet) -> list[Straggler]:
    """The ranks that depart from their own habit in some steps, the worst first; those that are chronic aren't here.

    The test is Student's: the noise is the median departure of all peers in all steps. A departure must also be twice
    as long as any towards less time, as noise with long tails departs to both sides.
    """
    beyond, step = fleet.beyond(), fleet.step
    if beyond.shape[1] < FEWEST_STEPS:
        return []
    chronic = {one.place for one in fleet.chronic}
    cells: list[tuple[int, int, float, Int64]] = []
    ps: list[float] = []
    for peers in fleet.peers():
        if len(peers) < FEWEST_PEERS:
            continue
        some = beyond[peers]
        departs = some - medians(some.T)[:, None]
        moved = np.abs(departs[(departs != 0) & ~np.isnan(departs)])
        of = (len(peers) - 1) * (some.shape[1] - 1)
        noise = 1.4826 * float(np.median(moved)) * math.sqrt(some.size / of) if len(moved) else 0.0
        noise = max(noise, 1e-4 * step)
        for at, when in np.argwhere(departs > np.maximum(3 * noise, 2 * _least_of_others(departs))).tolist():
            if peers[at] not in chronic:
                off = float(departs[at, when])
                cells.append((int(peers[at]), when, off, peers))
                ps.append(student_t_p(off, noise**2, min(max(of // _EFFICIENCY, 1), _MOST_FREEDOM)) / 2)
    every = int(np.count_nonzero(~np.isnan(beyond)))
    slow: dict[int, list[tuple[int, float, float, Int64]]] = {}
    for (rank, when, by, peers), q in zip(cells, benjamini_hochberg([*ps, *[1.0] * (every - len(ps))]), strict=False):
        if q <= CHANCE and by >= PASSING * step:
            slow.setdefault(rank, []).append((when, by, q, peers))
    named = []
    for rank, found_steps in slow.items():
        whens, excesses, qs, (peers, *_) = zip(*found_steps, strict=True)
        excess, of = float(np.median(excesses)), int(np.count_nonzero(~np.isnan(beyond[rank])))
        last = int((fleet.own[rank, whens] >= np.nanmax(fleet.own[np.ix_(peers, whens)], axis=0)).sum())
        named.append(Straggler(rank, [*whens], of, last, len(peers), excess, 100 * excess / step, max(qs)))
    return sorted(named, key=lambda one: -one.excess * len(one.steps))


def _least_of_others(departs: Float64) -> Float64:
    """For each rank, as a column, how far any of the others departs towards less time at most."""
    least = -np.fmin(np.nanmin(departs, axis=1, initial=0.0), 0.0)
    second, first = np.sort(least)[-2:]
    column: Float64 = np.where(np.arange(len(least)) == least.argmax(), second, first)[:, None]
    return column


def _stages(fleet: Fleet) -> list[StageUse]:
    """The stages of the pipeline, where the recording tells of one."""
    uses = []
    for peers in fleet.peers():
        stage = fleet.ranks[peers[0]].stage if len(peers) else None
        if stage is None:
            continue
        span = fleet.times[SPAN, peers]
        compute, idle, exposed, between = fleet.times[[COMPUTED, IDLE, EXPOSED, BETWEEN_STAGES]][:, peers]
        compute, bubble, joint = (100 * part / span for part in (compute, idle + between, exposed - between))
        of_rank = medians(bubble.T)
        least, most = np.nanmin(of_rank), np.nanmax(of_rank)
        step, computes, bubbles, collectives = (float(np.nanmedian(of)) for of in (span, compute, bubble, joint))
        uses.append(StageUse(stage.number, len(peers), step, computes, bubbles, float(least), float(most), collectives))
    return uses


def best_bubble(fleet: Fleet) -> tuple[int, int, float] | None:
    """Stages, micro-batches, and the least bubble of a step in percent without interleaving, (p - 1) / (m + p - 1).

    None where micro-batches aren't known, or stages are interleaved.
    """
    stages = [one.stage for one in fleet.ranks if one.stage is not None]
    micro = Counter(one.micro for one in stages if one.micro is not None)
    if not micro or any(one.wraps for one in stages) or len({one.stages for one in stages}) > 1:
        return None
    [(count, often)] = micro.most_common(1)
    if 2 * often < len(stages):
        return None
    deep = stages[0].stages
    return deep, count, 100 * (deep - 1) / (count + deep - 1)


def _rows_of(
    tables: Iterable[RankTable], fleet: Fleet, kinds: Sequence[Int64], part: int, parts: int
) -> tuple[AnyArray, Int64]:
    """The collectives in a part of all ranks, with the kinds and steps of the fleet, and the places of their ranks."""
    at = {step: place for place, step in enumerate(fleet.steps)}
    records, ranks = [np.zeros(0, ROW)], [np.zeros(0, np.int64)]
    for place, table in enumerate(tables):
        rows = table.collectives()
        fleet.unnamed += int(np.count_nonzero(rows["key"] == 0)) if not part else 0
        rows = rows[(rows["key"] != 0) & (rows["key"] // np.uint64(2) % np.uint64(parts) == part)]
        # a recording without steps is one, unless others have steps
        steps = [-1 if fleet.steps else 0] if table.steps is None else [at[step] for step in table.steps]
        rows["step"] = np.array([*steps, -1])[rows["step"]]
        rows["kind"] = kinds[place][rows["kind"]]
        records.append(rows)
        ranks.append(np.full(len(rows), place))
    return np.concatenate(records), np.concatenate(ranks)


class _Joins:
    """Joins what several ranks do together, part by part."""

    def __init__(self, fleet: Fleet, kinds: Sequence[Kind]) -> None:
        self._fleet, self._kinds, self._ranks = fleet, kinds, fleet.ranks
        self._waits = np.array([kind.waits for kind in kinds], np.bool_)
        self._size = np.array([kind.ranks or 0 for kind in kinds], np.int64)
        self._factor = np.array(
            [factor_of("send" if kind.pair else kind.operation, kind.ranks) or 0.0 for kind in kinds]
        )
        self._to_all = np.array([kind.operation == "all_to_all" for kind in kinds], np.bool_)
        self._transfers: list[tuple[Int64, Int64, Float64]] = []
        self._load = np.zeros(len(fleet.ranks))
        self._exchanges = np.zeros((len(kinds), 3))  # how many, the sum of the greatest, the sum of the means
        self._group_of = np.full(len(fleet.ranks), -1, np.int64)

    def add(self, rows: AnyArray, rank: Int64) -> None:
        """Joins the rows of a part, which are of these ranks."""
        if not len(rows):
            return
        order = np.argsort(rows["key"], kind="stable")
        rows, rank = rows[order], rank[order]
        kind, step = rows["kind"], rows["step"]
        first = np.flatnonzero(group_start_mask([rows["key"]]))
        count = np.diff(np.append(first, len(rows)))
        shortest = np.minimum.reduceat(rows["dur"], first)
        self._fleet.joined += int(np.count_nonzero(count > 1))
        self._fleet.alone += int(np.count_nonzero(count == 1))
        self._fleet.incomplete += int(np.count_nonzero((count > 1) & (count < self._size[kind[first]])))
        waits = self._waits[kind] & (np.repeat(count, count) > 1) & (step >= 0)
        wait = np.where(waits, rows["dur"] - np.repeat(shortest, count), 0)
        hidden = rows["dur"] - rows["exposed"]
        np.add.at(self._fleet.waited, (rank[waits], step[waits]), np.maximum(wait - hidden, 0)[waits])
        self._add_transfers(rows, kind, first, count, shortest)
        self._add_experts(rows, rank, kind, first, count)

    def _add_transfers(self, rows: AnyArray, kind: Int64, first: Int64, count: Int64, shortest: Int64) -> None:
        size, most = (of.reduceat(rows["size"], first) for of in (np.minimum, np.maximum))
        rated = (count > 1) & (size > 0) & (size == most) & (shortest > 0) & (self._factor[kind[first]] > 0)
        received = [of.reduceat(rows["received"], first) for of in (np.minimum, np.maximum)]
        rated &= ~self._to_all[kind[first]] | (received[0] == received[1])  # what is dealt out unequally has no rate
        at = first[rated]
        bandwidth = 1e9 * size[rated] / shortest[rated] * self._factor[kind[at]]
        self._transfers.append((kind[at], size[rated], bandwidth))

    def _add_experts(self, rows: AnyArray, rank: Int64, kind: Int64, first: Int64, count: Int64) -> None:
        """Adds the exchanges between experts: tokens arrive at their ranks in one, and leave them in the next.

        In the first the ranks receive unequally, in the second they send so; the load is what is more unequal.
        """
        exchange = self._to_all[kind[first]] & (count == self._size[kind[first]])
        exchange &= np.minimum.reduceat(np.minimum(rows["sent"], rows["received"]), first) >= 0
        if not exchange.any():
            return
        sums, most = (
            np.stack([of.reduceat(rows[name], first).astype(np.float64) for name in ("sent", "received")])
            for of in (np.add, np.maximum)
        )
        uneven = most * count / np.maximum(sums, 1)
        which = (uneven[1] >= uneven[0]).astype(np.int64)
        at = np.flatnonzero(exchange)
        number = kind[first[at]]
        for column, values in enumerate((np.ones(len(at)), most[which[at], at], sums[which[at], at] / count[at])):
            np.add.at(self._exchanges[:, column], number, values)
        inside = np.repeat(exchange, count)
        received = np.repeat(which, count)[inside] == 1
        load = np.where(received, rows["received"][inside], rows["sent"][inside])
        np.add.at(self._load, rank[inside], load)
        self._group_of[rank[inside]] = kind[inside]

    def experts(self) -> list[ExpertUse]:
        """The groups of experts, the least balanced first."""
        uses = []
        for number in np.flatnonzero(self._exchanges[:, 0]).tolist():
            count, most, mean = self._exchanges[number]
            here = np.flatnonzero(self._group_of == number)
            if not mean or not len(here):
                continue
            kind, load = self._kinds[number], self._load[here]
            share = 100 * float(load.max() / load.sum())
            busiest = self._ranks[int(here[load.argmax()])]
            uses.append(ExpertUse(
                kind.group, kind.members, int(count), int(load.sum()), most / mean, busiest, share, 100 / len(here)
            ))  # fmt: skip
        return sorted(uses, key=lambda one: -one.factor)

    def links(self) -> list[LinkUse]:
        """The groups and pairs whose bandwidth is known, those first that are slowest beside others alike."""
        if not self._transfers:
            return []
        kind, size, bandwidth = (np.concatenate(column) for column in zip(*self._transfers, strict=True))
        classes: dict[tuple[str, int, int], list[int]] = {}
        order = np.lexsort((size, kind))
        kind, size, bandwidth = kind[order], size[order], bandwidth[order]
        first = np.flatnonzero(group_start_mask([kind, size]))
        last = np.append(first[1:], len(kind))
        for at, place in enumerate(first.tolist()):
            one = self._kinds[kind[place]]
            classes.setdefault((one.operation, one.ranks or 0, int(size[place])), []).append(at)
        hosts = {one.rank: one.host for one in self._fleet.ranks if one.rank is not None and one.host}
        uses: list[LinkUse] = []
        ps: list[float] = []
        for alike in classes.values():
            every = np.concatenate([bandwidth[first[at] : last[at]] for at in alike])
            usual, low = (float(value) for value in np.percentile(every, (50, 25)))
            for at in alike:
                rates = bandwidth[first[at] : last[at]]
                one, moved = self._kinds[kind[first[at]]], float(size[first[at]] * self._factor[kind[first[at]]])
                members = f"{one.pair[0]} to {one.pair[1]}" if one.pair else one.members
                lost = 1e9 * moved * float((1 / rates - 1 / usual).sum())
                ps.append(_binomial(int((rates < low).sum()), len(rates), 0.25))
                uses.append(LinkUse(
                    one.operation, int(size[first[at]]), one.group, members,  _hosts(one, hosts), len(rates),
                    float(np.median(rates)), usual, len(alike), lost, 1.0 if len(alike) >= _ALIKE else None,
                ))  # fmt: skip
        qs = benjamini_hochberg(ps)
        judged = [one if one.q is None else one._replace(q=q) for one, q in zip(uses, qs, strict=True)]
        return sorted(judged, key=lambda one: one.bandwidth / one.usual)


def _hosts(kind: Kind, hosts: dict[int, str]) -> str:
    members = kind.pair or members_of(kind.members) or ()
    names = list(dict.fromkeys(hosts[rank] for rank in members if rank in hosts))
    return ", ".join(names) if len(names) <= 3 else f"{len(names):,} hosts, {names[0]} to {names[-1]}"
