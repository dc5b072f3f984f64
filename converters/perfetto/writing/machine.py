"""The part of a trace that belongs to one machine: device work as render stages, all else as events on tracks.

A machine has two sequences, one for the host and one for the GPU. Interned entries belong to a sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.timelines import PLAIN, masked, plain
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.batch import INTERNAL, TRACK_COLUMNS, Batch, EventRows
from ktrace.model.catalog import Catalog
from ktrace.model.masks import present, slice_rows, words_in
from ktrace.parallel.threads import meanwhile
from ktrace.stages.order import TimelineBatch

from .. import field_numbers as f
from ..sidecar import STAGE_RESERVED
from ..wire import int_tag, varint
from .arguments import TYPE_NAMES, ArgumentTexts, ArrowBook, HostArrows
from .busy_pieces import BusyPieces, Pieces
from .derived_tracks import DeviceProcesses, RootTrack, TakenNames
from .descriptors import root
from .fields import CodedField, PieceTable
from .kernel_counters import DERIVED, ESTIMATE, OCCUPANCY, KernelCounters, KernelMetrics, launch_arguments, metrics_of
from .render_stages import OF_LANE, Gpus, RenderStages, StageRows
from .sequences import Events, TraceOutput, host_and_gpu, of_machine, packet
from .track_events import HostRows, TrackEvents, argument_columns, source_columns

_TYPE = int_tag(f.TRACK_EVENT["type"])
_TRACK = int_tag(f.TRACK_EVENT["track_uuid"])
_BEGINS, _ENDS, _POINT, _COUNTS = (
    f.TRACK_EVENT_TYPE[name] for name in ("TYPE_SLICE_BEGIN", "TYPE_SLICE_END", "TYPE_INSTANT", "TYPE_COUNTER")
)

#: Fewer events aren't worth a thread.
_FEW = 1 << 12

#: So many ends of slices are written at once, or as many as stand among the begins of a batch.
_MANY = 1 << 16


class Machine:
    """Writes the events of one machine.

    `output` is shared by all machines of a trace; `gpus` are those of this one; events name stacks in `stacks`.
    """

    def __init__(
        self, output: TraceOutput, gpus: Gpus, machine: int, counters: KernelCounters, stacks: Catalog
    ) -> None:
        self._output = output
        self._timeline, self._tracks, self._origin = output.timeline, output.tracks, output.origin
        self._host, self._gpu = host_and_gpu(machine)
        self._machine = machine
        self._gpus = gpus
        self._devices = DeviceProcesses(machine, gpus, output.tracks)
        self._stages = RenderStages(gpus)
        self._texts = ArgumentTexts()
        self._events = TrackEvents(stacks)
        self._source = np.array([track.source for track in output.timeline.tracks], np.object_)
        self._arrows = ArrowBook()
        self._counters = counters
        self._queues_defined = 0

    def start(self, clocks: list[bytes]) -> None:
        """Writes the packets that open the sequences; `clocks` are readings at the start of the trace."""
        self._write(self._host.first(TYPE_NAMES, clocks))
        self._write(self._gpu.first())
        self._write(packet(self._host.later(), track_descriptor=root()))

    def write(self, batch: TimelineBatch) -> tuple[int, int]:
        """Writes rows of this machine; returns the number of events kept, and of arrow ends that can't be drawn.

        A counter that isn't a number is left out, and the end of an arrow to a render stage that another call started.
        """
        if self._stages.is_full:
            self._write(self._gpu.first(self._stages.restart()))
        stage = batch.work
        metric = metrics_of(batch, stage)
        lost = _without_value(batch)
        host_arrows, waits, dropped_ends = self._arrows.split(batch, stage)
        rows = np.flatnonzero(stage)
        for number in np.unique(batch.track[rows]).tolist():
            stream = self._tracks.queue_track(number)
            if stream not in self._gpus.queues:
                self._gpus.queue(stream, *self._tracks.process(stream), self._tracks.queue(stream))
            if number not in self._gpus.queues:
                self._gpus.share(number, stream)
        encode = partial(self._encoded_stages, batch, rows, waits, metric)
        with meanwhile(encode, worthwhile=len(rows) >= _FEW) as stages:
            self._write_host(batch, np.flatnonzero(~(stage | metric.rows | lost)), host_arrows)
        packets = stages()
        self._write(self._gpu.interning(self._stages.fresh()))
        self._output.make(packets, worthwhile=len(rows) >= _FEW)
        self._add_counters(batch, np.flatnonzero(metric.rows & ~lost), metric.kernel)
        rows = rows[words_in(batch.column("kind"), ("kernel", "graph"))[rows]]
        if len(rows):
            ts = batch.column("ts").to_numpy()[rows]
            self._counters.ran(self._gpu_numbers(batch.track[rows]), ts, ts + batch.durations[rows])
        return len(batch) - int(np.count_nonzero(lost)), dropped_ends

    def close(self, busy: BusyPieces, pieces: Pieces, taken: TakenNames, steps: Sequence[RootTrack]) -> None:
        """Writes the counters of kernels, the GPUs, and what viewers show of them and of the steps at first sight."""
        entries, ts, fields = self._counters.finish()
        if len(ts):
            self._write(self._gpu.interning(entries))
            values = Events(fields, np.arange(len(ts)))
            self._output.make(self._gpu.packets("gpu_counter_event", [values], ts - self._origin))
            entries, ts, fields = self._counters.closing()
            opening, make = self._devices.counters(entries, ts - self._origin, fields)
            self._write(opening)
            self._output.make(make)
        self._report_dropped_counters()
        if info := self._gpus.info():
            self._write(packet(of_machine(self._machine), gpu_info=info))
        for streams, drawn in (
            self._devices.pieces(pieces, self._origin),
            self._devices.roots(busy, pieces, taken, steps, self._origin),
        ):
            self._write(streams)
            if drawn is not None:
                self._output.make(drawn)

    def _write_host(self, batch: TimelineBatch, rows: Int64, arrows: HostArrows) -> None:
        """Writes TrackEvents in the order of the edges."""
        edges = batch.edges
        is_row = edges.row >= 0
        on_machine = np.zeros(len(batch) + 1, np.bool_)  # the last one is for ends, whose row is -1
        on_machine[rows] = True
        on_machine[-1] = True
        every = np.flatnonzero(on_machine[edges.row])
        begins = np.flatnonzero(is_row[every])
        at = every[: max(int(begins[-1]) + 1 if len(begins) else 0, _MANY)]
        place = self._placed_edges(batch, at)
        position = np.empty(len(batch), np.int64)
        position[edges.row[at[begins]]] = begins
        placed = CodedField(place.table, place.codes[position[rows]])
        host = HostRows(_select(batch, rows), placed, arrows.at_rows(rows), self._source[batch.track[rows]])
        fields = self._events.fields(host)
        self._write_definitions()
        begin = Events(fields, position[rows], host.batch.column("id").to_numpy())
        ends = np.flatnonzero(~is_row[at])
        end = Events([CodedField(place.table, place.codes[ends])], ends)
        packets = self._host.packets("track_event", [begin, end], edges.ts[at] - self._origin)
        self._output.make(packets, worthwhile=len(at) >= _FEW)
        for start in range(len(at), len(every), _MANY):  # ends that no begin follows: very many slices overlap
            some = every[start : start + _MANY]
            end = Events([self._placed_edges(batch, some)], np.arange(len(some)))
            self._output.make(self._host.packets("track_event", [end], edges.ts[some] - self._origin))

    def _placed_edges(self, batch: TimelineBatch, at: Int64) -> CodedField:
        """Returns the fields of type and track of those edges."""
        edges = batch.edges
        row, track, lane = edges.row[at], edges.track[at].astype(np.int64), edges.lane[at].astype(np.int64)
        series, numbers = _counter_series(batch)
        kinds = np.where(slice_rows(batch), _BEGINS, _POINT)
        kinds[numbers >= 0] = _COUNTS
        kind = np.append(kinds, _ENDS)[row]
        number = np.append(numbers, -1)[row]
        which = np.where(kind == _COUNTS, number, lane)
        key = (which * len(self._timeline.tracks) + track) * 8 + kind
        coded = pa.array(key).dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        keys = [_split_key(value, len(self._timeline.tracks)) for value in distinct]
        self._tracks.expect_counters((t, *series[w]) for w, t, k in keys if k == _COUNTS)
        pieces = []
        for which_, track_, kind_ in keys:
            uuid = (
                self._tracks.counter(track_, *series[which_])
                if kind_ == _COUNTS
                else self._tracks.track(track_, which_)
            )
            pieces.append(_TYPE + varint(kind_) + _TRACK + varint(uuid))
        return CodedField(PieceTable(pieces), coded.indices.to_numpy())

    def _encoded_stages(
        self, batch: TimelineBatch, rows: Int64, waits: pa.LargeBinaryArray | None, metric: KernelMetrics
    ) -> Callable[[], memoryview]:
        """Returns what makes the packets of render stages, and keeps the estimates of their occupancy."""
        if not len(rows):
            return lambda: memoryview(b"")
        part = _select(batch, rows)
        ts = part.column("ts").to_numpy()
        dur = pc.coalesce(part.column("dur"), pc.subtract(self._timeline.end, part.column("ts"))).to_numpy()
        columns = argument_columns(part)
        for name in ("kind", *TRACK_COLUMNS):  # the stage has the kind, its queue the track
            columns.pop(name, None)
        if (on_lane := batch.track[rows] >= self._timeline.first_lane).any():
            columns |= {name: masked(part.column(name), on_lane) for name in OF_LANE if part.has(name)}
        if part.has("cat"):
            columns["cat"] = part.column("cat")
        columns |= source_columns(part, STAGE_RESERVED, self._texts)
        own_waits = waits.take(pa.array(rows)) if waits is not None else None
        measured = launch_arguments(batch, metric, rows)
        stages = StageRows(part.columns, columns, batch.track[rows], batch.serial[rows], ts, dur, own_waits, measured)
        events = Events(self._stages.fields(stages), np.arange(len(ts)), part.column("id").to_numpy())
        self._add_estimates(part, stages)
        return self._gpu.packets("gpu_render_stage_event", [events], ts - self._origin)

    def _add_estimates(self, part: Batch, stages: StageRows) -> None:
        if not part.has("occupancy") or part.column("occupancy").null_count == len(part):
            return
        has_occupancy = present(part.column("occupancy"))
        value = part.column("occupancy").to_numpy(zero_copy_only=False)[has_occupancy]
        self._counters.add(
            kernels=len(value),
            dur=stages.dur[has_occupancy],
            serial=stages.serial[has_occupancy],
            ts=stages.ts[has_occupancy],
            gpu=self._gpu_numbers(stages.track[has_occupancy]),
            name=self._counters.number(OCCUPANCY, "%", ESTIMATE),
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
        part = _select(batch, rows)
        series, numbers = _counter_series(part)
        derived = words_in(part.column("timing"), ("derived",))
        key = numbers * 2 + derived
        names = np.zeros(2 * len(series), np.int64)
        for one in np.unique(key).tolist():
            name, unit = series[one // 2]
            names[one] = self._counters.number(name, unit, DERIVED if one % 2 else "")
        estimated = present(batch.column("occupancy"))
        distinct = np.unique(of)
        self._counters.add(
            kernels=len(distinct) - int(np.count_nonzero(estimated[distinct])),
            dur=batch.durations[of],
            serial=batch.serial[of],
            ts=batch.column("ts").to_numpy()[of],
            gpu=self._gpu_numbers(batch.track[of]),
            name=names[key],
            value=part.column("value").to_numpy(zero_copy_only=False),
            estimate=False,
        )

    def _report_dropped_counters(self) -> None:
        counters = self._counters
        if not counters.dropped_kernels:
            return
        kept = counters.kernels - counters.dropped_kernels
        detail = f"the {kept:,} longest of {counters.kernels:,} kernels keep their counters"
        self._output.report.issue("counters-capped", "output", detail, counters.dropped_kernels)
        if counters.dropped_rows and self._output.report.stages:
            ledger = self._output.report.stages[-1]
            ledger.given -= counters.dropped_rows
            ledger.removed["counters-capped"] += counters.dropped_rows

    def _write_definitions(self) -> None:
        """Writes the descriptors and texts that the next events refer to, and the columns of new tracks."""
        new = list(islice(self._gpus.queues.items(), self._queues_defined, None))
        stages = {
            queue.iid: self._output.columns_of(number) | {"gpu": [self._machine, queue.gpu.number]}
            for number, queue in new
            if not queue.is_shared
        }
        self._queues_defined += len(new)
        self._output.write_places(stages)
        self._write(self._devices.fresh())
        for first in range(0, len(self._tracks.fresh), _MANY):
            some, later = self._tracks.fresh[first : first + _MANY], self._host.later()
            self._write(b"".join(packet(later, track_descriptor=descriptor) for descriptor in some))
        self._tracks.fresh.clear()
        self._write(self._host.interning(self._events.fresh()))

    def _write(self, data: bytes) -> None:
        self._output.write(data)


def _split_key(key: int, tracks: int) -> tuple[int, int, int]:
    """Returns lane or number of the counter, track, and type from a key of `_placed_edges`."""
    rest, kind = divmod(key, 8)
    which, track = divmod(rest, tracks)
    return which, track, kind


#: Columns that `TimelineBatch.track` replaces.
_WHERE = {*TRACK_COLUMNS, *INTERNAL} - set(PLAIN)


def _select(batch: TimelineBatch, rows: Int64) -> Batch:
    """Some rows of a batch, without track columns and empty columns."""
    columns = batch.taken(rows).columns
    names = [
        name
        for name, column in zip(columns.schema.names, columns.columns, strict=True)
        if name not in _WHERE and (column.null_count < len(column) or name == "id")
    ]
    return Batch("events", columns.select(names))


def _without_value(batch: EventRows) -> Bools:
    """Returns which rows are counters without a finite value."""
    counter = words_in(batch.column("kind"), ("counter",))
    if not counter.any():
        return np.zeros(len(batch), np.bool_)
    finite = pc.fill_null(pc.is_finite(batch.column("value")), False).to_numpy(zero_copy_only=False)
    result: Bools = counter & ~finite
    return result


def _counter_series(batch: EventRows) -> tuple[list[tuple[str, str | None]], Int64]:
    """Returns name and unit of the counters of a batch, and the number of each row's counter, else -1."""
    numbers = np.full(len(batch), -1, np.int64)
    rows = np.flatnonzero(words_in(batch.column("kind"), ("counter",)))
    if not len(rows):
        return [], numbers
    which = pa.array(rows)
    parts = [plain(batch, column).take(which).dictionary_encode() for column in ("name", "unit")]
    name, unit = (pc.fill_null(part.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64) for part in parts)
    key, number = np.unique((unit + 1) * len(parts[0].dictionary) + name, return_inverse=True)
    numbers[rows] = number
    names, units = parts[0].dictionary.to_pylist(), [None, *parts[1].dictionary.to_pylist()]
    return [(names[at % len(names)], units[at // len(names)]) for at in key.tolist()], numbers
