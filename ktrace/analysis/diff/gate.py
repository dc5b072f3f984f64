"""Decides when a pipeline fails: more time than before, by more than the limit, and not within noise."""

from __future__ import annotations

from ktrace.analysis.diff.model import NOISE, UNKNOWN, Change, Diff
from ktrace.errors import UsageError

#: Rows below this part of the whole, in percent, never cause a failure.
LEAST = 1.0


def regressions(diff: Diff, over: float | None = None, each: float | None = None, *, part: bool = False) -> list[str]:
    """Returns sentences on what got slower: the whole by over `over` percent, a row of the first table by over `each`.

    The whole is all work and, if steps are compared, the wall time of a step, unless the work is only a `part` of it.
    A change within noise doesn't count; a change not known to be within noise does. Rows count if they are at least
    `LEAST` percent of the whole.

    Raises UsageError if a side contains only shares of the whole, so that the whole isn't known.
    """
    if diff.unit != "ns":
        raise UsageError("can't tell whether it got slower: one side contains only shares, no times")
    found = []
    if over is not None:
        wholes = [diff.whole, *([diff.wall] if diff.wall and not part else [])]
        found += [_sentence(change, over) for change in wholes if _slower(change, over)]
    if each is not None and diff.rows:
        by, rows = next(iter(diff.rows.items()))
        least = LEAST / 100 * diff.whole.total_b
        shared = [change for change in rows if change.a and change.b and change.total_b >= least]
        found += [f"{by} {_sentence(change, each)}" for change in shared if _slower(change, each)]
    return found


def _slower(change: Change, percent: float) -> bool:
    """Returns whether the work takes over `percent` percent longer; new work always does."""
    return change.delta > change.total_a * percent / 100 and change.verdict != NOISE


def _sentence(change: Change, percent: float) -> str:
    grown = "new work" if change.percent is None else f"{change.percent:+.1f}%"
    known = f", not known whether it exceeds noise ({change.why})" if change.verdict == UNKNOWN else ""
    return f"{change.key} got slower: {grown}, more than {percent:g}%{known}"
