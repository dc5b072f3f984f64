"""Counters that are metrics of a kernel: their `parent` is its id."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.converters._shared.timeline_arguments import is_in, plain
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import EventRows

from ..proto.sidecar import LAUNCH_METRICS

#: The occupancy that a launch could reach, which the GPU tab looks for among the arguments of a kernel.
REACHABLE = "sm__maximum_warps_per_active_cycle_pct"


@dataclass(frozen=True)
class Metrics:
    """`rows` says which rows are metrics, `kernel` has the row of the kernel of each, -1 for other rows."""

    rows: Bools
    kernel: Int64


def metrics_of(batch: EventRows, stage: Bools) -> Metrics:
    """The counters whose parent is one of the rows `stage`, with which they share their begin and so their batch.

    Samples within a kernel are counters like any others.
    """
    kernel = np.full(len(batch), -1, np.int64)
    counter = is_in(batch.column("kind"), ("counter",))
    if batch.has("parent") and stage.any() and counter.any():
        source = plain(batch, "source").dictionary_encode().indices.to_numpy().astype(np.int64)
        child = np.flatnonzero(counter & batch.column("parent").is_valid().to_numpy(zero_copy_only=False))
        kernels = np.flatnonzero(stage)
        parent = pc.fill_null(batch.column("parent"), 0).to_numpy(zero_copy_only=False)[child]
        kernel[child] = _find(source[child], parent, source[kernels], batch.column("id").to_numpy()[kernels], kernels)
        ts = batch.column("ts").to_numpy()
        kernel[(kernel >= 0) & (ts[kernel] != ts)] = -1
    return Metrics(kernel >= 0, kernel)


def launch_arguments(batch: EventRows, metrics: Metrics, rows: Int64) -> dict[str, pa.Array]:
    """What metrics of the kernels `rows` say of their launch, as the GPU tab wants it: name -> an argument a kernel."""
    which = np.flatnonzero(metrics.rows)
    if not len(which):
        return {}
    names = plain(batch, "name").take(pa.array(which)).dictionary_encode()
    values = batch.column("value").take(pa.array(which)).to_numpy(zero_copy_only=False)
    found: dict[str, pa.Array] = {}
    for number, name in enumerate(names.dictionary.to_pylist()):
        shown = name if name == REACHABLE else LAUNCH_METRICS.get(name)
        if shown is None:
            continue
        said = np.full(len(batch), np.nan)
        mine = names.indices.to_numpy() == number
        said[metrics.kernel[which[mine]]] = values[mine]
        found[shown] = pa.array(said[rows], mask=np.isnan(said[rows]))
    return {name: column for name, column in found.items() if column.null_count < len(column)}


def _find(source: Int64, id_: Int64, known_source: Int64, known_id: Int64, rows: Int64) -> Int64:
    """For each (source, id) the row of the same among the known ones, -1 where there is none."""
    order = np.lexsort((known_id, known_source))
    keys = np.empty(len(order), [("source", "i8"), ("id", "i8")])
    keys["source"], keys["id"] = known_source[order], known_id[order]
    wanted = np.empty(len(id_), keys.dtype)
    wanted["source"], wanted["id"] = source, id_
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, rows[order][at], -1)
