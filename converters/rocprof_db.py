"""The SQLite database that `rocprof` (ROCm 2 to 6) writes next to its CSV with --hip-trace, --hsa-trace, --sys-trace.

    HIP, HSA   BeginNs, EndNs, pid, tid, Name, args, Index, Data, __section, __lane         calls
    OPS, COPY  BeginNs, EndNs, dev-id, queue-id, Name, pid, tid, roctx-range, stream-id, Index, ...   work of HIP
    COPY       BeginNs, EndNs, Name, pid, tid, Index, ...         without HIP: copies that HSA traced
    rocTX      BeginNs, EndNs, pid, tid, Name, Index, ...         ranges and marks
    KERN       Index, KernelName, gpu-id, ..., counters           the rows of results.csv

Facts: rocprofiler's bin/tblextr.py, which makes the database, results.csv and results.json of one run.

Reads rocprof's database: calls, work of queues, copies, ranges, and the kernels of results.csv with their counters.

    HIP   hipLaunchKernel  pid 7, Index 3       api, correlation 3
    OPS   gemm             pid 7, Index 3       kernel, correlation 3; `tid` and `stream-id` of its launch are arguments
    COPY  CopyHostToDevice pid 7, Index 4       memcpy; FillBuffer would be a memset

The Index of a call of HSA counts calls of HSA: it isn't that of a call of HIP, and stays an argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.columnar.csv_blocks import CsvRows, CsvTable
from ktrace.kit.rocm.common import copy_kinds, executed, short_names, work_kind
from ktrace.kit.rocm.dispatches import IDS, DispatchRows
from ktrace.kit.rocm.tables import DISPATCH
from ktrace.kit.sqlite import Database, opened
from ktrace.kit.sqlite.lookup import FirstId, first_ids
from ktrace.kit.text.headings import Dialect
from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded
from ktrace.model.row_builder import RowBuilder

_TRACED = frozenset(("hip", "hsa", "kfd", "ops", "copy", "roctx"))


def probe(sample: Sample) -> Match | None:
    """MAGIC for a traced table with rocprof's own columns, or for its table of kernels."""
    for name, columns in (sample.tables or {}).items():
        names = {column.casefold() for column in columns}
        traced = name.casefold() in _TRACED and {"beginns", "endns", "name", "__section", "__lane"} <= names
        if traced or (name.casefold() == "kern" and {"index", "kernelname", "gpu-id"} <= names):
            return Match(Score.MAGIC, f"is an SQLite database with rocprof's table {name}")
    return None


_BEGIN, _END = "BeginNs", "EndNs"
_WHOLE = ("Index", _BEGIN, _END, "pid", "tid", "dev-id", "queue-id", "stream-id")
_TEXTS = ("Name", "args", "Data", "roctx-range", "KernelName")

#: A copy that HSA traced: its Index is that of a call of HSA.
_OF_HSA = "async-copy"
_BARRIER = "<barrier packet>"


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of the tables, one table after the other. Raises DamagedInput for an unreadable database."""
    with opened(source, conversion) as database:
        database.declare(whole=_WHOLE, texts=_TEXTS)
        tables = {
            name: name_in_file
            for name in ("HIP", "HSA", "KFD", "rocTX", "OPS", "COPY", "KERN")
            for name_in_file in database.like(name)[:1]
        }
        ids = first_ids(
            database, [(name_in_file, IDS if name == "KERN" else 1) for name, name_in_file in tables.items()]
        )
        for name, name_in_file in tables.items():
            if name == "KERN":
                yield from _dispatches(database, name_in_file, ids[name_in_file], conversion)
            else:
                yield from _traced(database, name, name_in_file, ids[name_in_file], conversion)
        rows = RowBuilder(conversion, first_id=0)
        rows.tool_and_clock("rocprof", "monotonic")
        yield from rows.rest()
        database.report_others(ids)


def _traced(database: Database, name: str, table: str, ids: FirstId, conversion: Conversion) -> Iterator[Batch]:
    """Yields the events of a table of the trace."""
    batches = BatchBuilder(conversion)
    for block in database.blocks(table, conversion.batch_rows):
        sound = timed(executed(block, conversion, _BEGIN, _END), conversion, _BEGIN, _END)
        if not len(sound):
            continue
        sound.drop("__section", "__lane", "DurationNs")
        times = {**sound.span(_BEGIN, _END), "pid": sound.take("pid")}
        if name in ("OPS", "COPY"):
            yield _work(batches, sound, ids, times, is_copies=name == "COPY")
        else:
            kind = "range" if name == "rocTX" else "api"
            correlation = sound.take("Index") if name == "HIP" else None
            texts = {f"args.{key}": _filled(sound.take(key)) for key in ("args", "Data")}
            columns: dict[str, Any] = {key: text for key, text in texts.items() if text is not None}
            yield batches.events(
                sound,
                ids.of(sound.numbers),
                kind=kind,
                name=sound.take("Name"),
                cat=table,
                tid=sound.take("tid"),
                correlation=correlation,
                **times,
                **columns,
            )


def _work(batches: BatchBuilder, block: Block, ids: FirstId, times: dict[str, Any], *, is_copies: bool) -> Batch:
    """The work of queues: kernels, copies, fills, barriers, by their names."""
    names = block.take("Name")
    names = pa.nulls(len(block), pa.string()) if names is None else pc.utf8_trim(names, '"')
    words = encoded(names)
    kinds = [_kind(word, is_copies=is_copies) for word in words.dictionary.to_pylist()]
    kind = pc.fill_null(pa.array(kinds, pa.string()).take(words.indices), _kind("", is_copies=is_copies))
    index, ranges = block.take("Index"), _filled(block.take("roctx-range"))
    of_hsa = pc.fill_null(pc.equal(names, _OF_HSA), False)
    columns: dict[str, Any] = {
        "correlation": None if index is None else pc.if_else(of_hsa, None, index),
        "args.Index": None if index is None else pc.if_else(of_hsa, index, None),
        "args.roctx-range": None if ranges is None else pc.if_else(pc.equal(ranges, names), None, ranges),
        "args.Data": _filled(block.take("Data")),
        "copy_kind": copy_kinds(names) if is_copies else None,
    }
    return batches.events(
        block,
        ids.of(block.numbers),
        kind=kind,
        name=names,
        short_name=short_names(names),
        device=block.take("dev-id"),
        stream=block.take("queue-id"),
        **times,
        **columns,
    )


def _kind(name: str, *, is_copies: bool) -> str:
    """The kind of work: the table of copies has fills, too, that of kernels barriers, whatever their names are."""
    if is_copies:
        return work_kind(name) or "memcpy"
    return "sync" if name == _BARRIER else "kernel"


def _filled(column: pa.Array | None) -> pa.Array | None:
    """A column of texts without empty ones."""
    return None if column is None else pc.if_else(pc.equal(column, ""), None, column)


def _dispatches(database: Database, table: str, ids: FirstId, conversion: Conversion) -> Iterator[Batch]:
    """Yields the kernels of results.csv and their counters: the table has the columns of that file."""
    headings = tuple(name for name in database.tables[table] if name != "DurationNs")
    units = ("",) * len(headings)
    as_csv = CsvTable(0, 0, headings, units, DISPATCH, Dialect(",", spaced=False))
    rows = DispatchRows(conversion, first_id=ids.first - ids.least * IDS)
    for block in database.blocks(table, conversion.batch_rows, headings):
        columns = {name: block.get(name) for name in headings}
        texts = {name: column.cast(pa.string()) for name, column in columns.items() if column is not None}
        texts |= {name: pc.utf8_trim(texts[name], '"') for name in ("KernelName",) if name in texts}
        yield from rows.rows(CsvRows(as_csv, Block(block.place, block.numbers, texts)))


FORMAT = Format(
    "rocprof-db",
    "ROCm rocprof database (results.db)",
    patterns=("*.db",),
    probe=probe,
    read=read,
    database=True,
)
