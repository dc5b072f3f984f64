"""Writes one Arrow IPC file: the union of all records, or with `--table` one record with its own columns."""

from __future__ import annotations

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.converters._shared.canonical.flat_table import FlatTable
from ktrace.model.batch import VERSION, Batch
from ktrace.model.json_text import decoded
from ktrace.output.sink import Sink


class _FileWriter(pa.ipc.RecordBatchFileWriter):  # type: ignore[misc]
    """A writer that isn't finished when it is deleted: the output was aborted then, and its stream is closed."""

    def __del__(self) -> None:
        """Leaves the file as it is."""


class Writer:
    """A TableWriter. Texts are plain: an IPC file can't add words to a dictionary."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._table = conversion.options.get("table")
        self._stream = sink.open()
        self._rows = FlatTable(self._table, conversion.report)
        self._writer: _FileWriter | None = None

    def write(self, batch: Batch) -> int:
        """Writes the rows and returns how many it kept."""
        if self._table not in (None, batch.record):
            return 0
        for part in self._rows.add(batch):
            self._write(part)
        return len(batch)

    def close(self) -> None:
        """Writes the remaining rows and the footer."""
        self._write(self._rows.rest())
        assert self._writer is not None
        self._writer.close()

    def _write(self, part: pa.Table) -> None:
        columns = [decoded(column) if not pa.types.is_nested(column.type) else column for column in part.columns]
        facts = {"ktrace.version": VERSION} | ({"ktrace.record": self._table} if self._table else {})
        plain = pa.table(columns, schema=pa.schema(_fields(part, columns), metadata=facts))
        if self._writer is None:
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            self._writer = _FileWriter(self._stream, plain.schema, options=options)
        self._writer.write_table(plain, 65_536)


def _fields(part: pa.Table, columns: list[pa.ChunkedArray]) -> list[pa.Field]:
    return [pa.field(name, column.type) for name, column in zip(part.column_names, columns, strict=True)]
