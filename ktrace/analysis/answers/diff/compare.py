"""Compares two summaries.

a  3 steps  softmax 3.6 ms                           softmax  1.200 ms ─► 1.380 ms a step, +15.0 %
b  5 steps  softmax 6.9 ms   ──matched──► judged ──► 0 ms by count, +0.180 ms by duration
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from msgspec import structs

from ktrace.analysis.answers.diff import (
    CLEAR,
    GONE,
    NEW,
    NOISE,
    NOT_LISTED,
    OPPOSITE,
    UNKNOWN,
    Change,
    DeviceChange,
    places,
)
from ktrace.analysis.answers.diff.comparable import averaged_over, differences, length_of
from ktrace.analysis.answers.diff.comparison import Diff
from ktrace.analysis.answers.diff.facts import findings, other_amount
from ktrace.analysis.answers.diff.matching import ANSWERED, COMPARED, Match, groups_by, matched, together
from ktrace.analysis.answers.diff.noise import STEADY, Slow, may_differ
from ktrace.analysis.answers.diff.ranks import findings as of_ranks
from ktrace.analysis.answers.diff.ranks import names_by_rank, renamed
from ktrace.analysis.answers.diff.sentences import verdict
from ktrace.analysis.answers.diff.steady import Steps, slow_of, steps_of
from ktrace.analysis.answers.diff.verdicts import LEVEL, add_verdicts, weights_of
from ktrace.analysis.answers.summary.nature import COUNTED, is_other
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.breakdown import NAME as BREAKDOWN
from ktrace.analysis.questions.breakdown import is_divided, undivided
from ktrace.analysis.work.grids import KernelGrids
from ktrace.analysis.work.groups import BY, OTHER, DeviceUse, Group, InSteps
from ktrace.errors import UsageError
from ktrace.model.arrays import Float64
from ktrace.naming.taxonomy import taxonomy
from ktrace.report import counted
from ktrace.tables import percent

#: Without `by`, kernels are compared if both sides spend at least this part of their time in shared kernels.
SHARED = 0.5

#: The measured times of a step (`StepUse`).
_MEASURES = (
    "wall",
    "span",
    "busy",
    "idle",
    "compute",
    "communication",
    "exposed_communication",
    "copies",
    "exposed_copies",
)

#: Of these, and of "step", those of the first step that devices that lag behind begin with nothing before it.
_UNLIKE_AT_FIRST = ("step", "span", "busy", "idle", "exposed communication", "exposed copies")

#: Groups of work that is of one device each.
_OF_ONE = ("device", "rank", "source", "stream")

_NAMED = ("idle", "exposed communication", "exposed copies")

_NONE = np.zeros(0, np.int64)

#: The places of a grid of a kernel on both sides (`KernelGrids`), None where one hasn't it.
_Places = tuple[int | None, int | None]


def compared(
    a: Summary,
    b: Summary,
    *,
    by: Sequence[str] | None = None,
    total: bool = False,
    names: tuple[str, str] | None = None,
    part: bool = False,
) -> Diff:
    """Returns what changed from `a` to `b`.

    `by` lists the requested tables (of `ktrace.analysis.answers.diff.matching.COMPARED`); by default kernel (if most
    kernels are shared), operation and layer. If both sides have steps, totals are averages per step, so that runs of
    different length compare, unless `total` requests whole traces. `names` are the names of the two sides, `part` says
    that a filter left out some of their rows.

    Raises UsageError for a `by` that neither side has data on.
    """
    by_step = bool(a.steps and b.steps) and not total
    steps = (steps_of(a), steps_of(b)) if by_step else None
    sides = _Sides(a, b, steps)
    changes = {name: sides.changes(name) for name in (_wanted(by, a, b) if by is not None else _usual(a, b))}
    if by is None and "kernel" in changes and "operation" in changes and not _share(changes["kernel"]):
        del changes["kernel"]
    rows = {name: sides.judged(name, of) for name, of in changes.items()}
    if "kernel" in rows:
        rows["kernel"] = sides.by_grid(rows["kernel"])
        rows["operation"] = _as_their_kernels(rows.get("operation", []), rows["kernel"])
        rows = {name: of for name, of in rows.items() if of or name != "operation"}
    rows = {name: _ranked(of) for name, of in rows.items()}
    name_a, name_b = names or _names(a, b)
    diff = Diff(
        name_a,
        name_b,
        a,
        b,
        "step" if sides.by_step else "whole",
        sides.whole(),
        rows,
        devices=_devices(a.devices, b.devices, sides.names),
        unit=sides.unit,
        part=part,
        unsteady=(steps[0].found, steps[1].found) if steps else ([], []),
        unsteady_alike=sides.slow.alike,
        compared=(len(sides.a.steps), len(sides.b.steps)) if steps else (0, 0),
        averaged=sides.devices,
        length=sides.length,
    )
    if sides.by_step and a.step_use and b.step_use:
        diff.steps = _of_steps(sides.a, sides.b, sides.slow, sides.devices != (1, 1))
    elif not sides.by_step and not part:
        diff.times = _of_traces(a, b, sides.devices, sides.length)
    notes = [*(f"{name_a}: {note}" for note in a.notes), *(f"{name_b}: {note}" for note in b.notes)]
    diff.notes = list(dict.fromkeys([*notes, *sides.notes(name_a, name_b)]))
    if sides.by_step and (answered := [name for name in rows if name in ANSWERED]):
        diff.notes.append(f"By {' and '.join(answered)}, averages are those of the whole trace over its steps.")
    diff.differences, diff.of_ranks, diff.places = differences(diff), of_ranks(diff), places.findings(diff)
    diff.other = other_amount(diff)
    diff.verdict, diff.facts = verdict(diff), findings(diff)
    return diff


def _as_their_kernels(operations: Sequence[Change], kernels: Sequence[Change]) -> list[Change]:
    """The changes by operation: one is clear where most of it is that of kernels whose change is clear.

    Launches of different kernels and grids are unlike, so that together they show less than each of them alone.
    """
    rules, clear = taxonomy(), defaultdict[str, float](float)
    for one in kernels:
        if one.verdict == CLEAR and (side := one.a or one.b):
            name = side.name or one.key.partition(" grid ")[0]
            clear[rules.labels(name).operation or OTHER] += one.delta
    return [
        structs.replace(one, verdict=CLEAR, why="that of its kernels")
        if one.verdict == NOISE and 2 * clear[one.key] / (one.delta or 1) >= 1
        else one
        for one in operations
    ]


def _lacks_rows(side: Summary) -> bool:
    """Whether the table of a side lists only some of its rows."""
    return any(one.code in ("check.table_incomplete", "check.table_cut") for one in side.checks)


class _Sides:
    """Both summaries with the steps that are compared, and the unit in which their totals are compared."""

    def __init__(self, a: Summary, b: Summary, steps: tuple[Steps, Steps] | None) -> None:
        self.a, self.b = (a, b) if steps is None else (steps[0].of(a), steps[1].of(b))
        self.steps, self.by_step = steps, steps is not None
        self.slow = STEADY if steps is None else slow_of(*steps)
        self.unit = "ns" if a.unit == b.unit == "ns" else "%"
        self.devices = averaged_over(a, b)
        self.length = length_of(a, b)
        self.names = names_by_rank(a, b)

    def changes(self, by: str) -> list[Change]:
        """Returns the changes between the groups of both sides by `by`, matched."""
        steps = (len(self.a.steps), len(self.b.steps)) if self.by_step else (1, 1)
        a, b = groups_by(self.a, by), groups_by(self.b, by)
        if by == BREAKDOWN and is_divided(a) != is_divided(b):
            a, b = undivided(a), undivided(b)
        if by == "step":  # one sample each, since a step's launches do different work
            a, b = ([replace(group, durations=_NONE, inside=_NONE, in_steps=None) for group in side] for side in (a, b))
        elif self.steps is not None:
            if by not in BY:  # answers have all steps
                a, b = (list(map(of.of_group, side)) for of, side in zip(self.steps, (a, b), strict=True))
            a, b = ([group for group in side if _in_steps(group)] for side in (a, b))
        if by in ("device", "source", "stream"):
            a, b = (
                [replace(group, key=renamed(group.key, names)) for group in side]
                for side, names in zip((a, b), self.names, strict=True)
            )
        matches = matched(a, b, by, steps=steps)
        by_step = self.by_step and by != "step"
        return [self._change(match, by_step=by_step, is_part=by in _OF_ONE) for match in matches]

    def whole(self) -> Change:
        """Returns the change of all work; only steps can test it for noise, since launches do different work."""
        change = self._change(Match(_all_work(self.a), _all_work(self.b), "name"), by_step=self.by_step)
        (change,) = add_verdicts([change], by_step=self.by_step, slow=self.slow)
        if change.verdict != UNKNOWN or change.test or "statistics" in (self.a.work, self.b.work):
            return change
        return structs.replace(change, why="too few steps")

    def by_grid(self, changes: list[Change]) -> list[Change]:
        """Returns the changes by kernel; a grid that changed beyond noise is a row, where not all of the kernel did.

        Launches of one grid are alike, so that 1 % more of one shows; together with others it would be noise.
        """
        grids_a, grids_b = self.a.grids, self.b.grids
        if grids_a is None or grids_b is None:
            return changes
        a, b = grids_a.by_kernel, grids_b.by_kernel
        parts: dict[int, list[_Places]] = {}
        for place, one in enumerate(changes):
            if (one.verdict == NOISE or one.why == OPPOSITE) and one.a and one.b:
                grids, others = a.get(one.a.key, {}), b.get(one.b.key, {})
                if len(grids) + len(others) > 2:
                    parts[place] = [(grids.get(grid), others.get(grid)) for grid in grids | others]
        pairs = [(one, other) for of in parts.values() for one, other in of if one is not None and other is not None]
        tested, times = pairs, np.zeros(0)
        if pairs and not self.by_step:
            tested, times = _that_may_differ(pairs, grids_a, grids_b)
        untested = set(_same_grids(a, b)) - set(pairs) if self.by_step and pairs else set()
        part_of = partial(self._grid_change, grids_a, grids_b)
        every = add_verdicts(
            [part_of(one) for one in tested],
            by_step=self.by_step,
            others=[part_of(one) for one in sorted(untested)],
            untested=times,
            slow=self.slow,
        )
        clear = {places: part for places, part in zip(tested, every, strict=True) if part.verdict == CLEAR}
        split: list[Change] = []
        for place, one in enumerate(changes):
            sure = [clear[part] for part in parts.get(place, ()) if part in clear]
            left = [part_of(part) for part in parts[place] if part not in clear] if sure else []
            split += [*sure, *self._other_grids(one, left)] if sure else [one]
        whole = math.fsum(abs(one.delta) for one in split)
        return [structs.replace(one, share=percent(abs(one.delta), whole)) for one in split]

    def _grid_change(self, a: KernelGrids, b: KernelGrids, places: _Places) -> Change:
        """Returns the change of a kernel's launches by one grid."""
        one, other = (None if place is None else side.group(place) for side, place in zip((a, b), places, strict=True))
        if self.steps is not None:
            one, other = (group and of.of_group(group) for of, group in zip(self.steps, (one, other), strict=True))
        return self._change(Match(one, other, "name"), by_step=self.by_step)

    def _other_grids(self, one: Change, changes: list[Change]) -> list[Change]:
        """Returns what is left of the change of a kernel without some of its grids, as a row."""
        a, b = (
            [group for group in side if group] for side in ([part.a for part in changes], [part.b for part in changes])
        )
        if not changes:
            return []
        key = f"{one.key}, different grids"
        whole_a, whole_b = (replace(together(side), key=key) if side else None for side in (a, b))
        change = self._change(Match(whole_a, whole_b, one.matched), by_step=self.by_step)
        return add_verdicts([change], by_step=self.by_step, slow=self.slow)

    def judged(self, by: str, changes: Sequence[Change]) -> list[Change]:
        """Returns the changes of one table, judged. Answers have no totals of steps."""
        if by not in ANSWERED:
            judged = add_verdicts(changes, by_step=self.by_step, slow=self.slow)
            unlisted = {GONE: _lacks_rows(self.b), NEW: _lacks_rows(self.a)}
            return [
                structs.replace(one, verdict=UNKNOWN, why=NOT_LISTED) if unlisted.get(one.verdict) else one
                for one in judged
            ]
        verdicts = add_verdicts(changes, by_step=False)
        return [
            structs.replace(one, why="only totals are known") if one.why == "statistics only" else one
            for one in verdicts
        ]

    def notes(self, name_a: str, name_b: str) -> list[str]:
        """Returns notes on how the totals are compared, where that isn't obvious."""
        notes = []
        if is_other(self.a.whose, self.b.whose):
            notes.append(f"{name_a} has {COUNTED[self.a.whose]}, {name_b} {COUNTED[self.b.whose]}.")
        if self.unit == "%" and self.a.unit != self.b.unit:
            notes.append("One side contains only shares of the whole, so shares are compared.")
        if self.by_step:
            notes.append(
                f"Totals and counts are averages per step: {name_a} has {_step_count(self.a.steps)},"
                f" {name_b} {_step_count(self.b.steps)}."
            )
            for name, of in zip((name_a, name_b), self.steps or (), strict=True):
                if of.queued:
                    which = "step isn't" if of.queued == 1 else f"{of.queued:,} steps aren't"
                    why = "work was still queued when the recording ended"
                    notes.append(f"{name}: the last {which} compared, as {why}.")
            if len(self.a.devices) == len(self.b.devices) > 1:
                notes.append("Work is the sum over all devices; times of a step are those of a source on average.")
            for name, side in ((name_a, self.a), (name_b, self.b)):
                outside = sum(group.total for group in side.groups.get("step", []) if group.key == OTHER)
                if outside:
                    notes.append(
                        f"{name}: {100 * outside / side.total:.1f}% of the work is in no step, so it isn't compared."
                    )
        return notes

    def _change(self, match: Match, *, by_step: bool, is_part: bool = False) -> Change:
        """Returns the change of some work; `is_part` tells that it is of one device, not of all."""
        devices = (1, 1) if is_part else self.devices
        parts = devices[0], devices[1] * self.length
        total_a, count_a = self._figures(self.a, match.a, by_step, parts[0])
        total_b, count_b = self._figures(self.b, match.b, by_step, parts[1])
        from_count, from_duration = _parts(total_a, count_a, total_b, count_b)
        key = (match.a or match.b or _all_work(self.a)).key
        figures = total_a, total_b, count_a, count_b
        return Change(key, match.a, match.b, *figures, match.by, None, from_count, from_duration, parts=parts)

    def _figures(self, side: Summary, group: Group | None, by_step: bool, parts: float) -> tuple[float, float | None]:
        """Returns the total and count of a group in the units of the comparison."""
        if group is None:
            return 0.0, 0
        total, count = float(group.total), None if group.count is None else float(group.count)
        if by_step:  # without the work outside of steps
            if group.in_steps is not None:  # else an answer, or statistics
                total, counts = float(group.in_steps.time.sum()), group.in_steps.count
                count = None if counts is None else float(counts.sum())
            steps = len(side.steps)
            total, count = total / steps, None if count is None else count / steps
        total = 100 * total / side.total if self.unit != side.unit and side.total else total / parts
        return total, None if count is None else count / parts


def _same_grids(a: dict[str, dict[str, int]], b: dict[str, dict[str, int]]) -> Iterator[tuple[int, int]]:
    """Yields the places of the grids of kernels that both sides have by the same names."""
    for kernel in a.keys() & b.keys():
        yield from ((a[kernel][grid], b[kernel][grid]) for grid in a[kernel].keys() & b[kernel].keys())


def _that_may_differ(
    pairs: Sequence[tuple[int, int]], a: KernelGrids, b: KernelGrids
) -> tuple[list[tuple[int, int]], Float64]:
    """Returns the pairs of grids whose launches may be found to differ, and the time that the others take together."""
    of_a, of_b = (grids.samples(places) for grids, places in zip((a, b), np.array(pairs, np.int64).T, strict=True))
    times = of_a.totals().astype(np.float64) + of_b.totals()
    may = may_differ(of_a, of_b, LEVEL * weights_of(times))
    return [pairs[place] for place in np.flatnonzero(may).tolist()], times[~may]


def _in_steps(group: Group) -> bool:
    """Returns whether any step has work of the group, or whether that isn't known."""
    return group.in_steps is None or group.in_steps.count is None or bool(group.in_steps.count.any())


def _parts(
    total_a: float, count_a: float | None, total_b: float, count_b: float | None
) -> tuple[float | None, float | None]:
    """Returns the change by count and the change by duration, which add up to the whole change.

    Each is computed at the mean of the other: from 2 x 10 ns to 3 x 12 ns, 11 ns are by count, 5 ns by duration.
    """
    if count_a is None or count_b is None:
        return None, None
    if not count_a or not count_b:
        return total_b - total_a, 0.0
    each_a, each_b = total_a / count_a, total_b / count_b
    return (count_b - count_a) * (each_a + each_b) / 2, (each_b - each_a) * (count_a + count_b) / 2


def _all_work(side: Summary) -> Group:
    """Returns all work of a side as one group."""
    groups = next(iter(side.groups.values()), []) if side.steps else []
    in_steps = [group.in_steps for group in groups if group.in_steps is not None]
    average = side.total / side.count if side.count else None
    return Group("all work", side.total, side.count, average, in_steps=InSteps.together(in_steps) if in_steps else None)


def _of_steps(a: Summary, b: Summary, slow: Slow, each: bool) -> list[Change]:
    """Returns the judged changes of the measured times of steps, in ns, averaged over the sources of a step.

    With `each`, the times of devices are averages over those of a source, as the sides have different numbers of them.

    "step" is the time of a step where devices lag behind the host, that of the slower of both; the first step of such
    devices isn't like the others, beside whose end the next one begins. If the time of a step is within noise, those
    that the verdict names beside it (`_NAMED`) are judged together, as each is a chance more to err; else they explain
    its change, each by itself.
    """
    changes, lag = [], any(np.any(side.step_times > side.of_steps("wall")) for side in (a, b))
    if lag:
        changes.append(_measure("step", a.step_times, b.step_times))
    for name in _MEASURES:
        one, other = (
            side.of_steps(name) / (side.devices_of_source if each and name != "wall" else 1) for side in (a, b)
        )
        if one.any() or other.any():
            changes.append(_measure(name.replace("_", " "), one, other))
    judged = partial(add_verdicts, by_step=True, fills=_UNLIKE_AT_FIRST if lag else (), slow=slow)
    judged_steps = [one for of in changes for one in judged([of])]
    if not judged_steps or judged_steps[0].verdict != NOISE:
        return judged_steps
    also = {one.key: one for one in judged([of for of in changes if of.key in _NAMED])}
    return [structs.replace(also.get(one.key, one), share=one.share) for one in judged_steps]


def _of_traces(a: Summary, b: Summary, devices: tuple[int, int], times: float) -> list[Change]:
    """Returns the changes of the times of whole traces, in ns; each trace is a single sample of them.

    `devices` are those over which the idle time of all is averaged; `b` is so many `times` as long a recording.
    """
    changes, alike = [], _only_devices(a) == _only_devices(b)
    for name, length in _LENGTHS.items():
        one, other = length(a), length(b)
        if name == "idle" and one is not None and other is not None:
            one, other = one / devices[0], other / devices[1]
        other = None if other is None else other / times
        if one is not None and other is not None and (one or other) and (alike or name != "span"):
            (change,) = add_verdicts([_measure(name, np.array([float(one)]), np.array([float(other)]))], by_step=False)
            changes.append(
                structs.replace(change, why="one recording of each") if change.verdict == UNKNOWN else change
            )
    return changes


def _longest(side: Summary) -> int | None:
    """Returns the time from the first start to the last end of a source, None without events."""
    if side.longest is None and side.span and len(side.sources) == 1:
        return side.span[1] - side.span[0]
    return None if side.work == "statistics" else side.longest


def _only_devices(side: Summary) -> bool:
    """Returns whether the source shows nothing of the host, so that its time is that of its devices."""
    return bool(side.devices) and _longest(side) == _longest_device(side)


def _longest_device(side: Summary) -> int | None:
    return max((use.span for use in side.devices), default=None)


#: The times of whole traces. Idle time is that of all devices, as in steps.
_LENGTHS: dict[str, Callable[[Summary], float | None]] = {
    "span": _longest,
    "device span": _longest_device,
    "idle": lambda side: sum(use.idle for use in side.devices) if side.devices else None,
}


def _measure(name: str, a: Float64, b: Float64) -> Change:
    """Returns the change of a time that each step has once."""
    one, other = (
        Group(name, float(of.sum()), len(of), float(of.mean()), float(np.median(of)), in_steps=InSteps.from_times(of))
        for of in (a, b)
    )
    mean_a, mean_b = float(a.mean()), float(b.mean())
    return Change(name, one, other, mean_a, mean_b, 1, 1, from_count=0.0, from_duration=mean_b - mean_a)


def _ranked(changes: Iterable[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: (-abs(change.delta), -change.total_a, change.key))


def _usual(a: Summary, b: Summary) -> list[str]:
    """Returns the default tables."""
    in_both = [name for name in ("kernel", "operation", "layer") if a.groups.get(name) and b.groups.get(name)]
    return in_both or [name for name in BY if a.groups.get(name) or b.groups.get(name)][:1]


def require_comparable(by: Sequence[str]) -> None:
    """Raises UsageError for a name that no comparison is by."""
    for name in by:
        if name not in COMPARED:
            raise UsageError(f"can't compare by '{name}'", expected=f"one of {', '.join(COMPARED)}")


def _wanted(by: Sequence[str], a: Summary, b: Summary) -> list[str]:
    require_comparable(by)
    for name in by:
        if not groups_by(a, name) and not groups_by(b, name):
            there = [one for one in COMPARED if groups_by(a, one) or groups_by(b, one)]
            raise UsageError(f"neither side has data by {name}", expected=f"one of {', '.join(there) or 'none'}")
    return list(dict.fromkeys(by))


def _share(changes: Sequence[Change]) -> bool:
    """Returns whether both sides spend most of their time in work that they share."""
    both = [change for change in changes if change.a and change.b]
    of_a, of_b = sum(change.total_a for change in changes), sum(change.total_b for change in changes)
    mine_a, mine_b = sum(change.total_a for change in both), sum(change.total_b for change in both)
    return mine_a >= SHARED * of_a and mine_b >= SHARED * of_b


def _devices(
    a: Sequence[DeviceUse], b: Sequence[DeviceUse], names: tuple[dict[str, str], dict[str, str]]
) -> list[DeviceChange]:
    """Returns the devices of both sides, matched by label (with the `names` of sources) or as the only ones."""
    if len(a) == len(b) == 1:
        return [DeviceChange(a[0].label, a[0], b[0])]
    of_a, of_b = ({renamed(use.label, of): use for use in side} for side, of in zip((a, b), names, strict=True))
    return [DeviceChange(label, of_a.get(label), of_b.get(label)) for label in of_a | of_b]


def _names(a: Summary, b: Summary) -> tuple[str, str]:
    names = tuple(side.sources[0] if len(side.sources) == 1 else f"{len(side.sources)} sources" for side in (a, b))
    return ("A", "B") if names[0] == names[1] else (names[0], names[1])


def _step_count(steps: Sequence[str]) -> str:
    return counted(len(steps), "step")
