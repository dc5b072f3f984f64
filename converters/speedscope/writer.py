"""Writes a timeline as speedscope JSON. The events of each lane wait in temporary files until the end."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa

import ktrace
from ktrace.conversion import Conversion
from ktrace.input.source import stem
from ktrace.kit.timelines import track_paths
from ktrace.model.arrays import Bools
from ktrace.model.masks import slice_rows, words_in
from ktrace.naming.alike import unique_name
from ktrace.output.sink import Sink
from ktrace.stages.order.timeline import Timeline, TimelineBatch
from ktrace.store.spill import SPILL_BYTES, Batches, Spill

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"

Lane = tuple[int, int]


class Writer:
    """A TimelineWriter of slices; points are slices of 0 ns. Counters and arrows have no place in the format."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._stream = sink.open()
        self._name = stem(sink.path)
        self._report = conversion.report
        self._spill = Spill(SPILL_BYTES)
        self._kept = Batches(self._spill, "events")
        self._count = 0
        self._frames: dict[str, int] = {}
        self._names: set[str] = set()
        #: For each lane the numbers of the kept batches with its events.
        self._pieces: dict[Lane, list[int]] = {}
        self._open: dict[Lane, list[int]] = {}

    def start(self, timeline: Timeline) -> None:
        """Receives the tracks. Times count from the start of the trace: viewers read them as doubles."""
        self._start, self._end = timeline.start, timeline.end
        self._paths = track_paths(timeline)
        if timeline.start:
            self._report.issue("origin", "output", f"{timeline.start} ns were subtracted", 0)

    def write(self, batch: TimelineBatch) -> int:
        """Keeps the starts and ends, and returns the number of events."""
        shown = ~words_in(batch.column("kind"), ("counter",))
        names = batch.column("name")
        self._keep(batch, shown, self._numbers(names, shown))
        return int(np.count_nonzero(shown))

    def close(self) -> None:
        """Writes the profiles, then the frames."""
        try:
            head = {"$schema": _SCHEMA, "exporter": f"ktrace@{ktrace.__version__}", "name": self._name}
            self._stream.write(msgspec.json.encode(head)[:-1] + b',"activeProfileIndex":0,"profiles":[')
            separator = b"\n"
            for track, path in self._paths.items():
                for lane in sorted(lane for number, lane in self._pieces if number == track):
                    self._profile(track, lane, path, separator)
                    separator = b",\n"
            self._stream.write(b'],\n"shared":{"frames":[')
            for index, name in enumerate(self._frames):
                self._stream.write((b"," if index else b"") + msgspec.json.encode({"name": name}))
            self._stream.write(b"]}}\n")
        finally:
            self._spill.close()

    def _numbers(self, names: pa.Array, shown: Bools) -> list[int]:
        """The number of the frame of each row, -1 for rows that aren't shown."""
        frames = self._frames
        rows = zip(names.to_pylist(), shown.tolist(), strict=True)
        return [frames.setdefault(name, len(frames)) if there else -1 for name, there in rows]

    def _keep(self, batch: TimelineBatch, shown: Bools, frames: list[int]) -> None:
        """Keeps the events of a batch by lane; an end has the frame of the start that it ends."""
        slices = slice_rows(batch).tolist()
        events: dict[Lane, list[tuple[bool, int, int]]] = {}
        edges = batch.edges
        columns = (column.tolist() for column in (edges.ts, edges.row, edges.track, edges.lane))
        is_shown = shown.tolist()
        for ts, row, track, lane in zip(*columns, strict=True):
            if row >= 0 and not is_shown[row]:
                continue
            found = events.setdefault((track, lane), [])
            if row < 0:
                found.append((False, self._open[track, lane].pop(), ts))
                continue
            found.append((True, frames[row], ts))
            if slices[row]:
                self._open.setdefault((track, lane), []).append(frames[row])
            else:
                found.append((False, frames[row], ts))
        for key, found in events.items():
            begins, numbers, times = zip(*found, strict=True)
            types = {"begin": pa.bool_(), "frame": pa.int32(), "at": pa.int64()}
            values = zip((begins, numbers, times), types.values(), strict=True)
            kept = [pa.array(column, kind) for column, kind in values]
            self._kept.append(pa.RecordBatch.from_arrays(kept, names=list(types)))
            self._pieces.setdefault(key, []).append(self._count)
            self._count += 1

    def _profile(self, track: int, lane: int, path: tuple[str, ...], separator: bytes) -> None:
        name = " / ".join(path) + (f" ({lane + 1})" if lane else "")
        name = unique_name(name, self._names.__contains__, " #")
        self._names.add(name)
        head = {"type": "evented", "name": name, "unit": "nanoseconds", "startValue": 0}
        head["endValue"] = self._end - self._start
        self._stream.write(separator + msgspec.json.encode(head)[:-1] + b',"events":[')
        first = True
        for text in self._events(track, lane):
            self._stream.write(text if first else b"," + text)
            first = False
        self._stream.write(b"]}")

    def _events(self, track: int, lane: int) -> Iterator[bytes]:
        """Yields the events of a lane as JSON."""
        for number in self._pieces[track, lane]:
            columns = self._kept.get(number)
            rows = zip(*(columns.column(index).to_pylist() for index in range(3)), strict=True)
            start = self._start
            events = [{"type": "O" if begin else "C", "frame": frame, "at": at - start} for begin, frame, at in rows]
            if events:
                yield msgspec.json.encode(events)[1:-1]
