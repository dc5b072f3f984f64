"""Takes the names of device work apart: kind, grid, block, bytes; and the flows of a launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.intel.names import Work, work
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.json_text import dump_json, encoded

_LAUNCH = r"^(?:CL_)?Flow_H2D_"


def in_parts(batch: Batch, opencl: frozenset[tuple[int, int]]) -> Batch:
    """Returns a batch of events whose device work has its parts as columns, with the kernel's own name."""
    if not batch.has("cat") or not len(batch):
        return batch
    mine = pc.fill_null(pc.equal(batch.column("cat").cast(pa.string()), "gpu_op"), False)
    if not mine.true_count:
        return batch
    names = encoded(batch.column("name"))
    words = names.dictionary.cast(pa.string()).to_pylist()
    of_opencl = _of_opencl(batch, opencl)
    parts = [work(word or "") for word in words] + [work(word or "", True) for word in words]
    index = names.indices.to_numpy(zero_copy_only=False) + np.where(of_opencl, len(words), 0)
    index = np.where(mine.to_numpy(zero_copy_only=False), index, -1)
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    where = pa.array(np.maximum(index, 0))
    _replace(columns, "name", [part.name for part in parts], where, mine)
    _replace(columns, "kind", [part.kind for part in parts], where, mine)
    for name in dict.fromkeys(key for part in parts for key in part.columns):
        kind = arrow_schema("events").field(name).type
        values = pa.array([part.columns.get(name) for part in parts]).cast(kind).take(where)
        columns[name] = pc.if_else(
            mine, values, batch.column(name).cast(kind) if batch.has(name) else pa.nulls(len(batch), kind)
        )
    for key in dict.fromkeys(key for part in parts for key in part.args):
        texts = pa.array([_json(part, key) for part in parts], pa.binary()).take(where)
        columns[f"args.{key}"] = pc.if_else(mine, texts, pa.scalar(None, pa.binary()))
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))


def marked(batch: Batch) -> Batch:
    """Returns a batch of events in which begins and ends are ranges and marks are instants, not calls."""
    dur = batch.column("dur")
    if batch.has("half"):
        mine = pc.is_valid(batch.column("half"))
        kind = "range"
    else:
        mine = pc.and_(pc.is_null(dur), pc.equal(batch.column("kind").cast(pa.string()), "api"))
        kind = "instant"
    if not mine.true_count:
        return batch
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    columns["kind"] = pc.if_else(mine, kind, columns["kind"].cast(pa.string())).dictionary_encode()
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))


def _json(part: Work, key: str) -> bytes | None:
    return dump_json(part.args[key]).encode() if key in part.args else None


def _replace(columns: dict[str, pa.Array], name: str, values: list[str], where: pa.Array, mine: pa.Array) -> None:
    old = columns[name].cast(pa.string())
    columns[name] = pc.if_else(mine, pa.array(values, pa.string()).take(where), old).dictionary_encode()


def _of_opencl(batch: Batch, opencl: frozenset[tuple[int, int]]) -> Any:
    if not opencl or not batch.has("stream"):
        return np.zeros(len(batch), np.bool_)
    pairs = zip(batch.column("device").to_pylist(), batch.column("stream").to_pylist(), strict=True)
    return np.fromiter((pair in opencl for pair in pairs), np.bool_, len(batch))


def launches(batch: Batch) -> Batch:
    """Returns a batch of links in which flows from the host to the device are launches; their ends arrive."""
    if not batch.has("cat"):
        return batch
    to_device = pc.fill_null(pc.match_substring_regex(batch.column("cat").cast(pa.string()), _LAUNCH), False)
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    columns["link"] = pc.if_else(to_device, "launch", columns["link"].cast(pa.string())).dictionary_encode()
    role = columns["role"].cast(pa.string())
    columns["role"] = pc.if_else(pc.equal(role, "step"), "in", role).dictionary_encode()
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))
