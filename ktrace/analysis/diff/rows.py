"""The rows that show a change: the longest of the side where it takes longer.

change   gemm 1.2 ms ─► 1.4 ms      the longest launches of gemm in b, in its steps where it has any
         idle 9 ms ─► 3 ms          the longest gaps in a
"""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.analysis.diff.changes import Change
from ktrace.analysis.summary.summary import Summary
from ktrace.analysis.work.findings import Evidence
from ktrace.analysis.work.groups import GRID, OF_GRID


def shown(change: Change, a: Summary, b: Summary, by: str | None) -> Sequence[Evidence]:
    """The rows that show a change of a row of the table `by`, or of a measured time; none where they aren't known."""
    side, group = (b, change.b) if change.delta > 0 else (a, change.a)
    if by is None and change.key.startswith("exposed "):
        return side.evidence.get(change.key.replace(" ", "."), [])
    if side.shown is None:
        return []
    if by is None:
        return side.shown.gaps if change.key == "idle" else []
    return side.shown.of(GRID if OF_GRID in group.key else by, group.key) if group else []
