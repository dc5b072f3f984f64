"""Numbers for the words of dictionary columns, the same in all batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int32 = npt.NDArray[np.int32]

#: The number of a word that is null.
NULL = -1


class Vocabulary:
    """The words of one column, numbered from 0 in the order in which they came."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._words = pa.array([], pa.string())
        self._last: tuple[pa.Array, Int32] | None = None

    def encode(self, column: pa.DictionaryArray) -> pa.Array:
        """The numbers of a dictionary column, null where it is null."""
        numbers = self._numbers(column.dictionary)
        codes = numbers[column.indices.fill_null(len(numbers) - 1).to_numpy(zero_copy_only=False)]
        return pa.array(codes, mask=codes == NULL)

    def _numbers(self, words: pa.Array) -> Int32:
        """The numbers of the words of a batch's own dictionary, with NULL behind them."""
        if self._last is None or not self._last[0].equals(words):
            known = self._number
            numbers = [NULL if word is None else known.setdefault(word, len(known)) for word in words.to_pylist()]
            self._last = words, np.array([*numbers, NULL], np.int32)
        return self._last[1]

    def decode(self, numbers: pa.Array) -> pa.DictionaryArray:
        """The dictionary column of numbers that may be null."""
        return pa.DictionaryArray.from_arrays(numbers, self._array())

    def word(self, number: int | None) -> str | None:
        """The word of a number."""
        return None if number is None else str(self._array()[number].as_py())

    def _array(self) -> pa.Array:
        if len(self._words) != len(self._number):
            self._words = pa.array(list(self._number), pa.string())
        return self._words

    def those(self, numbers: pa.Array, test: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
        """For each number whether its word passes; null does not."""
        passes = np.array([*(test(word) for word in self._number), False], np.bool_)
        result: npt.NDArray[np.bool_] = passes[numbers.fill_null(NULL).to_numpy()]
        return result


class Words:
    """The vocabularies of all dictionary columns, by the name of the column."""

    def __init__(self) -> None:
        self._of: dict[str, Vocabulary] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def __getitem__(self, name: str) -> Vocabulary:
        return self._of.setdefault(name, Vocabulary())

    def encode(self, name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
        """The column as the type `kind` of the model, with numbers for words where that is a dictionary."""
        if not pa.types.is_dictionary(kind):
            return column if column.type == kind else column.cast(kind)
        if column.type != kind:
            column = column.cast(pa.string()).dictionary_encode()
        return self[name].encode(column)

    def decode(self, columns: pa.RecordBatch, dictionaries: set[str]) -> pa.RecordBatch:
        """The batch with words for the numbers in the columns `dictionaries`."""
        arrays = [
            self[name].decode(array) if name in dictionaries else array
            for name, array in zip(columns.schema.names, columns.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=columns.schema.names)
