"""Summaries made by hand, for the tests of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ktrace.analysis.answers.summary.summary import StepUse, Summary
from ktrace.analysis.work.groups import Group, InSteps


def events(key: str, durations: Sequence[int], *, steps: int = 0) -> Group:
    """A group of work of these durations, dealt to the steps in their order, equally many to each."""
    dur = np.asarray(durations, np.int64)
    in_steps = None
    if steps:
        in_steps = InSteps.from_times(
            dur.reshape(steps, -1).sum(axis=1).astype(float), np.full(steps, len(dur) // steps)
        )
    figures: dict[str, Any] = {"average": float(dur.mean()), "median": float(np.median(dur))} if len(dur) else {}
    rising = np.sort(dur)
    return Group(
        key, float(dur.sum()), len(dur), **figures, name=key, durations=rising, in_steps=in_steps,
        inside=rising if steps else None, places=dur.reshape(steps, -1) if steps else None,
    )  # fmt: skip


def statistics(key: str, total: float, count: int | None = None) -> Group:
    """A group of which a table says no more than this."""
    return Group(key, total, count, total / count if count else None, name=key)


def side(
    name: str, groups: Sequence[Group], *, by: str = "kernel", walls: Sequence[int] = (), **others: Any
) -> Summary:
    """A summary of these groups; `walls` are the wall times of its steps."""
    steps = max((len(group.steps) for group in groups if group.steps is not None), default=0)
    counts = [group.count for group in groups]
    return Summary(
        [name],
        "events" if all(group.durations is not None for group in groups) else "statistics",
        sum(group.total for group in groups),
        None if None in counts else sum(count or 0 for count in counts),
        None,
        {by: sorted(groups, key=lambda group: -group.total)} if groups else {},
        steps=[f"step {number}" for number in range(steps)],
        step_use=[StepUse(f"step {number}", 1, wall, 0, 0, 0, 0, 0, 0) for number, wall in enumerate(walls)],
        **others,
    )
