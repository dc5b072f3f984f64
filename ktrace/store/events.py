"""All events of a trace until their order is known: whole batches, and a row of numbers for each event.

Rows of several kept batches are joined when they are asked for, in any order (`GatheredRows`):

    kernels   ts dur name grid_x      0 1 2 3        kept batches of different columns
    calls     ts dur name tid         0 1 2 3
    wanted    kernel 2, call 2, kernel 3, call 3     a range of time

A writer that takes kernels and calls separately gets each as it was kept: columns that only other batches have are
never filled with nulls, and consecutive rows are a slice, not a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int32, Int64, UInt16
from ktrace.model.batch import DEVICE_KINDS, HOST_KINDS, INTERNAL, Batch, arrow_schema
from ktrace.model.json_text import decoded, json_cells
from ktrace.model.masks import present, slice_mask
from ktrace.report import EXAMPLES, Ledger, Report
from ktrace.store import BatchSpool, Runs, Spill
from ktrace.store.vocabulary import TrackIndex, Vocabularies

#: Arguments that are columns where batches are joined. With ever new keys, a column for each, of all rows, would take
#: quadratic time and memory; the rarest become members of `args`.
MOST_ARGUMENTS = 256

#: An argument is rare in a batch if at most one row of so many has it; so many rare ones may have columns.
ROWS_OF_RARE, MOST_RARE = 32, 64

Columns = TypeVar("Columns", pa.RecordBatch, pa.Array)


class GatheredRows:
    """Rows of `parts`: row `row` of part number `part`, in the order in which they are wanted."""

    def __init__(self, parts: list[pa.RecordBatch], part: Int64, row: Int64, words: Vocabularies) -> None:
        self._parts = parts
        self._part = part
        self._row = row
        self._words = words
        self._known: dict[str, pa.Array] = {}
        self.names = list(dict.fromkeys(name for part in parts for name in part.schema.names))

    @classmethod
    def whole(cls, columns: pa.RecordBatch, words: Vocabularies) -> GatheredRows:
        """All rows of one batch, in their order."""
        rows = np.arange(columns.num_rows)
        return cls([columns], np.zeros_like(rows), rows, words)

    def some(self, index: Int64) -> GatheredRows:
        """The rows at the given indices, with the columns that any of them has."""
        part = self._part[index]
        used = np.flatnonzero(np.bincount(part)) if len(part) else np.zeros(1, np.int64)
        return GatheredRows(
            [self._parts[one] for one in used], np.searchsorted(used, part), self._row[index], self._words
        )

    def __len__(self) -> int:
        return len(self._row)

    def column(self, name: str) -> pa.Array:
        """A column of all rows, with words for numbers."""
        if name not in self._known:
            pieces, back = self._placed
            columns = [
                _rows_at(part.column(name), rows) if name in part.schema.names else None for part, rows in pieces
            ]
            joined = _joined(name, columns, [len(rows) for _, rows in pieces], self._words)
            self._known[name] = self._words.decode(name, joined if back is None else joined.take(back))
        return self._known[name]

    @cached_property
    def _placed(self) -> tuple[list[tuple[pa.RecordBatch, Int64]], pa.Array | None]:
        """Each part with its rows, and the indices that bring them all to their positions."""
        pieces = list(self._pieces(None))
        return [(part, rows) for part, rows, _ in pieces], _back([places for _, _, places in pieces])

    def batch(self, index: Int64 | None = None) -> Batch:
        """The rows at the given indices (None: all) as events, with the columns that any of them has, except `half`."""
        pieces = list(self._pieces(index))
        columns = join([_rows_at(part, rows) for part, rows, _ in pieces], self._words)
        back = _back([places for _, _, places in pieces])
        if back is not None:
            columns = columns.take(back)
        names = [name for name in columns.schema.names if name != "half"]
        arrays = [self._words.decode(name, columns.column(name)) for name in names]
        return Batch("events", pa.RecordBatch.from_arrays(arrays, names=names))

    def _pieces(self, index: Int64 | None) -> Iterator[tuple[pa.RecordBatch, Int64, Int64]]:
        """Yields each part that has some of the rows, their rows in it, and their positions among the wanted rows."""
        part, row = (self._part, self._row) if index is None else (self._part[index], self._row[index])
        if not len(row):
            yield self._parts[0], row, row
        for number in np.flatnonzero(np.bincount(part)).tolist():
            places = np.flatnonzero(part == number)
            yield self._parts[number], row[places], places


def _back(places: list[Int64]) -> pa.Array | None:
    """The indices that bring rows sorted by part back to their positions; None where they are in order already."""
    place = np.concatenate(places)
    if not np.any(place[1:] < place[:-1]):
        return None
    back = np.empty(len(place), np.int64)
    back[place] = np.arange(len(place))
    return pa.array(back)


def _rows_at(columns: Columns, rows: Int64) -> Columns:
    """Rows of a batch or a column; a slice of it where they are consecutive."""
    count = len(rows)
    if not count:
        return columns.slice(0, 0)
    if int(rows[-1]) - int(rows[0]) + 1 == count and not np.any(rows[1:] < rows[:-1]):
        return columns.slice(int(rows[0]), count)
    return columns.take(pa.array(rows))


def join(parts: list[pa.RecordBatch], words: Vocabularies) -> pa.RecordBatch:
    """The rows of several batches, any of which may lack a column or have it with another type."""
    if len(parts) == 1:
        return parts[0]
    parts = _narrowed(parts, words)
    names = list(dict.fromkeys(name for part in parts for name in part.schema.names))
    rows = [part.num_rows for part in parts]
    arrays = [
        _joined(name, [part.column(name) if name in part.schema.names else None for part in parts], rows, words)
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _narrowed(parts: list[pa.RecordBatch], words: Vocabularies) -> list[pa.RecordBatch]:
    """The parts with at most `MOST_ARGUMENTS` columns of arguments; those that fewest rows have are in `args`."""
    filled: Counter[str] = Counter()
    for part in parts:
        for name, column in zip(part.schema.names, part.columns, strict=True):
            if name.startswith("args."):
                filled[name] += len(column) - column.null_count
    if len(filled) <= MOST_ARGUMENTS:
        return parts
    rare = {name for name, _ in filled.most_common()[MOST_ARGUMENTS:]}
    return [_with_text(part, [name for name in part.schema.names if name in rare], words) for part in parts]


def without_rare(columns: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose rare arguments, if there are many, are members of the text `args`: an array takes 3 kB at least."""
    names = [name for name in columns.schema.names if name.startswith("args.")]
    if len(names) <= MOST_RARE:
        return columns
    few = columns.num_rows // ROWS_OF_RARE
    rare = [name for name in names if columns.num_rows - columns.column(name).null_count <= few]
    return columns if len(rare) <= MOST_RARE else _with_text(columns, rare, None)


def _with_text(part: pa.RecordBatch, rare: list[str], words: Vocabularies | None) -> pa.RecordBatch:
    """A batch with some of its columns of arguments as members of the text `args`; `words` has those of numbers."""
    if not rare:
        return part
    kept = [name for name in part.schema.names if name not in {*rare, "args"}]
    folded = [*rare, *(["args"] if "args" in part.schema.names else [])]
    columns = [words.decode(name, part.column(name)) if words else part.column(name) for name in folded]
    text = Batch("events", pa.RecordBatch.from_arrays(columns, names=folded)).args_text()
    return pa.RecordBatch.from_arrays([*(part.column(name) for name in kept), text], names=[*kept, "args"])


def _joined(name: str, columns: list[pa.Array | None], rows: list[int], words: Vocabularies) -> pa.Array:
    kinds = {column.type for column in columns if column is not None}
    if len(kinds) > 1:
        columns = [None if column is None else _plain(name, words.decode(name, column)) for column in columns]
        kinds = {column.type for column in columns if column is not None}
    (kind,) = kinds
    return pa.concat_arrays(
        [pa.nulls(count, kind) if column is None else column for column, count in zip(columns, rows, strict=True)]
    )


def _plain(name: str, column: pa.Array) -> pa.Array:
    """A column that has another type in other batches: an argument as JSON text, anything else as text."""
    return json_cells(column).cast(pa.binary()) if name.startswith("args.") else decoded(column).cast(pa.string())


class Tally(msgspec.Struct):
    """How many rows had one kind of issue, and the ids of the first few."""

    rows: int = 0
    first: list[int] = msgspec.field(default_factory=list)

    def add(self, ids: Iterable[int]) -> None:
        """Counts the rows with these ids."""
        new_ids = list(ids)
        self.rows += len(new_ids)
        self.first += new_ids[: EXAMPLES - len(self.first)]

    def report(self, report: Report, kind: str, ledger: Ledger) -> None:
        """Reports the rows: the first few each with its id, all others together with the last of these."""
        for number, identity in enumerate(self.first, 1):
            rows = self.rows - number + 1 if number == len(self.first) else 1
            report.issue(kind, f"row {identity}", rows=rows, stage=ledger)


#: What a row is, as bits of `flags`. WORK: device work. RANGE: encloses or repeats other rows. LAID_OUT: a row of a
#: table, on its own track. LAUNCHED: the call that launched it is known (`join_launches`). GRAPH: a node of a graph.
SLICE, BEGIN, END, GONE, UNFINISHED, WORK, LAUNCHED, LAID_OUT, RANGE, GRAPH = (1 << bit for bit in range(10))

#: The arguments with the number of the graph that something is part of, and of its node there, as Kineto, Nsight
#: Systems and rocprofiler-sdk call them. Some write 0 for what is part of none.
_GRAPHS = ("args.graph id", "args.graphId", "args.graphExecId", "args.graph_exec_id")
_NODES = ("args.graph node id", "args.graphNodeId", "args.graph_node_id")

#: Times are between -LIMIT and LIMIT (ns).
LIMIT = 1 << 62

#: Batches with the same columns are joined up to this number of rows.
BATCH_ROWS = 65_536

#: How many times `BATCH_ROWS` rows with different columns may wait; and about how many bytes rows may have in memory.
_MOST_WAITING, _MOST_BYTES = 4, 64 << 20

_TYPES: dict[str, pa.DataType] = {field.name: field.type for field in arrow_schema("events")} | INTERNAL
_REQUIRED = {field.name for field in arrow_schema("events") if not field.nullable}


class EventStore:
    """Events by place: the index of a row in the order in which the rows are kept.

    `keys` has a row for each event, at its place: ts, end, id, track, flags. The end of a point is its ts, as is that
    of a slice without an end until `end_unfinished`. `removed` counts the rows that were left out, by kind of issue.
    `graphs` has the numbers of the graphs whose nodes are on a track, 0 where one isn't known.
    """

    def __init__(self, spill: Spill, words: Vocabularies, tracks: TrackIndex) -> None:
        self._spill = spill
        self.words = words
        self._tracks = tracks
        self._batches = BatchSpool(spill, "events")
        self._pending: dict[tuple[str, ...], list[pa.RecordBatch]] = {}
        self._waiting = 0  # rows
        self._bytes = self._total = 0  # of these rows; of all that is kept
        self.keys = Runs(spill, "keys", [("ts", "i8"), ("end", "i8"), ("id", "i8"), ("track", "i4"), ("flags", "u2")])
        self.halves = Runs(
            spill, "halves", [("ts", "i8"), ("id", "i8"), ("place", "i8"), ("track", "i4"), ("end", "?")]
        )
        self.correlated = Runs(
            spill, "correlated", [("correlation", "i8"), ("place", "i8"), ("track", "i4"), ("launch", "?")]
        )
        self.removed = {"time-range": Tally(), "negative-duration": Tally()}
        self.graphs: dict[int, set[int]] = {}

    def add(self, columns: pa.RecordBatch) -> None:
        """Keeps the events of a batch, which may be empty: a reader may have left out all of its rows."""
        if not columns.num_rows:
            return
        columns = without_rare(columns)
        arrays = {
            name: self.words.encode(name, array, _TYPES.get(name))
            for name, array in zip(columns.schema.names, columns.columns, strict=True)
            if array.null_count < len(array) or name in _REQUIRED
        }
        numbered = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        alike = self._pending.setdefault(tuple(numbered.schema.names), [])
        alike.append(numbered)
        self._waiting += numbered.num_rows
        self._bytes += numbered.nbytes
        if sum(part.num_rows for part in alike) >= BATCH_ROWS:
            self._keep(self._pending.pop(tuple(numbered.schema.names)))
        elif self._waiting >= _MOST_WAITING * BATCH_ROWS or self._bytes > _MOST_BYTES:
            self.flush()

    def at_once(self, rows: int) -> int:
        """How many rows to gather at once: `rows`, or fewer where they are large."""
        size = self._total // max(1, len(self.keys))
        return max(1, min(rows, _MOST_BYTES // max(1, size)))

    def flush(self) -> None:
        """Keeps the batches that still wait to be joined with others that have the same columns."""
        waiting = list(self._pending.values())
        self._pending.clear()
        for parts in waiting:
            self._keep(parts)

    def _keep(self, parts: list[pa.RecordBatch]) -> None:
        columns = join(parts, self.words)
        self._waiting -= columns.num_rows
        self._bytes -= sum(part.nbytes for part in parts)
        track = self._tracks.index(columns)
        ts = columns.column("ts").to_numpy()
        if np.any(ts[1:] < ts[:-1]):
            order = np.argsort(ts, kind="stable")
            columns, track, ts = columns.take(pa.array(order)), track[order], ts[order]
        self._append_keys(columns, track, ts)
        self._batches.append(columns)
        self._total += columns.nbytes

    def _append_keys(self, columns: pa.RecordBatch, track: Int32, ts: Int64) -> None:
        id_ = columns.column("id").to_numpy()
        dur, has_dur = values(columns, "dur")
        flags = self._flags(columns, has_dur)
        self._note_graphs(columns, track, flags)
        is_slice = (flags & SLICE) != 0
        far = (ts >= LIMIT) | (ts <= -LIMIT) | (dur >= LIMIT)
        self._leave_out("time-range", far, flags, columns)
        self._leave_out("negative-duration", (dur < 0) & ~far, flags, columns)
        end = ts + np.where(is_slice & ((flags & GONE) == 0), dur, 0)
        start = len(self.keys)
        place = np.arange(start, start + len(ts))
        self.keys.append(ts=ts, end=end, id=id_, track=track, flags=flags)
        half = (flags & (BEGIN | END) != 0) & (flags & GONE == 0)
        if half.any():
            self.halves.append(
                ts=ts[half], id=id_[half], place=place[half], track=track[half], end=(flags[half] & END) != 0
            )
        self._append_correlated(columns, place, track)

    def _flags(self, columns: pa.RecordBatch, has_dur: Bools) -> UInt16:
        """The flags of each row."""
        kind, kinds = columns.column("kind"), self.words["kind"]
        is_slice = slice_mask(lambda words: kinds.where(kind, words.__contains__), has_dur)
        flags = is_slice * np.uint16(SLICE) | (is_slice & ~has_dur) * np.uint16(UNFINISHED)
        if "half" in columns.schema.names:
            half = columns.column("half")
            flags[self.words["half"].where(half, "begin".__eq__)] = SLICE | BEGIN | UNFINISHED
            flags[self.words["half"].where(half, "end".__eq__)] = END
        flags[kinds.where(kind, lambda word: word in DEVICE_KINDS)] |= WORK
        flags[kinds.where(kind, "range".__eq__)] |= RANGE
        if "track" in columns.schema.names:
            own_track = present(columns.column("track"))
            synthetic = self.words["timing"].where(columns.column("timing"), "synthetic".__eq__)
            flags[synthetic & own_track] |= LAID_OUT
        return flags

    def _note_graphs(self, columns: pa.RecordBatch, track: Int32, flags: UInt16) -> None:
        """Sets the flag of nodes of graphs, and notes which graphs have some on each track."""
        graph, node = (_first_number(columns, names) for names in (_GRAPHS, _NODES))
        rows = np.flatnonzero((graph != 0) | (node != 0))
        flags[rows] |= GRAPH
        for one, number in np.unique(np.stack((track[rows], graph[rows])), axis=1).T.tolist() if len(rows) else ():
            self.graphs.setdefault(one, set()).add(number)

    def _leave_out(self, issue: str, which: Bools, flags: UInt16, columns: pa.RecordBatch) -> None:
        if which.any():
            flags[which] |= GONE
            self.removed[issue].add(columns.column("id").to_numpy()[which].tolist())

    def _append_correlated(self, columns: pa.RecordBatch, place: Int64, track: Int32) -> None:
        if "correlation" not in columns.schema.names:
            return
        kind, kinds = columns.column("kind"), self.words["kind"]
        launch = kinds.where(kind, lambda word: word in HOST_KINDS)
        work = kinds.where(kind, lambda word: word in (*DEVICE_KINDS, "sync"))
        correlation, _ = values(columns, "correlation")
        which = (launch | work) & (correlation != 0)
        self.correlated.append(
            correlation=correlation[which], place=place[which], track=track[which], launch=launch[which]
        )

    def span(self, size: int) -> tuple[int, int]:
        """The first start and the last end of the events that are left, (0, 0) if there are none."""
        first, last = LIMIT, -LIMIT
        for _, rows in self.keys.blocks(size):
            left = rows[rows["flags"] & GONE == 0]
            if len(left):
                first, last = min(first, int(left["ts"].min())), max(last, int(left["end"].max()))
        return (first, last) if first < LIMIT else (0, 0)

    def end_unfinished(self, end: int, size: int) -> int:
        """Sets the end of slices that have none, and returns how many there are."""
        count = 0
        for _, rows in self.keys.blocks(size):
            open_ = (rows["flags"] & UNFINISHED != 0) & (rows["flags"] & GONE == 0)
            rows["end"][open_] = end
            count += int(np.count_nonzero(open_))
        return count

    def at(self, places: Int64) -> GatheredRows:
        """The rows at the places, in the order of the places."""
        starts = np.asarray(self.keys.starts)
        number = np.searchsorted(starts, places, "right") - 1
        used = np.flatnonzero(np.bincount(number))
        part = np.zeros(len(starts), np.int64)
        part[used] = np.arange(len(used))
        parts = [self._batches.get(int(batch)) for batch in used]
        return GatheredRows(parts, part[number], places - starts[number], self.words)


def _first_number(columns: pa.RecordBatch, names: Iterable[str]) -> Int64:
    """The first whole number but 0 in these columns of each row, 0 if there is none."""
    number = np.zeros(columns.num_rows, np.int64)
    for name in names:
        if name in columns.schema.names and columns.schema.field(name).type == pa.int64():
            number = np.where(number == 0, values(columns, name)[0], number)
    return number


def values(columns: pa.RecordBatch, name: str) -> tuple[Int64, Bools]:
    """An int64 column with 0 for null, and where it isn't null."""
    if (place := columns.schema.get_field_index(name)) < 0:
        return np.zeros(columns.num_rows, np.int64), np.zeros(columns.num_rows, np.bool_)
    column = columns.column(place)
    return (column.fill_null(0) if column.null_count else column).to_numpy(), present(column)
