"""Adds up launches of kernels by their configuration, as columns: there may be as many configurations as launches.

kernel  grid_x  grid_y ... occupancy  count  time
gemm        64      32           25%    120  49,000,000
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch, arrow_schema
from ktrace.model.json_text import encoded

#: What makes a configuration, with the kernel: columns of the model.
SIZES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "shared_memory", "occupancy")

#: Rows that wait until they are added up.
_WAITING = 1 << 18


class Configurations:
    """The launches by configuration, in the order in which they first came."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._waiting: list[pa.Table] = []
        sizes = ((name, arrow_schema("events").field(name).type) for name in SIZES)
        self._schema = pa.schema([("kernel", pa.int32()), *sizes, ("count", pa.int64()), ("time", pa.int64())])

    def add(self, batch: Batch, rows: Int64, count: Int64, time: Int64) -> None:
        """Adds some rows of a batch, whose name is that of a kernel, with how many launches each is and their time."""
        chosen = Batch(batch.record, batch.columns.take(pa.array(rows)))
        names = encoded(pc.coalesce(*(chosen.column(name).cast(pa.string()) for name in ("short_name", "name"))))
        known = self._words
        numbers = np.array([known.setdefault(word, len(known)) for word in names.dictionary.to_pylist()], np.int32)
        kernel = numbers[names.indices.to_numpy()]
        columns = [chosen.column(name) for name in SIZES]
        stated = pc.or_(*(chosen.column(name).is_valid() for name in ("grid_x", "block_x")))
        table = pa.table([pa.array(kernel), *columns, pa.array(count), pa.array(time)], names=self._schema.names)
        self._waiting.append(_added_up(table.cast(self._schema).filter(stated)))
        if sum(map(len, self._waiting)) > _WAITING + len(self._waiting[0]):
            self._waiting = [_added_up(pa.concat_tables(self._waiting))]

    def all(self) -> pa.Table:
        """The columns `kernel`, `SIZES`, `count` and `time` in ns: those with the most time first."""
        found = _added_up(pa.concat_tables([self._schema.empty_table(), *self._waiting]))
        words = sorted(self._words)
        place = {word: number for number, word in enumerate(words)}
        rank = np.array([place[word] for word in self._words], np.int32)[found["kernel"].to_numpy()]
        found = found.set_column(0, "kernel", pa.array(words, pa.string()).take(pa.array(rank)))
        return found.take(pa.array(np.lexsort((rank, -found["time"].to_numpy()))))


def _added_up(table: pa.Table) -> pa.Table:
    """One row for each configuration."""
    added = table.group_by(["kernel", *SIZES], use_threads=False).aggregate([("count", "sum"), ("time", "sum")])
    return added.rename_columns(table.schema.names)
