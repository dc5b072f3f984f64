"""Writes a timeline as a Perfetto trace: device work as render stages, all else as events on tracks.

Two sequences: on the host's, timestamps are differences from one to the next (an incremental clock); on the
GPU's they are whole, since counters are found by the timestamp of their kernel.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.catalog import Catalog
from ktrace.conversion import Conversion
from ktrace.model import INTERNAL, TRACK_COLUMNS, Batch, Rows
from ktrace.order import Timeline, TimelineBatch
from ktrace.rows import to_rows
from ktrace.sink import Sink
from ktrace.tracks import Track

from .._shared.arguments import PLAIN, is_in, plain, slice_rows
from . import field_names as f
from .arrows import ArrowBook, HostArrows
from .descriptors import Descriptors
from .encode import Bools, Columns, Int64, Table
from .encode_fields import Coded, Int32
from .encode_json import TYPE_NAMES
from .events import HostRows, TrackEvents, argument_columns, source_columns
from .gpu import StageRows, Stages
from .gpu_counters import OCCUPANCY, KernelCounters
from .gpu_tracks import Gpus, adopted
from .metrics import launch_arguments, metrics_of
from .sequences import GPU, HOST, Packets, clock, first_packet, later, packet
from .sidecar import STAGE_RESERVED, begin_text, catalog_texts, end_text, link_texts, place_texts
from .wire import bytes_field, bytes_tag, int_tag, text_field, varint

_EVENT = bytes_tag(f.TRACE_PACKET["track_event"])
_STAGE = bytes_tag(f.TRACE_PACKET["gpu_render_stage_event"])
_COUNTER = bytes_tag(f.TRACE_PACKET["gpu_counter_event"])
_TYPE = int_tag(f.TRACK_EVENT["type"])
_TRACK = int_tag(f.TRACK_EVENT["track_uuid"])
_BEGINS, _ENDS, _POINT, _COUNTS = (
    f.TRACK_EVENT_TYPE[name] for name in ("TYPE_SLICE_BEGIN", "TYPE_SLICE_END", "TYPE_INSTANT", "TYPE_COUNTER")
)


class Writer:
    """A TimelineWriter of TrackEvents, GpuRenderStageEvents and GpuCounterEvents."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._stream = sink.open()
        self._report = conversion.report
        self._events = TrackEvents()
        self._arrows = ArrowBook()
        self._counters = KernelCounters()
        self._said = np.zeros(3, np.int64)  # tracks, counters and queues of which the sidecar has said what they are

    def start(self, timeline: Timeline) -> None:
        """Writes the packets that open the sequences, and the clock where the source knows the time of day."""
        self._timeline = timeline
        self._origin = min(timeline.start, 0)
        note = ""
        if self._origin:
            note = f"The times shown are {-self._origin} ns later than those of the source, which begin below 0."
            self._report.issue("origin", "output", f"{-self._origin} ns were added", 0)
        shown = adopted(timeline.tracks)
        self._tracks = Descriptors(shown, timeline.catalog, note)
        self._gpus = Gpus(timeline.tracks, timeline.catalog)
        self._stages = Stages(self._gpus)
        self._api = _apis(timeline.tracks, self._gpus)
        begin = timeline.start - self._origin
        self._last = begin
        clocks = [clock(f.BUILTIN_CLOCK["BUILTIN_CLOCK_BOOTTIME"], begin)]
        if anchor := _unix_ns(timeline.catalog, timeline.start):
            clocks.append(clock(f.BUILTIN_CLOCK["BUILTIN_CLOCK_REALTIME"], anchor))
        self._say(begin_text(self._origin))
        rows: Iterable[dict[str, Any]] = to_rows(timeline.catalog.to_batch())
        self._say(*catalog_texts(map(_fact, rows)))
        for text in link_texts(timeline.links()):
            self._say(text)
        self._write(first_packet(HOST, clocks, begin, TYPE_NAMES))
        self._write(first_packet(GPU, [], 0, b""))

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows and returns how many events and arrow ends it kept.

        A counter that is no number has no place, nor has the end of an arrow to a render stage that another started.
        """
        if self._stages.is_full:
            self._write(first_packet(GPU, [], 0, self._stages.restart()))
        stage = batch.work
        metric = metrics_of(batch, stage)
        lost = _no_numbers(batch)
        host_arrows, waits, homeless = self._arrows.split(batch, stage, self._api[batch.track])
        self._write_host(batch, np.flatnonzero(~(stage | metric.rows | lost)), host_arrows)
        if stage.any():
            rows = np.flatnonzero(stage)
            self._write_stages(batch, rows, waits, launch_arguments(batch, metric, rows))
        self._add_counters(batch, np.flatnonzero(metric.rows & ~lost), metric.kernel)
        return len(batch) - int(np.count_nonzero(lost)) + max(batch.link_ends - homeless, 0)

    def close(self) -> None:
        """Writes the counters of kernels, the GPUs and the mark that the trace is whole."""
        entries, ts, events = self._counters.finish()
        if events is not None:
            self._write(packet(later(GPU) + bytes_field(f.TRACE_PACKET["interned_data"], entries)))
            self._write(Packets(GPU, _COUNTER).of([np.arange(len(ts))], [events], ts - self._origin))
        self._say_capped()
        if info := self._gpus.info():
            self._write(packet(info))
        self._say(end_text())

    def _write_host(self, batch: TimelineBatch, rows: Int64, arrows: HostArrows) -> None:
        """Writes TrackEvents in the order of the edges."""
        edges = batch.edges
        is_row = edges.row >= 0
        own = np.zeros(len(batch) + 1, np.bool_)  # the last one stands for ends, whose row is -1
        own[rows] = True
        own[-1] = True
        at = np.flatnonzero(own[edges.row])
        place = self._places(batch, at)
        ts = edges.ts[at] - self._origin
        delta = np.diff(ts, prepend=self._last)
        if len(ts):
            self._last = int(ts[-1])
        begins = np.flatnonzero(is_row[at])
        position = np.empty(len(batch), np.int64)
        position[edges.row[at[begins]]] = begins
        host = HostRows(_taken(batch, rows), Coded(place.table, place.codes[position[rows]]), arrows.of(rows))
        numbers, events = self._events.events(host)
        ends = np.flatnonzero(~is_row[at])
        end = Columns(len(ends))
        place.put(end, ends, None)
        self._introduce()
        where = [position[rows][number] for number in numbers]
        self._write(Packets(HOST, _EVENT).of([*where, ends], [*events, end], delta))

    def _places(self, batch: TimelineBatch, at: Int64) -> Coded:
        """The fields of type and track of those edges."""
        edges = batch.edges
        row, track, lane = edges.row[at], edges.track[at].astype(np.int64), edges.lane[at].astype(np.int64)
        series, numbers = _series(batch)
        kinds = np.where(slice_rows(batch), _BEGINS, _POINT)
        kinds[numbers >= 0] = _COUNTS
        kind = np.append(kinds, _ENDS)[row]
        number = np.append(numbers, -1)[row]
        which = np.where(kind == _COUNTS, number, lane)
        key = (which * len(self._timeline.tracks) + track) * 8 + kind
        found = pa.array(key).dictionary_encode()
        distinct = found.dictionary.to_pylist()
        wanted = [_parts(value, len(self._timeline.tracks)) for value in distinct]
        self._tracks.expect_counters((t, *series[w]) for w, t, k in wanted if k == _COUNTS)
        pieces = []
        for which_, track_, kind_ in wanted:
            uuid = (
                self._tracks.counter(track_, *series[which_])
                if kind_ == _COUNTS
                else self._tracks.track(track_, which_)
            )
            pieces.append(_TYPE + varint(kind_) + _TRACK + varint(uuid))
        return Coded(Table(pieces), found.indices.to_numpy())

    def _write_stages(
        self, batch: TimelineBatch, rows: Int64, waits: pa.LargeBinaryArray | None, measured: dict[str, pa.Array]
    ) -> None:
        part = _taken(batch, rows)
        track = batch.track[rows]
        for number in np.unique(track).tolist():
            if number not in self._gpus.queues:
                self._gpus.queue(number, *self._tracks.process(number), self._tracks.queue(number))
        ts = part.column("ts").to_numpy()
        dur = pc.coalesce(part.column("dur"), pc.subtract(self._timeline.end, part.column("ts"))).to_numpy()
        columns = argument_columns(part)
        for name in ("kind", *TRACK_COLUMNS):  # the stage says the kind, its queue the place
            columns.pop(name, None)
        if part.has("cat"):
            columns["cat"] = part.column("cat")
        columns |= source_columns(part, STAGE_RESERVED)
        own_waits = waits.take(pa.array(rows)) if waits is not None else None
        stages = StageRows(part.columns, columns, track, batch.serial[rows], ts, dur, own_waits, measured)
        numbers, events = self._stages.events(stages)
        self._introduce()
        if fresh := self._stages.fresh():
            self._write(packet(later(GPU) + fresh))
        self._write(Packets(GPU, _STAGE).of(numbers, events, ts - self._origin))
        self._add_estimates(part, stages)

    def _add_estimates(self, part: Batch, stages: StageRows) -> None:
        if not part.has("occupancy") or part.column("occupancy").null_count == len(part):
            return
        known = part.column("occupancy").is_valid().to_numpy(zero_copy_only=False)
        value = part.column("occupancy").to_numpy(zero_copy_only=False)[known]
        self._counters.add(
            kernels=len(value),
            dur=stages.dur[known],
            serial=stages.serial[known],
            ts=stages.ts[known],
            gpu=self._gpu_numbers(stages.track[known]),
            name=self._counters.number(OCCUPANCY, "%", estimate=True),
            value=value,
            estimate=True,
        )

    def _gpu_numbers(self, track: Int32) -> Int64:
        numbers = np.zeros(len(self._timeline.tracks), np.int64)
        for number, queue in self._gpus.queues.items():
            numbers[number] = queue.gpu.number
        return numbers[track]

    def _add_counters(self, batch: TimelineBatch, rows: Int64, kernel: Int64) -> None:
        """Keeps the metrics of kernels."""
        if not len(rows):
            return
        of = kernel[rows]
        part = _taken(batch, rows)
        series, numbers = _series(part)
        names = np.array([self._counters.number(*key) for key in series], np.int64)
        dur = pc.fill_null(batch.column("dur"), 0).to_numpy(zero_copy_only=False)
        estimated = pc.is_valid(batch.column("occupancy")).to_numpy(zero_copy_only=False)
        distinct = np.unique(of)
        self._counters.add(
            kernels=len(distinct) - int(np.count_nonzero(estimated[distinct])),
            dur=dur[of],
            serial=batch.serial[of],
            ts=batch.column("ts").to_numpy()[of],
            gpu=self._gpu_numbers(batch.track[of]),
            name=names[numbers],
            value=part.column("value").to_numpy(zero_copy_only=False),
            estimate=False,
        )

    def _say_capped(self) -> None:
        counters = self._counters
        if not counters.dropped_kernels:
            return
        kept = counters.kernels - counters.dropped_kernels
        detail = f"the {kept:,} longest of {counters.kernels:,} kernels keep their counters"
        self._report.issue("counters-capped", "output", detail, counters.dropped_kernels)
        if counters.dropped_rows and self._report.stages:
            ledger = self._report.stages[-1]
            ledger.given -= counters.dropped_rows
            ledger.removed["counters-capped"] += counters.dropped_rows

    def _introduce(self) -> None:
        """Writes the descriptors and texts that the next events refer to, and what tracks stand for."""
        tracks = self._timeline.tracks
        places = {uuid: _columns(tracks[number]) for uuid, number in islice(self._tracks.lanes(), self._said[0], None)}
        series = islice(self._tracks.counters(), self._said[1], None)
        counters = {
            uuid: _columns(tracks[number]) | {"counter": name} | ({"unit": unit} if unit else {})
            for uuid, number, name, unit in series
        }
        queues = islice(self._gpus.queues.values(), self._said[2], None)
        stages = {queue.iid: _columns(queue.track) for queue in queues}
        self._said += (len(places), len(counters), len(stages))
        self._say(*place_texts("tracks", places | counters), *place_texts("queues", stages))
        for descriptor in self._tracks.fresh:
            self._write(packet(later(HOST) + descriptor))
        self._tracks.fresh.clear()
        if interned := self._events.fresh():
            self._write(packet(later(HOST) + interned))

    def _say(self, *texts: str) -> None:
        """Writes packets of the sidecar."""
        for text in texts:
            self._write(packet(bytes_field(f.TRACE_PACKET["for_testing"], text_field(f.TEST_EVENT["str"], text))))

    def _write(self, data: Any) -> None:
        self._stream.write(data)


def _columns(track: Track) -> dict[str, Any]:
    return {name: value for name, value in track._asdict().items() if value is not None}


def _fact(row: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in row.items() if value is not None}
    if isinstance(found.get("facts"), str):
        found["facts"] = json.loads(found["facts"])
    return found


def _parts(key: int, tracks: int) -> tuple[int, int, int]:
    """Lane or number of the counter, track, and type of a key of `_places`."""
    rest, kind = divmod(key, 8)
    which, track = divmod(rest, tracks)
    return which, track, kind


#: Columns that say where a row is, which `TimelineBatch.track` says, too.
_WHERE = {*TRACK_COLUMNS, *INTERNAL} - set(PLAIN)


def _taken(batch: TimelineBatch, rows: Int64) -> Batch:
    """Some rows of a batch, without the columns that say where they are or say nothing."""
    columns = batch.taken(rows).columns
    names = [
        name
        for name, column in zip(columns.schema.names, columns.columns, strict=True)
        if name not in _WHERE and (column.null_count < len(column) or name == "id")
    ]
    return Batch("events", columns.select(names))


def _no_numbers(batch: Rows) -> Bools:
    """Which rows are counters without a finite value."""
    counter = is_in(batch.column("kind"), ("counter",))
    if not counter.any():
        return np.zeros(len(batch), np.bool_)
    finite = pc.fill_null(pc.is_finite(batch.column("value")), False).to_numpy(zero_copy_only=False)
    lost: Bools = counter & ~finite
    return lost


def _series(batch: Rows) -> tuple[list[tuple[str, str | None]], Int64]:
    """Name and unit of the counters of a batch, and for each row the number of its own; -1 where it is no counter."""
    numbers = np.full(len(batch), -1, np.int64)
    rows = np.flatnonzero(is_in(batch.column("kind"), ("counter",)))
    if not len(rows):
        return [], numbers
    which = pa.array(rows)
    parts = [plain(batch, column).take(which).dictionary_encode() for column in ("name", "unit")]
    name, unit = (pc.fill_null(part.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64) for part in parts)
    key, number = np.unique((unit + 1) * len(parts[0].dictionary) + name, return_inverse=True)
    numbers[rows] = number
    names, units = parts[0].dictionary.to_pylist(), [None, *parts[1].dictionary.to_pylist()]
    return [(names[at % len(names)], units[at // len(names)]) for at in key.tolist()], numbers


def _apis(tracks: Iterable[Track], gpus: Gpus) -> npt.NDArray[np.uint8]:
    """For each track the number of the API that its source's devices have, 0 where they differ or none is known."""
    found: dict[str, set[int]] = {}
    for number, track in enumerate(tracks):
        if track.is_on_device:
            found.setdefault(track.source, set()).add(gpus.api(number))
    single = {source: next(iter(apis)) for source, apis in found.items() if len(apis) == 1}
    return np.array([single.get(track.source, f.API["UNDEFINED"]) for track in tracks], np.uint8)


def _unix_ns(catalog: Catalog, start: int) -> int | None:
    """Unix time in ns at the begin of the trace, None where no source says, or two disagree."""
    offsets = {
        entry.facts["unix_ns"] - entry.facts["at_ns"]
        for entry in catalog.of("clock")
        if "unix_ns" in entry.facts and "at_ns" in entry.facts
    }
    if len(offsets) != 1:
        return None
    (offset,) = offsets
    return start + offset if start + offset > 0 else None
