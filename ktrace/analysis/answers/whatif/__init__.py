"""What would help: how long a step would take if some work took another time, or something weren't waited for.

batches ──► analysis.work ──► graph ──┬──► replay without a change ──► how far off the recording it is
                                      └──► changes ──► replay ──────► step times ──► mean, interval, what bounds them

ranks    the collectives in which several ranks meet, on one clock
graph    moments of threads and of device work, what each waited for, and how long after it it was
changes  which of that is shorter, gone or other
replay   the time of each moment, of steps, and what decided them

The interval is that of the mean of another run of as many steps: in 9 of 10 runs it is there, as far as steps scatter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from ktrace.analysis.answers.whatif.changes import Changes, Matches, changed
from ktrace.analysis.answers.whatif.graph import (
    HOST,
    LAUNCH,
    LOADER,
    RUN,
    STREAM,
    SYNC,
    WAIT,
    Edges,
    Graph,
    build_graph,
)
from ktrace.analysis.answers.whatif.ranks import together
from ktrace.analysis.answers.whatif.replay import Replay, path_back, replay, step_times
from ktrace.analysis.questions.collectives.rows import COLUMNS as OF_COLLECTIVES
from ktrace.analysis.questions.collectives.rows import CollectiveRows
from ktrace.analysis.questions.critical_path import COLUMNS as WAITED
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.durations import COMMUNICATION, COPY
from ktrace.analysis.work.gather import COLUMNS, WorkInput
from ktrace.analysis.work.groups import OTHER
from ktrace.analysis.work.question import kernel_of
from ktrace.analysis.work.steadiness import RUNS, student_t_p
from ktrace.analysis.work.stored_columns import by_source
from ktrace.errors import InputError
from ktrace.input.expand import paths_of
from ktrace.input.limits import limited
from ktrace.model.arrays import Float64, Int64
from ktrace.model.batch import Batch
from ktrace.naming.taxonomy import Taxonomy, taxonomy
from ktrace.report import Report, counted
from ktrace.stages.order.pairing import pair_halves
from ktrace.store import SPILL_BYTES, Spill
from ktrace.tables import Cell, Column, Table, brief, percent

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ktrace.pipeline.read import Progress
    from ktrace.pipeline.selection import Options, Selection

#: A replay that is further off, in percent, says nothing of changes.
MOST_DRIFT = 1.0

#: The part of other runs whose mean step time is in the interval.
COVERED = 0.9

#: From so many steps on, the first isn't counted: nothing is on the device before it. So many others tell an interval.
_FIRST_LEFT_OUT, _FEWEST = 3, 2

#: Where nothing is asked for: so much work at twice its speed, if it decides so much of a step, in percent.
_HEAVIEST, _WORTH = 3, 5.0
#: Overlapped, work saves what it takes, and the gap behind it; who saves more waited for something before it.
_MOST_OVERLAP = 1.5
#: Names of work that an option can be given without quotes.
_PLAIN = re.compile(r"[\w.:-]+")

#: What edges are called where they bound a step.
_NAMES = {
    HOST: "the CPU", LOADER: "data loading", LAUNCH: "launch latency", STREAM: "between kernels", WAIT: "blocked work",
    SYNC: "sync point",
}  # fmt: skip

_RECORD = (
    "record calls and waits, too: torch.profiler with ProfilerActivity.CPU and "
    "_ExperimentalConfig(enable_cuda_sync_events=True), nsys --trace=cuda,nvtx; ktrace check IN tells of lost records"
)


class Bound(msgspec.Struct, frozen=True):
    """The time of all steps in which something decides how long they take, of so many ns a step."""

    name: str
    time: float
    share: float


class Case(msgspec.Struct, frozen=True):
    """The mean time of a step in ns with a change, and the interval; None where steps are too few for one.

    `saving` is what it takes less than a replay without a change; `bounds` are the heaviest first.
    """

    change: str
    step: float
    low: float | None
    high: float | None
    saving: float
    bounds: tuple[Bound, ...]


@dataclass(frozen=True)
class WhatIf:
    """What changes would save. `steps` is the number of steps, None for a recording without; `recorded` their mean.

    `drift` is by how much the replay without a change is off, in percent of a step: the moment that is furthest off, on
    average. `unchanged` is that replay. `tried` are changes that nobody asked for; then the cases are those that save
    something, the one that saves the most first.
    """

    sources: list[str]
    steps: int | None
    recorded: float
    drift: float
    unchanged: Case
    cases: list[Case]
    notes: list[str] = field(default_factory=list)
    report: Report | None = None
    tried: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"<WhatIf {', '.join(self.sources)}: {self.head()}>"

    @property
    def what(self) -> str:
        """What is timed: a step, or the whole recording."""
        return "the whole" if self.steps is None else "a step"

    def head(self) -> str:
        """How far the replay without a change is from the recording."""
        steps = "" if self.steps is None else f" ({counted(self.steps, 'step')})"
        return (
            f"Replay without a change: {brief(self.unchanged.step)} {self.what}{steps}, recorded "
            f"{brief(self.recorded)}; {self.drift:.2f} % off at most."
        )

    def sentences(self) -> list[str]:
        """How far off a replay is; of changes that nobody asked for, the one that saves the most."""
        if not self.tried:
            return [self.head()]
        if not self.cases:
            return [self.head(), "None of the changes that were tried saves anything."]
        best = self.cases[0]
        saved = f"{brief(best.saving)} of {self.what}, {percent(best.saving, self.unchanged.step):.1f}%"
        return [self.head(), f"Of the changes that were tried, {best.change} saves the most: {saved}."]

    def tables(self) -> list[Table]:
        """The step time of each change, and what decides how long a step takes, as recorded and with the last one."""
        return [self._of_changes(), self._of_bounds()]

    def _of_changes(self) -> Table:
        columns = (
            Column("change"),
            Column("step time", "ns", title="whole" if self.steps is None else "step"),
            Column("low", "ns", title="90% from"),
            Column("high", "ns", title="to"),
            Column("saving", "ns", title="saves"),
            Column("saving", "%", title="in %"),
        )
        before: tuple[Cell, ...] = (*_interval(self.unchanged), None, None)
        rows = [
            (*_interval(one), one.saving, percent(one.saving, self.unchanged.step))
            for one in self.cases
        ]  # fmt: skip
        return Table("what would help", "what would help", columns, [before, *rows], list(self.notes))

    def _of_bounds(self) -> Table:
        sides = [self.unchanged, *([] if self.tried is not None else self.cases[-1:])]
        columns = [Column("what")]
        for name, one in zip(("recorded", "then"), sides, strict=False):
            columns += [Column(name, "ns", title=one.change), Column(name, "%", title="in %")]
        times = [{bound.name: bound for bound in one.bounds} for one in sides]
        names = sorted(dict.fromkeys(name for side in times for name in side), key=lambda name: _heaviest(name, times))
        rows = [(name, *(cell for side in times for cell in _cells(side.get(name)))) for name in names]
        return Table("what bounds a step", f"what decides how long {self.what} takes", tuple(columns), rows)

    def document(self) -> dict[str, Any]:
        """The answer for programs."""
        return {
            "sources": self.sources,
            "steps": self.steps,
            "recorded_ns": self.recorded,
            "drift_percent": self.drift,
            "unchanged": _document(self.unchanged, None),
            "cases": [_document(one, self.unchanged.step) for one in self.cases],
            "notes": self.notes,
        }


def _interval(one: Case) -> tuple[Cell, ...]:
    return one.change, one.step, one.low, one.high


def _heaviest(name: str, times: Sequence[Mapping[str, Bound]]) -> tuple[float, ...]:
    """Orders what decides: the heaviest with the last change first, then by the recording."""
    return tuple(-side[name].time if name in side else 0.0 for side in reversed(times))


def _cells(one: Bound | None) -> tuple[float | None, float | None]:
    return (one.time, one.share) if one else (None, None)


def _document(one: Case, of: float | None) -> dict[str, Any]:
    bounds = [{"name": bound.name, "time_ns": bound.time, "share_percent": bound.share} for bound in one.bounds]
    document: dict[str, Any] = {"change": one.change, "step_ns": one.step, "low_ns": one.low, "high_ns": one.high}
    if of is not None:
        document |= {"saving_ns": one.saving, "saving_percent": percent(one.saving, of)}
    return document | {"bounds": bounds}


@limited
def whatif(
    src: str | Path | Sequence[str | Path],
    changes: Changes | None = None,
    *,
    selection: Selection | None = None,
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> WhatIf:
    """Tells how long a step would take with some changes, by a replay of what waited for what.

    Parameters
    ----------
    src : path or sequence of paths
        The inputs.
    changes : Changes, optional
        What would be otherwise. By default what may help is tried: the operations that decide most of a step at twice
        their speed, communication and copies beside other work, no launches, waits or loading.
    selection, progress, **options
        As for `ktrace.summary`; without a filter, since the replay needs all work.

    Returns
    -------
    WhatIf
        Times in ns.

    Raises
    ------
    InputError
        The input can't be read, has no launches, or its replay is more than 1 % off.
    UsageError
        A name in `changes` is that of no work.

    Examples
    --------
    >>> import ktrace
    >>> loop = "samples/kineto/five-steps-that-wait-for-the-loss.pt.trace.json"
    >>> answer = ktrace.whatif(loop, ktrace.Changes(scale={"gemm": 0.5}))
    >>> [(case.change, round(case.saving)) for case in answer.cases]
    [('--scale gemm=0.5', 147316)]
    """
    from ktrace.pipeline.read import read_selected
    from ktrace.pipeline.selection import selected

    chosen = selected(selection, options)
    chosen.require_unset("whatif", "explain", "split_by", "filter")
    report, paths = Report(), paths_of(src)
    batches = read_selected(
        paths, report, chosen.replace(classify=True), progress=progress, columns=COLUMNS | WAITED | OF_COLLECTIVES
    )
    return whatif_of(batches, report, taxonomy(chosen.rules), changes or Changes(), _named(paths))


def _named(paths: Sequence[str]) -> str:
    """The inputs as an error names them."""
    return str(paths[0]) + (f" and {len(paths) - 1:,} more" if len(paths) > 1 else "")


def whatif_of(batches: Iterable[Batch], report: Report, rules: Taxonomy, changes: Changes, path: str) -> WhatIf:
    """The answer for batches that are classified by these rules; `path` names the input in errors."""
    spill = Spill(SPILL_BYTES)
    try:
        gathered = WorkInput(rules, spill, is_classified=True, spans=True)
        collectives = CollectiveRows(spill)
        for batch in by_source(pair_halves(batches, report)):
            if batch.record == "events" and len(batch):
                collectives.add(batch)
            gathered.collect_host(batch)
            gathered.collect_work(batch)
        report.require_balance()
        work = Work.of_devices(gathered)
        if not len(work):
            raise InputError(
                "there is no device work with times to replay", path=path,
                expected="kernels with times and the calls that launched them", remedy=_RECORD,
            )  # fmt: skip
        ranks = together(collectives, work)
        graph = build_graph(work, work.rows.sources, ranks)
        separate = ranks is not None and not ranks.is_known
        return _Answering(work, graph, path, report, separate).answer(changes)
    finally:
        spill.close()


class _Answering:
    """What a graph and its replays tell."""

    def __init__(self, work: Work, graph: Graph, path: str, report: Report, separate: bool) -> None:
        self._work, self._graph, self._path, self._report = work, graph, path, report
        self._apart = separate
        self._matches = Matches(work)
        number, operations = work.by_shape(_name_of(work))
        self._names: list[str] = [operations[one] for one in number.tolist()]

    def answer(self, changes: Changes) -> WhatIf:
        """The answer, after it was made sure that a replay without a change is near the recording."""
        graph = self._graph
        pieces = f"{counted(len(graph.shape), 'piece')} of device work"
        if not graph.launched:
            raise InputError(
                f"no launch of {pieces} is known, so nothing tells what waited for what",
                path=self._path,
                expected="calls that launch device work, with the same correlation",
                remedy=_RECORD,
            )
        cases = [(change, changed(graph, one, self._matches)) for change, one in changes.cases()]  # unknown names first
        again = replay(graph, graph.edges)
        recorded, drift = self._times(graph.time), self._drift(again)
        if drift > MOST_DRIFT:
            raise self._refusal(drift)
        has_steps = bool(graph.periods[0][0].label)
        unchanged = self._case("as recorded", again, graph.edges, None, drift)
        tried = None
        if not cases:
            changes = self._suggestion(unchanged)
            cases = [(change, changed(graph, one, self._matches)) for change, one in changes.each()]
            tried = tuple(change for change, _ in cases)
        replayed = [self._case(change, replay(graph, edges), edges, unchanged.step, drift) for change, edges in cases]
        beyond = self._beyond(changes, replayed, len(recorded))
        notes = [*self._notes(changes), *beyond.values()]
        if tried is not None:
            if vain := [one.change for one in replayed if one.saving <= 0]:
                notes.append(f"Tried, too, and nothing saved: {', '.join(vain)}.")
            replayed = [one for one in replayed if one.saving > 0 and one.change not in beyond]
            replayed.sort(key=lambda one: -one.saving)
        return WhatIf(
            self._work.rows.sources, len(recorded) if has_steps else None, float(self._counted(recorded).mean()), drift,
            unchanged, replayed, notes, self._report, tried,
        )  # fmt: skip

    def _beyond(self, changes: Changes, replayed: Sequence[Case], steps: int) -> dict[str, str]:
        """What is to be said of overlaps that would save more than the work takes that they are of."""
        graph, savings = self._graph, {one.change: one.saving for one in replayed}
        took = graph.time[graph.end_of] - graph.time[graph.begin_of]
        notes = {}
        for name in changes.overlap:
            change = f"--overlap {name}"
            if savings[change] > _MOST_OVERLAP * int(took[self._matches.find(name)[graph.shape]].sum()) / steps:
                notes[change] = f"{change} would save more than this work takes: it waited for what isn't recorded."
        return notes

    def _suggestion(self, unchanged: Case) -> Changes:
        """What is tried where nothing is asked for: what takes part in deciding how long a step takes."""
        graph, names = self._graph, self._work.operations
        beside = {name for name, role in zip(names, self._work.roles, strict=True) if role in (COMMUNICATION, COPY)}
        decide = [one for one in unchanged.bounds if one.name in self._names and _PLAIN.fullmatch(one.name)]
        heavy = [one.name for one in decide if one.share >= _WORTH][:_HEAVIEST]
        return Changes(
            scale=dict.fromkeys(heavy, 0.5),
            overlap=tuple(one.name for one in decide if one.name in beside),
            graph=bool(graph.edges.issuing.any()),
            no_sync=bool(graph.syncs),
            loader=0 if self._loads() else None,
        )

    def _loads(self) -> bool:
        """Whether anything that loads data was recorded on the host."""
        edges = self._graph.edges
        return bool(np.any(edges.loading) or np.any(edges.kind == LOADER))

    def _times(self, time: Int64) -> Float64:
        """The time of each step, on average over all courses that have it."""
        sums: dict[str, list[int]] = {}
        for periods in self._graph.periods:
            begins, ends = step_times(time, periods)
            for one, took in zip(periods, (ends - begins).tolist(), strict=True):
                sums.setdefault(one.label, []).append(took)
        return np.array([sum(several) / len(several) for several in sums.values()])

    def _counted(self, times: Float64) -> Float64:
        return times[1:] if len(times) >= _FIRST_LEFT_OUT else times

    def _drift(self, again: Replay) -> float:
        """By how much, in percent of a step, the moment of it that is furthest off is off its place in it."""
        off = whole = 0
        for periods in self._graph.periods:
            (begins, ends), (others, _) = (step_times(time, periods) for time in (self._graph.time, again.time))
            for one, begin, end, other in zip(periods, begins.tolist(), ends.tolist(), others.tolist(), strict=True):
                moved = (again.time[one.ends] - other) - (self._graph.time[one.ends] - begin)
                off += int(np.abs(moved).max())
                whole += end - begin
        return 100 * off / whole if whole else 0.0

    def _refusal(self, drift: float) -> InputError:
        """The error that tells why a replay is off."""
        graph, unexplained = self._graph, self._graph.unexplained()
        late, reasons = unexplained[graph.begin_of], []
        if late.any():
            worst = int(late.argmax())
            name, at = kernel_of(self._work.shapes[graph.shape[worst]]), int(graph.time[graph.begin_of[worst]])
            pieces = counted(int(np.count_nonzero(late)), "piece")
            reasons.append(
                f"{pieces} of device work began {brief(float(late.sum()))} later than launches, the work "
                f"before and events explain, {name} at {at:,} ns by {brief(float(late[worst]))}"
            )
        unexplained[graph.begin_of] = 0
        if unexplained.any():
            reasons.append(f"CPU calls returned {brief(float(unexplained.sum()))} later than what they waited for")
        if left := len(graph.shape) - graph.launched:
            reasons.append(f"the launches of {left:,} of {counted(len(graph.shape), 'piece')} aren't known")
        why = "; ".join(reasons) or "times of host and device contradict each other"
        return InputError(
            f"a replay without a change is {drift:,.1f} % off the recording, so it tells nothing of changes: {why}",
            path=self._path,
            expected=f"at most {MOST_DRIFT:g} %",
            remedy=_RECORD,
        )

    def _case(self, change: str, again: Replay, edges: Edges, unchanged: float | None, drift: float) -> Case:
        """The step time of a replay with its interval, and what bounds it."""
        times = self._counted(self._times(again.time))
        mean = float(times.mean())
        low = high = None
        if len(times) >= _FEWEST:
            variance = 2 * float(times.var(ddof=1)) / len(times) + 2 * (RUNS * mean) ** 2
            wide = _quantile(len(times) - 1) * variance**0.5 + mean * drift / 100
            low, high = max(mean - wide, 0.0), mean + wide
        bounds = tuple(self._bounds(again, edges))
        return Case(change, mean, low, high, 0.0 if unchanged is None else unchanged - mean, bounds)

    def _bounds(self, again: Replay, edges: Edges) -> list[Bound]:
        """What decides how long the steps that count take: the path back from their end, by name."""
        times: Counter[str] = Counter()
        steps = 0
        for periods in self._graph.periods:
            begins, _ = step_times(again.time, periods)
            first = 1 if len(periods) >= _FIRST_LEFT_OUT else 0
            steps += len(periods) - first
            ends = periods[-1].ends
            moment = int(ends[again.time[ends].argmax()])
            for edge, time in path_back(again, edges, moment, int(begins[first])):
                times[self._name(edges, edge)] += time
        return [
            Bound(name, time / steps, percent(time, times.total()) or 0.0)
            for name, time in sorted(times.items(), key=lambda item: -item[1])
        ]

    def _name(self, edges: Edges, edge: int) -> str:
        if edge < 0:
            return "from before"
        kind = int(edges.kind[edge])
        if kind == RUN:
            return self._names[int(self._graph.shape[edges.of[edge]])]
        if kind == HOST and 2 * edges.loading[edge] > edges.lag[edge]:
            return _NAMES[LOADER]
        return _NAMES[kind]

    def _notes(self, changes: Changes) -> Iterator[str]:
        """What the figures rest on."""
        graph = self._graph
        if graph.inferred:
            are = "are" if graph.inferred > 1 else "is"
            waits = counted(graph.inferred, "wait")
            yield f"{waits} between streams {are} inferred: another stream's work had just ended."
        if left := len(graph.shape) - graph.launched:
            pieces = counted(len(graph.shape), "piece")
            yield f"The launches of {left:,} of {pieces} of device work aren't known: it follows what is before it."
        if self._apart:
            yield "The clocks of the ranks can't be related: each is replayed alone, its collectives as they were."
        elif self._has_collectives() and not graph.joint:
            yield "Other ranks aren't here: collectives take as long as they did, with their waiting."
        if changes.no_sync and not graph.syncs:
            yield "--no-sync saves nothing: no CPU call waits for a device."
        if changes.loader is not None and not self._loads():
            yield "--loader saves nothing: nothing that loads data was recorded on the host."
        if graph.unwaited_loads and (changes.scale or changes.graph or changes.no_sync):
            yield "The loader always had the next batch ready; how much faster it could go isn't recorded."

    def _has_collectives(self) -> bool:
        shapes = np.unique(self._graph.shape).tolist()
        return any(self._work.roles[one] == COMMUNICATION for one in shapes)


def _name_of(work: Work) -> Any:
    """The function that names work: by its operation, else by its short name."""
    operation = dict(zip(map(id, work.shapes), work.operations, strict=True))

    def name(shape: dict[str, Any]) -> str:
        label = operation[id(shape)]
        return str(label) if label and label != OTHER else kernel_of(shape)

    return name


def _quantile(freedom: int) -> float:
    """Student's t that is exceeded, in either direction, by what isn't COVERED."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_t_p(middle, 1.0, freedom) > 1 - COVERED else (low, middle)
    return high
