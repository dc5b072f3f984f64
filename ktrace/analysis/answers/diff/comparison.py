"""A comparison, its tables, and when it fails a pipeline. All times are ns.

Diff("monday", "tuesday")   per "step"
  whole                  Change("total", 11.802 ms ─► 12.034 ms, +2.0 %, clear)
  rows["kernel"]         Change("softmax", 1.200 ms ─► 1.380 ms, +15.0 %, clear), ...
  devices                DeviceChange("cuda:0", DeviceUse ─► DeviceUse)

Tables have all figures for programs, the main ones for users:

by kernel, average per step
kernel         a         b     change  change per call  calls  spread  noise
softmax 1.200 ms  1.380 ms  +0.180 ms  +15.0%   +15.0%      4    1.2%  clear

A pipeline fails at more time than before, by more than the limit, and not within noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

from ktrace.analysis.answers.diff import (
    CLEAR,
    GONE,
    NEW,
    NOISE,
    UNKNOWN,
    Change,
    DeviceChange,
    Gate,
    OtherAmount,
    Regression,
)
from ktrace.analysis.answers.summary.nature import COUNTED, is_other
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.breakdown import SPOKEN_PARTS
from ktrace.analysis.questions.checks import LACKS_WORK, failures, taken_by
from ktrace.analysis.work.durations import percentiles
from ktrace.analysis.work.findings import Evidence, Finding
from ktrace.analysis.work.gaps import SPOKEN
from ktrace.analysis.work.groups import GRID, OF_GRID, heading_of
from ktrace.errors import UsageError
from ktrace.tables import Cell, Column, Table, escape_controls, percent, prose
from ktrace.tables.frames import Framed

if TYPE_CHECKING:
    from ktrace.analysis.answers.summary.summary import Summary
    from ktrace.analysis.work.groups import Group


@dataclass(repr=False)
class Diff(Framed):
    """What changed from `a` to `b`, which are named `name_a` and `name_b`.

    `per` is "step" if both sides have steps and totals are averages per step, else "whole". `whole` is the change
    of all work. `steps` are the changes of the measured times of a step (`StepUse`), if steps are compared, and
    "step", the longer of wall and span, where devices lag behind the host. `times` are those of the whole traces
    otherwise: "span" from the first start to the last end of a source (unless only one side shows what the host
    did), "device span" of the device where it is longest, "idle" of all devices. `rows` maps each requested
    grouping (of `ktrace.analysis.work.groups.BY`) to its changes, the greatest first. Totals are in `unit`: "ns", or
    "%" of the whole if a side contains only shares. `part` says that a filter left out rows, so that the times are
    those of a part. `notes` are sentences on what the figures mean or lack, `verdict` at most three: how much
    faster or slower, because of what, how sure; `facts` are what it says. `gate` is the outcome of the limits of a
    pipeline. `unsteady` says of each side how its steps differ,
    `unsteady_alike` whether slow steps of both do alike; `compared` are the
    numbers of steps that are compared, all but a warm-up. If the sides have different numbers of devices, totals and
    counts are averages over these, `averaged`. `differences` are those of what was recorded, before any time,
    `length` how many times as long the recording `b` is, by which its figures are divided,
    `of_ranks` the rank that others wait for, and the parts of collectives,
    `places` the phase or pass that makes most of a change of work. `other` tells that the sides did different amounts
    of work, without steps.
    """

    schema: ClassVar[str] = "diff"

    name_a: str
    name_b: str
    a: Summary
    b: Summary
    per: str
    whole: Change
    rows: dict[str, list[Change]]
    devices: list[DeviceChange] = field(default_factory=list)
    steps: list[Change] = field(default_factory=list)
    unit: str = "ns"
    notes: list[str] = field(default_factory=list)
    verdict: list[str] = field(default_factory=list)
    times: list[Change] = field(default_factory=list)
    part: bool = False
    gate: Gate | None = None
    facts: list[Finding] = field(default_factory=list)
    unsteady: tuple[list[Finding], list[Finding]] = ([], [])
    unsteady_alike: bool = False
    compared: tuple[int, int] = (0, 0)
    averaged: tuple[int, int] = (1, 1)
    length: float = 1.0
    differences: list[Finding] = field(default_factory=list)
    of_ranks: list[Finding] = field(default_factory=list)
    places: list[Finding] = field(default_factory=list)
    other: OtherAmount | None = None

    @property
    def findings(self) -> list[Finding]:
        """The facts of the verdict, and what got slower than the limits of a pipeline allow."""
        return [*self.facts, *(self.gate.findings if self.gate else [])]

    def outcome(self, *, findings: bool = True) -> dict[str, Any]:
        """The outcome of the limits of a pipeline, if there were any, and the findings, for JSON."""
        gate = self.gate.document() if self.gate else {}
        return gate | {"findings": [one.document() for one in self.findings] if findings else []}

    @property
    def is_foreign(self) -> bool:
        """Whether the times of the sides aren't of one thing, such as devices and the host, or requests and warps.

        Tables of devices are compared with their events, and with tables of which nothing says whose time they have.
        """
        both = self.a.whose, self.b.whose
        return is_other(*both) and "statistics" not in both

    @property
    def lacking(self) -> list[str]:
        """The names of the sides of which work, or the calls of some, is missing, or wrong."""
        sides = (self.name_a, self.a), (self.name_b, self.b)
        return [name for name, side in sides if side.lost or any(one.code in LACKS_WORK for one in side.checks)]

    def is_taken(self, claim: str) -> bool:
        """Whether a failed check of a side takes the ground from findings of a code."""
        return any(claim.startswith(taken_by(one)) for side in (self.a, self.b) for one in failures(side.checks))

    @property
    def wall(self) -> Change | None:
        """The change of the time of a step on the host; None if steps aren't compared."""
        return self.measure("wall")

    @property
    def time(self) -> Change | None:
        """The change of the time that all took: of a step, else of the trace; None if it isn't known, or of a part."""
        return None if self.part else self.measure("step") or self.wall or self.measure("span") or self.device_time

    @property
    def device_time(self) -> Change | None:
        """The change of the time that devices took: of a step, else of the trace; None if it isn't known."""
        return None if self.part else self.measure("span" if self.wall else "device span")

    @property
    def idle(self) -> Change | None:
        """The change of the time in which devices do nothing: of a step, else of the trace; None if it isn't known."""
        return None if self.part else self.measure("idle")

    @property
    def idle_percent(self) -> float | None:
        """The change of idle time in percent of the time of all devices before; None if it isn't known."""
        idle, time = self.idle, self.device_time
        devices = 1 if self.wall else max(len(self.a.devices), 1)  # times of steps are those of all devices
        return percent(idle.delta, time.total_a * devices) if idle and time else None

    def measure(self, key: str) -> Change | None:
        """The change of one of `steps` or `times`; None if it isn't compared."""
        return next((change for change in (*self.steps, *self.times) if change.key == key), None)

    def tables(self, top: int | None = None, *, full: bool = True) -> list[Table]:
        """Returns the comparison as tables: the verdict, the whole, each of `rows` (at most `top` rows), the devices.

        With `full` the tables have a column for every figure, for programs; else only the main columns.
        """
        return tables(self, top, full)

    def _by_name(self) -> dict[str, Table]:
        """All tables by name, those of the changes first."""
        by_name = {table.name: table for table in self.tables()}
        return {name: by_name[name] for name in sorted(by_name, key=lambda name: name not in self.rows)}

    def __repr__(self) -> str:
        parts = [escape_controls(self.verdict[0].removesuffix("."))] if self.verdict else []
        for by, rows in self.rows.items():
            counts = [f"{sum(row.verdict == name for row in rows):,} {name}" for name in (CLEAR, NEW, GONE)]
            parts.append(f"by {heading_of(by, self.b.work)} {', '.join(counts)}")
        return f"<Diff {escape_controls(self.name_a)} to {escape_controls(self.name_b)}: {'; '.join(parts)}>"


#: Ways of matching that the table doesn't mention.
_PLAIN = ("name", "short name", "")

#: So many devices have rows of their own for people; of more the median, and so many that changed the most.
_APART, _MOST_CHANGED = 4, 2

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
    of += (" and device" if of else ", average per device") if diff.averaged != (1, 1) else ""
    of += ", b at the length of a" if diff.length != 1 else ""
    shown_tables = [_changes("whole", f"a = {diff.name_a}, b = {diff.name_b}{of}", "work", diff, first, full, None)]
    for by, rows in diff.rows.items():
        shown = heading_of(by, diff.b.work)
        shown_tables.append(_changes(by, f"by {shown}{of}", by if full else shown, diff, rows, full, top))
    if diff.devices:
        shown_tables.append(_devices(diff.devices) if full or len(diff.devices) <= _APART else _spread(diff.devices))
    shown_tables[0].notes.extend(diff.notes)
    return [*prose("verdict", diff.verdict), *shown_tables]


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
        Column(heading, spoken=SPOKEN | SPOKEN_PARTS),
        Column("a", unit),
        Column("b", unit),
        change,
        Column("change", "%", signed=True, factors=True),
        Column("each", "%", signed=True, factors=True, title="per call"),
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
    return " -> ".join("?" if count is None else f"{count:,.1f}".removesuffix(".0") for count in (a, b))


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
        Column(heading, spoken=SPOKEN | SPOKEN_PARTS),
        Column("a", unit),
        Column("b", unit),
        Column(points, unit, signed=True),
        Column("change", "%", signed=True, factors=True),
        Column("share of change", "%"),
        Column("by count", unit, signed=True),
        Column("by duration", unit, signed=True),
        Column("share a", "%"),
        Column("share b", "%"),
        Column("count a", "count"),
        Column("count b", "count"),
        Column("average a", unit),
        Column("average b", unit),
        Column("each", "%", signed=True, factors=True, title="per call"),
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
    return Table("device use", "device utilisation, whole trace", columns, [row for of in devices for row in _use(of)])


def _spread(devices: Sequence[DeviceChange]) -> Table:
    """The same of many devices: the median of each figure, and the devices that changed the most."""
    whole = _devices(devices)
    by_use: dict[Cell, list[tuple[Cell, ...]]] = {}
    for row in whole.rows:
        by_use.setdefault(row[1], []).append(row)
    rows: list[tuple[Cell, ...]] = []
    for use, alike in by_use.items():
        a, b, _, *shares = (_middle(cells) for cells in list(zip(*alike, strict=True))[2:])
        rows.append(("median", use, a, b, _difference(a, b), *shares))
    most = sorted(devices, key=lambda one: -_changed(one))[:_MOST_CHANGED]
    rows += [row for one in most for row in _use(one)]
    title = f"{whole.title}: the median of {len(devices):,} devices, and the {len(most)} that changed most"
    return replace(whole, title=title, rows=rows)


def _middle(cells: Iterable[Cell]) -> float | None:
    """The median of the figures that are known."""
    figures = [cell for cell in cells if isinstance(cell, (int, float))]
    return median(figures) if figures else None


def _changed(change: DeviceChange) -> float:
    """By how much more or less time a device computes, communicates and is idle."""
    if change.a is None or change.b is None:
        return math.inf
    uses = ("compute", "exposed_communication", "exposed_copies", "idle")
    return math.fsum(abs(getattr(change.b, use) - getattr(change.a, use)) for use in uses)


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


#: Rows below this part of the whole, in percent, never cause a failure.
LEAST = 1.0


def gate(diff: Diff, over: float | None = None, each: float | None = None, *, part: bool = False) -> Gate:
    """Returns what got slower: the whole by over `over` percent, a row of the first table by over `each`.

    The whole is all work, and, unless the work is only a `part` of it, the time that all took: of a step on the host
    and on the devices, else of the trace and of its devices. Where that got slower, idle time is named, too, if it grew
    by over `over` percent of the time of the devices. A change within noise doesn't count; a change not known to be
    within noise does. Of sides that did different amounts of work without steps, calls are compared; whether the time
    got slower isn't known then, which fails, too. Of sides with different numbers of devices, times are
    compared, not all work. Rows count if they are at least `LEAST` percent of the whole.

    Raises UsageError if a side contains only shares of the whole, so that the whole isn't known.
    """
    if diff.unit != "ns":
        raise UsageError("can't tell whether it got slower: one side contains only shares, no times")
    failures: list[Regression] = []
    checked: list[str] = []
    if diff.is_foreign:
        why = f"{diff.name_a} has {COUNTED[diff.a.whose]}, {diff.name_b} {COUNTED[diff.b.whose]}"
        figures = diff.whole.total_a, diff.whole.total_b, None, over or each or 0.0, False, why
        return Gate(over, each, [Regression("the time", None, *figures, comparable=False)], ["the time"])
    if over is not None:
        times = {} if part else {one.key: one for one in (diff.time, diff.device_time) if one}
        slower = [change for change in times.values() if _slower(change, over)]
        if slower and diff.idle and diff.idle.verdict != NOISE and (diff.idle_percent or 0.0) > over:
            slower.append(diff.idle)
        is_alike = diff.averaged == (1, 1) or not times  # else ranks wait for more others, or for fewer
        wholes = [diff.whole] if is_alike and _slower(diff.whole, over) else []
        checked += [*([diff.whole.key] if is_alike else []), *times]
        regressions = [_regression(change, over, diff) for change in (*wholes, *slower)]
        failures += regressions if not regressions or diff.other is None else [_call_by_call(diff.other, over, diff)]
    if each is not None and diff.rows:
        by, rows = next(iter(diff.rows.items()))
        least = LEAST / 100 * diff.whole.total_b
        shared = [change for change in rows if change.a and change.b and change.total_b >= least]
        checked += [f"{by} {change.key}" for change in shared]
        failures += [_regression(change, each, diff, by) for change in shared if _slower(change, each)]
    return Gate(over, each, failures, checked)


def _call_by_call(other: OtherAmount, limit: float, diff: Diff) -> Regression:
    """The regression of sides that did different amounts of work: of each call, else that they can't be compared."""
    if other.each > limit:
        why = diff.whole.why or "launches of different amounts of work"
        return Regression("each call", None, other.before, other.alike, other.each, limit, False, why)
    figures = other.before, other.alike, other.each
    return Regression("the time", None, *figures, limit, False, str(other), comparable=False)


def regressions(diff: Diff, over: float | None = None, each: float | None = None, *, part: bool = False) -> list[str]:
    """Returns the sentences of `gate` on what got slower."""
    return [str(one) for one in gate(diff, over, each, part=part).regressions]


def _slower(change: Change, limit: float) -> bool:
    """Returns whether the work takes over `limit` percent longer; new work always does."""
    return _figure(change, limit) is not None


def _figure(change: Change, limit: float) -> tuple[str, float, float] | None:
    """Returns the figure by which the work takes over `limit` percent longer, with its values, if any does."""
    if change.verdict == NOISE:
        return None
    figures = [("average", change.total_a, change.total_b)]
    if change.medians is not None:
        figures.append(("median", *change.medians))
    return next((one for one in figures if one[2] - one[1] > one[1] * limit / 100), None)


def _regression(change: Change, limit: float, diff: Diff, by: str | None = None) -> Regression:
    figure, a, b = _figure(change, limit) or ("average", change.total_a, change.total_b)
    is_known = change.verdict != UNKNOWN or figure == "median"
    why = "" if is_known else change.why
    rows = shown(change, diff.a, diff.b, by)
    return Regression(change.key, by, a, b, percent(b - a, a), limit, is_known, why, figure, rows)


def shown(change: Change, a: Summary, b: Summary, by: str | None) -> Sequence[Evidence]:
    """The rows that show a change of a row of the table `by`, or of a measured time; none where they aren't known."""
    side, group = (b, change.b) if change.delta > 0 else (a, change.a)
    if by is None and change.key.startswith("exposed "):
        return side.evidence.get(change.key.replace(" ", "."), [])
    if side.shown is None:
        return []
    if by is None:
        return side.shown.gaps if change.key == "idle" else []
    return side.shown.of(GRID if OF_GRID in group.key else by, group.key) if group else []
