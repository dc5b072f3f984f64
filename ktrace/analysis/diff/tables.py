"""A comparison as tables: all figures for programs, the main ones for users.

by kernel, average per step
kernel         a         b     change  change   each  calls  spread  noise
softmax 1.200 ms  1.380 ms  +0.180 ms  +15.0% +15.0%      4    1.2%  clear
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktrace.analysis.work.figures import percentiles
from ktrace.tables.figures import percent
from ktrace.tables.table import Cell, Column, Table, prose

if TYPE_CHECKING:
    from ktrace.analysis.diff.model import Change, DeviceChange, Diff
    from ktrace.analysis.work.groups import Group

#: Ways of matching that the table doesn't mention.
_PLAIN = ("name", "short name", "")

#: Shown figures of a device: heading, attribute of `DeviceUse`.
_USE = (
    ("span", "span"),
    ("busy", "busy"),
    ("idle", "idle"),
    ("compute", "compute"),
    ("communication", "communication"),
    ("exposed communication", "exposed_communication"),
    ("copies", "copies"),
    ("exposed copies", "exposed_copies"),
)


def tables(diff: Diff, top: int | None, full: bool) -> list[Table]:
    """Returns tables of the whole, of each requested grouping (at most `top` rows), and of the devices."""
    first = [diff.whole, *diff.steps, *diff.times]
    of = ", average per step" if diff.per == "step" else ""
    found = [_changes("whole", f"a = {diff.name_a}, b = {diff.name_b}{of}", "work", diff, first, full, None)]
    found += [_changes(by, f"by {by}{of}", by, diff, rows, full, top) for by, rows in diff.rows.items()]
    if diff.devices:
        found.append(_devices(diff.devices))
    found[0].notes.extend(diff.notes)
    return [*prose("verdict", diff.verdict), *found]


def _changes(
    name: str, title: str, heading: str, diff: Diff, changes: Sequence[Change], full: bool, top: int | None
) -> Table:
    """Returns a table of changes; the short form leaves out rows without time on either side."""
    shown = [change for change in changes if full or change.total_a or change.total_b]
    cut = shown if top is None else shown[:top]
    whole = (diff.whole.total_a, diff.whole.total_b)
    if full:
        columns, rows = _full(heading, diff.unit), [_full_row(change, whole, diff.per == "step") for change in cut]
    else:
        columns, rows = _short(heading, diff.unit), [_short_row(change) for change in cut]
        if not any(change.matched not in _PLAIN for change in cut):
            columns, rows = columns[:-1], [row[:-1] for row in rows]
    return Table(name, title, columns, rows, more=len(shown) - len(cut))


def _short(heading: str, unit: str) -> tuple[Column, ...]:
    change = Column("change" if unit == "ns" else "points", unit, signed=True)
    return (
        Column(heading),
        Column("a", unit),
        Column("b", unit),
        change,
        Column("change", "%", signed=True),
        Column("each", "%", signed=True),
        Column("calls", "count"),
        Column("spread", "%"),
        Column("noise", decides="within noise"),
        Column("matched by"),
    )


def _short_row(change: Change) -> tuple[Cell, ...]:
    spreads = [] if change.test is None else [change.test.spread_a, change.test.spread_b]
    return (
        change.key,
        change.total_a,
        change.total_b,
        change.delta,
        change.percent,
        each_percent(change),
        _calls(change),
        max((spread for spread in spreads if spread is not None), default=None),
        change.verdict,
        "" if change.matched in _PLAIN else change.matched,
    )


def _calls(change: Change) -> Cell:
    """Returns the count, or both counts if they differ, with "?" for an unknown one."""
    a, b = change.count_a, change.count_b
    if a is None and b is None:
        return None
    if a is not None and b is not None and abs(a - b) < 0.05:
        return _count(a)
    return " > ".join("?" if count is None else f"{count:,.1f}".removesuffix(".0") for count in (a, b))


def _count(count: float | None) -> Cell:
    return None if count is None else int(count) if count == int(count) else count


def each_percent(change: Change) -> float | None:
    """Returns the change of the average per call in percent; None if a side has no average."""
    a, b = _average(change.total_a, change.count_a), _average(change.total_b, change.count_b)
    return None if a is None or b is None or not a else 100 * (b - a) / a


def _average(total: float, count: float | None) -> float | None:
    return total / count if count else None


def _full(heading: str, unit: str) -> tuple[Column, ...]:
    points = "change" if unit == "ns" else "points"
    return (
        Column(heading),
        Column("a", unit),
        Column("b", unit),
        Column(points, unit, signed=True),
        Column("change", "%", signed=True),
        Column("share of change", "%"),
        Column("by count", unit, signed=True),
        Column("by duration", unit, signed=True),
        Column("share a", "%"),
        Column("share b", "%"),
        Column("count a", "count"),
        Column("count b", "count"),
        Column("average a", unit),
        Column("average b", unit),
        Column("each", "%", signed=True),
        Column("median a", "ns"),
        Column("median b", "ns"),
        Column("noise"),
        Column("why"),
        Column("samples"),
        Column("samples a", "count"),
        Column("samples b", "count"),
        Column("p"),
        Column("q"),
        Column("ratio of medians", "x"),
        Column("ratio from", "x"),
        Column("ratio to", "x"),
        Column("spread a", "%"),
        Column("spread b", "%"),
        Column("matched by"),
    )


def _full_row(change: Change, whole: tuple[float, float], by_step: bool) -> tuple[Cell, ...]:
    test, (low, high) = change.test, (change.test.interval if change.test else None) or (None, None)
    return (
        change.key,
        change.total_a,
        change.total_b,
        change.delta,
        change.percent,
        change.share,
        change.from_count,
        change.from_duration,
        percent(change.total_a, whole[0]),
        percent(change.total_b, whole[1]),
        _count(change.count_a),
        _count(change.count_b),
        _average(change.total_a, change.count_a),
        _average(change.total_b, change.count_b),
        each_percent(change),
        _median(change.a, by_step),
        _median(change.b, by_step),
        change.verdict,
        change.why,
        test.samples if test else None,
        test.a if test else None,
        test.b if test else None,
        test.p if test else None,
        test.q if test else None,
        test.ratio if test else None,
        low,
        high,
        test.spread_a if test else None,
        test.spread_b if test else None,
        change.matched,
    )


def _median(group: Group | None, by_step: bool) -> float | None:
    """The median of the compared launches."""
    if group is None or not by_step or group.inside is None:
        return group.median if group else None
    return percentiles(group.inside, (50,))[0] if len(group.inside) else None


def _devices(devices: Sequence[DeviceChange]) -> Table:
    """Returns a table of what each device did, in times and in parts of its span."""
    columns = (
        Column("device"),
        Column("use"),
        Column("a", "ns"),
        Column("b", "ns"),
        Column("change", "ns", signed=True),
        Column("share a", "%"),
        Column("share b", "%"),
    )
    return Table("device use", "use of devices, whole trace", columns, [row for of in devices for row in _use(of)])


def _use(change: DeviceChange) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    spans = [side.span if side else None for side in (change.a, change.b)]
    for heading, attribute in _USE:
        of = [getattr(side, attribute) if side else None for side in (change.a, change.b)]
        if any(of):
            shares = [percent(time, span) for time, span in zip(of, spans, strict=True)]
            rows.append((change.label, heading, *of, _difference(*of), *shares))
    for heading in ("gaps", "queueing"):
        spreads = [getattr(side, heading) if side else None for side in (change.a, change.b)]
        of = [spread.median if spread else None for spread in spreads]
        if any(of):
            rows.append((change.label, f"{heading}, median", *of, _difference(*of), None, None))
    occupancy = [side.occupancy if side else None for side in (change.a, change.b)]
    if any(occupancy):
        rows.append((change.label, "occupancy", None, None, None, *occupancy))
    return rows


def _difference(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else b - a
