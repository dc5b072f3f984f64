"""Selects a part of a trace by time: an interval, the time around a name, a profiler's step, a range.

    Crop(time="1.5s..2.0s")         0 s        1.5 s ······ 2.0 s        3 s
    op       [ 1.4 .. 1.6 ]                    stays, whole
    kernel   [ 1.9 .. 2.3 ]                    stays, whole
    op       [ 2.1 .. 2.2 ]                    left out

Which time a crop means is known after all events, source by source, since the first time of the trace, its ranges and
launches may come last; until then rows wait in a temporary folder, as in the stage `order`:

    --step 1       ProfilerStep#1 of rank 0: 1100..1200      of rank 1: 1105..1215
    --time 0s..1s  of all: 1000..1000001000
    both           the intersection

Marks are the rows that name a part of a trace: a range, a profiler's step, or any row whose name matches.

    range   ProfilerStep#3   tid 4242     100 us .. 1105 us      the step
    range   ProfilerStep#3   stream 7     139 us .. 1089 us      the same on the device, where its work may run later
    kernel  ncclAllReduce    stream 20    631 us ..  749 us      around it

Formats whose columns and rows can be read separately (`Format.read_part`) are read twice: first the columns that decide
which rows stay, then all columns of these rows. The same code as otherwise decides.

    1   id  ts   dur  kind ...         all rows     ──►   the crop   ──►   id 3, 4
    2   id  ts   dur  kind ... args    3, 4         ──►   batches
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.errors import InputError
from ktrace.model.arrays import Bools, Int32, Int64, Structured
from ktrace.model.batch import POINT_KINDS, TRACK_COLUMNS, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded
from ktrace.model.masks import NameTest, rows_where, truth, words_in
from ktrace.model.tracks import Track
from ktrace.naming.alike import near
from ktrace.naming.phases import phase_of, phase_test
from ktrace.report import Report, Severity
from ktrace.stages.order.links import LinkStore
from ktrace.stages.select.dependents import Dependents, are_figures, before_recording, launch_ends, launch_links
from ktrace.stages.select.filter import WITH_EVENT, WITH_ROW, account
from ktrace.stages.select.intervals import ALWAYS, NEVER, Intervals
from ktrace.stages.select.wanted import Crop, step_head, step_of, steps_of
from ktrace.store import RANGE_ROWS, SPILL_BYTES, BatchSpool, Spill, ranges
from ktrace.store.events import GONE, LIMIT, SLICE, WORK, EventStore, values
from ktrace.store.joins import isin_sorted
from ktrace.store.vocabulary import TrackIndex, Vocabularies
from ktrace.tables import parse_interval, time_text

Test = Callable[[str], bool]

#: Source, host and pid.
Process = tuple[str, str | None, int | None]

#: The most names that are remembered, to suggest similar ones for a name that isn't there.
_NAMES = 20_000


def called(pattern: str) -> Test:
    """A test whether a name is the pattern or matches it as a whole: * is any text, ? any character."""
    match = re.compile(translate(pattern)).match
    return lambda name: name == pattern or match(name) is not None


class Marks:
    """Collects the rows with some names and kinds from batches of events."""

    def __init__(self, test: Test, kinds: tuple[str, ...] = ()) -> None:
        self._is_named = NameTest(test)
        self._kinds = kinds
        self.names: dict[str, None] = {}
        self._host: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._device: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._own: defaultdict[Process, list[tuple[int, int]]] = defaultdict(list)
        self.ids: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, batch: Batch) -> None:
        """Collects the rows of a batch whose name and kind match."""
        # the first `_NAMES` names are remembered
        names = batch.column("name")
        if len(self.names) < _NAMES:
            here = names.filter(pa.array(words_in(batch.column("kind"), self._kinds))) if self._kinds else names
            self.names.update(dict.fromkeys(decoded(here.unique()).to_pylist()))
        is_marked = self._is_named(names)
        if self._kinds:
            is_marked &= words_in(batch.column("kind"), self._kinds)
        if not is_marked.any():
            return
        rows = batch.columns.filter(pa.array(is_marked))
        ts, dur = rows.column("ts").to_pylist(), values(rows, "dur")
        marked = Batch("events", rows)
        placed = truth(marked.column("device").is_valid()) | truth(marked.column("stream").is_valid())
        lasts = ~words_in(marked.column("kind"), ("instant", "log", "sample", "counter"))
        texts = (decoded(marked.column(name)).to_pylist() for name in ("source", "name", "id", "host", "pid"))
        for row, (source, name, number, *process) in enumerate(zip(*texts, strict=True)):
            end = ts[row] + int(dur[0][row]) if dur[1][row] or not lasts[row] else LIMIT
            self.keep(source, name, ts[row], end, bool(placed[row]), number)
            if not placed[row]:
                self._own[(source, *process)].append((ts[row], end))

    def keep(self, source: str, name: str, begin: int, end: int, placed: bool, number: int) -> None:
        """Keeps a row; `placed` tells whether it is on a device."""
        (self._device if placed else self._host)[source].append((begin, end))
        self.ids[source].append(number)

    def __bool__(self) -> bool:
        return bool(self.ids)

    def each(self) -> dict[str, Intervals]:
        """The intervals of each source: those on the host if it has any, else those on the device."""
        sources = {*self._host, *self._device}
        return {source: Intervals.from_pairs(self._host.get(source) or self._device[source]) for source in sources}

    def of_processes(self) -> dict[Process, Intervals]:
        """The intervals of each process that has any on the host."""
        return {process: Intervals.from_pairs(pairs) for process, pairs in self._own.items()}

    def on_devices(self) -> dict[str, Intervals]:
        """The intervals on the devices of each source, where their time may be later."""
        return {source: Intervals.from_pairs(pairs) for source, pairs in self._device.items() if pairs}

    @property
    def on_host(self) -> set[str]:
        """The sources that have any on the host."""
        return {source for source, pairs in self._host.items() if pairs}

    def around(self, margin: int) -> Intervals:
        """The intervals of all sources, with a margin before and after each."""
        pairs = [pair for by in (self._host, self._device) for spans in by.values() for pair in spans]
        wide = [(begin - margin, max(end, begin + 1) + margin) for begin, end in pairs]
        return Intervals.from_pairs(wide) if wide else NEVER


def no_such(what: str, sought: str, names: dict[str, None]) -> InputError:
    """The error for a name that isn't there, with similar names."""
    some = (near(sought, names) or list(names))[:5]
    return InputError(
        f"no {what} is called '{sought}'",
        expected=f"one of {len(names):,} names, such as {', '.join(some)}" if some else None,
        remedy="use the whole name, or a pattern such as '*part of it*'",
    )


#: How many steps an error lists.
_MOST = 8


class Bounds:
    """Collects the rows that tell which part is meant."""

    def __init__(self, crop: Crop, within: Intervals = ALWAYS) -> None:
        self._crop, self._within = crop, within
        self._around = Marks(called(crop.around)) if crop.around is not None else None
        self._range = Marks(called(crop.range), ("range",)) if crop.range is not None else None
        self._step = Marks(self._is_step, ("range", "op")) if crop.step is not None else None
        self._phase = Marks(phase_test(crop.phase), ("range", "op")) if crop.phase is not None else None
        self._every = {
            part: Marks(partial(_is_any, of), ("range", "op"))
            for part, of in ((self._step, step_of), (self._phase, phase_of))
            if part is not None
        }

    def _is_step(self, name: str) -> bool:
        first, last, head = steps_of(self._crop.step or 0)
        step = step_of(name)
        return step is not None and first <= step <= last and head in (None, step_head(name))

    def add(self, batch: Batch) -> None:
        """Collects from events."""
        for marks in (self._around, self._range, self._step, self._phase, *self._every.values()):
            if marks is not None:
                marks.add(batch)

    def part(self, start: int, end: int, catalog: Catalog, report: Report) -> CropBounds:
        """The selected time of each source, in a trace from `start` to `end` (ns); noted in the report.

        Raises InputError if there is no such time, name, step or range.
        """
        common, crop = self._within, self._crop
        if crop.time is not None:
            common = common.intersection(interval(crop.time, start, end, catalog))
        if self._around is not None:
            if not self._around:
                raise no_such("event", str(crop.around), self._around.names)
            common = common.intersection(self._around.around(crop.margin_ns()))
        part = self._bounds_of_each(common)
        spans = [pair for bounds in part.all() for pair in bounds.pairs()]
        if not any(begin <= end and stop > start for begin, stop in spans):
            raise InputError("no row is in all of the selected parts", remedy="select one of them")
        shown = [f"{time_text(max(a, start) - start)}..{time_text(min(b, end + 1) - start)}" for a, b in spans]
        report.issue("cropped", ", ".join(shown[:3]) + (", ..." if len(shown) > 3 else ""), rows=0)
        return part

    def _bounds_of_each(self, common: Intervals) -> CropBounds:
        """What a step or range selects of the time that all sources have in common. Raises InputError without one."""
        part = CropBounds(common, overlapping=self._crop.overlapping)
        choices = ((self._step, self._no_step), (self._range, self._no_range), (self._phase, self._no_phase))
        for marks, error in choices:
            if marks is None:
                continue
            if not marks:
                raise error(marks)
            others = self._every[marks].of_processes() if marks in self._every else ()
            part.narrow(marks, dict.fromkeys(others, NEVER) | marks.of_processes())
        alone = [self._crop.time, self._around, self._step, self._range, self._phase].count(None) == 4
        if not alone:
            part.ids = {}
        return part

    def _no_step(self, marks: Marks) -> InputError:
        step_of_name = {name.strip(): step for name in marks.names if (step := step_of(name)) is not None}
        if steps_of(self._crop.step or 0)[2] is None:
            steps = list(map(str, sorted(set(step_of_name.values()))))
        else:
            steps = sorted(step_of_name, key=lambda name: (step_head(name), step_of_name[name]))
        some = ", ".join(steps[:_MOST]) + (f", ... {steps[-1]}" if len(steps) > _MOST else "")
        remedy = None if steps else "use --range NAME or --time: the trace has no ProfilerStep#N or Iteration N"
        expected = f"one of the steps {some}" if steps else None
        return InputError(f"there is no step {self._crop.step}", expected=expected, remedy=remedy)

    def _no_phase(self, marks: Marks) -> InputError:
        stated = {(one.phase, one.batch or 0) for name in marks.names if (one := phase_of(name)) is not None}
        phases = [f"{phase}:{batch}" if batch else phase for phase, batch in sorted(stated)]
        some = ", ".join(phases[:_MOST]) + (", ..." if len(phases) > _MOST else "")
        remedy = None if phases else "use --range NAME or --time: no annotation states a phase"
        return InputError(
            f"there is no phase {self._crop.phase}", expected=f"one of {some}" if phases else None, remedy=remedy
        )

    def _no_range(self, marks: Marks) -> InputError:
        return no_such("range", str(self._crop.range), marks.names)


def _is_any(of: Callable[[str], object], name: str) -> bool:
    return of(name) is not None


class RowPlace(NamedTuple):
    """The intervals that rows of a track must lie in to stay.

    They must overlap `time`, and begin in `begins` unless that is None. Those with the `ids` stay anyway: steps on a
    device, whose time there may be later. With `by_call` the call that launched work decides, where it is known.
    """

    time: Intervals
    begins: Intervals | None
    ids: list[int]
    by_call: bool


class CropBounds(msgspec.Struct):
    """The selected time: `common` for all sources, and the part of it in the steps or ranges of `each`, if any.

    `own` are those of processes that have their own, `device` those of sources that show them on devices, too, where
    their time may be later, `host` the sources that show them on the host. What begins in them belongs to them, and
    what overlaps them if `overlapping` says so.
    """

    common: Intervals
    each: dict[str, Intervals] | None = None
    own: dict[Process, Intervals] = msgspec.field(default_factory=dict)
    device: dict[str, Intervals] = msgspec.field(default_factory=dict)
    host: set[str] = msgspec.field(default_factory=set)
    ids: dict[str, list[int]] = msgspec.field(default_factory=dict)
    overlapping: bool = False

    def narrow(self, marks: Marks, processes: dict[Process, Intervals]) -> None:
        """Intersects with the intervals of these steps or ranges; `processes` has those of each process."""
        each, device, before = marks.each(), marks.on_devices(), self.each

        def earlier(source: str) -> Intervals:
            return ALWAYS if before is None else before.get(source, NEVER)

        self.own = {
            process: self.own.get(process, earlier(process[0])).intersection(
                processes.get(process, each.get(process[0], NEVER))
            )
            for process in self.own.keys() | processes.keys()
        }
        self.device = {
            name: self.device.get(name, earlier(name)).intersection(device.get(name, each.get(name, NEVER)))
            for name in self.device.keys() | device.keys()
        }
        self.each = {name: intervals.intersection(earlier(name)) for name, intervals in each.items()}
        self.host |= marks.on_host
        self.ids = marks.ids

    @property
    def launched(self) -> bool:
        """Whether the work launched in it is included."""
        return self.each is not None

    def for_source(self, source: str | None) -> Intervals:
        """The intervals of a source."""
        return self.common if self.each is None else self.common.intersection(self.each.get(source or "", NEVER))

    def all(self) -> list[Intervals]:
        """The intervals of each source, or those common to all."""
        return [self.common] if self.each is None else [self.for_source(source) for source in self.each]

    def places(self, tracks: Sequence[Track]) -> tuple[list[Int32], list[RowPlace]]:
        """The places of rows on each track, and those of device work on it, as indices of all places.

        A process with its own steps has its own time, device work that of its source, since its call decides if it is
        known; other rows on devices, such as annotations, have the time of the device.
        """
        numbers: dict[tuple[object, ...], int] = {}
        row_places: list[RowPlace] = []

        def number(key: tuple[object, ...], source: str, begins: Intervals | None) -> int:
            if key not in numbers:
                numbers[key] = len(row_places)
                begins = begins if self.each is None or begins is not None else self.each.get(source, NEVER)
                time = self.common if begins is None else self.common.intersection(begins)
                strict = None if self.overlapping else begins
                row_places.append(RowPlace(time, strict, self.ids.get(source, []), source in self.host))
            return numbers[key]

        rows, work = [], []
        for track in tracks:
            process = track[:3]
            placed = track.device is not None or track.stream is not None
            work.append(number((track.source,), track.source, None))
            if placed and track.source in self.device:
                rows.append(number((track.source, "device"), track.source, self.device[track.source]))
            elif not placed and process in self.own:
                rows.append(number(process, track.source, self.own[process]))
            else:
                rows.append(work[-1])
        return [np.array(rows, np.int32), np.array(work, np.int32)], row_places

    def contain(self, ts: Int64, batch: Batch) -> Bools:
        """Which rows of a batch have their time in the selected time."""
        names = decoded(batch.column("source")).to_pylist()
        coded = np.array(names, object)
        inside = np.zeros(len(batch), np.bool_)
        for name in set(names):
            of_source = coded == name
            inside[of_source] = self.for_source(name).contain(ts[of_source])
        return inside


def interval(text: str, start: int, end: int, catalog: Catalog) -> Intervals:
    """The time interval in the clock of the trace.

    Times count from the start of the trace; if it doesn't have them, they are read as times of its own clock, or of
    the day.
    """
    first, last = parse_interval(text)
    given = [time for time in (first, last) if time is not None]
    offsets = catalog.unix_offsets()
    for moved in (start, 0, *((-offset for offset in offsets) if len(offsets) == 1 else ())):
        if any(start <= time + moved <= end for time in given):
            break
    else:
        moved = start
    begin = -ALWAYS.end[0] if first is None else first + moved
    stop = ALWAYS.end[0] if last is None else last + moved
    if begin > end or stop < start or begin < stop <= start:
        raise InputError(
            f"the trace has no time {text}",
            expected=f"0s..{time_text(end - start)} from its start, or {start}ns..{end}ns by its own clock",
        )
    return Intervals.from_pairs([(int(begin), int(max(stop, begin + 1)))])


#: Columns that tell which rows depend on others, and where rows are.
_PLACE = ("id", "parent", "kind", "ts", "dur", *TRACK_COLUMNS)


def _lasting_points(batch: Batch) -> Bools:
    """Which points have a duration, such as a counter with a value that is valid for a while."""
    if not batch.has("dur"):
        return np.zeros(len(batch), np.bool_)
    return words_in(batch.column("kind"), POINT_KINDS) & truth(pc.greater(batch.column("dur"), 0))


def cropped(batches: Iterable[Batch], crop: Crop, report: Report, *, within: Intervals = ALWAYS) -> Iterator[Batch]:
    """Yields the rows of the selected part, events in the order of time.

    `within` is a part of the time by the clock of the trace, which rows must overlap, too.

    Begins and ends must have been paired before. Statistics stay if the time at which they were printed is in the part.
    Raises InputError if there is no such time, name, step or range.
    """
    spill = Spill(SPILL_BYTES)
    try:
        stage = _Stage(crop, report, spill, within)
        for batch in batches:
            if batch.record == "catalog":
                stage.catalog.add(batch)
                yield batch
            elif len(batch):
                stage.feed(batch)
        yield from stage.give()
    finally:
        spill.close()


class _Stage:
    """Keeps all rows until the source has ended, then yields those that stay."""

    def __init__(self, crop: Crop, report: Report, spill: Spill, within: Intervals) -> None:
        self._report = report
        self._spill = spill
        self._words = Vocabularies()
        self._index = TrackIndex(self._words)
        self._store = EventStore(spill, self._words, self._index)
        self._others = BatchSpool(spill, "others")
        self._records: list[str] = []
        self._launches = LinkStore(spill, self._words)
        self._own_time = crop.by_launch
        self._figures = self._lasting = False
        self._bounds = Bounds(crop, within)
        self.catalog = Catalog()
        self._taken = self._given = 0
        self._removed: Counter[str] = Counter()

    def feed(self, batch: Batch) -> None:
        """Keeps a batch."""
        self._taken += len(batch)
        if batch.record != "events":
            self._others.append(batch.columns)
            self._records.append(batch.record)
            if batch.record == "links" and self._own_time:
                self._launches.add(launch_links(batch))
            return
        figure = are_figures(batch)
        self._figures |= bool(figure.any())
        self._lasting |= bool((_lasting_points(batch) & ~figure).any())
        self._bounds.add(batch)
        self._store.add(batch.columns)

    def give(self) -> Iterator[Batch]:
        """Yields the rows that stay, and reports the others."""
        self._store.flush()
        start, end = self._store.span(RANGE_ROWS)
        if not len(self._store.keys):
            raise InputError("has no events, and so no time to crop", remedy="leave out the crop, or use a filter")
        self._store.end_unfinished(end, RANGE_ROWS)
        part = self._bounds.part(start, end, self.catalog, self._report)
        kept = self._kept(part)
        dependents = Dependents(self._spill) if self._figures or self._records else None
        for low, high in ranges(self._store.keys.cuts(RANGE_ROWS)):
            yield from self._events(low, high, kept, dependents)
        if dependents is not None:
            for number, record in enumerate(self._records):
                yield from self._other(Batch(record, self._others.get(number)), part, dependents)
            for batch, stays in dependents.rest():
                yield from self._stay(batch, stays, WITH_EVENT if batch.record == "links" else WITH_ROW)
        ledger = account(self._report, "crop", self._taken, self._given, self._removed)
        for kind, tally in self._store.removed.items():
            tally.report(self._report, kind, ledger)

    def _stay(self, batch: Batch, stays: Bools, reason: str) -> Iterator[Batch]:
        count = int(np.count_nonzero(stays))
        self._given += count
        self._removed[reason] += len(batch) - count
        if count:
            yield rows_where(batch, stays)

    def _events(self, low: int | None, high: int | None, kept: Bools, dependents: Dependents | None) -> Iterator[Batch]:
        """Yields the events of a range of time that stay; figures of other rows wait."""
        place = self._store.keys.between(low, high)
        place = place[self._store.keys.rows["flags"][place] & GONE == 0]
        if not len(place):
            return
        if dependents is not None:
            rows = self._store.at(place)
            columns = {name: rows.column(name) for name in _PLACE if name in rows.names}
            narrow = Batch("events", pa.RecordBatch.from_pydict(columns))
            figure = are_figures(narrow)
            dependents.remember(rows_where(narrow, ~figure), kept[place[~figure]])
            if figure.any():
                waiting = place[figure]
                dependents.wait(self._store.at(waiting).batch(), kept[waiting], np.zeros(len(waiting), np.bool_))
                place = place[~figure]
        stays = place[kept[place]]
        self._removed["another time"] += len(place) - len(stays)
        if len(stays):
            self._given += len(stays)
            yield self._store.at(stays).batch()

    def _other(self, batch: Batch, part: CropBounds, dependents: Dependents) -> Iterator[Batch]:
        """Yields the statistics of a batch that stay; its links wait."""
        ts, timed = values(batch.columns, "ts")
        inside = part.contain(ts, batch)
        none = np.zeros(len(batch), np.bool_)
        if batch.record == "links":
            dependents.wait(batch, inside | ~timed, none)
            return
        figure = are_figures(batch)
        dependents.wait(rows_where(batch, figure), (inside & timed)[figure], none[figure])
        rest, stays = rows_where(batch, ~figure), (inside & timed)[~figure]
        dependents.remember(rest, stays)
        yield from self._stay(rest, stays, "no time of their own, or another")

    def _kept(self, part: CropBounds) -> Bools:
        """Which events stay, by place."""
        keys = self._store.keys
        kept, begun, by_call = (np.zeros(len(keys), np.bool_) for _ in range(3))
        place_of, places = part.places(self._index.tracks())
        for start, rows in keys.blocks(RANGE_ROWS):
            block = slice(start, start + len(rows))
            ts, end = np.ascontiguousarray(rows["ts"]), rows["end"].copy()
            if self._lasting:
                end += self._point_durations(start, rows)
            is_work, track = rows["flags"] & WORK != 0, rows["track"]
            at = np.where(is_work, place_of[1][track], place_of[0][track])
            for number in np.unique(at).tolist():
                place, here = places[number], at == number
                begun[block][here] = place.time.contain(ts[here])
                stays = place.time.overlap(ts[here], end[here])
                if place.begins is not None:
                    stays &= place.begins.contain(ts[here])
                if place.ids:
                    stays |= np.isin(rows["id"][here], place.ids)
                kept[block][here], by_call[block][here] = stays, place.by_call
        if part.launched:
            self._keep_launched(kept, begun, by_call, overlapping=part.overlapping)
        return kept

    def _keep_launched(self, kept: Bools, begun: Bools, by_call: Bools, *, overlapping: bool) -> None:
        """Keeps the work launched by the calls that are `begun`, by correlation or by links, and no other.

        With `overlapping` work stays anyway; without `by_call` the time of the work itself decides.
        """
        ends, arrows = launch_ends(self._store, self._index, self._launches, self._spill, RANGE_ROWS)
        leaves, by_known_call = np.zeros(arrows + 1, np.bool_), np.zeros(len(kept), np.bool_)
        for _, rows in ends.blocks(RANGE_ROWS):
            out, place, arrow = rows["out"], rows["place"], rows["arrow"]
            leaves[arrow[out & begun[place]]] = True
            by_known_call[place[~out]] = True
        if not overlapping:
            kept[(by_known_call | before_recording(self._store, self._index, by_known_call, RANGE_ROWS)) & by_call] = (
                False
            )
        for _, rows in ends.blocks(RANGE_ROWS):
            out, place, arrow = rows["out"], rows["place"], rows["arrow"]
            launched = place[~out & leaves[arrow]]
            kept[launched if overlapping else launched[by_call[launched]]] = True

    def _point_durations(self, start: int, rows: Structured) -> Int64:
        """The durations of points in ns, 0 for all other rows. `start` is the place of the first row."""
        dur = np.zeros(len(rows), np.int64)
        points = np.flatnonzero(rows["flags"] & (SLICE | GONE) == 0)
        if len(points):
            events = self._store.at(start + points)
            if "dur" in events.names:
                dur[points] = np.maximum(events.column("dur").fill_null(0).to_numpy(), 0)
        return dur


#: Columns that decide whether a row stays, in addition to those that are never null.
_DECIDING = frozenset({*TRACK_COLUMNS, "parent", "dur", "event", "bind"})


def cropped_twice(
    deciding: Callable[[frozenset[str]], Iterator[Batch]],
    whole: Callable[[Int64, Report], Iterator[Batch]],
    crop: Crop,
    report: Report,
) -> Iterator[Batch]:
    """Yields what `cropped` yields, from an input that is read twice.

    `deciding` yields all rows with at least the columns passed, `whole` at least the rows with the ids passed (sorted),
    with its own report.
    Issues in columns that the first reading leaves out are reported for the rows that stay, as issues of the stage.
    Raises what `cropped` raises.
    """
    launched = {"correlation"} if crop.by_launch else set()
    ids: dict[str, list[Int64]] = {}
    for batch in cropped(deciding(_DECIDING | launched), crop, report):
        if batch.record == "catalog":
            yield batch
        else:
            _add(ids, batch)
    stays = {source: np.sort(np.concatenate(parts)) for source, parts in ids.items()}
    if not stays:
        return
    account = Report(strict=report.strict)
    any_source = np.sort(np.concatenate(list(stays.values())))
    yield from _by_time(_those(whole(any_source, account), stays))
    _tell(account, report)


def _sources(batch: Batch) -> Iterator[tuple[str, Bools]]:
    """Yields each source of a batch and its rows, as a mask."""
    coded = batch.column("source")
    words = coded.dictionary.to_pylist()
    codes = coded.indices.to_numpy()
    for code in np.unique(codes).tolist():
        yield words[code], codes == code


def _add(ids: dict[str, list[Int64]], batch: Batch) -> None:
    for source, of_source in _sources(batch):
        ids.setdefault(source, []).append(batch.column("id").to_numpy()[of_source])


def _those(batches: Iterable[Batch], ids: dict[str, Int64]) -> Iterator[Batch]:
    """Yields the rows that have these ids in each source."""
    for batch in batches:
        if batch.record == "catalog":
            continue
        stays = np.zeros(len(batch), np.bool_)
        for source, of_source in _sources(batch):
            if source in ids:
                stays[of_source] = isin_sorted(batch.column("id").to_numpy()[of_source], ids[source])
        if stays.any():
            yield rows_where(batch, stays)


def _by_time(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yields all but events as they come, then the events in the order of time."""
    spill = Spill(SPILL_BYTES)
    words = Vocabularies()
    store = EventStore(spill, words, TrackIndex(words))
    try:
        for batch in batches:
            if batch.record == "events":
                store.add(batch.columns)
            else:
                yield batch
        store.flush()
        for low, high in ranges(store.keys.cuts(RANGE_ROWS)):
            place = store.keys.between(low, high)
            if len(place):
                yield store.at(place).batch()
    finally:
        spill.close()


def _tell(account: Report, report: Report) -> None:
    """Copies the issues that only the second reading has found."""
    ledger = next(ledger for ledger in report.stages if ledger.stage == "crop")
    for kind, issue in account.issues.items():
        if issue.severity >= Severity.SKIP or kind not in report.issues:
            where, detail = issue.places[0]
            report.issue(kind, where, detail, issue.rows, stage=ledger)
            ledger.given -= issue.rows if issue.severity >= Severity.SKIP else 0
