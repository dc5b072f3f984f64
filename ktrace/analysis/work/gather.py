"""Collects what a summary needs from the batches of a trace: some numbers for each piece of work.

    work    ts, dur, correlation, occupancy, id, shape  kernels, copies, ...: 40 bytes each
    calls   ts, dur, correlation, id, thread            calls that may have launched work: 36 bytes each
    marks   ts, dur, track, meaning                     ranges with the name of a step, a layer, a phase
    links   key, role, event                            arrows from calls to work
    spans   ts, dur, thread, name, kind                 what the host did, if a question needs it: 45 bytes each
    waits   ts, dur, correlation, shape                 synchronisations and who waits for whom, with the spans
    samples function, count, value                      samples of CPU profiles, added up by the function that ran

A shape is the rest of a row: its track, kind, name and labels. Memory grows with the number of shapes; large columns
are kept in temporary files (`ktrace.analysis.work.stored_columns`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.work.replayed import replayed
from ktrace.analysis.work.spans import Spans, Waits
from ktrace.analysis.work.stated import Stated
from ktrace.analysis.work.stored_columns import StoredColumns, StoredRows, source_of
from ktrace.analysis.work.torch_facts import TorchFacts
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import DEVICE_KINDS, HOST_KINDS, TRACK_COLUMNS, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded, encoded
from ktrace.model.masks import NameTest, columns_where, each_source, present, truth, words_in
from ktrace.model.row_builder import REMARKS, remarks_of, to_rows
from ktrace.naming.phases import Attended, Phase, attended, part_of_generate, phase_of
from ktrace.naming.taxonomy import Taxonomy
from ktrace.stages.launch_tables import is_sampled
from ktrace.stages.select.wanted import step_of
from ktrace.store import Spill
from ktrace.store.events import LIMIT, values
from ktrace.store.vocabulary import RowKeys

_SAMPLE = "sample"

#: What isn't a function: V8's names for a thread that waits, and samples without frames.
NO_FUNCTION = frozenset({"(idle)", "[no stack]"})
_NS = "ns"


#: What to ask of an input that has counters alone, such as a log of a device's power and clocks.
_READINGS = " Its counters: ktrace summary {input} --by counter"

#: The same of one that has figures without times.
_FIGURES = ' Its figures: ktrace query {input} "from summaries"'


class Samples:
    """The samples of each source by name: those with a time have it added up, others are counted.

    Of a source with samples and sums of the same run, the samples.
    """

    def __init__(self) -> None:
        self._sums: defaultdict[tuple[str, str], dict[tuple[str, str], list[float]]] = defaultdict(dict)

    def add(self, source: str, batch: Batch) -> None:
        """Collects the samples among the events or summaries of one source."""
        is_sample = words_in(batch.column("kind"), (_SAMPLE,))
        if not is_sample.any():
            return
        rows = Batch(batch.record, batch.columns.filter(pa.array(is_sample)))
        if batch.record == "events":
            value, has_value = values(rows.columns, "value")
            count = np.ones(len(rows))
        else:
            value, has_value = values(rows.columns, "total")
            number, counted = values(rows.columns, "count")
            count = np.where(counted, number, 0)
        unit = decoded(rows.column("unit")) if rows.has("unit") else pa.nulls(len(rows), pa.string())
        timed = has_value & (value >= 0) & pc.fill_null(pc.equal(unit, _NS), False).to_numpy(zero_copy_only=False)
        self._sum((source, batch.record), rows, timed, _NS, value, count)
        plain = ~timed & pc.is_null(unit).to_numpy(zero_copy_only=False)
        self._sum((source, batch.record), rows, plain, "", np.where(has_value, value, count), count)

    def _sum(self, source: tuple[str, str], rows: Batch, selected: Any, unit: str, value: Any, count: Any) -> None:
        """Adds the values and counts of some rows to the sums of their names."""
        if not selected.any():
            return
        names = encoded(rows.column("name").filter(pa.array(selected)))
        codes = names.indices.to_numpy()
        sums = [np.bincount(codes, column[selected], len(names.dictionary)) for column in (value, count)]
        sums_of_source = self._sums[source]
        for code in np.unique(codes).tolist():
            name, total, number = names.dictionary[code].as_py(), sums[0][code], sums[1][code]
            totals = sums_of_source.setdefault((unit, name), [0.0, 0.0])
            totals[0] += float(total)
            totals[1] += float(number)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each source and name, its `total` in the `unit`: ns for a source that has times, else count."""
        made: list[dict[str, Any]] = []
        for (source, record), sums in self._sums.items():
            if record == "summaries" and (source, "events") in self._sums:
                continue
            unit = _NS if any(unit == _NS for unit, _ in sums) else ""
            for (its_unit, name), (total, count) in sums.items():
                if its_unit == unit:
                    row = {"source": source, "id": len(made), "kind": _SAMPLE, "name": name}
                    made.append(row | {"count": round(count) or None, "total": total, "unit": unit or "count"})
        return made


#: The columns of a shape.
_SHAPE = (*TRACK_COLUMNS, "timing", "kind", "name", "short_name", "operation", "library", "precision", "layer", "comm")

#: The columns of the grid of a launch.
GRID_COLUMNS = ("grid_x", "grid_y", "grid_z")

#: What is added up if there is no device work: calls and operators, else ranges.
_HOST = (*HOST_KINDS, "range")

#: The category of slices of CPU cores, as readers of formats with a scheduler write it.
SCHEDULING = "scheduling"

#: How many names of ranges are remembered.
_REMEMBERED = 1 << 20

#: Units of power -> watts.
WATTS = {"W": 1.0, "mW": 1e-3, "kW": 1e3, "uW": 1e-6}

#: Categories of ranges in which profilers show how long they were recording.
_OWN_RANGES = ("Trace",)

#: Events at 0 were never given a time if all others begin so many ns later, and so many times as late as they last.
_LONG_BEFORE, _TIMES_BEFORE = 1_000_000_000, 10

#: So many figures of benchmarks are kept.
_FIGURES_KEPT = 10_000

#: The duration of a slice without an end.
UNFINISHED = -1

#: Columns that a summary looks at.
COLUMNS = frozenset(
    (
        *_SHAPE,
        *("id", "parent", "ts", "dur", "cat", "correlation", "occupancy"),
        *("run", "table", "scope", "metric", "unit", "value", "percent", "count"),
        *("total", "avg", "median", "min", "max", "p95", "p99"),
        *("link", "key", "role", "event"),
    )
)

#: Columns of a piece of work.
WORK = {"ts": "i8", "dur": "i8", "correlation": "i8", "occupancy": "f4", "id": "i8", "shape": "i4"}

#: Columns of what the host did.
HOST_COLUMNS = (*TRACK_COLUMNS, "kind", "name", "short_name", "ts", "dur")

_STATISTICS = (
    *("source", "id", "parent", "ts", "kind", "name", "short_name", "operation", "library", "precision", "layer"),
    *("device", "stream", "run", "table", "scope", "metric", "unit", "value", "percent", "count"),
    *("total", "avg", "median", "min", "max", "p95", "p99"),
)


class Meaning(NamedTuple):
    """What the name of a range says: the step, the layer, the phase and batch of inference, and what that reads; of
    a Python function the part of generate() that it is.
    """

    step: str | None = None
    layer: str | None = None
    phase: Phase | None = None
    attended: Attended | None = None
    generate: int | None = None


_NO_MEANING = Meaning()


def _names_graphs(batch: Batch) -> bool:
    """Whether a name in the batch speaks of graphs, such as that of the call which launches one."""
    names = batch.column("name")
    words = names.dictionary if pa.types.is_dictionary(names.type) else names
    return bool(pc.any(pc.match_substring(words, "graph", ignore_case=True)).as_py())


class WorkInput:
    """The input of a summary. Call `collect_host` and `collect_work` for all batches first.

    Batches of events and links must have one source each (`by_source`).
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        spill: Spill,
        *,
        is_classified: bool = False,
        spans: bool = False,
        grids: bool = False,
        shapes: bool = False,
        lines: bool = False,
    ) -> None:
        """`is_classified` says that the rows have been labelled by these rules, so that they know no more.

        `spans` keeps what the host did and who waits for whom, for questions that need it; `grids` those of work;
        `shapes` those of operators' inputs, and `lines` the lines of code that they state, in the names of spans.
        """
        self.spill = spill
        self.taxonomy, self.is_classified = taxonomy, is_classified
        self._known: dict[str, int] = {}
        self.meanings: dict[Meaning, int] = {}
        self.catalog = Catalog()
        self.shapes = RowKeys(_SHAPE)
        self.grids = RowKeys(GRID_COLUMNS) if grids else None
        self.threads = RowKeys(TRACK_COLUMNS[:4])
        self.tracks = RowKeys(TRACK_COLUMNS)
        self.work = StoredColumns(spill, "work", **WORK, **({"grid": "i4"} if grids else {}))
        self.calls = StoredColumns(spill, "calls", ts="i8", dur="i8", correlation="i8", id="i8", thread="i4")
        self.marks = StoredColumns(spill, "marks", ts="i8", dur="i8", track="i4", meaning="i4")
        self.links = StoredRows(spill, "links")
        self._keeps_spans = spans
        self.spans = Spans(spill, self.threads, shapes=shapes, lines=lines)
        self.waits = Waits(spill)
        self.torch = TorchFacts()
        self.host = StoredRows(spill, "host")
        self.repeated: set[str] = set()  # the sources whose device work an earlier one has, too
        self.has_calls = self.has_counters = self.has_metrics = self.has_allocations = False
        self._has_graphs = False
        self.has_captured = False  # replayed kernels know what launched them at capture
        self.has_power = self.has_insides = self.has_kernel_counters = self.has_launch_metrics = False
        self.statistics: list[pa.RecordBatch] = []
        self.figures: list[dict[str, Any]] = []  # what benchmarks printed
        self.samples = Samples()
        self.stated = Stated()
        self.spans_of: dict[str, tuple[int, int]] = {}
        self.recorded: dict[str, tuple[int, int]] = {}  # the same without the profiler's own ranges
        self.remarks: list[tuple[str, str]] = []  # what the profiler said: ERROR, WARNING or "", and the text
        self._never_set: dict[str, tuple[int, int, int, bool]] = {}  # by source, see `_widen`

    @cached_property
    def steps(self) -> list[str | None]:
        """The step of each meaning, once all batches have been seen."""
        return [meaning.step for meaning in self.meanings]

    def hints_when_empty(self, input: str) -> str:
        """Hints at commands that have an answer where nothing can be added up; `input` is what they are asked of."""
        hints = _READINGS if self.has_counters else ""
        hints += (_READINGS if self.has_launch_metrics else _FIGURES) if self.has_metrics else ""
        return hints.format(input=input)

    def collect_host(self, batch: Batch) -> None:
        """Collects the calls, arrows and ranges of a batch, which tell when and where work was launched."""
        if self._keeps_spans and batch.record in ("events", "links") and len(batch):
            self.waits.add(batch)
            if batch.record == "events":
                self.torch.add(batch, source_of(batch))
        if batch.record == "events" and len(batch):
            self._launching(_of_programs(batch))
        elif batch.record == "links" and len(batch):
            is_launch = words_in(batch.column("link"), ("launch",)) & truth(batch.column("event").is_valid())
            if is_launch.any():
                self.links.add(source_of(batch), columns_where(batch, is_launch, ("key", "role", "event")))

    def collect_work(self, batch: Batch) -> None:
        """Collects the work and statistics of a batch, which are added up, and the catalog."""
        if batch.record == "events" and not (self.has_calls or len(self.work)):
            self.has_counters |= bool(words_in(batch.column("kind"), ("counter",)).any())
        elif batch.record == "summaries" and not (self.has_calls or len(self.work)):
            is_metric = words_in(batch.column("kind"), ("metric",))
            self.has_metrics |= bool(is_metric.any())
            self.has_launch_metrics |= bool((is_metric & present(batch.column("parent"))).any())
        if batch.record == "catalog":
            self.catalog.add(batch)
        elif batch.record == "events" and len(batch) and not is_sampled(batch):
            self._widen(batch)
            self.has_allocations |= bool(words_in(batch.column("kind"), ("alloc",)).any())
            self.has_power |= batch.has("unit") and bool(words_in(batch.column("unit"), tuple(WATTS)).any())
            self.has_insides |= bool(inside_kernels(batch).any())
            self._has_graphs = self._has_graphs or _names_graphs(batch)
            is_looked_at = batch.has("args.captured_in") or self._has_graphs  # it takes long to search texts
            self.has_captured = self.has_captured or (is_looked_at and replayed(batch) is not None)
            if not self.has_kernel_counters and batch.has("parent") and batch.has("value"):
                is_counter = words_in(batch.column("kind"), ("counter",))
                self.has_kernel_counters = bool((is_counter & truth(batch.column("parent").is_valid())).any())
            self.samples.add(source_of(batch), batch)
            self._events(_of_programs(batch))
        elif batch.record == "summaries" and len(batch):
            self.remarks += remarks_of(batch, REMARKS - len(self.remarks))
            self.stated.add(batch)
            for source, rows in each_source(batch):
                self.samples.add(source, rows)
            is_statistic = words_in(batch.column("kind"), (*DEVICE_KINDS, *HOST_KINDS, "total"))
            is_statistic |= words_in(batch.column("kind"), ("metric",)) & NameTest(
                lambda name: SELF_ON_DEVICE.fullmatch(name) is not None
            )(batch.column("metric"))
            if is_statistic.any():
                self.statistics.append(columns_where(batch, is_statistic, _STATISTICS))
            if not self.statistics and len(self.figures) < _FIGURES_KEPT:
                self._keep_figures(batch)

    def _keep_figures(self, batch: Batch) -> None:
        """Keeps the times and rates that benchmarks printed, which don't add up."""
        is_figure = words_in(batch.column("kind"), ("metric",)) & ~truth(batch.column("parent").is_valid())
        if is_figure.any():
            rows = batch.columns.filter(pa.array(is_figure)).slice(0, _FIGURES_KEPT - len(self.figures))
            self.figures += to_rows(Batch("summaries", rows))

    def _meaning(self, name: str) -> int:
        """The number of the meaning of the name of a range; -1 if it has none."""
        if name not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            step = name.strip() if step_of(name) is not None else None
            meaning = Meaning(step, self.taxonomy.layer(name), phase_of(name), attended(name), part_of_generate(name))
            has_meaning = meaning != _NO_MEANING
            self._known[name] = self.meanings.setdefault(meaning, len(self.meanings)) if has_meaning else -1
        return self._known[name]

    def _launching(self, batch: Batch) -> None:
        api, host, other = kinds_in(batch, ("api",), HOST_KINDS, ("range", "op"))
        if not (api | host | other).any():
            return
        ts, dur = batch.column("ts").to_numpy(), durations(batch)
        correlation, _ = values(batch.columns, "correlation")
        if self._keeps_spans:
            self.spans.add(batch, ts, dur, correlation)
        calls = np.flatnonzero(api | (host & (correlation != 0)))
        if len(calls):
            id_, thread = batch.column("id").to_numpy()[calls], self.threads.number(batch, calls)
            columns = {"ts": ts[calls], "dur": dur[calls], "correlation": correlation[calls]}
            self.calls.add(source_of(batch), **columns, id=id_, thread=thread)
        self._marks(batch, other, ts, dur)

    def _events(self, batch: Batch) -> None:
        if not len(batch):
            return
        ts, dur = batch.column("ts").to_numpy(), durations(batch)
        work, slices, calls = kinds_in(batch, DEVICE_KINDS, _HOST, HOST_KINDS)
        correlation, _ = values(batch.columns, "correlation")
        self._work(batch, np.flatnonzero(work), ts, dur, correlation)
        if not len(self.work) and (slices := slices & ~_of_devices(batch)).any():
            self.host.add(source_of(batch), columns_where(batch, slices, HOST_COLUMNS))
            self.has_calls |= bool(calls.any())

    def _work(self, batch: Batch, rows: Int64, ts: Int64, dur: Int64, correlation: Int64) -> None:
        if not len(rows):
            return
        if batch.has("occupancy"):
            filled = batch.column("occupancy").fill_null(np.nan)
            occupancy = filled.to_numpy()[rows].astype(np.float32)
        else:
            occupancy = np.full(1, np.nan, np.float32)
        self.work.add(
            source_of(batch),
            ts=ts[rows],
            dur=dur[rows],
            correlation=correlation[rows],
            occupancy=occupancy,
            id=batch.column("id").to_numpy()[rows],
            shape=self.shapes.number(batch, rows),
            **({} if self.grids is None else {"grid": self.grids.number(batch, rows)}),
        )

    def _marks(self, batch: Batch, is_mark: Bools, ts: Int64, dur: Int64) -> None:
        """Collects the ranges whose name contains a step, a layer or a phase."""
        if not is_mark.any():
            return
        names = batch.column("name")
        coded = encoded(names)
        codes = coded.indices.to_numpy(zero_copy_only=False)
        used = np.flatnonzero(np.bincount(codes[is_mark], minlength=len(coded.dictionary)))
        words = coded.dictionary.take(pa.array(used)).to_pylist()
        meaning = np.full(len(coded.dictionary), -1, np.int32)
        meaning[used] = [self._meaning(word) for word in words]
        rows = np.flatnonzero(is_mark & (meaning[codes] >= 0))
        if len(rows):
            track = self.tracks.number(batch, rows)
            self.marks.add(source_of(batch), ts=ts[rows], dur=dur[rows], track=track, meaning=meaning[codes[rows]])

    def _widen(self, batch: Batch) -> None:
        source, ts, dur = source_of(batch), batch.column("ts").to_numpy(), durations(batch)
        never_set = is_never_set(ts, dur)
        of_tool = words_in(batch.column("cat"), _OWN_RANGES) if batch.has("cat") else np.zeros(len(ts), np.bool_)
        # events that may have no time, all events, their first begin, whether they are work of a device
        count, of, first, is_work = self._never_set.get(source, (0, 0, 0, False))
        first = min(first, int(ts[never_set].min(initial=0)))
        is_work = is_work or bool((never_set & words_in(batch.column("kind"), DEVICE_KINDS)).any())
        self._never_set[source] = count + int(np.count_nonzero(never_set)), of + len(ts), first, is_work
        if never_set.any():
            ts, dur, of_tool = ts[~never_set], dur[~never_set], of_tool[~never_set]
        if len(ts):
            ends = ts + np.maximum(dur, 0)
            self.spans_of[source] = _hull(self.spans_of.get(source), (int(ts.min()), int(ends.max())))
            if not of_tool.all():
                recorded = int(ts[~of_tool].min()), int(ends[~of_tool].max())
                self.recorded[source] = _hull(self.recorded.get(source), recorded)

    @cached_property
    def unset(self) -> dict[str, tuple[int, int, int]]:
        """Events whose time was never set, once all batches have been seen, by source.

        Their number, that of all events, and by how many ns they lie before all others. Begin and duration of such
        events are 0 or -1, long before all others; nearer to these, that is a time like any other, and widens the span.
        Work of a device never takes no time, so that it needn't be as long before as other events.
        """
        counts: dict[str, tuple[int, int, int]] = {}
        for source, (count, of, first, is_work) in self._never_set.items():
            begin, end = self.spans_of.get(source, (0, 0))
            if count and begin > _LONG_BEFORE and (is_work or begin > _TIMES_BEFORE * (end - begin)):
                counts[source] = count, of, begin
            elif count:
                self.spans_of[source] = _hull(self.spans_of.get(source), (first, 0))
        return counts

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first start and the last end of all events, once all batches have been seen."""
        span: tuple[int, int] | None = None
        for source in self.unset.keys() | self.spans_of.keys():
            span = _hull(self.spans_of[source], span) if span else self.spans_of[source]
        return span


#: The time of devices in an operator itself, as the tables of PyTorch's profiler have it beside that of the host.
SELF_ON_DEVICE = re.compile(r"Self (?!CPU)(\w+)( time total)?")


#: Times that say that none was set: 0, and -1 in ns, us and ms.
_NO_TIMES = (0, -1, -1_000, -1_000_000)


def is_never_set(ts: Int64, dur: Int64) -> Bools:
    """Which events have neither begin nor duration, as records do whose time was never set."""
    if int(ts.min(initial=1)) > 0:
        return np.zeros(len(ts), np.bool_)
    never_set: Bools = np.isin(ts, _NO_TIMES) & ((dur == 0) | ((ts < 0) & (dur == UNFINISHED)))
    return never_set


def inside_kernels(batch: Batch) -> Bools:
    """Which rows are ranges of a device with a parent: they are inside a kernel."""
    if not batch.has("parent") or not batch.has("device"):
        return np.zeros(len(batch), np.bool_)
    is_range: Bools = words_in(batch.column("kind"), ("range",)) & present(batch.column("parent"))
    return is_range & present(batch.column("device"))


def _of_programs(batch: Batch) -> Batch:
    """The batch without slices of CPU cores: those tell which thread was there, and aren't ranges of a program."""
    if not batch.has("cat"):
        return batch
    there = words_in(batch.column("cat"), (SCHEDULING,))
    if batch.has("tid"):
        there &= ~truth(batch.column("tid").is_valid())
    return Batch("events", batch.columns.filter(pa.array(~there))) if there.any() else batch


def _hull(span: tuple[int, int] | None, other: tuple[int, int]) -> tuple[int, int]:
    return (min(span[0], other[0]), max(span[1], other[1])) if span else other


def kinds_in(batch: Batch, *sets: Iterable[str]) -> list[Bools]:
    """For each set of kinds, which rows have one of them."""
    return [words_in(batch.column("kind"), tuple(kinds)) for kinds in sets]


def durations(batch: Batch) -> Int64:
    """The durations, UNFINISHED where there is none or an impossible one."""
    dur, has_dur = values(batch.columns, "dur")
    possible = has_dur & (dur >= 0) & (dur < LIMIT)
    return dur if possible.all() else np.where(possible, dur, UNFINISHED)


def _of_devices(batch: Batch) -> Bools:
    """Ranges on a device and no thread, such as a state of its clocks: nothing that the host did."""
    (_, on_device), (_, on_thread) = (values(batch.columns, name) for name in ("device", "tid"))
    is_range: Bools = words_in(batch.column("kind"), ("range",)) & on_device & ~on_thread
    return is_range
