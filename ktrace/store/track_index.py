"""Numbers for tracks, in the order of their first appearance."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Int32
from ktrace.model.tracks import Track
from ktrace.store.joins import distinct_rows
from ktrace.store.vocabulary import Vocabularies


class TrackIndex:
    """All tracks that rows are on."""

    def __init__(self, words: Vocabularies) -> None:
        self._words = words
        self._number: dict[tuple[int | None, ...], int] = {}

    def index(self, columns: pa.RecordBatch) -> Int32:
        """The number of each row's track. Text columns contain the numbers of their words."""
        names = [name for name in Track._fields if name in columns.schema.names]
        first, which = distinct_rows([columns.column(name) for name in names], columns.num_rows)
        order = np.argsort(first)
        rows = pa.array(first[order])
        keys = {name: columns.column(name).take(rows).to_pylist() for name in names}
        numbers = np.empty(len(first), np.int32)
        for place, number in enumerate(order):
            track = tuple(keys[name][place] if name in keys else None for name in Track._fields)
            numbers[number] = self._number.setdefault(track, len(self._number))
        return numbers[which]

    def __len__(self) -> int:
        return len(self._number)

    def tracks(self) -> list[Track]:
        """The tracks by number."""
        return [Track._make(map(self._value, Track._fields, key)) for key in self._number]

    def sources(self) -> Int32:
        """The number of the source's word, for each track."""
        return np.array([key[0] for key in self._number], np.int32)

    def among(self, others: TrackIndex) -> Int32:
        """The number of each track in another index of the same vocabularies, -1 where that doesn't have it."""
        return np.array([others._number.get(key, -1) for key in self._number], np.int32)

    def _value(self, name: str, value: int | None) -> str | int | None:
        return self._words[name].word(value) if name in self._words else value
