"""What of a comparison is worth naming: facts that its sentences say in words, and the same as findings for programs.

A finding has both values, and what is known of noise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec.structs import replace

from ktrace.analysis.answers.diff import CLEAR, GONE, NEW, NOISE, NOT_LISTED, UNKNOWN, Change, OtherAmount
from ktrace.analysis.answers.diff.comparison import Diff, shown
from ktrace.analysis.answers.diff.places import idle_cause, idle_host
from ktrace.analysis.answers.diff.ranks import is_by_waiting, is_collective, is_late
from ktrace.analysis.answers.diff.verdicts import add_verdicts
from ktrace.analysis.work.findings import Finding, with_look
from ktrace.tables import Cell, percent

#: Changes of the whole below this are "the same", in percent.
SAME = 0.05

#: Changes of idle time and of exposed copies or communication that are named are at least this part of the time of the
#: devices, in percent.
_IDLE = 1.0

#: Changes of the median and of the average that are this far apart, in percent points, are both named, and so are
#: changes of the time and of the work of which nothing is known.
UNLIKE = 5.0

#: Changes of work that are named are at least this part of a change of the whole, in percent.
PART = 1.0

#: The part of a change, in percent, that other counts of calls must explain for the amount of work to differ.
_BY_COUNT = 50.0

#: How many changes are named.
NAMED = 3


class Causes(NamedTuple):
    """The changes of work that make the difference, by kernel if they are known.

    `sure` exceed noise and `least` ns; where nothing is known of any change, they are all. If the time of the whole
    isn't known to be within noise, they have all that is as great, also where nothing is known about its noise.
    `others` exceed noise, too, or may; `unknown` aren't known to, and `doubtful` are those of them that are greater
    than all others and not among `sure`.
    """

    by: str
    rows: list[Change]
    sure: list[Change]
    others: bool
    unknown: list[Change]
    doubtful: list[Change]
    least: float


def causes(diff: Diff) -> Causes | None:
    """The changes of work that are named; None where no times are compared."""
    by = next((by for by in ("kernel", "operation", *diff.rows) if diff.rows.get(by)), None)
    if by is None or diff.unit != "ns" or diff.is_taken("heaviest"):
        return None
    rows = [change for change in diff.rows[by] if change.delta and change.why != NOT_LISTED]
    if diff.lacking:
        rows = add_verdicts([*filter(None, map(_as_often, rows))], by_step=False)
    if is_late(diff):  # collectives take longer by waiting
        rows = [change for change in rows if not _is_collective(change)]
    sure = [change for change in rows if change.verdict in (CLEAR, NEW, GONE)]
    whole = decisive(diff)
    least = max(SAME / 100 * diff.whole.total_a, 0 if whole.verdict == NOISE else PART / 100 * abs(whole.delta))
    every = bool(rows) and all(one.verdict == UNKNOWN for one in (whole, *rows))
    if every:
        return Causes(by, rows, rows, bool(rows), [], [], least)
    named = [change for change in sure if abs(change.delta) >= least]
    unknown = [change for change in rows if change.verdict == UNKNOWN]
    most = max([abs(change.delta) for change in named], default=PART / 100 * diff.whole.total_a)
    doubtful = [change for change in unknown if abs(change.delta) > most]
    if named and whole.verdict == UNKNOWN:
        named, doubtful = [*named, *(change for change in unknown if abs(change.delta) >= least)], []
    return Causes(by, rows, named, bool(sure), unknown, doubtful, least)


def _as_often(change: Change) -> Change | None:
    """What a change would be if B had as many calls as A: where work is missing, counts tell nothing."""
    if not change.count_a or not change.count_b:
        return None
    total = change.total_b * change.count_a / change.count_b
    figures = {"count_b": change.count_a, "from_count": 0.0, "from_duration": total - change.total_a}
    return replace(change, total_b=total, **figures)


def _is_collective(change: Change) -> bool:
    group = change.b or change.a
    return is_collective((group.name if group else None) or change.key)


def against(diff: Diff) -> list[Change]:
    """The changes of devices, and of work, that the time of the whole doesn't show, or shows reversed."""
    whole = decisive(diff)
    device_time = None if diff.is_taken("outside") else diff.device_time  # it is cut where steps begin and end
    every = [change for change in (device_time, None if diff.lacking else diff.whole) if change]
    return [change for change in every if change.percent is not None and hidden(change, whole)]


def is_work_named(diff: Diff) -> bool:
    """Whether the device work changed, where the time of a step or of the trace decides and isn't hiding that."""
    if diff.time is None or diff.whole.verdict == NOISE or not diff.whole.delta or different_work(diff):
        return False
    if diff.lacking:
        return False
    return not any(change is diff.whole for change in against(diff))


def exposed(diff: Diff) -> list[tuple[str, Change]]:
    """Which copies or collectives lost, or gained, the work beside them: by a part of the time that matters."""
    time = diff.device_time
    changes = []
    for what in ("communication", "copies") if time and diff.per == "step" else ():
        whole, alone = diff.measure(what), diff.measure(f"exposed {what}")
        if diff.is_taken(f"exposed.{what}"):
            continue
        if not whole or not alone or alone.verdict != CLEAR or abs(alone.delta) < 2 * abs(whole.delta):
            continue
        if time and abs(percent(alone.delta, time.total_a) or 0.0) >= _IDLE:
            changes.append((what, alone))
    return changes


def decisive(diff: Diff) -> Change:
    """The change that decides: of the time of a step or of the trace where it is known, else of all work."""
    return diff.time or diff.whole


def same(change: Change) -> bool:
    """Whether a change is too small to speak of, and none that a limit of 0 % would find."""
    return not change.delta or (change.verdict == NOISE and abs(change.percent or 100.0) < SAME)


def is_doubtful(change: Change, diff: Diff) -> bool:
    """Whether a change isn't known to exceed noise, and nothing else of the verdict says so.

    What isn't known of the whole, either, is doubted by the last sentence.
    """
    return change.verdict == UNKNOWN and decisive(diff).verdict != UNKNOWN


def hidden(change: Change, time: Change) -> bool:
    if change is time or change.verdict == NOISE or same(change):
        return False
    reversed_ = change.delta * time.delta < 0 and abs(change.percent or 0.0) >= SAME
    if change.verdict == time.verdict == UNKNOWN:  # as two samples always differ, they must do so by much
        reversed_ &= abs((change.percent or 0.0) - (time.percent or 0.0)) >= UNLIKE
    return same(time) or time.verdict == NOISE or reversed_


def different_work(diff: Diff) -> bool:
    """Whether most of the change is that work of both sides was called more or less often.

    Two traces of the same length then differ in their rate, and the one with less work isn't the faster one. Where the
    time of a step is known, it decides instead.
    """
    if diff.wall is not None or diff.length != 1:
        return False
    rows = shared(diff)
    by_count = math.fsum(change.from_count or 0.0 for change in rows)
    part, much = percent(by_count, diff.whole.delta), abs(percent(by_count, diff.whole.total_a) or 0.0)
    of_time = abs(diff.time.percent or 0.0) if diff.time else 0.0  # a time that changed by much more has another reason
    return part is not None and part > _BY_COUNT and much >= SAME and of_time <= 2 * much


def other_amount(diff: Diff) -> OtherAmount | None:
    """The amounts of work, where these differ and no steps tell whether for the same."""
    if not different_work(diff):
        return None
    rows = shared(diff)
    heaviest = max(rows, key=lambda change: abs(change.from_count or 0.0))
    alike = math.fsum(change.total_b * (change.count_a or 0) / change.count_b for change in rows if change.count_b)
    before = math.fsum(change.total_a for change in rows)
    return OtherAmount(heaviest.key, heaviest.count_a or 0, heaviest.count_b or 0, before, alike)


def shared(diff: Diff) -> list[Change]:
    """The finest changes of work of both sides whose counts are known."""
    for by in ("kernel", "operation"):
        rows = [change for change in diff.rows.get(by, []) if change.a and change.b and change.from_count is not None]
        if rows:
            return rows
    return []


def is_waiting(diff: Diff, changes: list[Change]) -> bool:
    """Whether idle time is what changed the time, rather than any of these changes of work.

    Where the time is within noise, idle time must make it; else it may be the rest that less work leaves.
    """
    idle, time = diff.idle, decisive(diff)
    if idle is None or idle.delta * time.delta <= 0:
        return False
    makes = 2 * abs(of_devices(time, diff)) > abs(idle.delta)
    return (makes or time.verdict != NOISE) and abs(idle.delta) > max(abs(one.delta) for one in changes)


def of_devices(time: Change, diff: Diff) -> float:
    """The change of a time for all devices together, as idle time is counted."""
    return max(len(diff.a.devices), 1) * time.delta


def is_idle_named(diff: Diff) -> bool:
    """Whether idle time changed by a part that matters, and not within noise, or makes most of a change of the whole.

    The time of the whole may be known to have changed where that of its parts isn't.
    """
    idle, time = diff.idle, decisive(diff)
    if idle is None or abs(diff.idle_percent or 0.0) < _IDLE or diff.is_taken("idle"):
        return False
    whole = of_devices(time, diff)
    makes_most = time.verdict == CLEAR and idle.delta * whole > 0 and 2 * abs(idle.delta) > abs(whole)
    return idle.verdict != NOISE or makes_most


def is_idle_doubtful(diff: Diff) -> bool:
    """Whether idle time may have changed by chance; if the whole changed the same way beyond noise, it didn't."""
    idle, time = diff.idle, decisive(diff)
    if idle is None or not is_doubtful(idle, diff):
        return False
    return time.verdict == NOISE or idle.delta * time.delta < 0


def is_by_count(change: Change) -> bool:
    """Whether work of both sides changed since it is called more often, or less often, rather than by each call."""
    if change.from_count is None or change.from_duration is None or not change.a or not change.b:
        return False
    return change.from_count * change.delta > 0 and abs(change.from_count) > abs(change.from_duration)


def heaviest(changes: list[Change], most: int = NAMED) -> list[Change]:
    """The largest changes."""
    return sorted(changes, key=lambda change: -abs(change.delta))[:most]


#: How many changes of work, certain and doubtful, become findings.
_MOST, _DOUBTFUL = 10, 3


def findings(diff: Diff) -> list[Finding]:
    """Returns the facts: the change that decides, those it doesn't show, and what makes the difference.

    The changes of work, of idle time and of what nothing hides have their place among what to look at first as `look`,
    and so has a rank that others wait for.
    """
    facts = [
        replace(one, subject={"side": name, **one.subject})
        for name, side in (("a", diff.a), ("b", diff.b))
        for one in side.checks
    ]
    if not diff.whole.total_a or not diff.whole.total_b:
        return facts
    if diff.is_foreign:
        return [*facts, *diff.differences]
    facts += [*diff.differences, _of("time" if diff.time else "work", decisive(diff), diff)]
    if diff.unit != "ns":
        return facts
    for name, unsteady in zip("ab", diff.unsteady, strict=True):
        facts += [replace(one, subject={"side": name, **one.subject}) for one in unsteady]
    facts += diff.of_ranks
    codes = {id(diff.device_time): "device_time", id(diff.whole): "work"}
    facts += [_of(codes[id(change)], change, diff) for change in against(diff)]
    facts += [_of("work", diff.whole, diff)] if is_work_named(diff) else []
    if diff.idle and is_idle_named(diff):
        idle, cause = _of("idle", diff.idle, diff), idle_cause(diff)
        host = {"host_was_in": name} if cause and (name := idle_host(diff, cause)) else {}
        facts.append(replace(idle, details={**idle.details, "cause": cause} | host) if cause else idle)
    facts += diff.places
    facts += [_of(f"exposed.{what}", alone, diff) for what, alone in exposed(diff)]
    facts += [_amount(diff)] if different_work(diff) else []
    for name, side in (("a", diff.a), ("b", diff.b)):
        if side.lost:
            facts.append(Finding("records_lost", "side", 1, "count", subject={"side": name}))
    return _ranked([*facts, *_changes(diff)], diff)


#: Times of a step that are averages of a source, beside work, which is the sum over all.
_OF_SOURCE = ("idle", "exposed.communication", "exposed.copies")


def _ranked(facts: list[Finding], diff: Diff) -> list[Finding]:
    """The findings, with the place of those that are worth a look, the greatest change first."""
    sources = max(len(diff.a.sources), 1) if diff.per == "step" and diff.averaged == (1, 1) else 1
    of_ranks = ("straggler", "collectives.transfer", *(["collectives.waiting"] if is_by_waiting(diff) else []))
    sizes = {}
    for place, one in enumerate(facts):
        if one.look or one.code in of_ranks:
            sizes[place] = abs(one.value)
        elif one.code in _OF_SOURCE and not (one.code == "idle" and is_idle_doubtful(diff)):
            sizes[place] = abs(one.value) * sources
    return with_look(facts, [facts[place] for place in sorted(sizes, key=lambda place: -sizes[place])])


def _changes(diff: Diff) -> list[Finding]:
    """The changes of work, the greatest first; then those of which it isn't known whether they exceed noise."""
    named = causes(diff)
    if named is None:
        return []
    code = {id(one): f"change.{one.verdict.replace(' ', '_')}" for one in (*named.sure, *named.doubtful)}
    first = [_of(code[id(one)], one, diff, named.by, look) for look, one in enumerate(heaviest(named.sure, _MOST), 1)]
    return first + [_of(code[id(one)], one, diff, named.by) for one in heaviest(named.doubtful, _DOUBTFUL)]


def _of(code: str, change: Change, diff: Diff, by: str = "work", look: int | None = None) -> Finding:
    """A change: the value is the difference, the whole what it was before."""
    suffix = "_ns" if diff.unit == "ns" else "_percent"
    details: dict[str, Cell] = {f"a{suffix}": change.total_a, f"b{suffix}": change.total_b, "noise": change.verdict}
    if change.medians:
        details |= {f"median_a{suffix}": change.medians[0], f"median_b{suffix}": change.medians[1]}
    if change.from_count is not None:
        details |= {"count_a": change.count_a, "count_b": change.count_b}
        details |= {f"by_count{suffix}": change.from_count, f"by_duration{suffix}": change.from_duration}
    if change.test:
        details |= {"samples": change.test.samples, "samples_a": change.test.a, "samples_b": change.test.b}
        details |= {"q": change.test.q} if change.test.q is not None else {}
    details |= {"why": change.why} if change.why else {}
    details |= {"of_changes_percent": change.share} if by != "work" and change.share is not None else {}
    rows = shown(change, diff.a, diff.b, None if by == "work" else by)
    details |= {"evidence_of": "b" if change.delta > 0 else "a"} if rows else {}
    metric, of = ("time a step", "the step of a") if diff.per == "step" else ("time", "the time of a")
    if diff.unit != "ns":
        metric, of = "share", "the share of a"
    return Finding(code, metric, change.delta, diff.unit, change.total_a, of, {by: change.key}, look, details, rows)


def _amount(diff: Diff) -> Finding:
    """The finding that the sides did different amounts of work: the calls of what changed the most by them."""
    most = max(shared(diff), key=lambda change: abs(change.from_count or 0.0))
    a, b = most.count_a or 0, most.count_b or 0
    details: dict[str, Cell] = {"count_a": a, "count_b": b, "by_count_ns": most.from_count}
    return Finding(
        "another_amount_of_work", "calls", b - a, "count", a, "the calls of a", {"work": most.key}, None, details
    )
