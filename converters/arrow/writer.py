"""Writes one Arrow IPC file: the union of all records, or with `--table` one record with its own columns."""

from __future__ import annotations

import pyarrow as pa

from ktrace.kit.canonical.flat_table import FlatWriter
from ktrace.model.batch import VERSION
from ktrace.model.json_text import decoded


class _FileWriter(pa.ipc.RecordBatchFileWriter):  # type: ignore[misc]
    """A writer that isn't finished when it is deleted: the output was aborted then, and its stream is closed."""

    def __del__(self) -> None:
        """Leaves the file as it is."""


class Writer(FlatWriter):
    """A TableWriter. Texts are plain: an IPC file can't add words to a dictionary."""

    _writer: _FileWriter | None = None

    def _end(self) -> None:
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
