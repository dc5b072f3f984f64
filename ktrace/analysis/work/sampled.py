"""Samples of CPU profiles by the function that ran: how many, and the time or the units that they stand for.

sample  step   value 10000000 ns  ┐
sample  step   value 10000000 ns  ├─►  step  20 ms, 2 samples
summary of samples  wait  3       ┘    wait   3 samples
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded, encoded
from ktrace.model.masks import words_in
from ktrace.store.events import values

_KIND = "sample"

#: What isn't a function: V8's names for a thread that waits, and samples without frames.
NO_FUNCTION = frozenset({"(idle)", "[no stack]"})
_NS = "ns"


class Samples:
    """The samples of each source by name: those with a time have it added up, others are counted."""

    def __init__(self) -> None:
        self._sums: defaultdict[str, dict[tuple[str, str], list[float]]] = defaultdict(dict)

    def add(self, source: str, batch: Batch) -> None:
        """Collects the samples among the events or summaries of one source."""
        mine = words_in(batch.column("kind"), (_KIND,))
        if not mine.any():
            return
        rows = Batch(batch.record, batch.columns.filter(pa.array(mine)))
        if batch.record == "events":
            value, known = values(rows.columns, "value")
            count = np.ones(len(rows))
        else:
            value, known = values(rows.columns, "total")
            number, counted = values(rows.columns, "count")
            count = np.where(counted, number, 0)
        unit = decoded(rows.column("unit")) if rows.has("unit") else pa.nulls(len(rows), pa.string())
        timed = known & (value >= 0) & pc.fill_null(pc.equal(unit, _NS), False).to_numpy(zero_copy_only=False)
        self._sum(source, rows, timed, _NS, value, count)
        plain = ~timed & pc.is_null(unit).to_numpy(zero_copy_only=False)
        self._sum(source, rows, plain, "", np.where(known, value, count), count)

    def _sum(self, source: str, rows: Batch, mine: Any, unit: str, value: Any, count: Any) -> None:
        """Adds the values and counts of some rows to the sums of their names."""
        if not mine.any():
            return
        names = encoded(rows.column("name").filter(pa.array(mine)))
        codes = names.indices.to_numpy()
        sums = [np.bincount(codes, column[mine], len(names.dictionary)) for column in (value, count)]
        known = self._sums[source]
        for name, total, number in zip(names.dictionary.to_pylist(), *sums, strict=True):
            own = known.setdefault((unit, name), [0.0, 0.0])
            own[0] += float(total)
            own[1] += float(number)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each source and name, its `total` in the `unit`: ns for a source that has times, else count."""
        found: list[dict[str, Any]] = []
        for source, sums in self._sums.items():
            unit = _NS if any(unit == _NS for unit, _ in sums) else ""
            for (own, name), (total, count) in sums.items():
                if own == unit:
                    row = {"source": source, "id": len(found), "kind": _KIND, "name": name}
                    found.append(row | {"count": round(count) or None, "total": total, "unit": unit or "count"})
        return found
