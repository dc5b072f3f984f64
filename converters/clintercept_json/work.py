"""Moves device work from its tracks to devices and queues, with its name in parts."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.converters._shared.intel_names import Work, intercepted
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.json_text import dump_json

from .queues import Queues

_STAGE = re.compile(r" \((Queued|Submitted|Execution)\)$")
_DOT = re.compile(r"(\d{1,9})\.(\d{1,9})")


class _Place(NamedTuple):
    """Where a row of a device belongs, and its name in parts."""

    parts: Work
    stream: int | None
    waits: bool


def device_work(batch: Batch, queues: Queues) -> Batch:
    """Returns a batch of events in which the rows of queues are device work, and the stages before it are ranges."""
    rows = len(batch)
    tids = batch.column("tid").to_pylist() if batch.has("tid") else [None] * rows
    tracks = batch.column("track").cast(pa.string()).to_pylist() if batch.has("track") else [None] * rows
    mine = np.array([track is not None or (tid or 0) < 0 for tid, track in zip(tids, tracks, strict=True)], np.bool_)
    if not mine.any():
        return batch
    names = batch.column("name").cast(pa.string()).to_pylist()
    places = [_place(names[row], tids[row], tracks[row]) if mine[row] else None for row in range(rows)]
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    mask = pa.array(mine)
    columns["name"] = _text([place.parts.name if place else names[row] for row, place in enumerate(places)])
    kinds = columns["kind"].cast(pa.string()).to_pylist()
    columns["kind"] = _text([_kind(place) if place else kinds[row] for row, place in enumerate(places)])
    waits = pa.array([place is not None and place.waits for place in places])
    streams = [place.stream if place else None for place in places]
    columns["stream"] = pa.array(streams, pa.int64())
    devices = [queues.device_of.get(stream or 0, 0) if mine[row] else None for row, stream in enumerate(streams)]
    columns["device"] = pa.array(devices, pa.int64())
    columns["tid"] = pa.array([None if mine[row] else tids[row] for row in range(rows)], pa.int64())
    columns["track"] = _text([tracks[row] if place and place.waits else None for row, place in enumerate(places)])
    if "correlation" in columns:
        columns["correlation"] = pc.if_else(waits, None, columns["correlation"])
    _figures(columns, places, mask)
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))


def _place(name: str, tid: int | None, track: str | None) -> _Place:
    stage = _STAGE.search(name)
    dot = _DOT.fullmatch(track or "")
    stream = -tid if tid is not None and tid < 0 else int(dot[2 if stage else 1]) if dot else None
    if stage and stage[1] != "Execution":
        return _Place(Work("range", name), stream, waits=True)
    return _Place(intercepted(name[: stage.start()] if stage else name), stream, waits=False)


def _kind(place: _Place) -> str:
    return place.parts.kind


def _text(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode()


def _figures(columns: dict[str, pa.Array], places: list[_Place | None], mine: pa.Array) -> None:
    """Adds the columns and the arguments of the names."""
    keys = dict.fromkeys(key for place in places if place for key in place.parts.columns)
    for key in keys:
        kind = arrow_schema("events").field(key).type
        values: list[Any] = [place.parts.columns.get(key) if place else None for place in places]
        columns[key] = pa.array(values).cast(kind)
    for key in dict.fromkeys(key for place in places if place for key in place.parts.args):
        cells = [place.parts.args.get(key) if place else None for place in places]
        texts = [None if cell is None else dump_json(cell).encode() for cell in cells]
        columns[f"args.{key}"] = pc.if_else(mine, pa.array(texts, pa.binary()), pa.scalar(None, pa.binary()))


def without_tracks(batch: Batch) -> Batch:
    """Returns a catalog without the tracks of queues, which the reader adds as streams."""
    names = batch.column("track").cast(pa.string())
    queue = pc.fill_null(pc.match_substring_regex(names, r"^\d+\.1$"), False)
    old = pc.fill_null(pc.less(batch.column("tid"), 0), False)
    return Batch(batch.record, batch.columns.filter(pc.invert(pc.or_(queue, old))))
