"""Columns of tables as they are used: values of the type that belongs to their name, ids of StringIds as words.

    demangledName  331029 331031 331029   ->   indices 0 1 0, dictionary ["void gemm<...>(...)", "void norm<...>(...)"]

A damaged or foreign file may have anything in a column: a number may be stored as text, or as a float without a
fraction; a row with any other value is skipped and reported. A dictionary contains the words that a column has used so
far, not the whole table, and is the same object until it grows. Process and thread are packed into one number:

    globalTid 0x119f80819f808   pid = bits 24 to 47, tid = bits 0 to 23
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.sqlite import Database
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.masks import present
from ktrace.store.joins import distinct_rows, positions

#: Columns of whole numbers in any table, in lower case.
NUMBERS = frozenset(
    {
        *("start", "end", "timestamp", "rawtimestamp", "utcepochns"),
        *("globalpid", "globaltid", "endglobaltid", "globalid", "componentid", "nicid", "pid", "processid", "rank"),
        *("deviceid", "contextid", "streamid", "nullstreamid", "correlationid", "gpu", "gpuid", "cudaid", "cpu"),
        *("demangledname", "shortname", "mangledname", "nameid", "textid", "endnameid", "jsontextid", "objectnameid"),
        *("filenameid", "contentid", "srcfile", "funcname", "varname", "kernelname", "module", "cpuinstruction"),
        *("symbol", "stackdepth", "callchainid", "originalip", "id"),
        *("eventclass", "eventtype", "domainid", "category", "typeid", "metricid", "metricslistid", "metricsidx"),
        *("registersperthread", "staticsharedmemory", "dynamicsharedmemory", "bytes", "size", "packedsize"),
        *("gridx", "gridy", "gridz", "blockx", "blocky", "blockz", "commhandle"),
        *("clusterx", "clustery", "clusterz"),
        *("copykind", "srckind", "dstkind", "memkind", "launchtype", "cacheconfig", "sharedmemorylimitconfig"),
        *("migrationcause", "faultaccesstype", "synctype", "overheadtype", "memoryoperationtype", "operationtype"),
        *("pooltype", "threadstate", "flag", "priority", "severity", "source", "timestamptype"),
        *("eventid", "eventsyncid", "graphid", "graphexecid"),
        *("eventkind", "devicetype", "threadtype", "priortaskstatus", "kind", "packettype", "enginetype"),
        *("interrupttype", "vidmmoptype", "pagingqueuetype", "commandlisttype", "jitentrytype", "jitoperationtype"),
        *("khrdtype", "codecid", "engineid", "tag", "memorytransfertype", "congestiontype", "smid", "sourcebytes"),
        *("eventname", "sourcefile", "portid", "taskid", "threadid", "threadblock", "providerid", "fileaccessid"),
        *("startedat", "endedat", "apicallid", "bytesprocessed", "genericeventid", "isschedin"),
    }
)

#: Columns of texts, and of numbers with fractions.
_TEXTS = frozenset({"text", "jsontext", "data", "name"})
_FRACTIONS = frozenset({"value", "count", "cpucycles"})


def typed(block: Block, names: tuple[str, ...], conversion: Conversion) -> Block:
    """Returns the rows whose values have the types of these columns; reports the others as "bad-record"."""
    changed: dict[str, pa.Array] = {}
    good = np.ones(len(block), np.bool_)
    for name in names:
        column, key = block.get(name), name.casefold()
        if column is None:
            continue
        if key in _TEXTS and not pa.types.is_string(column.type):
            changed[name] = _as_text(column)
        elif key in NUMBERS and column.type != pa.int64():
            changed[name] = as_numbers(column)
        elif key in _FRACTIONS and column.type not in (pa.int64(), pa.float64()):
            changed[name] = as_fractions(column)
        else:
            continue
        lost = pc.and_(pc.is_valid(column), pc.is_null(changed[name])).to_numpy(zero_copy_only=False) & good
        for row in np.flatnonzero(lost).tolist():
            expected = "an integer" if key in NUMBERS else "a number"
            detail = f"{name} is {column[row].as_py()!r:.80}, not {expected}"
            conversion.report.issue("bad-record", block.where(row), detail)
        good &= ~lost
    if not changed:
        return block
    block = block.replaced(changed)
    return block if good.all() else block.filter(pa.array(good))


def as_numbers(column: pa.Array) -> pa.Int64Array:
    """Returns the column as whole numbers, null for values that aren't."""
    if column.type == pa.int64():
        return column
    if pa.types.is_string(column.type):
        whole = pc.match_substring_regex(column, r"^-?[0-9]{1,18}$")
    elif pa.types.is_floating(column.type):
        whole = pc.and_(pc.equal(column, pc.trunc(column)), pc.less(pc.abs(column), 2.0**53))
    else:
        return pa.nulls(len(column), pa.int64())
    return pc.if_else(pc.fill_null(whole, False), column, None).cast(pa.int64())


def as_fractions(column: pa.Array) -> pa.DoubleArray:
    """Returns the column as numbers with fractions, null for values that aren't."""
    if pa.types.is_string(column.type):
        numbers = pc.match_substring_regex(column, r"^-?[0-9]{1,300}(\.[0-9]{1,300})?([eE][-+]?[0-9]{1,3})?$")
        return pc.if_else(pc.fill_null(numbers, False), column, None).cast(pa.float64())
    if pa.types.is_large_binary(column.type):
        return pa.nulls(len(column), pa.float64())
    return column.cast(pa.float64(), safe=False)


def unsigned(column: pa.Array) -> pa.Array:
    """Returns unsigned 64-bit numbers, which SQLite stores as negative ones from 2^63 on."""
    if not pa.types.is_int64(column.type):
        return column
    least = pc.min(column).as_py()
    return column if least is None or least >= 0 else column.view(pa.uint64())


def _as_text(column: pa.Array) -> pa.StringArray:
    """Returns the column as texts; bytes that aren't UTF-8 become U+FFFD."""
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_large_binary(column.type):
        return pa.array([None if value is None else value.decode("utf-8", "replace") for value in column.to_pylist()])
    return column.cast(pa.string())


def row_of(names: tuple[str, ...], values: tuple[Any, ...]) -> tuple[dict[str, Any], str | None]:
    """Returns a row without nulls, bytes as text, and the first column that lacks a required number, None if none."""
    row: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if value is None:
            continue
        key = name.casefold()
        if key in NUMBERS and not isinstance(value, int):
            return row, name
        row[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if key in _TEXTS and not isinstance(row[name], str):
            row[name] = str(row[name])
    return row, None


#: The mask of a process id, and of a thread id.
LOW = (1 << 24) - 1

#: The number that means "no stream", "no event" and the like.
NOTHING = (1 << 32) - 1


def pid_of(number: int) -> int:
    """Returns the process of a globalPid or globalTid."""
    return number >> 24 & LOW


def tid_of(number: int) -> int:
    """Returns the thread of a globalTid."""
    return number & LOW


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


def without(column: pa.Array, nothing: int) -> pa.Array:
    """Returns the column with null in place of the number `nothing`."""
    equal = pc.equal(column, nothing)
    return pc.if_else(equal, None, column) if equal.true_count else column


def distinct_words(words: Iterable[str | None]) -> tuple[pa.Int32Array, pa.StringArray]:
    """Returns the index of each word into the distinct words, and these."""
    places: dict[str, int] = {}
    indices = [None if word is None else places.setdefault(word, len(places)) for word in words]
    return pa.array(indices, pa.int32()), pa.array(list(places), pa.string())


def distinct_tuples(columns: Sequence[pa.Array | None], rows: int) -> tuple[Int64, list[tuple[Any, ...]]]:
    """Returns for each row the index of its combination of values, and the combinations; None is a column of nulls."""
    given = [pa.nulls(rows, pa.int64()) if column is None else column for column in columns]
    first, number = distinct_rows(given, rows)
    return number, list(zip(*(column.take(pa.array(first)).to_pylist() for column in given), strict=True))


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
                    texts.append(_as_text(text))
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
        return lambda numbers: table[np.where((numbers < 0) | (numbers > last), last, numbers)]
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]

    def search(numbers: Int64) -> Int64:
        place = positions(numbers, ordered)
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
            required_rows = np.ones(len(lost), np.bool_) if required else ~null
            self._replace_missing(block, codes, numbers, lost[required_rows], null[required_rows])
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
