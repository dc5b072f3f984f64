"""Writes one flat CSV table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv

from ktrace.conversion import Conversion
from ktrace.kit.canonical.flat_table import FlatWriter
from ktrace.model.json_text import decoded, json_cells
from ktrace.output.sink import Sink

from .formulas import guarded


class Writer(FlatWriter):
    """Writes all records with the union of their columns, or with the option `table` one record with its own."""

    _writer: pa.csv.CSVWriter | None = None

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        super().__init__(sink, conversion)
        self._formulas = "formulas" in conversion.options

    def _end(self) -> None:
        assert self._writer is not None
        self._writer.close()

    def _write(self, part: pa.Table) -> None:
        cells = pa.table(
            {name: self._cells(column) for name, column in zip(part.column_names, part.columns, strict=True)}
        )
        if self._writer is None:
            self._stream.write(",".join(cells.column_names).encode() + b"\n")
            self._writer = pa.csv.CSVWriter(
                self._stream, cells.schema, write_options=pa.csv.WriteOptions(include_header=False)
            )
        self._writer.write_table(cells)

    def _cells(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The column as a type that Arrow writes: texts with quotes, numbers without."""
        if pa.types.is_nested(column.type):
            return pa.chunked_array([json_cells(chunk) for chunk in column.chunks], pa.string())
        return decoded(guarded(column, formulas=self._formulas))
