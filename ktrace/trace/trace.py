"""A whole trace in memory: the four records as tables, DataFrames on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.model.batch import DEVICE_KINDS, RECORDS, Batch, arrow_schema
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded
from ktrace.report import Report

if TYPE_CHECKING:
    import pandas as pd

    from ktrace.diff.model import Diff
    from ktrace.stages.align import Align
    from ktrace.stages.select.crop import Crop
    from ktrace.stages.select.filter import Filter
    from ktrace.summary.model import Summary


class Trace:
    """What a source said, in the canonical model.

    `events`, `summaries`, `links` and `catalog` are pandas DataFrames with all columns of the record;
    integers are Int64 (never float), text is `string`, times are ns. `report` is the account of the reading.
    """

    def __init__(self, batches: Iterable[Batch], report: Report | None = None) -> None:
        found: dict[str, list[pa.RecordBatch]] = {record: [] for record in RECORDS}
        catalog = Catalog()
        for batch in batches:
            if batch.record == "catalog":
                catalog.add(batch)
            else:
                found[batch.record].append(_whole(batch))
        if len(catalog):
            found["catalog"].append(_whole(catalog.to_batch()))
        self.report = report or Report()
        self._tables = {record: _table(record, parts) for record, parts in found.items()}

    def to_arrow(self) -> dict[str, pa.Table]:
        """The four records as Arrow tables: {'events': ..., 'summaries': ..., 'links': ..., 'catalog': ...}."""
        return dict(self._tables)

    def batches(self) -> Iterator[Batch]:
        """The trace as batches, the catalog first."""
        for record in ("catalog", "events", "summaries", "links"):
            for columns in self._tables[record].to_batches(max_chunksize=65_536):
                if columns.num_rows:
                    yield Batch(record, columns)

    @cached_property
    def events(self) -> pd.DataFrame:
        """One row a thing that happened; `ts` and `dur` in ns."""
        return _frame(self._tables["events"])

    @cached_property
    def summaries(self) -> pd.DataFrame:
        """One row a metric of a thing; its figures in `unit`."""
        return _frame(self._tables["summaries"])

    @cached_property
    def links(self) -> pd.DataFrame:
        """One row an end of an arrow."""
        return _frame(self._tables["links"])

    @cached_property
    def catalog(self) -> pd.DataFrame:
        """One row an entity; `facts` is JSON text."""
        return _frame(self._tables["catalog"])

    def frame(self, names: bool = True) -> pd.DataFrame:
        """The events; with `names`, joined with the names of process, thread, device and host, and with the rank."""
        frame = self.events.copy()
        if names:
            from ktrace.trace.frames import join_names

            frame = join_names(frame, self._catalog())
        return frame

    def to_hta(self) -> dict[int, pd.DataFrame]:
        """The events of each rank with the columns, categories and microseconds of Holistic Trace Analysis (HTA)."""
        from ktrace.trace.hta import to_hta

        return to_hta(self)

    def _catalog(self) -> Catalog:
        catalog = Catalog()
        for columns in self._tables["catalog"].to_batches():
            catalog.add(Batch("catalog", columns))
        return catalog

    def write(self, path: str | Path, *, to: str | None = None, overwrite: bool = False) -> Report:
        """Writes the trace in the format that the name (or `to`) says, and returns the account of it.

        Raises UsageError where neither says, OutputError where it can't be written; then there is no output.
        """
        from ktrace.output.destination import output_format
        from ktrace.output.sink import open_sink, writing
        from ktrace.output.write import write_batches

        report = self._counted()
        report.output = str(path)
        fmt = output_format(str(path), to)
        with writing(open_sink(str(path), fmt, overwrite=overwrite)) as sink:
            write_batches(self.batches(), fmt, sink, Conversion(report))
        return report

    def crop(self, part: Crop) -> Trace:
        """A part of the time of this trace, events in the order of time; its `report` says what was left out.

        Raises InputError where there is no such time, name, step or range.
        """
        from ktrace.stages.select.crop import cropped

        report = self._counted()
        return Trace(cropped(self.batches(), part, report), report)

    def filter(self, wanted: Filter) -> Trace:
        """The rows of this trace that are wanted, and what hangs on them; its `report` says what was left out.

        Raises InputError where a rank is wanted that no source is of.
        """
        from ktrace.stages.select.filter import filtered

        report = self._counted()
        return Trace(filtered(self.batches(), wanted, report), report)

    def merge(
        self, *others: Trace, align: str | Align = "auto", offsets: Mapping[str, int | str] | None = None
    ) -> Trace:
        """This trace and others in one, all times in the clock of this one's first source; `report.alignment` says how.

        `align` is a rule ("auto", "unix", "collective", "marker NAME", "none"), `offsets` are ns, or text such as
        "+1.5ms", by source label. Equal labels are told apart ("rank0#2"). Raises InputError and UsageError as
        `ktrace.merge` does.
        """
        from ktrace.input.relabel import Labels
        from ktrace.stages.align import Align, aligned

        wanted = align if isinstance(align, Align) else Align.of(align, offsets)
        report, labels = Report(), Labels()
        for trace in (self, *others):
            report.rows.update(trace._counted().rows)
        parts = ((trace, f"trace {number}") for number, trace in enumerate((self, *others), 1))
        batches = (batch for trace, name in parts for batch in labels.apart(trace.batches(), name, report))
        return Trace(aligned(batches, wanted, report, labels.inputs), report)

    def summary(self, by: Sequence[str] | None = None, *, rules: str | Path | None = None) -> Summary:
        """Where the time went, by kernel, operation and more: `ktrace.summarise` for what is read already.

        `rules` is a file of rules for operations and layers that come before those of ktrace. Raises UsageError for an
        unknown `by`, InputError for a fault in the rules.
        """
        from ktrace.naming.taxonomy import taxonomy
        from ktrace.stages.classify import with_operations
        from ktrace.summary.compute import summary_of

        known, report = taxonomy(rules), self._counted()
        return summary_of(with_operations(self.batches(), known, report), report, known, by)

    def diff(
        self, other: Trace | Summary | str | Path, by: Sequence[str] | None = None, *, total: bool = False
    ) -> Diff:
        """What changed from this trace to the other: `ktrace.compare`, which says what the arguments mean."""
        from ktrace.diff.sides import compare

        return compare(self, other, by=by, total=total)

    def _counted(self) -> Report:
        """A new account, of the rows of this trace."""
        report = Report()
        report.rows.update({record: table.num_rows for record, table in self._tables.items()})
        return report

    def classify(self, rules: str | Path | None = None) -> Trace:
        """The same trace with operation, library, precision, layer and short name of device work, where they are null.

        `rules` is a file of rules that come before those of ktrace. Raises InputError for a fault in it.
        """
        from ktrace.naming.taxonomy import taxonomy
        from ktrace.stages.classify import with_operations

        return Trace(with_operations(self.batches(), taxonomy(rules)), self.report)

    def __repr__(self) -> str:
        counts = ", ".join(f"{table.num_rows:,} {record}" for record, table in self._tables.items())
        sources = ", ".join(self._sources())
        return f"<Trace {sources}: {counts}>" if sources else f"<Trace: {counts}>"

    def _repr_html_(self) -> str:
        from ktrace.trace.frames import trace_html

        return trace_html(self)

    def _sources(self) -> list[str]:
        return [entry.key.get("source", "") for entry in self._catalog().of("source")]

    def equals(self, other: Trace) -> bool:
        """Whether both say the same, field for field; NaN is equal to NaN, -0.0 isn't 0.0."""
        return all(_values(self._tables[record]) == _values(other._tables[record]) for record in RECORDS)

    def span(self) -> tuple[int, int] | None:
        """First begin and last end of the events in ns, None where there are none."""
        import pyarrow.compute as pc

        events = self._tables["events"]
        if not events.num_rows:
            return None
        ends = pc.add(events["ts"], pc.coalesce(events["dur"], pa.scalar(0, pa.int64())))
        return pc.min(events["ts"]).as_py(), pc.max(ends).as_py()

    def device_time(self) -> int:
        """Sum of the durations of device work (kernel, memcpy, memset, graph), in ns."""
        import pyarrow.compute as pc

        events = self._tables["events"]
        mine = pc.is_in(decoded(events["kind"]), pa.array(DEVICE_KINDS))
        return pc.sum(events["dur"].filter(mine)).as_py() or 0


def _whole(batch: Batch) -> pa.RecordBatch:
    """All columns of the model with plain strings for dictionaries, then those of other packages."""
    full = batch.full()
    arrays = [decoded(array) for array in full.columns]
    names = list(full.schema.names)
    for name in batch.columns.schema.names:
        if name.startswith("x_"):
            names.append(name)
            arrays.append(batch.columns.column(name))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _table(record: str, parts: list[pa.RecordBatch]) -> pa.Table:
    if not parts:
        return arrow_schema(record).empty_table()
    table = pa.concat_tables([pa.Table.from_batches([part]) for part in parts], promote_options="permissive")
    fields = {field.name: field for field in arrow_schema(record)}
    schema = pa.schema([fields.get(field.name, field) for field in table.schema])
    return table.combine_chunks().cast(schema).unify_dictionaries()


def _values(table: pa.Table) -> dict[str, Any]:
    """The columns that aren't null throughout, in a form in which equal values are equal."""
    return {
        name: _comparable(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
        if column.null_count < len(column)
    }


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    if pa.types.is_float64(column.type):
        bits = [pc.if_else(pc.is_nan(chunk), float("nan"), chunk).view(pa.int64()) for chunk in column.chunks]
        return pa.chunked_array(bits, pa.int64())
    return decoded(column)


def _frame(table: pa.Table) -> pd.DataFrame:
    import pandas as pd

    plain = pa.table({name: decoded(column) for name, column in zip(table.column_names, table.columns, strict=True)})
    types = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.string(): pd.StringDtype()}
    frame: pd.DataFrame = plain.to_pandas(types_mapper=types.get)
    return frame
