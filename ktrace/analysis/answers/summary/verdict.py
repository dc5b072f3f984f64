"""Findings in at most three sentences: what takes the time, what devices wait for, what to look at.

First what is wrong with the recording, or keeps a run from going on. Steps that don't take equally long are a
sentence more.

    gemm takes the most device time: 26.8% (250 us of 930 us); the top kernel is ncclDevKernel_AllReduce, 23.2%.
    Device 0 is busy for 86.4% of its 962 us and idle for 131 us, in 13 gaps.
    Look first at exposed communication: 117 us, 12.1% of the devices' time; then at ...

Every sentence names the figures that it rests on: those of `ktrace.analysis.answers.summary.findings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ktrace.analysis.answers.summary import figures
from ktrace.analysis.questions.checks import check_of, failures, is_check, sentence
from ktrace.analysis.questions.collectives.hang import said
from ktrace.analysis.work import steadiness
from ktrace.analysis.work.findings import Finding
from ktrace.analysis.work.gaps import NO_SPAN
from ktrace.naming.short_names import spelled_alike
from ktrace.report import counted
from ktrace.tables import brief, percent, shortened, size

#: How many characters of a name are shown.
_WIDTH = 48

#: Why a device is idle, by the cause that `ktrace.analysis.questions.idle` finds, and where to look.
_REASONS = {
    "host late": "the CPU was late to launch (launch-bound)",
    "host synchronised": "the CPU waited at sync points before it launched more",
    "dependency": "launched work was blocked by other work",
    "launch overhead": "of launch latency",
    "between graph nodes": "there are gaps between the nodes of graphs",
    "queued before the recording": "the work launched before profiling started isn't in the trace",
    "not recorded": "work that the trace lacks may have run",
    "setup": "the host loaded modules or created contexts, once",
}
_PLACES = {
    "host late": "late launches (launch-bound)",
    "host synchronised": "sync points, after which the device has nothing to do",
    "dependency": "blocked work: launched, but waiting for events, other streams or copies",
    "launch overhead": "launch latency",
    "between graph nodes": "the time between the nodes of graphs",
    "setup": "one-time set-up: loading modules, creating contexts",
    "unknown": "idle time of unknown cause",
}
#: Names that many kernels have.
_BARE = ("Kernel", "Kernel2", "device_kernel")

#: Causes of many short gaps, of which the average tells something.
_BETWEEN = ("launch overhead", "between graph nodes")


#: So many findings that are worth a look are listed.
_LOOK = 3

#: So many failed checks are said; `ktrace check` has all.
_SAID = 3


class Said(NamedTuple):
    """The verdict by what its sentences are about; "" is nothing to say.

    `doubts` say what is wrong with the recording, and what keeps a run from going on. `look` are the findings that are
    worth a look, in their order. `benchmarks` are what benchmarks measured, where nothing adds up.
    """

    doubts: list[str]
    benchmarks: list[str]
    memory: str
    takes: str
    waits: str
    steps: list[str]
    look: list[Finding]

    @classmethod
    def of(cls, findings: Sequence[Finding]) -> Said:
        """What these findings say."""
        failed = failures(findings)
        made = [one for one in findings if not is_check(one)]
        by_code = {one.code: one for one in made}
        causes = [one for one in made if one.code.startswith("idle.")]
        order = sorted((one for one in made if one.look), key=lambda one: one.look or 0)
        doubts = [sentence(one) for one in failed[:_SAID]]
        if len(failed) > _SAID:
            doubts.append(f"{len(failed) - _SAID:,} more checks fail: ktrace check lists them.")
        doubts += [said(one) for one in findings if one.code == "hang"][:1]
        steps = [steadiness.sentence(one) for one in made if one.code.startswith("unsteady.")]
        sentences = [figures.sentence(one) for one in made if one.code.startswith("figures.")]
        return cls(doubts, sentences, _memory(by_code), _takes(by_code), _waits(by_code, causes), steps, order)


def verdict(findings: Sequence[Finding], *, look: bool = True) -> list[str]:
    """Returns the sentences, first what is wrong with the recording; none without findings.

    `look` adds what is to be looked at, which `losses` lists.
    """
    said = Said.of(findings)
    begin = (*said.doubts, *said.benchmarks, said.memory, said.takes, said.waits)
    sentences = (*begin, *said.steps, _look(said.look) if look else "")
    return [one for one in sentences if one]


class Loss(NamedTuple):
    """A finding that is worth a look, as a line of a list.

    `remedy` is "" where an earlier line has it, `unknown` what a part of a run can't tell of it.
    """

    share: str
    time: str
    text: str
    remedy: str
    unknown: list[str]


def losses(findings: Sequence[Finding]) -> tuple[str, list[Loss]]:
    """What shares are of, and what is to be looked at, at most three, in their order."""
    look = Said.of(findings).look[:_LOOK]
    lines: list[Loss] = []
    for one in look:
        of = f" (of {one.of})" if one.of not in (look[0].of, "the recording") else ""
        remedy = "" if one.remedy in {line.remedy for line in lines} else one.remedy
        lines.append(Loss(_percent(one), brief(one.value), f"{_in_words(one)}{of}", remedy, unknown_of(one, findings)))
    return look[0].of if look else "", lines


def advice(findings: Sequence[Finding]) -> list[str]:
    """What to do about what is to be looked at first, and what a part of a run can't tell of it."""
    first = next((one for one in findings if one.look == 1), None)
    return [] if first is None else [*([f"Try: {first.remedy}"] if first.remedy else []), *unknown_of(first, findings)]


def unknown_of(one: Finding, findings: Sequence[Finding]) -> list[str]:
    """What can't be told of a finding, since only a part of the run is here."""
    return [
        sentence(check)
        for check in findings
        if is_check(check) and check_of(check).partial and check.code in one.doubts
    ]


def _memory(facts: dict[str, Finding]) -> str:
    """The most that was held at once, where the source tells of memory alone, and who held the most of it."""
    peak, owner = facts.get("memory.peak"), facts.get("memory.owner")
    if peak is None:
        return ""
    where = str(peak.subject["memory"])
    reserved = f" of the {size(peak.whole)} that are reserved" if peak.whole else ""
    several = f", the most of {peak.details['places']:,} places" if int(peak.details["places"] or 1) > 1 else ""
    who = ""
    if owner is not None:
        names = [str(owner.subject[key]) for key in ("module", "operator", "category", "frame") if owner.subject[key]]
        who = f"; {shortened(', '.join(names), _WIDTH)} held the most of it: {size(owner.value)}, {_percent(owner)}"
    return f"{where[:1].upper()}{where[1:]} held at most {size(peak.value)}{reserved}{several}{who}."


def _takes(facts: dict[str, Finding]) -> str:
    """What takes the most time: an operation and a kernel."""
    operation, kernel = facts.get("heaviest.operation"), facts.get("heaviest.kernel")
    first = operation or kernel or facts.get("heaviest.call") or facts.get("heaviest.function")
    if first is None:
        return ""
    if first.unit != "ns":
        return f"{_name(first)} makes up {_percent(first)} of {first.of}."
    also = ""
    if operation and kernel and _name(kernel) not in (operation.subject["operation"], *_BARE):
        also = f"; the top kernel is {_name(kernel)}, {_percent(kernel)}"
    times = f"{_percent(first)} ({brief(first.value)} of {brief(first.whole or 0)})"
    if "runs" in first.details:
        least, most = (float(first.details[key] or 0) for key in ("least_percent", "most_percent"))
        each = f"{least:.1f}% to {most:.1f}%; {times} of all together"
        return f"{_name(first)} takes the most {first.of} in each of the {first.details['runs']:,} runs: {each}."
    return f"{_name(first)} takes the most {first.of}: {times}{also}."


def _name(one: Finding) -> str:
    """The operation, kernel or call that a finding is about; CUTLASS' kernels are told apart by their templates."""
    name = str(next(iter(one.subject.values())))
    if name in _BARE and one.subject.get("name"):
        name = spelled_alike(str(one.subject["name"])).removeprefix("cutlass::")
    return shortened(name, _WIDTH)


def _waits(facts: dict[str, Finding], causes: list[Finding]) -> str:
    """How busy the devices are, and why they are idle."""
    one, least, most = (facts.get(code) for code in ("busy", "busy.least", "busy.most"))
    idle, nothing = facts.get("idle"), facts.get("no_compute")
    if one is not None:
        device, together = str(one.subject["device"]), ""
        busy = f"{_capital(device)} is busy for {_percent(one)} of its {brief(one.whole or 0)}"
    elif least and most:
        ends = " to ".join(f"{_percent(use)} ({use.subject['device']})" for use in (least, most))
        devices, together = least.details["devices"], "together "
        are_alike = _percent(least) == _percent(most)
        each, ends = ("each ", _percent(most)) if are_alike else ("", ends)
        busy = f"The {devices:,} devices are {each}busy for {ends} of their time"
    else:
        return ""
    outside, also = facts.get("outside"), "and "
    if one is not None and outside is not None and outside.look:
        whole = percent(float(outside.details["busy_ns"] or 0), outside.whole) or 0
        span = f"{_percent(one)} of the {brief(one.whole or 0)} from its first to its last work"
        busy = f"{_capital(device)} is busy for {whole:.1f}% of {outside.of}, {brief(outside.whole or 0)}: for {span}"
        also = "where it is "
    if idle is None and nothing is None:
        return f"{busy}."
    if idle is None:
        only = nothing.details["only"] if nothing else ""
        return f"{busy} with {only}; the input has no compute, so the idle time isn't known."
    waits = f"{together}idle for {brief(idle.value)}" if idle.value else "never idle"
    return f"{busy}, {also}{waits}{_because(idle, causes)}."


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _because(idle: Finding, causes: list[Finding]) -> str:
    """The cause of the most idle time, unless that is shown as 0.0%."""
    most = max(causes, key=lambda one: one.value, default=None)
    shown = (percent(idle.value, idle.whole) or 0) >= 0.05
    reason = _REASONS.get(str(most.details["cause"])) if most and shown else None
    return f", {percent(most.value, idle.value) or 0:.1f}% of it because {reason}" if most and reason else ""


#: Time outside of the devices' work is at both ends, if each has this part of it.
_ONE_END = 0.2

#: What is said where the work itself is what to look at.
_LITTLE = "little time is lost between kernels, so look at the kernels"


def _look(order: list[Finding]) -> str:
    """What to look at first, and then: where the most is lost, else what takes the most time."""
    if not order:
        return ""
    first, *others = order
    if first.code.startswith("heaviest."):
        return f"{_capital(_little(first))}, first at {_name(first)}."
    late = [one for one in others if one.code == "straggler"]
    then = "".join(f"; then at {_lost(one)}{_more(one) if late else ''}" for one in (late or others)[:1])
    return f"Look first at {_lost(first)} of {first.of}{_more(first)}{then}."


def _little(one: Finding) -> str:
    """That little is lost beside the heaviest work, but for what a program does once."""
    once = one.details.get("setup_ns")
    return f"apart from {brief(float(once))} of one-time set-up, {_LITTLE}" if once else _LITTLE


def _in_words(one: Finding) -> str:
    """What a finding that is worth a look is about, beside its figures."""
    if one.code.startswith("heaviest."):
        return f"{_name(one)}; {_little(one)}"
    return f"{_place(one)}{_more(one)}"


def _lost(one: Finding) -> str:
    """Where time is lost, and how much."""
    return f"{_place(one)}: {brief(one.value)}, {_percent(one)}"


def _place(one: Finding) -> str:
    """Where time is lost."""
    if one.code == "straggler":
        return f"rank {one.subject['rank']}{late_in(one)}, which the others wait for"
    if one.code.startswith("exposed."):
        late = one.details.get("without_waiting_for_rank")
        without_wait = f", waiting for rank {late} left out" if late is not None else ""
        return f"exposed {one.code.partition('.')[2]}{without_wait}"
    if one.code == "outside":
        whose = "CPU" if one.details.get("host_recorded", True) else "time"
        ends = (("before_ns", "before the first"), ("after_ns", "after the last"))
        where = [words for key, words in ends if float(one.details[key] or 0) >= _ONE_END * one.value]
        once = "" if one.details.get("steps", 1) else ", once in the recording"
        return f"the {whose} {' and '.join(where)} device work{once}"
    return _PLACES[str(one.details.get("cause", "unknown"))]


def late_in(one: Finding) -> str:
    """In which steps a rank is late, or in which of its collectives; "" where it is throughout."""
    for unit in ("step", "collective"):
        if (first := one.subject.get(f"first_{unit}")) is not None:
            return f" in {unit}s {first} to {one.subject.get(f'last_{unit}')}"
    return ""


def _more(one: Finding) -> str:
    """More about what is lost."""
    details = one.details
    if one.code == "straggler":
        there = " there" if late_in(one) else ""
        return f"; it arrives last in {details['last']:,} of {details['joint']:,} collectives{there}"
    if "ranks_waited_ns" in details:
        *ranks, last = str(details.get("late_ranks") or "").split(", ")
        which = f", which is rank {', '.join(ranks)} or {last}" if ranks else ""
        return f"; ranks waited {brief(float(details['ranks_waited_ns'] or 0))} for the last of them{which}"
    if "host_was_in" in details:
        host, time = shortened(str(details["host_was_in"]), _WIDTH), brief(float(details["host_time_ns"] or 0))
        if host == NO_SPAN:
            return f"; for {time} of it the CPU was in no recorded call or range"
        return f"; top CPU activity meanwhile: {host}, {time}"
    if details.get("cause") in _BETWEEN:
        gaps = int(details["gaps"] or 0)
        return f", in {counted(gaps, 'gap')} of {brief(one.value / gaps)} on average"
    return ""


def _percent(one: Finding) -> str:
    return f"{one.share or 0:.1f}%"
