"""What is compared: paths, traces or summaries; or two runs that one input says.

monday.json.gz ──► summary ─┐
                            ├─► Diff
tuesday.sqlite ──► summary ─┘
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ktrace.diff.compare import compared
from ktrace.diff.model import Diff
from ktrace.errors import InputError, UsageError
from ktrace.summary.compute import summarise
from ktrace.summary.keys import NOT_KNOWN
from ktrace.summary.model import Summary

if TYPE_CHECKING:
    from ktrace.pipeline.read import Progress
    from ktrace.stages.select.crop import Crop
    from ktrace.stages.select.filter import Filter


class Summarised(Protocol):
    """What can be summarised, such as a `ktrace.Trace`."""

    def summary(self, by: Sequence[str] | None = None, *, rules: str | Path | None = None) -> Summary: ...


#: A side of a comparison.
Side = str | Path | Summarised | Summary

#: By what work is grouped where nothing is said, and what a comparison needs in any case.
_USUAL, _NEEDED = ("kernel", "operation", "layer"), ("kernel", "step")


def compare(
    a: Side,
    b: Side | None = None,
    *,
    by: Sequence[str] | None = None,
    total: bool = False,
    runs: tuple[str, str] | None = None,
    from_: str | None = None,
    rules: str | Path | None = None,
    crop: Crop | None = None,
    filter: Filter | None = None,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> Diff:
    """What changed from `a` to `b`, each a path (a file, a pattern, a folder of ranks), a Trace or a Summary.

    Without `b`, two runs that `a` says are compared: `runs` names them where there are more than two.
    `by` are the tables wanted (of `ktrace.summary.keys.BY`); by default those by kernel where most are shared, by
    operation, and by layer. Where both sides have steps, totals are those of a step on average, unless the `total` of
    each whole is wanted. `rules` is a file of rules for operations that come before those of ktrace. `from_`, `crop`,
    `filter`, `progress` and `jobs` are those of `ktrace.convert`, for sides that are read.

    Raises InputError and its kin for what can't be read, UsageError for what can't be compared.
    """
    groups = tuple(dict.fromkeys((*(_USUAL if by is None else by), *_NEEDED)))

    def summary(side: Side) -> Summary:
        if isinstance(side, Summary):
            return side
        if isinstance(side, (str, Path)):
            return summarise(
                str(side), by=groups, from_=from_, crop=crop, filter=filter, rules=rules, progress=progress, jobs=jobs
            )
        return side.summary(groups, rules=rules)

    if b is None:
        return _of_runs(summary(a), _called(a), by, runs)
    if runs is not None:
        raise UsageError("runs are those of one input", remedy="name one input, or leave the runs out")
    diff = compared(summary(a), summary(b), by=by, total=total, names=_names(a, b))
    diff.notes = [note for note in diff.notes if NOT_KNOWN not in note]
    return diff


def _of_runs(side: Summary, name: str, by: Sequence[str] | None, runs: tuple[str, str] | None) -> Diff:
    """Two runs of one input against one another."""
    there = ", ".join(side.runs) or "none"
    if runs is None:
        if len(side.runs) != 2:
            raise InputError(
                "doesn't say two runs",
                path=name,
                expected=f"two runs in one input; those of this are: {there}",
                remedy="name two inputs, or which runs" if side.runs else "name two inputs",
            )
        first, second = side.runs
        runs = first, second
    for run in runs:
        if run not in side.runs:
            raise InputError(f"has no run '{run}'", path=name, expected=f"one of: {there}")
    diff = compared(side.runs[runs[0]], side.runs[runs[1]], by=by, names=runs)
    diff.notes = [*(note for note in side.notes if NOT_KNOWN not in note), *diff.notes]
    return diff


def _called(side: Side) -> str:
    return str(side) if isinstance(side, (str, Path)) else "the input"


def _names(a: Side, b: Side) -> tuple[str, str] | None:
    """What to call two paths: the names of the files, or all of the paths where these are the same."""
    if not isinstance(a, (str, Path)) or not isinstance(b, (str, Path)):
        return None
    one, other = Path(a).name, Path(b).name
    return (one, other) if one != other else (str(a), str(b))
