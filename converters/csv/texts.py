"""A canonical CSV table as texts of records, for `ktrace validate`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.converters._shared.canonical.encode import is_json, one_line
from ktrace.converters._shared.canonical.record_lines import utf8
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.model.batch import VERSION, WORD, union_schema
from ktrace.model.json_rows import Cells as Member
from ktrace.model.json_rows import as_text, join_rows
from ktrace.model.json_text import dump_json, quoted
from ktrace.model.record_texts import Fault, RecordRun

from .reader import Cells, table_record

_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def texts(source: Source) -> Iterator[RecordRun | Fault]:
    """The rows as records; a cell that is no number where the model wants one becomes a string, and so a fault."""
    yield RecordRun(0, None, [b'{"ktrace":"%s"}' % VERSION.encode()])
    with source.open() as raw:
        cells = Cells(utf8(raw), source.path)
        number = 0
        try:
            record = table_record(cells.heads, source.path)
            for number, part in cells.parts():
                yield RecordRun(number, None, _json(part, record).to_pylist())
        except DamagedInput as error:
            yield Fault(number, "$", error.what)
        for row, count in cells.broken:
            yield Fault(row, "$", f"has {count} cells of {len(cells.heads)}")


def _json(part: pa.RecordBatch, record: str | None) -> pa.BinaryArray:
    columns = {name: _text(cells) for name, cells in zip(part.schema.names, part.columns, strict=True)}
    words = columns.pop("record", pa.array([WORD[record or "events"]] * part.num_rows, pa.string()))
    members = [Member('{"record":', pc.fill_null(words, ""))]
    for name, cells in columns.items():
        if cells.null_count < len(cells):
            members.append(Member(f",{dump_json(name)}:", as_text(_member(name, cells))))
    return join_rows([*members, "}"], part.num_rows)


def _text(cells: pa.BinaryArray) -> pa.StringArray:
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if cell is None else cell.decode(errors="replace") for cell in cells.to_pylist()]
        return pa.array(texts, pa.string())


def _member(name: str, cells: pa.StringArray) -> pa.StringArray:
    """The cells as JSON values of the column's type."""
    if is_json("events", name) or is_json("catalog", name) or name == "scope":
        valid = [text is None or _is_json(text) for text in cells.to_pylist()]
        return pc.if_else(pa.array(valid, pa.bool_()), one_line(cells), quoted(cells))
    kind = union_schema().field(name).type if name in union_schema().names else None
    if kind is None or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if kind is not None and pa.types.is_floating(kind):
            for written, spelled in _SPECIAL.items():
                cells = pc.if_else(pc.equal(cells, written), spelled, cells)
        return pc.if_else(pc.match_substring_regex(cells, _NUMBER), cells, quoted(cells))
    return quoted(cells)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
