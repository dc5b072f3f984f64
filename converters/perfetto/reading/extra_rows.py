"""What events give besides their own rows: counters that they carry, metrics of kernels, the ends of arrows as links.

    track_event { SLICE_BEGIN .. extra_counter_track_uuids 9  extra_counter_values 42 }      a counter row on track 9
    gpu_counter_event { .. } at the start of a kernel, in a trace that ktrace wrote          a child of that kernel
    track_event { .. flow_ids 5 }   track_event { .. terminating_flow_ids 5 }                link "flow", key 5
    track_event { .. gpu_correlation { render_stage_submission_event_ids 17 } }              link "launch", key 17
    gpu_render_stage_event { event_id 18  event_wait_ids 17 }                                link "wait", key 17

A packet has only the GPU and the time of a metric, and comes after all kernels. So the kernels that begin at those
times are found in a second reading; a trace without such metrics is read once. Work on a GPU can be anywhere in the
file, so its links are made at the end of the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.dictionaries import constant
from ktrace.kit.columnar.protobuf import FIXED64, LENGTH, VARINT, Fields, signed
from ktrace.kit.trace_json.torch_categories import RECORDS
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import DEVICE_KINDS, TRACK_COLUMNS, Batch
from ktrace.model.json_text import decoded
from ktrace.model.masks import NameTest, words_in
from ktrace.report import Report
from ktrace.store.events import values
from ktrace.store.joins import positions

from .. import field_numbers as f
from ..sidecar import Sidecar
from .arguments import Chunk
from .context import Context, Events, Tracks, without_machine
from .event_fields import Parsed
from .messages import double, int64, repeated

_T = f.TRACK_EVENT

#: Counters that an event carries have ids from here on; other rows of its packet have lower ids.
_IDS = 1 << 59

#: The columns of a kernel that its metrics share.
_KERNEL_COLUMNS = (*TRACK_COLUMNS, "dur", "timing")

#: The rows of the trace, read with another context.
ReadAgain = Callable[[Context], Iterator[Batch]]


def extra_counters(context: Context, chunk: Chunk, events: Events, event_fields: Fields) -> Iterator[Batch]:
    """Yields the counters that events carry, on tracks that they or the defaults of their sequence name."""
    fields = ("extra_counter_values", "extra_double_counter_values")
    owners = [event_fields.get(_T[name], wire).owner for name in fields for wire in (VARINT, FIXED64, LENGTH)]
    if not any(map(len, owners)):
        return
    ids, stamps, places, values = [], [], [], []
    for row in np.setdiff1d(np.concatenate(owners), event_fields.bad).tolist():
        start = int(events.start[row])
        message = chunk.data[start : int(events.end[row])].tobytes()
        state = chunk.states[int(events.state[row])]
        kinds = (
            ("extra_counter_track_uuids", "extra_counter_values", state.counter_tracks[0], int64),
            ("extra_double_counter_track_uuids", "extra_double_counter_values", state.counter_tracks[1], double),
        )
        taken = 0
        for tracks, name, default, number in kinds:
            uuids = repeated(message, _T[tracks]) or default
            given = repeated(message, _T[name], fixed=number is double)
            for uuid, value in zip(uuids, given, strict=False):
                number_of_place = context.tracks.place_number(uuid, state.machine)
                track = context.tracks.places[number_of_place]
                figure = number(value) * track.scale
                if track.incremental:
                    track.total += figure
                    figure = track.total
                taken += 1  # a value takes a byte at least, so that ids of two events differ
                ids.append(_IDS + int(events.id[row]) + taken)
                stamps.append(int(events.ts[row]))
                places.append(number_of_place)
                values.append(float(figure))
    if not ids:
        return
    at = [context.tracks.places[place] for place in places]
    columns = context.tracks.columns(np.array(places))
    columns |= {
        "id": pa.array(ids),
        "ts": pa.array(stamps),
        "name": pa.array([place.counter or str(without_machine(place.uuid or 0)) for place in at]),
        "kind": constant("counter", len(ids)),
        "timing": constant("measured", len(ids)),
        "value": pa.array(values),
        "unit": pa.array([place.unit for place in at], pa.string()).dictionary_encode(),
    }
    yield Batch("events", pa.RecordBatch.from_pydict(columns))


def metrics_with_parents(context: Context, read_again: ReadAgain) -> Iterator[Batch]:
    """Yields the counters that were kept back, each with the kernel that begins at its time on its GPU as parent.

    If several kernels do, the parent is the one on a queue of that GPU; without a kernel the counter stays as it is.
    """
    if not context.kernel_metrics:
        return
    batches = [batch for batch, _ in context.kernel_metrics]
    held = pa.Table.from_batches([batch.columns for batch in batches], batches[0].columns.schema)
    kernels = _kernels(context, read_again, pc.unique(held["ts"]))
    if kernels is None:
        yield from batches
        return
    times, devices = (np.asarray(kernels[name].fill_null(-1)) for name in ("ts", "device"))
    order = np.lexsort((devices, times))
    times = times[order]
    gpus = _KernelGpus(context.sidecar, kernels, order)
    for batch, machine in context.kernel_metrics:
        ts, gpu = (np.asarray(batch.column(name)) for name in ("ts", "device"))
        first = np.searchsorted(times, ts)
        last = np.searchsorted(times, ts, "right")
        at = first.copy()
        for row in np.flatnonzero(last - first > 1).tolist():
            at[row] += gpus.first((int(machine[row]), int(gpu[row])), int(first[row]), int(last[row]))
        positions = pa.array(order[np.minimum(at, len(order) - 1)], mask=first == last)
        columns = dict(zip(batch.columns.schema.names, batch.columns.columns, strict=True))
        columns["parent"] = kernels["id"].take(positions).combine_chunks()
        for name in _KERNEL_COLUMNS:
            if name in kernels.schema.names:
                theirs = decoded(kernels[name].take(positions).combine_chunks())
                columns[name] = _merged_column(name, decoded(columns[name]), theirs) if name in columns else theirs
        yield Batch("events", pa.RecordBatch.from_pydict(columns))


def _merged_column(name: str, ours: pa.Array, theirs: pa.Array) -> pa.Array:
    """The column of the kernel, else that of the metric; the timing of a derived metric stays."""
    merged = pc.coalesce(theirs, ours)
    return pc.if_else(pc.equal(ours, "derived"), ours, merged) if name == "timing" else merged


class _KernelGpus:
    """The GPU of kernels, from the queues of the sidecar; an older trace has only numbers of devices."""

    def __init__(self, sidecar: Sidecar | None, kernels: pa.Table, order: Int64) -> None:
        self._queues: dict[tuple[int, int], set[tuple[Any, ...]]] = {}
        for place in sidecar.queues.values() if sidecar else ():
            if isinstance(gpu := place.get("gpu"), list) and len(gpu) == 2:
                self._queues.setdefault((gpu[0], gpu[1]), set()).add(tuple(place.get(name) for name in TRACK_COLUMNS))
        self._kernels = kernels
        self._order = order

    def first(self, gpu: tuple[int, int], begin: int, end: int) -> int:
        """Returns the first of the ordered kernels `begin` to `end` on the GPU, counted from `begin`; else 0."""
        rows = self._kernels.take(pa.array(self._order[begin:end])).to_pylist()
        queues = self._queues.get(gpu)
        for number, row in enumerate(rows):
            if row["device"] == gpu[1] if queues is None else tuple(row.get(name) for name in TRACK_COLUMNS) in queues:
                return number
        return 0


def _kernels(context: Context, read_again: ReadAgain, times: pa.Array) -> pa.Table | None:
    """Returns the device work that begins at those times; None if there is none."""
    conversion = Conversion(Report(), context.conversion.label)
    sidecar = context.sidecar and Sidecar(context.sidecar.version, context.sidecar.origin_ns)
    again = Context(conversion, sidecar, Tracks(conversion.label, sidecar))
    parts = []
    for batch in read_again(again):
        if batch.record != "events":
            continue
        kind = pc.is_in(decoded(batch.column("kind")), pa.array(DEVICE_KINDS))
        selected = pc.and_(kind, pc.is_in(batch.column("ts"), times))
        if pc.any(selected).as_py():
            names = ("id", "ts", *_KERNEL_COLUMNS)
            parts.append(
                pa.RecordBatch.from_pydict({name: decoded(batch.column(name)).filter(selected) for name in names})
            )
    return pa.Table.from_batches(parts) if parts else None


_G = f.GPU_RENDER_STAGE_EVENT

#: Role of a host slice towards work on a GPU, and the field of GpuCorrelation.
_ROLES = (
    ("out", f.GPU_CORRELATION["render_stage_submission_event_ids"]),
    ("in", f.GPU_CORRELATION["render_stage_wait_event_ids"]),
)

#: Links that are made at the end of a trace have ids from here on; the id of others is the place of a byte.
_LATE_LINKS = 1 << 60


def flow_links(context: Context, parsed: Parsed, ids: Int64, index: Int64) -> Iterator[Batch]:
    """Yields the ends of arrows: a flow leaves where it occurs first, and arrives where it terminates."""
    fields = parsed.fields
    parts = [
        (column, ends)
        for name, wire, ends in (
            ("flow_ids", FIXED64, False),
            ("terminating_flow_ids", FIXED64, True),
            ("flow_ids_old", VARINT, False),
            ("terminating_flow_ids_old", VARINT, True),
        )
        if len((column := fields.get(_T[name], wire)).owner)
    ]
    if not parts:
        return
    owner = np.concatenate([column.owner for column, _ in parts])
    flow = np.concatenate([column.value for column, _ in parts])
    start = np.concatenate([column.start for column, _ in parts])
    ends = np.concatenate([np.full(len(column.owner), ends) for column, ends in parts])
    selected = index[owner] >= 0
    owner, flow, start, ends = owner[selected], flow[selected], start[selected], ends[selected]
    order = np.lexsort((start, ends, parsed.events.ts[owner]))
    owner, flow, start, ends = owner[order], flow[order], start[order], ends[order]
    role = np.where(ends, 2, 1)
    distinct, first = np.unique(flow, return_index=True)
    for number, place in zip(distinct.tolist(), first.tolist(), strict=True):
        if number not in context.known_flows:
            context.known_flows.add(number)
            role[place] = 0 if not ends[place] else 2
    row = index[owner]
    # The place of the field is unique and the same in every reading.
    at = start - parsed.events.start[owner] + parsed.events.id[owner]
    yield from context.links("flow", at, signed(flow), role, ids[row])


def submissions(context: Context, chunk: Chunk, fields: Fields, ids: Int64, index: Int64) -> None:
    """Remembers which rows start or await which work on a GPU."""
    column = fields.get(_T["gpu_correlation"], LENGTH)
    selected = index[column.owner] >= 0
    if not selected.any():
        return
    gathered: dict[str, tuple[list[int], list[int]]] = {"out": ([], []), "in": ([], [])}
    owners, starts, sizes = (array[selected].tolist() for array in (column.owner, column.start, signed(column.value)))
    for owner, start, size in zip(owners, starts, sizes, strict=True):
        data = chunk.data[start : start + size].tobytes()
        for role, number in _ROLES:
            for event in repeated(data, number):
                gathered[role][0].append(event)
                gathered[role][1].append(int(ids[index[owner]]))
    for role, (work, rows) in gathered.items():
        if work:
            context.stage_ends.append((np.array(work, np.uint64).view(np.int64), np.array(rows, np.int64), role))


#: The argument of a wait with the correlation of the call that records its event (PyTorch, monitor_trace.py).
_RECORD = "args.wait_on_cuda_event_record_corr_id"
_records = NameTest(lambda name: name in RECORDS)


def event_waits(context: Context, batch: Batch) -> Iterator[Batch]:
    """Yields arrows from calls that record an event to what waits for it."""
    ids = batch.column("id").to_numpy()
    if batch.has(_RECORD) and pa.types.is_integer(batch.column(_RECORD).type):
        record, stated = values(batch.columns, _RECORD)
        waits = np.flatnonzero(stated & (record > 0))
        yield from context.links("wait", ids[waits] + 1, record[waits], np.full(len(waits), 2), ids[waits])
    if batch.has("correlation"):
        correlation, has_correlation = values(batch.columns, "correlation")
        calls = np.flatnonzero(
            has_correlation & words_in(batch.column("kind"), ("api",)) & _records(batch.column("name"))
        )
        yield from context.links("wait", ids[calls] + 1, correlation[calls], np.full(len(calls), 0), ids[calls])


def remember_stages(context: Context, chunk: Chunk, events: Events, fields: Fields, index: Int64, rows: Int64) -> None:
    """Remembers the event id of each stage and the ids that it awaits, for links at the end of the trace."""
    ids = events.id[rows]
    event = fields.get(_G["event_id"], VARINT)
    selected = index[event.owner] >= 0
    if selected.any():
        context.stage_rows.append((signed(event.value)[selected], ids[index[event.owner[selected]]]))
    waits = fields.get(_G["event_wait_ids"], VARINT)
    if len(waits.owner):
        context.stage_ends.append((signed(waits.value), ids[index[waits.owner]], "in"))
    packed = fields.get(_G["event_wait_ids"], LENGTH)
    for row in np.unique(packed.owner).tolist():
        message = chunk.data[int(events.start[row]) : int(events.end[row])].tobytes()
        awaited = np.array(repeated(message, _G["event_wait_ids"]), np.uint64).view(np.int64)
        context.stage_ends.append((awaited, np.full(len(awaited), ids[index[row]]), "in"))


def late_links(context: Context) -> Iterator[Batch]:
    """Yields arrows between a host slice or work on a GPU and the work that it starts or awaits."""
    if not context.stage_ends:
        return
    empty = np.empty(0, np.int64)
    events = np.concatenate([event for event, _ in context.stage_rows] or [empty])
    rows = np.concatenate([row for _, row in context.stage_rows] or [empty])
    order = np.argsort(events, kind="stable")
    events, rows = events[order], rows[order]
    first = _LATE_LINKS
    for link, role_of_link, other in (("launch", "out", 2), ("wait", "in", 0)):
        keys = np.concatenate([key for key, _, role in context.stage_ends if role == role_of_link] or [empty])
        ends = np.concatenate([row for _, row, role in context.stage_ends if role == role_of_link] or [empty])
        role = np.full(len(keys), 0 if role_of_link == "out" else 2)
        work = np.unique(keys)
        at = np.minimum(np.searchsorted(events, work), max(len(events) - 1, 0))
        is_event = events[at] == work if len(events) else np.zeros(len(work), np.bool_)
        if link == "launch":
            started = rows[at[np.searchsorted(work, keys)]] if len(events) else np.full(len(keys), -1)
            new = ~_repeats_correlation(context, ends, started)
            keys, ends, role = keys[new], ends[new], role[new]
            is_event &= np.isin(work, keys)
        keys, ends = np.concatenate([keys, work[is_event]]), np.concatenate([ends, rows[at[is_event]]])
        role = np.concatenate([role, np.full(int(is_event.sum()), other)])
        yield from context.links(link, first + np.arange(len(keys)), keys, role, ends)
        first += len(keys)


def _repeats_correlation(context: Context, calls: Int64, started: Int64) -> Bools:
    """Which pairs of a call and the work that it started have one correlation, so that they need no arrow.

    Work may name another process than its call: PyTorch writes the first process of the trace for all of it.
    """
    if not context.correlated or not len(calls):
        return np.zeros(len(calls), np.bool_)
    ids, values, pids = (np.concatenate(parts) for parts in zip(*context.correlated, strict=True))
    order = np.argsort(ids, kind="stable")
    ids, values, pids = ids[order], values[order], pids[order]
    of_call, of_work = positions(calls, ids), positions(started, ids)
    same_process = (pids[of_call] == pids[of_work]) | (pids[of_work] < 0)
    result: Bools = (of_call >= 0) & (of_work >= 0) & (values[of_call] == values[of_work]) & same_process
    return result
