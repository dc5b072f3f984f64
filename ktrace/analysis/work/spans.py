"""What the host did: operators, ranges and calls, by thread.

thread 4242    [ ProfilerStep#3                      ]      range
                  [ aten::mm                ]               op
                     [ cudaLaunchKernel ]                   api
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.analysis.work.columns import StoredColumns, source_of
from ktrace.analysis.work.shapes import Shapes
from ktrace.model.arrays import Int32, Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded
from ktrace.model.masks import truth, words_in
from ktrace.store.spill import Spill

#: The kinds of spans; `kind` is an index of it.
KINDS = ("api", "op", "range")


class Spans:
    """The slices of threads of the host.

    `of(source)` has the columns ts, dur (-1 without an end), id, correlation (0: none), `thread`, an index of
    `threads`, `name`, an index of `names`, and `kind`, an index of KINDS.
    """

    def __init__(self, spill: Spill, threads: Shapes) -> None:
        self._threads = threads
        self._numbers: dict[str, int] = {}
        self._rows = StoredColumns(
            spill, "spans", ts="i8", dur="i8", id="i8", correlation="i8", thread="i4", name="i4", kind="i1"
        )

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def names(self) -> list[str]:
        """The different names, by number."""
        return list(self._numbers)

    @property
    def threads(self) -> list[dict[str, Any]]:
        """Source, host, pid and tid of each thread, by number."""
        return self._threads.all()

    @property
    def sources(self) -> list[str]:
        """The sources that have spans."""
        return self._rows.sources

    def of(self, source: str) -> dict[str, Any]:
        """The spans of a source, as columns."""
        return self._rows.of(source)

    def add(self, batch: Batch, ts: Int64, dur: Int64, correlation: Int64) -> None:
        """Adds the spans among the events of one source; the columns are those of the whole batch."""
        kind = np.full(len(batch), -1, np.int8)
        for number, word in enumerate(KINDS):
            kind[words_in(batch.column("kind"), (word,))] = number
        for place in ("device", "stream"):
            if batch.has(place):
                kind[truth(batch.column(place).is_valid())] = -1
        rows = np.flatnonzero(kind >= 0)
        if not len(rows):
            return
        self._rows.add(
            source_of(batch),
            ts=ts[rows],
            dur=dur[rows],
            id=batch.column("id").to_numpy()[rows],
            correlation=correlation[rows],
            thread=self._threads.number(batch, rows),
            name=self._names_of(batch, rows),
            kind=kind[rows],
        )

    def _names_of(self, batch: Batch, rows: Int64) -> Int32:
        """The number of the name of each row."""
        words = encoded(batch.column("name"))
        codes = words.indices.to_numpy(zero_copy_only=False)[rows]
        used = np.flatnonzero(np.bincount(codes, minlength=len(words.dictionary)))
        number = np.zeros(len(words.dictionary), np.int32)
        known = self._numbers
        texts = words.dictionary.take(pa.array(used)).to_pylist()
        number[used] = [known.setdefault(text, len(known)) for text in texts]
        found: Int32 = number[codes]
        return found
