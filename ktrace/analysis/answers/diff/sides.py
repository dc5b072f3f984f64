"""The sides of a comparison: paths, traces or summaries, or two runs of one input.

monday.json.gz ──► summary ─┐
                            ├─► Diff
tuesday.sqlite ──► summary ─┘
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ktrace.analysis.answers.diff.compare import compared, require_comparable
from ktrace.analysis.answers.diff.comparison import Diff
from ktrace.analysis.answers.summary.compute import read_summary
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.work.groups import GRID, NOT_KNOWN
from ktrace.errors import InputError, UsageError
from ktrace.input.limits import limited
from ktrace.pipeline.selection import selected

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ktrace.pipeline.read import Progress
    from ktrace.pipeline.selection import Options, Selection


class Summarised(Protocol):
    """An object with a summary, such as a `ktrace.Trace`."""

    def summary(self, by: Sequence[str] | None = None, *, rules: str | Path | None = None) -> Summary: ...


#: A side of a comparison.
Side = str | Path | Summarised | Summary

#: The default groupings, and those that every comparison needs.
_USUAL, _NEEDED = (
    ("kernel", "operation", "layer"),
    (
        *("kernel", "step", "collective", "idle", "phase", "batch", "pass", "copy"),
        GRID,
    ),
)


@limited
def compare(
    a: Side,
    b: Side | None = None,
    *,
    by: str | Sequence[str] | None = None,
    total: bool = False,
    runs: tuple[str, str] | None = None,
    selection: Selection | None = None,
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> Diff:
    """Compares two traces: what changed from `a` to `b`.

    Parameters
    ----------
    a, b : path, Trace or Summary
        The sides; a path may be a file, a pattern or a folder of ranks. Without `b`, two runs in `a` are compared.
    by : str ("op,shape") or sequence of str, optional
        The tables wanted (`ktrace.analysis.answers.diff.matching.COMPARED`). By default: by kernel where most kernels
        are in both, by operation, and by layer.
    total : bool
        Compare the totals of each whole, also where both sides have steps. By default totals are those of a step on
        average then.
    runs : pair of str, optional
        The two runs of `a` to compare, where it has more than two.
    selection, progress, **options
        As for `ktrace.summary`, for sides that are read.

    Returns
    -------
    Diff
        Changes of groups of work and of the use of devices, in ns, with what the samples say about noise.

    Raises
    ------
    InputError
        A side can't be read, or nothing of either side passes the filter.
    UsageError
        The sides can't be compared.

    Examples
    --------
    >>> import ktrace
    >>> same = "samples/kineto/one-step-of-training.pt.trace.json"
    >>> ktrace.diff(same, same).whole.verdict
    'within noise'
    """
    chosen = selected(selection, options)
    by = by.split(",") if isinstance(by, str) else by
    require_comparable(by or ())
    groups = tuple(dict.fromkeys((*(_USUAL if by is None else by), *_NEEDED)))

    def summary(side: Side) -> Summary:
        if isinstance(side, Summary):
            return side
        if isinstance(side, (str, Path)):
            return read_summary(str(side), groups, chosen, progress, proved=False)
        return side.summary(groups, rules=chosen.rules)

    if b is None:
        alone = summary(a)
        _require_match(alone)
        return _of_runs(alone, _called(a), by, runs)
    if runs is not None:
        raise UsageError("--runs compares runs of one input", remedy="name one input, or leave out the runs")
    sides = summary(a), summary(b)
    _require_match(*sides)
    diff = compared(*sides, by=by, total=total, names=_names(a, b), part=chosen.filter is not None)
    diff.notes = [note for note in diff.notes if NOT_KNOWN not in note]
    return diff


def _require_match(*sides: Summary) -> None:
    """Raises InputError if the filter leaves nothing of any side. Work of one side alone is new or gone."""
    reports = [side.report for side in sides if side.report is not None]
    if reports and all(report.unmatched for report in reports):
        reports[0].require_match()


def _of_runs(side: Summary, name: str, by: Sequence[str] | None, runs: tuple[str, str] | None) -> Diff:
    """Compares two runs of one input."""
    there = ", ".join(side.runs) or "none"
    if runs is None:
        if len(side.runs) != 2:
            raise InputError(
                "doesn't contain exactly two runs",
                path=name,
                expected=f"two runs in one input; its runs are: {there}",
                remedy="name two inputs, or the two runs" if side.runs else "name two inputs",
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
    """Returns names for two paths: the file names; if they are equal, with the folders in which the paths differ."""
    if not isinstance(a, (str, Path)) or not isinstance(b, (str, Path)):
        return None
    one, other = Path(a).parts, Path(b).parts
    if one[-1:] != other[-1:] or one == other:
        return Path(a).name, Path(b).name
    alike = next((place for place, (part, theirs) in enumerate(zip(one, other, strict=False)) if part != theirs), 0)
    return str(Path(*one[alike:])), str(Path(*other[alike:]))
