"""SQL on a trace, with DuckDB: what can be asked for, and the answers of inputs, or of tables that stay in memory.

`ktrace.query` makes an Arrow table, or a stream of batches, of an input and a text of SQL. A `Database` is loaded once,
then asked many times, in milliseconds.

loading    reads the columns that a query needs, and which call launched which work, into tables
output     writes an answer: table, CSV, TSV, JSON, JSON Lines, Markdown, Parquet
engine     DuckDB: views, connections without access to files, which tables a text of SQL needs, errors as ours
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.query.engine import (
    CALL_COLUMNS,
    JOINED,
    JOINED_SCHEMA,
    LAUNCHED,
    VIEWS,
    WORK_KEY,
    Plan,
    connected,
    create_views,
    described,
    errors_as_ours,
    everything,
    is_several,
    planned,
    sql_type,
    table_name,
    table_schema,
)
from ktrace.analysis.query.loading import MEMORY, Launches, Tables, loaded, tables_of
from ktrace.analysis.work.gather import kinds_in
from ktrace.analysis.work.stored_columns import by_source
from ktrace.errors import KtraceError, UsageError
from ktrace.input.expand import paths_of
from ktrace.input.limits import limited
from ktrace.model.batch import DEVICE_KINDS, RECORDS, Batch
from ktrace.model.catalog import Catalog
from ktrace.report import Report
from ktrace.scratch import scratch_folder
from ktrace.store import SPILL_BYTES, Spill

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ktrace.pipeline.read import Progress
    from ktrace.pipeline.selection import Options, Selection

#: Rows of a batch of the answer.
_ROWS = 65_536

#: What DuckDB makes of a sum of whole numbers.
_WHOLE = pa.decimal128(38, 0)


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
    with asked(src, sql, params, selection=selection, progress=progress, **options) as answer:
        return whole_numbers(answer.read_all())


@contextmanager
def asked(
    src: str | Path | Sequence[str | Path],
    sql: str,
    params: Mapping[str, Any] | None = None,
    *,
    report: Report | None = None,
    selection: Selection | None = None,
    progress: Progress | None = None,
    **options: Unpack[Options],
) -> Iterator[Answer]:
    """Yields the answer as a stream; the arguments are those of `query`, and the report to fill in."""
    from ktrace.pipeline.selection import selected

    wanted, account = selected(selection, options), report or Report()
    wanted.require_unset("a query", "split_by")

    def load(plan: Plan, spill: Spill) -> Tables:
        return loaded(paths_of(src), plan, wanted, account, spill, progress)

    with _answered(sql, params, load, wanted.jobs) as answer:
        yield answer


def query_batches(batches: Callable[[bool], Iterable[Batch]], sql: str, params: Mapping[str, Any] | None) -> pa.Table:
    """The answer about batches; they are asked for with or without labels."""

    def load(plan: Plan, spill: Spill) -> Tables:
        return tables_of(batches(plan.labels), plan, spill, Report())

    with _answered(sql, params, load, None) as answer:
        return whole_numbers(answer.read_all())


class Answer:
    """The rows of an answer, with the names of its columns: unique, as DuckDB states them otherwise."""

    @classmethod
    def of(cls, connection: Any, sql: str, params: Mapping[str, Any] | None, rows: int | None = None) -> Answer:
        """The answer to a query, at most so many rows of it. Raises UsageError, and what DuckDB raises."""
        found = connection.sql(sql, params=dict(params) if params else None)
        if found is None:
            raise UsageError("SQL: this has no result", expected="one query, such as: from events")
        if rows is not None:
            found = found.limit(rows)
        reader = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
        return cls(reader(_ROWS))

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        fields = zip(_unique(reader.schema.names), reader.schema.types, strict=True)
        self.schema = pa.schema(list(fields))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with errors_as_ours():
            for batch in self._reader:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def read_all(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(list(self), self.schema)


@contextmanager
def _answered(
    sql: str, params: Mapping[str, Any] | None, load: Callable[[Plan, Spill], Tables], jobs: int | None
) -> Iterator[Answer]:
    plan = planned(sql, params)
    spill = Spill(MEMORY)
    try:
        with scratch_folder() as folder:
            tables = load(plan, spill) if plan.tables else {}
            with connected(folder, jobs) as connection:
                for record in (*RECORDS, LAUNCHED):
                    register(connection, record, table_schema(record), tables.get(record))
                create_views(connection)
                with errors_as_ours():
                    answer = Answer.of(connection, sql, params)
                yield answer
    finally:
        spill.close()


def register(connection: Any, record: str, schema: pa.Schema, table: Any) -> None:
    """Makes a table known, with all columns of its schema; those that nothing needs are null."""
    table = schema.empty_table() if table is None else table
    there = set(table.schema.names)
    connection.register(f"ktrace_{record}_rows", table)
    shown = (
        f'"{one.name}"' if one.name in there else f'CAST(NULL AS {sql_type(one.type)}) AS "{one.name}"'
        for one in schema
    )
    connection.execute(f"CREATE VIEW {table_name(record)} AS SELECT {', '.join(shown)} FROM ktrace_{record}_rows")


def _unique(names: Sequence[str]) -> list[str]:
    """The names, with _1 and so on where one occurs before."""
    found: dict[str, None] = {}
    for name in names:
        own, number = name, 0
        while own in found:
            number += 1
            own = f"{name}_{number}"
        found[own] = None
    return list(found)


def whole_numbers(table: pa.Table) -> pa.Table:
    """The table, with sums of whole numbers as int64 where all values fit."""
    for place, field in enumerate(table.schema):
        if field.type == _WHOLE:
            try:
                column = pc.cast(table.column(place), pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(place, field.name, column)
    return table


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
        labelled = selection.replace(classify=selection.classify or True)
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


class Database:
    """The views of `ktrace.query` on all rows and columns of a trace, with labels if its batches have them.

    `nbytes` is the size of its tables. A query takes at most `memory` bytes besides, and writes no files.
    """

    def __init__(self, batches: Iterable[Batch], memory: int) -> None:
        with ExitStack() as stack:
            spill = Spill(1 << 62)  # whoever keeps it bounds it
            stack.callback(spill.close)
            tables = tables_of(batches, everything(), spill, Report())
            self._connection = stack.enter_context(connected(memory=memory))
            tables["events"] = _joined(self._connection, tables["events"], tables.pop(LAUNCHED))
            self.nbytes = sum(table.nbytes for table in tables.values())
            for record in RECORDS:
                schema = JOINED_SCHEMA if record == "events" else table_schema(record)
                register(self._connection, record, schema, tables[record])
            create_views(self._connection, JOINED)
            self._open = stack.pop_all()

    def ask(self, sql: str, params: Mapping[str, Any] | None = None, *, rows: int, seconds: float) -> pa.Table:
        """The first rows of an answer.

        Raises UsageError where the SQL is wrong, or isn't one query, KtraceError where it takes longer than that.
        """
        late = threading.Event()

        def stop() -> None:
            late.set()
            self._connection.interrupt()

        clock = threading.Timer(seconds, stop)
        clock.start()
        try:
            with errors_as_ours():
                is_several(self._connection, sql)  # raises for what isn't one query
                answer = Answer.of(self._connection, sql, params, rows)
            return whole_numbers(answer.read_all())
        except KtraceError:
            if late.is_set():
                raise KtraceError(
                    f"the query took longer than {seconds:g} s", remedy="ask for less: a filter, fewer joins"
                ) from None
            raise
        finally:
            clock.cancel()

    def close(self) -> None:
        """Frees the tables."""
        self._open.close()


#: The place of the call of each event, null where there is none.
_PLACES = (
    "SELECT min(c.place) AS place FROM work w LEFT JOIN calls c USING (source, id) GROUP BY w.place ORDER BY w.place"
)


def _joined(connection: Any, events: pa.Table, launched: pa.Table) -> pa.Table:
    """The events with the columns of the calls that launched them, null where there is none.

    A join with each question would take three times as long as the rest of it.
    """
    launched = launched.unify_dictionaries().combine_chunks()
    for name, table in (("work", events), ("calls", launched)):
        keys = table.select(WORK_KEY).append_column("place", pa.array(np.arange(len(table))))
        connection.register(name, keys)
    place = Answer.of(connection, _PLACES, None).read_all()["place"]
    for name in ("work", "calls"):
        connection.unregister(name)
    for name in CALL_COLUMNS:
        events = events.append_column(name, launched[name].take(place))
    return events
