"""Reads a canonical Arrow IPC file as the stream that it contains: also from a pipe, and what is left of a cut one.

ARROW1 00 00 | schema | record batches | end of stream | footer | ARROW1

Writes one Arrow IPC file: the union of all records, or with `--table` one record with its own columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.canonical import check_version
from ktrace.kit.canonical.flat_tables import FlatRows, FlatWriter, record_of_columns
from ktrace.kit.canonical.unique_ids import with_unique_ids
from ktrace.model.batch import VERSION, Batch
from ktrace.model.json_text import decoded

_MAGIC = b"ARROW1\0\0"
_FAULTS = (OSError, EOFError, MemoryError, UnicodeDecodeError, pa.ArrowException)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the batches of the file. Raises DamagedInput where it isn't a canonical Arrow file, and VersionError."""
    return with_unique_ids(_read(source, conversion), conversion.report)


def _read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    with source.open() as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise _damaged(source, "it doesn't begin with ARROW1")
        try:
            file = pa.ipc.open_stream(pa.PythonFile(stream, mode="r"))
            names = file.schema.names  # may be of any bytes
        except _FAULTS as error:
            raise _damaged(source, str(error)) from None
        metadata = file.schema.metadata or {}
        if version := metadata.get(b"ktrace.version"):
            check_version(version.decode("utf-8", "replace"), conversion, source.path, "the schema")
        record = None if {"record", "source", "id"} <= set(names) else record_of_columns(names)
        if record is None and "record" not in names:
            raise _damaged(source, f"its columns are {', '.join(names[:8])}")
        rows, first = FlatRows(conversion, record), 1
        for part in _parts(file, conversion):
            for offset in range(0, part.num_rows, conversion.batch_rows):
                yield from rows.batches(part.slice(offset, conversion.batch_rows), first + offset)
            first += part.num_rows
        if not stream.read().endswith(_MAGIC[:6]):
            conversion.report.record()
            conversion.report.issue("cut", f"after row {first - 1}", "the end of the file is missing")


def _parts(file: Any, conversion: Conversion) -> Iterator[pa.RecordBatch]:
    """Yields the record batches up to the end, or to the first that can't be read."""
    while True:
        try:
            part = file.read_next_batch()
            part.validate(full=True)
        except StopIteration:
            return
        except _FAULTS as error:
            conversion.report.record()
            conversion.report.issue("bad-record", "a record batch", str(error).splitlines()[0][:120])
            return
        yield part


def _damaged(source: Source, what: str) -> DamagedInput:
    return DamagedInput(
        f"isn't a canonical Arrow file: {what}",
        path=source.path,
        where="the start of the file",
        expected="an Arrow IPC file with the columns of ktrace's model",
        remedy="export it again",
    )


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
