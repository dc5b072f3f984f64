"""A comparison in at most three sentences: how much faster or slower, because of what, how sure.

    b takes 4.2% longer than a: 12.3 ms instead of 11.8 ms a step.
    What got slower: softmax +412 us, all_reduce +61.0 us, 82% of all that; gemm -20.1 us goes the other way.
    The change exceeds the noise (8 and 10 steps, q 0.0004).

Every sentence names the figures that it rests on.
"""

from __future__ import annotations

import math

from ktrace.analysis.diff.model import CLEAR, GONE, NEW, NOISE, Change, Diff
from ktrace.analysis.work.keys import OTHER
from ktrace.tables.figures import brief, percent, shortened

#: Changes of the whole below this are "the same", in percent.
_SAME = 0.05

#: How many changes are named, and how many characters of a name are shown.
_NAMED, _WIDTH = 3, 48

#: The part of a change, in percent, that other counts of calls must explain for the amount of work to differ.
_BY_COUNT = 50.0


def verdict(diff: Diff) -> list[str]:
    """Returns the sentences; none where neither side has any work."""
    if not diff.whole.total_a or not diff.whole.total_b:
        return []
    return [sentence for sentence in (_whole(diff), _because(diff), _sure(diff)) if sentence]


def _decisive(diff: Diff) -> Change:
    """The change that decides: of the wall time of a step where it is known, else of all work."""
    return diff.wall or diff.whole


def _whole(diff: Diff) -> str:
    change = _decisive(diff)
    if diff.unit != "ns":
        return f"Only the parts of the whole can be compared, not whether {diff.name_b} is faster than {diff.name_a}."
    if _different_work(diff):
        return _other_amount(diff)
    times = f"{brief(change.total_b)} instead of {brief(change.total_a)}"
    what = " a step" if diff.wall else " of work a step" if diff.per == "step" else " of work"
    if _same(change):
        return f"{diff.name_b} takes as long as {diff.name_a}: {brief(change.total_b)}{what}."
    way = "longer" if change.delta > 0 else "less time"
    return f"{diff.name_b} takes {_much(change)} {way} than {diff.name_a}: {times}{what}."


def _same(change: Change) -> bool:
    return change.percent is not None and abs(change.percent) < _SAME


def _much(change: Change) -> str:
    return f"{abs(change.percent or 0):,.1f}%"


def _different_work(diff: Diff) -> bool:
    """Whether most of the change is that work of both sides was called more or less often.

    Two traces of the same length then differ in their rate, and the one with less work isn't the faster one. Where the
    time of a step is known, it decides instead.
    """
    if diff.wall is not None:
        return False
    rows = _shared(diff)
    by_count = math.fsum(change.from_count or 0.0 for change in rows)
    part = percent(by_count, diff.whole.delta)
    return part is not None and part > _BY_COUNT and abs(percent(by_count, diff.whole.total_a) or 0.0) >= _SAME


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
    if not diff.a.span or not diff.b.span:
        return ""
    a, b = (end - begin for begin, end in (diff.a.span, diff.b.span))
    return f", in {brief(b)} instead of {brief(a)}"


def _calls(count: float | None) -> str:
    return "0" if count is None else f"{count:,.1f}".removesuffix(".0")


def _because(diff: Diff) -> str:
    """The changes that make the difference; those in its direction first."""
    by = next((by for by in ("kernel", "operation", *diff.rows) if diff.rows.get(by)), None)
    if by is None or diff.unit != "ns":
        return ""
    sure = [change for change in diff.rows[by] if change.verdict != NOISE and change.delta]
    if not sure:
        return f"No change by {by} exceeds noise." if _decisive(diff).delta else ""
    if _same(_decisive(diff)):
        return f"The greatest changes by {by}: {_listed(sure)}."
    slower = _decisive(diff).delta > 0
    mine, others = ([change for change in sure if (change.delta > 0) == way] for way in (slower, not slower))
    against = f"; {_listed(others, 1)} goes the other way" if others else ""
    if not mine:
        return f"No change by {by} in this direction exceeds noise{against}."
    part = percent(_sum(_heaviest(mine)), _sum(mine))
    return (
        f"{_work(diff)}What got {'slower' if slower else 'faster'}: {_listed(mine)}, {part:.0f}% of all that{against}."
    )


def _work(diff: Diff) -> str:
    """How the device work changed, where the time of a step decides."""
    if diff.wall is None or _same(diff.whole):
        return ""
    more = "more" if diff.whole.delta > 0 else "less"
    return (
        f"Its work is {_much(diff.whole)} {more} ({brief(diff.whole.total_b)} instead of {brief(diff.whole.total_a)}). "
    )


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
    if change.verdict == CLEAR:
        return f"The change exceeds the noise ({samples}{q})."
    if change.verdict == NOISE:
        return f"The change is within noise ({samples}{q})." if samples else "The change is within noise."
    why = f": {change.why}" if change.why else ""
    return f"Whether the change exceeds noise isn't known{why}."
