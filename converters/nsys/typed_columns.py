"""Columns of tables as they are used: values of the type that belongs to their name.

A damaged or foreign file may have anything in a column: a number may be stored as text, or as a float without a
fraction; a row with any other value is skipped and reported. Process and thread are packed into one number:

    globalTid 0x119f80819f808   pid = bits 24 to 47, tid = bits 0 to 23
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Block
from ktrace.model.arrays import Int64
from ktrace.store.joins import distinct_rows

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


#: The name of a row whose name is missing.
NO_NAME = "[no name]"
