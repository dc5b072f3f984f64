"""SQL on a trace, with DuckDB: what can be asked for, and the answers of inputs.

`ktrace.query` makes an Arrow table, or a stream of batches, of an input and a text of SQL. A `Database` is loaded once,
then asked many times, in milliseconds.

loading    reads the columns that a query needs, and which call launched which work, into tables
output     writes an answer: table, CSV, TSV, JSON, JSON Lines, Markdown, Parquet
answer     its rows, with values that Arrow and Python can hold
database   a trace in files, for many queries
children   queries in processes of their own, bounded in memory and time; `child` is what runs there
engine     DuckDB: views, connections without access to files, which tables a text of SQL needs, errors as ours
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ktrace.analysis.answers.query.answer import Holder, QueryAnswer, register, whole_numbers
from ktrace.analysis.answers.query.child import ChildQuestion
from ktrace.analysis.answers.query.engine import (
    CALL_COLUMNS,
    LAUNCHED,
    VIEWS,
    Plan,
    connected,
    create_views,
    described,
    planned,
    table_schema,
    translate_duckdb_errors,
)
from ktrace.analysis.answers.query.loading import MEMORY, LaunchTable, Tables, loaded, tables_of
from ktrace.analysis.work.gather import kinds_in
from ktrace.analysis.work.stored_columns import by_source
from ktrace.input.expand import paths_of
from ktrace.input.limits import limited
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.schema import RECORDS
from ktrace.report import Report
from ktrace.scratch import scratch_folder
from ktrace.store import SPILL_BYTES, Spill

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ktrace.analysis.answers.query.children import Bound, Received
    from ktrace.pipeline.read import Progress
    from ktrace.pipeline.selection import Options, Selection


@limited
def query(
    src: str | Path | Sequence[str | Path],
    sql: str,
    params: Mapping[str, Any] | None = None,
    *,
    selection: Selection | None = None,
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> pa.Table:
    """Answers a question in SQL about one or several inputs.

    The views are `events`, `kernels`, `launches`, `summaries`, `links` and `catalog`; DuckDB runs the query. Only the
    records and columns that it needs are read. Needs the extra `ktrace[sql]`.

    Parameters
    ----------
    src : path or sequence of paths
        The inputs; the views have the rows of all.
    sql : str
        One query.
    params : mapping, optional
        Values of parameters in the query: `$name` is `params["name"]`.
    selection, progress, **options
        As for `ktrace.convert`, without `split_by`. Device work is labelled with operation, library, precision, layer
        and short name if the query uses these columns; `rules` names a file of rules for them.

    Returns
    -------
    pyarrow.Table
        The answer. Sums of whole numbers are int64 where they fit.

    Raises
    ------
    UsageError
        The SQL is wrong, or isn't a single query; the message shows the place.
    InputError
        An input can't be read.
    KtraceError
        DuckDB isn't installed.

    Examples
    --------
    >>> import ktrace
    >>> trace = "samples/kineto/one-step-of-training.pt.trace.json"
    >>> ktrace.query(trace, "select operation, sum(dur) as ns from kernels group by 1 order by 2 desc").to_pylist()[0]
    {'operation': 'gemm', 'ns': 249629}
    """
    with stream_query(src, sql, params, selection=selection, progress=progress, **options) as answer:
        return whole_numbers(answer.read_all())


@contextmanager
def stream_query(
    src: str | Path | Sequence[str | Path],
    sql: str,
    params: Mapping[str, Any] | None = None,
    *,
    report: Report | None = None,
    selection: Selection | None = None,
    progress: Progress | None = None,
    bound: Bound | None = None,
    holder: Holder = "arrow",
    **options: Unpack[Options],
) -> Iterator[QueryAnswer | Received]:
    """Yields the answer as a stream; the arguments are those of `query`, and the report to fill in.

    With a bound, the query runs in a process of its own and keeps to it, also while it is planned. `holder` is
    who has to hold its values.
    """
    from ktrace.pipeline.selection import selected

    chosen, account = selected(selection, options), report or Report()
    chosen.require_unset("a query", "split_by")

    def load(plan: Plan, spill: Spill) -> Tables:
        return loaded(paths_of(src), plan, chosen, account, spill, progress, scan=bound is None)

    asking = ChildQuestion(sql, params, holder=holder, jobs=chosen.jobs)
    with _run_query(asking, load) if bound is None else _run_query_within(asking, load, bound) as answer:
        yield answer


def query_batches(batches: Callable[[bool], Iterable[Batch]], sql: str, params: Mapping[str, Any] | None) -> pa.Table:
    """The answer about batches; they are asked for with or without labels."""

    def load(plan: Plan, spill: Spill) -> Tables:
        return tables_of(batches(plan.labels), plan, spill, Report())

    with _run_query(ChildQuestion(sql, params, holder="arrow"), load) as answer:
        return whole_numbers(answer.read_all())


Load = Callable[[Plan, Spill], Tables]


@contextmanager
def _run_query(asking: ChildQuestion, load: Load) -> Iterator[QueryAnswer]:
    """The answer to a question, about tables that are loaded once it is known which it needs."""
    plan = planned(asking.sql, asking.params)
    with closing(Spill(MEMORY)) as spill, scratch_folder() as folder:
        tables = load(plan, spill) if plan.tables else {}
        with connected(folder, asking.jobs) as connection:
            for record in (*RECORDS, LAUNCHED):
                register(connection, record, table_schema(record), tables.get(record))
            create_views(connection)
            with translate_duckdb_errors():
                answer = QueryAnswer.run(connection, asking.sql, asking.params, holder=asking.holder)
            yield answer


@contextmanager
def _run_query_within(asking: ChildQuestion, load: Load, bound: Bound) -> Iterator[Received]:
    """The same in a process of its own, which has `bound.seconds` to plan, and to answer."""
    from ktrace.analysis.answers.query.children import Children, stored

    with closing(Children()) as children, children.one() as child:
        plan = child.plan(asking.sql, asking.params, bound)
        with closing(Spill(MEMORY)) as spill, scratch_folder() as folder:
            tables = load(plan, spill) if plan.tables else {}
            yield child.ask(replace(asking, tables=stored(tables, folder)), bound)


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
        counts, launches, catalog = _Counts(), LaunchTable(spill), Catalog()
        labelled = selection.replace(classify=selection.classify or True)
        batches = read_selected(paths_of(src), report, labelled, progress=progress)
        for batch in by_source(pair_halves(batches, report)):
            launches.collect_host(batch)
            launches.collect_work(batch)
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
        columns = [row for row in rows if row["view"] == view.name]
        lines.append(f"{view.name:<9}  {columns[0]['rows']:>11,} rows   {view.about}")
        names = ", ".join(row["column"] for row in columns if row["filled"])
        lines += textwrap.wrap(names, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"
