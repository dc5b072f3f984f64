"""Rows that tracers of OpenCL and Level Zero write on tracks of their own, such as queues, as device work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.json_text import dump_json

from .names import Work


class Place(NamedTuple):
    """Where a row of a device belongs, its name in parts, and whether it only waits for its execution."""

    parts: Work
    stream: int | None
    waits: bool


def device_work(
    batch: Batch, place: Callable[[str, int | None, str | None], Place], device_of: Mapping[int, int]
) -> Batch:
    """Returns a batch of events in which rows on tracks and on tids below 0 are device work, as `place` says.

    `place` gets the name, the tid and the track of a row; `device_of` has the devices of streams, 0 for others.
    """
    rows = len(batch)
    tids = batch.column("tid").to_pylist() if batch.has("tid") else [None] * rows
    tracks = batch.column("track").cast(pa.string()).to_pylist() if batch.has("track") else [None] * rows
    mine = np.array([track is not None or (tid or 0) < 0 for tid, track in zip(tids, tracks, strict=True)], np.bool_)
    if not mine.any():
        return batch
    names = batch.column("name").cast(pa.string()).to_pylist()
    places = [place(names[row], tids[row], tracks[row]) if mine[row] else None for row in range(rows)]
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    mask = pa.array(mine)
    columns["name"] = _text([one.parts.name if one else names[row] for row, one in enumerate(places)])
    kinds = columns["kind"].cast(pa.string()).to_pylist()
    columns["kind"] = _text([one.parts.kind if one else kinds[row] for row, one in enumerate(places)])
    waits = pa.array([one is not None and one.waits for one in places])
    streams = [one.stream if one and (one.stream or 0) < 1 << 63 else None for one in places]
    columns["stream"] = pa.array(streams, pa.int64())
    devices = [device_of.get(stream or 0, 0) if mine[row] else None for row, stream in enumerate(streams)]
    columns["device"] = pa.array(devices, pa.int64())
    columns["tid"] = pa.array([None if mine[row] else tids[row] for row in range(rows)], pa.int64())
    columns["track"] = _text([tracks[row] if one and one.waits else None for row, one in enumerate(places)])
    if "correlation" in columns:
        columns["correlation"] = pc.if_else(waits, None, columns["correlation"])
    _figures(columns, places, mask)
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))


def _text(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode()


def _figures(columns: dict[str, pa.Array], places: list[Place | None], mine: pa.Array) -> None:
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
