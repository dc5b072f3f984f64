"""Numbers for the words of text columns and for tracks, the same in all batches; and for shapes.

Shapes are combinations of values in some columns, of which millions of rows have some hundred:

source  stream  kind    short_name   number
run     7       kernel  gemm         0
run     7       kernel  norm         1
run     7       kernel  gemm         0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.batch import Batch
from ktrace.model.tracks import Track
from ktrace.store.joins import coded, combined, distinct, distinct_rows

#: The number of a word that is null.
NULL = -1

#: A text column with more distinct values than this is kept as it is: plain, not a dictionary.
MANY = 1 << 20

#: Columns that are encoded although the model doesn't call them dictionaries.
_WORDS = frozenset({"name", "track"})

#: The types of the numbers of texts and of JSON texts.
TEXT, JSON = pa.int32(), pa.uint32()


class Interner(dict[Any, int]):
    """Value -> its number: an unknown value gets the next one, from 0 in the order of first appearance."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number

    def numbers(self, values: Iterable[Any]) -> Int64:
        """The number of each value."""
        return np.array([*map(self.__getitem__, values)], np.int64)


class Vocabulary:
    """The words of one column, numbered from 0 in the order of their first appearance."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._number = Interner()
        self._words = pa.array([], kind)
        self._last: tuple[pa.Array, Int32] | None = None

    def __len__(self) -> int:
        return len(self._number)

    def encode(self, column: pa.DictionaryArray) -> pa.Array:
        """The numbers of a dictionary column, null where it is null."""
        numbers = self._numbers(column.dictionary)
        indices = column.indices
        codes = numbers[(indices.fill_null(len(numbers) - 1) if indices.null_count else indices).to_numpy()]
        codes = codes.astype(np.int32, copy=False)
        return pa.array(codes, mask=codes == NULL) if column.null_count or -1 in numbers[:-1] else pa.array(codes)

    def _numbers(self, words: pa.Array) -> Int32:
        """The numbers of the words of a batch's dictionary, followed by NULL."""
        if self._last is None or not self._last[0].equals(words):
            numbers = [NULL if word is None else self._number[word] for word in words.to_pylist()]
            self._last = words, np.array([*numbers, NULL], np.int32)
        return self._last[1]

    def decode(self, numbers: pa.Array) -> pa.DictionaryArray:
        """The dictionary column of numbers that may be null."""
        return pa.DictionaryArray.from_arrays(numbers.cast(pa.int32()), self._array())

    def word(self, number: int | None) -> str | None:
        """The word with this number."""
        return None if number is None else str(self._array()[number].as_py())

    def _array(self) -> pa.Array:
        if len(self._words) != len(self._number):
            self._words = pa.array(list(self._number), self._kind)
        return self._words

    def where(self, numbers: pa.Array, test: Callable[[str], bool]) -> Bools:
        """Which numbers have a word that passes the test; null doesn't."""
        passes = np.array([*(test(str(word)) for word in self._number), False], np.bool_)
        result: Bools = passes[(numbers.fill_null(NULL) if numbers.null_count else numbers).to_numpy()]
        return result


class Vocabularies:
    """The vocabularies of all text columns, by the name of the column.

    These columns are the dictionaries of the model, `name`, `track`, and typed arguments that come as dictionaries.
    """

    def __init__(self) -> None:
        self._of: dict[tuple[str, pa.DataType], Vocabulary] = {}

    def __contains__(self, name: str) -> bool:
        return (name, TEXT) in self._of

    def __getitem__(self, name: str) -> Vocabulary:
        return self._vocabulary(name, TEXT)

    def _vocabulary(self, name: str, kind: pa.DataType) -> Vocabulary:
        vocabulary = self._of.get((name, kind))
        if vocabulary is None:
            vocabulary = self._of[name, kind] = Vocabulary(pa.binary() if kind == JSON else pa.string())
        return vocabulary

    def encode(self, name: str, column: pa.Array, kind: pa.DataType | None) -> pa.Array:
        """The column with the type `kind` of the model (None: its own type) and numbers for words."""
        is_dictionary = pa.types.is_dictionary(column.type)
        if name not in _WORDS and not (kind and pa.types.is_dictionary(kind)):
            if kind is not None:
                return column if column.type == kind else column.cast(kind)
            if not is_dictionary or not name.startswith("args."):
                return column.cast(column.type.value_type) if is_dictionary else column
        if not is_dictionary:
            column = column.cast(pa.string()).dictionary_encode()
        code = JSON if pa.types.is_binary(column.type.value_type) else TEXT
        vocabulary = self._vocabulary(name, code)
        may_be_many = kind is None or name == "name"
        if may_be_many and len(vocabulary) + len(column.dictionary) > MANY:
            return column.cast(column.type.value_type)
        return vocabulary.encode(column).cast(code)

    def decode(self, name: str, column: pa.Array) -> pa.Array:
        """The dictionary column for a column of word numbers; any other column unchanged."""
        if column.type in (TEXT, JSON) and (name.startswith("args.") or (name, column.type) in self._of):
            return self._vocabulary(name, column.type).decode(column)
        return column


_CONTEXT, _STREAM = (Track._fields.index(name) for name in ("context", "stream"))


class TrackIndex:
    """All tracks that rows are on."""

    def __init__(self, words: Vocabularies) -> None:
        self._words = words
        self._number = Interner()

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
            numbers[number] = self._number[track]
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
        """The number of each track in another index of the same vocabularies, -1 where that doesn't have it.

        A stream without a context is the only one there of its device and number that has one, since work has it.
        """
        streams: dict[tuple[int | None, ...], list[int]] = {}
        for key, number in others._number.items():
            if key[_STREAM] is not None and key[_CONTEXT] is not None:
                streams.setdefault((*key[:_CONTEXT], None, *key[_STREAM:]), []).append(number)
        numbers = []
        for key in self._number:
            candidates = streams.get(key, [])
            numbers.append(candidates[0] if len(candidates) == 1 else others._number.get(key, -1))
        return np.array(numbers, np.int32)

    def _value(self, name: str, value: int | None) -> str | int | None:
        return self._words[name].word(value) if name in self._words else value


class RowKeys:
    """The combinations of values in the columns `names`, numbered in the order of their first appearance."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._number = Interner()
        self._all: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yields the values of each combination, in the order of the names."""
        return iter(self._number)

    def get(self, values: tuple[Any, ...]) -> int:
        """The number of a combination, -1 if it hasn't appeared."""
        return self._number.get(values, -1)

    def all(self) -> list[dict[str, Any]]:
        """The combinations by their numbers; each call returns the same list."""
        if len(self._all) < len(self):
            self._all += [dict(zip(self.names, one, strict=True)) for one in islice(self, len(self._all), None)]
        return self._all

    def number(self, batch: Batch, rows: Int64) -> Int32:
        """The numbers of these rows of a batch."""
        if not len(rows):
            return np.zeros(0, np.int32)
        columns = {name: coded(batch.column(name), rows) for name in self.names if batch.has(name)}
        codes = combined(((codes_of, len(values)) for codes_of, values in columns.values()), len(rows))
        first, which = distinct(*codes)
        values = [
            columns[name][1].take(pa.array(columns[name][0][first])).to_pylist()
            if name in columns
            else [None] * len(first)
            for name in self.names
        ]
        return self._number.numbers(zip(*values, strict=True)).astype(np.int32)[which]
