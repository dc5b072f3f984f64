"""Reads the columns that a query needs into tables that can be scanned several times.

rows of one record   in memory; above a limit in a temporary Parquet file
canonical Parquet    is scanned where it is, if nothing has to be added to its rows
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktrace.analysis.query.launches import COLUMNS as JOINING
from ktrace.analysis.query.launches import Launches
from ktrace.analysis.query.plan import Plan
from ktrace.analysis.query.views import LAUNCHED, table_schema
from ktrace.analysis.work.columns import by_source
from ktrace.errors import KtraceError
from ktrace.input.boundary import input_faults
from ktrace.input.detection import by_name, choose
from ktrace.input.expand import expanded
from ktrace.input.source import Source
from ktrace.model.batch import RECORDS, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import encoded
from ktrace.report import Report
from ktrace.stages.pair import pair_halves
from ktrace.stages.select.filter import Filter, filtered
from ktrace.store.spill import Spill

if TYPE_CHECKING:
    from ktrace.pipeline.read import Progress
    from ktrace.pipeline.selection import Selection

#: Bytes of rows in memory, above which they wait in files.
MEMORY = 256 << 20

#: Name of a table -> an Arrow table, or a dataset of files.
Tables = dict[str, Any]


class Rows:
    """The rows of one record, with some columns. No rows may be added after `table`."""

    def __init__(self, spill: Spill, record: str, columns: Iterable[str]) -> None:
        mine = frozenset(columns)
        self._schema = pa.schema([field for field in table_schema(record) if field.name in mine])
        self._schema = pa.schema([field.with_nullable(True) for field in self._schema])
        self._spill, self._name = spill, spill.take(f"{record}.parquet")
        self._waiting: list[pa.RecordBatch] = []
        self._nulls: dict[tuple[str, int], pa.Array] = {}
        self._writer: Any = None

    def add(self, batch: Batch) -> None:
        """Adds the rows of a batch."""
        self.append(pa.RecordBatch.from_arrays([self._column(batch, one) for one in self._schema], schema=self._schema))

    def append(self, columns: pa.RecordBatch) -> None:
        """Adds rows with all columns of the schema, in its order or with others between them."""
        columns = columns.select(self._schema.names)
        self._spill.add(sum(one.nbytes for one in columns.columns if one.null_count < len(one)))
        self._waiting.append(columns)
        if self._spill.folder:
            if self._writer is None:
                # Without Arrow's own schema, texts come back as texts and not as dictionaries.
                self._writer = pq.ParquetWriter(
                    self._spill.folder / self._name,
                    self._schema,
                    compression="lz4",
                    write_statistics=False,
                    store_schema=False,
                )
            for one in self._waiting:
                self._writer.write_batch(one)
            self._waiting.clear()

    def table(self) -> Any:
        """The rows, for DuckDB: a table, or a dataset of a file."""
        if self._writer is None:
            return pa.Table.from_batches(self._waiting, self._schema)
        import pyarrow.dataset as ds

        self._writer.close()
        assert self._spill.folder is not None
        return ds.dataset(self._spill.folder / self._name, format="parquet")

    def _column(self, batch: Batch, field: pa.Field) -> pa.Array:
        if field.name == "args" and batch.typed_args():
            return batch.args_text()
        if not batch.has(field.name) or batch.column(field.name).null_count == len(batch):
            key = field.name, len(batch)  # one array of nulls for all batches of this length
            if key not in self._nulls:
                self._nulls[key] = _nulls(len(batch), field.type)
            return self._nulls[key]
        column = batch.column(field.name)
        if pa.types.is_dictionary(field.type):
            column = encoded(column)
        return column.cast(field.type)


def _nulls(length: int, kind: pa.DataType) -> pa.Array:
    """A column of nulls. DuckDB 1.4 and 1.5 crash on a dictionary without words."""
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(pa.nulls(length, kind.index_type), pa.array([""], pa.string()))
    return pa.nulls(length, kind)


def loaded(
    paths: Sequence[str],
    plan: Plan,
    selection: Selection,
    report: Report,
    spill: Spill,
    progress: Progress | None = None,
) -> Tables:
    """The tables of a plan, from inputs. Raises InputError where an input can't be read."""
    from ktrace.pipeline.read import read_selected

    filter = selection.filter
    direct = _direct(paths, plan, selection, report)
    missing = Plan({record: columns for record, columns in plan.tables.items() if record not in direct})
    if not missing.tables:
        return direct
    columns = {name for record in missing.tables for name in missing.tables[record]}
    if missing.launches:
        columns |= JOINING["events"] | JOINING["links"]
    batches = read_selected(
        paths,
        report,
        selection.but(
            classify=selection.classify or missing.labels,
            filter=Filter(ranks=filter.ranks) if filter and filter.ranks else None,
        ),
        progress=progress,
        columns=frozenset(columns),
    )
    rest = filter and replace(filter, ranks=())
    return tables_of(batches, missing, spill, report, rest) | direct


def tables_of(
    batches: Iterable[Batch], plan: Plan, spill: Spill, report: Report, filter: Filter | None = None
) -> Tables:
    """The tables of a plan, from batches that are labelled if the plan needs labels. Only rows of `filter` stay."""
    rows = {record: Rows(spill, record, columns) for record, columns in plan.tables.items()}
    catalog = Catalog()
    launches = Launches(spill) if plan.launches else None
    known = _known(by_source(pair_halves(batches, report)), launches)
    for batch in known if filter is None else filtered(known, filter, report):
        if batch.record == "catalog":
            catalog.add(batch)
        elif batch.record in rows and len(batch):
            rows[batch.record].add(batch)
        if launches is not None:
            launches.count(batch)
    if "catalog" in rows and len(catalog):
        rows["catalog"].add(catalog.to_batch())
    if launches is not None:
        for columns in launches.tables():
            rows[LAUNCHED].append(columns)
    return {record: own.table() for record, own in rows.items()}


def _known(batches: Iterable[Batch], launches: Launches | None) -> Iterator[Batch]:
    """Yields the batches after `launches` has seen the calls in them."""
    for batch in batches:
        if launches is not None:
            launches.know(batch)
        yield batch


def _direct(paths: Sequence[str], plan: Plan, selection: Selection, report: Report) -> Tables:
    """The tables of the plan that can be scanned where they are: those of one canonical input, with nothing to add."""
    if plan.labels or len(paths) != 1 or not selection.reads_all() or selection.map is not None:
        return {}
    if not (Path(paths[0]).is_file() or Path(paths[0]).is_dir()):  # standard input can be read only once
        return {}
    try:
        (one,) = expanded(paths, Report(), selection.from_)
        source = Source(one.path)
        fmt = by_name(selection.from_) if selection.from_ else one.format or choose(source)
        scan = fmt.function("scan")
    except (KtraceError, ValueError):  # raised again when it is read; or there are several
        return {}
    if scan is None:
        return {}
    wanted = [record for record in plan.tables if record in RECORDS[:-1]]
    with input_faults(source.path, fmt):
        found: Tables = scan(source, wanted) or {}
    return found
