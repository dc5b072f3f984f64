"""NVTX: markers and ranges. A range is two rows of one id, the first of which has the name.

flags 1   an instant          flags 2   a range begins       flags 4   the range of that id ends
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model import Batch

from .._shared.blocks import Block
from .reading import Int64, Reading

_BEGINS, _ENDS = 2, 4


def markers(reading: Reading, table: str) -> Iterator[Batch]:
    """Ranges and instants on their threads, or on the process; the domain is the track."""
    ended = reading.database.part(table, ["id", "timestamp"], f"flags & {_ENDS}")
    begun = reading.database.part(table, ["id"], f"flags & {_BEGINS}")
    ids, ends = _sorted(ended["id"].to_numpy(), ended["timestamp"].to_numpy())
    starts = np.unique(begun["id"].to_numpy())
    report = reading.conversion.report
    for block in reading.blocks(table):
        flags, numbers, times = (block.get(name) for name in ("flags", "id", "timestamp"))
        if flags is None or numbers is None or times is None:
            report.issue("bad-record", table, "has no flags, id or timestamp", len(block))
            return
        is_end = pc.not_equal(pc.bit_wise_and(flags, _ENDS), 0).to_numpy(zero_copy_only=False)
        known = np.isin(numbers.to_numpy(), starts)
        for row in np.flatnonzero(is_end & ~known).tolist():
            report.issue("end-without-begin", block.where(row), f"id {numbers[row]}")
        report.used(int((is_end & known).sum()), went="its begin")
        rest = block.filter(pa.array(~is_end))
        rest.drop("_id_")
        if len(rest):
            yield _events(reading, table, rest, ids, ends)


def _sorted(ids: Int64, ends: Int64) -> tuple[Int64, Int64]:
    order = np.argsort(ids, kind="stable")
    return ids[order], ends[order]


def _events(reading: Reading, table: str, block: Block, ids: Int64, ends: Int64) -> Batch:
    flags, numbers, times = block.take("flags"), block.take("id"), block.take("timestamp")
    assert flags is not None and numbers is not None and times is not None
    begins = pc.not_equal(pc.bit_wise_and(flags, _BEGINS), 0).to_numpy(zero_copy_only=False)
    at = np.searchsorted(ids, numbers.to_numpy())
    at[at == len(ids)] = 0
    found = begins & (ids[at] == numbers.to_numpy()) if len(ids) else np.zeros(len(block), np.bool_)
    dur = (ends[at] if len(ids) else at) - times.to_numpy()
    names = reading.text(block, "name", required=True)
    batch: Batch = reading.events(
        table,
        block,
        kind=pa.array(np.where(begins, "range", "instant").tolist(), pa.string()),
        name=names,
        ts=times,
        dur=pa.array(dur, mask=~(found & (dur >= 0))),
        track=reading.text(block, "domain"),
        **owners(block),
    )
    return batch


def owners(block: Block) -> dict[str, Any]:
    """Process and thread of the objects: two numbers of four bytes, of a process (kind 1) the first alone."""
    kinds, objects = block.get("objectKind"), block.get("objectId")
    if kinds is None or objects is None or not pa.types.is_binary(objects.type):
        return {}
    block.drop("objectKind", "objectId")
    pids: list[int | None] = []
    tids: list[int | None] = []
    for kind, raw in zip(kinds.to_pylist(), objects.to_pylist(), strict=True):
        pair = struct.unpack_from("<II", raw) if kind in (1, 2) and raw and len(raw) >= 8 else (None, None)
        pids.append(pair[0])
        tids.append(pair[1] if kind == 2 else None)
    return {"pid": pa.array(pids, pa.int64()), "tid": pa.array(tids, pa.int64())}
