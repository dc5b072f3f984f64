"""Computes a summary from batches: what is counted, the groups, and the notes about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ktrace.analysis.answers.summary import COST, INSTEAD, QUESTIONS, RECORDING, build_questions, columns_of, split_tree
from ktrace.analysis.answers.summary.figures import figures
from ktrace.analysis.answers.summary.findings import HEAVIEST, PROOFS, LongestRows, evidence_of, heaviest_of
from ktrace.analysis.answers.summary.marked import Marked
from ktrace.analysis.answers.summary.nature import NATURES, nature_of_events, nature_of_tables
from ktrace.analysis.answers.summary.statistics import (
    PLURALS,
    PRODUCTS,
    Statistic,
    Statistics,
    grouped,
    in_one_unit,
    merged,
    statistics,
)
from ktrace.analysis.answers.summary.summary import Setting, Summary
from ktrace.analysis.questions.checks.examine import Recording, examine
from ktrace.analysis.questions.collectives.answer import CollectivesAnswer
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.durations import COMPUTE, Durations
from ktrace.analysis.work.gather import COLUMNS, GRID_COLUMNS, NO_FUNCTION, WorkInput
from ktrace.analysis.work.grids import GridTexts, KernelGrids
from ktrace.analysis.work.groups import BY, CLASSIFIED, GRID, NOT_KNOWN, OTHER, UNCLASSIFIED, DeviceUse, Group
from ktrace.analysis.work.launching import graph_calls
from ktrace.analysis.work.question import Key, Labels, Shape
from ktrace.analysis.work.replayed import without_capture
from ktrace.analysis.work.spans import MODULE, line_of
from ktrace.analysis.work.stored_columns import by_source
from ktrace.analysis.work.views import repeated, tool_of
from ktrace.analysis.work.window import windows_of
from ktrace.errors import UsageError
from ktrace.input.expand import paths_of
from ktrace.input.limits import limited
from ktrace.model.arrays import Int32
from ktrace.model.batch import Batch
from ktrace.model.row_builder import to_rows
from ktrace.model.tracks import natural
from ktrace.naming.alike import did_you_mean
from ktrace.naming.phases import LOOP
from ktrace.naming.taxonomy import Taxonomy, taxonomy
from ktrace.report import Report, counted
from ktrace.stages.select.coarsen import notes_of
from ktrace.store import SPILL_BYTES, Spill

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ktrace.analysis.work.question import Answer, Question
    from ktrace.pipeline.read import Progress
    from ktrace.pipeline.selection import Options, Selection
    from ktrace.stages.select.wanted import Filter


#: Formats whose tables state the total of what they list, and maybe of more, or shares of that.
STATES_TOTALS = frozenset(
    (
        *("torch-table", "table", "mapped", "nsys-stats", "nvprof", "old-profilers"),
        *("rocprof", "rocprofv3", "unitrace", "clintercept"),
    )
)

#: How the note begins that tells what is counted instead of device work.
_NO_WORK = "There is no device work"

#: What the trace of a capture tells of the work that graphs replay.
_OF_CAPTURE = {"op", "module", "line"}


@limited
def summarise(
    src: str | Path | Sequence[str | Path],
    *,
    by: str | Sequence[str] | None = None,
    tree: bool = False,
    peaks: str | Path | None = None,
    price: str | None = None,
    selection: Selection | None = None,
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> Summary:
    """Sums up where the time of one or several inputs went.

    Parameters
    ----------
    src : path or sequence of paths
        The inputs; several are one summary.
    by : str ("op,shape") or sequence of str, optional
        What to group work by (`ktrace.analysis.work.groups.BY`), and questions (`ktrace.analysis.answers.summary`),
        by default all.
    tree : bool, optional
        Answer with the call tree of those of `op`, `module`, `range` and `kernel` that `by` names, under "tree".
    peaks : path, optional
        A table of peak rates of devices that precedes that of ktrace, for the answer "roofline".
    price : str, optional
        What a device costs an hour, such as "2.5/h", for the answer "cost".
    selection, progress, **options
        As for `ktrace.convert`, without `split_by`; work is always classified, by the file `rules` first. Rows that the
        filter leaves out aren't counted; the steps and calls that work was launched in are known all the same.

    Returns
    -------
    Summary
        Times in ns. `Summary.report` is the account of the reading.

    Raises
    ------
    InputError
        The input can't be read, or nothing passes the filter.
    UsageError
        `by` names something unknown, or nothing that nests for a `tree`; `price` isn't one.

    Examples
    --------
    >>> import ktrace
    >>> summary = ktrace.summary("samples/kineto/one-step-of-training.pt.trace.json", by=["operation"])
    >>> [group.key for group in summary.groups["operation"]][:3]
    ['gemm', 'collective', 'attention']
    """
    from ktrace.pipeline.selection import selected

    by = by.split(",") if isinstance(by, str) else by
    further: list[Callable[[Summary], Mapping[str, Answer]]] = []
    also: tuple[str, ...] = ()
    if peaks is not None:
        from ktrace.analysis.questions.roofline.answer import against
        from ktrace.analysis.questions.roofline.peaks import peaks_of

        table = peaks_of(peaks)
        further.append(lambda summary: against(summary.answers, table))
    if price is not None:
        from ktrace.analysis.answers.summary.cost import NEEDS, cost_of, price_of

        an_hour, also, by = price_of(price), NEEDS, by and [name for name in by if name != COST]
        further.append(lambda summary: cost_of(an_hour, summary))
    summary = read_summary(src, by, selected(selection, options), progress, tree=tree, also=also)
    for answer in further:
        summary.answers |= answer(summary)
    if summary.report is not None:
        summary.report.require_match()
    return summary


def read_summary(
    src: str | Path | Sequence[str | Path],
    by: Sequence[str] | None,
    selection: Selection,
    progress: Progress | None,
    *,
    tree: bool = False,
    proved: bool = True,
    also: Sequence[str] = (),
) -> Summary:
    """The summary that `summarise` returns, also where nothing passes the filter: `Report.unmatched` tells so.

    Without `proved` the verdict lacks what only answers prove that nobody asked for. `also` are further questions; no
    note says that they have no answer.
    """
    from ktrace.pipeline.read import read_selected
    from ktrace.stages.select.wanted import Filter

    selection.require_unset("a summary", "explain", "split_by")
    filter = selection.filter
    report = Report()
    batches = read_selected(
        paths_of(src),
        report,
        selection.replace(
            classify=True,
            filter=Filter(ranks=filter.ranks) if filter and filter.ranks else None,
        ),
        progress=progress,
        columns=COLUMNS
        | columns_of(_questions_needed(by, proved, also))
        | frozenset(GRID_COLUMNS if GRID in (by or ()) else ()),
    )
    conditions = filter and replace(filter, ranks=())
    return summary_of(batches, report, taxonomy(selection.rules), by, conditions, tree=tree, proved=proved, also=also)


def _questions_needed(by: Sequence[str] | None, proved: bool, also: Sequence[str]) -> Sequence[str] | None:
    """What must be answered: what was asked for, and what the verdict rests on."""
    if by is None:
        return None
    return [*by, *also, *PROOFS, *INSTEAD] if proved else [*by, *also]


def summary_of(
    batches: Iterable[Batch],
    report: Report,
    rules: Taxonomy,
    by: Sequence[str] | None = None,
    filter: Filter | None = None,
    *,
    tree: bool = False,
    proved: bool = True,
    also: Sequence[str] = (),
) -> Summary:
    """The summary of batches that are classified by these rules; `report` is the report of their reading.

    Only rows that pass `filter` are counted. `proved` and `also` are those of `read_summary`.
    """
    from ktrace.stages.order.pairing import pair_halves
    from ktrace.stages.select.filter import filtered

    for name in by or ():
        if name not in (*BY, *QUESTIONS, UNCLASSIFIED, GRID):
            names = (*BY, *QUESTIONS)
            remedy = did_you_mean(name, names)
            raise UsageError(f"work can't be grouped by '{name}'", expected=", ".join(names), remedy=remedy)
    levels, by = split_tree(by or ()) if tree else ([], by)
    grids, by = GRID in (by or ()), by and [one for one in by if one != GRID]
    spill = Spill(SPILL_BYTES)
    try:
        needed = _questions_needed(by, proved, also)
        unasked = {*INSTEAD} - {*by} if proved and by is not None else set()
        questions = build_questions(needed and [name for name in needed if name not in unasked], spill, levels)
        instead = build_questions([*unasked], spill) if unasked else []
        spans, shapes = any(one.spans for one in questions), by is None or "shape" in by
        lines = by is None or "line" in by
        gathered = WorkInput(rules, spill, is_classified=True, spans=spans, grids=grids, shapes=shapes, lines=lines)
        collected = _collecting(by_source(pair_halves(batches, report)), gathered, [*questions, *instead])
        for batch in collected if filter is None else filtered(collected, filter, report):
            gathered.collect_work(batch)
        pa.default_memory_pool().release_unused()  # 160 MB after reading 6 M rows of Parquet
        report.require_balance()
        computed = _Summarised(gathered, by, report, levels, is_part=filter is not None and filter != type(filter)())
        summary = computed.summary(questions, instead)
        computed.forget()
        return summary
    finally:
        spill.close()
        pa.default_memory_pool().release_unused()  # a diff reads its other side next


def _collecting(batches: Iterable[Batch], gathered: WorkInput, questions: Sequence[Question]) -> Iterator[Batch]:
    """Yields the batches after `gathered` has seen the calls and ranges in them, and the questions all of them."""
    for batch in batches:
        gathered.collect_host(batch)
        for question in questions:
            question.see(batch)
        yield batch


class _Summarised:
    """The parts of a summary."""

    def __init__(
        self,
        gathered: WorkInput,
        requested: Sequence[str] | None,
        report: Report,
        levels: Sequence[str] = (),
        *,
        is_part: bool = False,
    ) -> None:
        """`levels` are those of the call tree; `is_part` says that a filter left work out."""
        self._gathered, self._report, self._levels = gathered, report, levels
        self._asked = requested or ()
        self._by = BY if requested is None else dict.fromkeys(requested)
        self._notes = notes_of(gathered.catalog)
        self._without, self._is_part = 0, is_part
        self._stated: float | None = None
        self._by_shares = False
        left_out = self._leave_out_views()
        self._events = Work.of_devices(gathered)
        self._is_empty = False
        self._statistics = self._add_up()
        self._work, self._nature = "events" if len(self._events) else "statistics", "host"
        if not len(self._events) and not self._statistics:
            self._take_host()
        self._leave_out(self._events.unfinished, "without an end")
        self._unit = self._one_unit()
        rows = [*self._events.shapes, *(one.row for one in self._statistics)]
        rows = [row for row in rows if row["source"] not in left_out]
        self._labels = Labels(gathered.catalog, {(row["source"], row.get("host"), row.get("device")) for row in rows})
        self._marked = Marked(self._events)
        steps, layers = len(self._marked.steps), len(self._marked.layers)
        grids = None if gathered.grids is None else GridTexts.from_grids(gathered.grids)
        self._grids = grids if self._work == "events" else None
        self._durations = Durations(gathered.spill, steps, layers, grids=self._grids is not None)
        self._time = 0
        self._longest = None if grids is None else LongestRows(self._events, self._labels, grids)
        self._devices = self._take_events()

    def _leave_out_views(self) -> set[str]:
        """Leaves out the work of sources that show the same work as others; returns these."""
        same_as = repeated(self._gathered)
        for source, other in same_as.items():
            self._gathered.work.leave_out(source)
            how = (
                "as another tool saw it"
                if tool_of(self._gathered, source) != tool_of(self._gathered, other)
                else "once more, to the ns"
            )
            self._notes.append(f"Not counted: the device work of {source}, that of {other} {how}.")
        self._gathered.repeated = {*same_as}
        return self._gathered.repeated

    def _add_up(self) -> list[Statistic]:
        """The statistics of device work in sources without events of it."""
        self._tables: dict[str, list[Shape]] = {}
        for columns in self._gathered.statistics:
            for row in to_rows(Batch("summaries", columns)):
                self._tables.setdefault(row["source"], []).append(row)
        timed = {shape["source"] for shape in self._events.shapes}
        by_source = {source: self._labelled(statistics(rows)) for source, rows in self._tables.items()}
        both = sorted(source for source in timed & by_source.keys() if by_source[source].device)
        if both:
            self._notes.append(f"For {', '.join(both)} the events are counted; the statistics there repeat them.")
        counted = [stats for source, stats in by_source.items() if stats.device and source not in timed]
        self._state(counted)
        return [one for stats in counted for one in self._with_notes(stats)]

    def _labelled(self, stated: Statistics) -> Statistics:
        """The statistics, with the operation of operators that stand for their work on devices."""
        for one in stated.found if stated.device else ():
            if one.row["kind"] == "op" and not one.row.get("operation"):
                by_rules = self._gathered.taxonomy.labels(one.row["name"], "kernel").operation
                one.row["operation"] = "gemm" if PRODUCTS.fullmatch(one.row["name"]) else by_rules
        return stated

    def _state(self, counted: list[Statistics]) -> None:
        """Keeps the total that tables state, where all do and all is there that they are of."""
        formats = {entry.facts.get("format") for entry in self._gathered.catalog.of("source")}
        stated = [one.stated for one in counted if one.stated is not None]
        if stated and len(stated) == len(counted) and formats <= STATES_TOTALS:
            self._stated, self._by_shares = math.fsum(stated), any(one.by_shares for one in counted)

    def _with_notes(self, stated: Statistics) -> list[Statistic]:
        """The statistics; notes tell which weren't counted."""
        self._leave_out(stated.repeated, "of tables that repeat others")
        self._leave_out(stated.without, "without a total time")
        self._without += stated.without if stated.found else 0
        return stated.found

    def _leave_out(self, rows: int, which: str) -> None:
        self._notes += [f"Not counted: {counted(rows, 'row')} {which}."] if rows else []

    def _take_host(self) -> None:
        """Counts what the host did, since there is no device work."""
        self._events = Work.of_host(self._gathered)
        if not len(self._events):
            counted = list(map(statistics, self._tables.values()))
            self._state(counted)
            self._statistics = [one for stats in counted for one in self._with_notes(stats)]
        if len(self._events) or self._statistics:
            self._work, self._nature = "host", self._nature_of_host()
            stats = ", each without those inside it" if len(self._events) else ""
            self._notes.append(f"{_NO_WORK}: these are {NATURES[self._nature].note}{stats}.")
        elif rows := self._gathered.samples.rows():
            self._work, self._statistics = "samples", [Statistic(row, row["total"], row["unit"]) for row in rows]
            self._notes.append("There is no device work and no call: these are samples, by the function that ran.")
        else:
            self._is_empty = True

    def _nature_of_host(self) -> str:
        """Whose time is counted: a key of NATURES."""
        formats = self._formats()
        if len(self._events):
            return nature_of_events(self._events.shapes, formats, self._gathered.catalog)
        return nature_of_tables((one.row for one in self._statistics), formats)

    def _formats(self) -> set[str]:
        """The formats of the inputs, and of those that canonical inputs were made of."""
        facts = (entry.facts for entry in self._gathered.catalog.of("source"))
        formats = {str(one["format"]) for one in facts if "format" in one}
        return formats or {one["format"] for one in self._report.inputs}

    def _nothing(self, answers: Container[str]) -> str:
        """The note that nothing can be added up, unless it is another question that the source answers."""
        if any(name in answers for name in INSTEAD):
            return "There is no device work and no host call: the source is about memory."
        more = "" if "counter" in answers else self._gathered.hints_when_empty(self._input())
        return f"There is nothing to add up: no device work and no host calls.{more}"

    def _input(self) -> str:
        """The input as a command line names it; of several what help calls them."""
        paths = [one["path"] for one in self._report.inputs]
        return quote(paths[0]) if len(paths) == 1 else "IN..."

    def _take_events(self) -> list[DeviceUse]:
        """Adds the work of each source; returns the use of its devices."""
        uses, steps = [], bool(self._marked.steps)
        for events in self._events.each():
            step, layer = self._marked.steps_of(events), self._marked.layers_of(events)
            grid = {} if self._grids is None else {"grid": events.grid}
            self._durations.add(
                events.source, ts=events.ts, dur=events.dur, shape=events.shape, step=step, layer=layer, **grid
            )
            self._time += int(events.dur.sum())
            if self._longest is not None:
                self._longest.add(self._events, events, step >= 0 if steps else np.ones(len(events), np.bool_))
            if self._work == "events":
                use = events.devices(self._labels.device, self._labels.rank)
                over_time = zip(use, windows_of(events), self._marked.courses(events), strict=True)
                uses += [replace(one, window=window, course=course) for one, window, course in over_time]
                self._notes += events.lacking()
                for device in events.unlikely:
                    self._notes.append(
                        f"No queueing of {device}: all its work would have waited longer than the device works at all, "
                        "so the clocks of host and device differ."
                    )
        return sorted(uses, key=lambda use: natural(use.label))

    def _one_unit(self) -> str:
        """The unit of all totals; notes tell what has none of it, and that there are no times."""
        unit, self._statistics, others = in_one_unit(self._statistics, timed=len(self._events) > 0)
        for which, rows in others.items():
            self._leave_out(rows, which)
        if unit != "ns":
            self._notes.append(f"The source has only {PLURALS[unit]}, no times.")
        return unit

    def summary(self, questions: Sequence[Question] = (), instead: Sequence[Question] = ()) -> Summary:
        """The summary, with the answers to these questions, and where nothing can be added up to others `instead`."""
        events, catalog = self._events, self._gathered.catalog
        stated = (entry.key["source"] for entry in catalog.of("source") if "source" in entry.key)  # once for each host
        sources = list(dict.fromkeys(stated)) or sorted({row["source"] for row in events.shapes} | self._tables.keys())
        sources = sources or [one["source"] for one in self._report.inputs]
        runs = list(dict.fromkeys(run for one in self._statistics if (run := one.row.get("run")) is not None))
        if len(runs) > 1:
            added = "are shares of their own run" if self._unit == "%" else "are added up; by run they are separate"
            self._notes.append(f"The statistics of {len(runs):,} runs {added}.")
        groups = self._groups(True, self._statistics)
        heaviest = self._heaviest(groups)
        answered = {name: one for question in questions for name, one in question.answer(events, self._labels).items()}
        answers = {name: one for name, one in answered.items() if name not in PROOFS or self._wants(name)}
        if self._is_empty:
            answered |= {
                name: one for question in instead for name, one in question.answer(events, self._labels).items()
            }
            self._notes.append(self._nothing(answered))
        missing = [by for by in self._asked if by not in groups and by not in answers]
        missing += [by for by in self._levels if by != "kernel" and "tree" not in answers]
        missing = missing if len(events) or self._statistics else [by for by in missing if by in RECORDING]
        if missing:
            how = dict.fromkeys(RECORDING[by] for by in missing if by in RECORDING)
            self._notes.append(" ".join([f"{NOT_KNOWN}{' or '.join(missing)} information.", *how]))
        askable = self._askable(answered)
        is_of_use = not _OF_CAPTURE.isdisjoint({*askable, *missing})
        if (
            is_of_use
            and not self._gathered.has_captured
            and not _OF_CAPTURE & answered.keys()
            and "tree" not in answered
        ):
            self._notes += filter(None, [self._without_capture(events)])
        span = max((end - begin for begin, end in self._gathered.spans_of.values()), default=None)
        work = self._gathered, self._events, self._tables, self._devices
        tables = self._stated, math.fsum(one.total for one in self._statistics), self._by_shares
        joint = answered.get("collective")
        clocks = joint.clocks if isinstance(joint, CollectivesAnswer) else None
        checks = examine(Recording(*work, self._report, span, self._without, self._is_part, *tables, clocks))
        if any(one.code == "check.launches_lost" for one in checks):  # there was some
            self._notes = [note.replace(_NO_WORK, "Device work is missing") for note in self._notes]
        return Summary(
            sources,
            self._work,
            self._total(self._statistics),
            self._count(self._statistics),
            self._gathered.span,
            groups,
            self._devices,
            self._marked.steps,
            self._marked.use() if self._work == "events" else [],
            list(dict.fromkeys(self._notes)),
            self._unit,
            {run: self._of_run(run) for run in runs} if len(runs) > 1 else {},
            answers,
            heaviest,
            {name: answered[name] for name in (*PROOFS, *INSTEAD) if name in answered},
            evidence_of(events, self._labels, heaviest),
            self._report,
            span,
            self._longest,
            self._kernel_grids(),
            checks,
            Setting.from_catalog(catalog),
            askable,
            [] if self._work == "events" else self._gathered.stated.figures(ranges=self._is_empty),
            self._nature,
            self._gathered.torch.dims,
            figures(self._gathered.figures, self._formats()) if self._is_empty else [],
        )

    def _without_capture(self, work: Work) -> str:
        """A note on work that graphs replayed, whose operators only the trace of the capture has."""
        count = time = 0
        for events in work.each() if self._work == "events" else ():
            of_graphs = graph_calls(work, events)[events.call]
            count, time = count + int(np.count_nonzero(of_graphs)), time + int(events.dur[of_graphs].sum())
        return without_capture(count, time)

    def _askable(self, answers: Mapping[str, Answer]) -> tuple[str, ...]:
        """The questions that the input can answer, in the order in which they are named; of the host fewer."""
        gathered, steps = self._gathered, self._marked.steps
        if self._work != "events":
            sources = {row["source"] for row in self._events.shapes}
            ranks = {self._labels.rank(source) for source in sources} - {None}
            of_host = {"collective": "collective" in answers, "rank": len(ranks) > 1, "step": len(steps) > 1}
            return tuple(name for name, is_known in of_host.items() if is_known)
        names, kinds = gathered.spans.names, gathered.spans.kinds
        could = {
            "phase": any(one.phase is not None or one.generate == LOOP for one in gathered.meanings),
            "collective": "collective" in answers,
            "op": "op" in kinds,
            "module": any(name.startswith(MODULE) for name in names),
            "line": any(map(line_of, names)),
            "range": "range" in kinds,
            "pass": "op" in kinds and any("Backward" in name for name in names),
            "step": len(steps) > 1,
            "layer": bool(self._marked.layers),
            "memory": gathered.has_allocations,
            "inside": gathered.has_insides,
            "energy": gathered.has_power,
            "counter": gathered.has_kernel_counters,
        }
        return tuple(name for name, is_known in could.items() if is_known)

    def _kernel_grids(self) -> KernelGrids | None:
        if self._grids is None or not self._grids.texts:
            return None
        return KernelGrids(self._events, self._durations, self._labels.key("kernel"), self._grids)

    def forget(self) -> None:
        """Frees the work."""
        self._events.forget()

    def _wants(self, name: str) -> bool:
        """Whether this was asked for."""
        return name in self._asked or self._by is BY

    def _of_run(self, run: str) -> Summary:
        """The summary of the statistics of one run."""
        of_run = [one for one in self._statistics if one.row.get("run") == run]
        sources = list(dict.fromkeys(one.row["source"] for one in of_run))
        groups, label = self._groups(False, of_run), self._labels.key
        heaviest = {by: grouped(of_run, label(by)) for by in HEAVIEST}
        total, count = self._total(of_run, False), self._count(of_run, False)
        return Summary(sources, "statistics", total, count, None, groups, unit=self._unit, heaviest=heaviest)

    def _total(self, stated: list[Statistic], events: bool = True) -> float:
        timed = self._time if events else 0
        if self._stated is not None and events and not timed:
            return self._stated
        return timed + math.fsum(one.total for one in stated) if stated else timed

    def _count(self, stated: list[Statistic], events: bool = True) -> int | None:
        counts = [one.row.get("count") for one in stated]
        counts_known = [count for count in counts if count is not None]
        return None if len(counts_known) < len(counts) else sum(counts_known) + (len(self._durations) if events else 0)

    def _groups(self, events: bool, stated: list[Statistic]) -> dict[str, list[Group]]:
        """The groups by each criterion that was asked for and that the trace has values of."""
        groups = {}
        for by in self._by:
            key = self._labels.key(by)
            of_events = self._by_events(by, key) if events and len(self._durations) else []
            of_events = merged(of_events, grouped(stated, key))
            if by == UNCLASSIFIED:
                groups[by] = [group for group in of_events if group.key != CLASSIFIED]
            elif of_events and (by == "kernel" or {group.key for group in of_events} != {OTHER}):
                groups[by] = self._in_order(by, of_events)
        return groups

    def _heaviest(self, groups: dict[str, list[Group]]) -> dict[str, list[Group]]:
        """The operations and kernels with their totals, for the verdict; more of them where they were asked for."""
        heaviest = {}
        for by in HEAVIEST:
            key = self._labels.key(by)
            number, keys = self._events.by_shape(key)
            totals = self._durations.totals(number, keys) if len(self._durations) else []
            heaviest[by] = groups[by] if by in groups else merged(totals, grouped(self._statistics, key))
        moved = self._moved(self._labels.key("kernel")) | (NO_FUNCTION if self._work == "samples" else frozenset())
        heaviest["kernel"] = [group for group in heaviest["kernel"] if group.key not in moved]
        first = heaviest_of(heaviest["operation"])
        if first is not None and self._work == "events" and (compute := self._compute(first.key)) is not None:
            heaviest["compute"] = self._durations.totals(*compute)
        return heaviest

    def _compute(self, operation: str) -> tuple[Int32, list[str]] | None:
        """The operation of each shape that computes, as numbers and names; None if all of `operation` does."""
        number, keys = self._events.by_shape(self._labels.key("operation"))
        computes = self._events.roles == COMPUTE
        if operation not in keys or np.all(computes[number == keys.index(operation)]):
            return None
        return np.where(computes, number, np.int32(len(keys))), [*keys, OTHER]

    def _moved(self, key: Key) -> set[str]:
        """The names of copies and sets, which are no kernels."""
        rows = [*self._events.shapes, *(one.row for one in self._statistics)]
        names: dict[bool, set[str]] = {True: set(), False: set()}
        for row in rows:
            names[row["kind"] in ("memcpy", "memset")].add(key(row))
        return names[True] - names[False]

    def _by_events(self, by: str, key: Key) -> list[Group]:
        """The groups of the events."""
        steps, layers = self._marked.steps, self._marked.layers
        if by == "step":
            if not steps:
                return []
            return self._durations.groups(by, lambda rows: rows["step"] + 1, [OTHER, *steps])
        number, keys = self._events.by_shape(key)
        if by != "layer" or not layers:
            names = _names(keys, self._events.shapes, number) if by == "kernel" else None
            return self._durations.groups(by, lambda rows: number[rows["shape"]], keys, names)
        places = {name: place for place, name in enumerate(keys)}
        numbers = np.array([places.setdefault(name, len(places)) for name in layers], np.int32)
        other = places.get(OTHER, -1)

        def of(rows: dict[str, Any]) -> Int32:
            of_shape = number[rows["shape"]]
            by_layer: Int32 = np.where((of_shape == other) & (rows["layer"] >= 0), numbers[rows["layer"]], of_shape)
            return by_layer

        return self._durations.groups(by, of, list(places))

    def _in_order(self, by: str, groups: list[Group]) -> list[Group]:
        if by == "layer":
            return sorted(groups, key=lambda group: (group.key == OTHER, natural(group.key)))
        if by == "step":
            place = {name: number for number, name in enumerate(self._marked.steps)}
            return sorted(groups, key=lambda group: place.get(group.key, len(place)))
        return groups


def _names(keys: list[str], shapes: list[Shape], number: Int32) -> list[str | None]:
    """The whole name for each key, None if there are several."""
    names: list[set[str]] = [set() for _ in keys]
    for shape, place in zip(shapes, number.tolist(), strict=True):
        names[place].add(shape["name"])
    return [next(iter(names_of_key)) if len(names_of_key) == 1 else None for names_of_key in names]
