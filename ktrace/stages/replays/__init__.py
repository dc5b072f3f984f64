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

The grid and the block of the captured call become those of the kernel, where it has none of its own. An arrow leads
from the call to all work that replays it, where its input is among those that are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int64
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
from ktrace.store import SPILL_BYTES, BatchSpool, Spill
from ktrace.store.events import BATCH_ROWS
from ktrace.store.joins import positions

_STAGE = "captures"
_LINK = "capture"
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
    found = gathered(batches, captures=True)
    return [capture for source, one in found.items() for capture in one.captures(source)]


def with_captures(batches: Iterable[Batch], captures: list[Capture], report: Report, arrows: Arrows) -> Iterator[Batch]:
    """Yields all batches, replayed kernels with what the captured calls tell, and the arrows from these calls.

    Reports how many kernels have a captured call ("captured"), and how many have none and why ("uncaptured").
    """
    spill = Spill(SPILL_BYTES)
    try:
        waiting, records = BatchSpool(spill, "replays"), []
        found: dict[str, Gathered] = {}
        taken = 0
        for batch in batches:
            see(batch, found, captures=False)
            arrows.see(batch)
            taken += 0 if batch.record == "catalog" else len(batch)
            if len(batch):
                waiting.append(batch.columns)
                records.append(batch.record)
        facts = {source: _facts(source, one, captures, report) for source, one in found.items()}
        if not any(one is not None for one in facts.values()) and "uncaptured" not in report.issues:
            report.issue("uncaptured", _STAGE, "the input has no replay of a graph whose kernels lack operators", 0)
        for number, record in enumerate(records):
            yield from _attached(Batch(record, waiting.get(number)), facts)
        for source, one_of in facts.items():
            if one_of is not None:
                arrows.add(source, one_of)
        yield from arrows.rows(report, _STAGE, taken)
    finally:
        spill.close()


class Arrows:
    """Arrows from captured calls to the work that replays them.

    `label` returns the label under which the source of a capture is read, too; None if it isn't.
    """

    def __init__(self, label: Callable[[str], str | None] = str) -> None:
        self._ids = NewIds()
        self._label = label
        # The source of work and that of the calls; the ids of the work, and the id of the call of each.
        self._ends: list[tuple[str, str, Int64, Int64]] = []

    def see(self, batch: Batch) -> None:
        """Looks at the ids of rows that are there."""
        if batch.record != "catalog" and len(batch):
            self._ids.see(batch)

    def add(self, source: str, facts: _Facts) -> None:
        """Adds the arrows to the work of a source."""
        self._ends += [(source, caller, work, calls) for caller, (work, calls) in facts.calls().items()]

    def rows(self, report: Report, stage: str, taken: int) -> Iterator[Batch]:
        """Yields the ends of all arrows, once all rows (`taken`) have passed a stage, and gives its account."""
        ends: list[tuple[str, str, Int64, Int64, str]] = []
        for source, capture, work, calls in self._ends:
            caller = self._label(capture)
            if caller is not None:
                leaving = np.unique(calls)
                ends += [(caller, caller, leaving, leaving, "out"), (source, caller, work, calls, "in")]
        if not ends:
            return
        ledger = report.stage(stage)
        ledger.taken = ledger.given = taken
        for source, caller, events, calls, role in ends:
            for start in range(0, len(events), BATCH_ROWS):
                part = slice(start, start + BATCH_ROWS)
                rows = self._links(source, caller, events[part], calls[part], role)
                ledger.added["arrows from captured calls"] += len(rows)
                ledger.given += len(rows)
                yield rows

    def _links(self, source: str, caller: str, events: Int64, calls: Int64, role: str) -> Batch:
        sources = pa.repeat(source, len(events))
        columns = {
            "source": sources,
            "id": self._ids.take(sources),
            "link": pa.repeat(_LINK, len(events)),
            "key": pc.binary_join_element_wise(caller, pa.array(calls).cast(pa.string()), "/"),
            "role": pa.repeat(role, len(events)),
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
            self._facts[source] = facts = _facts(source, one, one.captures(source), self._report, self._passed)
            if facts is not None:
                self._arrows.add(source, facts)
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
    """The facts of rows by id, which rise."""

    def __init__(self, found: Matched) -> None:
        order = np.argsort(found.ids)
        self._ids, self._numbers = found.ids[order], found.numbers[order]
        self._calls: list[tuple[str, int] | None] = [one.get(CALL) for one in found.facts]
        self._columns = {
            key: pa.array([one.get(key) for one in found.facts], type_)
            for key, type_ in _COLUMNS.items()
            if any(key in one for one in found.facts)
        }

    def calls(self) -> dict[str, tuple[Int64, Int64]]:
        """The ids of rows whose call is known, and the id of the call of each, by the source of the calls."""
        found = {}
        for source in dict.fromkeys(call[0] for call in self._calls if call):
            ids = np.array([call[1] if call and call[0] == source else -1 for call in self._calls], np.int64)
            calls = ids[self._numbers]
            found[source] = self._ids[calls >= 0], calls[calls >= 0]
        return found

    def attached(self, batch: Batch) -> Iterator[Batch]:
        """The rows of a batch, those with facts in one of their own."""
        place = positions(batch.column("id").to_numpy(), self._ids)
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
