"""The stats of many events or names as columns, one for each name of a stat.

stats { metadata_id: 3 uint64_value: 18 }      correlation_id    18         int64
stats { metadata_id: 9 ref_value: 27 }         hlo_op            "dot.1"    a text: the name of the stat 27
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.protobuf import FIXED64, LENGTH, VARINT, distinct_of, parse, signed, signed_one, texts_at
from ktrace.model.arrays import AnyArray, Int64, UInt8, UInt64
from ktrace.model.json_text import dump_json

from .metadata import Metadata, text_column

#: Kinds of values: the field of XStat with the value. COMPRESSED is a text in gzip, of which this many bytes are read.
DOUBLE, UINT, INT, TEXT, BYTES, REF, COMPRESSED = 2, 3, 4, 5, 6, 7, 8
_WIRE = {DOUBLE: FIXED64, UINT: VARINT, INT: VARINT, TEXT: LENGTH, BYTES: LENGTH, REF: VARINT, COMPRESSED: LENGTH}
_LONGEST = 1 << 20


class Stats(NamedTuple):
    """Values of one stat: the row, the kind of value, the number or the length of the bytes, where they begin."""

    row: Int64
    kind: UInt8
    number: UInt64
    start: Int64


class StatReader:
    """Reads the stats of a plane; `names` are its stat_metadata."""

    def __init__(self, data: UInt8, names: Metadata) -> None:
        self._data, self._metadata = data, names
        self._names: dict[int, str] = {}

    def read(self, row: Int64, begin: Int64, end: Int64) -> dict[str, Stats]:
        """Returns the stats at data[begin:end] by name; `row` is the row of each. The last one of a row counts."""
        found = parse(self._data, begin, end)
        count = len(begin)
        kind, number, start = np.zeros(count, np.uint8), np.zeros(count, np.uint64), np.zeros(count, np.int64)
        for which, wire in _WIRE.items():
            column = found.get(which, wire)
            kind[column.owner], number[column.owner], start[column.owner] = which, column.value, column.start
        kind[found.bad] = 0
        key = signed(found.get(1, VARINT).last(count))
        distinct, code = distinct_of(key)
        order = np.argsort(code.astype(np.int32), kind="stable")
        cuts = np.searchsorted(code[order], np.arange(len(distinct) + 1))
        stats: dict[str, Stats] = {}
        for index, identity in enumerate(distinct.tolist()):
            mine = order[cuts[index] : cuts[index + 1]]
            mine = mine[kind[mine] > 0]
            if len(mine):
                part = Stats(row[mine], kind[mine], number[mine], start[mine])
                name = self._name(identity)
                stats[name] = _joined(stats[name], part) if name in stats else part
        return stats

    def _name(self, identity: int) -> str:
        if identity not in self._names:
            name = self._metadata.names(np.array([identity]))[0]
            self._names[identity] = name or f"[stat {identity}]"
        return self._names[identity]

    def column(self, stats: Stats, rows: int) -> pa.Array:
        """The column of one stat: int64, float64 or text; JSON text where values of several types occur."""
        kinds = set(np.unique(stats.kind).tolist())
        if kinds <= {UINT, INT} and not (stats.number[stats.kind == UINT] >> np.uint64(63)).any():
            return _numbers(stats.row, signed(stats.number), rows)
        if kinds == {DOUBLE}:
            return _numbers(stats.row, stats.number.view(np.float64), rows)
        if kinds <= {TEXT, REF, COMPRESSED, BYTES}:
            return self._text_column(stats, rows)
        return self._mixed(stats, rows)

    def _text_column(self, stats: Stats, rows: int) -> pa.DictionaryArray:
        indices = np.full(rows, -1, np.int64)
        texts: list[str] = []
        for kind in np.unique(stats.kind).tolist():
            part = _of_kind(stats, kind)
            found, code = self._texts(kind, part)
            indices[part.row] = code + len(texts)
            texts += found
        return text_column(texts, indices)

    def _texts(self, kind: int, stats: Stats) -> tuple[list[str], Int64]:
        """Returns distinct texts, and for each stat the index of its text."""
        if kind == REF:
            distinct, code = distinct_of(stats.number.view(np.int64))
            return [name or "" for name in self._metadata.names(distinct)], code
        found = texts_at(self._data, stats.start, signed(stats.number)).dictionary_encode()
        read: Callable[[bytes], str] = {BYTES: _base64, COMPRESSED: _inflated}.get(kind, _decoded)
        return [read(text) for text in found.dictionary.to_pylist()], found.indices.to_numpy().astype(np.int64)

    def _mixed(self, stats: Stats, rows: int) -> pa.Array:
        """Values of several types as JSON text."""
        cells: list[bytes | None] = [None] * rows
        for kind in np.unique(stats.kind).tolist():
            part = _of_kind(stats, kind)
            if kind in (DOUBLE, INT, UINT):
                as_number = {DOUBLE: _double, INT: signed_one}.get(kind, int)
                values = [as_number(number) for number in part.number.tolist()]
            else:
                texts, code = self._texts(kind, part)
                values = [texts[index] for index in code.tolist()]
            for row, value in zip(part.row.tolist(), values, strict=True):
                cells[row] = dump_json(value).encode()
        return pa.array(cells, pa.binary())


def _joined(first: Stats, second: Stats) -> Stats:
    row, kind = np.concatenate([first.row, second.row]), np.concatenate([first.kind, second.kind])
    number = np.concatenate([first.number, second.number])
    return Stats(row, kind, number, np.concatenate([first.start, second.start]))


def _of_kind(stats: Stats, kind: int) -> Stats:
    mine = stats.kind == kind
    return Stats(*(column[mine] for column in stats))


def _numbers(row: Int64, values: AnyArray, rows: int) -> pa.Array:
    cells = np.zeros(rows, values.dtype)
    missing = np.ones(rows, np.bool_)
    cells[row], missing[row] = values, False
    return pa.array(cells, mask=missing) if missing.any() else pa.array(cells)


def _decoded(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _inflated(value: bytes) -> str:
    try:
        return zlib.decompressobj(47).decompress(value, _LONGEST).decode("utf-8", "replace")
    except zlib.error:
        return _base64(value)


def _double(value: int) -> float:
    found: float = struct.unpack("<d", struct.pack("<Q", value))[0]
    return found
