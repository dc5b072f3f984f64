"""The gaps of devices as slices of a timeline, named by their causes.

GPU 0
  stream 7   [ gemm ]            [ norm ]     [ gemm ]
  idle                [host late]        [....]           the host's span, the launching call, the work around it
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.analysis.work.events import Events, Work
from ktrace.analysis.work.gaps import CAUSES, causes_of, gaps_of, names_of_calls
from ktrace.analysis.work.launching import launching_of
from ktrace.analysis.work.meanwhile import Meanwhile
from ktrace.model.arrays import Int64
from ktrace.model.batch import TRACK_COLUMNS, arrow_schema

#: The text key of the track, which a viewer shows below the device.
TRACK = "idle"

_ROWS = 65_536
_TEXT = pa.dictionary(pa.int32(), pa.string())


def slices(work: Work) -> Iterator[pa.RecordBatch]:
    """Yields the gaps of the devices of each source, in the order of their times."""
    if work.rows is not work.gathered.work:
        return
    for events in work.each():
        if len(events):
            yield from _of_source(work, events)


def _of_source(work: Work, events: Events) -> Iterator[pa.RecordBatch]:
    which, places = events.places
    gaps = gaps_of(events, which, len(places))
    cause, meanwhile = causes_of(gaps, work, events, launching_of(work, events))
    names, labels = [shape.get("short_name") or shape["name"] for shape in work.shapes], meanwhile.labels
    host, call = _mostly(meanwhile), names_of_calls(gaps.call, events, work.gathered)
    tracks = [_place(work, events.source, place) for place in places.tolist()]
    schema = arrow_schema("events")
    for first in range(0, len(cause), _ROWS):
        rows = slice(first, first + _ROWS)
        place = gaps.place[rows]
        columns: dict[str, Any] = {
            name: pa.array([track[name] for track in tracks], schema.field(name).type.value_type)
            if pa.types.is_dictionary(schema.field(name).type)
            else pa.array([track[name] for track in tracks], schema.field(name).type)
            for name in TRACK_COLUMNS
        }
        columns = {name: _taken(values, place) for name, values in columns.items() if values.null_count < len(values)}
        queued = pa.array((gaps.end - gaps.launched)[rows], mask=gaps.call[rows] < 0)
        columns |= {"ts": pa.array(gaps.begin[rows]), "dur": pa.array(gaps.length[rows])}
        columns |= {"kind": _taken(pa.array(["range"]), 0 * place), "name": _taken(pa.array(list(CAUSES)), cause[rows])}
        columns |= {"timing": _taken(pa.array(["derived"]), 0 * place)}
        columns |= {"args.host_was_in": _words(labels, host[rows])}
        columns |= {"args.launched_by": _words(meanwhile.names, call[rows]), "args.queued_ns": queued}
        columns |= {"args.work_before": _words(names, events.shape[gaps.before[rows]])}
        columns |= {"args.work_after": _words(names, events.shape[gaps.after[rows]])}
        columns |= {"args.derived_by": _taken(pa.array(["ktrace"]), 0 * place)}
        yield pa.RecordBatch.from_pydict(
            {name: column for name, column in columns.items() if column.null_count < len(column)}
        )


def _place(work: Work, source: str, place: int) -> dict[str, Any]:
    """The columns of the track of a device: those of its work, without a process if several use it."""
    shapes = [shape for shape, mine in zip(work.shapes, work.device.tolist(), strict=True) if mine == place]
    processes = {shape["pid"] for shape in shapes}
    _, host, device = work.devices[place]
    known = {"source": source, "host": host, "device": device, "track": TRACK}
    return dict.fromkeys(TRACK_COLUMNS) | known | {"pid": processes.pop() if len(processes) == 1 else None}


def _mostly(meanwhile: Meanwhile) -> Int64:
    """The label in which the host spent the most time of each gap, -1 where it isn't known."""
    found = np.full(len(meanwhile.first), -1, np.int64)
    gap, label, time = meanwhile.times(np.unique(meanwhile.gap))
    order = np.lexsort((time, gap))
    found[gap[order]] = label[order]  # the last one, the longest, remains
    return found


def _words(words: list[str], numbers: Any) -> pa.Array:
    """A column of words by their numbers, null for -1; its dictionary has only those that occur."""
    used, codes = np.unique(numbers, return_inverse=True)
    texts = pa.array([words[number] if number >= 0 else None for number in used.tolist()], pa.string())
    return texts.take(pa.array(codes)).dictionary_encode().cast(_TEXT)


def _taken(values: pa.Array, rows: Any) -> pa.Array:
    """The values of these rows; texts as a dictionary without repetitions."""
    found = values.take(pa.array(rows))
    return found.dictionary_encode().cast(_TEXT) if pa.types.is_string(values.type) else found
