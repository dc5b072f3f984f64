"""A comparison in at most three sentences: how much faster or slower, because of what, how sure.

    b takes 4.2% longer than a: 12.3 ms instead of 11.8 ms a step.
    What got slower: softmax +412 us, all_reduce +61.0 us, 82% of all that; gemm -20.1 us goes the other way.
    The change exceeds the noise (8 and 10 steps, q 0.0004).

Steps that don't take equally long are a sentence more for each side.

Every sentence names the figures that it rests on.
"""

from __future__ import annotations

import math

from ktrace.analysis.answers.diff import CLEAR, GONE, NEW, NOISE, UNKNOWN, Change, factor, places, ranks
from ktrace.analysis.answers.diff.comparable import alike
from ktrace.analysis.answers.diff.comparison import Diff, each_percent
from ktrace.analysis.answers.diff.facts import (
    NAMED,
    PART,
    SAME,
    UNLIKE,
    against,
    causes,
    decisive,
    different_work,
    exposed,
    heaviest,
    is_by_count,
    is_doubtful,
    is_idle_doubtful,
    is_idle_named,
    is_waiting,
    is_work_named,
    same,
    shared,
)
from ktrace.analysis.questions.breakdown import NAME as BREAKDOWN
from ktrace.analysis.questions.breakdown import SPOKEN_PARTS
from ktrace.analysis.questions.checks import failures, sentence
from ktrace.analysis.work.gaps import SPOKEN
from ktrace.analysis.work.groups import OTHER, heading_of
from ktrace.analysis.work.steadiness import clause, is_warm_up
from ktrace.tables import brief, percent, shortened

#: How many parts of the time of devices are named.
_PARTS = 4

#: How many characters of a name, and failed checks of a side, are shown.
_WIDTH, _CHECKS = 48, 2


def verdict(diff: Diff) -> list[str]:
    """Returns the sentences; none where neither side has any work."""
    said = []  # first what is wrong with the recordings
    for name, side in ((diff.name_a, diff.a), (diff.name_b, diff.b)):
        said += [f"{name}: {sentence(one)}" for one in failures(side.checks)[:_CHECKS]]
    if not diff.whole.total_a or not diff.whole.total_b:
        return said
    if diff.is_foreign:
        return [*said, alike(diff)]
    because = f"{_lost(diff)}{ranks.said(diff)}{_parts(diff)}" if BREAKDOWN in diff.rows else _because(diff)
    return [*said, *filter(None, (alike(diff), _whole_change(diff), because, *_unsteady(diff), _sure(diff)))]


def _parts(diff: Diff) -> str:
    """Which parts of the time of devices changed beyond noise, the greatest first, with their shares of the change."""
    rows = diff.rows[BREAKDOWN]
    before, whole = (math.fsum(getattr(one, figure) for one in rows) for figure in ("total_a", "delta"))
    least = max(PART / 100 * abs(whole), SAME / 100 * before)
    named = [one for one in rows if one.verdict != NOISE and abs(one.delta) >= least]
    each = " a step" if diff.per == "step" else ""
    if not named:
        return f"No part of the device time{each} changed beyond noise."
    time = diff.device_time
    if abs(whole) < least or (time is not None and time.verdict == NOISE):
        return f"Parts of the device time{each} changed, but not their sum beyond noise: {_listed(named)}."
    same_way, others = ([one for one in named if (one.delta > 0) == way] for way in (whole > 0, whole <= 0))
    said = ", ".join(f"{_listed([one])}, {percent(one.delta, whole):.0f}%" for one in same_way[:_PARTS])
    back = f"{_listed(others, 1)} {'goes the other way' if same_way else 'alone is known'}" if others else ""
    of = f"Of {'+' if whole > 0 else '-'}{brief(abs(whole))} of device time{each}{_on_devices(diff)}"
    return f"{of}: {'; '.join(filter(None, (said, back)))}."


def _unsteady(diff: Diff) -> list[str]:
    """How the steps of each side differ, unless those of both do alike."""
    said = []
    for name, steps, compared in zip((diff.name_a, diff.name_b), diff.unsteady, diff.compared, strict=True):
        for one in steps:
            what = f"{name} isn't steady"
            if diff.unsteady_alike and not is_warm_up(one):
                continue
            if is_warm_up(one):
                set_aside = compared < int(one.details["steps"] or 0)
                what = f"The warm-up of {name} isn't compared" if set_aside else f"{name} begins with a warm-up"
            said.append(f"{what}: {clause(one)}.")
    return said


def _lost(diff: Diff) -> str:
    """A warning that records are missing or lost, so that work and counts may be too low."""
    if not diff.lacking:
        return ""
    which = " and ".join(diff.lacking)
    return f"Records of {which} are lost or wrong, so what a call takes is compared, not counts. "


def _whole_change(diff: Diff) -> str:
    change = decisive(diff)
    if diff.unit != "ns":
        return f"Only the parts of the whole can be compared, not whether {diff.name_b} is faster than {diff.name_a}."
    if different_work(diff):
        return _other_amount(diff)
    work = "" if diff.time else " of work"
    what = f"{work} a step" if diff.per == "step" else work
    if same(change):
        return f"{diff.name_b} takes as long as {diff.name_a}: {brief(change.total_b)}{what}{_but(diff)}."
    noise = ", within noise" if change.verdict == NOISE and not (diff.gate is not None and diff.gate.failed) else ""
    times = f"{_times(change)}{what}{_median(change)}{_but(diff)}"
    if (many := factor(change.total_a, change.total_b)) is not None:
        return f"{diff.name_b} takes {many} times as long as {diff.name_a}{noise}: {times}."
    way = "longer" if change.delta > 0 else "less time"
    return f"{diff.name_b} takes {_much(change)} {way} than {diff.name_a}{noise}: {times}."


def _median(change: Change) -> str:
    """The change of the median step, where a step unlike the others hides it from the average."""
    if change.medians is None:
        return ""
    a, b = change.medians
    median, average = percent(b - a, a), change.percent
    if median is None or average is None or abs(median - average) < max(UNLIKE, abs(median) / 2):
        return ""
    also, way = "but" if median * average < 0 else "and", "longer" if median > 0 else "less"
    return f", {also} the median step {abs(median):,.1f}% {way} ({brief(b)} instead of {brief(a)})"


def _much(change: Change) -> str:
    much = abs(change.percent or 0)
    return f"{much:,.1f}%" if much >= SAME else f"{much:.2g}%"


def _times(change: Change) -> str:
    return f"{brief(change.total_b)} instead of {brief(change.total_a)}"


def _against(diff: Diff) -> list[tuple[str, Change]]:
    """Changes of device time and of work that the time of the whole hides, each in words."""
    words = {
        id(diff.device_time): ("its devices take", "longer", "less time"),
        id(diff.whole): ("its work is", "more", "less"),
    }
    changes = []
    for change in against(diff):
        what, more, less = words[id(change)]
        many = factor(change.total_a, change.total_b)
        how_much = f"{_much(change)} {more if change.delta > 0 else less}"
        if many is not None:
            how_much = f"{many} times as {'long' if more == 'longer' else 'much'}"
        changes.append((f"{what} {how_much}", change))
    return changes


def _doubts(diff: Diff) -> str:
    """What may have changed, where that isn't known: the work, the time of devices, how long they do nothing."""
    said = [f"{words} ({_times(change)})" for words, change in _against(diff) if is_doubtful(change, diff)]
    if (work := _work(diff)) and is_doubtful(diff.whole, diff):
        said.append(work)
    idle = diff.idle
    if idle and is_idle_named(diff) and is_idle_doubtful(diff):
        said.append(f"its idle time is {'more' if idle.delta > 0 else 'less'} ({_times(idle)})")
    return f" That {' and '.join(said)} may be noise." if said else ""


def _but(diff: Diff) -> str:
    """The hidden changes that exceed noise, as a clause after "but"."""
    sure = [(words, change) for words, change in _against(diff) if not is_doubtful(change, diff)]
    said = " and ".join(f"{words} ({_times(change)})" for words, change in sure)
    return f", but {said}" if said else ""


def _other_amount(diff: Diff) -> str:
    """Says that the sides did different amounts of work, in which time, and how the time of a call changed."""
    rows = shared(diff)
    heaviest = max(rows, key=lambda change: abs(change.from_count or 0.0))
    calls = f"{_calls(heaviest.count_b)} calls of {_name(heaviest)} instead of {_calls(heaviest.count_a)}"
    each = diff.other.each if diff.other else 0.0
    way = "longer" if each > 0 else "shorter"
    took = f"{abs(each):.1f}% {way}" if abs(each) >= SAME else "as long as before"
    return (
        f"{diff.name_b} did a different amount of work than {diff.name_a}: {calls}{_spans(diff)}; a call takes {took}."
    )


def _spans(diff: Diff) -> str:
    """The lengths of both traces, where they are known."""
    return f", in {_times(diff.time)}" if diff.time and not diff.wall else ""


def _calls(count: float | None) -> str:
    return "0" if count is None else f"{count:,.1f}".removesuffix(".0")


def _because(diff: Diff) -> str:
    """The changes that make the difference; those in its direction first."""
    cause = causes(diff)
    if cause is None:
        return ""
    by, sure, whole = heading_of(cause.by, diff.b.work), cause.sure, decisive(diff)
    waits, doubts, place = f"{_idle(diff)}{_exposed(diff)}", _doubts(diff), _placed(diff)
    work = "" if is_doubtful(diff.whole, diff) else _work(diff)
    first = f"{_lost(diff)}{ranks.said(diff)}{f'I{work[1:]}. ' if work else ''}{waits}"
    other = "No other change" if ranks.is_late(diff) else "No change"
    also = f" Whether {_listed(cause.doubtful, 1)} exceeds noise isn't known." if cause.doubtful else ""
    if not sure:
        small = f"{SAME:g}% of the work" if cause.least == SAME / 100 * diff.whole.total_a else f"{PART:g}% of that"
        noise = f"both noise and {small}" if cause.others else "noise"
        exceeds = "is known to exceed" if cause.unknown else "exceeds"
        nothing = f"{other} by {by} {exceeds} {noise}." if whole.delta or cause.rows else ""
        return f"{first}{nothing}{also}{doubts}{place}".strip()
    if waits and not is_waiting(diff, sure):  # what kernels do comes first
        first, also = first.removesuffix(waits), f"{also} {waits.strip()}"
    also += doubts + place
    if same(whole) or whole.verdict == NOISE:
        return f"{first}The largest changes by {by}: {_listed(sure)}.{also}"
    slower = whole.delta > 0
    agreeing, others = ([change for change in sure if (change.delta > 0) == way] for way in (slower, not slower))
    back = f"; {_listed(others, 1)} goes the other way" if others else ""
    if not agreeing:
        return f"{first}{other} by {by} in this direction exceeds noise{back}.{also}"
    return f"{first}{_changed_work(diff, agreeing)}{back}.{also}"


def _placed(diff: Diff) -> str:
    """The phase or the pass in which the work changed."""
    place = places.sentence(diff)
    return f" {place}" if place else ""


def _changed_work(diff: Diff, changes: list[Change]) -> str:
    """What got slower, or faster, and what is called more often, or less often, the greatest changes first."""
    slower, named = changes[0].delta > 0, heaviest(changes)
    part = percent(_sum(named), _sum(changes))
    words = ("got slower", "is called more often") if slower else ("got faster", "is called less often")
    said = []
    for by_count, way in zip((False, True), words, strict=True):
        if same_way := [one for one in named if is_by_count(one) == by_count]:
            said.append((abs(same_way[0].delta), f"What {way}{_on_devices(diff)}: {_listed(same_way)}"))
    said.sort(reverse=True)
    return f"{'. '.join(sentence for _, sentence in said)}, {part:.0f}% of all that"


def _work(diff: Diff) -> str:
    """How the device work changed, where the time of a step or of the trace decides."""
    if not is_work_named(diff):
        return ""
    many = factor(diff.whole.total_a, diff.whole.total_b)
    more = f"{many} times as much" if many else f"{_much(diff.whole)} {'more' if diff.whole.delta > 0 else 'less'}"
    return f"its work is {more} ({_times(diff.whole)}{_on_devices(diff)})"


def _on_devices(diff: Diff) -> str:
    """The number of devices that work is summed over, since a step takes the time of one."""
    devices = {len(side.devices) for side in (diff.a, diff.b)}
    return f" on {max(devices):,} devices together" if len(devices) == 1 and max(devices) > 1 else ""


def _idle(diff: Diff) -> str:
    """How long devices do nothing, where that changed by a part of their time that matters."""
    idle = diff.idle
    if not idle or not is_idle_named(diff) or is_idle_doubtful(diff):
        return ""
    who = "Its devices are" if max(len(diff.a.devices), len(diff.b.devices)) > 1 else "Its device is"
    cause = places.idle_cause(diff)
    why = f", most of the change: {SPOKEN.get(cause, cause)}" if cause else ""
    if cause and (host := places.idle_host(diff, cause)):
        why += f", while the CPU was in {shortened(host, _WIDTH)}"
    return f"{who} idle for {_times(idle)}{' a step' if diff.per == 'step' else ''}{why}. "


def _exposed(diff: Diff) -> str:
    """Which copies or collectives lost, or gained, the work beside them."""
    takes = {"copies": "take"}
    return "".join(
        f"Its exposed {what} {takes.get(what, 'takes')} {_times(alone)} a step. " for what, alone in exposed(diff)
    )


def _sum(changes: list[Change]) -> float:
    return math.fsum(abs(change.delta) for change in changes)


def _listed(changes: list[Change], most: int = NAMED) -> str:
    """The largest changes; if something is known about the noise of some, also of which nothing is."""
    mixed = any(change.verdict != UNKNOWN for change in changes)
    return ", ".join(f"{_name(change)} {_delta(change, mixed)}" for change in heaviest(changes)[:most])


def _name(change: Change) -> str:
    name = "work without an operation" if change.key == OTHER else SPOKEN_PARTS.get(change.key, change.key)
    return shortened(name, _WIDTH)


def _delta(change: Change, mixed: bool) -> str:
    sign = "+" if change.delta > 0 else "-"
    notes = [change.verdict] if change.verdict in (NEW, GONE) else []
    notes += ["noise not known"] if change.verdict == UNKNOWN and mixed else []
    if is_by_count(change):
        each = each_percent(change) or 0.0
        notes.append(f"{_calls(change.count_b)} calls instead of {_calls(change.count_a)}")
        notes += [f"each {abs(each):,.1f}% {'longer' if each > 0 else 'shorter'}"] if abs(each) >= PART else []
    also = f" ({', '.join(notes)})" if notes else ""
    return f"{sign}{brief(abs(change.delta))}{also}"


def _sure(diff: Diff) -> str:
    """Whether the whole change exceeds the noise, with the samples."""
    change = decisive(diff)
    if diff.unit != "ns" or not change.delta:
        return ""
    test = change.test
    samples = f"{test.a:,} and {test.b:,} {test.samples}" if test else ""
    q = f", q {test.q:.2g}" if test and test.q is not None else ""
    why = f": {change.why}" if change.why else ""
    if change.verdict == CLEAR:
        by = "Because of its slow steps, the" if test and test.slow == "b" else "The"
        return f"{by} change exceeds the noise ({samples}{q})."
    if change.verdict == NOISE and diff.gate and diff.gate.failed:
        reason = f" ({samples}{q})" if samples else why
        return f"The change of this time doesn't exceed the noise{reason}; {diff.gate.regressions[0]}."
    if change.verdict == NOISE:
        return f"The change is within noise ({samples}{q})." if samples else f"The change is within noise{why}."
    return f"Whether the change exceeds noise isn't known{why}."
