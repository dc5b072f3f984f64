"""The events of a plane as batches: events, and summaries of events that XLA has added up.

events { metadata_id: 1 offset_ps: 700301500 duration_ps: 18240000 }     from timestamp_ns + 700,302 ns, 18,240 ns long
events { metadata_id: 1 num_occurrences: 12 duration_ps: 90000000 }      a summary: 12 times, 90,000 ns in all
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import BatchBuilder, nonzero
from ktrace.kit.columnar.dictionaries import words
from ktrace.kit.columnar.protobuf import LENGTH, VARINT, Fields, distinct_of, parse, signed
from ktrace.kit.xla import COPIES, SIGNS, WORK, Placed, What, is_op, spread_details
from ktrace.model.arrays import Bools, Int8, Int64, UInt8
from ktrace.model.batch import Batch
from ktrace.model.masks import present, words_in

from .layout import Broken, Line, Plane, events_of
from .stats import DOUBLE, INT, UINT, Metadata, StatReader, Stats, text_column

#: Events that become one batch.
_EVENTS = 1 << 16

#: Times beyond this are refused.
_GREATEST = 1 << 62

#: Later times (ns) count from 1970, not from the start of the profile: since September 2001.
SINCE_1970 = 10**18

KINDS = ["range", "kernel", "memcpy", "memset", "graph", "alloc", "overhead", "counter", "api", "op", "instant"]
RANGE, KERNEL, MEMCPY, MEMSET, GRAPH, ALLOC, OVERHEAD, COUNTER, API, OP, INSTANT = range(len(KINDS))

_OF_LINE = np.array([RANGE, KERNEL, KERNEL, RANGE, OVERHEAD, COUNTER], np.int8)

#: Kinds of device work by name, and by the stats that only one kind has.
_WORK = {name: KINDS.index(kind) for name, kind in WORK.items()}
_SIGNS = {name: KINDS.index(kind) for name, kind in SIGNS.items()}

#: What XLA's allocators record: name -> sign of its bytes.
_ALLOCATOR = {"MemoryAllocation": 1, "MemoryDeallocation": -1}

#: Stats with a column of the model.
_COLUMNS = {"correlation_id": "correlation", "theoretical_occupancy_pct": "occupancy"}


class EventBlock(NamedTuple):
    """Events: the index of the line of each, where its message starts and ends."""

    line: Int64
    begin: Int64
    end: Int64


@dataclass
class PlaneReader:
    """Reads the events of a plane; `host` and `pid` are the plane's.

    `origin` is the unix time of the main clock's 0, `start` that of the file's own clock.
    """

    data: Any
    array: UInt8
    plane: Plane
    placed: list[Placed]
    batches: BatchBuilder
    conversion: Conversion
    host: str | None
    pid: int | None = None
    origin: int = 0
    start: int = 0

    def __post_init__(self) -> None:
        self._names = Metadata(self.array, self.plane.event_metadata)
        self._stats = StatReader(self.array, Metadata(self.array, self.plane.stat_metadata))
        self._what = np.array([place.what for place in self.placed], np.int8)
        self._timestamp = np.empty(0, np.int64)
        self._missing: dict[int, int] = {}

    def _base(self, line: Line) -> int:
        """The time of a line on the main clock."""
        since = line.timestamp_ns
        return since - self.origin if since >= SINCE_1970 else since + self.start - self.origin

    def plane_stats(self) -> dict[str, Any]:
        """The stats of the plane itself, name -> value."""
        begin, end = (np.array(side, np.int64) for side in self.plane.stats)
        by_name = self._stats.read(np.zeros(len(begin), np.int64), begin, end)
        return {name: self._stats.column(stats, 1)[0].as_py() for name, stats in by_name.items()}

    def entry_names(self, most: int) -> list[str]:
        """The names of the plane's first entries of event_metadata."""
        return self._names.all_names(most)

    def read(self) -> Iterator[Batch]:
        """Yields events and summaries. Counts events, reports those that can't be read."""
        self._timestamp = np.array([self._base(line) for line in self.plane.lines], np.int64)
        for block in self._blocks():
            yield from self._batches(block)
        for identity, rows in self._missing.items():
            self.conversion.report.issue("missing-string", f"{self.plane.name}, event_metadata {identity}", "", rows)

    def _blocks(self) -> Iterator[EventBlock]:
        """Yields the events of all lines, some at a time."""
        waiting: list[EventBlock] = []
        count = 0
        report = self.conversion.report
        for index, line in enumerate(self.plane.lines):
            try:
                for begin, end in events_of(self.data, line):
                    report.record(len(begin))
                    waiting.append(EventBlock(np.full(len(begin), index, np.int64), begin, end))
                    count += len(begin)
                    if count > _EVENTS:
                        whole = _together(waiting)
                        # the last one stays: whether it encloses the next one isn't known yet
                        cuts = range(0, len(whole.line) - 1, _EVENTS)
                        for first in cuts[:-1]:
                            yield EventBlock(*(column[first : first + _EVENTS] for column in whole))
                        waiting = [EventBlock(*(column[cuts[-1] :] for column in whole))]
                        count -= cuts[-1]
            except Broken as broken:
                report.record()
                detail = "an event is cut off" if broken.cut else "what follows isn't an event of the line"
                report.issue("cut" if broken.cut else "bad-record", f"byte {broken.place}", detail)
        if count:
            yield _together(waiting)

    def _batches(self, block: EventBlock) -> Iterator[Batch]:
        rows = len(block.line)
        fields = parse(self.array, block.begin, block.end)
        ids = self.batches.ids(rows)
        offset = signed(fields.get(2, VARINT).last(rows))
        dur = signed(fields.get(3, VARINT).last(rows))
        stats = fields.get(4, LENGTH)
        read = self._stats.read(stats.owner, stats.start, stats.start + signed(stats.value))
        ts = self._timestamp[block.line] + _rounded(offset)
        good = self._good(fields, block, ts, dur)
        summed = fields.get(5, VARINT).has(rows)
        columns = self._columns(fields, block, read, offset, dur, summed)
        for record, chosen in (("events", good & ~summed), ("summaries", good & summed)):
            count = int(np.count_nonzero(chosen))
            if not count:
                continue
            self.conversion.report.used(count)
            others = (
                self._event_columns(block, ts, offset, dur, columns["kind"])
                if record == "events"
                else self._sums(fields, block, dur)
            )
            batch = self.batches.batch(record, ids, **(columns | others))
            yield batch if count == rows else Batch(record, batch.columns.filter(pa.array(chosen)))

    def _good(self, fields: Fields, block: EventBlock, ts: Int64, dur: Int64) -> Bools:
        """Which events can be read; reports the others."""
        good = np.ones(len(block.line), np.bool_)
        broken = np.zeros(len(good), np.bool_)
        broken[fields.bad] = True
        checks = (
            ("bad-record", "isn't an event", broken),
            ("negative-duration", "duration_ps is negative", dur < 0),
            ("time-range", "offset_ps", (np.abs(ts) >= _GREATEST) | (self._timestamp[block.line] <= -_GREATEST)),
        )
        for kind, detail, bad in checks:
            for row in np.flatnonzero(bad & good).tolist():
                self.conversion.report.issue(kind, f"byte {block.begin[row]}", detail)
            good &= ~bad
        return good

    def _columns(
        self, fields: Fields, block: EventBlock, read: dict[str, Stats], offset: Int64, dur: Int64, summed: Bools
    ) -> dict[str, Any]:
        """The columns that events and summaries have in common."""
        rows = len(block.line)
        distinct, code = distinct_of(signed(fields.get(1, VARINT).last(rows)))
        entries = self._names.fields(self._names.find(distinct))
        names = self._named(distinct, np.bincount(code, minlength=len(distinct)), entries)
        columns = {name: self._stats.column(stats, rows) for name, stats in read.items()}
        columns = _joined(columns, self._shared(entries, len(distinct)), code)
        kind = self._kinds(block, names, code, columns, read, offset, dur)
        made: dict[str, Any] = {"name": text_column(names, code), "kind": words(KINDS, kind)}
        shown = self._names.texts(entries, 4)
        if any(text and text != name for text, name in zip(shown, names, strict=True)):
            made["short_name"] = text_column(shown, code)
        made |= self._places(block) | _placed_stats(columns, kind, names, code)
        if (kind == COUNTER).any():
            made["value"] = _values(read, kind)
        return made | {f"args.{name}": column for name, column in columns.items() if column.null_count < rows}

    def _named(self, ids: Int64, rows: Int64, entries: Fields) -> list[str | None]:
        """The name of each id; its display name or number where it has none."""
        texts: list[str | None] = []
        names, shown = self._names.texts(entries, 2), self._names.texts(entries, 4)
        named = self._names.find(ids) >= 0
        for index, identity in enumerate(ids.tolist()):
            texts.append(names[index] or shown[index] or f"[event {identity}]")
            if not named[index]:
                self._missing[identity] = self._missing.get(identity, 0) + int(rows[index])
        return texts

    def _shared(self, entries: Fields, count: int) -> dict[str, pa.Array]:
        """The stats that all events of a name have, a row for each name."""
        stats = entries.get(5, LENGTH)
        by_name = self._stats.read(stats.owner, stats.start, stats.start + signed(stats.value))
        return {name: self._stats.column(part, count) for name, part in by_name.items()}

    def _kinds(
        self,
        block: EventBlock,
        names: list[str | None],
        code: Int64,
        columns: dict[str, pa.Array],
        read: dict[str, Stats],
        offset: Int64,
        dur: Int64,
    ) -> Int8:
        """The kind of each event."""
        what = self._what[block.line]
        kind = _OF_LINE[what].copy()
        on_stream, on_host = what == What.STREAM, what == What.THREAD
        if on_stream.any():
            of_name = np.array([_WORK.get(name or "", -1) for name in names], np.int8)[code]
            alone = np.array([KINDS.index(place.only) if place.only else -1 for place in self.placed], np.int8)[
                block.line
            ]
            kind = np.where(on_stream, np.where(of_name >= 0, of_name, np.where(alone >= 0, alone, kind)), kind)
            for name, sign in reversed(_SIGNS.items()):
                kind = np.where(on_stream & _has(columns, name), sign, kind)
        if on_host.any():
            kind = np.where(on_host & (dur == 0), INSTANT, kind)
            is_named = np.array([is_op(name) for name in names], np.bool_)[code]
            kind = np.where(on_host & (is_named | _has(columns, "hlo_op") | _has(columns, "tf_op")), OP, kind)
            kind = np.where(on_host & _has(columns, "correlation_id"), API, kind)
            allocator = np.array([name in _ALLOCATOR for name in names], np.bool_)[code]
            kind = np.where(on_host & allocator, ALLOC, kind)
        kind[_enclosing(block.line, offset, dur) & (what == What.CORE)] = RANGE
        counted = kind == COUNTER
        if counted.any():
            kind[counted & np.isnan(_values(read, kind).to_numpy(zero_copy_only=False))] = INSTANT
        return kind.astype(np.int8)

    def _places(self, block: EventBlock) -> dict[str, Any]:
        """Host, process, and the track of each event's line."""
        made: dict[str, Any] = {"host": self.host}
        threads = self._what == What.THREAD
        if self.pid is not None and threads.any():
            made["pid"] = pa.array([self.pid if one else None for one in threads], pa.int64()).take(block.line)
        for name in ("tid", "device", "stream"):
            made[name] = pa.array([getattr(place, name) for place in self.placed], pa.int64()).take(block.line)
        tracks = [place.track for place in self.placed]
        if any(tracks):
            made["track"] = pa.array(tracks, pa.string()).dictionary_encode().take(block.line)
        return {name: column for name, column in made.items() if isinstance(column, (str, pa.Array))}

    def _event_columns(
        self, block: EventBlock, ts: Int64, offset: Int64, dur: Int64, kind: pa.DictionaryArray
    ) -> dict[str, Any]:
        columns: dict[str, Any] = {"ts": ts, "timing": "measured"}
        points = (self._what[block.line] == What.COUNTERS) | words_in(kind, ("instant",))
        columns["dur"] = pa.array(_rounded(dur), mask=points)
        for name, value in (("offset_ps", offset), ("duration_ps", dur)):
            rest = value % 1000 != 0
            if rest.any():
                columns[f"args.${name}"] = pa.array(value, mask=~rest)
        if rounded := int(np.count_nonzero((offset % 1000 != 0) | (dur % 1000 != 0))):
            self.conversion.report.issue("rounded", self.plane.name, "", rounded)
        return columns

    def _sums(self, fields: Fields, block: EventBlock, dur: Int64) -> dict[str, Any]:
        lines = [[self.plane.name, line.name] for line in self.plane.lines]
        return {
            "metric": "duration",
            "unit": "ns",
            "count": signed(fields.get(5, VARINT).last(len(dur))),
            "total": dur / 1000,
            "scope": pa.array(lines, pa.list_(pa.string())).take(block.line),
        }


def _together(parts: list[EventBlock]) -> EventBlock:
    return EventBlock(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _rounded(ps: Int64) -> Int64:
    """Picoseconds as nanoseconds, rounded half to even."""
    whole, rest = np.divmod(ps, 1000)
    ns: Int64 = whole + ((rest > 500) | ((rest == 500) & (whole & 1 == 1)))
    return ns


def _enclosing(line: Int64, offset: Int64, dur: Int64) -> Bools:
    """Which events enclose the next one of their line, such as a loop its body."""
    encloses = np.zeros(len(line), np.bool_)
    end = offset + dur
    encloses[:-1] = (line[1:] == line[:-1]) & (dur[1:] > 0) & (offset[1:] < end[:-1]) & (end[1:] <= end[:-1])
    return encloses


def _has(columns: dict[str, pa.Array], name: str) -> Bools | bool:
    column = columns.get(name)
    return False if column is None else present(column)


def _joined(columns: dict[str, pa.Array], shared: dict[str, pa.Array], code: Int64) -> dict[str, pa.Array]:
    """Adds the stats of names to those of events; the event's own value counts."""
    for name, column in shared.items():
        taken = column.take(pa.array(code))
        stated = columns.get(name)
        if stated is None:
            columns[name] = taken
        elif stated.null_count:
            left, right = (_plain(part) for part in (stated, taken))
            columns[name] = pc.coalesce(left, right if right.type == left.type else right.cast(left.type, safe=False))
    return columns


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _placed_stats(columns: dict[str, pa.Array], kind: Int8, names: list[str | None], code: Int64) -> dict[str, Any]:
    """Takes the stats that have a column of the model out of `columns`."""
    made: dict[str, Any] = {}
    for name, target in _COLUMNS.items():
        if name in columns and pa.types.is_primitive(columns[name].type):
            made[target] = nonzero(columns.pop(name))
    context = columns.get("context_id")  # "$$1" in the files of CUDA
    if context is not None and pa.types.is_dictionary(context.type):
        texts = [text.removeprefix("$$") for text in context.dictionary.to_pylist()]
        if all(text.isascii() and text.isdecimal() and len(text) < 19 for text in texts):
            made["context"] = pa.array([int(text) for text in texts], pa.int64()).take(context.indices)
            del columns["context_id"]
    if (work := (kind >= KERNEL) & (kind <= ALLOC)).any():
        made |= spread_details(columns, work)
        copies = np.array([name in COPIES for name in names], np.bool_)[code] & (kind == MEMCPY)
        if copies.any():
            by_name = pa.array([COPIES.get(name or "") for name in names], pa.string()).take(pa.array(code))
            made["copy_kind"] = pc.coalesce(pc.if_else(pa.array(copies), by_name, None), made.get("copy_kind", by_name))
    if "allocation_bytes" in columns and pa.types.is_integer(columns["allocation_bytes"].type):
        sign = np.array([_ALLOCATOR.get(name or "", 0) for name in names], np.int64)[code]
        signs = pa.array(sign, mask=sign == 0)
        if signs.null_count < len(signs):
            made["bytes"] = pc.multiply(columns["allocation_bytes"], signs)
    return made


def _values(read: dict[str, Stats], kind: Int8) -> pa.Array:
    """The number in the stats of each counter."""
    cells = np.full(len(kind), np.nan)
    for stats in read.values():
        for which in (DOUBLE, INT, UINT):
            chosen = stats.kind == which
            numbers = stats.number[chosen]
            cells[stats.row[chosen]] = (
                numbers.view(np.float64) if which == DOUBLE else numbers if which == UINT else signed(numbers)
            )
    missing = np.isnan(cells) | (kind != COUNTER)
    return pa.array(np.where(missing, np.nan, cells), mask=missing, from_pandas=False)
