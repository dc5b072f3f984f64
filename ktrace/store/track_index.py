"""Numbers for tracks, in the order in which they come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Int32, Int64
from ktrace.model.tracks import Track
from ktrace.store.vocabulary import Vocabularies


class TrackIndex:
    """All tracks that rows are on."""

    def __init__(self, words: Vocabularies) -> None:
        self._words = words
        self._number: dict[tuple[int | None, ...], int] = {}

    def index(self, columns: pa.RecordBatch) -> Int32:
        """The number of each row's track. Columns of words hold their numbers."""
        names = [name for name in Track._fields if name in columns.schema.names]
        encoded = [_encode(columns.column(name)) for name in names]
        _, first, inverse = np.unique(_combine(columns.num_rows, encoded), return_index=True, return_inverse=True)
        numbers = np.empty(len(first), np.int32)
        for unique in np.argsort(first):
            row = first[unique]
            key = {name: values[codes[row]] for name, (codes, values) in zip(names, encoded, strict=True)}
            track = tuple(key.get(name) for name in Track._fields)
            numbers[unique] = self._number.setdefault(track, len(self._number))
        return numbers[inverse]

    def tracks(self) -> list[Track]:
        """The tracks by number."""
        return [Track._make(map(self._value, Track._fields, key)) for key in self._number]

    def sources(self) -> Int32:
        """The number of the source's word, for each track."""
        return np.array([key[0] for key in self._number], np.int32)

    def among(self, others: TrackIndex) -> Int32:
        """For each track its number among others of the same words, -1 where it isn't there."""
        return np.array([others._number.get(key, -1) for key in self._number], np.int32)

    def _value(self, name: str, value: int | None) -> str | int | None:
        return self._words[name].word(value) if name in self._words else value


def _encode(column: pa.Array) -> tuple[Int64, list[int | None]]:
    """Codes of a column from 0, and the values that they stand for, None among them."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _combine(rows: int, encoded: list[tuple[Int64, list[int | None]]]) -> Int64:
    """One number for the codes of a row in all columns."""
    combined, size = np.zeros(rows, np.int64), 1
    for codes, values in encoded:
        if size * len(values) >= 1 << 62:
            combined, size = np.unique(combined, return_inverse=True)[1].astype(np.int64), rows
        combined = combined * len(values) + codes
        size *= len(values)
    return combined
