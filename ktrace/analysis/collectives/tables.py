"""The tables of collectives and of stragglers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktrace.tables.figures import percent, size
from ktrace.tables.table import Cell, Column, Table

if TYPE_CHECKING:
    from ktrace.analysis.collectives.model import CollectivesAnswer, CollectiveUse, RankUse
    from ktrace.analysis.work.model import Spread


def tables(answer: CollectivesAnswer, top: int | None = None, *, brief: bool = False) -> list[Table]:
    """The table of collectives, and of several ranks the table of stragglers, the one most waited for first."""
    found = [_collectives(answer, top, brief)]
    if len(answer.ranks) > 1:
        found.append(_stragglers(answer, top, brief))
    return found


def _collectives(answer: CollectivesAnswer, top: int | None, brief: bool) -> Table:
    uses = answer.collectives[:top]
    columns = _BRIEF if brief else _FULL
    rows = [_brief(use) if brief else _full(use) for use in uses]
    return _shown("collective", "collectives", columns, rows, answer.notes, len(answer.collectives) - len(rows), brief)


#: In brief what decides comes first: a terminal shows the rest below.
_BRIEF = (
    *(Column("collective"), Column("group"), Column("busbw", "B/s"), Column("skew", "ns"), Column("last")),
    *(Column("count", "count"), Column("ranks", "count"), Column("median", "ns"), Column("p95", "ns")),
    *(Column("transfer", "ns"), Column("algbw", "B/s"), Column("skew p95", "ns")),
)

_FULL = (
    *(Column("collective"), Column("group"), Column("ranks", "count")),
    *(Column("smallest", "B"), Column("largest", "B"), Column("count", "count"), Column("rows", "count")),
    *(Column("time", "ns"), Column("median", "ns"), Column("p95", "ns"), Column("transfer", "ns")),
    *(Column("algbw", "B/s"), Column("busbw", "B/s"), Column("matched", "count")),
    *(Column("skew", "ns"), Column("skew p95", "ns"), Column("skew max", "ns")),
    *(Column("last"), Column("last", "%")),
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
    columns = [Column("rank"), Column("last", "count"), Column("last", "%")]
    columns += [Column("others waited", "ns"), Column("each median", "ns"), Column("each max", "ns")]
    columns += [Column("waited", "ns")]
    columns += [] if brief else [Column("own median", "ns"), Column("own max", "ns"), Column("matched", "count")]
    columns += [Column("communication", "ns"), Column("exposed", "ns"), Column("compute", "ns"), Column("busy", "ns")]
    columns += [] if brief else [Column("span", "ns"), Column("source")]
    rows = [_rank(one, brief) for one in ranks[:top]]
    title = "ranks, and who waits for whom" if any(one.last is not None for one in ranks) else "ranks"
    return _shown("straggler", title, columns, rows, [], len(ranks) - len(rows), brief)


def _rank(one: RankUse, brief: bool) -> tuple[Cell, ...]:
    others, mine = one.others_waited, one.waited
    median, _, most = _figures(others)
    nothing = None if one.last is None else 0
    cells: list[Cell] = [one.label, one.last, None if one.last is None else percent(one.last, one.joint)]
    cells += [others.total if others else nothing, median, most, mine.total if mine else None]
    if not brief:
        own, _, longest = _figures(mine)
        cells += [own, longest, one.joint]
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
