"""Turns ids of the table StringIds into columns of words.

    demangledName  331029 331031 331029   ->   indices 0 1 0, dictionary ["void gemm<...>(...)", "void norm<...>(...)"]

A dictionary contains the words that a column has used so far, not the whole table, and is the same object until it
grows.

Small conversions of columns: nulls to a number, words to their distinct ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.sqlite.database import Database
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.masks import present
from ktrace.store.joins import positions

from .typed import as_numbers, as_text


def filled(column: pa.Array | None, rows: int, null: int) -> Int64:
    """Returns the numbers of a column with `null` in place of null, or in every row without a column."""
    if column is None:
        return np.full(rows, null, np.int64)
    numbers: Int64 = (column.fill_null(null) if column.null_count else column).to_numpy(zero_copy_only=False)
    return numbers


def filled_part(part: pa.Table, name: str, null: int) -> Int64:
    """Returns the numbers of a table's column with `null` in place of null, or everywhere if it has no integers."""
    if name not in part.column_names or not pa.types.is_int64(part.schema.field(name).type):
        return np.full(len(part), null, np.int64)
    return filled(part.column(name).combine_chunks(), len(part), null)


def distinct_words(words: Iterable[str | None]) -> tuple[pa.Int32Array, pa.StringArray]:
    """Returns the index of each word into the distinct words, and these."""
    places: dict[str, int] = {}
    indices = [None if word is None else places.setdefault(word, len(places)) for word in words]
    return pa.array(indices, pa.int32()), pa.array(list(places), pa.string())


#: Up to this id, a table of all ids is faster than a search, even with few strings.
_DENSE = 1 << 22

#: The name of a row whose name is missing.
NO_NAME = "[no name]"


class Strings:
    """The table StringIds, read once."""

    def __init__(self, database: Database, conversion: Conversion) -> None:
        self._report = conversion.report
        ids: list[pa.Array] = []
        texts: list[pa.Array] = []
        for table in database.like("StringIds"):
            for block in database.blocks(table, conversion.batch_rows):
                number, text = block.get("id"), block.get("value")
                if number is not None and text is not None:
                    ids.append(as_numbers(number).fill_null(-1))
                    texts.append(as_text(text))
                conversion.report.used(len(block), outcome="structure")
        self._texts = pa.concat_arrays(texts) if texts else pa.array([], pa.string())
        self._find = _finder(pa.concat_arrays(ids).to_numpy(zero_copy_only=False) if ids else np.zeros(0, np.int64))

    def text(self, number: object) -> str | None:
        """Returns the string of an id, None if there is none."""
        if not isinstance(number, int):
            return None
        place = int(self._find(np.array([number]))[0])
        return None if place < 0 else self.at(place)

    def places(self, ids: Int64) -> Int64:
        """Returns the place of each id's string, -1 if there is none."""
        return self._find(ids)

    def at(self, place: int) -> str:
        """Returns the string at a place."""
        text: str | None = self._texts[place].as_py()
        return NO_NAME if text is None else text


def _finder(ids: Int64) -> Callable[[Int64], Int64]:
    """Returns a function that finds the places of ids."""
    if len(ids) and ids.min() >= 0 and ids.max() < max(_DENSE, 4 * len(ids)):
        table = np.full(int(ids.max()) + 2, -1, np.int64)
        table[ids] = np.arange(len(ids))
        last = len(table) - 1
        return lambda wanted: table[np.where((wanted < 0) | (wanted > last), last, wanted)]
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]

    def search(wanted: Int64) -> Int64:
        place = positions(wanted, ordered)
        return np.where(place < 0, -1, order[place]) if len(order) else place

    return search


class Words:
    """The words of one column of ids. `short` derives a short form of each word."""

    def __init__(self, strings: Strings, conversion: Conversion, short: Callable[[str], str] | None = None) -> None:
        self._strings = strings
        self._report = conversion.report
        self._short = short
        self._codes = np.zeros(0, np.int32)
        self._words: list[str] = []
        self._code_of: dict[str, int] = {}
        self._dictionary: pa.StringArray | None = None
        self._shorts: tuple[pa.Int32Array, pa.StringArray] | None = None

    def column(self, block: Block, ids: pa.Array, *, required: bool = False) -> pa.DictionaryArray:
        """Returns the words. Reports ids without a string, which become "[string 1234]", and nulls if `required`."""
        numbers = (ids.fill_null(-1) if ids.null_count else ids).to_numpy(zero_copy_only=False)
        places = self._strings.places(numbers)
        codes = self._codes_at(places)
        lost = np.flatnonzero(codes < 0)
        if len(lost):
            null = ~present(ids)[lost]
            wanted = np.ones(len(lost), np.bool_) if required else ~null
            self._replace_missing(block, codes, numbers, lost[wanted], null[wanted])
        if not required and ids.null_count:
            return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), self._all_words())
        return pa.DictionaryArray.from_arrays(pa.array(codes), self._all_words())

    def short(self, names: pa.DictionaryArray) -> pa.DictionaryArray | None:
        """Returns the short forms of the words in such a column, null where they are the same as the words."""
        if self._short is None:
            return None
        if self._shorts is None:
            shorts = (None if (short := self._short(word)) == word else short for word in self._words)
            self._shorts = distinct_words(shorts)
        codes, words = self._shorts
        if not len(words):
            return None
        return pa.DictionaryArray.from_arrays(codes.take(names.indices), words)

    def _codes_at(self, places: Int64) -> Int32:
        """Returns the code of each place, a new one for a new place; -1 for place -1."""
        highest = int(places.max(initial=-1))
        if highest >= len(self._codes) - 1:
            grown = np.full(max(2 * len(self._codes), highest + 2, 64), -1, np.int32)
            grown[: len(self._codes)] = self._codes
            self._codes = grown
        codes = self._codes[places]  # place -1 is the last, which stays -1
        if len(new := np.flatnonzero((codes < 0) & (places >= 0))):
            fresh = places[new]
            for place in fresh[np.sort(np.unique(fresh, return_index=True)[1])].tolist():
                self._codes[place] = self._code(self._strings.at(place))
            codes = self._codes[places]
        return codes

    def _code(self, word: str) -> int:
        if word not in self._code_of:
            self._code_of[word] = len(self._words)
            self._words.append(word)
            self._dictionary = self._shorts = None
        return self._code_of[word]

    def _all_words(self) -> pa.StringArray:
        if self._dictionary is None:
            self._dictionary = pa.array(self._words, pa.string())
        return self._dictionary

    def _replace_missing(self, block: Block, codes: Int32, numbers: Int64, lost: Int64, null: Bools) -> None:
        """Sets and reports words for the rows at `lost`; `null` marks those without an id."""
        keys = np.where(null, np.iinfo(np.int64).min, numbers[lost])
        distinct, first, inverse, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        for number, at in enumerate(first.tolist()):
            string = None if null[at] else int(distinct[number])
            codes[lost[inverse == number]] = self._code(NO_NAME if string is None else f"[string {string}]")
            detail = "no name" if string is None else f"string {string}"
            self._report.issue("missing-string", block.where(int(lost[at])), detail, int(count[number]))
