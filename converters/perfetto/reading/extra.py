"""What TrackEvents say beside themselves: values of further counters, and the work on a GPU that they start or await.

track_event { SLICE_BEGIN .. extra_counter_track_uuids 9  extra_counter_values 42 }     a counter row on track 9
track_event { SLICE_BEGIN .. gpu_correlation { submission 17 } }                        a launch of render stage 17
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ktrace.converters._shared.columnar.dictionaries import constant
from ktrace.converters._shared.columnar.protobuf import FIXED64, LENGTH, VARINT, Fields, fields_of, signed
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch

from ..proto import field_numbers as f
from .args import Chunk, double, int64
from .context import Context, Events
from .state import repeated
from .tracks import bare

_T = f.TRACK_EVENT

#: Role of a host slice towards work on a GPU -> the field of GpuCorrelation.
_ROLES = (("out", f.GPU_CORRELATION["submission_event_ids"]), ("in", f.GPU_CORRELATION["wait_event_ids"]))

#: Counters that an event carries have ids from here on: further rows of its packet have those below.
_IDS = 1 << 59


def extra_counters(context: Context, chunk: Chunk, events: Events, found: Fields) -> Iterator[Batch]:
    """The counters that events carry for tracks of their own or of their sequence's defaults."""
    fields = ("extra_counter_values", "extra_double_counter_values")
    owners = [found.get(_T[name], wire).owner for name in fields for wire in (VARINT, FIXED64, LENGTH)]
    if not any(map(len, owners)):
        return
    ids, stamps, places, values = [], [], [], []
    for row in np.setdiff1d(np.concatenate(owners), found.bad).tolist():
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
            given = _doubles(message, _T[name]) if number is double else repeated(message, _T[name])
            for uuid, value in zip(uuids, given, strict=False):
                number_of_place = context.tracks.of(uuid, state.machine)
                track = context.tracks.places[number_of_place]
                figure = number(value) * track.scale
                if track.incremental:
                    track.total += figure
                    figure = track.total
                taken += 1  # each has bytes of its own, so that no other event's are numbered so
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
        "name": pa.array([place.counter or str(bare(place.uuid or 0)) for place in at]),
        "kind": constant("counter", len(ids)),
        "timing": constant("measured", len(ids)),
        "value": pa.array(values),
        "unit": pa.array([place.unit for place in at], pa.string()).dictionary_encode(),
    }
    yield Batch("events", pa.RecordBatch.from_pydict(columns))


def _doubles(message: bytes, number: int) -> list[int]:
    """The bits of a repeated double field, packed or not."""
    found: list[int] = []
    for field_number, _, value in fields_of(message):
        if field_number == number:
            found += (
                [int.from_bytes(value[at : at + 8], "little") for at in range(0, len(value) - 7, 8)]
                if isinstance(value, bytes)
                else [value]
            )
    return found


def submissions(context: Context, chunk: Chunk, found: Fields, ids: Int64, index: Int64) -> None:
    """Remembers which rows start or await which work on a GPU."""
    column = found.get(_T["gpu_correlation"], LENGTH)
    mine = index[column.owner] >= 0
    if not mine.any():
        return
    gathered: dict[str, tuple[list[int], list[int]]] = {"out": ([], []), "in": ([], [])}
    owners, starts, sizes = (array[mine].tolist() for array in (column.owner, column.start, signed(column.value)))
    for owner, start, size in zip(owners, starts, sizes, strict=True):
        data = chunk.data[start : start + size].tobytes()
        for role, number in _ROLES:
            for event in repeated(data, number):
                gathered[role][0].append(event)
                gathered[role][1].append(int(ids[index[owner]]))
    for role, (work, rows) in gathered.items():
        if work:
            context.submitted.append((np.array(work, np.uint64).view(np.int64), np.array(rows, np.int64), role))
