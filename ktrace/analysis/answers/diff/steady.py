"""The steps of a side that aren't like the others: a warm-up is set apart, slow ones are compared with the others.

Those whose work was still queued when the recording ended aren't compared, either.

    a   1.04  1.04  1.04  1.04  1.04  1.04 ms
    b   3.04  1.04  1.04  1.34  1.34  1.34 ms     #0 isn't compared; #3, #4, #5 take longer than #1, #2

Otherwise the spread of a side whose steps differ would pass for its noise, and hide by how much they take longer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ktrace.analysis.answers.diff.noise import FEWEST, Slow
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.work.findings import Finding
from ktrace.analysis.work.groups import Group, InSteps
from ktrace.analysis.work.steadiness import WARM_UP, Unsteady, findings
from ktrace.model.arrays import Bools

#: Slow steps of one side are alike those of the other, if they cost more than this part of what those cost.
_ALIKE = 0.5


class Steps(NamedTuple):
    """The steps of a side that are `compared`, in which way some of these are `slow`, and the findings on all.

    The work of so many at the end was still `queued` when the recording ended.
    """

    compared: Bools
    slow: Unsteady | None
    found: list[Finding]
    queued: int = 0

    def of(self, side: Summary) -> Summary:
        """Returns the summary with the compared steps only, as far as a comparison uses steps."""
        if self.compared.all():
            return side
        left_out = {label for label, there in zip(side.steps, self.compared.tolist(), strict=True) if not there}
        groups = {by: [self.of_group(group) for group in of] for by, of in side.groups.items()}
        if "step" in groups:
            groups["step"] = [group for group in groups["step"] if group.key not in left_out]
        steps = [label for label in side.steps if label not in left_out]
        use = [use for use in side.step_use if use.label not in left_out]
        return replace(side, groups=groups, steps=steps, step_use=use)

    def of_group(self, group: Group) -> Group:
        """Returns a group with what it has in the compared steps."""
        if self.compared.all() or group.in_steps is None:
            return group
        of, places, inside = group.in_steps, group.places, group.inside
        kept = self.compared[of.number]
        number = (np.cumsum(self.compared) - 1)[of.number[kept]]
        count = None if of.count is None else of.count[kept]
        if places is not None:
            places = places[self.compared]
            inside = np.sort(places, axis=None)
        in_steps = InSteps(int(self.compared.sum()), number, of.time[kept], count)
        return replace(group, in_steps=in_steps, places=places, inside=inside)


def steps_of(side: Summary) -> Steps:
    """Returns the steps of a side; a warm-up isn't compared if enough others are left."""
    queued = _queued(side)
    unsteady, compared, slow = side.unsteady, ~queued, None
    for one in unsteady:
        if one.way == WARM_UP and (compared & ~one.slow).sum() >= FEWEST:
            compared &= ~one.slow
        elif one.way != WARM_UP:
            slow = one
    return Steps(compared, slow, findings(unsteady, side.step_times, side.steps), int(queued.sum()))


def _queued(side: Summary) -> Bools:
    """Which steps at the end have no work, or not all of it, as it was still queued when the recording ended."""
    queued = np.zeros(len(side.steps), np.bool_)
    with_work = np.flatnonzero(side.of_steps("span") > 0) if side.step_use else np.zeros(0, np.int64)
    if any(one.code == "check.queued_at_end" for one in side.checks) and len(with_work) > FEWEST:
        queued[with_work[-1] :] = True
    return queued


def slow_of(a: Steps, b: Steps) -> Slow:
    """Returns which of the compared steps of both sides are slow.

    A period says nothing if the other side has too few steps to show it.
    """
    one, other = (
        side.slow.slow[side.compared] if side.slow and len(others.compared) >= 2 * (side.slow.every or 0) else None
        for side, others in ((a, b), (b, a))
    )
    if a.slow is None or b.slow is None or a.slow.way != b.slow.way:
        return Slow(one, other)
    low, high = sorted((_cost(a.slow), _cost(b.slow)))
    return Slow(one, other, alike=low > _ALIKE * high)


def _cost(one: Unsteady) -> float:
    """How many ns slow steps add to the average step."""
    return float(one.slow.mean()) * (one.time - one.others)
