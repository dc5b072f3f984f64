"""The answer: how long steps took because of what. All times are ns.

PathShare("all_reduce", "collective", time 300,000 on the path, total 12,000,000, pieces 4)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktrace.tables.figures import Cell, Column, Table, percent

if TYPE_CHECKING:
    import pyarrow as pa

#: The columns of steps in brief: the kinds that belong to each.
_BRIEF = {
    "kernels": ("kernel",),
    "collectives": ("collective",),
    "copies": ("copy",),
    "host": ("host operator", "API call", "between calls"),
    "delays": ("launch delay", "launch overhead"),
    "waits": ("dependency", "queued before the recording", "not recorded", "unknown"),
}


@dataclass(frozen=True)
class PathShare:
    """The time that something is on the path, in `pieces`.

    `total` is the time that it takes in the steps altogether, on the path or not: for an operator or a call its own,
    without those inside it; None for what only exists on the path. A step can become shorter by at most `time` if it
    took no time at all.
    """

    key: str
    kind: str
    time: int
    pieces: int
    total: int | None = None


@dataclass(frozen=True)
class PathStep:
    """A step: `wall` is the time from its begin to its end, or to the end of its work if it is the last one.

    `times` are the times on the path by kind, whose sum is `wall`. A step of several sources is the sum of all, and
    `count` is their number.
    """

    label: str
    count: int
    wall: int
    times: dict[str, int]


@dataclass(frozen=True)
class CriticalPathAnswer:
    """The path through host and devices that decides how long steps take.

    `kinds`, `operations` and `names` are the shares of all steps together, heaviest first; operations are those of
    device work. `is_whole` tells that there are no steps, and each source counts as one. `path` has the pieces of all
    paths: source, step, ts, dur, kind and name; without holes within a step.
    """

    steps: list[PathStep]
    kinds: list[PathShare]
    operations: list[PathShare]
    names: list[PathShare]
    is_whole: bool = False
    notes: list[str] = field(default_factory=list)
    path: pa.Table | None = field(default=None, repr=False, compare=False)

    @property
    def wall(self) -> int:
        """The time of all steps."""
        return sum(step.wall for step in self.steps)

    @property
    def count(self) -> int:
        """The number of steps."""
        return sum(step.count for step in self.steps)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The tables `critical path`, `critical path steps`, and one by operation and by name."""
        return list(self._tables(top, brief))

    def _tables(self, top: int | None, brief: bool) -> Iterator[Table]:
        what = "the whole trace" if self.is_whole else f"{self.count:,} step{'s' if self.count > 1 else ''}"
        columns = [Column("kind"), Column("time", "ns"), Column("share", "%")]
        per_step = self.count > 1
        columns += [Column("per source" if self.is_whole else "per step", "ns")] if per_step else []
        columns.append(Column("pieces", "count"))
        rows: list[tuple[Cell, ...]] = []
        for one in (PathShare("step" if not self.is_whole else "trace", "", self.wall, 0), *self.kinds):
            row: list[Cell] = [one.key, one.time, percent(one.time, self.wall)]
            row += [one.time / self.count] if per_step else []
            rows.append((*row, one.pieces or None))
        yield Table("critical path", f"critical path of {what}", tuple(columns), rows, list(self.notes))
        if not self.is_whole or self.count > 1:
            yield self._steps(top, brief)
        if self.operations:
            yield self._shares("operation", self.operations, top, brief)
        if self.names:
            yield self._shares("name", self.names, top, brief)

    def _steps(self, top: int | None, brief: bool) -> Table:
        there = {one.key for one in self.kinds}
        groups = _BRIEF if brief else {kind: (kind,) for kinds in _BRIEF.values() for kind in kinds}
        groups = {name: kinds for name, kinds in groups.items() if there.intersection(kinds)}
        columns = [Column("source" if self.is_whole else "step"), Column("times", "count"), Column("wall", "ns")]
        columns += [Column(name, "%") for name in groups]
        columns += [] if brief else [Column(name, "ns") for name in groups]
        rows: list[tuple[Cell, ...]] = []
        for step in self.steps[:top]:
            times = [sum(step.times.get(kind, 0) for kind in kinds) for kinds in groups.values()]
            shares = [percent(time, step.wall) for time in times]
            rows.append((step.label, step.count, step.wall, *shares, *([] if brief else times)))
        title = "critical path by source" if self.is_whole else "critical path by step"
        return Table("critical path steps", title, tuple(columns), rows, more=len(self.steps) - len(rows))

    def _shares(self, by: str, found: list[PathShare], top: int | None, brief: bool) -> Table:
        """The shares by operation or by name; names have a kind."""
        kind = any(one.kind for one in found)
        columns = [Column(by), *([Column("kind")] if kind else []), Column("time", "ns"), Column("share", "%")]
        columns += [] if brief else [Column("pieces", "count"), Column("total", "ns")]
        columns.append(Column("on the path", "%"))
        rows: list[tuple[Cell, ...]] = []
        for one in found[:top]:
            row: list[Cell] = [one.key, *([one.kind] if kind else []), one.time, percent(one.time, self.wall)]
            row += [] if brief else [one.pieces, one.total]
            rows.append((*row, percent(one.time, one.total) if one.total else None))
        return Table(
            f"critical path by {by}", f"critical path by {by}", tuple(columns), rows, more=len(found) - len(rows)
        )
