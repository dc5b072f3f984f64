"""A whole trace in memory: the four records as tables, DataFrames on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.model.schema import RECORDS
from ktrace.report import Report
from ktrace.tables.frames import polars_of
from ktrace.trace.arrow_tables import data_frame, device_time_of, joined_table, span_of, stored_columns, values

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from ktrace.analysis.answers.diff.comparison import Diff
    from ktrace.analysis.answers.summary.summary import Summary
    from ktrace.stages.align import Align
    from ktrace.stages.select.wanted import Crop, Filter


class Trace:
    """A whole trace in memory, in the canonical model.

    `events`, `summaries`, `links` and `catalog` are pandas DataFrames with all columns of the record. Integers are
    Int64 (never float), text is `string`, times are ns.

    Parameters
    ----------
    batches : iterable of Batch
        The rows, such as those of `ktrace.open_batches`.
    report : Report, optional
        The report of their reading, kept as `report`.

    Examples
    --------
    >>> import ktrace
    >>> ktrace.read("samples/doppler/prefill-and-three-decodes.log")
    <Trace prefill-and-three-decodes: 47 events, 57 summaries, 0 links, 5 catalog>
    """

    def __init__(self, batches: Iterable[Batch], report: Report | None = None) -> None:
        by_record: dict[str, list[pa.RecordBatch]] = {record: [] for record in RECORDS}
        catalog = Catalog()
        for batch in batches:
            if batch.record == "catalog":
                catalog.add(batch)
            else:
                by_record[batch.record].append(stored_columns(batch))
        if len(catalog):
            by_record["catalog"].append(stored_columns(catalog.to_batch()))
        self.report = report or Report()
        self._tables = {record: joined_table(record, parts) for record, parts in by_record.items()}

    def to_arrow(self) -> dict[str, pa.Table]:
        """Returns the four records as Arrow tables: {'events': ..., 'summaries': ..., 'links': ..., 'catalog': ...}."""
        return dict(self._tables)

    def to_pandas(self) -> dict[str, pd.DataFrame]:
        """Returns the four records as DataFrames, those of `events`, `summaries`, `links` and `catalog`."""
        return {record: getattr(self, record) for record in self._tables}

    def to_polars(self) -> dict[str, pl.DataFrame]:
        """Returns the four records as DataFrames of polars. Raises UsageError where it isn't installed."""
        return {record: polars_of(table) for record, table in self._tables.items()}

    def batches(self) -> Iterator[Batch]:
        """Yields the trace as batches, the catalog first."""
        for record in ("catalog", "events", "summaries", "links"):
            for columns in self._tables[record].to_batches(max_chunksize=65_536):
                if columns.num_rows:
                    yield Batch(record, columns)

    @cached_property
    def events(self) -> pd.DataFrame:
        """One row per event; `ts` and `dur` in ns."""
        return data_frame(self._tables["events"])

    @cached_property
    def summaries(self) -> pd.DataFrame:
        """One row per metric of a thing, such as a kernel; the figures are in `unit`."""
        return data_frame(self._tables["summaries"])

    @cached_property
    def links(self) -> pd.DataFrame:
        """One row per end of an arrow."""
        return data_frame(self._tables["links"])

    @cached_property
    def catalog(self) -> pd.DataFrame:
        """One row per entity; `facts` is JSON text."""
        return data_frame(self._tables["catalog"])

    def frame(self, names: bool = True) -> pd.DataFrame:
        """Returns the events, by default with the names of process, thread, device, stream and host, and the rank."""
        frame = self.events.copy()
        if names:
            from ktrace.trace.notebook import join_names

            frame = join_names(frame, self._catalog())
        return frame

    def to_hta(self) -> dict[int, pd.DataFrame]:
        """Returns the events of each rank with the columns, categories and microseconds of Holistic Trace Analysis."""
        from ktrace.trace.arrow_tables import to_hta

        return to_hta(self.events, self._catalog())

    def _catalog(self) -> Catalog:
        catalog = Catalog()
        for columns in self._tables["catalog"].to_batches():
            catalog.add(Batch("catalog", columns))
        return catalog

    def write(self, path: str | Path, *, to: str | None = None, overwrite: bool | None = None) -> Report:
        """Writes the trace to one output.

        Parameters
        ----------
        path : path
            The output. Its name decides the format, unless `to` is given.
        to : str, optional
            Format of the output.
        overwrite : bool, optional
            Replace an output that exists; by default in a notebook alone, where cells run again.

        Returns
        -------
        Report
            The report of the writing.

        Raises
        ------
        UsageError
            Neither the name nor `to` decides the format.
        OutputError
            The output can't be written. Then no output is left.

        Examples
        --------
        >>> import ktrace
        >>> trace = ktrace.read("samples/kineto/one-step-of-training.pt.trace.json")
        >>> trace.write("events.csv").written == len(trace.events) + len(trace.links)
        True
        """
        from ktrace.output import replaces, writing
        from ktrace.output.write import open_sink, write_batches
        from ktrace.pipeline.convert import output_format

        report = self._counted()
        report.output = str(path)
        fmt = output_format(str(path), to)
        with writing(open_sink(str(path), fmt, overwrite=replaces(overwrite))) as sink:
            write_batches(self.batches(), fmt, sink, Conversion(report))
        return report

    def crop(self, part: Crop) -> Trace:
        """Returns the part of this trace in a time interval; its `report` lists what was left out.

        Parameters
        ----------
        part : Crop
            The interval to keep.

        Returns
        -------
        Trace
            The remaining rows, events in order of time.

        Raises
        ------
        InputError
            The trace has no such interval, name, step or range.

        Examples
        --------
        >>> import ktrace
        >>> trace = ktrace.read("samples/kineto/one-step-of-training.pt.trace.json")
        >>> len(trace.crop(ktrace.Crop(time="..100us")).events) < len(trace.events)
        True
        """
        from ktrace.stages.select.crop import cropped

        report = self._counted()
        return Trace(cropped(self.batches(), part, report), report)

    def filter(self, wanted: Filter) -> Trace:
        """Returns the wanted rows of this trace, with the rows that depend on them; its `report` lists the others.

        Parameters
        ----------
        wanted : Filter
            The rows to keep.

        Returns
        -------
        Trace
            The remaining rows.

        Raises
        ------
        InputError
            No source has the wanted rank.

        Examples
        --------
        >>> import ktrace
        >>> trace = ktrace.read("samples/kineto/one-step-of-training.pt.trace.json")
        >>> set(trace.filter(ktrace.Filter(kinds=["kernel"])).events["kind"])
        {'kernel'}
        """
        from ktrace.stages.select.filter import filtered

        report = self._counted()
        return Trace(filtered(self.batches(), wanted, report), report)

    def merge(
        self, *others: Trace, align: str | Align = "auto", offsets: Mapping[str, int | str] | None = None
    ) -> Trace:
        """Merges this trace with others. All times are in the clock of this trace's first source.

        Parameters
        ----------
        *others : Trace
            Traces to merge with this one. Equal source labels become distinct ("rank0#2").
        align : str or Align
            "auto", "unix", "collective", "marker NAME" or "none".
        offsets : mapping, optional
            Source label -> ns, or text such as "+1.5ms", added after the alignment.

        Returns
        -------
        Trace
            Its `report.alignment` records how each source was aligned.

        Raises
        ------
        InputError, UsageError
            As for `ktrace.merge`.

        Examples
        --------
        >>> import ktrace
        >>> a, b = (ktrace.read(f"samples/kineto/collectives-of-two-ranks-rank{n}.json") for n in (0, 1))
        >>> len(a.merge(b, align="none").events) == len(a.events) + len(b.events)
        True
        """
        from ktrace.input.relabel import Labels
        from ktrace.stages.align import Align, aligned

        alignment = align if isinstance(align, Align) else Align.parse(align, offsets)
        report, labels = Report(), Labels()
        for trace in (self, *others):
            report.rows.update(trace._counted().rows)
        parts = ((trace, f"trace {number}") for number, trace in enumerate((self, *others), 1))
        batches = (batch for trace, name in parts for batch in labels.apart(trace.batches(), name, report))
        return Trace(aligned(batches, alignment, report, labels.inputs), report)

    def summary(
        self, by: str | Sequence[str] | None = None, *, tree: bool = False, rules: str | Path | None = None
    ) -> Summary:
        """Summarises where the time went, as `ktrace.summary` does for inputs.

        Parameters
        ----------
        by : str ("op,shape") or sequence of str, optional
            The groups to compute; by default all.
        tree : bool, optional
            Answer with the call tree of those of `op`, `module`, `range` and `kernel` that `by` names.
        rules : path, optional
            A file of rules for operations and layers, which take precedence over those of ktrace.

        Returns
        -------
        Summary
            Times in ns.

        Raises
        ------
        UsageError
            `by` names an unknown group.
        InputError
            The rules are invalid.

        Examples
        --------
        >>> import ktrace
        >>> trace = ktrace.read("samples/kineto/one-step-of-training.pt.trace.json")
        >>> sum(group.total for group in trace.summary(["kernel"]).groups["kernel"]) == trace.device_time()
        True
        """
        from ktrace.analysis.answers.summary.compute import summary_of
        from ktrace.naming.taxonomy import taxonomy
        from ktrace.stages.names import with_operations

        rules_, report, by = taxonomy(rules), self._counted(), by.split(",") if isinstance(by, str) else by
        return summary_of(with_operations(self.batches(), rules_, report), report, rules_, by, tree=tree)

    def diff(
        self, other: Trace | Summary | str | Path, by: str | Sequence[str] | None = None, *, total: bool = False
    ) -> Diff:
        """Compares this trace with another one, as `ktrace.diff` does for inputs.

        Parameters
        ----------
        other : Trace, Summary or path
            The trace to compare with.
        by : sequence of str, optional
            The tables to compute; the default is that of `ktrace.diff`.
        total : bool
            Compare the totals of both traces, even if both have steps.

        Returns
        -------
        Diff
            The changes from this trace to the other.

        Raises
        ------
        InputError, UsageError
            As for `ktrace.diff`.

        Examples
        --------
        >>> import ktrace
        >>> trace = ktrace.read("samples/kineto/one-step-of-training.pt.trace.json")
        >>> trace.diff(trace).whole.delta
        0.0
        """
        from ktrace.analysis.answers.diff.sides import compare

        return compare(self, other, by=by, total=total)

    def query(self, sql: str, params: Mapping[str, Any] | None = None) -> pa.Table:
        """Answers a question in SQL about this trace, as `ktrace.query` does for inputs.

        Parameters
        ----------
        sql, params
            As for `ktrace.query`.

        Returns
        -------
        pyarrow.Table
            The answer.

        Raises
        ------
        UsageError, KtraceError
            As for `ktrace.query`.

        Examples
        --------
        >>> import ktrace
        >>> trace = ktrace.read("samples/kineto/one-step-of-training.pt.trace.json")
        >>> trace.query("select count(*) as calls from launches where queue > $ns", {"ns": 3000}).to_pylist()
        [{'calls': 15}]
        """
        from ktrace.analysis.answers.query import query_batches

        return query_batches(lambda labels: (self.classify() if labels else self).batches(), sql, params)

    def _counted(self) -> Report:
        """Returns a new report with the row counts of this trace."""
        report = Report()
        report.rows.update({record: table.num_rows for record, table in self._tables.items()})
        return report

    def classify(self, rules: str | Path | None = None) -> Trace:
        """Labels device work with operation, library, precision, layer and short name, where the source doesn't.

        Parameters
        ----------
        rules : path, optional
            A file of rules, which take precedence over those of ktrace.

        Returns
        -------
        Trace
            The same rows with these columns filled in.

        Raises
        ------
        InputError
            The rules are invalid.

        Examples
        --------
        >>> import ktrace
        >>> trace = ktrace.read("samples/kineto/one-step-of-training.pt.trace.json").classify()
        >>> sorted(trace.events["operation"].dropna().unique())[:3]
        ['activation', 'attention', 'collective']
        """
        from ktrace.naming.taxonomy import taxonomy
        from ktrace.stages.names import with_operations

        return Trace(with_operations(self.batches(), taxonomy(rules)), self.report)

    def __repr__(self) -> str:
        counts = ", ".join(f"{table.num_rows:,} {record}" for record, table in self._tables.items())
        sources = ", ".join(self._sources())
        return f"<Trace {sources}: {counts}>" if sources else f"<Trace: {counts}>"

    def _repr_html_(self) -> str:
        from ktrace.trace.notebook import trace_html

        return trace_html(f"<Trace {', '.join(self._sources())}".rstrip() + ">", self.to_arrow())

    def _sources(self) -> list[str]:
        return [entry.key.get("source", "") for entry in self._catalog().of("source")]

    def equals(self, other: Trace) -> bool:
        """Returns whether both traces have the same rows in the same order; reports aren't compared."""
        return all(values(self._tables[record]) == values(other._tables[record]) for record in RECORDS)

    def span(self) -> tuple[int, int] | None:
        """Returns the first start and the last end of the events in ns, None without events."""
        return span_of(self._tables["events"])

    def device_time(self) -> int:
        """Returns the total duration of device work (kernel, memcpy, memset, graph), in ns."""
        return device_time_of(self._tables["events"])
