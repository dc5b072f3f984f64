"""Counters that are metrics of a kernel: their `parent` is its id."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from ktrace.model import Rows

from .._shared.arguments import is_in, plain
from .encode import Bools, Int64


@dataclass(frozen=True)
class Metrics:
    """`rows` says which rows are metrics, `kernel` has the row of the kernel of each, -1 for other rows."""

    rows: Bools
    kernel: Int64


def metrics_of(batch: Rows, stage: Bools) -> Metrics:
    """The counters whose parent is one of the rows `stage`, with which they share their begin and so their batch."""
    kernel = np.full(len(batch), -1, np.int64)
    counter = is_in(batch.column("kind"), ("counter",))
    if batch.has("parent") and stage.any() and counter.any():
        source = plain(batch, "source").dictionary_encode().indices.to_numpy().astype(np.int64)
        child = np.flatnonzero(counter & batch.column("parent").is_valid().to_numpy(zero_copy_only=False))
        kernels = np.flatnonzero(stage)
        parent = pc.fill_null(batch.column("parent"), 0).to_numpy(zero_copy_only=False)[child]
        kernel[child] = _find(source[child], parent, source[kernels], batch.column("id").to_numpy()[kernels], kernels)
    return Metrics(kernel >= 0, kernel)


def _find(source: Int64, id_: Int64, known_source: Int64, known_id: Int64, rows: Int64) -> Int64:
    """For each (source, id) the row of the same among the known ones, -1 where there is none."""
    order = np.lexsort((known_id, known_source))
    keys = np.empty(len(order), [("source", "i8"), ("id", "i8")])
    keys["source"], keys["id"] = known_source[order], known_id[order]
    wanted = np.empty(len(id_), keys.dtype)
    wanted["source"], wanted["id"] = source, id_
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, rows[order][at], -1)
