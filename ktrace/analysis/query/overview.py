"""The views of an input with their columns and numbers of rows, for a query that is yet to be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ktrace.analysis.query.loading import Launches
from ktrace.analysis.query.views import CALL_COLUMNS, VIEWS, described
from ktrace.analysis.work.gather import kinds_in
from ktrace.analysis.work.stored_columns import by_source
from ktrace.input.expand import paths_of
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.catalog import Catalog
from ktrace.report import Report
from ktrace.store.spill import SPILL_BYTES, Spill

if TYPE_CHECKING:
    from ktrace.pipeline.read import Progress
    from ktrace.pipeline.selection import Selection

_COLUMN = [(name, pa.string()) for name in ("view", "column", "type", "unit")]
#: A row of the overview: a column of a view, and how many rows have a value there.
FILLED = pa.schema([*_COLUMN, ("rows", pa.int64()), ("filled", pa.int64())])

#: A row of the schema.
MEANING = pa.schema([*_COLUMN, ("meaning", pa.string())])


def schema() -> pa.Table:
    """All columns of all views, with type, unit and meaning; the same for every input."""
    rows = [(view.name, column, *described(view, column)) for view in VIEWS.values() for column in view.columns]
    return pa.Table.from_pylist([dict(zip(MEANING.names, row, strict=True)) for row in rows], MEANING)


def overview(
    src: str | Path | Sequence[str | Path], selection: Selection, report: Report, progress: Progress | None = None
) -> pa.Table:
    """The columns of each view with the numbers of rows: all rows, and those that have a value."""
    from ktrace.pipeline.read import read_selected
    from ktrace.stages.order.pairing import pair_halves

    spill = Spill(SPILL_BYTES)
    try:
        counts, launches, catalog = _Counts(), Launches(spill), Catalog()
        labelled = selection.but(classify=selection.classify or True)
        batches = read_selected(paths_of(src), report, labelled, progress=progress)
        for batch in by_source(pair_halves(batches, report)):
            launches.know(batch)
            launches.count(batch)
            if batch.record == "catalog":
                catalog.add(batch)
            else:
                counts.add(batch.record, batch)
                if batch.record == "events" and len(batch):
                    (device,) = kinds_in(batch, DEVICE_KINDS)
                    if device.any():
                        counts.add("kernels", Batch("events", batch.columns.filter(pa.array(device))))
        counts.add("catalog", catalog.to_batch())
        for columns in launches.tables():
            counts.launched(columns)
        rows = list(counts.rows())
        return pa.Table.from_pylist([dict(zip(FILLED.names, row, strict=True)) for row in rows], FILLED)
    finally:
        spill.close()


class _Counts:
    """The number of rows of each view, and of values in each of its columns."""

    def __init__(self) -> None:
        self._rows = dict.fromkeys(VIEWS, 0)
        self._filled: dict[tuple[str, str], int] = {}

    def add(self, view: str, batch: Batch) -> None:
        """Counts the rows of a batch."""
        self._rows[view] += len(batch)
        for name in VIEWS[view].columns:
            if batch.has(name):
                self._fill(view, name, len(batch) - batch.column(name).null_count)
        typed = [batch.columns.column(name).is_valid() for name in batch.typed_args()]
        if typed:
            some = np.logical_or.reduce([one.to_numpy(zero_copy_only=False) for one in typed])
            self._fill(view, "args", int(some.sum()))

    def launched(self, columns: pa.RecordBatch) -> None:
        """Counts launches, which fill columns of work, too."""
        self._rows["launches"] += columns.num_rows
        for name in CALL_COLUMNS:
            for view in ("kernels", "launches"):
                self._fill(view, name, columns.num_rows - columns.column(name).null_count)

    def _fill(self, view: str, column: str, count: int) -> None:
        self._filled[view, column] = self._filled.get((view, column), 0) + count

    def rows(self) -> Iterator[tuple[str, str, str, str, int, int]]:
        """Yields the columns of all views; of `launches` those of the work are those of `kernels`."""
        for view in VIEWS.values():
            for column in view.columns:
                kind, unit, _ = described(view, column)
                filled = self._filled.get((view.name, column), 0)
                if view.name == "launches" and column not in CALL_COLUMNS:
                    filled = min(self._filled.get(("kernels", column), 0), self._rows["launches"])
                yield view.name, column, kind, unit, self._rows[view.name], filled


def as_lines(table: pa.Table, width: int) -> str:
    """The overview for people: each view with its number of rows, and the columns that have values."""
    import textwrap

    rows = table.to_pylist()
    lines = []
    for view in VIEWS.values():
        mine = [row for row in rows if row["view"] == view.name]
        lines.append(f"{view.name:<9}  {mine[0]['rows']:>11,} rows   {view.about}")
        names = ", ".join(row["column"] for row in mine if row["filled"])
        lines += textwrap.wrap(names, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"
