"""Decides when a pipeline fails: more time than before, by more than the limit, and not within noise."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ktrace.analysis.diff.model import NOISE, UNKNOWN, Change, Diff
from ktrace.errors import UsageError
from ktrace.tables.figures import percent

#: Rows below this part of the whole, in percent, never cause a failure.
LEAST = 1.0


@dataclass(frozen=True)
class Regression:
    """What got slower by more than `limit` percent: the times `a` and `b` in ns, the change in percent of `a`.

    `name` is "all work", a measured time ("wall", "span", "device span", "idle"), or the row of the table `by`.
    `figure` is "average", or "median" if only the median step got slower by so much: a slow first step may hide from
    the average what all others do. `percent` is None for work that A doesn't have. `known` tells whether the change is
    known to exceed noise; `why` says why not.
    """

    name: str
    by: str | None
    a: float
    b: float
    percent: float | None
    limit: float
    known: bool
    why: str = ""
    figure: str = "average"

    def __str__(self) -> str:
        grown = "new work" if self.percent is None else f"{self.percent:+.1f}%"
        known = "" if self.known else f", not known whether it exceeds noise ({self.why})"
        what = f"{self.by} {self.name}" if self.by else self.name
        median = " in the median step" if self.figure == "median" else ""
        return f"{what} got slower: {grown}{median}, more than {self.limit:g}%{known}"


@dataclass(frozen=True)
class Gate:
    """The outcome of limits in percent: `over` for the whole, `each` for the rows of the first table."""

    over: float | None
    each: float | None
    regressions: list[Regression]

    @property
    def failed(self) -> bool:
        """Whether anything got slower by more than its limit."""
        return bool(self.regressions)

    def document(self) -> dict[str, Any]:
        """Returns the outcome for JSON: `failed`, and `regressions` with both times, the change and the limit."""
        rows = []
        for one in self.regressions:
            figures = asdict(one)
            times = {"a_ns": figures.pop("a"), "b_ns": figures.pop("b"), "change_percent": figures.pop("percent")}
            place = {"name": figures.pop("name"), "by": figures.pop("by")}
            rows.append({**place, **times, "limit_percent": figures.pop("limit"), **figures, "sentence": str(one)})
        return {"failed": self.failed, "regressions": rows}


def gate(diff: Diff, over: float | None = None, each: float | None = None, *, part: bool = False) -> Gate:
    """Returns what got slower: the whole by over `over` percent, a row of the first table by over `each`.

    The whole is all work, and, unless the work is only a `part` of it, the time that all took: of a step on the host
    and on the devices, else of the trace and of its devices. Where that got slower, idle time is named, too, if it grew
    by over `over` percent of the time of the devices. A change within noise doesn't count; a change not known to be
    within noise does. Rows count if they are at least `LEAST` percent of the whole.

    Raises UsageError if a side contains only shares of the whole, so that the whole isn't known.
    """
    if diff.unit != "ns":
        raise UsageError("can't tell whether it got slower: one side contains only shares, no times")
    found = []
    if over is not None:
        times = {} if part else {one.key: one for one in (diff.time, diff.device_time) if one}
        slower = [change for change in times.values() if _slower(change, over)]
        if slower and diff.idle and diff.idle.verdict != NOISE and (diff.idle_percent or 0.0) > over:
            slower.append(diff.idle)
        wholes = [diff.whole] if _slower(diff.whole, over) else []
        found += [_regression(change, over) for change in (*wholes, *slower)]
    if each is not None and diff.rows:
        by, rows = next(iter(diff.rows.items()))
        least = LEAST / 100 * diff.whole.total_b
        shared = [change for change in rows if change.a and change.b and change.total_b >= least]
        found += [_regression(change, each, by) for change in shared if _slower(change, each)]
    return Gate(over, each, found)


def regressions(diff: Diff, over: float | None = None, each: float | None = None, *, part: bool = False) -> list[str]:
    """Returns the sentences of `gate` on what got slower."""
    return [str(one) for one in gate(diff, over, each, part=part).regressions]


def _slower(change: Change, limit: float) -> bool:
    """Returns whether the work takes over `limit` percent longer; new work always does."""
    return _figure(change, limit) is not None


def _figure(change: Change, limit: float) -> tuple[str, float, float] | None:
    """Returns the figure by which the work takes over `limit` percent longer, with its values, if any does."""
    if change.verdict == NOISE:
        return None
    found = [("average", change.total_a, change.total_b)]
    if change.medians is not None:
        found.append(("median", *change.medians))
    return next((one for one in found if one[2] - one[1] > one[1] * limit / 100), None)


def _regression(change: Change, limit: float, by: str | None = None) -> Regression:
    figure, a, b = _figure(change, limit) or ("average", change.total_a, change.total_b)
    known = change.verdict != UNKNOWN or figure == "median"
    why = "" if known else change.why
    return Regression(change.key, by, a, b, percent(b - a, a), limit, known, why, figure)
