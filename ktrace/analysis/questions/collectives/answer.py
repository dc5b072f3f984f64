"""The tables of collectives and of stragglers.

Collectives and the ranks that take part, as figures. All times are ns, bandwidths bytes per second.

CollectivesAnswer
  collectives   CollectiveUse("all_reduce", group "0", ranks 8, size 4 MiB, count 120, bus bandwidth, skew, last "3")
  ranks         RankUse("3", last 78 times, others waited 41 ms for it, it waited 2 ms)
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktrace.analysis.questions.collectives.hang import Hang
from ktrace.analysis.work.findings import Evidence
from ktrace.analysis.work.groups import Spread
from ktrace.tables import Cell, Column, Table, percent, size


class CollectiveUse(msgspec.Struct, frozen=True):
    """Collectives of one operation, group and size, or class of sizes from `smallest` to `largest` bytes.

    `ranks` is the size of the group, `group` is "" if it isn't known. `count` counts what several ranks do together
    once, `rows` on each rank; `total`, `median` and `p95` are durations on each rank. `joint` is the number of those
    found on several ranks, `transfer` is the shortest duration over the ranks of those at which ranks wait for each
    other: that of the rank that waits least. `algorithm_bandwidth` is the median of bytes per time of the transfer,
    else of the duration; `bus_bandwidth` that times the factor of nccl-tests. `skew` is the time from the first to the
    last start, `last` the rank that most often begins last, `last_share` how often, in percent of `joint`. What isn't
    known is None.
    """

    operation: str
    group: str
    ranks: int | None
    smallest: int | None
    largest: int | None
    count: int
    rows: int
    total: int
    median: float
    p95: float
    joint: int = 0
    transfer: Spread | None = None
    algorithm_bandwidth: float | None = None
    bus_bandwidth: float | None = None
    skew: Spread | None = None
    last: str | None = None
    last_share: float | None = None


class RankUse(msgspec.Struct, frozen=True):
    """What a rank did, and how long it and the others waited for each other.

    `joint` is the number of its collectives that were found on other ranks, too, and at which ranks wait for each
    other. In `last` of these it began last. `others_waited` are the times that each other rank waited for it then,
    `waited` the times that it waited for the last one itself. They are None without a common clock. `span`, `busy`,
    `compute`, `communication` and `exposed_communication` are those of `DeviceUse`, None if only calls are known.
    """

    label: str
    source: str
    device: int | None
    rank: int | None
    joint: int
    last: int | None = None
    others_waited: Spread | None = None
    waited: Spread | None = None
    span: int | None = None
    busy: int | None = None
    compute: int | None = None
    communication: int | None = None
    exposed_communication: int | None = None


class LatePart(msgspec.Struct, frozen=True):
    """The steps from `first` to `last` in which a rank is late, what it did in them, and how steadily it is late.

    `unit` is step, or collective where nothing tells of steps.
    """

    rank: RankUse
    unit: str
    first: int
    last: int
    steady: float | None


class CollectivesAnswer(msgspec.Struct):
    """The collectives of a trace.

    `clocks` is how the clocks of the ranks were aligned: "one" (there is only one), "unix", "collective" (by the ends
    of collectives), or "unknown": then nothing is known about skew and waiting. `ends` is the median of how much the
    ends of the same collective differ between ranks: a smaller skew may be a difference of the clocks. `joint` is the
    number of collectives found on several ranks, `alone` the number of rows without a counterpart. `steady`
    is how steadily the straggler is late, `late` are the collectives of its own that others waited longest for. `hangs`
    are the collectives that don't end. `part` are the steps in which the straggler is late, if it isn't in the others.
    `late_together` are ranks all of which are late, if one of them is last in nearly each collective, and `as_late`
    tells that another rank is nearly as late as the straggler wherever that is last.
    """

    collectives: list[CollectiveUse] = msgspec.field(default_factory=list)
    ranks: list[RankUse] = msgspec.field(default_factory=list)
    clocks: str = "one"
    ends: float | None = None
    joint: int = 0
    alone: int = 0
    notes: list[str] = msgspec.field(default_factory=list)
    steady: float | None = None
    late: list[Evidence] = msgspec.field(default_factory=list)
    hangs: list[Hang] = msgspec.field(default_factory=list)
    part: LatePart | None = None
    late_together: tuple[str, ...] = ()
    as_late: bool = False

    @property
    def straggler(self) -> RankUse | None:
        """The rank that others waited longest for; None if no one waited, or nothing is known about it."""
        timed = [rank for rank in self.ranks if rank.others_waited is not None]
        return max(timed, key=lambda rank: rank.others_waited.total if rank.others_waited else 0, default=None)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The table of collectives with at most `top` rows, and of several ranks the table of stragglers."""

        return tables(self, top, brief=brief)


def tables(answer: CollectivesAnswer, top: int | None = None, *, brief: bool = False) -> list[Table]:
    """The table of collectives, and of several ranks the table of stragglers, the one most waited for first."""
    uses = answer.collectives[:top]
    columns = _BRIEF if brief else _FULL
    rows = [_brief(use) if brief else _full(use) for use in uses]
    shown = [
        _shown("collective", "collectives", columns, rows, answer.notes, len(answer.collectives) - len(rows), brief)
    ]
    if len(answer.ranks) > 1:
        shown.append(_stragglers(answer, top, brief))
    return shown


#: In brief what decides comes first: a terminal shows the rest below.
_BRIEF = (
    *(Column("collective"), Column("group"), Column("busbw", "B/s"), Column("skew", "ns")),
    *(Column("last", title="last rank"), Column("count", "count"), Column("ranks", "count")),
    *(Column("median", "ns"), Column("p95", "ns"), Column("transfer", "ns")),
    *(Column("algbw", "B/s"), Column("skew p95", "ns")),
)

_FULL = (
    *(Column("collective"), Column("group"), Column("ranks", "count")),
    *(Column("smallest", "B"), Column("largest", "B"), Column("count", "count"), Column("rows", "count")),
    *(Column("time", "ns"), Column("median", "ns"), Column("p95", "ns"), Column("transfer", "ns")),
    *(Column("algbw", "B/s"), Column("busbw", "B/s"), Column("matched", "count")),
    *(Column("skew", "ns"), Column("skew p95", "ns"), Column("skew max", "ns")),
    *(Column("last", title="last rank"), Column("last", "%", title="of them")),
)


def _brief(use: CollectiveUse) -> tuple[Cell, ...]:
    skew, p95, _ = _figures(use.skew)
    name = " ".join(filter(None, (use.operation, _sizes(use))))
    last = None if use.last is None or use.last_share is None else f"{use.last} ({use.last_share:.0f}%)"
    transfer = use.transfer.median if use.transfer else None
    first = (name, use.group, use.bus_bandwidth, skew, last, use.count, use.ranks)
    return (*first, use.median, use.p95, transfer, use.algorithm_bandwidth, p95)


def _full(use: CollectiveUse) -> tuple[Cell, ...]:
    transfer = use.transfer.median if use.transfer else None
    sizes = use.operation, use.group, use.ranks, use.smallest, use.largest, use.count, use.rows
    times = use.total, use.median, use.p95, transfer, use.algorithm_bandwidth, use.bus_bandwidth
    return (*sizes, *times, use.joint, *_figures(use.skew), use.last, use.last_share)


def _sizes(use: CollectiveUse) -> str:
    if use.smallest is None or use.largest is None:
        return ""
    return size(use.smallest) if use.smallest == use.largest else f"{size(use.smallest)} to {size(use.largest)}"


def _figures(times: Spread | None) -> tuple[Cell, Cell, Cell]:
    return (None, None, None) if times is None else (times.median, times.p95, times.max)


def _stragglers(answer: CollectivesAnswer, top: int | None, brief: bool) -> Table:
    """A row for each rank."""
    ranks = answer.ranks
    if brief and top is not None and len(ranks) > top:
        ranks = sorted(ranks, key=lambda one: -(one.others_waited.total if one.others_waited else 0))
    columns = [Column("rank"), Column("last", "count", title="last in"), Column("last", "%", title="of all")]
    columns += [Column("others waited", "ns"), Column("each median", "ns"), Column("each max", "ns")]
    columns += [Column("waited", "ns")]
    columns += [] if brief else [Column("own median", "ns"), Column("own max", "ns"), Column("matched", "count")]
    columns += [Column("communication", "ns"), Column("exposed", "ns"), Column("compute", "ns"), Column("busy", "ns")]
    columns += [] if brief else [Column("span", "ns"), Column("source")]
    rows = [_rank(one, brief) for one in ranks[:top]]
    title = "ranks, and who waits for whom" if any(one.last is not None for one in ranks) else "ranks"
    return _shown("straggler", title, columns, rows, [], len(ranks) - len(rows), brief)


def _rank(one: RankUse, brief: bool) -> tuple[Cell, ...]:
    others, waited = one.others_waited, one.waited
    median, _, most = _figures(others)
    nothing = None if one.last is None else 0
    cells: list[Cell] = [one.label, one.last, None if one.last is None else percent(one.last, one.joint)]
    cells += [others.total if others else nothing, median, most, waited.total if waited else None]
    if not brief:
        total, _, longest = _figures(waited)
        cells += [total, longest, one.joint]
    cells += [one.communication, one.exposed_communication, one.compute, one.busy]
    return tuple(cells) if brief else (*cells, one.span, one.source)


def _shown(
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: list[tuple[Cell, ...]],
    notes: list[str],
    more: int,
    brief: bool,
) -> Table:
    """The table; in brief without columns that are empty in all rows."""
    kept = [place for place in range(len(columns)) if not brief or any(row[place] not in (None, "") for row in rows)]
    cells = [tuple(row[place] for place in kept) for row in rows]
    return Table(name, title, tuple(columns[place] for place in kept), cells, list(notes), more)
