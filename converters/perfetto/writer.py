"""Writes a timeline as a Perfetto trace: one machine per host that the timeline names.

`Machine` writes the events; this module writes the start and the end, and gives each track its machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from ktrace.conversion import Conversion
from ktrace.model.arrays import Bools, Int64
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import load_json
from ktrace.model.masks import slice_rows
from ktrace.model.row_builder import to_rows
from ktrace.model.tracks import Track, host_of
from ktrace.native import compiled
from ktrace.output import Sink
from ktrace.parallel.threads import InOrder
from ktrace.stages.order import Arrows, Edges, Timeline, TimelineBatch

from . import field_numbers as f
from .sidecar import DERIVED_SEQUENCES, begin_text, catalog_texts, end_text, link_texts
from .wire import message
from .writing.busy_pieces import MOST as MOST_PIECES
from .writing.busy_pieces import BusyPieces
from .writing.derived_tracks import RootTrack, Steps, TakenNames, steps_track
from .writing.descriptors import Descriptors
from .writing.kernel_counters import MOST, KernelCounters
from .writing.machine import Machine
from .writing.render_stages import Gpus, IdCounters, label_gpus, with_processes
from .writing.sequences import Sequence as PacketSequence
from .writing.sequences import TraceOutput, clock, packet

#: A viewer shows the whole trace at first if slices of threads and devices take this share of its time.
_NEARLY_ALL = 0.98

#: Rows that take a second where nothing is compiled: then it is said how to get what makes packets fast.
SLOW = 50_000

#: How to get it.
_GET_COMPILED = "install a wheel, or install from source with a C compiler and without KTRACE_NATIVE=0"

#: The most busy pieces of a trace that is one of several.
MOST_IN_AN_ARCHIVE = 1000


class Writer:
    """A TimelineWriter of TrackEvents, GpuRenderStageEvents and GpuCounterEvents.

    Options of the conversion: `gpu` is the form of device work ("slices...": TrackEvents, else render stages). A trace
    that is one of several in an archive also has `machine`, the number of its first machine; `origin`, the earliest
    time in ns of all of them; and `unix`, which is "none" if they disagree on the time of day.
    """

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._stream = InOrder(sink.open())
        self._report = conversion.report
        self._first = int(conversion.options.get("machine", 0))
        self._least = int(conversion.options.get("origin", 0))
        self._knows_time_of_day = conversion.options.get("unix") != "none"
        self._busy = BusyPieces(MOST_IN_AN_ARCHIVE if self._first else MOST_PIECES)
        self._steps, self._taken = Steps(), TakenNames()
        self._work: tuple[int, int] | None = None  # from the first to the last time of slices of threads and devices
        form = conversion.options.get("gpu", "auto")
        self._form, self._gpu = "stages" if form == "auto" else form, form.split("-")[0]
        self._rows = 0

    def start(self, timeline: Timeline) -> None:
        """Writes the packets that open the sequences, and a clock snapshot if the time of day is known."""
        origin = min(timeline.start, self._least, 0)
        note = ""
        if origin:
            note = f"The times shown are {-origin} ns later than those of the source, which begin below 0."
            self._report.issue("origin", "output", f"{-origin} ns were added", 0)
        catalog, tracks = timeline.catalog, timeline.tracks
        self._is_host = [track.tid is not None and not track.is_on_device for track in tracks]
        self._is_work = np.array([track.tid is not None or track.is_on_device for track in tracks], np.bool_)
        self._machine_of = _machines(tracks, catalog, self._first)
        machines = np.unique(self._machine_of).tolist() or [self._first]
        descriptors = Descriptors(
            with_processes(tracks), catalog, note, self._machine_of.tolist(), alone=not self._first
        )
        numbers = IdCounters()
        gpus = [Gpus(tracks, catalog, (self._machine_of == one).tolist(), numbers) for one in machines]
        label_gpus([gpu for machine_gpus in gpus for gpu in machine_gpus.gpus], catalog)
        for one, machine_gpus in zip(machines, gpus, strict=True):
            descriptors.add_devices(machine_gpus, one)
        self._output = TraceOutput(self._stream, self._report, timeline, origin, descriptors, machines[0])
        self._machines = {}
        stacks = Catalog() if self._gpu == "slices" else catalog  # viewers before v53 count callstacks as errors
        for one, machine_gpus in zip(machines, gpus, strict=True):
            counters = KernelCounters() if len(machines) == 1 else KernelCounters(max(MOST // len(machines), 1))
            self._machines[one] = Machine(self._output, machine_gpus, one, counters, stacks)
        self._output.write_sidecar([begin_text(origin, self._form)])
        rows: Iterable[dict[str, Any]] = to_rows(catalog.to_batch())
        self._output.write_sidecar(catalog_texts(map(_fact, rows)))
        self._output.write_sidecar(link_texts(timeline.links()))
        clocks = _clocks(timeline, origin) if self._knows_time_of_day else []
        for machine in self._machines.values():
            machine.start(clocks)
            clocks = []  # a viewer joins two machines that know the time of day in 1970, at a negative time

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows and returns the number of events and arrow ends that it kept."""
        self._rows += len(batch)
        self._work = _extended(self._work, batch, self._is_work)
        if self._gpu == "slices":
            arrows = replace(batch.arrows, work=np.zeros_like(batch.arrows.work))
            batch = replace(batch, work=np.zeros_like(batch.work), arrows=arrows)
        else:
            self._busy.add(batch, self._output.tracks.queue_track)
            self._steps.add(batch, self._is_host)
            self._taken.add(batch)
        if len(self._machines) == 1:
            (machine,) = self._machines.values()
            kept, dropped_ends = machine.write(batch)
        else:
            kept = dropped_ends = 0
            for number, machine in self._machines.items():
                part = _part(batch, self._machine_of == number)
                if len(part) or len(part.edges.ts):
                    written, lost = machine.write(part)
                    kept, dropped_ends = kept + written, dropped_ends + lost
        return kept + max(batch.link_ends - dropped_ends, 0)

    def close(self) -> None:
        """Writes the counters of kernels, the GPUs, when they are busy, and the mark of a complete trace."""
        if compiled is None and self._rows >= SLOW:
            self._report.issue("uncompiled", "output", _GET_COMPILED)
        pieces = self._busy.finish()
        for number, machine in self._machines.items():
            machine.close(self._busy, pieces, self._taken, self._steps_of(number) if len(pieces) else [])
        if self._work and not self._first:
            self._output.write(_shown_at_first(self._output, *self._work))
        self._output.write_sidecar([end_text()])
        self._stream.close()

    def _steps_of(self, machine: int) -> list[RootTrack]:
        """The tracks of the steps of the processes of a machine."""
        every = self._steps.of_processes(self._output.tracks.process, lambda track: self._machine_of[track] == machine)
        several = len(every) > 1 or len(self._machines) > 1
        names = [f"steps of {self._output.tracks.owner(track)}" if several else "steps" for track, _ in every]
        return [steps_track(name, steps) for name, (_, steps) in zip(names, every, strict=True)]


def _machines(tracks: Sequence[Track], catalog: Catalog, first: int) -> Int64:
    """Returns the machine of each track: 0 for all if fewer than two hosts are named, else one number per host.

    Numbers rise from `first`, or from 1. Tracks without a host share a machine of their own.
    """
    hosts = [host_of(track.process, catalog) for track in tracks]
    names = {host for host in hosts if host is not None}
    if len(names) < 2:
        return np.full(len(tracks), first, np.int64)
    numbers = {host: number for number, host in enumerate(dict.fromkeys(hosts), first or 1)}
    return np.array([numbers[host] for host in hosts], np.int64)


def _extended(span: tuple[int, int] | None, batch: TimelineBatch, is_work: Bools) -> tuple[int, int] | None:
    """The range of time from the first to the last of these slices, with that of slices on such tracks in the batch."""
    rows = np.flatnonzero(slice_rows(batch) & is_work[batch.track])
    if not len(rows):
        return span
    ts = batch.column("ts").to_numpy()[rows]
    end = ts + batch.durations[rows]
    first, last = int(ts.min()), int(end.max())
    return (min(span[0], first), max(span[1], last)) if span else (first, last)


def _shown_at_first(output: TraceOutput, first: int, last: int) -> bytes:
    """Packets that have a viewer show that range of time at first; empty if it is nearly all of the trace.

    It shows when tracing was on (`getTracingMetadataTimeBounds` in the UI's load_trace.ts, v52 to v58).
    """
    if last - first > _NEARLY_ALL * (output.timeline.end - output.timeline.start):
        return b""
    sequence = PacketSequence(DERIVED_SEQUENCES + output.machine, output.machine)
    return b"".join(
        packet(
            message(f.TRACE_PACKET, timestamp=ts - output.origin) + sequence.fields,
            service_event=message(f.TRACING_SERVICE_EVENT, **{event: 1}),
        )
        for event, ts in (("tracing_started", first), ("tracing_disabled", last))
    )


def _part(batch: TimelineBatch, selected: Bools) -> TimelineBatch:
    """The rows of a batch on some tracks, with their edges and arrows."""
    rows = np.flatnonzero(selected[batch.track])
    new = np.full(len(batch) + 1, -1, np.int32)
    new[rows] = np.arange(len(rows))
    edges = batch.edges
    on, at = selected[edges.track], new[batch.arrows.row] >= 0
    arrows = {name: column[at] for name, column in asdict(batch.arrows).items()}
    return TimelineBatch(
        batch.rows.some(rows),
        batch.lane[rows],
        batch.track[rows],
        batch.serial[rows],
        batch.work[rows],
        Edges(edges.ts[on], new[edges.row[on]], edges.track[on], edges.lane[on]),
        Arrows(**arrows | {"row": new[arrows["row"]]}),
        0,
    )


def _fact(row: dict[str, Any]) -> dict[str, Any]:
    facts = {name: value for name, value in row.items() if value is not None}
    if isinstance(facts.get("facts"), str):
        facts["facts"] = load_json(facts["facts"])
    return facts


def _clocks(timeline: Timeline, origin: int) -> list[bytes]:
    """Returns the clock readings at the start of the trace; none if the time of day is unknown.

    A viewer shows an extra track for any such reading.
    """
    unix = _unix_ns(timeline.catalog, timeline.start)
    if unix is None:
        return []
    return [
        clock(f.BUILTIN_CLOCK["BUILTIN_CLOCK_BOOTTIME"], timeline.start - origin),
        clock(f.BUILTIN_CLOCK["BUILTIN_CLOCK_REALTIME"], unix),
    ]


def _unix_ns(catalog: Catalog, start: int) -> int | None:
    """Unix time in ns at the start of the trace; None if no source knows it or two disagree."""
    offsets = catalog.unix_offsets()
    if len(offsets) != 1:
        return None
    (offset,) = offsets
    return start + offset if start + offset > 0 else None
