"""Writes canonical Parquet: one file with the union of all records, or a folder with one file per record."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktrace.conversion import Conversion
from ktrace.kit.canonical import json_rows
from ktrace.kit.canonical.flat_tables import FlatTable
from ktrace.model.batch import VERSION, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.schema import RECORDS
from ktrace.output import Sink
from ktrace.report import Report

#: Arrow types -> (pandas_type, numpy_type) of pandas' own metadata: pandas reads integers with nulls as Int64.
_PANDAS = {
    pa.int64(): ("int64", "Int64"),
    pa.int32(): ("int32", "Int32"),
    pa.float64(): ("float64", "float64"),
    pa.bool_(): ("bool", "boolean"),
    pa.string(): ("unicode", "string"),
}


#: Numbers that rise or change from row to row; they are stored as differences.
_RISING = ("id", "parent", "ts", "dur", "correlation", "external_id", "event")

#: Columns with few repeated values, where a dictionary would be wasted work.
_DISTINCT = (
    *("args", "facts", "key", "value", "percent"),
    *("total", "avg", "median", "min", "max", "stddev", "p95", "p99"),
)

#: Columns that queries filter by: each row group stores their smallest and largest values.
_FILTERED_BY = (
    *("record", "source", "id", "parent", "ts", "dur", "kind", "pid", "tid", "device", "stream", "correlation"),
    *("external_id", "event"),
)


def _storage(names: list[str]) -> dict[str, Any]:
    """The storage options of the columns."""
    return {
        # Without Arrow's own schema in the file, dictionaries are only a form of storage: readers get plain text.
        "store_schema": False,
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [name for name in names if name not in (*_RISING, *_DISTINCT)],
        "column_encoding": {name: "DELTA_BINARY_PACKED" for name in _RISING if name in names},
        "write_statistics": [name for name in _FILTERED_BY if name in names],
    }


class Writer:
    """Writes batches as they come, in row groups, and the merged catalog at the end.

    In a folder the catalog is a file; in one file it is part of the footer. With the option `table`, only the rows
    of that record are written, with its own columns.
    """

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._catalog = Catalog()
        table = conversion.options.get("table")
        report = conversion.report
        records: tuple[str | None, ...] = (table,) if table or not sink.is_folder else RECORDS
        self._files = {record: _File(sink, record, report) for record in records}
        self._folder = sink.is_folder and not table

    def write(self, batch: Batch) -> int:
        """Writes the rows and returns how many it kept."""
        if batch.record == "catalog":
            self._catalog.add(batch)
            return len(batch)
        file = self._files.get(batch.record) or self._files.get(None)
        if file is None:
            return 0
        file.write(batch)
        return len(batch)

    def close(self) -> None:
        """Writes the remaining rows, the catalog and the footers."""
        catalog = self._catalog.to_batch()
        if "catalog" in self._files:
            self._files["catalog"].write(catalog)
        for file in self._files.values():
            file.close(None if self._folder else catalog)


class _ParquetWriter(pq.ParquetWriter):  # type: ignore[misc]
    """A writer that isn't finished when it is deleted: the output was aborted then, and its stream is closed."""

    def __del__(self) -> None:
        """Leaves the file as it is."""


class _File:
    """One Parquet file."""

    def __init__(self, sink: Sink, record: str | None, report: Report) -> None:
        self._stream = sink.open(f"{record}.parquet" if sink.is_folder else None)
        self._record = record
        self._rows = FlatTable(record, report)
        self._writer: _ParquetWriter | None = None

    def write(self, batch: Batch) -> None:
        for part in self._rows.add(batch):
            self._write(part)

    def close(self, catalog: Batch | None) -> None:
        schema = self._write(self._rows.rest())
        footer = {"pandas": _pandas_metadata(schema)}
        if self._record:
            footer["ktrace.record"] = self._record
        if catalog is not None:
            facts = json_rows(catalog).view(pa.string()).to_pylist()
            footer["ktrace.catalog"] = f"[{','.join(facts)}]"
        # The version comes last: a probe sees the end of the file.
        assert self._writer is not None
        self._writer.add_key_value_metadata(footer | {"ktrace.version": VERSION})
        self._writer.close()

    def _write(self, part: pa.Table) -> pa.Schema:
        if self._writer is None:
            self._writer = _ParquetWriter(self._stream, part.schema, **_storage(part.schema.names))
        if part.num_rows:
            self._writer.write_table(part)
        return part.schema


def _pandas_metadata(schema: pa.Schema) -> str:
    columns = []
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        pandas_type, numpy_type = _PANDAS.get(kind, ("object", "object"))
        columns.append(
            {
                "name": field.name,
                "field_name": field.name,
                "pandas_type": pandas_type,
                "numpy_type": numpy_type,
                "metadata": None,
            }
        )
    return json.dumps({"index_columns": [], "column_indexes": [], "columns": columns, "creator": {"library": "ktrace"}})
