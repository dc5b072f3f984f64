"""The stats of many events or names as columns, one for each name of a stat; the metadata that have the names.

stats { metadata_id: 3 uint64_value: 18 }      correlation_id    18         int64
stats { metadata_id: 9 ref_value: 27 }         hlo_op            "dot.1"    a text: the name of the stat 27

The metadata of a plane are the names of events and stats, and the stats that all events of a name share. Only their
places are kept: a text is read where a row needs it, so that many long names of HLO instructions cost little.
"""

from __future__ import annotations

import base64
import struct
import zlib
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.protobuf import (
    FIXED64,
    LENGTH,
    VARINT,
    Fields,
    distinct_of,
    parse,
    signed,
    signed_one,
    texts_at,
)
from ktrace.model.arrays import AnyArray, Int64, UInt8, UInt64
from ktrace.model.json_text import dump_json

#: Entries that are parsed at once.
_ENTRIES = 1 << 16


class Metadata:
    """Entries of a map from ids to messages with a name (field 2), perhaps a display name (4) and stats (5).

    An id that occurs twice has its last entry. Entries that aren't protobuf are left out.
    """

    def __init__(self, data: UInt8, places: tuple[array[int], array[int]]) -> None:
        self._data = data
        begin, end = (np.array(side, np.int64) for side in places)
        parts = [
            _entries(data, begin[first : first + _ENTRIES], end[first : first + _ENTRIES])
            for first in range(0, len(begin), _ENTRIES)
        ]
        empty = np.empty(0, np.int64)
        key, first, last = (np.concatenate(side) for side in zip(*parts, strict=True)) if parts else (empty,) * 3
        order = np.argsort(key, kind="stable")
        self._key, self._begin, self._end = key[order], first[order], last[order]

    def __len__(self) -> int:
        return len(self._key)

    def find(self, ids: Int64) -> Int64:
        """The index of each id, -1 for one without an entry."""
        if not len(self._key):
            return np.full(len(ids), -1, np.int64)
        at = np.searchsorted(self._key, ids, side="right") - 1
        position: Int64 = np.where((at >= 0) & (self._key[at] == ids), at, -1)
        return position

    def fields(self, index: Int64) -> Fields:
        """The fields of these entries; an index of -1 has none."""
        none = index < 0
        begin = np.where(none, 0, self._begin[index] if len(self) else 0)
        return parse(self._data, begin, np.where(none, 0, self._end[index] if len(self) else 0))

    def texts(self, fields: Fields, number: int) -> list[str | None]:
        """A text field of each of those entries, None where it is absent or empty."""
        return field_texts(self._data, fields, number)

    def names(self, ids: Int64) -> list[str | None]:
        """The name of each id, None for one without an entry or a name."""
        return self.texts(self.fields(self.find(ids)), 2)

    def all_names(self, most: int) -> list[str]:
        """The names of the first entries."""
        names = self.texts(self.fields(np.arange(min(most, len(self)))), 2)
        return [name for name in names if name]


def field_texts(data: UInt8, fields: Fields, number: int) -> list[str | None]:
    """A text field of each message, None where it is absent or empty. Invalid UTF-8 becomes U+FFFD."""
    decoded_texts: list[str | None] = [None] * fields.count
    column = fields.get(number, LENGTH)
    texts = texts_at(data, column.start, signed(column.value)).to_pylist()
    for owner, text in zip(column.owner.tolist(), texts, strict=True):
        if text:
            decoded_texts[owner] = text.decode("utf-8", "replace")
    return decoded_texts


def _entries(data: UInt8, begin: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns key, start and end of the message of each entry."""
    fields = parse(data, begin, end)
    key = signed(fields.get(1, VARINT).last(len(begin)))
    value = fields.get(2, LENGTH)
    size = signed(value.last(len(begin)))
    start = np.zeros(len(begin), np.int64)
    start[value.owner] = value.start
    good = np.ones(len(begin), np.bool_)
    good[fields.bad] = False
    good &= (start + size <= end) & (size >= 0)
    return key[good], start[good], (start + size)[good]


def text_column(texts: Sequence[str | None], indices: Int64) -> pa.DictionaryArray:
    """A column of texts by their indices; -1 and the index of None are null."""
    words = [text for text in texts if text is not None]
    if len(words) < len(texts):
        here = np.cumsum([text is not None for text in texts]) - 1
        here[[index for index, text in enumerate(texts) if text is None]] = -1
        indices = np.where(indices < 0, -1, here[indices])
    codes = pa.array(indices.astype(np.int32), mask=indices < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string()))


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
        fields = parse(self._data, begin, end)
        count = len(begin)
        kind, number, start = np.zeros(count, np.uint8), np.zeros(count, np.uint64), np.zeros(count, np.int64)
        for which, wire in _WIRE.items():
            column = fields.get(which, wire)
            kind[column.owner], number[column.owner], start[column.owner] = which, column.value, column.start
        kind[fields.bad] = 0
        key = signed(fields.get(1, VARINT).last(count))
        distinct, code = distinct_of(key)
        order = np.argsort(code.astype(np.int32), kind="stable")
        cuts = np.searchsorted(code[order], np.arange(len(distinct) + 1))
        stats: dict[str, Stats] = {}
        for index, identity in enumerate(distinct.tolist()):
            rows = order[cuts[index] : cuts[index + 1]]
            rows = rows[kind[rows] > 0]
            if len(rows):
                part = Stats(row[rows], kind[rows], number[rows], start[rows])
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
            indices = np.full(rows, -1, np.int64)
            texts: list[str] = []
            for kind in np.unique(stats.kind).tolist():
                part = _of_kind(stats, kind)
                values, code = self._texts(kind, part)
                indices[part.row] = code + len(texts)
                texts += values
            return text_column(texts, indices)
        return self._mixed(stats, rows)

    def _texts(self, kind: int, stats: Stats) -> tuple[list[str], Int64]:
        """Returns distinct texts, and for each stat the index of its text."""
        if kind == REF:
            distinct, code = distinct_of(stats.number.view(np.int64))
            return [name or "" for name in self._metadata.names(distinct)], code
        coded = texts_at(self._data, stats.start, signed(stats.number)).dictionary_encode()
        read: Callable[[bytes], str] = {BYTES: _base64, COMPRESSED: _inflated}.get(kind, _decoded)
        return [read(text) for text in coded.dictionary.to_pylist()], coded.indices.to_numpy().astype(np.int64)

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
    chosen = stats.kind == kind
    return Stats(*(column[chosen] for column in stats))


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
    real: float = struct.unpack("<d", struct.pack("<Q", value))[0]
    return real
