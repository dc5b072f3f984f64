"""Divides a trace into numbered parts by time, step or size.

    api     9.9 s          part 0        --split-by time=10s
    kernel  9.9 .. 10.2    part 0        whole, where it begins
    counter 10.1           part 0        a figure of that kernel
    api     10.1           part 1

Each row has a rank, in the order of its part and time, so that a part is a range of ranks. Figures and ends of arrows
have the rank of the row they depend on. Rows wait in a temporary folder, since rows that belong together may come late.

With `--split-by step` each step is a part:

    ProfilerStep#3   rank 0: 100 .. 200    rank 1: 104 .. 210
    between them     rank 0: 200 .. 207    with the step before
    ProfilerStep#4   rank 0: 207 .. 300    rank 1: 212 .. 305

Events before the first step are a part. Each source has its own steps; a source without steps uses the times of the
others. If the numbers of steps start again, these are further parts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa

from ktrace.errors import InputError, UsageError
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.catalog import Catalog, Entry
from ktrace.model.masks import rows_where
from ktrace.model.tracks import Track
from ktrace.stages.order.links import LinkStore
from ktrace.stages.select.crop import Marks
from ktrace.stages.select.dependents import Dependents, are_figures, before_recording, launch_ends, launch_links
from ktrace.stages.select.wanted import step_of
from ktrace.store import RANGE_ROWS, SPILL_BYTES, BatchSpool, Spill
from ktrace.store.events import EventStore, values
from ktrace.store.vocabulary import TrackIndex, Vocabularies
from ktrace.tables import parse_time

#: A step: how many times its number occurred before, and the number.
Step = tuple[int, int]

_BEFORE = (-1, -1)


class Steps(Marks):
    """Collects the steps of each source."""

    def __init__(self) -> None:
        super().__init__(lambda name: step_of(name) is not None, ("range", "op"))
        self._found: defaultdict[tuple[str, bool], list[tuple[int, int, int]]] = defaultdict(list)

    def keep(self, source: str, name: str, begin: int, end: int, placed: bool, number: int) -> None:
        """Keeps a step."""
        super().keep(source, name, begin, end, placed, number)
        self._found[source, placed].append((begin, step_of(name) or 0, number))

    def parts_of_events(self, store: EventStore, index: TrackIndex, size: int) -> Int64:
        """The number of the part of each event, by place. Raises InputError if there is no step."""
        if not self:
            raise InputError(
                "has no steps to split by",
                expected="ranges with names such as ProfilerStep#3 or Iteration 3",
                remedy="use --split-by time=10s or size=500MB",
            )
        steps = {source: self._steps(source, on_device=not self._found.get((source, False))) for source in self.ids}
        first: dict[Step, int] = {}
        for begins in steps.values():
            for begin, step in begins:
                first[step] = min(begin, first.get(step, begin))
        order = sorted(first, key=lambda step: (first[step], step))
        part = {_BEFORE: 0} | {step: number for number, step in enumerate(order, 1)}
        common = [(first[step], step) for step in order]
        parts = np.zeros(len(store.keys), np.int64)
        sources = index.sources()
        for start, rows in store.keys.blocks(size):
            source = sources[rows["track"]]
            for number in np.unique(source).tolist():
                of_source = source == number
                name = store.words["source"].word(number) or ""
                begins = steps.get(name, common)
                numbers = np.array([0, *(part[step] for _, step in begins)])
                at = np.searchsorted(np.array([begin for begin, _ in begins]), rows["ts"][of_source], "right")
                part_numbers = numbers[at]
                for id_, step in self._on_device(name).items():
                    part_numbers[rows["id"][of_source] == id_] = part.get(step, 0)
                parts[start : start + len(rows)][of_source] = part_numbers
        return parts

    def _steps(self, source: str, *, on_device: bool) -> list[tuple[int, Step]]:
        """The starts of the steps of a source, in order; a step on several threads counts once."""
        begins: list[tuple[int, Step]] = []
        often: Counter[int] = Counter()
        for begin, number, _ in sorted(self._found[source, on_device]):
            if not begins or begins[-1][1][1] != number:
                begins.append((begin, (often[number], number)))
                often[number] += 1
        return begins

    def _on_device(self, source: str) -> dict[int, Step]:
        """The ids of rows that repeat a step on a device, where its time may be later."""
        if not self._found.get((source, False)):
            return {}
        ids: dict[int, Step] = {}
        often: Counter[int] = Counter()
        last = None
        for _, number, id_ in sorted(self._found.get((source, True), ())):
            often[number] += number != last
            last = number
            ids[id_] = (often[number] - 1, number)
        return ids


#: Unit -> bytes.
_UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

_EXPECTED = "time=10s, size=500MB or step"


@dataclass(frozen=True)
class SplitBy:
    """One of three: `time` is the length of a part in ns, `size` the most bytes of a file, `step` a part per step."""

    time: int | None = None
    size: int | None = None
    step: bool = False

    @classmethod
    def parse(cls, text: str) -> SplitBy:
        """Parses a text. Raises UsageError."""
        way, _, value = text.partition("=")
        if way == "step" and not value:
            return cls(step=True)
        if way == "time" and value:
            length = parse_time(value)
            if length <= 0:
                raise UsageError(f"a part can't be {value} long", expected=_EXPECTED)
            return cls(time=length)
        if way == "size" and value:
            return cls(size=parse_size(value))
        raise UsageError(f"'{text}' isn't a way to split", expected=_EXPECTED)


def parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]+)", text.strip())
    size = int(Decimal(match[1]) * _UNITS[match[2]]) if match and match[2] in _UNITS else 0
    if size <= 0:
        raise UsageError(f"'{text}' isn't a size with a unit", expected="B, kB, MB or GB, such as 500MB or 1.5GB")
    return size


#: Columns that tell which rows depend on others, and where rows are.
_PLACE = ("id", "parent", "event", "bind", "kind", "metric", "ts", "dur", *TRACK_COLUMNS)


class Split:
    """All rows of a trace, to be taken in parts; a context manager, which removes the temporary folder.

    `cuts` are the first ranks of the parts that `by` asks for; for a size there is one, and others are found by trial.
    """

    def __init__(self, batches: Iterable[Batch], by: SplitBy) -> None:
        self._spill = Spill(SPILL_BYTES)
        self._words = Vocabularies()
        self._index = TrackIndex(self._words)
        self._store = EventStore(self._spill, self._words, self._index)
        self._others = BatchSpool(self._spill, "others")
        self._records: list[str] = []
        self._launches = LinkStore(self._spill, self._words)
        self._steps = Steps() if by.step else None
        self._catalog = Catalog()
        self._hangs = False
        try:
            self._store_all(batches)
            self._rank(by)
        except BaseException:
            self._spill.close()
            raise

    def __enter__(self) -> Split:
        return self

    def __exit__(self, *_: object) -> None:
        self._spill.close()

    def _store_all(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            if batch.record == "catalog":
                self._catalog.add(batch)
            elif len(batch) and batch.record == "events":
                self._hangs |= bool(are_figures(batch).any())
                if self._steps is not None:
                    self._steps.add(batch)
                self._store.add(batch.columns)
            elif len(batch):
                self._others.append(batch.columns)
                self._records.append(batch.record)
                if self._steps is not None and batch.record == "links":
                    self._launches.add(launch_links(batch))
        self._store.flush()

    def _rank(self, by: SplitBy) -> None:
        """Computes the rank of each row."""
        ts = np.ascontiguousarray(self._store.keys.rows["ts"])
        start, end = self._store.span(RANGE_ROWS)
        part = np.zeros(len(ts), np.int64)
        if by.time is not None:
            part = (np.clip(ts, start, end) - start) // by.time
        elif self._steps is not None:
            part = self._steps.parts_of_events(self._store, self._index, RANGE_ROWS)
            self._with_launch(part)
        order = np.lexsort((ts, part))
        self.cuts = [0, *(1 + np.flatnonzero(np.diff(part[order]))).tolist()]
        self.rows = max(len(order), 1)
        self._rank_of = np.empty(len(order), np.int64)
        self._rank_of[order] = np.arange(len(order))
        self._rank_of_others = self._hang(ts)
        self._order = np.argsort(self._rank_of, kind="stable") if self._hangs else order
        self._sorted = self._rank_of[self._order]

    def _with_launch(self, part: Int64) -> None:
        """Moves work to the part of the call that launched it; what was queued before the recording comes first."""
        ends, arrows = launch_ends(self._store, self._index, self._launches, self._spill, RANGE_ROWS)
        leaves, launched = np.full(arrows + 1, -1, np.int64), np.zeros(len(part), np.bool_)
        for _, rows in ends.blocks(RANGE_ROWS):
            out, place, arrow = rows["out"], rows["place"], rows["arrow"]
            leaves[arrow[out]] = part[place[out]]
            launched[place[~out]] = True
        part[before_recording(self._store, self._index, launched, RANGE_ROWS)] = 0
        for _, rows in ends.blocks(RANGE_ROWS):
            out, place, arrow = rows["out"], rows["place"], rows["arrow"]
            arrives = ~out & (leaves[arrow] >= 0)
            part[place[arrives]] = leaves[arrow[arrives]]

    def _hang(self, ts: Int64) -> list[Int64]:
        """Sets the rank of figures to that of their row; returns the ranks of links and statistics, batch by batch."""
        ranks = [self._by_time(Batch(record, self._others.get(n)), ts) for n, record in enumerate(self._records)]
        if not self._hangs and not self._records:
            return ranks
        dependents = Dependents(self._spill, np.dtype(np.int64))
        waiting: list[Int64] = []
        for start, rows in self._store.keys.blocks(RANGE_ROWS):
            place = np.arange(start, start + len(rows))
            narrow = _narrow("events", self._store.at(place).batch().columns)
            figure = are_figures(narrow)
            dependents.remember(rows_where(narrow, ~figure), self._rank_of[place[~figure]])
            if figure.any():
                waiting.append(place[figure])
                self._wait(dependents, rows_where(narrow, figure), self._rank_of[place[figure]])
        waiting_others: list[tuple[int, Bools]] = []
        for number, record in enumerate(self._records):
            batch = _narrow(record, self._others.get(number))
            hangs = np.ones(len(batch), np.bool_) if record == "links" else are_figures(batch)
            dependents.remember(rows_where(batch, ~hangs), ranks[number][~hangs])
            if hangs.any():
                waiting_others.append((number, hangs))
                self._wait(dependents, rows_where(batch, hangs), ranks[number][hangs])
        ranks_found = (rank for _, rank in dependents.rest(RANGE_ROWS))
        for place in waiting:
            self._rank_of[place] = next(ranks_found)
        for number, hangs in waiting_others:
            ranks[number][hangs] = next(ranks_found)
        return ranks

    def _wait(self, dependents: Dependents, batch: Batch, ranks: Int64) -> None:
        dependents.wait(batch, ranks, np.zeros(len(batch), np.int64))

    def _by_time(self, batch: Batch, ts: Int64) -> Int64:
        """The rank of the last event before each row; 0 for rows without a time or without an event before them."""
        when, timed = values(batch.columns, "ts")
        if not timed.any() or not len(ts):
            return np.zeros(len(batch), np.int64)
        at = np.searchsorted(ts[self._in_time], when, "right") - 1
        return np.where(timed & (at >= 0), self._rank_of[self._in_time[np.maximum(at, 0)]], 0)

    @cached_property
    def _in_time(self) -> Int64:
        """The places of the events in the order of time."""
        return np.argsort(self._store.keys.rows["ts"], kind="stable")

    @cached_property
    def _tracks(self) -> list[Track]:
        """The tracks of the events by number; computed once, since there may be many tracks and many parts."""
        return self._index.tracks()

    def count(self, first: int, last: int) -> int:
        """The number of rows of a part."""
        low, high = np.searchsorted(self._sorted, (first, last))
        return int(high - low) + sum(int(np.count_nonzero(_in(r, first, last))) for r in self._rank_of_others)

    def span(self, first: int, last: int) -> tuple[int, int] | None:
        """The first and last start of the events of a part, in ns; None if it has no events."""
        low, high = np.searchsorted(self._sorted, (first, last))
        if low == high:
            return None
        ts = self._store.keys.rows["ts"][self._order[low:high]]
        return int(ts.min()), int(ts.max())

    def batches(self, first: int, last: int) -> Iterator[Batch]:
        """Yields the rows whose ranks are from `first` to below `last`, and the catalog of their tracks."""
        low, high = np.searchsorted(self._sorted, (first, last)).tolist()
        yield self._facts(self._order[low:high], first, last)
        for number, record in enumerate(self._records):
            in_part = _in(self._rank_of_others[number], first, last)
            if in_part.any():
                yield rows_where(Batch(record, self._others.get(number)), in_part)
        for start in range(low, high, RANGE_ROWS):
            yield self._store.at(self._order[start : min(start + RANGE_ROWS, high)]).batch()

    def _facts(self, places: Int64, first: int, last: int) -> Batch:
        """The catalog without the processes, threads, devices and streams that have no event in the part."""
        if first == 0 and last >= self.rows:
            return self._catalog.to_batch()
        used = [self._tracks[number] for number in np.unique(self._store.keys.rows["track"][places]).tolist()]
        keys = {
            columns: {tuple(getattr(track, column) for column in columns) for track in used}
            for columns in {_named_columns(entry) for entry in self._catalog}
        }

        def is_used(entry: Entry) -> bool:
            columns = _named_columns(entry)
            return not set(columns) - {"source", "host"} or tuple(entry.key[c] for c in columns) in keys[columns]

        return self._catalog.where(is_used).to_batch()


def _named_columns(entry: Entry) -> tuple[str, ...]:
    return tuple(column for column in TRACK_COLUMNS if column in entry.key)


def _in(ranks: Int64, first: int, last: int) -> Bools:
    return (ranks >= first) & (ranks < last)


def _narrow(record: str, columns: pa.RecordBatch) -> Batch:
    return Batch(record, columns.select([name for name in _PLACE if name in columns.schema.names]))
