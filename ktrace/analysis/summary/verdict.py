"""A summary in at most three sentences: what takes the time, what devices wait for, what to look at.

    gemm takes the most device time: 26.8% (250 us of 930 us); the heaviest kernel is ncclDevKernel_AllReduce, 23.2%.
    Device 0 is busy for 86.4% of its 962 us and idle for 131 us, in 13 gaps.
    Look first at communication without compute at the same time: 117 us, 12.1% of the devices' time; then at ...

Every sentence names the figures that it rests on. They are those of the whole summary, whatever tables were asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import NamedTuple, Protocol

from ktrace.analysis.collectives.answer import CollectivesAnswer, RankUse
from ktrace.analysis.idle.causes import HostSpan, IdleAnswer
from ktrace.analysis.work.gaps import ON_ITS_WAY
from ktrace.analysis.work.groups import OTHER, DeviceUse, Group
from ktrace.analysis.work.question import Answer
from ktrace.tables.figures import brief, percent, shortened

#: What the verdict names the heaviest of, and the questions whose answers it rests on.
VERDICT = ("operation", "kernel")
PROOFS = ("idle", "collective")

#: How many characters of a name are shown.
_WIDTH = 48

#: What is lost must be at least this part of the time of the devices, in percent, to be looked at first.
_WORTH = 5.0

#: A rank that others wait for is named if that takes this part of the time of the devices, in percent, if it is last in
#: more than this part of its collectives, and more often than chance would have it, with this probability.
_WAITING, _MOSTLY, _CHANCE = 0.5, 0.8, 0.05

#: How steadily it must be late, since collectives of a step aren't independent: with four parts of a run, noise is as
#: steady once in 500 cases (Student's t). In fewer collectives than `_FEW` it may be last each time instead.
#: tests/worlds/test_collectives.py measures both.
_STEADY, _FEW = 8.0, 12

#: What is added up, in words.
_WORK = {"events": "device time", "host": "time of the host", "statistics": "time in the tables"}


#: Why a device is idle, by the cause that `ktrace.analysis.idle` finds, and where to look.
_REASONS = {
    "host late": "the host queued no work",
    "host synchronised": "the host waited for the device before it launched more",
    "dependency": "queued work waited for other work",
    "launch overhead": "of the overhead between launches",
    "between graph nodes": "the nodes of graphs don't follow each other at once",
    "queued before the recording": "the work queued before the recording isn't in the trace",
    "not recorded": "work may have run that the trace lacks",
}
_PLACES = {
    "host late": "the host, which queues too little work",
    "host synchronised": "synchronisations, after which the device has nothing to do",
    "dependency": "what queued work waits for: events, other streams, copies",
    "launch overhead": "the overhead between launches",
    "between graph nodes": "the time between the nodes of graphs",
    "unknown": "the time in which the devices are idle",
}
#: Causes of many short gaps, of which the average tells something.
_BETWEEN = ("launch overhead", "between graph nodes")

#: Idle time that is none: the device did what the trace lacks.
_UNSEEN = "queued before the recording"


class Figures(Protocol):
    """What the verdict is about: these figures of a `Summary`."""

    work: str
    total: float
    unit: str
    devices: list[DeviceUse]
    heaviest: dict[str, list[Group]]
    proofs: dict[str, Answer]

    @property
    def runs(self) -> Sized:
        """The summaries of the runs."""


class Loss(NamedTuple):
    """Time of devices that is lost: ns over all devices, where, more about that, and from what part on it is named."""

    time: float
    where: str
    more: str = ""
    worth: float = _WORTH


def verdict(summary: Figures) -> list[str]:
    """Returns the sentences; none where nothing was counted."""
    if not summary.total:
        return []
    return [sentence for sentence in (_takes(summary), _waits(summary), _look(summary)) if sentence]


def _takes(summary: Figures) -> str:
    """What takes the most time: an operation and a kernel."""
    operation, kernel = _operation(summary), _heaviest(summary.heaviest.get("kernel", []))
    group = operation or kernel
    if group is None or len(summary.runs) > 1:
        return ""
    share = _percent(group.total, summary.total)
    if summary.unit != "ns":
        what = "of the whole" if summary.unit == "%" else "of all counts"
        return f"{_name(group)} makes up {share} {what}."
    also = ""
    if operation and kernel and kernel.key != operation.key and summary.work != "host":
        also = f"; the heaviest kernel is {_name(kernel)}, {_percent(kernel.total, summary.total)}"
    times = f"{share} ({brief(group.total)} of {brief(summary.total)})"
    return f"{_name(group)} takes the most {_WORK[summary.work]}: {times}{also}."


def _operation(summary: Figures) -> Group | None:
    """The heaviest operation, unless a kernel without an operation may take more."""
    groups = summary.heaviest.get("operation", [])
    found = _heaviest(groups)
    others = max((group.total for group in groups if group.key == OTHER), default=0)
    return found if found and found.total >= others else None


def _heaviest(groups: list[Group]) -> Group | None:
    """The heaviest group that has a name."""
    return max((group for group in groups if group.key != OTHER), key=lambda group: group.total, default=None)


def _name(group: Group) -> str:
    return shortened(group.key, _WIDTH)


def _waits(summary: Figures) -> str:
    """How busy the devices are, and why they are idle."""
    uses = [use for use in summary.devices if use.span]
    if not uses:
        return ""
    idle = sum(use.idle for use in uses)
    if len(uses) == 1:
        (use,) = uses
        busy = f"{_label(use)} is busy for {_percent(use.busy, use.span)} of its {brief(use.span)}"
        waits = f"idle for {brief(idle)}" if idle else "never idle"
    else:
        low, high = (pick(uses, key=lambda use: use.busy / use.span) for pick in (min, max))
        least, most = (f"{_percent(use.busy, use.span)} ({use.label})" for use in (low, high))
        busy = f"The {len(uses):,} devices are busy for {least} to {most} of their time"
        waits = f"together idle for {brief(idle)}" if idle else "never idle"
    if not _has_compute(summary):
        only = " and ".join(name for name in ("communication", "copies") if any(getattr(use, name) for use in uses))
        return f"{busy} with {only}; the input has no compute, so the idle time isn't known."
    return f"{busy}, and {waits}{_because(summary, idle)}."


def _has_compute(summary: Figures) -> bool:
    """Whether the input has anything that computes.

    A table of copies or a log of collectives has none: it doesn't tell when a device is idle, or what is hidden.
    """
    return any(use.compute for use in summary.devices)


def _because(summary: Figures, idle: int) -> str:
    """The cause of the most idle time."""
    causes = _causes(summary)
    if not causes or not idle:
        return ""
    cause, found = max(causes.items(), key=lambda one: one[1].time)
    if cause not in _REASONS:
        return ""
    return f", {_percent(found.time, idle)} of it because {_REASONS[cause]}"


class _Cause(NamedTuple):
    """The idle time of all devices by one cause, the number of gaps, and the host's heaviest span in it."""

    time: int
    gaps: int
    span: HostSpan | None


def _causes(summary: Figures) -> dict[str, _Cause]:
    """The idle time of all devices by cause; empty if it isn't known."""
    answer = summary.proofs.get("idle")
    found: dict[str, _Cause] = {}
    for one in answer.devices if isinstance(answer, IdleAnswer) else ():
        for cause in one.causes:
            time, gaps, span = found.get(cause.cause, _Cause(0, 0, None))
            spans = [*([span] if span else []), *(host for host in cause.host if host.name != ON_ITS_WAY)]
            heaviest = max(spans, key=lambda host: host.time, default=None)
            found[cause.cause] = _Cause(time + cause.time, gaps + cause.gaps, heaviest)
    return found


def _label(use: DeviceUse) -> str:
    return use.label[:1].upper() + use.label[1:]


def _look(summary: Figures) -> str:
    """What to look at first, and then: where the most is lost, else what takes the most time."""
    before = _causes(summary).get(_UNSEEN)
    span = sum(use.span for use in summary.devices) - (before.time if before else 0)
    if not span:
        return ""
    losses = sorted(_losses(summary, span), key=lambda one: -one.time)
    worth = [one for one in losses if 100 * one.time >= one.worth * span]
    if worth:
        first, *others = worth
        ranks = [one for one in others if one.worth < _WORTH]
        then = "".join(f"; then at {_lost(one, span)}{one.more if ranks else ''}" for one in (ranks or others)[:1])
        whole = "the devices' time in the recording" if before else "the devices' time"
        return f"Look first at {_lost(first, span)} of {whole}{first.more}{then}."
    heaviest = _operation(summary) or _heaviest(summary.heaviest.get("kernel", []))
    if heaviest is None or not _has_compute(summary):
        return ""
    return f"Little is lost between the work, so look at the work, first at {_name(heaviest)}."


def _lost(loss: Loss, span: int) -> str:
    return f"{loss.where}: {brief(loss.time)}, {_percent(loss.time, span)}"


def _losses(summary: Figures, span: int) -> list[Loss]:
    """Where the devices lose time, of `span` in all."""
    uses = summary.devices
    late = _straggler(summary, span)
    waits = late.others_waited.total if late and late.others_waited else 0
    alone = max(sum(use.exposed_communication for use in uses) - waits, 0)
    rest = f", waiting for rank {late.label} left out" if late else ""
    found = []
    if late:
        often = f"; it is last in {late.last:,} of {late.joint:,} collectives"
        found.append(Loss(waits, f"rank {late.label}, which the others wait for", often, _WAITING))
    if not _has_compute(summary):
        return found
    found += [
        Loss(alone, f"communication without compute at the same time{rest}"),
        Loss(sum(use.exposed_copies for use in uses), "copies without compute at the same time"),
    ]
    causes = _causes(summary)
    if not causes:
        found.append(Loss(sum(use.idle for use in uses), "the time in which the devices are idle"))
    for cause, (time, gaps, longest) in causes.items():
        if cause in _PLACES:
            host = (
                f"; the host was longest in {shortened(longest.name, _WIDTH)}, {brief(longest.time)}" if longest else ""
            )
            average = f", in {gaps:,} gaps of {brief(time / gaps)} on average" if cause in _BETWEEN else ""
            found.append(Loss(time, _PLACES[cause], host or average))
    return found


def _straggler(summary: Figures, span: int) -> RankUse | None:
    """The rank that the others wait for, where that is proved.

    It is last in most of its collectives, which chance doesn't explain, and throughout the run; the waiting costs a
    part of the devices' time that matters, and is longer than what clocks may differ by.
    """
    answer = summary.proofs.get("collective")
    if not isinstance(answer, CollectivesAnswer):
        return None
    rank, rows = answer.straggler, sum(one.joint for one in answer.ranks)
    if rank is None or not rank.last or not rank.others_waited or not answer.joint:
        return None
    chance = _at_least(rank.last, rank.joint, answer.joint / rows)
    sure = rank.others_waited.median > (answer.ends or 0.0) or answer.clocks == "one"
    mostly = rank.last > _MOSTLY * rank.joint and chance <= _CHANCE
    steady = (answer.steady or 0.0) >= _STEADY or rank.last == rank.joint < _FEW
    return rank if sure and mostly and steady and 100 * rank.others_waited.total >= _WAITING * span else None


def _at_least(found: int, of: int, chance: float) -> float:
    """The probability of at least `found` of `of` by chance."""
    if chance >= 1:
        return 1.0
    logs = (
        math.lgamma(of + 1)
        - math.lgamma(k + 1)
        - math.lgamma(of - k + 1)
        + k * math.log(chance)
        + (of - k) * math.log1p(-chance)
        for k in range(found, of + 1)
    )
    return math.fsum(map(math.exp, logs))


def _percent(part: float, whole: float) -> str:
    return f"{percent(part, whole) or 0:.1f}%"
