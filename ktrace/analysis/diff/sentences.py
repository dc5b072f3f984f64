"""A comparison in at most three sentences: how much faster or slower, because of what, how sure.

    b takes 4.2% longer than a: 12.3 ms instead of 11.8 ms a step.
    What got slower: softmax +412 us, all_reduce +61.0 us, 82% of all that; gemm -20.1 us goes the other way.
    The change exceeds the noise (8 and 10 steps, q 0.0004).

Every sentence names the figures that it rests on.
"""

from __future__ import annotations

import math

from ktrace.analysis.diff.changes import CLEAR, GONE, NEW, NOISE, UNKNOWN, Change
from ktrace.analysis.diff.comparison import Diff
from ktrace.analysis.work.groups import OTHER
from ktrace.tables.figures import brief, percent, shortened

#: Changes of the whole below this are "the same", in percent.
_SAME = 0.05

#: How many changes are named, and how many characters of a name are shown.
_NAMED, _WIDTH = 3, 48

#: Changes of idle time and of exposed copies or communication that are named are at least this part of the time of the
#: devices, in percent.
_IDLE = 1.0

#: Changes of the median and of the average that are this far apart, in percent points, are both named, and so are
#: changes of the time and of the work of which nothing is known.
_UNLIKE = 5.0

#: Changes of work that are named are at least this part of a change of the whole, in percent.
_PART = 1.0

#: The part of a change, in percent, that other counts of calls must explain for the amount of work to differ.
_BY_COUNT = 50.0


def verdict(diff: Diff) -> list[str]:
    """Returns the sentences; none where neither side has any work."""
    if not diff.whole.total_a or not diff.whole.total_b:
        return []
    return [sentence for sentence in (_whole(diff), _because(diff), _sure(diff)) if sentence]


def _lost(diff: Diff) -> str:
    """That records are missing, so that less work is no less work done."""
    lacking = [name for name, side in ((diff.name_a, diff.a), (diff.name_b, diff.b)) if side.lost]
    if not lacking:
        return ""
    return f"Records of {' and '.join(lacking)} are lost, so work and counts there may be too low. "


def _decisive(diff: Diff) -> Change:
    """The change that decides: of the time of a step or of the trace where it is known, else of all work."""
    return diff.time or diff.whole


def _whole(diff: Diff) -> str:
    change = _decisive(diff)
    if diff.unit != "ns":
        return f"Only the parts of the whole can be compared, not whether {diff.name_b} is faster than {diff.name_a}."
    if _different_work(diff):
        return _other_amount(diff)
    work = "" if diff.time else " of work"
    what = f"{work} a step" if diff.per == "step" else work
    if _same(change):
        return f"{diff.name_b} takes as long as {diff.name_a}: {brief(change.total_b)}{what}{_but(diff)}."
    way = "longer" if change.delta > 0 else "less time"
    noise = ", within noise" if change.verdict == NOISE else ""
    times = f"{_times(change)}{what}{_median(change)}{_but(diff)}"
    return f"{diff.name_b} takes {_much(change)} {way} than {diff.name_a}{noise}: {times}."


def _median(change: Change) -> str:
    """The change of the median step, where a step unlike the others hides it from the average."""
    if change.medians is None:
        return ""
    a, b = change.medians
    median, average = percent(b - a, a), change.percent
    if median is None or average is None or abs(median - average) < max(_UNLIKE, abs(median) / 2):
        return ""
    also, way = "but" if median * average < 0 else "and", "longer" if median > 0 else "less"
    return f", {also} the median step {abs(median):,.1f}% {way} ({brief(b)} instead of {brief(a)})"


def _same(change: Change) -> bool:
    """Whether a change is too small to speak of, and none that a limit of 0 % would find."""
    return not change.delta or (change.verdict == NOISE and abs(change.percent or 100.0) < _SAME)


def _much(change: Change) -> str:
    much = abs(change.percent or 0)
    return f"{much:,.1f}%" if much >= _SAME else f"{much:.2g}%"


def _times(change: Change) -> str:
    return f"{brief(change.total_b)} instead of {brief(change.total_a)}"


def _against(diff: Diff) -> list[tuple[str, Change]]:
    """The changes of devices that the time of the whole doesn't show, or shows reversed, unless they are noise."""
    every = [("its devices take", "longer", "less time", diff.device_time), ("its work is", "more", "less", diff.whole)]
    return [
        (f"{what} {_much(change)} {more if change.delta > 0 else less}", change)
        for what, more, less, change in every
        if change and change.percent is not None and _hidden(change, _decisive(diff))
    ]


def _is_doubtful(change: Change, diff: Diff) -> bool:
    """Whether a change isn't known to exceed noise, and nothing else of the verdict says so.

    What isn't known of the whole, either, is doubted by the last sentence.
    """
    return change.verdict == UNKNOWN and _decisive(diff).verdict != UNKNOWN


def _doubts(diff: Diff) -> str:
    """What may have changed, where that isn't known: the work, the time of devices, how long they do nothing."""
    said = [f"{words} ({_times(change)})" for words, change in _against(diff) if _is_doubtful(change, diff)]
    if (work := _work(diff)) and _is_doubtful(diff.whole, diff):
        said.append(work)
    idle = diff.idle
    if idle and _is_idle_named(diff) and _is_idle_doubtful(diff):
        said.append(f"its idle time is {'more' if idle.delta > 0 else 'less'} ({_times(idle)})")
    return f" That {' and '.join(said)} may be noise." if said else ""


def _hidden(change: Change, time: Change) -> bool:
    if change is time or change.verdict == NOISE or _same(change):
        return False
    reversed_ = change.delta * time.delta < 0 and abs(change.percent or 0.0) >= _SAME
    if change.verdict == time.verdict == UNKNOWN:  # as two samples always differ, they must do so by much
        reversed_ &= abs((change.percent or 0.0) - (time.percent or 0.0)) >= _UNLIKE
    return _same(time) or time.verdict == NOISE or reversed_


def _but(diff: Diff) -> str:
    """What the time of the whole doesn't show of the devices, where that is known."""
    sure = [(words, change) for words, change in _against(diff) if not _is_doubtful(change, diff)]
    said = " and ".join(f"{words} ({_times(change)})" for words, change in sure)
    return f", but {said}" if said else ""


def _different_work(diff: Diff) -> bool:
    """Whether most of the change is that work of both sides was called more or less often.

    Two traces of the same length then differ in their rate, and the one with less work isn't the faster one. Where the
    time of a step is known, it decides instead.
    """
    if diff.wall is not None:
        return False
    rows = _shared(diff)
    by_count = math.fsum(change.from_count or 0.0 for change in rows)
    part, much = percent(by_count, diff.whole.delta), abs(percent(by_count, diff.whole.total_a) or 0.0)
    rest = abs(diff.time.percent or 0.0) if diff.time else 0.0  # a time that changed by much more has another reason
    return part is not None and part > _BY_COUNT and much >= _SAME and rest <= 2 * much


def _shared(diff: Diff) -> list[Change]:
    """The finest changes of work of both sides whose counts are known."""
    for by in ("kernel", "operation"):
        rows = [change for change in diff.rows.get(by, []) if change.a and change.b and change.from_count is not None]
        if rows:
            return rows
    return []


def _other_amount(diff: Diff) -> str:
    """Says that the sides did different amounts of work, in which time, and how the time of a call changed."""
    rows = _shared(diff)
    heaviest = max(rows, key=lambda change: abs(change.from_count or 0.0))
    calls = f"{_calls(heaviest.count_b)} calls of {_name(heaviest)} instead of {_calls(heaviest.count_a)}"
    alike = math.fsum(change.total_b * (change.count_a or 0) / change.count_b for change in rows if change.count_b)
    before = math.fsum(change.total_a for change in rows)
    each = percent(alike - before, before) or 0.0
    way = "longer" if each > 0 else "shorter"
    took = f"{abs(each):.1f}% {way}" if abs(each) >= _SAME else "as long as before"
    return f"{diff.name_b} did another amount of work than {diff.name_a}: {calls}{_spans(diff)}; a call takes {took}."


def _spans(diff: Diff) -> str:
    """The lengths of both traces, where they are known."""
    return f", in {_times(diff.time)}" if diff.time and not diff.wall else ""


def _calls(count: float | None) -> str:
    return "0" if count is None else f"{count:,.1f}".removesuffix(".0")


def _because(diff: Diff) -> str:
    """The changes that make the difference; those in its direction first."""
    by = next((by for by in ("kernel", "operation", *diff.rows) if diff.rows.get(by)), None)
    if by is None or diff.unit != "ns":
        return ""
    rows = [change for change in diff.rows[by] if change.delta]
    sure = [change for change in rows if change.verdict in (CLEAR, NEW, GONE)]
    decisive = _decisive(diff)
    least = max(_SAME / 100 * diff.whole.total_a, 0 if decisive.verdict == NOISE else _PART / 100 * abs(decisive.delta))
    if rows and all(one.verdict == UNKNOWN for one in (decisive, *rows)):
        sure = rows  # nothing is known about noise, as the last sentence says
    waits, doubts = f"{_idle(diff)}{_exposed(diff)}", _doubts(diff)
    work = "" if _is_doubtful(diff.whole, diff) else _work(diff)
    first = f"{_lost(diff)}{f'I{work[1:]}. ' if work else ''}{waits}"
    small = f"{_SAME:g}% of the work" if least == _SAME / 100 * diff.whole.total_a else f"{_PART:g}% of that"
    noise = f"both noise and {small}" if sure else "noise"
    sure = [change for change in sure if abs(change.delta) >= least or sure is rows]
    unknown = [change for change in rows if change.verdict == UNKNOWN] if sure is not rows else []
    most = max([abs(change.delta) for change in sure], default=_PART / 100 * diff.whole.total_a)
    doubtful = [change for change in unknown if abs(change.delta) > most]
    also = f" Whether {_listed(doubtful, 1)} exceeds noise isn't known." if doubtful else ""
    if not sure:
        known = "is known to exceed" if unknown else "exceeds"
        nothing = f"No change by {by} {known} {noise}." if decisive.delta or rows else ""
        return f"{first}{nothing}{also}{doubts}".strip()
    if waits and not _is_waiting(diff, sure):  # what kernels do comes first
        first, also = first.removesuffix(waits), f"{also} {waits.strip()}"
    also += doubts
    if _same(decisive) or decisive.verdict == NOISE:
        return f"{first}The greatest changes by {by}: {_listed(sure)}.{also}"
    slower = decisive.delta > 0
    mine, others = ([change for change in sure if (change.delta > 0) == way] for way in (slower, not slower))
    against = f"; {_listed(others, 1)} goes the other way" if others else ""
    if not mine:
        return f"{first}No change by {by} in this direction exceeds noise{against}.{also}"
    part = percent(_sum(_heaviest(mine)), _sum(mine))
    way = "slower" if slower else "faster"
    return f"{first}What got {way}: {_listed(mine)}, {part:.0f}% of all that{against}.{also}"


def _work(diff: Diff) -> str:
    """How the device work changed, where the time of a step or of the trace decides."""
    if diff.time is None or diff.whole.verdict == NOISE or not diff.whole.delta or _different_work(diff):
        return ""
    if any(change is diff.whole for _, change in _against(diff)):
        return ""  # the first sentence says it
    more = "more" if diff.whole.delta > 0 else "less"
    return f"its work is {_much(diff.whole)} {more} ({_times(diff.whole)})"


def _is_waiting(diff: Diff, changes: list[Change]) -> bool:
    """Whether idle time is what changed the time, rather than any of these changes of work.

    Where the time is within noise, idle time must make it; else it may be the rest that less work leaves.
    """
    idle, time = diff.idle, _decisive(diff)
    if idle is None or idle.delta * time.delta <= 0:
        return False
    makes = 2 * abs(_of_devices(time, diff)) > abs(idle.delta)
    return (makes or time.verdict != NOISE) and abs(idle.delta) > max(abs(one.delta) for one in changes)


def _of_devices(time: Change, diff: Diff) -> float:
    """The change of a time for all devices together, as idle time is counted."""
    return max(len(diff.a.devices), 1) * time.delta


def _idle(diff: Diff) -> str:
    """How long devices do nothing, where that changed by a part of their time that matters."""
    idle = diff.idle
    if not idle or not _is_idle_named(diff) or _is_idle_doubtful(diff):
        return ""
    who = "Its devices are" if max(len(diff.a.devices), len(diff.b.devices)) > 1 else "Its device is"
    return f"{who} idle for {_times(idle)}{' a step' if diff.per == 'step' else ''}. "


def _is_idle_named(diff: Diff) -> bool:
    """Whether idle time changed by a part that matters, and not within noise, or makes most of a change of the whole.

    The time of the whole may be known to have changed where that of its parts isn't.
    """
    idle, time = diff.idle, _decisive(diff)
    if idle is None or abs(diff.idle_percent or 0.0) < _IDLE:
        return False
    whole = _of_devices(time, diff)
    makes_most = time.verdict == CLEAR and idle.delta * whole > 0 and 2 * abs(idle.delta) > abs(whole)
    return idle.verdict != NOISE or makes_most


def _is_idle_doubtful(diff: Diff) -> bool:
    """Whether idle time may have changed by chance; if the whole changed the same way beyond noise, it didn't."""
    idle, time = diff.idle, _decisive(diff)
    if idle is None or not _is_doubtful(idle, diff):
        return False
    return time.verdict == NOISE or idle.delta * time.delta < 0


def _exposed(diff: Diff) -> str:
    """Which copies or collectives lost, or gained, the work beside them: by a part of the time that matters."""
    time, said = diff.device_time, ""
    for what in ("communication", "copies") if time and diff.per == "step" else ():
        whole, alone = diff.measure(what), diff.measure(f"exposed {what}")
        if not whole or not alone or alone.verdict != CLEAR or abs(alone.delta) < 2 * abs(whole.delta):
            continue
        if time and abs(percent(alone.delta, time.total_a) or 0.0) >= _IDLE:
            said += f"Its exposed {what} {'take' if what == 'copies' else 'takes'} {_times(alone)} a step. "
    return said


def _sum(changes: list[Change]) -> float:
    return math.fsum(abs(change.delta) for change in changes)


def _heaviest(changes: list[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: -abs(change.delta))[:_NAMED]


def _listed(changes: list[Change], most: int = _NAMED) -> str:
    return ", ".join(f"{_name(change)} {_delta(change)}" for change in _heaviest(changes)[:most])


def _name(change: Change) -> str:
    return "work without an operation" if change.key == OTHER else shortened(change.key, _WIDTH)


def _delta(change: Change) -> str:
    sign = "+" if change.delta > 0 else "-"
    also = f" ({change.verdict})" if change.verdict in (NEW, GONE) else ""
    return f"{sign}{brief(abs(change.delta))}{also}"


def _sure(diff: Diff) -> str:
    """Whether the whole change exceeds the noise, with the samples."""
    change = _decisive(diff)
    if diff.unit != "ns" or not change.delta:
        return ""
    test = change.test
    samples = f"{test.a:,} and {test.b:,} {test.samples}" if test else ""
    q = f", q {test.q:.2g}" if test and test.q is not None else ""
    why = f": {change.why}" if change.why else ""
    if change.verdict == CLEAR:
        return f"The change exceeds the noise ({samples}{q})."
    if change.verdict == NOISE:
        return f"The change is within noise ({samples}{q})." if samples else f"The change is within noise{why}."
    return f"Whether the change exceeds noise isn't known{why}."
