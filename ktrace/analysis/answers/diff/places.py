"""Where in a program the work changed (phase and batch size, or pass), and why devices are idle for longer.

prefill, batch 4    3.82 ms ─► 4.76 ms each      That is in prefill, which takes 24.6% longer at batch 4 and ...
decode, batch 16    318 us  ─► 318 us
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ktrace.analysis.answers.diff import NOISE
from ktrace.analysis.answers.diff.comparison import Diff
from ktrace.analysis.answers.diff.matching import groups_by
from ktrace.analysis.questions.idle import IdleAnswer
from ktrace.analysis.work.findings import Finding
from ktrace.analysis.work.gaps import LAUNCH_DELAY, NO_SPAN
from ktrace.analysis.work.groups import OTHER, Group
from ktrace.stages.select.wanted import step_of
from ktrace.tables import Cell, brief, percent

#: A phase or a pass is named if it makes this part of all changes of these, a cause if of the change of idle time.
_MOST = 0.8
_CAUSE = 0.5

#: Changes below this part of the work, in percent, have no place.
_WORTH = 1.0

#: How many sizes of batches are named.
_SIZES = 3


class _Place(NamedTuple):
    """A phase with a size of batches, or a pass: its time on both sides (of a batch, else of a step or all)."""

    name: str
    size: str
    a: float
    b: float
    delta: float
    is_sure: bool


def findings(diff: Diff) -> list[Finding]:
    """Returns the phase, by batch size, or else the pass of training that makes most of the change of the work."""
    whole = diff.whole.total_a
    if diff.whole.verdict == NOISE or diff.lacking:
        return []
    for code, places in (("phase", _phases(diff)), ("pass", _passes(diff))):
        every = math.fsum(abs(one.delta) for one in places)
        if (percent(every, whole) or 0.0) < _WORTH:
            continue
        for name in dict.fromkeys(one.name for one in places if one.name != OTHER):
            of_name = [one for one in places if one.name == name]
            sure = [one for one in of_name if one.is_sure and one.delta * of_name[0].delta > 0]
            if sum(abs(one.delta) for one in sure) < _MOST * every:
                continue
            sure = sorted(sure, key=lambda one: -abs(one.delta))
            return [_finding(code, one) for one in sure]
    return []


def _finding(code: str, one: _Place) -> Finding:
    details: dict[str, Cell] = {"a_ns": one.a, "b_ns": one.b}
    subject: dict[str, Cell] = {code: one.name, "batch": one.size or None}
    return Finding(f"in.{code}", "time", one.b - one.a, "ns", one.a, "that of a", subject, None, details)


def _phases(diff: Diff) -> list[_Place]:
    """The phases at each size of batches that both sides have; sure are those whose times lie apart."""
    a, b = ({group.key: group for group in groups_by(side, "batch")} for side in (diff.a, diff.b))
    return [_phase(key, a[key], b[key]) for key in a if key in b and a[key].average and b[key].average]


def _phase(key: str, a: Group, b: Group) -> _Place:
    name, _, size = key.partition(", ")
    before, after = float(a.average or 0), float(b.average or 0)
    disjoint = a.durations is not None and b.durations is not None and len(a.durations) > 0 < len(b.durations)
    if disjoint and a.durations is not None and b.durations is not None:
        disjoint = bool(a.durations[-1] < b.durations[0] or b.durations[-1] < a.durations[0])
    times = min(a.count or 0, b.count or 0)
    return _Place(name, size, before, after, (after - before) * times, disjoint)


def _passes(diff: Diff) -> list[_Place]:
    """The passes of training, of a step if steps are compared."""
    if diff.averaged != (1, 1):
        return []
    passes = []
    each: list[float] = [len(side.steps) if diff.per == "step" and side.steps else 1 for side in (diff.a, diff.b)]
    each[1] *= diff.length
    a, b = ({group.key: group.total for group in groups_by(side, "pass")} for side in (diff.a, diff.b))
    for key in a.keys() & b.keys():
        before, after = a[key] / each[0], b[key] / each[1]
        passes.append(_Place(key, "", before, after, after - before, True))
    return passes


def sentence(diff: Diff) -> str:
    """Returns the place of the change in words, "" if none is known."""
    facts = diff.places
    if not facts:
        return ""
    if facts[0].code == "in.pass":
        (one,) = facts[:1]
        each = " a step" if diff.per == "step" else ""
        name = str(one.subject["pass"])
        of = f"the {name} pass" if name in ("forward", "backward") else f"the {name}"
        a, b = (brief(float(one.details[key] or 0)) for key in ("a_ns", "b_ns"))
        return f"Most of the change is in {of}, which takes {b} instead of {a}{each}."
    sizes = [
        f"{abs(one.share or 0):.1f}% {'longer' if one.value > 0 else 'less'}"
        + (f" at {one.subject['batch']}" if one.subject.get("batch") else "")
        for one in facts[:_SIZES]
    ]
    return f"Most of the change is in {facts[0].subject['phase']}, which takes {_and(sizes)}."


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def idle_cause(diff: Diff) -> str:
    """Returns the cause that makes most of the change of idle time, "" if none does, or none is known."""
    a, b = ({group.key: float(group.total) for group in groups_by(side, "idle")} for side in (diff.a, diff.b))
    cause = _most_of_idle(diff, a, b)
    return "" if cause == "unknown" or diff.is_taken(f"idle.{cause.replace(' ', '_')}") else cause


def idle_host(diff: Diff, cause: str) -> str:
    """Returns the call, operator or range of the host that makes most of the change of idle time by a cause.

    "" if none does, or where it is a step, or nothing that has a name.
    """
    times: list[dict[str, float]] = [{}, {}]
    for of_side, side in zip(times, (diff.a, diff.b), strict=True):
        answer = side.answers.get("idle")
        for device in answer.devices if isinstance(answer, IdleAnswer) else ():
            for span in (span for one in device.causes if one.cause == cause for span in one.host):
                of_side[span.name] = of_side.get(span.name, 0.0) + span.time
    name = _most_of_idle(diff, *times)
    return "" if name in (NO_SPAN, LAUNCH_DELAY) or step_of(name.replace("#N", "#0")) is not None else name


def _most_of_idle(diff: Diff, a: dict[str, float], b: dict[str, float]) -> str:
    """Which of these times in ns, by what they are of, makes most of the change of idle time; "" if none does."""
    idle, each = diff.idle, list[float]()
    if idle is None or not idle.delta:
        return ""
    for side, devices in zip((diff.a, diff.b), diff.averaged, strict=True):
        if diff.per == "step":  # idle time is that of a source
            each.append(len(side.steps) * (devices if devices > 1 else max(len(side.sources), 1)))
        else:
            each.append(devices)
    each[1] *= diff.length
    changes = {key: (b.get(key, 0) / each[1] - a.get(key, 0) / each[0]) / idle.delta for key in a | b}
    most = max(changes, key=lambda key: changes[key], default="")
    return most if changes.get(most, 0.0) >= _CAUSE else ""
