"""Whether the steps of a recording take equally long, and which don't.

    1.04  1.04  1.04  1.34  1.34  1.34 ms     shift      steps from the fourth on take 1.29 times as long
    1.04  1.34  1.04  1.34  1.04  1.34        period     every second step
    1.04  1.04  1.34  1.34  1.34  1.04        stretch    steps from the third to the fifth
    1.04  1.04  1.04  2.54  1.04  1.04        single     one step
    3.04  1.04  1.04  1.04  1.04  1.04        warm-up    the first step
    1.04  1.12  1.20  1.28  1.36  1.44        trend      each takes a little longer than the one before

Each way in which some steps may take longer is compared by how far the mean of their logarithms is above that of the
others, in units of its error (Student's t); of single steps, how far the least of them is. The error is that of the
steps, and of `PRIOR` more values of a noise of `NOISE`, as few steps may lie close together by chance. Some way must be
further apart than `limit`: tests/worlds/test_steady.py simulates steps of equal length under noise of 0.1 to 3 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ktrace.analysis.work.findings import Finding
from ktrace.model.arrays import AnyArray, Bools, Float64
from ktrace.stages.select.wanted import series_of, step_of
from ktrace.tables import Cell, brief

#: Ways of not being steady.
WARM_UP, SHIFT, PERIOD, STRETCH, SINGLE, TREND = "warm-up", "shift", "period", "stretch", "single", "trend"

#: Fewer steps aren't examined.
FEWEST = 3

#: The noise of steps that is expected, and the number of values that this counts as.
NOISE, PRIOR = 0.02, 2

#: Slower steps are named if they take this many times as long as the others, and cost this part of the whole.
FACTOR, COST = 1.05, 0.01

#: A slow beginning of at most one in so many steps is a warm-up; of the steps, one in so many may be single slow ones.
_FIRST, _SINGLE = 3, 3

#: The longest period, in steps. Stretches begin and end at so many places at most; as some of so many are further
#: apart by chance, they must be by so much more.
_LONGEST, _PLACES, _MORE = 64, 256, 1.0

#: A trend has at least so many steps, and is in either half of them this part as steep as in all.
_STEADILY, _AS_STEEP = 5, 0.4

#: How many single steps are named.
NAMED = 3

#: Means of runs of one program differ by this part of themselves (a standard deviation), however steady steps are.
RUNS = 0.002


class Unsteady(NamedTuple):
    """Steps that take longer than the others: the way, which they are, the medians of both in ns.

    `slow` has an element for each step. Those of a warm-up are in neither median of what is found beside it. `every` is
    the period in steps.
    """

    way: str
    slow: Bools
    time: float
    others: float
    every: int | None = None

    @property
    def factor(self) -> float:
        """How many times as long the slow steps take."""
        return self.time / self.others

    @property
    def first(self) -> int:
        """The place of the first slow step."""
        return int(np.argmax(self.slow))


def of_steps(
    walls: Float64, spans: Float64, compute: Float64, beside: Float64, labels: Sequence[str]
) -> list[Unsteady]:
    """Returns how these steps are unsteady, empty unless their numbers tell their order, and they are of one loop.

    `walls` are their times on the host, `spans` those on a device, 0 without work, and `compute` those of kernels. If
    devices lag behind, theirs count, as a host waits in one step for the work of another, and steps before their first
    and after their last work don't. Nothing comes before their first step, so that it lasts longer for it: by how much
    else, kernels and the host tell. Kernels can't where steps overlap: `beside` is the time of a step's kernels beside
    earlier steps.
    """
    if any(step_of(label) is None for label in labels) or len({*map(series_of, labels)}) != 1:
        return []
    if not np.any(spans > walls):
        return unsteady(walls)
    with_work = np.flatnonzero(spans > 0)
    there = slice(int(with_work[0]), int(with_work[-1]) + 1)
    times = np.where(spans > 0, spans, walls)[there]
    overlaps = float(np.median(beside[there])) >= (FACTOR - 1) * float(np.median((compute + beside)[there]))
    more = 0.0 if overlaps else compute[there][0] - float(np.median((compute + beside)[there]))
    times[0] = max(walls[there][0], float(np.median(times)) + more)
    outside = there.start, len(walls) - there.stop
    return [one._replace(slow=np.pad(one.slow, outside)) for one in unsteady(times)]


def findings(unsteady_steps: Sequence[Unsteady], times: Float64, labels: Sequence[str]) -> list[Finding]:
    """Returns how steps with these times and labels are unsteady, for programs.

    The value is what the slow steps take more than the others in ns, the whole the time of all steps.
    """
    return [_finding(one, times, labels) for one in unsteady_steps]


def _finding(one: Unsteady, times: Float64, labels: Sequence[str]) -> Finding:
    slow = np.flatnonzero(one.slow)
    named: dict[str, Cell] = {"step": labels[slow[0]], "last": labels[slow[-1]]}
    details: dict[str, Cell] = {"slow": len(slow), "steps": len(times), "slow_ns": one.time, "others_ns": one.others}
    details |= {"factor": one.factor} | ({"every": one.every} if one.every else {})
    if one.way == SINGLE:
        named["also"] = ", ".join(labels[place] for place in slow[1:NAMED]) or None
    elif one.way in (SHIFT, TREND) and not slow[0]:
        named["until"] = labels[slow[-1] + 1]
    more = float((times[slow] - one.others).sum())
    return Finding(f"unsteady.{one.way}", "time", more, "ns", float(times.sum()), "the steps", named, None, details)


def sentence(one: Finding) -> str:
    """Returns a finding of this module as a sentence.

    Not steady: steps from #3 on take 1.29 times as long as those before (1.34 ms instead of 1.04 ms).
    """
    return f"{'Warm-up' if is_warm_up(one) else 'Not steady'}: {clause(one)}."


def is_warm_up(one: Finding) -> bool:
    """Whether a finding of this module is a warm-up."""
    return one.code == f"unsteady.{WARM_UP}"


def clause(one: Finding) -> str:
    """Returns which steps take how many times as long as which others."""
    details, steps = one.details, one.subject
    slow, first = int(details["slow"] or 0), _step_number(steps["step"])
    way, others = one.code.partition(".")[2], "the others"
    which, take = f"step {first}", "takes"
    if way == WARM_UP and slow > 1:
        which, take = f"the first {slow:,} steps, up to {_step_number(steps['last'])},", "take"
    elif way == WARM_UP:
        which = f"the first step, {first},"
    elif way == PERIOD:
        which = f"every {_ordinal(int(details['every'] or 0))} step, {first} first,"
    elif way == SHIFT:
        until = steps.get("until")
        which, take = f"steps before {_step_number(until)}" if until else f"steps from {first} on", "take"
        others = "those from there on" if until else "those before"
    elif way == TREND and steps.get("until"):
        which, others = (
            f"steps get faster throughout: the first half, up to {_step_number(steps['last'])},",
            "the second",
        )
    elif way == TREND:
        which, others = f"steps get slower throughout: the second half, from {first} on,", "the first"
    elif way == STRETCH:
        which, take = f"steps from {first} to {_step_number(steps['last'])}", "take"
    elif slow > 1:
        names = [first, *(_step_number(name) for name in str(steps["also"]).split(", "))]
        most = " first" if slow > len(names) else ""
        which, take = f"{slow:,} single steps, {', '.join(names[:-1])} and {names[-1]}{most},", "take"
    times = f"{brief(float(details['slow_ns'] or 0))} instead of {brief(float(details['others_ns'] or 0))}"
    return f"{which} {take} {float(details['factor'] or 0):,.2f} times as long as {others} ({times})"


def _step_number(label: Cell) -> str:
    return f"#{step_of(str(label))}"


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


class _Way(NamedTuple):
    """A way in which steps may differ: how far apart, the slow ones, the period."""

    far: float
    name: str
    slow: Bools
    every: int | None = None


def unsteady(times: Float64) -> list[Unsteady]:
    """Returns how steps with these times in ns, in their order, are unsteady; empty where they are steady.

    A warm-up comes first, then one way in which the steps after it differ.
    """
    facts: list[Unsteady] = []
    since = 0
    while (one := _unsteady(times[since:])) is not None and (one.way != WARM_UP or not since):
        facts.append(one._replace(slow=np.append(np.zeros(since, np.bool_), one.slow)))
        if one.way != WARM_UP:
            break
        since = int(one.slow.sum())
    return facts


def limit(steps: int) -> float:
    """Returns the distance, in units of its error, that steps of equal length hardly ever have."""
    return 5.0 + 8.0 / steps


def _unsteady(times: Float64) -> Unsteady | None:
    if len(times) < FEWEST or times.min() <= 0:
        return None
    logs = np.log(times)
    logs -= logs.mean()
    steps, periods = len(logs), []
    for every in range(2, min(steps // 2, _LONGEST) + 1):
        place = np.arange(steps) % every
        total = np.asarray(np.bincount(place, logs), np.float64)
        far = _far(np.bincount(place).astype(np.float64), total, logs)
        periods.append(_Way(float(far.max()), PERIOD, place == int(far.argmax()), every))
    ways = [_warm_up(logs), _shift(logs), *periods, _stretch(logs), _singles(logs), _trend(logs)]
    best = max((way for way in ways if way is not None), key=lambda way: way.far)
    time, others = float(np.median(times[best.slow])), float(np.median(times[~best.slow]))
    cost = float((times[best.slow] - others).sum())
    if best.far <= limit(len(times)) or time < FACTOR * others or cost < COST * times.sum():
        return None
    return Unsteady(best.name, best.slow, time, others, best.every)


def _far(count: Float64, total: Float64, logs: Float64) -> Float64:
    """Returns how far the means of some steps are above those of all others, from their number and the sum of logs."""
    steps = len(logs)
    level = total / count + total / (steps - count)  # all together are 0
    parts = count * (steps - count) / steps
    within = np.maximum(float((logs**2).sum()) - parts * level**2, 0.0)
    far: Float64 = level * np.sqrt(parts * (steps - 2 + PRIOR) / (within + PRIOR * NOISE**2))
    return far


def _warm_up(logs: Float64) -> _Way:
    count = np.arange(1, max(len(logs) // _FIRST, 1) + 1, dtype=np.float64)
    far = _far(count, np.cumsum(logs)[: len(count)], logs)
    return _Way(float(far.max()), WARM_UP, np.arange(len(logs)) <= int(far.argmax()))


def _shift(logs: Float64) -> _Way | None:
    """A beginning, longer than a warm-up, or an end that is slower; a single step is neither."""
    steps, before = len(logs), np.cumsum(logs)[1:-2]  # of 2 steps, 3, ..., all but 2
    if not len(before):
        return None
    count = np.arange(2, steps - 1, dtype=np.float64)
    far = _far(steps - count, -before, logs)
    down = np.where(count > steps // _FIRST, -far, -np.inf)
    if far.max() >= down.max():
        return _Way(float(far.max()), SHIFT, np.arange(steps) >= int(count[far.argmax()]))
    return _Way(float(down.max()), SHIFT, np.arange(steps) < int(count[down.argmax()]))


def _stretch(logs: Float64) -> _Way | None:
    """Some steps in a row, two and more, with others before and after them."""
    steps, until = len(logs), np.append(0.0, np.cumsum(logs))
    places = np.unique(np.linspace(1, steps - 1, min(steps - 1, _PLACES)).astype(np.int64))
    begin, end = (places[one] for one in np.triu_indices(len(places), 1))
    begin, end = begin[end - begin > 1], end[end - begin > 1]
    if not len(begin):
        return None
    far = _far((end - begin).astype(np.float64), until[end] - until[begin], logs)
    best, number = int(far.argmax()), np.arange(steps)
    return _Way(float(far[best]) - _MORE, STRETCH, (number >= begin[best]) & (number < end[best]))


def _trend(logs: Float64) -> _Way | None:
    """Steps that get slower, or faster, throughout: the half that takes longer."""
    steps = len(logs)
    place = np.arange(steps, dtype=np.float64) - (steps - 1) / 2
    halves = (slice(0, (steps + 1) // 2), slice(steps // 2, steps))
    slope = _slope(place, logs)
    if steps < _STEADILY or not slope or min(_slope(place[half], logs[half]) / slope for half in halves) < _AS_STEEP:
        return None
    along = float((place**2).sum())
    within = max(float((logs**2).sum()) - slope**2 * along, 0.0)
    far = abs(slope) * np.sqrt(along * (steps - 2 + PRIOR) / (within + PRIOR * NOISE**2))
    return _Way(float(far), TREND, place * slope > 0)


def _slope(place: Float64, logs: Float64) -> float:
    """By how much logarithms rise from each step to the next, by least squares."""
    offsets = place - place.mean()
    return float((offsets * logs).sum() / (offsets**2).sum())


def _singles(logs: Float64) -> _Way:
    order = np.argsort(-logs, kind="stable")
    sums, squares = np.cumsum(logs[order]), np.cumsum(logs[order] ** 2)
    single = np.arange(1, max(len(logs) // _SINGLE, 1) + 1)
    others, sum_of_others = len(logs) - single, sums[-1] - sums[single - 1]
    within = np.maximum(squares[-1] - squares[single - 1] - sum_of_others**2 / others, 0.0) + PRIOR * NOISE**2
    error = np.sqrt(within / (others - 1 + PRIOR) * (1 + 1 / others))
    far = (logs[order[single - 1]] - sum_of_others / others) / error
    slow = np.zeros(len(logs), np.bool_)
    slow[order[: int(far.argmax()) + 1]] = True
    name = WARM_UP if slow[: slow.sum()].all() else SINGLE
    return _Way(float(far.max()), name, slow)


def student_t_p(off: float, variance: float, freedom: int) -> float:
    """Returns the two-sided p of Student's distribution (whole degrees of freedom: Abramowitz and Stegun, 26.7.3).

    `variance` is that of what is `off`.
    """
    if not off or not variance:
        return 0.0 if off else 1.0
    angle = math.atan(abs(off) / math.sqrt(variance * freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    term = total = cosine if freedom % 2 else 1.0
    for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= (k - 1) / k * cosine**2
        total += term
    inside = sine * total if freedom % 2 == 0 else 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))
    return max(0.0, 1 - inside)


def benjamini_hochberg(ps: Sequence[float], weights: AnyArray | None = None) -> list[float]:
    """Returns the q of Benjamini and Hochberg for each p: of rows with q <= 5 %, at most 5 % are chance results.

    `weights`, 1 on average, deal out that part (Genovese, Roeder, Wasserman 2006): a row of weight 2 may err twice as
    often as others.
    """
    scaled = np.asarray(ps, np.float64) / (1.0 if weights is None else weights)
    order = np.argsort(scaled, kind="stable")
    scaled = scaled[order] * len(ps) / np.arange(1, len(ps) + 1)
    adjusted = np.empty(len(ps))
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return [float(q) for q in adjusted]
