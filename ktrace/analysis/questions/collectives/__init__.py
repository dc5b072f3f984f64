"""What collectives do: sizes, bandwidths, skew of arrival, and which ranks the others wait for.

batches ──► rows ──► found ──► the question of `ktrace summary --by collective` ──► answer

hang     collectives that don't end, and the ranks that never entered them
rows     the collectives among the events, with what their arguments and NCCL's own ranges state, such as bytes
found    the collectives of all ranks as columns, in one clock; the same one on several ranks
stretch  the steps in a row in which a rank is late, where it isn't throughout
answer   the answer and its tables
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import structs

from ktrace.analysis.questions.collectives.answer import CollectivesAnswer, CollectiveUse, LatePart, RankUse
from ktrace.analysis.questions.collectives.found import (
    Clocks,
    CollectiveKind,
    CollectiveTable,
    Rank,
    extremes,
    match,
)
from ktrace.analysis.questions.collectives.hang import Entered
from ktrace.analysis.questions.collectives.rows import COLUMNS as COLUMNS
from ktrace.analysis.questions.collectives.rows import UNKNOWN, CollectiveRows, factor_of
from ktrace.analysis.questions.collectives.stretch import stretch_of
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.durations import by_group, percentiles, spread
from ktrace.analysis.work.findings import Evidence, longest
from ktrace.analysis.work.question import Answer, Labels, Question
from ktrace.model.arrays import Bools, Float64, Int32, Int64
from ktrace.model.batch import Batch
from ktrace.model.tracks import natural
from ktrace.report import counted
from ktrace.store import Spill
from ktrace.store.joins import combined, distinct
from ktrace.tables import brief


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The question what collectives do."""
    return CollectivesQuestion(spill)


def _matching(answer: CollectivesAnswer, table: CollectiveTable, parted: int) -> Iterator[str]:
    if table.unfinished:
        yield f"Not counted: {table.unfinished:,} without an end."
    if len(table.ranks) == 1:
        yield "One rank alone: who waits for whom needs the files of the others, too."
        return
    if not answer.joint:
        yield "No collective was found on several ranks."
    elif answer.alone:
        yield f"{counted(answer.alone, 'row')} without a counterpart on another rank, and so without a skew."
    if table.confused:
        yield f"{table.confused:,} have the same number on several ranks, but another operation: they aren't matched."
    if parted:
        yield f"{parted:,} rows don't overlap in time with their counterparts: they aren't matched."
    if table.way and answer.joint:
        how = "times, as ranks lack some" if table.by_time else "position on each rank"
        yield f"There are no sequence numbers: collectives are matched by their {how}."
    sizes = [kind.ranks for kind in table.kinds if kind.ranks and kind.joint]
    if answer.joint and max(sizes, default=0) > len(table.ranks):
        yield f"Groups have up to {max(sizes):,} ranks, of which {len(table.ranks):,} are here: others may come later."


def _clocks(answer: CollectivesAnswer, clocks: Clocks) -> Iterator[str]:
    if not answer.joint:
        return
    if clocks.rule == "unknown":
        yield "Skew isn't known: the clocks of the ranks can't be related."
        return
    if clocks.rule == "unix":
        yield "Clocks are aligned by unix time."
    elif clocks.rule == "collective":
        yield "Clocks are aligned by the ends of collectives" + (
            f", which agree better than unix time: {clocks.source} moves by {brief(clocks.moved)}."
            if clocks.source
            else ": nothing else relates them."
        )
    skews = [use.skew.median for use in answer.collectives if use.skew is not None]
    if clocks.ends and skews and clocks.rule != "one":
        below = sum(skew < clocks.ends for skew in skews)
        lines = f"; {below:,} of {len(skews):,} lines are below it" if below else ""
        ends = f"{brief(clocks.ends)}, by which ends differ,"
        yield f"Skew below {ends} can't be told from the error of the clocks{lines}."


def _bandwidths(answer: CollectivesAnswer, table: CollectiveTable) -> Iterator[str]:
    if table.of_calls:
        yield "Times are those of calls on the host, not of transfers: there is no bandwidth."
    sized = table.of_kinds([kind.operation != "barrier" for kind in table.kinds])
    unknown = int(np.count_nonzero((table.size < 0) & sized))
    if unknown and not table.of_calls:
        yield f"Without a known size, and so without bandwidth: {unknown:,} of {len(table):,} rows."
    if any(use.algorithm_bandwidth is not None and use.bus_bandwidth is None for use in answer.collectives):
        yield "Bus bandwidth needs the number of ranks in the group, which isn't known everywhere."
    rated = [use for use in answer.collectives if use.algorithm_bandwidth is not None]
    if any(use.transfer is None or use.joint < use.count for use in rated):
        yield "Bandwidth without a known time of transfer is a lower bound: durations include waiting."


#: The name of the question, as `--by` takes it.
NAME = "collective"

#: The parts of a run that must agree on who is late.
_PARTS = 4

#: So many ranks at most are late together, each as steadily as this (in standard errors), and last in this part of all.
_TOGETHER, _STEADILY, _NEARLY_ALL = 4, 8.0, 0.95

#: Another rank is as late if it waits less than this part of what the first one does, who waits longest.
_AS_LATE = 0.25

#: More sizes of one operation and group become classes, each four times as large as the one before.
_SIZES = 8


class CollectivesQuestion:
    """The question what collectives do."""

    spans = False

    def __init__(self, spill: Spill, user: str = "") -> None:
        """`user` is another question that asks this one for itself, so that both have files of their own."""
        self._rows = CollectiveRows(spill, user)
        self._entered = Entered()

    def see(self, batch: Batch) -> None:
        """Collects the collectives of a batch."""
        if batch.record in ("events", "summaries") and len(batch):
            self._entered.see(batch)
        if batch.record == "events" and len(batch):
            self._rows.add(batch)

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answer, if there are collectives with an end, or that ranks wait in."""
        hangs = self._entered.hangs(labels, work.gathered.catalog)
        if (matched := match(self._rows, work)) is None:
            return {NAME: CollectivesAnswer(hangs=hangs)} if hangs else {}
        table, clocks, parted = matched
        arrivals = _arrivals(table, clocks)
        names = _names(table.ranks, labels)
        sized = _sized(table)
        answer = CollectivesAnswer(
            _collectives(table, arrivals, names, *sized),
            _ranks(table, arrivals, names, work, labels),
            clocks.rule,
            clocks.ends,
            arrivals.joint,
            int(np.count_nonzero((table.joint < 0) & table.of_kinds([kind.joint for kind in table.kinds]))),
        )
        answer.hangs = hangs
        answer.notes += [*_matching(answer, table, parted), *_clocks(answer, clocks), *_bandwidths(answer, table)]
        if (late := answer.straggler) is not None:
            rank = names.index(late.label)
            rows, late_by = _lateness(table, arrivals, rank)
            answer.steady, answer.late = _steadiness(late_by), _late(table, arrivals, rank)
            answer.part = _late_part(table, arrivals, late, rows, late_by, work)
            answer.late_together = _late_together(table, arrivals, names)
            answer.as_late = _is_another_as_late(table, arrivals, rank)
        return {NAME: answer}

    def waits(self, work: Work) -> dict[str, tuple[Int64, Int64]]:
        """How long each collective waited for the last rank to begin, ns, by source: ids in their order, and times.

        Only of those that several ranks do together, and only where something relates the clocks of the ranks.
        """
        matched = match(self._rows, work)
        if matched is None or matched.table.of_calls:
            return {}
        table, arrivals = matched.table, _arrivals(matched.table, matched.clocks)
        if arrivals.wait is None:
            return {}
        wait, rows = np.minimum(arrivals.wait, table.dur), np.flatnonzero(arrivals.waits)
        rows = rows[np.argsort(table.id[rows])]
        waits = {}
        for source in dict.fromkeys(rank.source for rank in table.ranks):
            is_there = np.array([rank.source == source for rank in table.ranks], np.bool_)
            of_source = rows[is_there[table.rank[rows]]]
            waits[source] = table.id[of_source], wait[of_source]
        return waits


class _Arrivals(NamedTuple):
    """The skew of what several ranks do together, the rank that begins last, and the wait of each row for it.

    `joint` is their number, `waits` are the rows whose ranks wait for each other, `shortest` is the shortest duration.
    Skew, last and wait are None without a common clock; last is -1 where several begin last.
    """

    joint: int
    waits: Bools
    shortest: Int64
    skew: Int64 | None
    last: Int32 | None
    wait: Int64 | None


def _arrivals(table: CollectiveTable, clocks: Clocks) -> _Arrivals:
    there = table.joint >= 0
    count = int(table.joint.max(initial=UNKNOWN)) + 1
    waits = there & table.of_kinds([kind.waits for kind in table.kinds])
    shortest = np.zeros(count, np.int64)
    if count:
        shortest, _ = extremes(table.joint[there], table.dur[there])
    if clocks.rule == "unknown" or not count:
        return _Arrivals(count, waits, shortest, None, None, None)
    first, latest = extremes(table.joint[there], table.ts[there])
    rows = np.flatnonzero(there)
    rows = rows[table.ts[rows] == latest[table.joint[rows]]]
    last = np.full(count, UNKNOWN, np.int32)
    last[table.joint[rows]] = table.rank[rows]
    last[np.bincount(table.joint[rows], minlength=count) > 1] = UNKNOWN
    wait = np.where(there, latest[table.joint] - table.ts, 0)
    return _Arrivals(count, waits, shortest, latest - first, last, wait)


def _sized(table: CollectiveTable) -> tuple[Int64, Int64]:
    """The size of each row, that of all ranks together being the greatest, and the number of its class of sizes.

    Sizes are classes of their own, unless an operation of a group has many.
    """
    size = table.size.copy()
    there = table.joint >= 0
    if there.any():
        _, greatest = extremes(table.joint[there], size[there])
        size[there] = greatest[table.joint[there]]
    number = size.copy()
    sizes, place = np.unique(size, return_inverse=True)
    first, _ = distinct(*combined(((table.kind, len(table.kinds)), (place, len(sizes))), len(table)))
    many = np.bincount(table.kind[first], minlength=len(table.kinds)) > _SIZES
    classed = many[table.kind] & (size > 0)
    number[classed] = np.floor(np.log2(size[classed]) / 2).astype(np.int64)
    return size, number


def _collectives(
    table: CollectiveTable, arrivals: _Arrivals, names: list[str], size: Int64, number: Int64
) -> list[CollectiveUse]:
    """The figures of each operation, group and size, those that take the most time first."""
    numbers, place = np.unique(number, return_inverse=True)
    codes = combined(((table.kind, len(table.kinds)), (place, len(numbers))), len(table))
    first, group = distinct(*codes)
    rows_of = by_group(group.astype(np.int32), len(first))
    uses = [
        _use(table, arrivals, names, size, rows_of(at), table.kinds[table.kind[row]])
        for at, row in enumerate(first.tolist())
    ]
    return sorted(uses, key=lambda use: -use.total)


def _use(
    table: CollectiveTable, arrivals: _Arrivals, names: list[str], size: Int64, rows: Int64, kind: CollectiveKind
) -> CollectiveUse:
    """The figures of these rows."""
    rising = np.sort(table.dur[rows])
    median, p95 = percentiles(rising, (50, 95))
    joint, places = np.unique(table.joint[rows], return_index=True)
    places, joint = rows[places][joint >= 0], joint[joint >= 0]
    alone = rows[table.joint[rows] < 0]
    sizes = size[rows]
    are_sized = len(sizes) and int(sizes.min()) >= 0
    transfer = arrivals.shortest[joint] if kind.waits else np.zeros(0, np.int64)
    if kind.waits:
        bytes_ = np.concatenate([size[places], size[alone]])
        times = np.concatenate([transfer, table.dur[alone]])
    else:
        bytes_, times = sizes, table.dur[rows]
    moved = (bytes_ > 0) & (times > 0) & (not table.of_calls)
    bandwidth = float(np.median(bytes_[moved] / times[moved])) * 1e9 if moved.any() else None
    factor = factor_of(kind.operation, kind.ranks)
    last, share = _last(arrivals, joint, names)
    return CollectiveUse(
        kind.operation,
        kind.group,
        kind.ranks,
        int(sizes.min()) if are_sized else None,
        int(sizes.max()) if are_sized else None,
        len(joint) + len(alone),
        len(rows),
        int(rising.sum()),
        median,
        p95,
        len(joint),
        spread(transfer),
        bandwidth,
        None if bandwidth is None or factor is None else bandwidth * factor,
        None if arrivals.skew is None else spread(arrivals.skew[joint]),
        last,
        share,
    )


def _last(arrivals: _Arrivals, joint: Int64, names: list[str]) -> tuple[str | None, float | None]:
    """The rank that most often begins last, and how often, in percent."""
    if arrivals.last is None:
        return None, None
    late = arrivals.last[joint]
    if not np.any(late >= 0):
        return None, None
    counts = np.bincount(late[late >= 0])
    most = int(counts.argmax())
    return names[most], 100 * int(counts[most]) / len(joint)


def _ranks(table: CollectiveTable, arrivals: _Arrivals, names: list[str], work: Work, labels: Labels) -> list[RankUse]:
    """The figures of each rank."""
    devices = _devices(work)
    rows_of = by_group(table.rank, len(table.ranks))
    rows = np.flatnonzero(arrivals.waits)
    cause = np.zeros(0, np.int32) if arrivals.last is None else arrivals.last[table.joint[rows]]
    others = np.flatnonzero((cause >= 0) & (cause != table.rank[rows[: len(cause)]]))
    caused_by = by_group(cause[others], len(table.ranks))
    uses = []
    for number, (name, rank) in enumerate(zip(names, table.ranks, strict=True)):
        rank_rows = rows_of(number)
        waiting = rank_rows[arrivals.waits[rank_rows]]
        use = RankUse(name, rank.source, rank.device, labels.rank(rank.source), len(waiting))
        values = structs.asdict(use) | devices.get((rank.source, rank.host, rank.device), {})
        if arrivals.wait is not None and arrivals.last is not None and len(rows):
            caused = rows[others[caused_by(number)]]
            values |= {
                "last": int(np.count_nonzero(arrivals.last[table.joint[waiting]] == number)),
                "others_waited": spread(arrivals.wait[caused]),
                "waited": spread(arrivals.wait[waiting]),
            }
        uses.append(RankUse(**values))
    return sorted(uses, key=lambda use: natural(use.label))


def _lateness(table: CollectiveTable, arrivals: _Arrivals, rank: int) -> tuple[Int64, Float64]:
    """The rows of a rank that others take part in, by time, and how long after the median of the others it begins."""
    rows = np.flatnonzero(arrivals.waits & (table.rank == rank))
    rows = rows[np.argsort(table.ts[rows], kind="stable")]
    others = np.flatnonzero(arrivals.waits & (table.rank != rank))
    others = others[np.lexsort((table.ts[others], table.joint[others]))]
    low = np.searchsorted(table.joint[others], table.joint[rows])
    high = np.searchsorted(table.joint[others], table.joint[rows], "right")
    rows, low, high = rows[high > low], low[high > low], high[high > low]
    ts = table.ts[others]
    return rows, table.ts[rows] - (ts[(low + high - 1) // 2] + ts[(low + high) // 2]) / 2


def _steadiness(late: Float64) -> float | None:
    """How steadily a rank begins after the median of the others: the mean over parts of the run in standard errors.

    Collectives that follow each other aren't independent: a rank that is behind stays so until ranks wait for each
    other elsewhere. Long parts of a run nearly are.
    """
    if len(late) < _PARTS:
        return None
    means = np.array([part.mean() for part in np.array_split(late, _PARTS)])
    error = float(means.std(ddof=1)) / _PARTS**0.5
    return float(means.mean() / error) if error else float("inf")


def _late_together(table: CollectiveTable, arrivals: _Arrivals, names: list[str]) -> tuple[str, ...]:
    """The ranks, at most half of all, one of which is last in nearly each collective, where all of them are late."""
    if arrivals.last is None:
        return ()
    last = arrivals.last[np.unique(table.joint[np.flatnonzero(arrivals.waits)])]
    often = np.bincount(last[last >= 0], minlength=len(names))
    order = np.argsort(-often, kind="stable")[:_TOGETHER]
    late: dict[int, float] = {}
    for rank in order[often[order] > 0].tolist():
        _, late_by = _lateness(table, arrivals, rank)
        if (_steadiness(late_by) or 0.0) >= _STEADILY:
            late[rank] = float(late_by.mean())
    chosen = sorted(rank for rank, by in late.items() if 2 * by >= max(late.values()))
    is_told = 1 < len(chosen) <= len(names) // 2 and often[chosen].sum() >= _NEARLY_ALL * len(last)
    return tuple(names[rank] for rank in chosen) if is_told else ()


def _is_another_as_late(table: CollectiveTable, arrivals: _Arrivals, rank: int) -> bool:
    """Whether another rank begins nearly as late where this one is last, so that the others wait for both."""
    if arrivals.last is None or arrivals.skew is None or arrivals.wait is None:
        return False
    others = np.flatnonzero(arrivals.waits & (table.rank != rank))
    others = others[arrivals.last[table.joint[others]] == rank]
    joint = np.unique(table.joint[others])
    if not len(joint):
        return False
    least, _ = extremes(table.joint[others], arrivals.wait[others])
    return float(np.median(least[joint])) < _AS_LATE * float(np.median(arrivals.skew[joint]))


def _late_part(
    table: CollectiveTable, arrivals: _Arrivals, use: RankUse, rows: Int64, late: Float64, work: Work
) -> LatePart | None:
    """The steps in a row in which a rank is late, where it isn't throughout."""
    if arrivals.last is None or arrivals.wait is None or not len(rows):
        return None
    rank = int(table.rank[rows[0]])
    stretch = stretch_of(table, work, rows, late, arrivals.last[table.joint[rows]] == rank)
    if stretch is None:
        return None
    there = np.zeros(arrivals.joint, np.bool_)
    there[table.joint[stretch.rows]] = True
    last = there & (arrivals.last == rank)
    waits = arrivals.waits & (table.rank != rank)
    others = np.flatnonzero(waits)[last[table.joint[waits]]]
    part = structs.replace(
        use,
        joint=len(stretch.rows),
        last=int(last.sum()),
        others_waited=spread(arrivals.wait[others]),
        waited=spread(arrivals.wait[stretch.rows]),
    )
    steady = _steadiness(late[np.isin(rows, stretch.rows)])
    return LatePart(part, stretch.unit, stretch.first, stretch.last, steady)


def _late(table: CollectiveTable, arrivals: _Arrivals, rank: int) -> list[Evidence]:
    """The collectives at which this rank began last and the others waited longest: its own rows."""
    if arrivals.last is None or arrivals.skew is None:
        return []
    rows = np.flatnonzero(arrivals.waits & (table.rank == rank))
    rows = rows[arrivals.last[table.joint[rows]] == rank]
    waited, source = arrivals.skew[table.joint[rows]], table.ranks[rank].source
    return [
        Evidence(
            *(source, int(table.id[row]), table.kinds[table.kind[row]].operation),
            *(int(table.own[row]), int(table.own[row] + table.dur[row]), int(waited[place])),
        )
        for place in longest(waited)
        for row in rows[place : place + 1]
    ]


def _devices(work: Work) -> dict[tuple[str, str | None, int | None], dict[str, int]]:
    """The use of each device, by source, host and device."""
    if work.rows is not work.gathered.work:
        return {}
    uses = {}
    for events in work.each():
        for place, used, span in zip(events.places[1].tolist(), events.usages, events.spans.tolist(), strict=True):
            names = ("busy", "compute", "communication", "exposed_communication")
            uses[work.devices[place]] = {name: getattr(used, name) for name in names} | {"span": span}
    return uses


def _names(ranks: list[Rank], labels: Labels) -> list[str]:
    """The names of ranks: their number, else that of the device, with the process where that isn't enough."""
    numbers = [labels.rank(rank.source) for rank in ranks]
    if None not in numbers and len({*numbers}) == len(ranks):
        return [str(number) for number in numbers]
    names = [labels.device((rank.source, rank.host, rank.device)) for rank in ranks]
    if len({*names}) < len(names):
        names = [f"{name} pid {rank.pid}" for name, rank in zip(names, ranks, strict=True)]
    return names
