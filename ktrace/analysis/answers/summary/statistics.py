"""Makes groups from tables of statistics, for sources that have no device activities.

kernel   gemm    run a   table 0   total 30 ms   ──►   gemm 30 ms, as in the source
kernel   gemm    run a   table 1   total 30 ms         left out: repeats another table
metric   occupancy, parent gemm                        left out: no time
total    TOTAL   run a   table 0   total 42 ms         left out: sum of the others
op       aten::mm   count 12                           counted if nothing of the source has a time or a share
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ktrace.analysis.questions.checks.examine import NEARLY_ALL
from ktrace.analysis.work.gather import SELF_ON_DEVICE
from ktrace.analysis.work.groups import Group
from ktrace.model.batch import DEVICE_KINDS

Row = dict[str, Any]

#: Titles of tables that divide the kernels of another table differently: by range, by launch, by grid.
_DIVIDED = re.compile(r"nvtx_(?:gpu_proj|kern)_sum|nvtxkernsum|kern_exec_sum|kernexecsum|kern_gb_sum|kerngbsum|gpu_sum")

#: PyTorch's operators that multiply matrices; their names don't say so as those of kernels do.
PRODUCTS = re.compile(r"aten::_?(scaled_mm|(add|b|badd|addb)?mm|matmul|linear|addmv|mv|dot|einsum)")


class Statistic(msgspec.Struct, frozen=True):
    """A row of statistics: `total` in `unit`: ns; cycle, % or count if the source has only cycles, shares or counts."""

    row: Row
    total: float
    unit: str = "ns"

    def group(self, key: str) -> Group:
        """The statistic as a group."""
        row, figure = self.row, self.row.get
        if self.unit in ("%", "count"):
            return Group(key, self.total, name=row["name"])
        count = figure("count")
        average = figure("avg", self.total / count if count else None)
        figures = {name: figure(name) for name in ("median", "p95", "p99", "min", "max")}
        return Group(key, self.total, count, average, name=row["name"], **figures)


class Statistics(msgspec.Struct):
    """The statistics of a source that add up: of a `device`, or of the host; and counts of rows that don't.

    `stated` is what the source states as the total of all, in ns: its tables may show only some of that, or parts
    within others. If it states shares alone, it is what these are of, as far as their decimals say: `by_shares`.
    """

    found: list[Statistic]
    device: bool
    repeated: int = 0
    without: int = 0
    stated: float | None = None
    by_shares: bool = False


def statistics(rows: Iterable[Row]) -> Statistics:
    """The rows of one source that add up: device work, or what the host did if there is none."""
    totals, rows = _without_totals(list(rows))
    own_times = _own_on_devices(rows)
    rows = [row for row in rows if row["kind"] != "metric"]
    device = [row for row in rows if row["kind"] in DEVICE_KINDS]
    chosen = device or rows
    timed = [row for row in chosen if row["metric"] == "duration" and row.get("unit", "ns") == "ns"]
    timed = _outermost(timed)
    summed = [Statistic(row, total) for row in timed if (total := _total(row)) is not None]
    without = len(timed) - len(summed)
    if not summed:
        others = list(_cycles(chosen)) or list(_shares(chosen)) or list(_counts(chosen))
        return Statistics(others, bool(device), without=without)
    kept = list(_once(summed))
    stated = _stated(totals, kept, bool(device))
    of_own = _stated(totals, own_times, True) or _of_shares(own_times)
    if own_times and (not device or math.fsum(one.total for one in kept) < NEARLY_ALL * (stated or of_own or 0)):
        return Statistics(own_times, True, stated=of_own, by_shares=not totals.get("device"))
    of_shares = None if stated or totals or _lists_others(rows, kept) else _of_shares(kept)
    return Statistics(
        kept, bool(device), len(summed) - len(kept), without, stated or of_shares, by_shares=bool(of_shares)
    )


def _without_totals(rows: list[Row]) -> tuple[dict[str, list[Row]], list[Row]]:
    """The rows of totals, by what they are of: "device", "host" or "", and the others."""
    totals: dict[str, list[Row]] = {}
    for row in rows:
        if row["kind"] == "total" and row["metric"] == "duration" and row.get("unit", "ns") == "ns":
            name = row["name"]
            of = "device" if SELF_ON_DEVICE.fullmatch(name) else "host" if name == "Self CPU time total" else ""
            totals.setdefault(of, []).append(row)
    return totals, [row for row in rows if row["kind"] != "total"]


def _own_on_devices(rows: list[Row]) -> list[Statistic]:
    """What operators themselves cost on devices, where a table has that beside their time on the host."""
    by_id = {row["id"]: row for row in rows}
    own_rows = []
    for row in rows:
        operator = by_id.get(row.get("parent"))
        if row["kind"] == "metric" and operator is not None and (total := _total(row)):
            own_figures = {"total": total, "avg": None, "percent": row.get("percent")}
            own_rows.append(
                Statistic(operator | {key: one for key, one in own_figures.items() if one is not None}, total)
            )
    return own_rows


def _stated(totals: dict[str, list[Row]], summed: list[Statistic], device: bool) -> float | None:
    """The one total that the only table of these statistics states, None where there are none or several."""
    rows = totals.get("device" if device else "host") or totals.get("") or []
    tables = {_table(one.row) for one in summed}
    titles = {one[1:] for one in tables}
    below_title = [row for row in rows if titles == {_table(row)[1:]}]
    stated = {total for row in below_title or rows if (total := _total(row))}
    total = stated.pop() if len(stated) == 1 and len(tables) == 1 else None
    return total if total is not None and total >= max((one.total for one in summed), default=0) else None


#: So many rows with a share say of what their table's shares are. Two do if these differ, are less than the whole, and
#: are known to this part of themselves, or are to each other as the times.
_FEWEST_SHARES, _KNOWN_TO = 3, 0.05


def _lists_others(rows: list[Row], kept: list[Statistic]) -> bool:
    """Whether the tables of these statistics have shares of what isn't device work, too, such as calls."""
    tables = {_table(one.row) for one in kept}
    kinds = {one.row["kind"] in DEVICE_KINDS for one in kept}
    return any(
        (row["kind"] in DEVICE_KINDS) not in kinds and "percent" in row and _table(row) in tables for row in rows
    )


def _table(row: Row) -> tuple[Any, ...]:
    """The table of a row, and of that the part with its title."""
    return row.get("table"), row.get("run"), tuple(row.get("scope") or ())


def _of_shares(summed: list[Statistic]) -> float | None:
    """What the shares of the only table are of, in ns, where its rows are less than that, or parts within others.

    None where a share isn't that of its row's time: another column is meant, or there are several sums.
    """
    tables = {(one.row.get("table"), one.row.get("run")) for one in summed}
    shares = [(one.row.get("percent"), one.total) for one in summed]
    pairs = [(share, time) for share, time in shares if share is not None and math.isfinite(share) and time >= 0]
    part = math.fsum(share for share, _ in pairs) / 100
    if len(tables) != 1 or len(pairs) < max(_FEWEST_SHARES - 1, len(summed)) or part <= 0:
        return None
    places = max(len(f"{share:.6f}".rstrip("0").partition(".")[2]) for share, _ in pairs)
    unsure = 10.0**-places / 100
    if (part > 1 and len(pairs) < _FEWEST_SHARES) or not _are_alike(pairs, unsure):
        return None
    whole = math.fsum(time for _, time in pairs) / part
    are_of_it = all(abs(share / 100 * whole - time) <= whole * unsure + time / 50 for share, time in pairs)
    return whole if are_of_it and abs(1 - part) > 1 - NEARLY_ALL + len(pairs) * unsure else None


def _are_alike(pairs: Sequence[tuple[float, float]], unsure: float) -> bool:
    """Whether shares and times are of the same: a chance for two rows with equal shares, or with few digits."""
    if len(pairs) >= _FEWEST_SHARES:
        return True
    (share, time), (other, other_time) = pairs
    is_known = unsure <= _KNOWN_TO * min(share, other) / 100
    return share != other and (is_known or math.isclose(share * other_time, other * time, rel_tol=_KNOWN_TO / 2))


def _outermost(rows: list[Row]) -> list[Row]:
    """The rows that aren't within others of these, whose figures include theirs."""
    ids = {row["id"] for row in rows}
    return [row for row in rows if row.get("parent") not in ids]


def _total(row: Row) -> float | None:
    """The total time of a row in ns, or its average if it has no count; None if it has no time.

    Of an average with a share and no count, the share is what adds up.
    """
    if "total" in row:
        total = row["total"]
    elif "avg" in row and "count" not in row and "percent" in row:
        total = None
    elif "avg" in row:
        total = row["avg"] * row.get("count", 1)
    else:
        total = row.get("value")
    return total if total is not None and math.isfinite(total) and total >= 0 else None


def _once(summed: list[Statistic]) -> Iterator[Statistic]:
    """Yields the statistics without those in tables that divide the work of others, or repeat those of another title.

    A table repeats others if all of its rows that these have, too, have the same figures; one that differs in a row was
    measured anew. A table with a time describes that time, and doesn't repeat others.
    """
    runs: defaultdict[Any, list[Statistic]] = defaultdict(list)
    for one in summed:
        runs[one.row.get("run")].append(one)
    for of_run in runs.values():
        tables: defaultdict[_TableKey, list[Statistic]] = defaultdict(list)
        for one in _undivided(of_run):
            tables[one.row.get("table"), _title(one)].append(one)
        seen: defaultdict[Any, dict[_TableKey, set[Any]]] = defaultdict(dict)  # what is counted -> its figures by table
        for table, rows in tables.items():
            counted = {id(one): one for one in rows if "ts" not in one.row and one.row.get("count") is not None}
            same = {
                key: _figures(one) in figures
                for key, one in counted.items()
                if (figures := _of_others(table, seen[_counted(one)]))
            }
            yield from rows if not all(same.values()) else (one for one in rows if id(one) not in same)
            for one in counted.values():
                seen[_counted(one)].setdefault(table, set()).add(_figures(one))


#: The number and the title of a table.
_TableKey = tuple[Any, str]


def _of_others(table: _TableKey, by_table: dict[_TableKey, set[Any]]) -> set[Any]:
    """The figures in tables that are neither this one nor have its title."""
    number, title = table
    others = (
        figures for (other, name), figures in by_table.items() if name != title and (number is None or other != number)
    )
    return set().union(*others)


def _counted(one: Statistic) -> tuple[Any, ...]:
    return one.row["kind"], one.row["name"], one.row.get("device")


def _figures(one: Statistic) -> tuple[Any, ...]:
    return one.row.get("count"), one.total


def _undivided(summed: list[Statistic]) -> list[Statistic]:
    """The statistics without tables that divide the work of others; if there are only such tables, the first one."""
    whole = [one for one in summed if "ts" in one.row or not _DIVIDED.search(_title(one))]
    kinds = {one.row["kind"] for one in whole}
    divided = [one for one in summed if one.row["kind"] not in kinds]
    return whole + [one for one in divided if _title(one) == _title(divided[0])]


def _title(one: Statistic) -> str:
    return " › ".join(one.row.get("scope") or ())


def _cycles(rows: list[Row]) -> Iterator[Statistic]:
    """The cycles of a source without times, but those that are within others."""
    outermost = _outermost([row for row in rows if row["metric"] == "cycles" and row.get("unit") == "cycle"])
    return (Statistic(row, total, "cycle") for row in outermost if (total := _total(row)) is not None)


def _shares(rows: list[Row]) -> Iterator[Statistic]:
    """The greatest share of each name without a time: several metrics of it repeat the share."""
    most: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        share = row.get("percent")
        if share is not None and math.isfinite(share):
            identity = (row.get("run"), row["kind"], row["name"])
            if identity not in most or share > most[identity]["percent"]:
                most[identity] = row
    return (Statistic(row, row["percent"], "%") for row in most.values())


def _counts(rows: list[Row]) -> Iterator[Statistic]:
    """The counts of a source that has nothing else, such as an execution trace."""
    return (Statistic(row, float(row["count"]), "count") for row in rows if row["metric"] == "count" and "count" in row)


#: Units of totals, the first one that there is decides: what a row has, and what a source has only.
_SINGULARS = {"ns": "a time", "cycle": "cycles", "%": "a share", "count": "a count"}
PLURALS = {"ns": "times", "cycle": "cycles", "%": "shares", "count": "counts"}


def in_one_unit(summed: list[Statistic], *, timed: bool) -> tuple[str, list[Statistic], dict[str, int]]:
    """The unit of totals (ns if something else is `timed`), the statistics in it, how many others have what."""
    units = [unit for unit in PLURALS if (unit == "ns" and timed) or any(one.unit == unit for one in summed)]
    unit, *others = units or ["ns"]
    no = _SINGULARS[unit].removeprefix("a ")
    left = {f"with {_SINGULARS[other]}, but no {no}": sum(one.unit == other for one in summed) for other in others}
    return unit, [one for one in summed if one.unit == unit], left


def grouped(summed: Iterable[Statistic], key: Callable[[Row], str]) -> list[Group]:
    """Groups of statistics by the `key` of their rows, heaviest first."""
    groups: dict[str, Group] = {}
    for one in summed:
        group = one.group(key(one.row))
        groups[group.key] = joined(groups[group.key], group) if group.key in groups else group
    return sorted(groups.values(), key=lambda group: -group.total)


def joined(one: Group, other: Group) -> Group:
    """Two groups as one. A figure that isn't known for both isn't known for the result; medians can't be combined."""
    total = one.total + other.total
    count = None if one.count is None or other.count is None else one.count + other.count
    return replace(
        one,
        total=total,
        count=count,
        average=total / count if count else None,
        median=None,
        p95=None,
        p99=None,
        min=_both(min, one.min, other.min),
        max=_both(max, one.max, other.max),
        name=one.name if one.name == other.name else None,
        durations=None,
        in_steps=None,
        inside=None,
        places=None,
    )


def _both(what: Callable[[float, float], float], one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else what(one, other)


def merged(one: list[Group], other: list[Group]) -> list[Group]:
    """Groups of events and statistics; groups with the same key become one; heaviest first."""
    if not one or not other:
        return one or other
    groups = {group.key: group for group in one}
    for group in other:
        groups[group.key] = joined(groups[group.key], group) if group.key in groups else group
    return sorted(groups.values(), key=lambda group: -group.total)
