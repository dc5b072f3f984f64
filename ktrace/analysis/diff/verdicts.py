"""Gives each change a verdict (clear, within noise, not known) and a reason.

steps      totals of steps are compared if a test of them can show anything (from four steps a side on)
launches   single launches are compared if there are no steps, or too few for the number of rows in the table; in the
           latter case the totals of the steps must lie apart, too
neither    not known: statistics only, or too few samples
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ktrace.analysis.diff.model import CLEAR, GONE, NEW, NOISE, UNKNOWN, Change, Evidence
from ktrace.analysis.diff.noise import LEVEL, discoveries, evidence, evidence_of_steps, least_p
from ktrace.analysis.work.model import Group
from ktrace.model.arrays import Float64, Int64
from ktrace.tables.figures import percent

#: Why nothing is known of a change whose launches and total disagree.
OPPOSITE = "the median and the total changed in opposite directions"


def judged(changes: Sequence[Change], *, by_step: bool) -> list[Change]:
    """Returns the changes of one table with evidence, verdicts, and shares of all changes.

    With `by_step` totals are averages per step, so the totals of steps may be tested.
    """
    nothing: list[Evidence | None] = [None] * len(changes)
    found = _by_launches(changes, _by_steps(changes) if by_step else nothing, by_step)
    whole = sum(abs(change.delta) for change in changes)
    return [
        _verdict(replace(change, test=seen, share=percent(abs(change.delta), whole)), by_step)
        for change, seen in zip(changes, found, strict=True)
    ]


def _by_steps(changes: Sequence[Change]) -> list[Evidence | None]:
    """Returns the evidence of the totals of steps, None if there are too few steps for a p of `LEVEL`, and none is."""
    found: list[Evidence | None] = []
    for change in changes:
        a, b = _steps(change)
        seen = evidence_of_steps(a, b) if len(a) and len(b) else None
        found.append(seen if seen and (seen.p <= LEVEL or least_p(len(a), len(b)) <= LEVEL) else None)
    qs = discoveries([seen.p if seen else 1.0 for seen in found])
    return [seen and replace(seen, q=q) for seen, q in zip(found, qs, strict=True)]


def _by_launches(changes: Sequence[Change], found: list[Evidence | None], by_step: bool) -> list[Evidence | None]:
    """Adds the evidence of launches where steps give none, or no clear one although their totals lie apart.

    Untested rows count as rows without a change, so that they don't lower the q of the others.
    """
    more, ps = list(found), [1.0] * len(changes)
    for place, (change, seen) in enumerate(zip(changes, found, strict=True)):
        apart = _apart(change) or not by_step
        if seen is not None and (seen.q is None or seen.q <= LEVEL or not apart):
            continue
        a, b = (_launches(group, by_step) for group in (change.a, change.b))
        if a is not None and b is not None and least_p(len(a), len(b)) <= LEVEL:
            launches = evidence("launches", a, b)
            more[place], ps[place] = launches, launches.p if apart else 1.0
    both = zip(more, discoveries(ps), strict=True)
    return [replace(seen, q=q) if seen and seen.samples == "launches" else seen for seen, q in both]


def _launches(group: Group | None, by_step: bool) -> Int64 | None:
    """Returns the durations of the launches that are compared, None if they aren't known."""
    if group is None:
        return None
    return group.inside if by_step and group.inside is not None else group.durations


def _verdict(change: Change, by_step: bool) -> Change:
    verdict, why = _judge(change, by_step)
    return replace(change, verdict=verdict, why=why)


def _judge(change: Change, by_step: bool) -> tuple[str, str]:
    if change.a is None:
        return NEW, ""
    if change.b is None:
        return GONE, ""
    if not change.delta:
        return NOISE, "no change"
    seen = change.test
    if seen is None:
        return UNKNOWN, _lack(change)
    if seen.samples == "launches" and by_step and not _apart(change):
        return NOISE, "totals of steps overlap"
    if seen.samples == "launches" and _mostly_count(change):
        return UNKNOWN, "mostly a change of the count, which launches can't test"
    if seen.q is None or seen.q > LEVEL:
        return NOISE, f"{seen.samples}, q {_shown(seen.q)}"
    if seen.ratio is not None and (seen.ratio - 1) * change.delta < 0:
        return UNKNOWN, OPPOSITE
    return CLEAR, f"{seen.samples}, q {_shown(seen.q)}"


def _lack(change: Change) -> str:
    """Returns why there are no samples to compare."""
    for group in (change.a, change.b):
        if group is not None and group.durations is None and group.steps is None:
            return "statistics only"
    return "too few samples"


def _mostly_count(change: Change) -> bool:
    if change.from_count is None or change.from_duration is None:
        return False
    return abs(change.from_count) > abs(change.from_duration)


def _apart(change: Change) -> bool:
    """Returns whether the totals of all steps of one side exceed all of the other, or a side has no steps."""
    a, b = _steps(change)
    return not len(a) or not len(b) or bool(a.max() < b.min() or b.max() < a.min())


def _steps(change: Change) -> tuple[Float64, Float64]:
    """Returns the totals of the steps of both sides; empty if a side has none."""
    if change.a is None or change.b is None or change.a.steps is None or change.b.steps is None:
        return np.zeros(0), np.zeros(0)
    return change.a.steps, change.b.steps


def _shown(q: float | None) -> str:
    return "unknown" if q is None else f"{q:.2g}"
