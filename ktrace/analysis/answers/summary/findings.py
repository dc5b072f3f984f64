"""The facts that the verdict of a summary says in words: what takes the time, what devices wait for, what to look at.

They are those of the whole summary, whatever tables were asked for. Rows show each: the longest launches of the
heaviest work, what was longest without compute. `LongestRows` has those of all work, for findings that are only known
later: a comparison's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from msgspec.structs import replace

from ktrace.analysis.answers.summary.nature import NATURES
from ktrace.analysis.answers.summary.remedies import remedy
from ktrace.analysis.questions.checks import check_of, taken_by
from ktrace.analysis.questions.collectives.answer import CollectivesAnswer, RankUse
from ktrace.analysis.questions.idle import IdleAnswer
from ktrace.analysis.questions.memory.answer import MemoryAnswer
from ktrace.analysis.work import steadiness
from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.durations import COMMUNICATION, COMPUTE, COPY
from ktrace.analysis.work.findings import SHOWN, Evidence, Finding, longest, with_look
from ktrace.analysis.work.gaps import LAUNCH_DELAY, gaps_of
from ktrace.analysis.work.grids import GridTexts
from ktrace.analysis.work.groups import GRID, OF_GRID, OTHER, DeviceUse, Group
from ktrace.analysis.work.question import Answer, Labels, kernel_of, row_shown
from ktrace.analysis.work.steadiness import Unsteady
from ktrace.model.arrays import Bools, Float64, Int64
from ktrace.stages.select.intervals import Intervals
from ktrace.store.joins import group_start_mask
from ktrace.tables import Cell, percent

#: What the heaviest is found of, and the questions whose answers findings rest on.
HEAVIEST = ("operation", "kernel")
PROOFS = ("idle", "collective")

#: What is lost must be at least this part of the time of the devices, in percent, to be looked at first.
_WORTH = 5.0

#: Losses that are each less matter if together they are this part, in percent.
_TOGETHER = 10.0

#: A rank that others wait for is named if that takes this part of the time of the devices, in percent, if it is last in
#: more than this part of its collectives, and more often than chance would have it, with this probability.
WAITING, _MOSTLY, _CHANCE = 0.5, 0.8, 0.05

#: How steadily it must be late, since collectives of a step aren't independent: with four parts of a run, noise is as
#: steady once in 500 cases (Student's t). In fewer collectives than `_FEW` it may be last each time instead.
#: tests/worlds/test_collectives.py measures both.
_STEADY, _FEW = 8.0, 12

#: In so many collectives, being last and as late each time proves it, too.
_ALWAYS = 4

#: What is added up, in words.
_WORK = {
    "events": "device time",
    "statistics": "time in the tables",
    "samples": "sampled time",
}

#: The devices' time, without what they did before, and without what was set up once.
_OF_DEVICES, _RECORDED = "the devices' time", "the devices' time in the recording"
_AFTER_SETUP = "the devices' time without one-time set-up"

#: How many collectives that don't end are told of.
_HANGS = 10

#: What is set up once.
_SETUP = "idle.setup"

#: Idle time that may be none: the device did what the trace lacks.
_UNSEEN = ("queued before the recording", "not recorded")

#: What is set up once comes last, unless it is this part of the devices' time, and they have fewer pieces of work,
#: which take no more than this part of it: then the recording is of a start, and of nothing else.
_MAINLY, _FEW_PIECES, _BARELY = 0.5, 50, 0.05

#: Of what it must be more: a rank that waits little, and idle time of which nothing tells the cause.
_WORTH_OF = {"straggler": WAITING, "idle.unknown": 20.0}

#: What to look at where little is lost: copies and collectives that kernels hide cost nothing.
_AT_KERNELS = ("heaviest.compute", "heaviest.operation", "heaviest.kernel")

#: Causes that can be looked at.
_CHANGEABLE = (
    *("host late", "host synchronised", "dependency", "launch overhead", "between graph nodes"),
    "unknown",
)


class Figures(Protocol):
    """What the findings are about: these figures of a `Summary`."""

    work: str
    nature: str
    total: float
    count: int | None
    unit: str
    devices: list[DeviceUse]
    heaviest: dict[str, list[Group]]
    proofs: dict[str, Answer]
    evidence: dict[str, list[Evidence]]
    checks: list[Finding]
    figures: list[Finding]

    steps: list[str]

    @property
    def step_times(self) -> Float64:
        """The time of each step in ns."""

    @property
    def unsteady(self) -> list[Unsteady]:
        """How the steps differ in their time."""

    @property
    def runs(self) -> Mapping[str, Figures]:
        """The summaries of the runs."""

    @property
    def formats(self) -> Sequence[str]:
        """The names of the formats of its sources."""

    @property
    def askable(self) -> Sequence[str]:
        """The questions that the input can answer."""

    @property
    def instead(self) -> MemoryAnswer | None:
        """What the source tells of memory, where it has nothing that can be added up."""


def findings(summary: Figures) -> list[Finding]:
    """Returns the facts: what is wrong with the recording, the heaviest work, how busy devices are, what they lose.

    What is to be looked at first has `look` 1, and so on. What a failed check takes the ground from isn't there.
    """
    checks = summary.checks
    if not summary.total:
        return [*checks, *_hangs(summary), *summary.figures, *(summary.instead.findings() if summary.instead else ())]
    facts = [
        *_work(summary),
        *_compute(summary),
        *_use(summary),
        *_steps(summary),
        *_outside(summary),
        *_losses(summary),
    ]
    ranked = _ranked([one for one in facts if not _is_taken(one.code, summary)], summary)
    made = (
        replace(one, doubts=_doubts(one, checks), remedy=remedy(one, summary.askable, summary.formats, summary.count))
        for one in ranked
        if one.look or one.code != _AT_KERNELS[0]  # else it says nothing that tables of the run wouldn't
    )
    return [*checks, *_hangs(summary), *made]


def _doubts(fact: Finding, checks: list[Finding]) -> list[str]:
    """The failed checks that a finding may be wrong by."""
    return [one.code for one in checks if fact.code.startswith(check_of(one).doubts)]


def _hangs(summary: Figures) -> list[Finding]:
    """The collectives that ranks wait in, first those that decide."""
    answer = summary.proofs.get("collective")
    return [one.finding for one in answer.hangs[:_HANGS]] if isinstance(answer, CollectivesAnswer) else []


def _ranked(facts: list[Finding], summary: Figures) -> list[Finding]:
    """The findings, with the place of those that are worth a look: where the most is lost, else the heaviest work."""
    if not _span(summary):
        return facts
    losses = sorted((one for one in facts if _is_loss(one)), key=lambda one: (_is_start(one), -one.value))
    order = [one for one in losses if (one.share or 0.0) >= _WORTH_OF.get(one.code, _WORTH)]
    explained = [one for one in losses if one.code != "idle.unknown"]
    if not order and sum(one.share or 0.0 for one in explained) >= _TOGETHER:
        order = explained[:2]
    if not order and _has_compute(summary) and not _is_unknown("little", summary.checks):
        order = [one for code in _AT_KERNELS for one in facts if one.code == code][:1]
    setup = next((one for one in facts if one.code == _SETUP and (one.share or 0.0) >= _WORTH), None)
    windows = [use.window for use in summary.devices if use.window and use.span]
    before, whole = (sum(getattr(one, name) for one in windows) for name in ("setup", "whole"))
    once = (setup.value if setup else 0) + (before if 100 * before >= _WORTH * (whole + before) else 0)
    if once and order and order[0].code.startswith("heaviest."):  # it is no little time
        beside = replace(order[0], details={**order[0].details, "setup_ns": once})
        facts, order = [beside if one is order[0] else one for one in facts], [beside]
    if setup is None:
        return with_look(facts, order)
    busy, is_bit = sum(use.busy for use in summary.devices), (summary.count or 0) < _FEW_PIECES
    is_start = is_bit and setup.value >= _MAINLY * (setup.whole or 0.0) and busy <= _BARELY * setup.value
    return with_look(facts, [setup, *order] if is_start else [*order, setup])


def _is_start(one: Finding) -> bool:
    """Whether it is the start and the end of a recording of which the devices' work takes a good part."""
    whole = one.whole or 0.0
    return one.code == "outside" and not one.details["steps"] and 4 * (whole - one.value) >= whole


def _is_unknown(claim: str, checks: list[Finding]) -> bool:
    """Whether a failed check takes a claim away, or makes it doubtful."""
    return any(claim in (*check_of(one).takes, *check_of(one).doubts) for one in checks)


def _is_taken(code: str, summary: Figures) -> bool:
    """Whether a failed check takes findings of a code away."""
    return any(code.startswith(taken_by(one)) for one in summary.checks)


def _is_loss(one: Finding) -> bool:
    """Whether it is lost time of devices that somebody may change."""
    kind, _, cause = one.code.partition(".")
    if kind == "idle":
        return one.details.get("cause") in _CHANGEABLE if cause else not one.details["causes"]
    return kind in ("straggler", "exposed", "outside")


def _work(summary: Figures) -> list[Finding]:
    """The heaviest operation, unless a kernel without an operation may take more, and the heaviest kernel.

    Of several runs, those that are the heaviest in each.
    """
    time = NATURES[summary.nature].time if summary.work == "host" else _WORK[summary.work]
    of = {"ns": time, "cycle": "all cycles", "%": "the whole"}.get(summary.unit, "all counts")
    metric = {"ns": "time", "cycle": "cycles", "%": "share"}.get(summary.unit, "count")
    of_runs, facts = [*summary.runs.values()] if len(summary.runs) > 1 else [], []
    if of_runs and summary.unit == "%":
        return []  # shares of different wholes
    for by, group in _heaviest(summary.heaviest).items():
        first_of_runs = [_heaviest(run.heaviest).get(by) for run in of_runs]
        if any(one is None or one.key != group.key for one in first_of_runs):
            continue
        rows = summary.evidence.get(f"heaviest.{by}", [])
        what = {"host": "call", "samples": "function"}.get(summary.work, by) if by == "kernel" else by
        code, subject = f"heaviest.{what}", {what: group.key, "name": group.name}
        details: dict[str, Cell] = {"count": group.count}
        if of_runs:
            shares = [
                percent(one.total, run.total) or 0.0 for one, run in zip(first_of_runs, of_runs, strict=True) if one
            ]
            details |= {"runs": len(of_runs), "least_percent": min(shares), "most_percent": max(shares)}
        facts.append(Finding(code, metric, group.total, summary.unit, summary.total, of, subject, None, details, rows))
    return facts


def _compute(summary: Figures) -> list[Finding]:
    """The heaviest operation that computes, where copies or communication may take more time than it."""
    group, first = (heaviest_of(summary.heaviest.get(by, [])) for by in ("compute", "operation"))
    if group is None or first is None or group.key == first.key:
        return []
    rows, subject = summary.evidence.get("heaviest.compute", []), {"operation": group.key, "name": group.name}
    figures = (group.total, summary.unit, summary.total, _WORK[summary.work], subject)
    return [Finding("heaviest.compute", "time", *figures, None, {"count": group.count}, rows)]


def _heaviest(groups: Mapping[str, list[Group]]) -> dict[str, Group]:
    """The heaviest operation, unless what has none may take more, and the heaviest kernel, where there are any."""
    heaviest = {by: heaviest_of(groups.get(by, [])) for by in HEAVIEST}
    operation = heaviest["operation"]
    others = max((group.total for group in groups.get("operation", []) if group.key == OTHER), default=0)
    if operation and operation.total < others:
        heaviest["operation"] = None
    return {by: group for by, group in heaviest.items() if group is not None}


def heaviest_of(groups: list[Group]) -> Group | None:
    """The heaviest group that has a name."""
    return max((group for group in groups if group.key != OTHER), key=lambda group: group.total, default=None)


def _use(summary: Figures) -> list[Finding]:
    """How busy the devices are, the least and the most busy of several, and how long they are idle."""
    uses = [use for use in summary.devices if use.span]
    if not uses:
        return []
    if len(uses) == 1:
        facts = [_busy("busy", uses[0])]
    else:
        least, most = (pick(uses, key=lambda use: use.busy / use.span) for pick in (min, max))
        facts = [_busy("busy.least", least, len(uses)), _busy("busy.most", most, len(uses))]
    span, idle = (sum(getattr(use, name) for use in uses) for name in ("span", "idle"))
    details: dict[str, Cell] = {"devices": len(uses)}
    if not _has_compute(summary):
        there = [name for name in ("communication", "copies") if any(getattr(use, name) for use in uses)]
        only: dict[str, Cell] = {"only": " and ".join(there)}
        return [*facts, Finding("no_compute", "compute", 0, "ns", span, _OF_DEVICES, details=details | only)]
    details["causes"] = len(_causes(summary))
    return [*facts, Finding("idle", "time", idle, "ns", span, _OF_DEVICES, details=details)]


def _busy(code: str, use: DeviceUse, devices: int = 1) -> Finding:
    subject: dict[str, Cell] = {"device": use.label, "rank": use.rank, "source": use.source}
    details: dict[str, Cell] = {"devices": devices} if devices > 1 else {}
    return Finding(code, "time", use.busy, "ns", use.span, "the device's time", subject, None, details)


def _steps(summary: Figures) -> list[Finding]:
    """How the steps differ in their time, other than by noise."""
    return steadiness.findings(summary.unsteady, summary.step_times, summary.steps)


def _has_compute(summary: Figures) -> bool:
    """Whether the input has anything that computes.

    A table of copies or a log of collectives has none: it doesn't tell when a device is idle, or what is hidden.
    """
    return any(use.compute for use in summary.devices)


class _Cause(NamedTuple):
    """The idle time of all devices by one cause, the number of gaps, what the host was in, and the longest gaps."""

    time: int
    gaps: int
    hosts: Counter[str]
    rows: list[Evidence]


def _causes(summary: Figures) -> dict[str, _Cause]:
    """The idle time of all devices by cause; empty if it isn't known."""
    answer = summary.proofs.get("idle")
    causes: dict[str, _Cause] = {}
    for one in answer.devices if isinstance(answer, IdleAnswer) else ():
        for cause in one.causes:
            time, gaps, hosts, rows = causes.get(cause.cause, _Cause(0, 0, Counter(), []))
            hosts.update({host.name: host.time for host in cause.host if host.name != LAUNCH_DELAY})
            rows = sorted([*rows, *cause.rows], key=lambda row: -row.time_ns)[:SHOWN]
            causes[cause.cause] = _Cause(time + cause.time, gaps + cause.gaps, hosts, rows)
    return causes


def _has_calls(summary: Figures) -> bool:
    """Whether calls are known to have launched some of the work."""
    answer = summary.proofs.get("idle")
    devices = answer.devices if isinstance(answer, IdleAnswer) else ()
    return any(one.launches or any(cause.cause != "unknown" for cause in one.causes) for one in devices)


def _outside(summary: Figures) -> list[Finding]:
    """What the devices lose before their first and after their last work, in the steps or the recording."""
    uses = [use for use in summary.devices if use.window and use.span]
    windows = [use.window for use in uses if use.window]
    whole, lost = (sum(getattr(one, name) for one in windows) for name in ("whole", "outside"))
    if not lost or not _has_compute(summary) or 100 * lost < _WORTH * whole:
        return []
    steps = max(one.steps for one in windows)
    of = {0: "the recording", 1: "the step"}.get(steps, "the steps")
    hosts = Counter[str]()
    for one in windows:
        hosts[one.host] += one.host_time
    [(host, host_time)] = hosts.most_common(1)
    before, after = (sum(getattr(one, name) for one in windows) for name in ("before", "after"))
    details: dict[str, Cell] = {
        "before_ns": before,
        "after_ns": after,
        "setup_ns": sum(one.setup for one in windows),
        "busy_ns": sum(use.busy for use in uses),
        "steps": steps,
    }
    if host and before >= after:  # it is known of the time before alone
        details |= {"host_was_in": host, "host_time_ns": host_time}
    if not any(one.is_told for one in windows):
        details["host_recorded"] = False
    if any(one.way == steadiness.WARM_UP for one in summary.unsteady) and 2 * before > lost:
        details["warm_up"] = True
    return [Finding("outside", "time", lost, "ns", whole, of, details=details)]


def _losses(summary: Figures) -> list[Finding]:
    """Where the devices lose time, of all their time in the recording."""
    causes, span = _causes(summary), _span(summary)
    if not span:
        return []
    of = _AFTER_SETUP if _set_up(summary) else _RECORDED if any(one in causes for one in _UNSEEN) else _OF_DEVICES
    late = None if _is_taken("straggler", summary) else _straggler(summary, span)
    losses = [_late(late, summary, span, of)] if late else []
    if not _has_compute(summary):
        return losses
    losses += _exposed(summary, late, span, of)
    for cause, (time, gaps, hosts, rows) in sorted(causes.items(), key=lambda item: -item[1].time):
        details: dict[str, Cell] = {"cause": cause, "gaps": gaps}
        for host, host_time in hosts.most_common(1):
            details |= {"host_was_in": host, "host_time_ns": host_time}
        if cause == "unknown":
            details["host_recorded"] = _has_calls(summary)
        code = f"idle.{cause.replace(' ', '_').replace('-', '_')}"
        whole = (sum(use.span for use in summary.devices), _OF_DEVICES) if code == _SETUP else (span, of)
        losses.append(Finding(code, "time", time, "ns", *whole, details=details, evidence=rows))
    return losses


def _span(summary: Figures) -> int:
    """The time of all devices in the recording, without what was set up once, where that matters."""
    causes = _causes(summary)
    unseen = sum(causes[one].time for one in _UNSEEN if one in causes)
    return sum(use.span for use in summary.devices) - unseen - _set_up(summary)


def _set_up(summary: Figures) -> int:
    """The time in which devices waited for what is set up once; 0 where it is a small part of theirs."""
    setup = _causes(summary).get("setup")
    whole = sum(use.span for use in summary.devices)
    return setup.time if setup and 100 * setup.time >= _WORTH * whole else 0


def _late(late: RankUse, summary: Figures, span: int, of: str) -> Finding:
    """The rank that others wait for."""
    subject: dict[str, Cell] = {"rank": late.label, "source": late.source}
    details: dict[str, Cell] = {"last": late.last, "joint": late.joint}
    answer = summary.proofs.get("collective")
    part = answer.part if isinstance(answer, CollectivesAnswer) else None
    if part is not None and part.rank is late:
        subject |= {f"first_{part.unit}": part.first, f"last_{part.unit}": part.last}
    rows: Sequence[Evidence] = answer.late if isinstance(answer, CollectivesAnswer) else ()
    return Finding("straggler", "others waited", _waits(late), "ns", span, of, subject, None, details, rows)


def _waits(late: RankUse | None) -> int:
    """The time that the others waited for a rank."""
    return late.others_waited.total if late and late.others_waited else 0


def _all_waits(summary: Figures, span: int) -> dict[str, Cell]:
    """How long ranks waited for the last of them, where that matters and isn't the same one throughout."""
    answer = summary.proofs.get("collective")
    ranks = answer.ranks if isinstance(answer, CollectivesAnswer) and not _is_taken("straggler", summary) else ()
    ends = (answer.ends or 0.0) if isinstance(answer, CollectivesAnswer) else 0.0
    waits = sum(one.others_waited.total for one in ranks if one.others_waited and one.others_waited.median > ends)
    if 100 * waits < _WORTH * span:
        return {}
    together = answer.late_together if isinstance(answer, CollectivesAnswer) else ()
    return {"ranks_waited_ns": waits} | ({"late_ranks": ", ".join(together)} if together else {})


def _exposed(summary: Figures, late: RankUse | None, span: int, of: str) -> list[Finding]:
    """Communication and copies without compute at the same time, without the waiting for a rank that is late."""
    every = {
        kind: sum(getattr(use, f"exposed_{kind}") for use in summary.devices) for kind in ("communication", "copies")
    }
    every["communication"] -= _waits(late)
    details: Mapping[str, Cell] = {"without_waiting_for_rank": late.label} if late else _all_waits(summary, span)
    return [
        Finding(
            code := f"exposed.{kind}",
            "time",
            time,
            "ns",
            span,
            of,
            details=details if kind == "communication" else {},
            evidence=summary.evidence.get(code, []),
        )
        for kind, time in every.items()
        if time > 0
    ]


def _straggler(summary: Figures, span: int) -> RankUse | None:
    """The rank that the others wait for, where that is proved: throughout the run, or in some steps of it."""
    answer = summary.proofs.get("collective")
    if not isinstance(answer, CollectivesAnswer) or not answer.joint or answer.as_late:
        return None
    rank, part = answer.straggler, answer.part
    if rank is not None and _is_proved(rank, answer.steady, answer, span):
        return rank
    every = sum(one.others_waited.total for one in answer.ranks if one.others_waited)
    if part is None or 2 * _waits(part.rank) < every:  # others are late in other parts
        return None
    return part.rank if _is_proved(part.rank, part.steady, answer, span) else None


def _is_proved(rank: RankUse, steadily: float | None, answer: CollectivesAnswer, span: int) -> bool:
    """Whether a rank is late.

    It is last in most of its collectives, which chance doesn't explain, and throughout the run; the waiting costs a
    part of the devices' time that matters, and is longer than what clocks may differ by.
    """
    if not rank.last or not rank.others_waited:
        return False
    rows, steady = sum(one.joint for one in answer.ranks), steadily or 0.0
    always = _ALWAYS <= rank.joint == rank.last and steady >= _STEADY  # how late it is each time shows more
    sure = rank.others_waited.median > (answer.ends or 0.0) or answer.clocks == "one"
    often = always or _at_least(rank.last, rank.joint, answer.joint / rows) <= _CHANCE
    mostly = rank.last > _MOSTLY * rank.joint and often
    throughout = steady >= _STEADY or rank.last == rank.joint < _FEW
    return sure and mostly and throughout and 100 * rank.others_waited.total >= WAITING * span


def _at_least(count: int, of: int, chance: float) -> float:
    """The probability of at least `count` of `of` by chance."""
    if chance >= 1:
        return 1.0
    logs = (
        math.lgamma(of + 1)
        - math.lgamma(k + 1)
        - math.lgamma(of - k + 1)
        + k * math.log(chance)
        + (of - k) * math.log1p(-chance)
        for k in range(count, of + 1)
    )
    return math.fsum(map(math.exp, logs))


#: The criteria whose keys shapes tell.
_SHOWN_BY = ("kernel", "operation", "library", "precision", "stream", "device", "rank", "source")


def evidence_of(work: Work, labels: Labels, heaviest: dict[str, list[Group]]) -> dict[str, list[Evidence]]:
    """The longest rows of each finding about work, by its code."""
    shapes: dict[str, Bools] = {}
    for name, groups in heaviest.items():
        group, key = heaviest_of(groups), labels.key(name if name in HEAVIEST else "operation")
        if group is not None:
            is_of_group = np.array([key(shape) == group.key for shape in work.shapes], np.bool_)
            shapes[f"heaviest.{name}"] = is_of_group & ((work.roles == COMPUTE) | (name in HEAVIEST))
    evidence: dict[str, list[Evidence]] = {}
    for events in work.each():
        for code, is_of_code in shapes.items():
            evidence.setdefault(code, []).extend(_rows(work, events, np.where(is_of_code[events.shape], events.dur, 0)))
        if work.is_on_devices:
            for kind, times in _without_compute(events):
                evidence.setdefault(f"exposed.{kind}", []).extend(_rows(work, events, times))
    return {code: sorted(rows, key=lambda row: -row.time_ns)[:SHOWN] for code, rows in evidence.items() if rows}


class LongestRows:
    """The longest launches of each shape of work by each grid, and the longest gaps of devices.

    If any work is in steps, only what is there counts.
    """

    def __init__(self, work: Work, labels: Labels, grids: GridTexts) -> None:
        self._grids, self._sources, self._has_ids = grids, work.rows.sources, work.is_on_devices
        self._names = [kernel_of(shape) for shape in work.shapes]
        self._keys = {by: list(map(labels.key(by), work.shapes)) for by in _SHOWN_BY}
        self._launches = [np.zeros((0, 6), np.int64)]  # source, shape, text of the grid, begin, duration, id
        self.gaps: list[Evidence] = []

    def add(self, work: Work, events: Events, is_kind: Bools) -> None:
        """Adds the work of a source that is `is_kind`."""
        rows = np.flatnonzero(is_kind & (events.dur > 0))
        grid = self._grids.number[events.grid] if work.is_on_devices else np.full(len(events), -1, np.int64)
        order = rows[np.lexsort((-events.dur[rows], grid[rows], events.shape[rows]))]
        first = np.flatnonzero(group_start_mask((events.shape[order], grid[order])))
        last = np.append(first[1:], len(order))[: len(first)] - 1
        rows = order[np.unique(np.minimum(first[:, None] + np.arange(SHOWN), last[:, None]))]
        source = np.full(len(rows), self._sources.index(events.source))
        columns = (source, events.shape[rows], grid[rows], events.ts[rows], events.dur[rows], events.ids[rows])
        self._launches.append(np.stack(columns, axis=1))
        if not work.is_on_devices:
            return
        gaps = gaps_of(events)
        for gap in longest(np.where(is_kind[gaps.after], gaps.length, 0)):
            begin, end = int(gaps.begin[gap]), int(gaps.end[gap])
            after = row_shown(work, events, int(gaps.after[gap]), end - begin)
            self.gaps.append(after._replace(begin_ns=begin, end_ns=end))
        self.gaps = sorted(self.gaps, key=lambda row: -row.time_ns)[:SHOWN]

    def of(self, by: str, key: str) -> list[Evidence]:
        """The longest launches of the work with a key of a criterion; none where a shape doesn't tell the key."""
        kernel, _, grid = key.rpartition(OF_GRID) if by == GRID else (key, "", "")
        keys = self._keys.get("kernel" if by == GRID else by)
        if not keys or (grid and grid not in self._grids.texts):
            return []
        launches = np.concatenate(self._launches)
        of_group = np.array([one == kernel for one in keys], np.bool_)[launches[:, 1]]
        if grid:
            of_group &= launches[:, 2] == self._grids.texts.index(grid)
        rows = launches[of_group]
        longest_first = np.lexsort((rows[:, 3], -rows[:, 4]))
        return [self._evidence(*row) for row in rows[longest_first[:SHOWN]].tolist()]

    def _evidence(self, source: int, shape: int, grid: int, begin: int, dur: int, id_: int) -> Evidence:
        event = id_ if self._has_ids else None
        return Evidence(self._sources[source], event, self._names[shape], begin, begin + dur, dur)


def _rows(work: Work, events: Events, times: Int64) -> Iterable[Evidence]:
    """The rows of a source with the greatest of these times."""
    return (row_shown(work, events, row, int(times[row])) for row in longest(times))


def _without_compute(events: Events) -> Iterator[tuple[str, Int64]]:
    """The exposed time of each piece of communication and of each copy, by kind."""
    if not np.any(events.roles != COMPUTE):
        return
    alone = {role: np.zeros(len(events), np.int64) for role in (COMMUNICATION, COPY)}
    for rows in events.rows_of_devices:
        begin, end, roles = events.ts[rows], events.ts[rows] + events.dur[rows], events.roles[rows]
        for role, others in ((COMMUNICATION, roles == COMPUTE), (COPY, roles != COPY)):
            of_role = roles == role
            hidden = Intervals.union(begin[others], end[others])
            alone[role][rows[of_role]] = (
                end[of_role] - begin[of_role] - (hidden.until(end[of_role]) - hidden.until(begin[of_role]))
            )
    yield from (("communication", alone[COMMUNICATION]), ("copies", alone[COPY]))
