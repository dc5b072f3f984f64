"""All events of a trace until their order is known: whole batches, and a row of numbers for each event."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int32, Int64, UInt16
from ktrace.model.batch import DEVICE_KINDS, HOST_KINDS, INTERNAL, arrow_schema
from ktrace.model.masks import present, slice_mask
from ktrace.store.gathered import GatheredRows, join, without_rare
from ktrace.store.spill import Batches, Runs, Spill
from ktrace.store.tally import Tally
from ktrace.store.track_index import TrackIndex
from ktrace.store.vocabulary import Vocabularies

#: What a row is, as bits of `flags`. WORK: device work. RANGE: encloses or repeats other rows. LAID_OUT: a row of a
#: table, on its own track. LAUNCHED: the call that launched it is known (`join_launches`).
SLICE, BEGIN, END, GONE, UNFINISHED, WORK, LAUNCHED, LAID_OUT, RANGE = (1 << bit for bit in range(9))

#: Times are between -LIMIT and LIMIT (ns).
LIMIT = 1 << 62

#: Batches with the same columns are joined up to this number of rows.
BATCH_ROWS = 65_536

#: How many times `BATCH_ROWS` rows with different columns may wait.
_MOST_WAITING = 4

_TYPES: dict[str, pa.DataType] = {field.name: field.type for field in arrow_schema("events")} | INTERNAL
_REQUIRED = {field.name for field in arrow_schema("events") if not field.nullable}


class EventStore:
    """Events by place: the index of a row in the order in which the rows are kept.

    `keys` has a row for each event, at its place: ts, end, id, track, flags. The end of a point is its ts, as is that
    of a slice without an end until `end_unfinished`. `removed` counts the rows that were left out, by kind of issue.
    """

    def __init__(self, spill: Spill, words: Vocabularies, tracks: TrackIndex) -> None:
        self._spill = spill
        self.words = words
        self._tracks = tracks
        self._batches = Batches(spill, "events")
        self._pending: dict[tuple[str, ...], list[pa.RecordBatch]] = {}
        self._waiting = 0
        self.keys = Runs(spill, "keys", [("ts", "i8"), ("end", "i8"), ("id", "i8"), ("track", "i4"), ("flags", "u2")])
        self.halves = Runs(
            spill, "halves", [("ts", "i8"), ("id", "i8"), ("place", "i8"), ("track", "i4"), ("end", "?")]
        )
        self.correlated = Runs(
            spill, "correlated", [("correlation", "i8"), ("place", "i8"), ("track", "i4"), ("launch", "?")]
        )
        self.removed = {"time-range": Tally(), "negative-duration": Tally()}

    def add(self, columns: pa.RecordBatch) -> None:
        """Keeps the events of a batch, which may be empty: a reader may have left out all of its rows."""
        if not columns.num_rows:
            return
        numbered = self._numbered(columns)
        alike = self._pending.setdefault(tuple(numbered.schema.names), [])
        alike.append(numbered)
        self._waiting += numbered.num_rows
        if sum(part.num_rows for part in alike) >= BATCH_ROWS:
            self._keep(self._pending.pop(tuple(numbered.schema.names)))
        elif self._waiting >= _MOST_WAITING * BATCH_ROWS:
            self.flush()

    def _numbered(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the types of the model and numbers for words, without columns that are all null."""
        columns = without_rare(columns)
        arrays = {
            name: self.words.encode(name, array, _TYPES.get(name))
            for name, array in zip(columns.schema.names, columns.columns, strict=True)
            if array.null_count < len(array) or name in _REQUIRED
        }
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def flush(self) -> None:
        """Keeps the batches that still wait to be joined with others that have the same columns."""
        waiting = list(self._pending.values())
        self._pending.clear()
        for parts in waiting:
            self._keep(parts)

    def _keep(self, parts: list[pa.RecordBatch]) -> None:
        columns = join(parts, self.words)
        self._waiting -= columns.num_rows
        track = self._tracks.index(columns)
        ts = columns.column("ts").to_numpy()
        if np.any(ts[1:] < ts[:-1]):
            order = np.argsort(ts, kind="stable")
            columns, track, ts = columns.take(pa.array(order)), track[order], ts[order]
        self._append_keys(columns, track, ts)
        self._batches.append(columns)

    def _append_keys(self, columns: pa.RecordBatch, track: Int32, ts: Int64) -> None:
        id_ = columns.column("id").to_numpy()
        dur, has_dur = values(columns, "dur")
        flags = self._flags(columns, has_dur)
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
        """The first begin and the last end of the events that are left, (0, 0) if there are none."""
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


def values(columns: pa.RecordBatch, name: str) -> tuple[Int64, Bools]:
    """An int64 column with 0 for null, and where it isn't null."""
    if name not in columns.schema.names:
        return np.zeros(columns.num_rows, np.int64), np.zeros(columns.num_rows, np.bool_)
    column = columns.column(name)
    return (column.fill_null(0) if column.null_count else column).to_numpy(), present(column)
