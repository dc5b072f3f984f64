"""What a pipeline fails for: more time than before, by more than it may be, and not within noise."""

from __future__ import annotations

from ktrace.diff.model import NOISE, UNKNOWN, Change, Diff
from ktrace.errors import UsageError

#: Rows below this part of the whole, in percent, are no reason to fail.
LEAST = 1.0


def regressions(diff: Diff, over: float | None = None, each: float | None = None, *, part: bool = False) -> list[str]:
    """Sentences on what got slower: the whole by more than `over` percent, a row of the first table by `each` percent.

    The whole is all work, and where steps are compared also the wall time of a step, unless the work is only a `part`
    of it. What is within noise is none;
    what isn't known to be within noise is one. Rows count where they are at least `LEAST` percent of the whole.

    Raises UsageError where a side says shares of the whole alone, so that nothing is known of the whole.
    """
    if diff.unit != "ns":
        raise UsageError("whether it got slower isn't known: shares are compared, not times")
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
    """Whether it takes more than `percent` longer; work where there was none always does."""
    return change.delta > change.total_a * percent / 100 and change.verdict != NOISE


def _sentence(change: Change, percent: float) -> str:
    grown = "there was none before" if change.percent is None else f"{change.percent:+.1f}%"
    known = f", whether more than noise isn't known ({change.why})" if change.verdict == UNKNOWN else ""
    return f"{change.key} got slower: {grown}, more than {percent:g}%{known}"
