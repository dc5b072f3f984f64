"""Reads a canonical CSV table: its columns in any order; columns that may be null may be absent.

`read` returns batches, for conversion; `texts` the records as texts, for `ktrace validate`.

A column of CSV as JSON values.

Writes one flat CSV table.

Texts that a spreadsheet would evaluate, such as =HYPERLINK(...) or -[MTLCommandBuffer commit].

name                    cell                      with the option `formulas`
=1+1                    "'=1+1"                   "=1+1"
-[MTLBuffer length]     "'-[MTLBuffer length]"    "-[MTLBuffer length]"
'=1+1                   "''=1+1"                  "''=1+1"

Reading removes one apostrophe, so that every text comes back as it was, in either form.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ktrace.byte_account import ByteAccount
from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.compression import mark_size, utf8
from ktrace.input.limits import current, exceeded, sized
from ktrace.input.source import Source
from ktrace.kit.canonical import embedded, is_json, table_texts
from ktrace.kit.canonical.flat_tables import FlatRows, FlatWriter, record_of_columns
from ktrace.kit.canonical.unique_ids import with_unique_ids
from ktrace.kit.text.lines import quoted_cells
from ktrace.model.batch import VERSION, Batch, union_schema
from ktrace.model.json_rows import as_text
from ktrace.model.json_text import NOT_JSON, Fault, RecordRun, decoded, json_cells, json_decoder, quoted
from ktrace.output import Sink

#: What a formula begins with, behind apostrophes of the text itself.
_BEGINS = r"('*[=+\-@\t\r])"
_BEGINS_QUOTED = r"('+[=+\-@\t\r])"

#: Columns of numbers, whose cells are never texts.
_NUMBERS = {
    field.name
    for field in union_schema()
    if not (pa.types.is_string(field.type) or pa.types.is_dictionary(field.type) or pa.types.is_nested(field.type))
}


def guarded(column: pa.ChunkedArray, *, formulas: bool) -> pa.ChunkedArray:
    """Returns a column with an apostrophe before texts that begin like formulas; with `formulas`, only where needed."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, _guarded(chunk.dictionary, formulas))
            for chunk in column.chunks
        ]
        return pa.chunked_array(chunks, kind) if chunks else column
    return _guarded(column, formulas) if pa.types.is_string(kind) else column


def _guarded(texts: pa.Array, formulas: bool) -> pa.Array:
    return pc.replace_substring_regex(texts, f"^{_BEGINS_QUOTED if formulas else _BEGINS}", r"'\1", max_replacements=1)


def unguarded(columns: pa.RecordBatch) -> pa.RecordBatch:
    """Returns columns of texts without those apostrophes."""
    arrays = dict(zip(columns.schema.names, columns.columns, strict=True))
    for name, column in arrays.items():
        if name not in _NUMBERS and pc.any(pc.starts_with(column, "'")).as_py():
            arrays[name] = pc.replace_substring_regex(column, f"^'{_BEGINS}", r"\1", max_replacements=1)
    return pa.RecordBatch.from_pydict(arrays)


_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_column(name: str, cells: pa.StringArray) -> pa.Array:
    """The cells as JSON values of the column's type; what isn't of that type becomes a string."""
    if is_json("events", name) or is_json("catalog", name) or name == "scope":
        valid = [text is None or _is_json(text) for text in cells.to_pylist()]
        return pc.if_else(pa.array(valid, pa.bool_()), embedded(cells), as_text(quoted(cells)))
    kind = union_schema().field(name).type if name in union_schema().names else None
    if kind is None or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if kind is not None and pa.types.is_floating(kind):
            for written, spelled in _SPECIAL.items():
                cells = pc.if_else(pc.equal(cells, written), spelled, cells)
        return as_text(pc.if_else(pc.match_substring_regex(cells, _NUMBER), cells, quoted(cells)))
    return cells


_VALUE = json_decoder(msgspec.Raw)


def _is_json(text: str) -> bool:
    try:
        _VALUE(text.encode())
    except NOT_JSON:
        return False
    return True


#: Bytes that are parsed at once, and on to the end of a line; a row of several lines must be smaller.
BLOCK = 16 << 20


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the batches of the table. A row with a wrong number of cells is skipped; at the end of the file it is cut.

    Raises DamagedInput where the column heads aren't those of the model.
    """
    return with_unique_ids(_read(source, conversion), conversion.report)


def _read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    with source.open() as raw:
        mark = mark_size(raw)
        cells = Cells(utf8(raw), source.path)
        rows = FlatRows(conversion, table_record(cells.heads, source.path))
        for first, part in cells.parts():
            columns = _typed_extras(unguarded(_texts(part)))
            for offset in range(0, columns.num_rows, conversion.batch_rows):
                yield from rows.batches(columns.slice(offset, conversion.batch_rows), first + offset)
        _account_broken(cells, conversion)
        for byte in cells.replaced:
            conversion.report.issue("encoding", f"byte {byte}")
        cells.account(conversion.report.bytes, mark)


def texts(source: Source) -> Iterator[RecordRun | Fault]:
    """Yields the rows as records. A cell that isn't a number where the model wants one becomes a string: a fault."""
    yield RecordRun(0, None, [b'{"ktrace":"%s"}' % VERSION.encode()])
    with source.open() as raw:
        cells = Cells(utf8(raw), source.path)
        first = 0
        try:
            record = table_record(cells.heads, source.path)
            for first, part in cells.parts():
                yield RecordRun(first, None, table_texts(unguarded(_texts(part)), record, json_column))
        except DamagedInput as error:
            yield Fault(first, "$", error.what)
        for row, count in cells.broken:
            yield Fault(row, "$", f"has {count} cells of {len(cells.heads)}")


def table_record(heads: list[str], path: str) -> str | None:
    """The record of a table with these heads, None for the union of all. Raises DamagedInput."""
    double = sorted(head for head, times in Counter(heads).items() if times > 1)
    record = record_of_columns(heads)
    if double or (record is None and not {"record", "source", "id"} <= set(heads)):
        raise DamagedInput(
            f"the column {double[0]} occurs twice" if double else "isn't a canonical table",
            path=path,
            where="line 1",
            expected="the headings record, source, id, ... or those of one record",
            remedy="see docs/model.md",
        )
    return None if "record" in heads else record


class Cells:
    """The table as bytes: its heads, then parts where null and the empty text are distinct.

    `broken` lists the rows with a wrong number of cells: (row from 1, number of cells). `rows` counts the rows so far.
    """

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self._stream = _Ending(stream)
        self._path = path
        self.broken: list[tuple[int, int]] = []
        self.rows = 0
        self._broken_bytes = 0
        line = self._stream.readline().decode(errors="replace").rstrip("\r\n")
        self._head_bytes = self._stream.size
        self.heads = [name.strip() for name in quoted_cells(line)]

    @property
    def replaced(self) -> list[int]:
        """The first place in each part read at once where bytes aren't UTF-8; U+FFFD is in their place."""
        return self._stream.replaced

    @property
    def ends_whole(self) -> bool:
        """Whether the last line had a line end."""
        return self._stream.last in b"\r\n"

    def parts(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yields runs of rows as columns of bytes, each with the number of its first row."""
        if not self.heads:
            return
        try:
            with self._open() as reader:
                for part in reader:
                    yield from self._runs(part)
        except pa.ArrowInvalid as error:
            if "Empty CSV file" not in str(error):
                raise DamagedInput(
                    f"isn't CSV: {error}", path=self._path, where=f"after row {self.rows}", remedy="export it again"
                ) from None

    def _runs(self, part: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Splits the part where a broken row was between its rows."""
        broken = sorted(row for row, _ in self.broken if row > self.rows)
        used = 0
        for row in [*broken, self.rows + len(broken) + part.num_rows + 1]:
            length = min(row - self.rows - 1, part.num_rows - used)
            if length > 0:
                yield self.rows + 1, part.slice(used, length)
            used += max(length, 0)
            self.rows = row - (row not in broken)

    def _open(self) -> Any:
        return pa.csv.open_csv(
            pa.PythonFile(self._stream, mode="r"),
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=BLOCK, column_names=self.heads),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=self._skip),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(self.heads, pa.binary()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )

    def account(self, account: ByteAccount, mark: int) -> None:
        """Divides the bytes of the table, and those of the mark before it, among their owners. Rows have no places."""
        rows = self._stream.size - self._head_bytes
        broken = min(self._broken_bytes, rows)  # U+FFFD is longer than the byte that it replaces
        account.size += mark + self._stream.size
        account.own("structure", mark + self._head_bytes)
        account.skipped += broken
        account.own("read", rows - broken)

    def _skip(self, row: Any) -> str:
        self._broken_bytes += len(row.text.encode("utf-8", "replace"))
        self.broken.append((row.number or 0, row.actual_columns))
        return "skip"


class _Ending:
    """A stream of whole lines that is UTF-8 whatever its bytes were, and remembers its last byte.

    Arrow can't skip a row that isn't UTF-8: it gives up the file. Raises DamagedInput at a line that is too long.
    """

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.size = 0
        self.replaced: list[int] = []
        self._limits = current()  # Arrow reads in a thread of its own
        self.last = b"\n"

    def read(self, size: int = -1) -> bytes:
        while data := self._stream.read(size):
            if len(data) == size and data[-1:] != b"\n":
                data += self._line()  # Arrow takes more than it asked for, but no row beyond its block
            self.last = data[-1:]
            if sound := self._sound(data):
                return sound
        return self._sound(b"")

    def _line(self) -> bytes:
        limits = self._limits
        line = limits.readline(self._stream)
        if len(line) > limits.line:
            raise exceeded("line", f"a line has more than {sized(limits.line)}", limits=limits)
        return line

    def readline(self) -> bytes:
        line = self._line()
        self.last = line[-1:] or self.last
        self.size += len(line)
        return line

    def _sound(self, data: bytes) -> bytes:
        """The bytes with U+FFFD in place of those that aren't UTF-8. A character that isn't complete comes later."""
        before = self._decoder.getstate()[0]
        self.size += len(data)
        if not before and data.isascii():
            return data
        sound = self._decoder.decode(data, final=not data).encode()
        after = self._decoder.getstate()[0]
        given = before + data
        if sound != given[: len(given) - len(after)]:
            common = next(
                (at for at, (ours, theirs) in enumerate(zip(sound, given, strict=False)) if ours != theirs), len(given)
            )
            self.replaced.append(self.size - len(given) + common)
        return sound

    def close(self) -> None:
        """Does nothing: the caller that opened the stream closes it."""


def _texts(part: pa.RecordBatch) -> pa.RecordBatch:
    """The part as text."""
    columns = [column.cast(pa.string()) for column in part.columns]
    return pa.RecordBatch.from_arrays(columns, names=part.schema.names)


def _typed_extras(part: pa.RecordBatch) -> pa.RecordBatch:
    """Converts other packages' columns to numbers where all their cells are numbers."""
    columns = dict(zip(part.schema.names, part.columns, strict=True))
    for name in [name for name in columns if name.startswith("x_")]:
        for kind in (pa.int64(), pa.float64(), pa.bool_()):
            try:
                columns[name] = columns[name].cast(kind)
                break
            except pa.ArrowInvalid:
                continue
    return pa.RecordBatch.from_pydict(columns)


def _account_broken(cells: Cells, conversion: Conversion) -> None:
    """Reports the rows that have too many or too few cells."""
    report = conversion.report
    last = max([cells.rows, *(row for row, _ in cells.broken)])
    report.record(len(cells.broken))
    for row, count in cells.broken:
        cut = row in (0, last) and not cells.ends_whole
        report.issue("cut" if cut else "bad-record", f"row {row}", f"has {count} cells of {len(cells.heads)}")


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
