"""JSON objects, one to a line or in a list, as blocks of columns: text for the columns of a mapping, else JSON text.

    {"op":"gemm","span":{"begin":12.5},"gpu":0}      op: gemm   span.begin: 12.5   gpu: 0
    {"host":"a","runs":[{"op":"gemm","ms":12.5}]}    op: gemm   ms: 12.5           of the list "runs"

Numbers stay as the file writes them: no time passes through a float. `a.b` is the member b of the object a, unless the
line has a key "a.b"; an object with members that aren't mapped stays an argument as a whole.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.compression import mark_size, utf8
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import Block, is_sparse
from ktrace.kit.columnar.dictionaries import by_distinct, is_utf8, no_gc
from ktrace.kit.text.json_items import json_items, plain_value
from ktrace.kit.text.lines import LineAccount
from ktrace.model.json_text import NOT_JSON, dump_json

#: Bytes of lines that are decoded at once.
CHUNK = 1 << 20

Record = dict[str, msgspec.Raw]

_RECORDS = msgspec.json.Decoder(list[Record])
_RECORD = msgspec.json.Decoder(Record)
_TEXT = msgspec.json.Decoder(str)


class JsonLines(LineAccount):
    """The objects of a source in blocks. Every line is counted; blank ones are structure, bad ones are skipped."""

    def __init__(self, source: Source, conversion: Conversion, columns: Iterable[str]) -> None:
        super().__init__(conversion.report)
        self._source = source
        self._rows_at_once = conversion.batch_rows
        self._columns = tuple(dict.fromkeys(columns))
        self._line = 1
        self._pos = 0  # of the next line, in bytes

    def __iter__(self) -> Iterator[Block]:
        with self._source.open() as stream:
            self._report.bytes.open += 1
            self._pos = mark_size(stream)
            self.pass_over("structure", self._pos)
            whole = utf8(stream)
            lines = self._coming(whole, 1)
            while lines:
                coming = self._coming(whole, self._line + len(lines))
                self._report.record(len(lines))
                with no_gc():
                    records, numbers = self._decoded(lines, last=not coming)
                for part in self._parts(records, 0, len(records)):
                    columns = _columns(records[part], self._columns)
                    yield Block("line", pa.array(numbers[part], pa.int64()), columns)
                self._line += len(lines)
                lines = coming
        self._report.bytes.open -= 1
        self.finish()

    def _parts(self, records: list[Record], first: int, end: int) -> Iterator[slice]:
        """Yields parts of the objects that aren't too large, nor too different for columns."""
        part = records[first:end]
        half = (first + end) // 2
        if half > first and (
            len(part) > self._rows_at_once
            or is_sparse(len(dict.fromkeys(chain.from_iterable(part))), len(part), sum(map(len, part)))
        ):
            yield from self._parts(records, first, half)
            yield from self._parts(records, half, end)
        elif part:
            yield slice(first, end)

    def _coming(self, stream: BinaryIO, number: int) -> list[bytes]:
        """The next lines, `number` and so on."""
        return io.BytesIO(current().lines(stream, CHUNK, number)).readlines()

    def _decoded(self, lines: list[bytes], *, last: bool) -> tuple[list[Record], Sequence[int]]:
        """The objects in some lines, and the numbers of their lines."""
        text = b"".join(lines)
        if is_utf8(text) and _are_objects(text, len(lines)):
            try:
                records = _RECORDS.decode(b"[" + b",".join(lines) + b"]")
            except NOT_JSON:
                records = []
            if len(records) == len(lines):
                self.pass_over("read", len(text))
                self._pos += len(text)
                return records, range(self._line, self._line + len(lines))
        return self._one_by_one(lines, last=last)

    def _one_by_one(self, lines: list[bytes], *, last: bool) -> tuple[list[Record], list[int]]:
        records: list[Record] = []
        numbers: list[int] = []
        for number, line in enumerate(lines, self._line):
            self._pos += len(line)
            if not line.strip():
                self.begin(number, len(line), self._pos - len(line))
                self.structure()
                continue
            try:
                records.append(_RECORD.decode(self._text(line, number)))
            except NOT_JSON as error:
                self.begin(number, len(line), self._pos - len(line))
                is_cut = last and number == self._line + len(lines) - 1 and not line.endswith(b"\n")
                self.skip("cut" if is_cut else "bad-record", "isn't a JSON object" if not is_cut else str(error))
            else:
                numbers.append(number)
                self.pass_over("read", len(line))
        return records, numbers

    def _text(self, line: bytes, number: int) -> bytes:
        """The line as UTF-8."""
        if is_utf8(line):
            return line
        self._report.issue("encoding", f"line {number}")
        return line.decode("utf-8", "replace").encode()


def element_blocks(source: Source, conversion: Conversion, columns: Iterable[str], key: str) -> Iterator[Block]:
    """The objects in one list of a document in blocks: that below `key`, "" for a document that is a list."""
    report, mapped = conversion.report, tuple(dict.fromkeys(columns))
    records: list[Record] = []
    numbers: list[int] = []
    for item in json_items(source, report):
        report.record()
        if item.problem or not item.listed or item.key != key:
            report.issue(item.problem or "unrecognised", item.where, item.text[:80] or "not in the list that is read")
        elif not isinstance(item.value, dict):
            report.issue("bad-record", item.where, "isn't a JSON object")
        else:
            records.append({name: msgspec.Raw(dump_json(plain_value(it)).encode()) for name, it in item.value.items()})
            numbers.append(item.number)
        if len(records) >= conversion.batch_rows:
            yield Block("element", pa.array(numbers, pa.int64()), _columns(records, mapped))
            records, numbers = [], []
    if records:
        yield Block("element", pa.array(numbers, pa.int64()), _columns(records, mapped))


def _columns(records: list[Record], mapped: Sequence[str]) -> dict[str, pa.Array]:
    """The columns of some objects; those that are `mapped` are cells."""
    columns: dict[str, pa.Array] = {}
    for key in dict.fromkeys(chain.from_iterable(records)):
        column = _values(records, key)
        columns[key] = cell_texts(column) if key in mapped else _without_null(column)
    for name in mapped:
        if name not in columns and "." in name:
            values = [member(record, name) for record in records]
            columns[name] = cell_texts(pa.array(values, pa.binary()))
    for key in {name.partition(".")[0] for name in mapped} & columns.keys() - set(mapped):
        columns[key] = _without_mapped(key, columns[key], mapped)
    return columns


def _without_mapped(key: str, column: pa.BinaryArray, mapped: Sequence[str]) -> pa.BinaryArray:
    """The objects of a key; null for those all of whose members are mapped themselves."""
    members = {name.removeprefix(f"{key}.") for name in mapped if name.startswith(f"{key}.")}
    whole = [text is None or not _is_mapped(text, members) for text in column.to_pylist()]
    return pc.if_else(pa.array(whole), column, pa.scalar(None, pa.binary()))


def _are_objects(text: bytes, lines: int) -> bool:
    """Whether every line begins and ends as an object does."""
    if not text.startswith(b"{") or text.count(b"\n{") != lines - 1:
        return False
    ends = text.count(b"}\n") + text.endswith(b"}")
    return ends == lines or ends + text.count(b"}\r\n") == lines


def _values(records: list[Record], key: str) -> pa.BinaryArray:
    """The JSON texts of a key, null where an object doesn't have it."""
    try:
        values = list(map(itemgetter(key), records))
    except KeyError:
        texts = (record.get(key) for record in records)
        return pa.array([None if value is None else bytes(value) for value in texts], pa.binary())
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=offsets[1:])
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )


def member(record: Record, path: str) -> bytes | None:
    """Returns the JSON text of a member by its path, a.b.c; None if there is none."""
    if path in record:
        return bytes(record[path])
    key, dot, rest = path.partition(".")
    while dot and key not in record:  # the key itself may contain points
        more, dot, rest = rest.partition(".")
        key = f"{key}.{more}"
    if not dot or not bytes(record[key]).lstrip().startswith(b"{"):
        return None
    try:
        return member(_RECORD.decode(record[key]), rest)
    except NOT_JSON:
        return None


def _is_mapped(text: bytes, mapped: set[str]) -> bool:
    """Whether the text is an object all of whose members are mapped."""
    if not text.startswith(b"{"):
        return False
    try:
        return _RECORD.decode(text).keys() <= mapped
    except NOT_JSON:
        return False


def cell_texts(column: pa.BinaryArray) -> pa.StringArray:
    """JSON values as cells: a string without its quotes, null for null, any other value as it is written."""
    cells = pc.cast(column, pa.string())
    quoted = pc.starts_with(cells, '"')
    if pc.any(quoted).as_py():
        if pc.any(pc.match_substring(cells, "\\")).as_py():
            cells = by_distinct(cells, _unquoted, pa.string())
        else:
            cells = pc.if_else(quoted, pc.binary_slice(cells.cast(pa.binary()), 1, -1).cast(pa.string()), cells)
    return pc.if_else(pc.equal(column, b"null"), pa.scalar(None, pa.string()), cells)


def _unquoted(text: str) -> str:
    return _TEXT.decode(text) if text.startswith('"') else text


def _without_null(column: pa.BinaryArray) -> pa.BinaryArray:
    return pc.if_else(pc.equal(column, b"null"), pa.scalar(None, pa.binary()), column)


def paths_in(record: Record, deep: int = 3) -> Iterator[str]:
    """Yields the keys of an object, and those of objects in it as paths."""
    for key, value in record.items():
        yield key
        if deep and bytes(value).lstrip().startswith(b"{"):
            try:
                inner: Any = _RECORD.decode(value)
            except NOT_JSON:
                continue
            yield from (f"{key}.{path}" for path in paths_in(inner, deep - 1))
