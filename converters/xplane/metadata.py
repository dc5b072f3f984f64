"""The metadata of a plane: the names of its events and stats, and stats that all events of a name share.

Only places are kept: a text is read where a row needs it, so that many long names of HLO instructions cost little.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.protobuf import LENGTH, VARINT, Fields, parse, signed, texts_at
from ktrace.model.arrays import Int64, UInt8

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
        found: Int64 = np.where((at >= 0) & (self._key[at] == ids), at, -1)
        return found

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
    found: list[str | None] = [None] * fields.count
    column = fields.get(number, LENGTH)
    texts = texts_at(data, column.start, signed(column.value)).to_pylist()
    for owner, text in zip(column.owner.tolist(), texts, strict=True):
        if text:
            found[owner] = text.decode("utf-8", "replace")
    return found


def _entries(data: UInt8, begin: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns key, start and end of the message of each entry."""
    found = parse(data, begin, end)
    key = signed(found.get(1, VARINT).last(len(begin)))
    value = found.get(2, LENGTH)
    size = signed(value.last(len(begin)))
    start = np.zeros(len(begin), np.int64)
    start[value.owner] = value.start
    good = np.ones(len(begin), np.bool_)
    good[found.bad] = False
    good &= (start + size <= end) & (size >= 0)
    return key[good], start[good], (start + size)[good]


def text_column(texts: Sequence[str | None], indices: Int64) -> pa.DictionaryArray:
    """A column of texts by their indices; -1 and the index of None are null."""
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        here = np.cumsum([text is not None for text in texts]) - 1
        here[[index for index, text in enumerate(texts) if text is None]] = -1
        indices = np.where(indices < 0, -1, here[indices])
    codes = pa.array(indices.astype(np.int32), mask=indices < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(known, pa.string()))
