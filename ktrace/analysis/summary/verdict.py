"""A summary in at most three sentences: what takes the time, what devices wait for, what to look at.

    gemm takes the most device time: 26.8% (250 us of 930 us); the heaviest kernel is ncclDevKernel_AllReduce, 23.2%.
    Device 0 is busy for 86.4% of its 962 us and idle for 131 us, in 13 gaps.
    Look at communication first: 117 us of it (12.1%) have no compute at the same time.

Every sentence names the figures that it rests on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ktrace.analysis.collectives.model import CollectivesAnswer
from ktrace.analysis.idle.model import HostSpan, IdleAnswer
from ktrace.analysis.roofline.answer import RooflineAnswer
from ktrace.analysis.work.keys import OTHER
from ktrace.tables.figures import brief, percent, shortened

if TYPE_CHECKING:
    from ktrace.analysis.summary.model import Summary
    from ktrace.analysis.work.model import DeviceUse, Group

#: What the verdict names the heaviest of.
VERDICT = ("operation", "kernel")

#: How many characters of a name are shown.
_WIDTH = 48

#: What is lost must be at least this part of the time of the devices, in percent, to be looked at first.
_WORTH = 5.0

#: What is added up, in words.
_WORK = {"events": "device time", "host": "time of the host", "statistics": "time in the tables"}


#: Why a device is idle, by the cause that `ktrace.analysis.idle` finds, and where to look.
_REASONS = {
    "host late": "the host queued no work",
    "host synchronised": "the host waited for the device before it launched more",
    "dependency": "queued work waited for other work",
    "launch overhead": "of the overhead between launches",
}
_PLACES = {
    "host late": "the host, which queues too little work",
    "host synchronised": "synchronisations, after which the device has nothing to do",
    "dependency": "what queued work waits for: events, other streams, copies",
    "launch overhead": "the overhead between launches",
    "unknown": "the time in which the devices are idle",
}


class Loss(NamedTuple):
    """Time of devices that could be saved: ns over all devices, where it is lost, and more about that."""

    time: float
    where: str
    more: str = ""


def verdict(summary: Summary) -> list[str]:
    """Returns the sentences; none where nothing was counted."""
    if not summary.total:
        return []
    return [sentence for sentence in (_takes(summary), _waits(summary), _look(summary)) if sentence]


def _takes(summary: Summary) -> str:
    """What takes the most time: an operation and a kernel."""
    operation, kernel = (_heaviest(summary.heaviest.get(by, [])) for by in VERDICT)
    others = [group.total for group in summary.heaviest.get("operation", []) if group.key == OTHER]
    if operation and max(others, default=0) > operation.total:
        operation = None  # a kernel without an operation may take more
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


def _heaviest(groups: list[Group]) -> Group | None:
    """The heaviest group that has a name."""
    return max((group for group in groups if group.key != OTHER), key=lambda group: group.total, default=None)


def _name(group: Group) -> str:
    return shortened(group.key, _WIDTH)


def _waits(summary: Summary) -> str:
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
    return f"{busy}, and {waits}{_because(summary, idle)}."


def _because(summary: Summary, idle: int) -> str:
    """The cause of the most idle time."""
    causes = _causes(summary)
    if not causes or not idle:
        return ""
    cause, found = max(causes.items(), key=lambda one: one[1].time)
    if cause == "unknown":
        return ""
    return f", {_percent(found.time, idle)} of it because {_REASONS[cause]}"


class _Cause(NamedTuple):
    """The idle time of all devices by one cause, the number of gaps, and the host's heaviest span in it."""

    time: int
    gaps: int
    span: HostSpan | None


def _causes(summary: Summary) -> dict[str, _Cause]:
    """The idle time of all devices by cause; empty if it isn't known."""
    answer = summary.answers.get("idle")
    found: dict[str, _Cause] = {}
    for one in answer.devices if isinstance(answer, IdleAnswer) else ():
        for cause in one.causes:
            time, gaps, span = found.get(cause.cause, _Cause(0, 0, None))
            spans = [*([span] if span else []), *(host for host in cause.host if host.kind)]
            heaviest = max(spans, key=lambda host: host.time, default=None)
            found[cause.cause] = _Cause(time + cause.time, gaps + cause.gaps, heaviest)
    return found


def _label(use: DeviceUse) -> str:
    return use.label[:1].upper() + use.label[1:]


def _look(summary: Summary) -> str:
    """What to look at first: where the most is lost, else what takes the most time."""
    span = sum(use.span for use in summary.devices)
    if not span:
        return ""
    loss = max(_losses(summary), key=lambda one: one.time, default=None)
    if loss is not None and 100 * loss.time >= _WORTH * span:
        time = f"{brief(loss.time)}, {_percent(loss.time, span)} of the devices' time"
        return f"Look first at {loss.where}: {time}{loss.more}."
    heaviest = _heaviest(summary.heaviest.get("operation", [])) or _heaviest(summary.heaviest.get("kernel", []))
    if heaviest is None:
        return ""
    saved = _percent(heaviest.total / 10, summary.total)
    work = f"a tenth off {_name(heaviest)} saves {saved} of it{_reached(summary, heaviest.key)}"
    return f"Little is lost between the work, so look at the work: {work}."


def _reached(summary: Summary, operation: str) -> str:
    """How much of what the device can do an operation reaches, where that is known."""
    answer = summary.answers.get("roofline")
    rates = answer.operations if isinstance(answer, RooflineAnswer) else []
    rate = next((rate for rate in rates if rate.key == operation and rate.reached is not None), None)
    return "" if rate is None else f"; it reaches {rate.reached:.1f}% of what {rate.bound} allows"


def _losses(summary: Summary) -> list[Loss]:
    """Where the devices lose time."""
    uses = summary.devices
    found = [
        Loss(
            sum(use.exposed_communication for use in uses),
            "communication without compute at the same time",
            _straggler(summary),
        ),
        Loss(sum(use.exposed_copies for use in uses), "copies without compute at the same time"),
    ]
    causes = _causes(summary)
    if not causes:
        found.append(Loss(sum(use.idle for use in uses), "the time in which the devices are idle"))
    for cause, (time, gaps, span) in causes.items():
        host = f"; the host was longest in {shortened(span.name, _WIDTH)}, {brief(span.time)}" if span else ""
        average = f", in {gaps:,} gaps of {brief(time / gaps)} on average" if cause == "launch overhead" else ""
        found.append(Loss(time, _PLACES[cause], host or average))
    return found


def _straggler(summary: Summary) -> str:
    """The rank that the others wait for, where it is known."""
    answer = summary.answers.get("collective")
    rank = answer.straggler if isinstance(answer, CollectivesAnswer) else None
    if rank is None or not rank.last or not rank.others_waited:
        return ""
    often = f"last in {rank.last:,} of {rank.joint:,}"
    return f"; rank {rank.label} is {often}, and the others waited {brief(rank.others_waited.total)} for it"


def _percent(part: float, whole: float) -> str:
    return f"{percent(part, whole) or 0:.1f}%"
