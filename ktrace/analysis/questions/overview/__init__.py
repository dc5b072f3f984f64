"""Traces of any size, for an overview of the whole run and any part of it in full.

A trace is stored as columns on disk, of which any part of the time can be read alone:

    rows.arrows     the batches as they were read, each an Arrow stream (LZ4); `index.json` has the time of each
    lanes.rows      four numbers of each slice, in the order of time: begin, end, lane, name
    cells.arrow     the busy time of each lane, bucket and name
    names.arrow     names by number
    readings.rows   readings of counters, in the order of time
    envelope.arrow  the least and greatest reading of each counter and bucket
    index.json      where each batch is and which time it covers; tracks; the account of the reading; checksums of all

A batch whose time overlaps the wanted part is read as a whole. Sources write their rows about in the order of time, or
that of each table, so these are few.

checked   a file in pieces, each with a checksum
cache     the folder with traces that were read before, by what they were made of
lanes     how busy each device, stream and thread is over time, and with what
answers   what the page asks: lanes of a part of the time, what is heavy in it, a trace of it

The page is in ktrace/page/overview_page.py, its server in ktrace/viewer/.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.analysis.questions.overview.checked import Checked, Damaged, checksum, sums_of
from ktrace.analysis.questions.overview.lanes import (
    OPEN,
    READING,
    ROW,
    ZONE,
    Envelope,
    LaneCells,
    LaneName,
    Lanes,
    all_cells,
)
from ktrace.byte_account import ByteAccount, Range
from ktrace.input.files import open_file
from ktrace.model.arrays import AnyArray, Bools, Int64, Structured
from ktrace.model.batch import TRACK_COLUMNS, Batch, arrow_schema, is_required
from ktrace.model.catalog import Catalog
from ktrace.model.masks import present, slice_rows, words_in
from ktrace.model.tracks import Track
from ktrace.report import Issue, Ledger, Report, Severity
from ktrace.stages.select.dependents import are_figures
from ktrace.store import RANGE_ROWS, SPILL_BYTES, Runs, Spill
from ktrace.store.events import LIMIT, values
from ktrace.store.vocabulary import RowKeys

#: The version of the files; others aren't read.
VERSION = 5

#: Part of the time: from, and before (ns).
Span = tuple[int, int]

ALWAYS: Span = (-OPEN, OPEN)

_INDEX, _ROWS, _LANES, _CELLS, _NAMES = "index.json", "rows.arrows", "lanes.rows", "cells.arrow", "names.arrow"
_READINGS, _ENVELOPE = "readings.rows", "envelope.arrow"

#: The names of all files of a stored trace.
FILES = frozenset((_INDEX, _ROWS, _LANES, _CELLS, _NAMES, _READINGS, _ENVELOPE))


def store(batches: Iterable[Batch], folder: Path, report: Report, key: str = "") -> None:
    """Writes batches to a folder, which is empty, for what the key stands for. Begins and ends must be paired.

    The rows are counted in `report` by whoever reads them. Raises OSError if the disk is full.
    """
    spill = Spill(SPILL_BYTES)
    try:
        writer = _TraceWriter(folder, spill)
        for batch in batches:
            writer.add(batch)
        writer.close(report, key)
    finally:
        spill.close()


class _TraceWriter:
    """Writes batches as they come; what needs all of them comes when they have ended."""

    def __init__(self, folder: Path, spill: Spill) -> None:
        self._folder = folder
        self._file = pa.OSFile(str(folder / _ROWS), "wb")
        self._options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._blocks: list[tuple[str, int, int, int, int]] = []
        self._tracks, self._names = RowKeys(TRACK_COLUMNS), RowKeys(("name", "kind"))
        self._runs = Runs(spill, "lanes", [("ts", "i8"), ("end", "i8"), ("track", "i4"), ("name", "i4")])
        self._series = RowKeys((*TRACK_COLUMNS, "name"))
        self._readings = Runs(spill, "readings", [(name, str(READING[name])) for name in READING.names or ()])
        self._span = (OPEN, -OPEN)

    def add(self, batch: Batch) -> None:
        if not len(batch):
            return
        with pa.ipc.new_stream(self._file, batch.columns.schema, options=self._options) as stream:
            stream.write_batch(batch.columns)
        first, last = self._slices(batch) if batch.record == "events" else _time_of(batch)
        self._blocks.append((batch.record, self._file.tell(), len(batch), first, last))

    def _slices(self, batch: Batch) -> Span:
        """Keeps the slices of a batch. Returns the time that its rows cover."""
        ts, _ = values(batch.columns, "ts")
        dur, ended = values(batch.columns, "dur")
        end = ts + np.where(ended & (dur >= 0), dur, 0)
        fits = (abs(ts) < LIMIT) & (abs(end) < LIMIT)
        slices = slice_rows(batch) & fits
        unfinished = slices & ~ended
        rows = np.flatnonzero(slices)
        self._runs.append(
            ts=ts[rows],
            end=np.where(unfinished, OPEN, end)[rows],
            track=self._tracks.number(batch, rows),
            name=self._names.number(batch, rows),
        )
        self._counters(batch, ts, fits)
        if not fits.all():
            return ALWAYS
        first, last = int(ts.min()), int(end.max())
        self._span = min(self._span[0], first), max(self._span[1], last)
        return first, OPEN if unfinished.any() else last

    def _counters(self, batch: Batch, ts: Int64, fits: Bools) -> None:
        """Keeps the readings of counters, but for those that belong to a slice, such as a kernel's metrics."""
        readings = words_in(batch.column("kind"), ("counter",)) & fits
        if not readings.any():
            return
        readings &= present(batch.column("value")) & ~are_figures(batch)
        rows = np.flatnonzero(readings)
        value = batch.column("value").fill_null(0).to_numpy()
        self._readings.append(ts=ts[rows], value=value[rows], series=self._series.number(batch, rows))

    def close(self, report: Report, key: str) -> None:
        """Writes the slices in the order of time, their sums, and the index."""
        self._file.close()
        names = [LaneName(*values) for values in self._names]
        tracks = [Track(*values) for values in self._tracks]
        lanes = Lanes(tracks, names)
        start, stop = self._span if len(self._blocks) and self._span[0] < OPEN else (0, 0)
        zones: list[tuple[int, int]] = []
        with (self._folder / _LANES).open("wb") as file:
            cells = all_cells(self._in_order(lanes, file, zones), lanes, (start, max(stop, start + 1)))
        _write(self._folder / _CELLS, dict(zip(LaneCells.COLUMNS, cells.columns, strict=True)))
        words = (
            pa.array([name.name for name in names], pa.string()),
            pa.array([name.kind for name in names], pa.string()),
        )
        envelope = self._envelope(start, cells.shift)
        _write(self._folder / _ENVELOPE, {name: getattr(envelope, name) for name in _BOUNDS})
        _write(self._folder / _NAMES, dict(zip(("name", "kind"), words, strict=True)))
        index = {
            "version": VERSION,
            "key": key,
            "blocks": self._blocks,
            "span": (start, max(stop, start + 1)),
            "tracks": tracks,
            "zones": zones,
            "series": list(self._series),
            "cells": (cells.origin, cells.shift),
            "report": _state(report),
            "files": {name: sums_of(self._folder / name) for name in sorted(FILES - {_INDEX})},
        }
        text = json.dumps(index)[1:].encode()
        (self._folder / _INDEX).write_bytes(_HEAD % checksum(text) + text)

    def _envelope(self, start: int, shift: int) -> Envelope:
        """The envelope of all readings, which are written in the order of time."""
        envelope = Envelope.from_readings(np.empty(0, READING), start, shift)
        with (self._folder / _READINGS).open("wb") as file:
            for part in self._readings.parts(RANGE_ROWS):
                part.tofile(file)
                envelope = envelope.joined(Envelope.from_readings(part, start, shift))
        return envelope

    def _in_order(self, lanes: Lanes, file: Any, zones: list[Span]) -> Iterator[Structured]:
        """Yields the slices in the order of time, and writes them, with the times of each zone."""
        waiting = np.empty(0, ROW)
        for part in self._runs.parts(RANGE_ROWS):
            rows = part.copy().view(ROW)
            rows["lane"] = lanes.lane_numbers(part["track"], part["name"])
            rows = rows[np.lexsort((-rows["end"], rows["ts"]))]  # of those that begin together the one around others
            rows.tofile(file)
            waiting = np.concatenate([waiting, rows])
            whole = len(waiting) // ZONE * ZONE
            zones += [_span_of(waiting[first : first + ZONE]) for first in range(0, whole, ZONE)]
            waiting = waiting[whole:]
            yield rows
        if len(waiting):
            zones.append(_span_of(waiting))


#: How the index begins: with the checksum of what follows.
_HEAD = b'{"sum": "%08x", '

_BOUNDS = ("series", "bucket", "low", "high")


def _span_of(rows: Structured) -> Span:
    return int(rows["ts"][0]), int(rows["end"].max())


def _time_of(batch: Batch) -> Span:
    """The time that rows of other records cover: all of it if any has none."""
    ts, is_timed = (
        values(batch.columns, "ts") if batch.record != "catalog" else (np.zeros(0, np.int64), np.zeros(1, bool))
    )
    return (int(ts.min()), int(ts.max())) if len(is_timed) and is_timed.all() else ALWAYS


def _write(path: Path, columns: dict[str, AnyArray | pa.Array]) -> None:
    batch = pa.record_batch(columns)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, batch.schema, options=options) as stream:
        stream.write_batch(batch)


def _index_in(folder: Path) -> dict[str, Any]:
    """The index of a stored trace. Raises Damaged, OSError if there is none."""
    with open_file(folder / _INDEX, ours=True) as file:
        data = file.read()
    size = len(_HEAD % 0)
    if data[:size] != _HEAD % checksum(data[size:]):
        raise Damaged(f"{folder / _INDEX} is damaged, or of another version")
    index: dict[str, Any] = json.loads(data)
    if index["version"] != VERSION:
        raise Damaged(f"{folder} has version {index['version']}")
    return index


def _state(report: Report) -> dict[str, Any]:
    """The account of a reading, as JSON."""
    return {
        "inputs": report.inputs,
        "alignment": report.alignment,
        "clocks": report.clocks,
        "rows": report.rows,
        "timed": sorted(report.timed),
        "bytes": vars(report.bytes),
        "reader": (report.reader.taken, report.reader.given, report.reader.removed),
        "issues": [(one.kind, one.severity, one.sentence, one.rows, one.places) for one in report.issues.values()],
    }


@dataclass(frozen=True)
class StoredBatch:
    """A batch in the file: where it ends and begins, how many rows it has, which time they cover."""

    record: str
    start: int
    stop: int
    rows: int
    time: Span

    def overlaps(self, span: Span) -> bool:
        return self.time[0] < span[1] and self.time[1] >= span[0]


class Stored:
    """A trace that `store` wrote. Raises Damaged or OSError if the folder isn't one of this version, whole.

    What is large is checked where it is used, which raises Damaged then.
    """

    def __init__(self, folder: Path) -> None:
        self._index = _index_in(folder)
        self.key: str = self._index["key"]
        self._files = {name: Checked(folder / name, sums) for name, sums in self._index["files"].items()}
        for name in (_CELLS, _NAMES, _ENVELOPE):
            self._files[name].check()
        stops = [block[1] for block in self._index["blocks"]]
        self.blocks = [
            StoredBatch(record, start, stop, rows, (first, last))
            for start, (record, stop, rows, first, last) in zip([0, *stops], self._index["blocks"], strict=False)
        ]
        self.span: Span = tuple(self._index["span"])

    def check_rows(self) -> None:
        """Checks all rows, for who can't begin anew once some are used. Raises Damaged."""
        self._files[_ROWS].check()

    def _table(self, name: str) -> pa.Table:
        with pa.ipc.open_stream(pa.py_buffer(self._files[name].read())) as stream:
            return stream.read_all()

    @property
    def rows(self) -> int:
        """How many rows there are, without those of the catalog."""
        return sum(block.rows for block in self.blocks if block.record != "catalog")

    @property
    def is_as_read(self) -> bool:
        """Whether the rows are those of the reader: no halves of slices were joined."""
        rows = self._index["report"]["rows"]
        return self.rows == sum(int(count) for record, count in rows.items() if record != "catalog")

    def report(self) -> Report:
        """The account of the reading."""
        state, report = self._index["report"], Report()
        report.inputs, report.alignment, report.timed = state["inputs"], state["alignment"], set(state["timed"])
        report.clocks = state["clocks"]
        report.rows = Counter(state["rows"])
        taken, given, removed = state["reader"]
        report.reader = Ledger("reader", taken, given, removed=Counter(removed))
        report.bytes = ByteAccount(**state["bytes"] | {"ranges": [Range(*one) for one in state["bytes"]["ranges"]]})
        for kind, severity, sentence, rows, places in state["issues"]:
            noted = [(where, what) for where, what in places]
            report.issues[kind] = Issue(kind, Severity(severity), sentence, rows, noted)
        return report

    def batches(self, span: Span = ALWAYS, columns: frozenset[str] | None = None) -> Iterator[Batch]:
        """Yields the batches that may have rows in a part of the time, in the order in which they were read.

        Of events these columns and those that are never null are read, with their arguments; None for all.
        """
        for block in self.blocks:
            if block.overlaps(span):
                yield self._batch(block, columns if block.record == "events" else None)

    def _batch(self, block: StoredBatch, columns: frozenset[str] | None = None) -> Batch:
        data = pa.py_buffer(self._files[_ROWS].read(block.start, block.stop))
        stream = pa.ipc.open_stream(data)
        if columns is not None:
            names, has_args = arrow_schema("events").names, "args" in columns
            fields = [
                number
                for number, name in enumerate(stream.schema.names)
                if name in columns or (is_required("events", name) if name in names else has_args)
            ]
            stream = pa.ipc.open_stream(data, options=pa.ipc.IpcReadOptions(included_fields=fields))
        return Batch(block.record, stream.read_next_batch())

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog of the stored trace."""
        facts = Catalog()
        for block in self.blocks:
            if block.record == "catalog":
                facts.add(self._batch(block))
        return facts

    @cached_property
    def names(self) -> list[LaneName]:
        """The names of slices, by number."""
        table = self._table(_NAMES)
        return [LaneName(*row) for row in zip(*(table[name].to_pylist() for name in ("name", "kind")), strict=True)]

    @cached_property
    def lanes(self) -> Lanes:
        """The lanes, by number."""
        return Lanes([Track(*values) for values in self._index["tracks"]], self.names)

    @cached_property
    def cells(self) -> LaneCells:
        """The sums of the whole trace, in the narrowest buckets that are kept."""
        table = self._table(_CELLS)
        return LaneCells(
            *self._index["cells"], *(table[name].combine_chunks().to_numpy() for name in LaneCells.COLUMNS)
        )

    @cached_property
    def series(self) -> list[tuple[Track, str]]:
        """The track and name of each counter, by number."""
        return [(Track(*values), str(name)) for *values, name in self._index["series"]]

    def envelope(self, span: Span, shift: int) -> Envelope:
        """The readings of counters in a part of the time (ns), in buckets of this width."""
        origin, kept = self._index["cells"]
        if shift < kept:
            first, last = (self._first_reading(time) for time in span)
            return Envelope.from_readings(self._rows_of(_READINGS, READING, first, last), origin, shift)
        table = self._table(_ENVELOPE)
        whole = Envelope(origin, kept, *(table[name].combine_chunks().to_numpy() for name in _BOUNDS)).wider(shift)
        inside = (whole.bucket >= (span[0] - origin) >> shift) & (whole.bucket <= (span[1] - 1 - origin) >> shift)
        return Envelope(origin, shift, *(column[inside] for column in whole[2:]))

    def _first_reading(self, time: int) -> int:
        """The number of the first reading that isn't before a time."""
        count = self._files[_READINGS].size // READING.itemsize
        return bisect_left(range(count), time, key=lambda row: self._rows_of(_READINGS, READING, row, row + 1)["ts"][0])

    def _rows_of(self, name: str, kind: np.dtype[Any], first: int, last: int) -> Structured:
        """Rows of a file, by their numbers."""
        size = kind.itemsize
        return np.frombuffer(self._files[name].read(first * size, last * size), kind)

    def slices(self, span: Span) -> Iterator[Structured]:
        """Yields the slices that overlap a part of the time (ns), in the order of time, some at a time."""
        start, stop = span
        last, count = self.span[1], self._files[_LANES].size // ROW.itemsize
        for number, (first, end) in enumerate(self._index["zones"]):
            if first >= stop:
                break
            if end < start:
                continue
            rows = self._rows_of(_LANES, ROW, number * ZONE, min((number + 1) * ZONE, count))
            end_of = np.where(rows["end"] >= OPEN, last, rows["end"])
            yield rows[(rows["ts"] < stop) & ((end_of > start) | (rows["ts"] >= start))].copy()
