"""Reads the columns that a query needs into tables that can be scanned several times.

rows of one record   in memory; above a limit in a temporary Parquet file
canonical Parquet    is scanned where it is, if nothing has to be added to its rows

Which call launched which device work is a table, too: found as for a summary, by correlation id or by arrows.

source  id  call_id  call              call_ts  call_dur  call_pid  call_tid  queue
rank0   49  7        cudaLaunchKernel  1_000    6_000     4242      4242      1_500
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ktrace.analysis.answers.query.engine import LAUNCHED, LAUNCHED_SCHEMA, Plan, table_schema
from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.gather import WorkInput, kinds_in
from ktrace.analysis.work.stored_columns import BLOCK, StoredColumns, by_source, source_of
from ktrace.errors import KtraceError
from ktrace.input.boundary import input_faults
from ktrace.input.detection import by_name, choose
from ktrace.input.expand import expanded
from ktrace.input.source import Source
from ktrace.model.arrays import Int32, Int64
from ktrace.model.batch import HOST_KINDS, TRACK_COLUMNS, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import encoded
from ktrace.model.schema import RECORDS
from ktrace.naming.taxonomy import taxonomy
from ktrace.report import Report
from ktrace.stages.order.pairing import pair_halves
from ktrace.stages.select.filter import filtered
from ktrace.stages.select.wanted import Filter
from ktrace.store import Spill
from ktrace.store.events import values

if TYPE_CHECKING:
    from ktrace.pipeline.read import Progress
    from ktrace.pipeline.selection import Selection

#: The columns of events and links that joining needs.
JOINING = {
    "events": frozenset({*TRACK_COLUMNS, "id", "parent", "clock", "kind", "name", "ts", "dur", "correlation"}),
    "links": frozenset({"source", "id", "link", "key", "role", "event"}),
}


class LaunchTable:
    """Collects calls and device work from batches, and joins them. Batches have one source each."""

    def __init__(self, spill: Spill) -> None:
        self._gathered = WorkInput(taxonomy(None), spill)
        self._names: dict[str, int] = {}
        self._named = StoredColumns(spill, "call_names", id="i8", name="i4")

    def collect_host(self, batch: Batch) -> None:
        """Collects the calls and arrows of a batch, also those that a filter leaves out."""
        self._gathered.collect_host(batch)
        if batch.record == "events" and len(batch):
            (host,) = kinds_in(batch, HOST_KINDS)
            api = kinds_in(batch, ("api",))[0]
            correlation, _ = values(batch.columns, "correlation")
            rows = np.flatnonzero(api | (host & (correlation != 0)))
            if len(rows):
                id_ = batch.column("id").to_numpy()[rows]
                self._named.add(source_of(batch), id=id_, name=self._numbers(batch, rows))

    def collect_work(self, batch: Batch) -> None:
        """Collects the device work of a batch."""
        self._gathered.collect_work(batch)

    def tables(self) -> Iterator[pa.RecordBatch]:
        """Yields the launches of each source."""
        work = Work.of_devices(self._gathered)
        words = pa.array(self._names, pa.string())
        for events in work.each():
            for first in range(0, len(events), BLOCK):
                rows = first + np.flatnonzero(events.call[first : first + BLOCK] >= 0)
                if len(rows):
                    yield self._batch(events, rows, words, work)

    def _batch(self, events: Events, rows: Int64, words: pa.Array, work: Work) -> pa.RecordBatch:
        calls, call = events.calls, events.call[rows]
        ids, waits = calls["id"][call], events.waits[rows]
        dur, thread = calls["dur"][call], calls["thread"][call]
        named = self._named.for_source(events.source)
        order = np.argsort(named["id"], kind="stable")
        name = named["name"][order[np.searchsorted(named["id"], ids, sorter=order)]]
        places = {part: pa.array([one[part] for one in work.threads], pa.int64()) for part in ("pid", "tid")}
        columns = {
            "source": pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), [events.source]),
            "id": pa.array(events.ids[rows]),
            "call_id": pa.array(ids),
            "call": pa.DictionaryArray.from_arrays(pa.array(name), words),
            "call_ts": pa.array(calls["ts"][call]),
            "call_dur": pa.array(dur, mask=dur < 0),
            "call_pid": places["pid"].take(pa.array(thread)),
            "call_tid": places["tid"].take(pa.array(thread)),
            "queue": pa.array(waits, mask=waits < 0),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in LAUNCHED_SCHEMA.names], schema=LAUNCHED_SCHEMA)

    def _numbers(self, batch: Batch, rows: Int64) -> Int32:
        """The numbers of the names of these rows."""
        words = encoded(batch.column("name"))
        codes = words.indices.to_numpy(zero_copy_only=False)[rows]
        used, which = np.unique(codes, return_inverse=True)
        texts = words.dictionary.take(pa.array(used)).to_pylist()
        numbers = np.array([self._names.setdefault(text, len(self._names)) for text in texts], np.int32)
        name_ids: Int32 = numbers[which]
        return name_ids


#: Bytes of rows in memory, above which they wait in files.
MEMORY = 256 << 20

#: Name of a table -> an Arrow table, or a dataset of files.
Tables = dict[str, Any]


class RecordRows:
    """The rows of one record, with some columns. No rows may be added after `table`."""

    def __init__(self, spill: Spill, record: str, columns: Iterable[str]) -> None:
        chosen = frozenset(columns)
        self._schema = pa.schema([field for field in table_schema(record) if field.name in chosen])
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
    *,
    scan: bool = True,
) -> Tables:
    """The tables of a plan, from inputs, which may be scanned where they are. Raises InputError for one that is bad."""
    from ktrace.pipeline.read import read_selected

    filter = selection.filter
    direct = _direct(paths, plan, selection, report) if scan else {}
    missing = Plan({record: columns for record, columns in plan.tables.items() if record not in direct})
    if not missing.tables:
        return direct
    columns = {name for record in missing.tables for name in missing.tables[record]}
    if missing.launches:
        columns |= JOINING["events"] | JOINING["links"]
    batches = read_selected(
        paths,
        report,
        selection.replace(
            classify=selection.classify or missing.labels,
            filter=Filter(ranks=filter.ranks) if filter and filter.ranks else None,
        ),
        progress=progress,
        columns=frozenset(columns),
    )
    conditions = filter and replace(filter, ranks=())
    return tables_of(batches, missing, spill, report, conditions) | direct


def tables_of(
    batches: Iterable[Batch], plan: Plan, spill: Spill, report: Report, filter: Filter | None = None
) -> Tables:
    """The tables of a plan, from batches that are labelled if the plan needs labels. Only rows of `filter` stay."""
    rows = {record: RecordRows(spill, record, columns) for record, columns in plan.tables.items()}
    catalog = Catalog()
    launches = LaunchTable(spill) if plan.launches else None
    collected = _collecting(by_source(pair_halves(batches, report)), launches)
    for batch in collected if filter is None else filtered(collected, filter, report):
        if batch.record == "catalog":
            catalog.add(batch)
        elif batch.record in rows and len(batch):
            rows[batch.record].add(batch)
        if launches is not None:
            launches.collect_work(batch)
    if "catalog" in rows and len(catalog):
        rows["catalog"].add(catalog.to_batch())
    if launches is not None:
        for columns in launches.tables():
            rows[LAUNCHED].append(columns)
    return {record: record_rows.table() for record, record_rows in rows.items()}


def _collecting(batches: Iterable[Batch], launches: LaunchTable | None) -> Iterator[Batch]:
    """Yields the batches after `launches` has seen the calls in them."""
    for batch in batches:
        if launches is not None:
            launches.collect_host(batch)
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
    records = [record for record in plan.tables if record in RECORDS[:-1]]
    with input_faults(source.path, fmt):
        tables: Tables = scan(source, records) or {}
    return tables
