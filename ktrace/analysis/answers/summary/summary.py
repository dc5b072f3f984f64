"""A summary and its parts: groups of work, the use of each device, the steps; as tables, and in one line. Times are ns.

Summary
  groups["operation"]   Group("gemm", count 1,200, total 1.2 s, average, median, p95, ..., durations, steps)
  devices               DeviceUse("cuda:0", busy, idle, compute, communication, exposed communication, gaps, ...)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from ktrace.analysis.answers.summary.findings import findings
from ktrace.analysis.answers.summary.nature import NATURES
from ktrace.analysis.answers.summary.verdict import advice, verdict
from ktrace.analysis.questions.collectives.answer import CollectivesAnswer
from ktrace.analysis.questions.memory.answer import MemoryAnswer
from ktrace.analysis.work.findings import Evidence, Finding
from ktrace.analysis.work.groups import LACKS, OTHER, UNCLASSIFIED, DeviceUse, Group, heading_of
from ktrace.analysis.work.stated import stated_table
from ktrace.analysis.work.steadiness import Unsteady
from ktrace.analysis.work.steadiness import of_steps as unsteady_steps
from ktrace.model.arrays import Float64
from ktrace.model.catalog import Catalog
from ktrace.model.tracks import natural
from ktrace.tables import (
    Cell,
    Column,
    Table,
    cut,
    duration,
    escape_controls,
    exact,
    percent,
    prose,
    shortened,
    spread,
)
from ktrace.tables.frames import Framed

if TYPE_CHECKING:
    from ktrace.analysis.answers.summary.findings import LongestRows
    from ktrace.analysis.work.grids import KernelGrids
    from ktrace.analysis.work.question import Answer
    from ktrace.report import Report


class StepUse(msgspec.Struct, frozen=True):
    """A step of a profiler or a training loop: `wall` is its duration on the host, in ns.

    The other times are unions, as in `DeviceUse`, of the work that was launched in the step, summed over all devices.
    `span` is the time that the devices were at it, also summed: from the start of the step on the host, or once the
    work before it is done, to its end on the host, or until its own work is done. A device that lags behind the host is
    at a step later, never busy for more than `span`. What runs before that, beside other steps, such as the copy of a
    batch, is in `communication` and `copies` alone, since nobody waits for it.
    `beside` is the time of kernels that ran before that, as on other streams.
    A step of several sources, or with several occurrences, is the sum of all, and `count` is their number.
    """

    label: str
    count: int
    wall: int
    busy: int
    compute: int
    communication: int
    copies: int
    exposed_communication: int
    exposed_copies: int
    span: int = 0
    beside: int = 0

    @property
    def idle(self) -> int:
        """Time of `span` in which the devices do no work of the step."""
        return self.span - self.busy


class Setting(msgspec.Struct, frozen=True):
    """How sources were recorded: the number of ranks of their job, versions by name, tools, the names of formats.

    `hosts` are the names of machines, `unix_offset` is unix time minus the time of the clock that all share, in ns,
    `without_tool` the sources that name no tool.
    """

    ranks: int | None = None
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)
    tools: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    unix_offset: int | None = None
    without_tool: tuple[str, ...] = ()

    @classmethod
    def from_catalog(cls, catalog: Catalog) -> Setting:
        """The setting that the facts of sources, hosts and devices state; of several versions of one name all."""
        versions: dict[str, set[str]] = {}
        entries = [entry for entity in ("source", "host", "device") for entry in catalog.of(entity)]
        for facts in (entry.facts for entry in entries):
            nested = [value for value in facts.values() if isinstance(value, dict)]
            for key, value in (item for one in (facts, *nested) for item in one.items()):
                if key.lower().endswith("_version") and isinstance(value, (str, int, float)):
                    versions.setdefault(key, set()).add(str(value))
        sources = [entry.facts for entry in catalog.of("source")]
        ranks = [size for facts in sources if type(size := facts.get("world_size")) is int]
        greatest = max(ranks, default=None)
        tools, formats = (
            tuple(dict.fromkeys(str(facts[name]) for facts in sources if facts.get(name)))
            for name in ("tool", "format")
        )
        named = {key: ", ".join(sorted(values)) for key, values in versions.items()}
        hosts = tuple(dict.fromkeys(str(host) for entry in catalog if (host := entry.key.get("host"))))
        offsets = {clock.unix_offset for clock in catalog.of("clock")}
        untold = tuple(str(entry.key.get("source")) for entry in catalog.of("source") if not entry.facts.get("tool"))
        return cls(greatest, named, tools, formats, hosts, offsets.pop() if len(offsets) == 1 else None, untold)


@dataclass(repr=False)
class Summary(Framed):
    """Where the time went.

    `work` tells what was added up: "events" of device work, "statistics" if the source has no such events, "host"
    (calls, operators) if there is no device work at all, "samples" if there is none of these. `total` is the sum of
    the durations, in `unit`: "ns", or "cycle", "%" or "count" if the sources have only cycles, shares or counts.
    `span` is the first start and the last end of all events. `groups` has an entry for each of `BY` that was asked
    for and that the trace has values of; groups are sorted by time, steps and layers in their own order. `step_use`
    is in the order of `steps`. `runs` has the summary of each run if statistics have several. `answers` are those
    to the questions of `ktrace.analysis.answers.summary` that were asked and that the trace knows something about.
    `heaviest` has the totals of all operations and kernels, `proofs` the answers about idle time and collectives,
    `evidence` the longest rows by the code of their finding, for the findings, whatever was asked. `notes` are
    sentences about what the figures mean or lack, `report` is the report of the reading. `longest` is the time from
    the first start to the last end of the events of one source, of the source where it is longest: clocks of
    several sources may differ. `shown` has the longest rows of all work, and `grids` the launches by kernel and grid,
    for a comparison, which asks for them. `checks` are the checks of the recording that fail
    (`ktrace.analysis.questions.checks`), `setting` is what sources state of how they were recorded, `askable` the
    questions that the input can answer, as far as they are known without asking. `stated` are name and text of the
    figures that a source without events of work states itself. `nature` tells whose time is counted where `work` is
    "host": a key of `ktrace.analysis.answers.summary.nature.NATURES`. `dims` is how often PyTorch's products have
    inputs of which shapes, `figures` are the findings of benchmarks where nothing adds up.
    """

    schema: ClassVar[str] = "summary"

    sources: list[str]
    work: str
    total: float
    count: int | None
    span: tuple[int, int] | None
    groups: dict[str, list[Group]]
    devices: list[DeviceUse] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    step_use: list[StepUse] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unit: str = "ns"
    runs: dict[str, Summary] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict, repr=False, compare=False)
    heaviest: dict[str, list[Group]] = field(default_factory=dict, repr=False, compare=False)
    proofs: dict[str, Answer] = field(default_factory=dict, repr=False, compare=False)
    evidence: dict[str, list[Evidence]] = field(default_factory=dict, repr=False, compare=False)
    report: Report | None = field(default=None, repr=False, compare=False)
    longest: int | None = None
    shown: LongestRows | None = field(default=None, repr=False, compare=False)
    grids: KernelGrids | None = field(default=None, repr=False, compare=False)
    checks: list[Finding] = field(default_factory=list, repr=False, compare=False)
    setting: Setting = field(default_factory=Setting, repr=False, compare=False)
    askable: tuple[str, ...] = field(default=(), repr=False, compare=False)
    stated: list[tuple[str, str]] = field(default_factory=list, repr=False, compare=False)
    nature: str = "host"
    dims: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False, compare=False)
    figures: list[Finding] = field(default_factory=list, repr=False, compare=False)

    @property
    def tools(self) -> list[str]:
        """The tools that recorded it, as sources state them, else as their formats are called."""
        from ktrace.input.format import all_formats

        stated, untold = [*self.setting.tools], self.setting.without_tool
        if self.report is None or (stated and not untold):
            return stated
        read = {one["format"] for one in self.report.inputs if not stated or one.get("source") in untold}
        titles = [one.title for one in all_formats() if one.name in read and not one.title.startswith("any ")]
        return [*stated, *(re.split(r" \(|[:,]", title)[0] for title in titles)]

    @property
    def formats(self) -> tuple[str, ...]:
        """The names of the formats of its sources."""
        return self.setting.formats

    @property
    def whose(self) -> str:
        """Whose work was added up: its `nature` where that isn't a device's, else `work`."""
        return self.nature if self.work == "host" else self.work

    @property
    def lost(self) -> bool:
        """Whether records are known to be lost: calls of work between others, perhaps work, too."""
        return any(LACKS in note for note in self.notes)

    @property
    def others_waited(self) -> dict[tuple[str, int | None], int]:
        """How long the others waited for each rank, by its source and device; empty if that isn't known."""
        answer = self.proofs.get("collective")
        ranks = answer.ranks if isinstance(answer, CollectivesAnswer) else []
        waited = {(one.source, one.device): one.others_waited.total for one in ranks if one.others_waited}
        return waited if any(waited.values()) else {}

    @property
    def worst(self) -> list[DeviceUse]:
        """The devices that worked, those first that the others waited for longest, else those that are least busy."""
        waited = self.others_waited
        uses = [use for use in self.devices if use.span]
        return sorted(uses, key=lambda one: (-waited.get((one.source, one.device), 0), one.busy / one.span))

    @property
    def step_times(self) -> Float64:
        """The time of each step in ns: on the host, or on its devices where they lag behind and take longer.

        A step of several sources has the average of theirs.
        """
        return np.maximum(self.of_steps("wall"), self.of_steps("span") / self.devices_of_source)

    @property
    def unsteady(self) -> list[Unsteady]:
        """How the steps differ in their time, other than by noise: a warm-up, a shift, a period, single slow steps.

        Of several sources, those steps that all have: another average isn't of the same work. A coarse clock tells
        nothing of what differs by one of its steps.
        """
        often = np.array([use.count for use in self.step_use], np.int64)
        joint = np.flatnonzero((often == often.max(initial=0)) | (len(self.sources) == 1))
        spans, compute, beside = (
            self.of_steps(name)[joint] / self.devices_of_source for name in ("span", "compute", "beside")
        )
        labels = [self.steps[place] for place in joint.tolist()]
        differing = unsteady_steps(self.of_steps("wall")[joint], spans, compute, beside, labels)
        finest = max((one.value for one in self.checks if one.code == "check.times_quantised"), default=0.0)
        return [
            one._replace(slow=np.bincount(joint[one.slow], minlength=len(often)) > 0)
            for one in differing
            if one.time - one.others > finest
        ]

    def of_steps(self, name: str) -> Float64:
        """A time of `StepUse` in ns of each step, averaged over its occurrences."""
        return np.array([getattr(use, name) / use.count for use in self.step_use], np.float64)

    @property
    def devices_of_source(self) -> float:
        """How many devices a source has on average, at least 1."""
        return max(len(self.devices) / max(len(self.sources), 1), 1.0)

    @property
    def instead(self) -> MemoryAnswer | None:
        """What the source tells of memory, where it has nothing that can be added up."""
        answer = self.answers.get("memory", self.proofs.get("memory")) if self.count == 0 else None
        return answer if isinstance(answer, MemoryAnswer) else None

    @property
    def findings(self) -> list[Finding]:
        """The facts of the verdict: the heaviest work, how busy devices are, what they lose and why."""
        return findings(self)

    def outcome(self, *, findings: bool = True) -> dict[str, Any]:
        """The findings for JSON."""
        return {"findings": [one.document() for one in self.findings] if findings else []}

    @property
    def verdict(self) -> list[str]:
        """At most three sentences: what takes the time, what devices wait for, what to look at; and unsteady steps."""
        return verdict(self.findings)

    @property
    def advice(self) -> list[str]:
        """What to do about what is to be looked at first, and what a part of a run can't tell of it."""
        return advice(self.findings)

    def tables(self, by: Sequence[str] | None = None, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The summary as tables: the verdict, an overview, the use of each device and step, and one for each of `by`.

        `by` is all of `groups` by default. Tables of steps and groups have at most `top` rows; `more` is the number of
        others. `brief` leaves out columns that a terminal has no space for.
        """

        return tables(self, by, top, brief=brief)

    def _by_name(self) -> dict[str, Table]:
        """All tables by name, those of groups and answers first; an answer's name is that of its first table, too."""
        tables_by_name = {table.name: table for table in self.tables()}
        main = sorted(
            tables_by_name, key=lambda name: (name != "kernel", name not in self.groups, name not in self.answers)
        )
        tables = {name: tables_by_name[name] for name in main}
        return tables | {name: one.tables()[0] for name, one in self.answers.items() if name not in tables}

    def __repr__(self) -> str:

        return f"<Summary {one_line(self)}>"


#: Up to this many devices have their own table in the brief form.
_APART = 2

#: How many sources are named.
_SOURCES = 3

#: What is counted, as text.
_WORK = {
    "events": "device activities",
    "statistics": "statistics",
    "samples": "samples",
}


#: The heading of totals by their unit.
_TOTALS = {"ns": "time", "cycle": "cycles", "%": "of the whole", "count": "count"}

#: Figures of a group in addition to count and total; the first list is for the brief form.
_BRIEF = ("average", "median", "p95", "max")
_FIGURES = ("average", "median", "p95", "p99", "min", "max")


def tables(
    summary: Summary, by: Sequence[str] | None = None, top: int | None = None, *, brief: bool = False
) -> list[Table]:
    """The tables `verdict`, `overview`, `devices`, `waits`, `steps`, those of answers, and one for each of `by`."""
    requested = [*summary.groups, *summary.answers] if by is None else by
    names = [name for name in requested if name in summary.groups]
    facts = summary.findings if names != [UNCLASSIFIED] else []
    shown = [*prose("verdict", [*verdict(facts), *advice(facts)]), _overview(summary)]
    if names != [UNCLASSIFIED]:
        shown += _uses(summary, top, brief)
    shown += [
        table
        for name in requested
        if name in summary.answers
        for table in summary.answers[name].tables(top, brief=brief)
    ]
    if summary.instead is not None and "memory" not in requested:
        shown += summary.instead.tables(top, brief=brief)
    stated = [stated_table(summary.stated, top)] if brief and summary.stated else []
    if not summary.runs:
        return [*shown, *(_by(name, [("", summary)], top, brief) for name in names), *stated]
    for name in names:  # in brief a table for each run, else one table for all
        runs = [(run, one) for run, one in summary.runs.items() if name in one.groups]
        if name == "run":
            shown.append(_by(name, [("", summary)], top, brief))
        else:
            shown += [_by(name, [one], top, brief) for one in runs] if brief else [_by(name, runs, top, brief)]
    return shown + stated


def _uses(summary: Summary, top: int | None, brief: bool) -> list[Table]:
    """The tables of devices and steps."""
    steps = [_steps(summary, top, brief)] if summary.step_use else []
    if brief and len(summary.devices) <= _APART:
        return [*map(_device, summary.devices), *steps]
    if summary.devices:
        each = (_devices(summary.devices, brief), _waits(summary.devices, brief))
        if brief and top is not None and len(summary.devices) > top > _SPREAD:
            return [spread_of_devices(one, summary, top - _SPREAD) for one in each] + steps
        return [cut(one, top) for one in each] + steps
    return steps


#: The rows of least, median and most, and the most of the devices that stand out with a row of their own.
_SPREAD, _WORST = 3, 3


def spread_of_devices(table: Table, summary: Summary, most: int = _WORST) -> Table:
    """Of a table with a row for each device the least, the median and the most of each figure, and the worst devices.

    Those are the worst that the others waited for, else those that are least busy.
    """
    waited, places = summary.others_waited, {id(use): place for place, use in enumerate(summary.devices)}
    worst = [
        places[id(use)]
        for use in summary.worst[: min(most, _WORST)]
        if not waited or waited.get((use.source, use.device))
    ]
    which, are = (f"the {len(worst)}", "are") if len(worst) > 1 else ("the one", "is")
    named = "that the others waited for the longest" if waited else f"that {are} the least busy"
    title = f"{len(summary.devices):,} devices, and {which} {named}"
    return replace(spread(table, worst), title=f"{table.title}: {title}" if table.title else title)


def _overview(summary: Summary) -> Table:
    columns = [Column("source"), Column("counted"), Column("rows", "count"), Column("total", summary.unit)]
    more = len(summary.sources) - _SOURCES
    sources = ", ".join(sorted(summary.sources, key=natural)[:_SOURCES]) + (f" and {more:,} more" if more > 0 else "")
    what = NATURES[summary.nature].counted if summary.work == "host" else _WORK[summary.work]
    counted = what if summary.count != 0 else "memory" if summary.instead else "nothing"
    total = None if summary.runs and summary.unit == "%" else summary.total  # shares of different wholes can't be added
    row: list[Cell] = [sources, counted, summary.count, total]
    if summary.span and len(summary.sources) == 1:  # the clocks of several sources may differ
        columns.append(Column("span", "ns"))
        row.append(summary.span[1] - summary.span[0])
    return Table("overview", "", tuple(columns), [tuple(row)], list(summary.notes))


def _device(use: DeviceUse) -> Table:
    """The use of one device, one figure per row."""
    columns = [Column("figure"), Column("time", "ns"), Column("share", "%"), Column("times", "count")]
    columns += [Column(name, "ns") for name in ("median", "p95", "max")]
    names = ("busy", "compute", "communication", "exposed communication", "copies", "exposed copies", "idle")
    times = [(name, getattr(use, name.replace(" ", "_"))) for name in names]
    rows: list[tuple[Cell, ...]] = [("span", use.span, None, *_NONE)]
    rows += [(name, time, percent(time, use.span), *_NONE) for name, time in times if time or name in ("busy", "idle")]
    for name, waits in (("gaps between work", use.gaps), ("queueing", use.queueing)):
        if waits:
            rows.append((name, None, None, waits.count, waits.median, waits.p95, waits.max))
    if use.occupancy is not None:
        rows.append(("occupancy", None, use.occupancy, *_NONE))
    title = f"utilisation of {use.label}" + (f", {use.name}" if use.name else "")
    return Table(f"use of {use.label}", title, tuple(columns), rows)


#: The empty cells of a figure that isn't a spread.
_NONE: tuple[Cell, ...] = (None,) * 4


def _devices(devices: list[DeviceUse], brief: bool) -> Table:
    """The use of devices, one device per row."""
    kinds = ("communication", "copies")
    columns = [Column("device"), Column("span", "ns"), Column("busy", "%"), Column("compute", "%")]
    columns += [Column(f"{exposed}{kind}", "%") for exposed in ("", "exposed ") for kind in kinds]
    if not brief:
        columns += [Column(name, "ns") for name in ("busy", "compute")]
        columns += [Column(f"{exposed}{kind}", "ns") for exposed in ("", "exposed ") for kind in kinds]
        columns += [Column("idle", "ns"), Column("rank", "count"), Column("name")]
    rows: list[tuple[Cell, ...]] = []
    for use in devices:
        times = use.busy, use.compute, use.communication, use.copies, use.exposed_communication, use.exposed_copies
        shares = (percent(time, use.span) for time in times)
        times_and_names: tuple[Cell, ...] = () if brief else (*times, use.idle, use.rank, use.name)
        rows.append((use.label, use.span, *shares, *times_and_names))
    return Table("devices", "device utilisation", tuple(columns), rows)


def _waits(devices: list[DeviceUse], brief: bool) -> Table:
    """Gaps, queueing and occupancy, one device per row. Waits overlap, so their total would mean nothing."""
    columns = [Column("device"), Column("occupancy", "%")]
    figures_of = {"gaps": ("total", "median", "p95", "max"), "queueing": ("median", "p95", "max")}
    figures_of = dict.fromkeys(figures_of, figures_of["queueing"]) if brief else figures_of
    for name, figures in figures_of.items():
        columns += [] if brief else [Column(name, "count")]
        columns += [Column(f"{name} {figure}", "ns") for figure in figures]
    rows = []
    for use in devices:
        cells: list[Cell] = []
        for name, figures in figures_of.items():
            waits = getattr(use, name)
            cells += [] if brief else [getattr(waits, "count", None)]
            cells += [getattr(waits, figure, None) for figure in figures]
        rows.append((use.label, use.occupancy, *cells))
    return Table("waits", "gaps between device activities, and queueing after the launch", tuple(columns), rows)


def _steps(summary: Summary, top: int | None, brief: bool) -> Table:
    """The steps; the full form has the time of each operation in them. Of several occurrences each time is the mean."""
    times = ["wall", "span", "compute", "communication", "exposed communication", "copies"]
    times += [] if brief else ["exposed copies", "busy", "idle"]
    columns = [Column("step"), Column("times", "count"), Column("busy", "%"), *(Column(name, "ns") for name in times)]
    operations = [] if brief else [one for one in summary.groups.get("operation", []) if one.in_steps is not None]
    totals = [group.steps for group in operations]
    columns += [Column(f"operation {group.key}", "ns") for group in operations]
    rows: list[tuple[Cell, ...]] = []
    for number, use in enumerate(summary.step_use[:top]):
        figures = [getattr(use, name.replace(" ", "_")) for name in times]
        figures += [times[number] for times in totals if times is not None]
        rows.append((use.label, use.count, percent(use.busy, use.span), *(_each(time, use.count) for time in figures)))
    return Table("steps", "steps", tuple(columns), rows, more=len(summary.step_use) - len(rows))


def _each(time: float, count: int) -> float:
    """A time of one of several, the mean: a whole number where it is one."""
    return time // count if time % count == 0 else time / count


def _by(name: str, runs: list[tuple[str, Summary]], top: int | None, brief: bool) -> Table:
    """The groups of one summary ("", summary), or of several runs."""
    every = [group for _, summary in runs for group in summary.groups[name]]
    unit = runs[0][1].unit
    figures_of = [figure for figure in (_BRIEF if brief else _FIGURES) if _any(every, figure)]
    columns = [Column("run")] if len(runs) > 1 else []
    named = heading_of(name, runs[0][1].work)
    columns.append(Column("kernel" if name == UNCLASSIFIED else named if brief else name))
    columns += [Column(_TOTALS[unit], unit), Column("share", "%")]
    columns += [Column("count", "count")] if _any(every, "count") else []
    columns += [Column(figure, "cycle" if unit == "cycle" else "ns") for figure in figures_of]
    whole = not brief and name == "kernel" and any(group.name not in (None, group.key) for group in every)
    columns += [Column("name")] if whole else []
    rows: list[tuple[Cell, ...]] = []
    for run, summary in runs:
        for group in summary.groups[name][:top]:
            row: list[Cell] = [run] if len(runs) > 1 else []
            row += [group.key, group.total, percent(group.total, summary.total)]
            row += [group.count] if _any(every, "count") else []
            row += [getattr(group, figure) for figure in figures_of]
            rows.append((*row, group.name) if whole else tuple(row))
    run = runs[0][0] if len(runs) == 1 else ""
    title = {UNCLASSIFIED: "kernels without an operation"}.get(name, f"by {named}")
    table, title = (f"{name} of {run}", f"{run}: {title}") if run else (name, title)
    notes = [_unclassified(runs)] if name == UNCLASSIFIED else []
    return Table(table, title, tuple(columns), rows, notes, len(every) - len(rows))


def _any(groups: list[Group], figure: str) -> bool:
    return any(getattr(group, figure) is not None for group in groups)


def _unclassified(runs: list[tuple[str, Summary]]) -> str:
    """How much of the time has no operation."""
    time = sum(group.total for _, summary in runs for group in summary.groups[UNCLASSIFIED])
    share = percent(time, sum(summary.total for _, summary in runs)) or 0.0
    return f"{share:.1f}% of the time has no operation" + ("; add your own rules to label it." if time else ".")


#: Sources that are named, and characters of the name of a kernel.
_NAMED, _LONGEST = 3, 60

#: What was added up.
_ADDED_UP = {
    "events": "device activities",
    "statistics": "statistics",
    "host": "calls, operators or ranges",
    "samples": "samples",
}


def one_line(summary: Summary) -> str:
    """The main figures: run.json: 15 device activities, 930 us; busy 86.4% of 962 us; top operation gemm 26.8%."""
    more = len(summary.sources) - _NAMED
    names = sorted(summary.sources, key=natural)[:_NAMED]
    sources = ", ".join(map(escape_controls, names)) + (f" and {more:,} more" if more > 0 else "")
    count = "" if summary.count is None else f"{summary.count:,} "
    counted = _ADDED_UP[summary.work] if summary.count != 0 else "nothing"
    total = f", {exact(summary.total)}" if summary.unit == "ns" else ""
    parts = [f"{sources}: {count}{counted}{total}"]
    span, busy = (sum(getattr(use, name) for use in summary.devices) for name in ("span", "busy"))
    if span:
        of = f"{len(summary.devices)} devices" if len(summary.devices) > 1 else duration(span)
        parts.append(f"busy {percent(busy, span):.1f}% of {of}")
    named_groups = (
        (by, group) for by in ("operation", "kernel") for group in summary.groups.get(by, []) if group.key != OTHER
    )
    for by, top in islice(named_groups, 1):
        if (share := percent(top.total, summary.total)) is not None:
            name = shortened(escape_controls(top.key), _LONGEST)
            parts.append(f"top {heading_of(by, summary.work)} {name} {share:.1f}%")
    return "; ".join(parts)
