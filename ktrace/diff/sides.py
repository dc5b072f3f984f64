"""The sides of a comparison: paths, traces or summaries, or two runs of one input.

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
from ktrace.pipeline.selection import selected
from ktrace.summary.compute import summarise
from ktrace.summary.keys import NOT_KNOWN
from ktrace.summary.model import Summary

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
_USUAL, _NEEDED = ("kernel", "operation", "layer"), ("kernel", "step")


def compare(
    a: Side,
    b: Side | None = None,
    *,
    by: Sequence[str] | None = None,
    total: bool = False,
    runs: tuple[str, str] | None = None,
    rules: str | Path | None = None,
    selection: Selection | None = None,
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> Diff:
    """Compares two traces: what changed from `a` to `b`.

    Parameters
    ----------
    a, b : path, Trace or Summary
        The sides; a path may be a file, a pattern or a folder of ranks. Without `b`, two runs in `a` are compared.
    by : sequence of str, optional
        The tables wanted (`ktrace.summary.keys.BY`). By default: by kernel where most kernels are in both, by
        operation, and by layer.
    total : bool
        Compare the totals of each whole, also where both sides have steps. By default totals are those of a step on
        average then.
    runs : pair of str, optional
        The two runs of `a` to compare, where it has more than two.
    rules : path, optional
        A file of rules for operations that come before those of ktrace.
    selection, progress, **options
        As for `ktrace.summarise`, for sides that are read.

    Returns
    -------
    Diff
        Changes of groups of work and of the use of devices, in ns, with what the samples say about noise.

    Raises
    ------
    InputError
        A side can't be read.
    UsageError
        The sides can't be compared.

    Examples
    --------
    >>> import ktrace
    >>> same = "samples/kineto/one-step-of-training.pt.trace.json"
    >>> ktrace.compare(same, same).whole.verdict
    'within noise'
    """
    wanted = selected(selection, options)
    groups = tuple(dict.fromkeys((*(_USUAL if by is None else by), *_NEEDED)))

    def summary(side: Side) -> Summary:
        if isinstance(side, Summary):
            return side
        if isinstance(side, (str, Path)):
            return summarise(str(side), by=groups, rules=rules, selection=wanted, progress=progress)
        return side.summary(groups, rules=rules)

    if b is None:
        return _of_runs(summary(a), _called(a), by, runs)
    if runs is not None:
        raise UsageError("--runs compares runs of one input", remedy="name one input, or leave out the runs")
    diff = compared(summary(a), summary(b), by=by, total=total, names=_names(a, b))
    diff.notes = [note for note in diff.notes if NOT_KNOWN not in note]
    return diff


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
    """Returns names for two paths: the file names, or the whole paths if the file names are equal."""
    if not isinstance(a, (str, Path)) or not isinstance(b, (str, Path)):
        return None
    one, other = Path(a).name, Path(b).name
    return (one, other) if one != other else (str(a), str(b))
