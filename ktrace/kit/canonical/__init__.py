"""The canonical records, which ktrace writes and reads back: decoded from JSON, and encoded.

    {"ktrace":"1.0"}                                                          header, structure
    {"record":"event","source":"run","id":1,"ts":1000,"args":{"queued":0},"kind":"kernel","name":"gemm","dur":40,...}

Records are decoded strictly first. A record that doesn't match the model is decoded again: columns and kinds that this
version doesn't know are kept in `args` and reported; any other fault makes it a "bad-record".

The rows of a batch are encoded a column at a time: null columns are left out; `args` and `facts` are embedded as their
JSON text; NaN and the infinities are strings. Arrow joins the texts of the columns, so Python code runs only for
strings that need escapes.

record_forms        finds the records in JSON Lines and in JSON documents, and writes them
record_batches      makes batches of many records at once
flat_tables         batches as one table, for Parquet, Arrow and CSV, and back
unique_ids          what all readers of these leave out: rows that repeat an id
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from decimal import Decimal
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput, VersionError
from ktrace.model.batch import VERSION, Batch, arrow_schema, is_required
from ktrace.model.json_rows import Cells, Part, as_text, join_rows
from ktrace.model.json_text import SPECIAL, decoded, dump_json, load_json, refuse_deep
from ktrace.model.schema import RECORDS, WORD, fields
from ktrace.report import Report

Row = Any

RECORD = {word: record for record, word in WORD.items()}

ABSENT = msgspec.Raw(b"")
_WHOLE_NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class BadRecord(Exception):
    """A record that can't be read; the message is the reason."""


def check_version(version: object, conversion: Conversion, path: str, where: str) -> None:
    """Accepts versions 1.y and reports one newer than ours. Raises VersionError for another major version."""
    match = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", version) if isinstance(version, str) else None
    if not match:
        raise DamagedInput(
            f"{str(version)[:40]!r} isn't a version of the model",
            path=path,
            where=where,
            expected=f'"{VERSION}"',
            remedy="export the file again with ktrace",
        )
    ours = VERSION.split(".")
    if match.group(1) != ours[0]:
        raise VersionError(
            f"was written in version {version} of the model; this ktrace reads {ours[0]}.x",
            path=path,
            where=where,
            expected=f"version {ours[0]}.x",
            remedy=f"use a ktrace that reads {version}, or export the file again",
        )
    if int(match.group(2)) > int(ours[1]):
        conversion.report.issue("newer-minor", where, f"version {version}; this ktrace knows {VERSION}", 0)


class RecordDecoder:
    """Decodes one record at a time: strictly, then leniently where the strict decoder refuses it."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._decode = record_decoder().decode
        self._extra_types: dict[tuple[str, str], type] = {}

    def decode(self, text: bytes, where: str) -> tuple[str, Row, dict[str, Any]]:
        """Returns a record's name, its struct and the columns of other packages. Raises BadRecord."""
        try:
            return self._decoded(text, where)
        except (RecursionError, ValueError):
            raise BadRecord("$: is nested too deeply") from None

    def _decoded(self, text: bytes, where: str) -> tuple[str, Row, dict[str, Any]]:
        refuse_deep(text)
        if not text.isascii():
            text = self._valid_utf8(text, where)
        extra: dict[str, Any] = {}
        try:
            row = self._decode(text)
        except msgspec.DecodeError:
            row, extra = self._decode_leniently(text, where)
        record = RECORD[row.__struct_config__.tag]
        embedded = row.facts if record == "catalog" else row.args
        if embedded is not ABSENT and bytes(embedded)[:1] not in (b"{", b"n"):
            raise BadRecord(f"$.{'facts' if record == 'catalog' else 'args'}: isn't an object")
        return record, row, extra

    def _decode_leniently(self, text: bytes, where: str) -> tuple[Row, dict[str, Any]]:
        """Decodes a record that the strict decoder refused: keeps unknown columns and kinds, refuses the rest."""
        try:
            members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError as error:
            raise BadRecord(_reason(error)) from None
        cells = {name: bytes(raw) for name, raw in members.items() if bytes(raw) != b"null"}
        record = _record_of(cells)
        names, unknown, extra = fields(record), {}, {}
        for name in [name for name in cells if name not in names and name != "record"]:
            value = self._extra_value(record, name, cells[name]) if name.startswith("x_") else None
            if value is None:
                unknown[f"${name}"] = cells[name]
                self._report.issue("unknown-column", where, f"{name} isn't a column of {record}")
            else:
                extra[name] = value
            del cells[name]
        if replaced := _unknown_kind(record, cells):
            unknown["$kind"] = cells["kind"]
            cells["kind"] = replaced
            self._report.issue("unknown-kind", where, f"kind {unknown['$kind'].decode()}, read as {replaced.decode()}")
        if unknown:
            home = "facts" if record == "catalog" else "args"
            cells[home] = _with_members(cells.get(home), unknown)
        try:
            row = record_decoder(strict=False).decode(_object(_whole_numbers(record, cells)))
        except msgspec.DecodeError as error:
            raise BadRecord(_reason(error)) from None
        return row, extra

    def _valid_utf8(self, text: bytes, where: str) -> bytes:
        try:
            text.decode()
        except UnicodeDecodeError:
            self._report.issue("encoding", where)
            return text.decode(errors="replace").encode()
        return text

    def _extra_value(self, record: str, name: str, raw: bytes) -> Any:
        """The value of another package's column; None where its type differs from the column's earlier values."""
        value = load_json(raw)
        if isinstance(value, (list, dict)):
            value = raw.decode()
        if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
            return None
        before = self._extra_types.setdefault((record, name), type(value))
        if before is float and (isinstance(value, int) or value in SPECIAL):
            return SPECIAL.get(value, value) if isinstance(value, str) else float(value)
        return value if isinstance(value, before) else None


def _record_of(cells: dict[str, bytes]) -> str:
    """The name of the record. Raises BadRecord."""
    word = load_json(cells.get("record", b"null"))
    if word not in WORD.values():
        raise BadRecord(f"$.record: {json.dumps(word)} isn't one of {', '.join(WORD.values())}")
    return RECORD[word]


def _unknown_kind(record: str, cells: dict[str, bytes]) -> bytes | None:
    """The kind to read in place of one that the model doesn't know: range for a slice, instant for a point."""
    if "kind" not in cells or not isinstance(kind := load_json(cells["kind"]), str):
        return None
    if record not in ("events", "summaries") or kind.startswith("x_") or kind in kinds(record):
        return None
    return b'"range"' if record == "summaries" or "dur" in cells else b'"instant"'


@cache
def kinds(record: str) -> frozenset[str]:
    """The kinds that the model names for events or summaries."""
    return frozenset(fields(record)["kind"]["anyOf"][0]["enum"])


def _with_members(text: bytes | None, members: dict[str, bytes]) -> bytes:
    """The text of an object with members appended; their values are unchanged."""
    text = (text or b"{}").strip()
    if not text.startswith(b"{"):
        raise BadRecord("$.args: isn't an object")
    inside = text[1:-1].strip()
    added = _object(members)[1:-1]
    return b"{" + (inside + b"," if inside else b"") + added + b"}"


def _object(members: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + raw for name, raw in members.items()) + b"}"


def _whole_numbers(record: str, cells: dict[str, bytes]) -> dict[str, bytes]:
    """The cells with integers in place of 12.0 or 1e3 where the model has an integer."""
    for name, raw in cells.items():
        spec = fields(record).get(name, {})
        if spec.get("type") == "integer" and _WHOLE_NUMBER.fullmatch(raw) and not raw.lstrip(b"-").isdigit():
            try:
                number = Decimal(raw.decode())
                if number.adjusted() < 20 and number == number.to_integral_value():
                    cells[name] = b"%d" % int(number)
            except ArithmeticError:  # beyond the exponents of Decimal
                continue
    return cells


def _reason(error: msgspec.DecodeError) -> str:
    """msgspec's message with the path first: '$.dur: Expected `int | null`, got `str`'."""
    message, _, path = str(error).partition(" - at ")
    return f"{path.strip('`')}: {message}" if path else message


@cache
def record_decoder(
    columns: tuple[tuple[str, frozenset[str]], ...] = (), *, as_list: bool = False, strict: bool = True
) -> msgspec.json.Decoder[Any]:
    """A decoder for any record, or for a list of records; a strict one also refuses other packages' kinds.

    `columns` limits records to some of their columns: a record with others is refused.
    """
    limits = dict(columns)
    record: Any = reduce(or_, [_struct(name, strict, limits.get(name)) for name in RECORDS])
    return msgspec.json.Decoder(list[record] if as_list else record)


def _struct(record: str, strict: bool, columns: Collection[str] | None = None) -> type[msgspec.Struct]:
    """The struct of a record; its members are all columns of the model, or `columns`, in the model's order."""
    members: list[Any] = []
    for name, spec in fields(record).items():
        if columns is not None and name not in columns:
            continue
        kind = _type(spec, strict)
        if is_json(record, name):
            members.append((name, kind, ABSENT))
        else:
            members.append((name, kind) if is_required(record, name) else (name, kind | None, None))
    return msgspec.defstruct(
        f"{WORD[record]}",
        members,
        tag_field="record",
        tag=WORD[record],
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )


def _type(spec: dict[str, Any], strict: bool) -> Any:
    if spec["x-arrow"] == "json":
        return msgspec.Raw
    if "enum" in spec:
        return Literal[tuple(spec["enum"])]
    if spec["x-arrow"] == "float64":
        return float | Literal[tuple(SPECIAL)]
    if "anyOf" in spec:  # a kind: one of a list, or another package's
        return Literal[tuple(spec["anyOf"][0]["enum"])] if strict else str
    if spec["type"] == "integer":
        return Annotated[int, msgspec.Meta(ge=spec["minimum"], le=spec["maximum"])]
    if spec["type"] == "array":
        return list[str]
    return Annotated[str, msgspec.Meta(min_length=spec["minLength"])] if "minLength" in spec else str


#: Rows that are joined at once; this bounds the memory of the texts.
CHUNK = 16_384


def encode(batch: Batch, start: str = "", end: str = "\n") -> Iterator[memoryview]:
    """Yields the rows as bytes of JSON, each between `start` and `end`."""
    for offset in range(0, len(batch), CHUNK):
        yield as_bytes(json_rows(Batch(batch.record, batch.columns.slice(offset, CHUNK)), start, end))


def json_rows(batch: Batch, start: str = "", end: str = "") -> pa.BinaryArray:
    """One JSON text per row."""
    columns: dict[str, pa.Array] = {}
    for name in column_names(batch):
        column = batch.args_text() if name == "args" else batch.column(name)
        columns[name] = embedded(column) if is_json(batch.record, name) else column
    return _records(f'{start}{{"record":"{WORD[batch.record]}"', columns, len(batch), end)


def table_texts(rows: pa.RecordBatch, record: str | None, cell: Callable[[str, pa.Array], pa.Array]) -> list[bytes]:
    """The rows of a flat table of `record` (None: the union of all) as the JSON texts of their records.

    `cell` turns a column, given its name, into cells of JSON.
    """
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    words = columns.pop("record", None)
    if record:
        start: Part = f'{{"record":"{WORD[record]}"'
    else:
        start = Cells('{"record":', pc.fill_null(decoded(words), ""))
    cells = {name: cell(name, column) for name, column in columns.items() if column.null_count < len(column)}
    result: list[bytes] = _records(start, cells, rows.num_rows).to_pylist()
    return result


def _records(start: Part, columns: dict[str, pa.Array], rows: int, end: str = "") -> pa.BinaryArray:
    members = [Cells(f",{dump_json(name)}:", column) for name, column in columns.items()]
    return join_rows([start, *members, "}" + end], rows)


def column_names(batch: Batch) -> list[str]:
    """The columns of the batch: the model's columns in their order, then those of other packages."""
    names = [
        name for name in arrow_schema(batch.record).names if batch.has(name) or (name == "args" and batch.typed_args())
    ]
    return names + extra_columns(batch)


def extra_columns(batch: Batch) -> list[str]:
    """The columns of other packages, `x_...`."""
    return [name for name in batch.columns.schema.names if name.startswith("x_")]


def is_json(record: str, column: str) -> bool:
    """Whether the text of the column is JSON itself."""
    return fields(record).get(column, {}).get("x-arrow") == "json"


def embedded(column: pa.Array) -> pa.Array:
    """A column of JSON texts as cells: without line ends, which occur only between the tokens of JSON."""
    text = decoded(column)
    if not pa.types.is_string(text.type):  # of another program
        text = pa.array([None if value is None else dump_json(value) for value in text.to_pylist()], pa.string())
    if pc.any(pc.match_substring_regex(text, r"[\r\n]")).as_py():
        text = pc.replace_substring_regex(text, r"[\r\n]", " ")
    return as_text(text)


def as_bytes(rows: pa.BinaryArray) -> memoryview:
    """The texts of an array, joined; without a copy."""
    offsets = memoryview(rows.buffers()[1]).cast("i")
    first, last = offsets[rows.offset], offsets[rows.offset + len(rows)]
    return memoryview(rows.buffers()[2])[first:last]
