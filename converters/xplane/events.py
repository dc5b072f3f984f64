"""The events of a plane as batches: events, and summaries of events that XLA has added up; their stats as columns.

    events { metadata_id: 1 offset_ps: 700301500 duration_ps: 18240000 }  from timestamp_ns + 700,302 ns, 18,240 ns long
    events { metadata_id: 1 num_occurrences: 12 duration_ps: 90000000 }   a summary: 12 times, 90,000 ns in all

    stats { metadata_id: 3 uint64_value: 18 }      correlation_id    18         int64
    stats { metadata_id: 9 ref_value: 27 }         hlo_op            "dot.1"    a text: the name of the stat 27

The metadata of a plane are the names of events and stats, and the stats that all events of a name share. Only their
places are kept: a text is read where a row needs it, so that many long names of HLO instructions cost little.
"""

from __future__ import annotations

import base64
import struct
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import BatchBuilder, nonzero
from ktrace.kit.columnar.dictionaries import words
from ktrace.kit.columnar.protobuf import (
    FIXED64,
    LENGTH,
    VARINT,
    Fields,
    distinct_of,
    parse,
    signed,
    signed_one,
    texts_at,
)
from ktrace.kit.xla import COPIES, SIGNS, WORK, Placed, What, is_op, spread_details
from ktrace.model.arrays import AnyArray, Bools, Int8, Int64, UInt8, UInt64
from ktrace.model.batch import Batch
from ktrace.model.json_text import dump_json
from ktrace.model.masks import present, words_in

from .layout import Broken, Line, Plane, events_of

#: Entries that are parsed at once.
_ENTRIES = 1 << 16


class Metadata:
    """Entries of a map from ids to messages with a name (field 2), perhaps a display name (4) and stats (5).

    An id that occurs twice has its last entry. Entries that aren't protobuf are left out.
    """

    def __init__(self, data: UInt8, places: tuple[array[int], array[int]]) -> None:
        self._data = data
        begin, end = (np.array(side, np.int64) for side in places)
        parts = [
            _entries(data, begin[first : first + _ENTRIES], end[first : first + _ENTRIES])
            for first in range(0, len(begin), _ENTRIES)
        ]
        empty = np.empty(0, np.int64)
        key, first, last = (np.concatenate(side) for side in zip(*parts, strict=True)) if parts else (empty,) * 3
        order = np.argsort(key, kind="stable")
        self._key, self._begin, self._end = key[order], first[order], last[order]

    def __len__(self) -> int:
        return len(self._key)

    def find(self, ids: Int64) -> Int64:
        """The index of each id, -1 for one without an entry."""
        if not len(self._key):
            return np.full(len(ids), -1, np.int64)
        at = np.searchsorted(self._key, ids, side="right") - 1
        return np.where((at >= 0) & (self._key[at] == ids), at, -1)

    def fields(self, index: Int64) -> Fields:
        """The fields of these entries; an index of -1 has none."""
        none = index < 0
        begin = np.where(none, 0, self._begin[index] if len(self) else 0)
        return parse(self._data, begin, np.where(none, 0, self._end[index] if len(self) else 0))

    def texts(self, fields: Fields, number: int) -> list[str | None]:
        """A text field of each of those entries, None where it is absent or empty."""
        return field_texts(self._data, fields, number)

    def names(self, ids: Int64) -> list[str | None]:
        """The name of each id, None for one without an entry or a name."""
        return self.texts(self.fields(self.find(ids)), 2)

    def all_names(self, most: int) -> list[str]:
        """The names of the first entries."""
        names = self.texts(self.fields(np.arange(min(most, len(self)))), 2)
        return [name for name in names if name]


def field_texts(data: UInt8, fields: Fields, number: int) -> list[str | None]:
    """A text field of each message, None where it is absent or empty. Invalid UTF-8 becomes U+FFFD."""
    decoded_texts: list[str | None] = [None] * fields.count
    column = fields.get(number, LENGTH)
    texts = texts_at(data, column.start, signed(column.value)).to_pylist()
    for owner, text in zip(column.owner.tolist(), texts, strict=True):
        if text:
            decoded_texts[owner] = text.decode("utf-8", "replace")
    return decoded_texts


def _entries(data: UInt8, begin: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns key, start and end of the message of each entry."""
    fields = parse(data, begin, end)
    key = signed(fields.get(1, VARINT).last(len(begin)))
    value = fields.get(2, LENGTH)
    size = signed(value.last(len(begin)))
    start = np.zeros(len(begin), np.int64)
    start[value.owner] = value.start
    good = np.ones(len(begin), np.bool_)
    good[fields.bad] = False
    good &= (start + size <= end) & (size >= 0)
    return key[good], start[good], (start + size)[good]


def text_column(texts: Sequence[str | None], indices: Int64) -> pa.DictionaryArray:
    """A column of texts by their indices; -1 and the index of None are null."""
    words = [text for text in texts if text is not None]
    if len(words) < len(texts):
        here = np.cumsum([text is not None for text in texts]) - 1
        here[[index for index, text in enumerate(texts) if text is None]] = -1
        indices = np.where(indices < 0, -1, here[indices])
    codes = pa.array(indices.astype(np.int32), mask=indices < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string()))


#: Kinds of values: the field of XStat with the value. COMPRESSED is a text in gzip, of which this many bytes are read.
DOUBLE, UINT, INT, TEXT, BYTES, REF, COMPRESSED = 2, 3, 4, 5, 6, 7, 8
_WIRE = {DOUBLE: FIXED64, UINT: VARINT, INT: VARINT, TEXT: LENGTH, BYTES: LENGTH, REF: VARINT, COMPRESSED: LENGTH}
_LONGEST = 1 << 20


class Stats(NamedTuple):
    """Values of one stat: the row, the kind of value, the number or the length of the bytes, where they begin."""

    row: Int64
    kind: UInt8
    number: UInt64
    start: Int64


class StatReader:
    """Reads the stats of a plane; `names` are its stat_metadata."""

    def __init__(self, data: UInt8, names: Metadata) -> None:
        self._data, self._metadata = data, names
        self._names: dict[int, str] = {}

    def read(self, row: Int64, begin: Int64, end: Int64) -> dict[str, Stats]:
        """Returns the stats at data[begin:end] by name; `row` is the row of each. The last one of a row counts."""
        fields = parse(self._data, begin, end)
        count = len(begin)
        kind, number, start = np.zeros(count, np.uint8), np.zeros(count, np.uint64), np.zeros(count, np.int64)
        for which, wire in _WIRE.items():
            column = fields.get(which, wire)
            kind[column.owner], number[column.owner], start[column.owner] = which, column.value, column.start
        kind[fields.bad] = 0
        key = signed(fields.get(1, VARINT).last(count))
        distinct, code = distinct_of(key)
        order = np.argsort(code.astype(np.int32), kind="stable")
        cuts = np.searchsorted(code[order], np.arange(len(distinct) + 1))
        stats: dict[str, Stats] = {}
        for index, identity in enumerate(distinct.tolist()):
            rows = order[cuts[index] : cuts[index + 1]]
            rows = rows[kind[rows] > 0]
            if len(rows):
                part = Stats(row[rows], kind[rows], number[rows], start[rows])
                name = self._name(identity)
                stats[name] = _concatenated(stats[name], part) if name in stats else part
        return stats

    def _name(self, identity: int) -> str:
        if identity not in self._names:
            name = self._metadata.names(np.array([identity]))[0]
            self._names[identity] = name or f"[stat {identity}]"
        return self._names[identity]

    def column(self, stats: Stats, rows: int) -> pa.Array:
        """The column of one stat: int64, float64 or text; JSON text where values of several types occur."""
        kinds = set(np.unique(stats.kind).tolist())
        if kinds <= {UINT, INT} and not (stats.number[stats.kind == UINT] >> np.uint64(63)).any():
            return _numbers(stats.row, signed(stats.number), rows)
        if kinds == {DOUBLE}:
            return _numbers(stats.row, stats.number.view(np.float64), rows)
        if kinds <= {TEXT, REF, COMPRESSED, BYTES}:
            indices = np.full(rows, -1, np.int64)
            texts: list[str] = []
            for kind in np.unique(stats.kind).tolist():
                part = _of_kind(stats, kind)
                values, code = self._texts(kind, part)
                indices[part.row] = code + len(texts)
                texts += values
            return text_column(texts, indices)
        return self._mixed(stats, rows)

    def _texts(self, kind: int, stats: Stats) -> tuple[list[str], Int64]:
        """Returns distinct texts, and for each stat the index of its text."""
        if kind == REF:
            distinct, code = distinct_of(stats.number.view(np.int64))
            return [name or "" for name in self._metadata.names(distinct)], code
        coded = texts_at(self._data, stats.start, signed(stats.number)).dictionary_encode()
        read: Callable[[bytes], str] = {BYTES: _base64, COMPRESSED: _inflated}.get(kind, _decoded)
        return [read(text) for text in coded.dictionary.to_pylist()], coded.indices.to_numpy().astype(np.int64)

    def _mixed(self, stats: Stats, rows: int) -> pa.Array:
        """Values of several types as JSON text."""
        cells: list[bytes | None] = [None] * rows
        for kind in np.unique(stats.kind).tolist():
            part = _of_kind(stats, kind)
            if kind in (DOUBLE, INT, UINT):
                as_number = {DOUBLE: _double, INT: signed_one}.get(kind, int)
                values = [as_number(number) for number in part.number.tolist()]
            else:
                texts, code = self._texts(kind, part)
                values = [texts[index] for index in code.tolist()]
            for row, value in zip(part.row.tolist(), values, strict=True):
                cells[row] = dump_json(value).encode()
        return pa.array(cells, pa.binary())


def _concatenated(first: Stats, second: Stats) -> Stats:
    row, kind = np.concatenate([first.row, second.row]), np.concatenate([first.kind, second.kind])
    number = np.concatenate([first.number, second.number])
    return Stats(row, kind, number, np.concatenate([first.start, second.start]))


def _of_kind(stats: Stats, kind: int) -> Stats:
    chosen = stats.kind == kind
    return Stats(*(column[chosen] for column in stats))


def _numbers(row: Int64, values: AnyArray, rows: int) -> pa.Array:
    cells = np.zeros(rows, values.dtype)
    missing = np.ones(rows, np.bool_)
    cells[row], missing[row] = values, False
    return pa.array(cells, mask=missing) if missing.any() else pa.array(cells)


def _decoded(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _inflated(value: bytes) -> str:
    try:
        return zlib.decompressobj(47).decompress(value, _LONGEST).decode("utf-8", "replace")
    except zlib.error:
        return _base64(value)


def _double(value: int) -> float:
    result: float = struct.unpack("<d", struct.pack("<Q", value))[0]
    return result


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
    result: Int64 = whole + ((rest > 500) | ((rest == 500) & (whole & 1 == 1)))
    return result


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
