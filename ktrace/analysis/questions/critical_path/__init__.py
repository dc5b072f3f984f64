"""The path through host and device that decides how long a step takes.

work ──► device, host_threads ──► walk ──► path ──► the question of `ktrace summary --by critical-path`

device        what allowed each piece of device work to begin; where the host waits for devices, and streams for events
host_threads  what the threads of the host did, and which one the path goes on in
walk          the times whose path is looked for, and the walk from their end back to their start
path          the path as columns, with the names of its pieces, and as slices of a timeline

The answer is the path by kind, operation and name, in ns:

PathShare("all_reduce", "collective", time 300,000 on the path, total 12,000,000, pieces 4)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.analysis.questions.critical_path.path import (
    CALL,
    DEPENDENCY,
    KINDS,
    LAUNCH_DELAY_KIND,
    NO_CALL,
    OPERATOR,
    UNKNOWN,
    Path,
    PathColumns,
    PathNames,
    paths,
    slices,
    words,
)
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.gaps import CAUSES, NOTES, SPOKEN
from ktrace.analysis.work.gather import kinds_in
from ktrace.analysis.work.groups import OTHER
from ktrace.analysis.work.question import Answer, Explanation, Labels
from ktrace.model.arrays import Int64, Integers
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.tracks import natural
from ktrace.report import counted
from ktrace.store import Spill
from ktrace.store.joins import distinct, sorted_by
from ktrace.tables import Cell, Column, Table, percent

#: The columns of the model that it looks at, in addition to those of any summary.
COLUMNS = frozenset({"args"})


def questions(names: Sequence[str], spill: Spill) -> Explanation:
    """The question what decides how long steps take."""
    return CriticalPath()


#: The columns of steps in brief: the kinds that belong to each.
_BRIEF = {
    "kernels": ("kernel",),
    "collectives": ("collective",),
    "copies": ("copy",),
    "host": ("host operator", "API call", "between calls"),
    "delays": ("launch delay", "launch overhead", "between graph nodes"),
    "waits": ("dependency", "queued before the recording", "not recorded", "unknown"),
}


class PathShare(msgspec.Struct, frozen=True):
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


class PathStep(msgspec.Struct, frozen=True):
    """A step: `wall` is the time from its start to its end, or to the end of its work if it is the last one.

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
        what = "the whole trace" if self.is_whole else counted(self.count, "step")
        columns = [Column("kind", spoken=SPOKEN), Column("time", "ns"), Column("share", "%")]
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

    def _shares(self, by: str, shares: list[PathShare], top: int | None, brief: bool) -> Table:
        """The shares by operation or by name; names have a kind."""
        kind = any(one.kind for one in shares)
        columns = [
            Column(by),
            *([Column("kind", spoken=SPOKEN)] if kind else []),
            Column("time", "ns"),
            Column("share", "%"),
        ]
        columns += [] if brief else [Column("pieces", "count"), Column("total", "ns")]
        columns.append(Column("on the path", "%"))
        rows: list[tuple[Cell, ...]] = []
        for one in shares[:top]:
            row: list[Cell] = [one.key, *([one.kind] if kind else []), one.time, percent(one.time, self.wall)]
            row += [] if brief else [one.pieces, one.total]
            rows.append((*row, percent(one.time, one.total) if one.total else None))
        return Table(
            f"critical path by {by}", f"critical path by {by}", tuple(columns), rows, more=len(shares) - len(rows)
        )


#: The name of the question, as `--by` takes it.
NAME = "critical-path"

_LEFT_OUT = "A filter leaves out {:,} piece{} of device work, so the critical path may be a different one."


class CriticalPath:
    """The question about the path. What it needs is in the work, its calls, the spans and the waits."""

    spans = True

    def __init__(self) -> None:
        self._seen = 0

    def see(self, batch: Batch) -> None:
        """Counts the device work, since the path needs all of it."""
        if batch.record == "events" and len(batch):
            self._seen += int(np.count_nonzero(kinds_in(batch, DEVICE_KINDS)[0]))

    def explain(self, work: Work, labels: Labels) -> Iterator[pa.RecordBatch]:
        """Yields the path of each source on a track of its process."""
        return slices(work, labels) if len(work) else iter(())

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answer, if any source has device work or steps."""
        sums = _Sums(work, labels)
        for path in paths(work):
            sums.add(path)
        missing = self._seen - len(work.gathered.work)
        notes = [_LEFT_OUT.format(missing, "s" if missing > 1 else "")] if missing > 0 else []
        return {NAME: sums.answer(notes)} if sums.steps else {}


class _Sums:
    """The sums of the paths of all sources."""

    def __init__(self, work: Work, labels: Labels) -> None:
        self._names = PathNames(work, labels)
        self.steps: dict[str, tuple[int, int, Int64]] = {}
        self._kinds: dict[str, Int64] = {}
        self._operations: dict[str, Int64] = {}
        self._by_name: dict[tuple[str, str], Int64] = {}
        self._counts: Counter[str] = Counter()
        self._is_whole = True
        self._pieces: list[pa.Table] = []

    def add(self, path: Path) -> None:
        """Adds the path of a source or a process."""
        steps, early = path.course.steps, np.zeros(len(path.device), np.bool_)
        times = np.zeros(len(steps) * len(KINDS), np.int64)
        for columns in path.blocks():
            length = columns.end - columns.begin
            self._pieces.append(_pieces(path, columns, self._names))
            times += _grouped(columns.step.astype(np.int64) * len(KINDS) + columns.kind, length, len(times))[0]
            _add(self._kinds, KINDS, columns.kind, length)
            self._add_names(path, columns, length)
            early[columns.work[columns.kind < OPERATOR]] = True
        self._add_steps(path, times.reshape(len(steps), -1))
        self._add_own(path)
        self._add_work(path)
        early &= path.device.begin < path.device.call_begin
        self._counts.update(
            work=len(path.device), unknown=int((~path.device.launched).sum()), early=int(np.count_nonzero(early))
        )

    def _add_steps(self, path: Path, times: Int64) -> None:
        """Adds the steps, with the times of each by kind."""
        self._is_whole &= path.course.is_whole
        for step, step_times in zip(path.course.steps, times, strict=True):
            count, wall, by_kind = self.steps.get(step.label, (0, 0, np.zeros(len(KINDS), np.int64)))
            self.steps[step.label] = count + 1, wall + step.end + step.after - step.begin, by_kind + step_times

    def _add_names(self, path: Path, columns: PathColumns, length: Int64) -> None:
        """Adds times on the path by name and kind, and those of device work by operation."""
        code = self._names.name_ids(path, columns) * len(KINDS) + columns.kind
        words = self._names.words
        cell, which = distinct(code, len(words) * len(KINDS))
        keys = [(words[one // len(KINDS)], KINDS[one % len(KINDS)]) for one in code[cell].tolist()]
        _add(self._by_name, keys, which, length)
        on_host = np.flatnonzero(columns.kind < OPERATOR)
        operation = self._names.operation[path.device.shape[columns.work[on_host]]]
        _add(self._operations, self._names.operations, operation, length[on_host])

    def _add_own(self, path: Path) -> None:
        """Adds the own times of operators and calls altogether, on the path or not."""
        words = self._names.words
        names, times = path.own_times()
        first, which = distinct(names.astype(np.int64), len(words))
        for number, time in zip(names[first].tolist(), _grouped(which, times, len(first))[0].tolist(), strict=True):
            for kind in (OPERATOR, CALL):
                if (key := (words[number], KINDS[kind])) in self._by_name:
                    self._by_name[key][2] += time

    def _add_work(self, path: Path) -> None:
        """Adds the time of all work by name and by operation, on the path or not."""
        names, shape, times = self._names, path.device.shape, path.work_times()
        _add(self._operations, names.operations, names.operation[shape], times, total=True)
        cell = names.kernel[shape].astype(np.int64) * OPERATOR + path.kind_of_shape[shape]
        first, which = distinct(cell, len(names.kernels) * OPERATOR)
        keys = [(names.kernels[one // OPERATOR], KINDS[one % OPERATOR]) for one in cell[first].tolist()]
        _add(self._by_name, keys, which, times, total=True)

    def answer(self, notes: list[str]) -> CriticalPathAnswer:
        """The answer."""
        steps = [
            PathStep(label, count, wall, {kind: int(time) for kind, time in zip(KINDS, times, strict=True) if time})
            for label, (count, wall, times) in self.steps.items()
        ]
        kinds = [PathShare(kind, kind, int(time), int(pieces)) for kind, (time, pieces, _) in self._kinds.items()]
        operations = [_share(name, "", one, True) for name, one in self._operations.items()]
        names = [_share(name, kind, one, kind in _TIMED) for (name, kind), one in self._by_name.items()]
        return CriticalPathAnswer(
            sorted(steps, key=lambda one: natural(one.label)),
            _heaviest(kinds),
            _heaviest(operations) if {*self._operations} - {OTHER} else [],
            _heaviest([one for one in names if one.kind not in KINDS[LAUNCH_DELAY_KIND:DEPENDENCY]]),
            self._is_whole,
            [*notes, *self._sentences()],
            pa.concat_tables(self._pieces),
        )

    def _sentences(self) -> Iterator[str]:
        """Notes on what the figures mean or lack."""
        unknown, early = self._counts["unknown"], self._counts["early"]
        if unknown and unknown == self._counts["work"]:
            yield "The calls that launched the work aren't known, so the path doesn't lead from devices to the host."
        elif unknown:
            yield f"The calls that launched {unknown:,} of {self._counts['work']:,} device activities aren't known."
        if early:
            times = counted(early, "time")
            yield f"Work on the path begins before its call, {times}: clocks disagree, or times are rounded."
        there = [kind for kind in (KINDS[DEPENDENCY], KINDS[UNKNOWN]) if kind in self._kinds]
        waits = [SPOKEN.get(kind, kind).capitalize() for kind in there]
        if waits:
            ran = any(name.startswith("while ") for name, _ in self._by_name)
            also = ' "while X ran": X, on another stream, ended just before.' if ran else ""
            yield f"{', '.join(waits)}: as in --by idle; the path doesn't show what was waited for.{also}"
        yield from (note for cause, note in NOTES.items() if list(CAUSES)[cause] in self._kinds)


#: The kinds that take time off the path, too.
_TIMED = KINDS[:NO_CALL]


def _pieces(path: Path, columns: PathColumns, names: PathNames) -> pa.Table:
    """A table of the given pieces of a path."""
    return pa.table(
        {
            "source": words([path.source], np.zeros(len(columns.begin), np.int64)),
            "step": words([step.label for step in path.course.steps], columns.step),
            "ts": columns.begin,
            "dur": columns.end - columns.begin,
            "kind": words(KINDS, columns.kind),
            "name": names.texts(path, columns),
        }
    )


def _share(name: str, kind: str, figures: Int64, has_total: bool) -> PathShare:
    time, pieces, total = figures.tolist()
    return PathShare(name, kind, time, pieces, total if has_total else None)


def _heaviest(shares: list[PathShare]) -> list[PathShare]:
    return sorted(shares, key=lambda one: (-one.time, -(one.total or 0), one.key))


def _add(sums: dict[Any, Int64], keys: Sequence[Any], code: Integers, times: Int64, *, total: bool = False) -> None:
    """Adds times to the sums (time, pieces, total) of their keys; `total` to the totals alone."""
    time, pieces = _grouped(code, times, len(keys))
    for number in np.flatnonzero(time).tolist():
        figures = (0, 0, time[number]) if total else (time[number], pieces[number], 0)
        sums.setdefault(keys[number], np.zeros(3, np.int64))
        sums[keys[number]] += figures


def _grouped(code: Integers, times: Int64, groups: int) -> tuple[Int64, Int64]:
    """The time and the number of rows of each group."""
    pieces = np.bincount(code, minlength=groups)
    bounds = np.concatenate([[0], np.cumsum(pieces)])
    sums = np.concatenate([[0], np.cumsum(times[sorted_by(code, groups)])])
    return sums[bounds[1:]] - sums[bounds[:-1]], pieces
