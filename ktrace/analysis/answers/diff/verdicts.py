"""Gives each change a verdict (clear, within noise, not known) and a reason.

steps      totals of steps are compared from three steps a side on
launches   single launches are compared if there are no steps, or if these show nothing though their totals lie apart:
           too few for the number of rows in the table; in pairs, too, where both sides have equally many in each step
neither    too few samples to test: within noise if the totals of steps overlap; else, and of statistics, not known

A change of more than half is within noise only if each side by itself varies as much, so that neither few samples nor
the spread of what got slower excuse it.

Pairs are launches at the same places of the same steps:

    step 1   10.1 ─► 10.9   12.0 ─► 13.1   ...     +8 %, +9 %, ...: six parts of each step, as neighbours err alike
    step 2   10.3 ─► 11.2   11.9 ─► 12.8   ...     +9 %, +8 %, ...
    others   step 1 +2 %, step 2 -1 %              a step is slow or fast as a whole: an error of each step, not of each
                                                   part, in whatever direction

So a few steps of many launches show what their totals don't, and what all kernels of a step share isn't taken for the
change of one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from msgspec.structs import replace

from ktrace.analysis.answers.diff import CLEAR, GONE, NEW, NOISE, OPPOSITE, UNKNOWN, Change, Evidence
from ktrace.analysis.answers.diff.noise import (
    FEWEST,
    STEADY,
    Slow,
    evidence,
    evidence_of_steps,
)
from ktrace.analysis.work.groups import Group
from ktrace.analysis.work.steadiness import RUNS, benjamini_hochberg, student_t_p
from ktrace.model.arrays import Float64, Int64
from ktrace.tables import percent

#: The launches of a step are compared in so many parts with those at the same places: neighbours may err alike.
_PARTS = 6


class Pairs:
    """The launches of the rows of a table, in pairs; `ratios` are the logarithms of steps × parts of each row."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.ratios = [_ratios(change) for change in changes]
        there = [place for place, of in enumerate(self.ratios) if of is not None]
        self._row = {place: number for number, place in enumerate(there)}
        means = [of.mean(axis=1) for of in self.ratios if of is not None]
        self._steps: Float64 = np.stack(means) if means else np.zeros((0, 0))
        self._order = np.argsort(self._steps, axis=0)
        self._launches = np.array([_count(changes[place]) for place in there], np.int64)

    def test(self, place: int) -> float | None:
        """Returns the two-sided p of the pairs of a row.

        None unless both sides have equally many launches in equally many steps, at least three in each, and each step
        of one takes longer than that of the other.
        """
        ratios = self.ratios[place]
        if ratios is None or ratios.shape[1] < FEWEST or abs(np.sign(ratios.mean(axis=1)).sum()) < len(ratios):
            return None
        shared, steps = self._shared(self._row[place]), len(ratios)
        variance, common = (
            float((ratios - shared[:, None]).var(ddof=1)) / ratios.size,
            float((shared**2).mean()) / steps,
        )
        freedom = ratios.size - 1
        if variance + common:
            freedom = int((variance + common) ** 2 / (variance**2 / freedom + common**2 / steps))  # Satterthwaite's
        return student_t_p(float(ratios.mean()), variance + common + 2 * RUNS**2, freedom)

    def _shared(self, row: int) -> Float64:
        """Returns by how much each step of all other rows is longer: medians over launches; of one row its own."""
        launches = self._launches.copy()
        launches[row] = 0
        if not launches.any():
            return np.array(self._steps[row])
        reached = np.cumsum(launches[self._order], axis=0)
        middle = np.argmax(2 * reached >= reached[-1], axis=0).tolist()
        return np.array([self._steps[self._order[of, step], step] for step, of in enumerate(middle)], np.float64)


def _ratios(change: Change) -> Float64 | None:
    a, b = (None if side is None else side.places for side in (change.a, change.b))
    if a is None or b is None or a.shape != b.shape or not a.size or min(a.min(), b.min()) <= 0:
        return None
    parts = min(a.shape[1], _PARTS)
    first = np.arange(parts) * a.shape[1] // parts
    one, other = (np.add.reduceat(side.astype(np.float64), first, axis=1) for side in (a, b))
    return np.log(other / one)


def _count(change: Change) -> int:
    return change.a.places.size if change.a is not None and change.a.places is not None else 0


#: The accepted part of chance results among the rows called clear.
LEVEL = 0.015
#: The part of the error that is dealt to the rows of a table by their time; the rest is dealt to all alike.
BY_TIME = 0.8

#: A change by more than this part of the lesser side is large.
LARGE = 0.5

#: Why a change that no test shows isn't called noise.
UNEVEN = "it is large, but the samples vary too much for a test"

#: Why totals of steps that weren't tested are within noise.
OVERLAP = "too few steps to test it, but their totals overlap"


def add_verdicts(
    changes: Sequence[Change],
    *,
    by_step: bool,
    fills: Collection[str] = (),
    others: Sequence[Change] = (),
    untested: Float64 | None = None,
    slow: Slow = STEADY,
) -> list[Change]:
    """Returns the changes of one table with evidence, verdicts, and shares of all changes.

    With `by_step` totals are averages per step, so the totals of steps may be tested; in rows whose keys are in
    `fills`, the first of them has nothing before it. `others` aren't judged, but show what steps have in common.
    `untested` are the times of further rows of the table, without steps, which were found to have no clear change.
    `slow` are the steps of each side that are slow other than by noise.
    """
    nothing: list[Evidence | None] = [None] * len(changes)
    if by_step:
        evidence = _by_launches(changes, _by_steps(changes, fills, slow), others)
    else:
        evidence = _by_launches(changes, nothing, untested=untested)
    whole = sum(abs(change.delta) for change in changes)
    return [
        _verdict(replace(change, test=seen, share=percent(abs(change.delta), whole)), by_step)
        for change, seen in zip(changes, evidence, strict=True)
    ]


def _by_steps(changes: Sequence[Change], fills: Collection[str], slow: Slow) -> list[Evidence | None]:
    """Returns the evidence of the totals of steps, None if there are too few steps to test them."""
    evidence: list[Evidence | None] = []
    for change in changes:
        a, b = _steps(change)
        few = min(len(a), len(b)) < FEWEST
        evidence.append(None if few else evidence_of_steps(a, b, fills=change.key in fills, slow=slow))
    qs = benjamini_hochberg([seen.p if seen else 1.0 for seen in evidence], _weights(changes))
    return [seen and replace(seen, q=q) for seen, q in zip(evidence, qs, strict=True)]


def _by_launches(
    changes: Sequence[Change],
    of_steps: list[Evidence | None],
    others: Sequence[Change] | None = None,
    untested: Float64 | None = None,
) -> list[Evidence | None]:
    """Adds the evidence of launches where totals of steps lie apart, or there are none, but steps give no clear one.

    Without steps, `others` is None. Untested rows count as rows without a change, so that they don't lower the q of the
    others.
    """
    more, ps, by_step = list(of_steps), [1.0] * len(changes), others is not None
    pairs = Pairs([*changes, *others]) if others is not None else None
    for place, (change, seen) in enumerate(zip(changes, of_steps, strict=True)):
        of_pairs = pairs.test(place) if pairs else None
        if (by_step and of_pairs is None and not _steps_disjoint(change)) or (
            seen and (seen.q is None or seen.q <= LEVEL)
        ):
            continue
        a, b = (_launches(group, by_step) for group in (change.a, change.b))
        if a is not None and b is not None and min(len(a), len(b)) >= FEWEST:
            launches = evidence("launches", a, b)
            if of_pairs is not None:  # both together err as often as one
                launches = replace(launches, p=min(1.0, 1.2 * of_pairs, 6 * launches.p))
            more[place], ps[place] = launches, launches.p
    weights = _weights(changes, untested)
    both = zip(more, benjamini_hochberg([*ps, *[1.0] * (len(weights) - len(ps))], weights)[: len(ps)], strict=True)
    return [replace(seen, q=q) if seen and seen.samples == "launches" else seen for seen, q in both]


def _weights(changes: Sequence[Change], untested: Float64 | None = None) -> Float64:
    """Returns the weight of each row, and of those of which only the time is known."""
    times = np.array([change.total_a + change.total_b for change in changes], np.float64)
    return weights_of(times if untested is None else np.append(times, untested))


def weights_of(times: Float64) -> Float64:
    """Returns the weight of rows with these times, 1 on average: what takes long matters, whatever is beside it."""
    whole = math.fsum(times)
    if not whole:
        return np.ones(len(times))
    return BY_TIME * times / whole * len(times) + 1 - BY_TIME


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
    verdict, why = _tested(change, by_step)
    return (UNKNOWN, UNEVEN) if verdict == NOISE and _is_large(change, by_step) else (verdict, why)


def _tested(change: Change, by_step: bool) -> tuple[str, str]:
    """Returns what the test of the samples says of a change of work that both sides have."""
    seen = change.test
    if seen is None:
        return (UNKNOWN, _lack(change)) if _steps_disjoint(change) or not by_step else (NOISE, OVERLAP)
    if seen.samples == "launches" and _mostly_count(change):
        return UNKNOWN, "mostly a change of the count, which launches can't test"
    if seen.q is None or seen.q > LEVEL:
        return NOISE, f"{seen.samples}, q {_shown(seen.q)}"
    if not seen.slow and seen.ratio is not None and (seen.ratio - 1) * change.delta < 0:
        return UNKNOWN, OPPOSITE
    of = f" of {seen.slow}, the slow ones and the others" if seen.slow else ""
    return CLEAR, f"{seen.samples}{of}, q {_shown(seen.q)}"


def _is_large(change: Change, by_step: bool) -> bool:
    """Returns whether the mean changed by more than half, and by more than one of the sides varies by itself."""
    a, b = _steps(change)
    if not by_step or not len(a):
        one, other = (_launches(group, by_step) for group in (change.a, change.b))
        if one is None or other is None:
            return False
        a, b = one.astype(np.float64), other.astype(np.float64)
    low, high = sorted((float(a.mean()), float(b.mean())))
    return high - low > max(LARGE * low, min(float(np.ptp(a)), float(np.ptp(b))))


def _lack(change: Change) -> str:
    """Returns why there are no samples to compare."""
    for group in (change.a, change.b):
        if group is not None and group.durations is None and group.in_steps is None:
            return "statistics only"
    return "too few samples"


def _mostly_count(change: Change) -> bool:
    if change.from_count is None or change.from_duration is None:
        return False
    return abs(change.from_count) > abs(change.from_duration)


def _steps_disjoint(change: Change) -> bool:
    """Returns whether the totals of all steps of one side exceed all of the other, or a side has no steps."""
    a, b = _steps(change)
    return not len(a) or not len(b) or bool(a.max() < b.min() or b.max() < a.min())


def _steps(change: Change) -> tuple[Float64, Float64]:
    """Returns the totals of the steps of both sides; empty if a side has none."""
    return change.steps or (np.zeros(0), np.zeros(0))


def _shown(q: float | None) -> str:
    return "unknown" if q is None else f"{q:.2g}"
