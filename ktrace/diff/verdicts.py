"""What is said of a change: clear, within noise, not known; and why.

    steps      totals of steps are compared, where both sides have enough of them
    launches   else single launches, and the totals of the steps that there are must lie apart, too
    neither    not known: statistics only, or too few samples

Enough is what could show something at all: of 20 rows one must reach a p of 0.05 / 20, which takes six steps a side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ktrace.diff.model import CLEAR, GONE, NEW, NOISE, UNKNOWN, Change, Evidence
from ktrace.diff.noise import LEVEL, discoveries, evidence, least_p


def judged(changes: Sequence[Change], *, by_step: bool) -> list[Change]:
    """The changes of one table with what their samples say, and their shares of all that changed.

    `by_step`: totals are those of steps, so that these may be compared.
    """
    both = sum(change.a is not None and change.b is not None for change in changes)
    found = [_evidence(change, by_step, LEVEL / max(both, 1)) for change in changes]
    tested = [place for place, seen in enumerate(found) if seen is not None]
    qs = discoveries([seen.p for seen in found if seen is not None])
    for place, q in zip(tested, qs, strict=True):
        seen = found[place]
        found[place] = None if seen is None else replace(seen, q=q)
    whole = sum(abs(change.delta) for change in changes)
    return [
        _verdict(replace(change, test=seen, share=100 * abs(change.delta) / whole if whole else None), by_step)
        for change, seen in zip(changes, found, strict=True)
    ]


def _evidence(change: Change, by_step: bool, needed: float) -> Evidence | None:
    """What the samples say, None where there are too few for a p as small as `needed`."""
    a, b = change.a, change.b
    if a is None or b is None:
        return None
    if by_step and a.steps is not None and b.steps is not None and least_p(len(a.steps), len(b.steps)) <= needed:
        return evidence("steps", np.sort(a.steps), np.sort(b.steps))
    if a.durations is None or b.durations is None or least_p(len(a.durations), len(b.durations)) > needed:
        return None
    return evidence("launches", a.durations, b.durations)


def _verdict(change: Change, by_step: bool) -> Change:
    verdict, why = _said(change, by_step)
    return replace(change, verdict=verdict, why=why)


def _said(change: Change, by_step: bool) -> tuple[str, str]:
    if change.a is None:
        return NEW, ""
    if change.b is None:
        return GONE, ""
    if not change.delta:
        return NOISE, "no change"
    seen = change.test
    if seen is None:
        return UNKNOWN, _lack(change)
    if seen.samples == "launches" and _mostly_count(change):
        return UNKNOWN, "called more or less often, of which launches say nothing"
    if seen.q is None or seen.q > LEVEL:
        return NOISE, f"{seen.samples}, q {_shown(seen.q)}"
    if seen.ratio is not None and (seen.ratio - 1) * change.delta < 0:
        return UNKNOWN, "the median and the total changed in opposite directions"
    if seen.samples == "launches" and by_step and not _apart(change):
        return NOISE, "totals of steps overlap"
    return CLEAR, f"{seen.samples}, q {_shown(seen.q)}"


def _lack(change: Change) -> str:
    """Why there are no samples to compare."""
    for group in (change.a, change.b):
        if group is not None and group.durations is None and group.steps is None:
            return "statistics only"
    return "too few samples"


def _mostly_count(change: Change) -> bool:
    if change.from_count is None or change.from_duration is None:
        return False
    return abs(change.from_count) > abs(change.from_duration)


def _apart(change: Change) -> bool:
    """Whether the totals of all steps of one side are above all of the other."""
    steps_a = None if change.a is None else change.a.steps
    steps_b = None if change.b is None else change.b.steps
    if steps_a is None or steps_b is None or not len(steps_a) or not len(steps_b):
        return True
    return bool(steps_a.max() < steps_b.min() or steps_b.max() < steps_a.min())


def _shown(q: float | None) -> str:
    return "unknown" if q is None else f"{q:.2g}"
