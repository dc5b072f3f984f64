"""Joins batches to one flat table with fixed columns: shared by the writers of Parquet, Arrow and CSV."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.canonical import extra_columns
from ktrace.model.batch import Batch, arrow_schema, union_schema
from ktrace.model.json_text import decoded
from ktrace.model.schema import WORD
from ktrace.output import Sink
from ktrace.report import Report

from .flat_rows import folded

#: Rows collected before the columns of the table are fixed, and for each further part of it.
PART = 131_072

#: Bytes of columns at which a part is full although it has fewer rows.
PART_BYTES = 64 << 20


class FlatTable:
    """Collects batches and yields them as Arrow tables of one schema, about `PART` rows at a time.

    The columns are those of `record`, or for None the column `record` and the union of all records; then the columns
    of other packages that occur in the first part. Later ones are kept in `args` and reported.
    """

    def __init__(self, record: str | None, report: Report) -> None:
        self._record = record
        self._report = report
        self._waiting: list[Batch] = []
        self._rows = self._bytes = 0
        self._schema: pa.Schema | None = None
        self._nulls: dict[pa.DataType, pa.Array] = {}

    def add(self, batch: Batch) -> Iterator[pa.Table]:
        """Adds a batch and yields the parts of the table that are full."""
        for offset in range(0, len(batch), PART):
            part = Batch(batch.record, batch.columns.slice(offset, PART))
            if self._rows and self._rows + len(part) > PART:
                yield self._part()
            self._waiting.append(part)
            self._rows += len(part)
            self._bytes += part.columns.nbytes
            if self._rows >= PART or self._bytes >= PART_BYTES:
                yield self._part()

    def rest(self) -> pa.Table:
        """The remaining rows; the table has its schema even without rows."""
        return self._part()

    def _part(self) -> pa.Table:
        if self._schema is None:
            self._schema = self._fixed_schema()
        parts = [
            pa.RecordBatch.from_arrays(self._columns(batch, self._schema), schema=self._schema)
            for batch in self._waiting
        ]
        self._waiting, self._rows, self._bytes = [], 0, 0
        return pa.Table.from_batches(parts, self._schema).unify_dictionaries()

    def _fixed_schema(self) -> pa.Schema:
        columns = {field.name: field.type for field in (arrow_schema(self._record) if self._record else union_schema())}
        for batch in self._waiting:
            for name in extra_columns(batch):
                kind = batch.columns.schema.field(name).type
                columns.setdefault(name, kind.value_type if pa.types.is_dictionary(kind) else kind)
        return pa.schema(columns.items())

    def _columns(self, batch: Batch, schema: pa.Schema) -> list[pa.Array]:
        own = set(arrow_schema(batch.record).names)
        late = {name: batch.columns.column(name) for name in extra_columns(batch) if name not in schema.names}
        home = "facts" if batch.record == "catalog" else "args"
        for name in late:
            self._report.issue("unknown-column", name, "came after the columns of the table were fixed", len(batch))
        arrays = []
        for field in schema:
            if field.name == "record" and not self._record:
                words = pa.repeat(pa.scalar(0, pa.int32()), len(batch))
                array = pa.DictionaryArray.from_arrays(words, [WORD[batch.record]])
            elif field.name == home:
                text = batch.args_text() if home == "args" else batch.column(home)
                array = folded(text, late) if late else text
            elif batch.has(field.name) and (field.name in own or field.name.startswith("x_")):
                array = batch.columns.column(field.name)
            else:
                array = self._null(field.type, len(batch))
            arrays.append(_as(array, field.type))
        return arrays

    def _null(self, kind: pa.DataType, rows: int) -> pa.Array:
        """A column of nulls: a slice of one array per type, because tables have many such columns."""
        nulls = self._nulls.get(kind)
        if nulls is None or len(nulls) < rows:
            nulls = self._nulls[kind] = pa.nulls(max(rows, 1 << 16), kind)
        return nulls.slice(0, rows)


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind and not (pa.types.is_dictionary(kind) and array.dictionary.null_count):
        return array
    array = decoded(array)
    return array.cast(pa.string()).dictionary_encode() if pa.types.is_dictionary(kind) else array.cast(kind)


class FlatWriter(ABC):
    """A TableWriter of one flat table: all records with the union of their columns, or one record with its own."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._table = conversion.options.get("table")
        self._stream = sink.open()
        self._rows = FlatTable(self._table, conversion.report)

    def write(self, batch: Batch) -> int:
        """Writes the rows and returns how many it kept."""
        if self._table not in (None, batch.record):
            return 0
        for part in self._rows.add(batch):
            self._write(part)
        return len(batch)

    def close(self) -> None:
        """Writes the remaining rows and the end of the file."""
        self._write(self._rows.rest())
        self._end()

    @abstractmethod
    def _write(self, part: pa.Table) -> None:
        """Writes rows; the first ones decide the columns."""

    @abstractmethod
    def _end(self) -> None:
        """Writes what follows the last row."""
