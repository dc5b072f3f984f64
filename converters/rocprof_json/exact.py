"""Restores times in ns: slices have whole µs, and their arguments the ns that these were rounded from.

"ts": "7000700", "dur": "12", "args": {"BeginNs": "7000700100", "EndNs": "7000712300"}      from ...700100 for 12,200 ns
"ts": 7000700, "ph": "t"        an arrow's end at the begin of the slice in this µs: also 7000700100

Arrows follow the slices in the file.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import Batch

_US = 1_000


class ExactTimes:
    """Sets times of slices from their arguments, and times of arrows' ends from the slices that begin in their µs."""

    def __init__(self) -> None:
        self._begins: list[pa.Table] = []

    def of(self, batch: Batch) -> Batch:
        """Returns the batch with exact times."""
        if batch.record == "events" and all(map(batch.has, ("ts", "dur", "args.BeginNs", "args.EndNs"))):
            return self._slices(batch)
        return self._ends(batch) if batch.record == "links" and self._begins and batch.has("ts") else batch

    def _slices(self, batch: Batch) -> Batch:
        """Sets the times of slices whose arguments agree with the µs."""
        begin, end, ts = _whole(batch.column("args.BeginNs")), _whole(batch.column("args.EndNs")), batch.column("ts")
        same = pc.equal(pc.divide(begin, _US), pc.divide(ts, _US))
        good = pc.fill_null(pc.and_(same, pc.greater_equal(end, begin)), False)
        columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
        columns["ts"] = pc.if_else(good, begin, ts)
        columns["dur"] = pc.if_else(good, pc.subtract(end, begin), batch.column("dur"))
        if batch.has("pid") and batch.has("tid"):
            place = {"pid": batch.column("pid"), "tid": batch.column("tid"), "us": pc.divide(ts, _US)}
            self._begins.append(pa.table({**place, "ts": columns["ts"]}).filter(good))
        return Batch(batch.record, pa.RecordBatch.from_pydict(columns))

    def _ends(self, batch: Batch) -> Batch:
        """Moves ends of arrows to the slice that begins first in their µs; others stay."""
        if not (batch.has("pid") and batch.has("tid")):
            return batch
        begins = pa.concat_tables(self._begins).group_by(["pid", "tid", "us"]).aggregate([("ts", "min")])
        ts = batch.column("ts")
        rows = {"pid": batch.column("pid"), "tid": batch.column("tid"), "us": pc.divide(ts, _US)}
        ends = pa.table({**rows, "row": pa.array(np.arange(len(ts)))})
        found = ends.join(begins, ["pid", "tid", "us"]).sort_by("row")["ts_min"].combine_chunks()
        columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
        columns["ts"] = pc.coalesce(found, ts)
        return Batch(batch.record, pa.RecordBatch.from_pydict(columns))


def _whole(column: pa.Array) -> pa.Int64Array:
    """Texts and numbers as whole numbers; others are null."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    texts = column.cast(pa.string()) if not pa.types.is_string(column.type) else column
    plain = pc.utf8_trim(texts, '"')
    digits = pc.fill_null(pc.match_substring_regex(plain, "^[0-9]{1,18}$"), False)
    return pc.if_else(digits, plain, None).cast(pa.int64())
