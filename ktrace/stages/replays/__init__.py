"""Gives the replayed kernels of a graph the operators that launched them when the graph was captured.

    the capture                                         the replay
    aten::addmm                                         hipGraphLaunch   correlation 9
      hipExtModuleLaunchKernel  kernel Cijk_...    ──►    Cijk_...       correlation 9     args.operator  aten::addmm
    StreamBeginCapture ... StreamEndCapture

gather     finds captures and replays among the rows of a trace
matching   finds the captured call of each replayed kernel

What is known of captured calls becomes arguments:

    operator          the innermost operator around the captured call
    operator_id       its number in the capture, which tells its calls apart
    Input Dims, ...   its inputs, as the capture has them
    module            the innermost module around it
    captured_in       all operators and modules around it, the outermost first
    captured_dims     the shapes of their inputs, if others than the innermost operator have some
    operator_matched  "position", where nothing but the order tells which call it is

The grid and the block of the captured call become those of the kernel, where it has none of its own. Where the call is
in the same input, an arrow leads from it to all work that replays it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import DEVICE_KINDS, Batch, arrow_schema
from ktrace.model.json_text import decoded
from ktrace.model.masks import NameTest, each_source, rows_where, words_in
from ktrace.model.row_builder import NewIds
from ktrace.naming.alike import unique_name
from ktrace.report import Report
from ktrace.stages.replays.gather import (
    CALL,
    CAPTURED_DIMS,
    CAPTURED_IN,
    GEOMETRY,
    SHAPES,
    Capture,
    Gathered,
    gathered,
    see,
)
from ktrace.stages.replays.matching import Matched, matched
from ktrace.store import SPILL_BYTES, Batches, Spill
from ktrace.store.events import BATCH_ROWS
from ktrace.store.joins import positions

_STAGE = "captures"
_LINK = "flow"
_COLUMNS: dict[str, pa.DataType] = {
    "operator": pa.string(),
    "operator_id": pa.int64(),
    **dict.fromkeys(SHAPES, pa.binary()),
    "module": pa.string(),
    CAPTURED_IN: pa.binary(),
    CAPTURED_DIMS: pa.binary(),
    "operator_matched": pa.string(),
    **{key: arrow_schema("events").field(key).type for key in GEOMETRY},
}


def captures_of(batches: Iterable[Batch]) -> list[Capture]:
    """The captures in the traces of some sources."""
    return [capture for one in gathered(batches, captures=True).values() for capture in one.captures()]


def with_captures(batches: Iterable[Batch], captures: list[Capture], report: Report) -> Iterator[Batch]:
    """Yields all batches, replayed kernels with what the captured calls tell.

    Reports how many kernels have a captured call ("captured"), and how many have none and why ("uncaptured").
    """
    spill = Spill(SPILL_BYTES)
    try:
        waiting, records = Batches(spill, "replays"), []
        found: dict[str, Gathered] = {}
        for batch in batches:
            see(batch, found, captures=False)
            if len(batch):
                waiting.append(batch.columns)
                records.append(batch.record)
        facts = {source: _facts(source, one, captures, report) for source, one in found.items()}
        if not any(one is not None for one in facts.values()) and "uncaptured" not in report.issues:
            report.issue("uncaptured", _STAGE, "the input has no replay of a graph whose kernels lack operators", 0)
        for number, record in enumerate(records):
            yield from _attached(Batch(record, waiting.get(number)), facts)
    finally:
        spill.close()


class Arrows:
    """Arrows from captured calls to the work that replays them."""

    def __init__(self) -> None:
        self._ids = NewIds()
        self._ends: list[tuple[str, Int64, Int64]] = []  # of a source: the ids of the work, that of the call of each

    def see(self, batch: Batch) -> None:
        """Looks at the ids of rows that are there."""
        if batch.record != "catalog" and len(batch):
            self._ids.see(batch)

    def add(self, source: str, work: Int64, calls: Int64) -> None:
        """Adds the arrows of a source, by the ids of its rows; -1 for no call."""
        known = calls >= 0
        self._ends.append((source, work[known], calls[known]))

    def rows(self, report: Report) -> Iterator[Batch]:
        """Yields the ends of all arrows, once all rows have passed; reports how many they are."""
        if not any(len(work) for _, work, _ in self._ends):
            return
        ledger = report.stage(_STAGE)
        ledger.taken = ledger.given = report.rows_read
        for source, work, calls in self._ends:
            leaving = np.unique(calls)
            events, keys = np.concatenate((leaving, work)), np.concatenate((leaving, calls))
            for start in range(0, len(events), BATCH_ROWS):
                part = slice(start, start + BATCH_ROWS)
                rows = self._links(source, events[part], keys[part], np.arange(len(events))[part] < len(leaving))
                ledger.added["arrows from captured calls"] += len(rows)
                ledger.given += len(rows)
                yield rows

    def _links(self, source: str, events: Int64, keys: Int64, leaves: Bools) -> Batch:
        sources = pa.repeat(source, len(events))
        columns = {
            "source": sources,
            "id": self._ids.take(sources),
            "link": pa.repeat(_LINK, len(events)),
            "key": pc.binary_join_element_wise("captured", pa.array(keys).cast(pa.string()), "/"),
            "role": pc.if_else(pa.array(leaves), "out", "in"),
            "event": pa.array(events),
            "name": pa.repeat("captured call", len(events)),
        }
        schema = arrow_schema("links")
        fields = [schema.field(name) for name in columns]
        arrays = [column.cast(field.type) for field, column in zip(fields, columns.values(), strict=True)]
        return Batch("links", pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))


def with_own_captures(
    batches: Iterable[Batch], again: Callable[[], Iterator[Batch]], report: Report, arrows: Arrows
) -> Iterator[Batch]:
    """Yields all batches of an input, replayed kernels with what the captured calls of the same input tell.

    If a call begins a capture, `again` reads the input once more. The ids of its rows are their places in the document.
    A batch waits until all calls before its device work are known. `arrows` gets those from the calls.
    """
    own = _Own(again, report, arrows)
    waiting: deque[tuple[Batch, int]] = deque()
    for batch in batches:
        waiting.append((batch, own.see(batch)))
        while waiting and own.is_known(waiting[0][1]):
            yield from own.attached(*waiting.popleft())
    for one in waiting:
        yield from own.attached(*one)


class _Own:
    """The captures and replays of an input that holds both, as far as they are known."""

    def __init__(self, again: Callable[[], Iterator[Batch]], report: Report, arrows: Arrows) -> None:
        self._again, self._report, self._arrows = again, report, arrows
        self._begins = NameTest(lambda name: "StreamBeginCapture" in name)
        self._facts: dict[str, _Facts | None] = {}  # of its source, once a capture began
        self._reached = self._passed = -1

    def see(self, batch: Batch) -> int:
        """Looks for the beginning of a capture. Returns the last id of device work, -1 where nothing has to wait."""
        self._arrows.see(batch)
        if self._facts or batch.record != "events" or not len(batch):
            return -1
        kind, ids = batch.column("kind"), batch.column("id").to_numpy()
        self._reached = int(ids.min())
        if words_in(kind, ("api",)).any() and self._begins(batch.column("name")).any():
            source = decoded(batch.column("source"))[0].as_py()
            one = next(iter(gathered(self._again(), captures=True).values()))
            self._facts[source] = facts = _facts(source, one, one.captures(), self._report, self._passed)
            if facts is not None:
                self._arrows.add(source, facts.ids, facts.calls)
            return -1
        work = words_in(kind, DEVICE_KINDS)
        return int(ids[work].max()) if work.any() else -1

    def is_known(self, last: int) -> bool:
        """Whether all calls before this work have been seen: later rows have come."""
        return bool(self._facts) or self._reached > last

    def attached(self, batch: Batch, last: int) -> Iterator[Batch]:
        """The rows of a batch."""
        self._passed = max(self._passed, last)
        return _attached(batch, self._facts)


class _Facts:
    """The facts of rows by id: `ids` rise, `calls` are the ids of the captured calls (-1: not known)."""

    def __init__(self, found: Matched) -> None:
        order = np.argsort(found.ids)
        self.ids, self._numbers = found.ids[order], found.numbers[order]
        self.calls = np.array([one.get(CALL, -1) for one in found.facts], np.int64)[self._numbers]
        self._columns = {
            key: pa.array([one.get(key) for one in found.facts], type_)
            for key, type_ in _COLUMNS.items()
            if any(key in one for one in found.facts)
        }

    def attached(self, batch: Batch) -> Iterator[Batch]:
        """The rows of a batch, those with facts in one of their own."""
        place = positions(batch.column("id").to_numpy(), self.ids)
        place[~words_in(batch.column("kind"), DEVICE_KINDS)] = -1
        mine = place >= 0
        if not mine.any():
            yield batch
            return
        if not mine.all():
            yield rows_where(batch, ~mine)
        columns = rows_where(batch, mine).columns
        empty = [name for name in columns.schema.names if columns.column(name).null_count == len(columns)]
        columns = columns.drop_columns(empty)
        numbers = pa.array(self._numbers[place[mine]])
        taken = set(columns.schema.names)
        for key, values in self._columns.items():
            column = values.take(numbers)
            if key in GEOMETRY:
                columns = _with_geometry(columns, key, column)
            elif column.null_count < len(column):
                column = column if pa.types.is_integer(column.type) else column.dictionary_encode()
                columns = columns.append_column(unique_name(f"args.{key}", taken.__contains__), column)
        yield Batch("events", columns)


def _with_geometry(columns: pa.RecordBatch, key: str, column: pa.Array) -> pa.RecordBatch:
    """The rows with a grid or block of the captured calls, for kernels that have none."""
    place = columns.schema.get_field_index(key)
    is_kernel = pa.array(words_in(columns.column("kind"), ("kernel",)))
    column = pc.if_else(is_kernel, column, pa.nulls(len(column), column.type))
    if place >= 0:
        return columns.set_column(place, key, pc.coalesce(columns.column(place), column))
    return columns.append_column(key, column) if column.null_count < len(column) else columns


def _attached(batch: Batch, facts: dict[str, _Facts | None]) -> Iterator[Batch]:
    if batch.record != "events" or not any(one is not None for one in facts.values()):
        yield batch
        return
    for source, rows in each_source(batch):
        one = facts.get(source)
        yield from [rows] if one is None else one.attached(rows)


def _facts(source: str, found: Gathered, captures: list[Capture], report: Report, passed: int = -1) -> _Facts | None:
    """The facts of the rows of a source, None if it has no replays with a capture.

    `passed` is the id of the last row that can't get any more.
    """
    replays = found.replays()
    if not replays:
        return None
    result = matched(replays, captures)
    for reason, count in result.reasons.most_common():
        report.issue("uncaptured", source, reason, count)
    if not len(result.ids):
        return None
    if int(result.ids.min()) <= passed:
        report.issue("uncaptured", source, "the file has kernels before the calls of the capture", len(result.ids))
        return None
    if result.foreign:
        report.issue("other-run", source, "", result.foreign)
    kernels = len(result.ids) + result.reasons.total()
    report.issue("captured", source, f"{len(result.ids):,} of {kernels:,}", len(result.ids))
    return _Facts(result)
