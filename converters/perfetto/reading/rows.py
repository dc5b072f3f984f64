"""Rows with arguments become batches: those that have the same arguments stand together, so that columns are full."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.converters._shared.columnar.protobuf import distinct_of
from ktrace.model.arrays import AnyArray, Bools, Int32, Int64, UInt8
from ktrace.model.batch import INTERNAL, Batch, arrow_schema
from ktrace.model.json_text import json_cells

from .args import BOOL, DOUBLE, INT, JSON, NOTHING, OWN, SHARED, Chunk, Values, bits

#: Rows of the same arguments from which on they get a batch of their own.
_ENOUGH = 64

#: Columns and arguments of some rows -> the columns of the model.
Restore = Callable[[dict[str, pa.Array], dict[str, pa.Array]], dict[str, pa.Array]]

_MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9], np.uint64)


def plain(columns: dict[str, pa.Array], arguments: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The arguments as columns `args.<key>`."""
    return columns | {f"args.{key}": column for key, column in arguments.items()}


def batches(
    chunk: Chunk, columns: dict[str, pa.Array], shape: Int64, values: Values, restore: Restore = plain
) -> Iterator[Batch]:
    """Events of those columns and arguments, in an order that depends on the chunk alone.

    `shape` is a number for each row; rows of different numbers don't stand in one batch. Of an argument that a row
    has twice the last one holds.
    """
    count = len(shape)
    if not count:
        return
    group = _groups(shape, values)
    rows_of = _split(group)
    values_of = _split(group[values.row]) if len(values.row) else {}
    table = pa.RecordBatch.from_pydict(columns)
    place = np.empty(count, np.int64)
    for number, rows in rows_of.items():
        place[rows] = np.arange(len(rows))
        mine = table if len(rows) == count else table.take(pa.array(rows))
        arguments: dict[str, pa.Array] = {}
        of_group = values_of.get(number)
        if of_group is not None:
            for key, which in _split(values.key[of_group]).items():
                at = of_group[which]
                row = place[values.row[at]]
                arguments[chunk.keys.texts[key]] = column_of(chunk, row, values.what[at], values.number[at], len(rows))
        found = restore(dict(zip(mine.schema.names, mine.columns, strict=True)), arguments)
        yield Batch("events", pa.RecordBatch.from_pydict(_present(found)))


def _present(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The columns that aren't null throughout, of the types of the model."""
    schema = arrow_schema("events")
    found = {}
    for name, column in columns.items():
        if column.null_count == len(column) and name not in ("id", "ts"):
            continue
        kind = INTERNAL.get(name) or (schema.field(name).type if name in schema.names else column.type)
        as_it_is = column.type == kind or (pa.types.is_dictionary(column.type) and kind == pa.string())
        found[name] = column if as_it_is else _as(column, kind)
    return found


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column.cast(pa.string()).dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)


def _groups(shape: Int64, values: Values) -> Int64:
    """A number for each row: equal where shape and names of arguments are; one for all that are few of their kind."""
    mark = (shape.astype(np.uint64) + np.uint64(1)) * _MIX[0]
    keys = (values.key.astype(np.uint64) + np.uint64(1)) * _MIX[1]
    np.add.at(mark, values.row, keys ^ (keys >> np.uint64(29)) * _MIX[0])
    distinct, group = distinct_of(mark)
    size = np.bincount(group)
    few = size < _ENOUGH
    number = np.arange(len(distinct))  # in the order of their first rows
    shape_of = np.empty(len(distinct), np.int64)
    shape_of[group] = shape
    number[few] = len(size) + shape_of[few]
    found: Int64 = number[group]
    return found


def _split(group: Int64 | Int32) -> dict[int, Int64]:
    """Number -> where it stands."""
    if not len(group):
        return {}
    low = int(group.min())
    near: AnyArray = group - low
    if int(near.max()) < 1 << 16:
        near = near.astype(np.uint16)  # which numpy sorts by radix
    order = np.argsort(near, kind="stable")
    cuts = np.flatnonzero(np.diff(near[order])) + 1
    return {int(near[part[0]]) + low: part for part in np.split(order, cuts)}


def column_of(chunk: Chunk, row: Int64, what: UInt8, number: Int64, count: int) -> pa.Array:
    """One argument of `count` rows as an Arrow column, null where the row hasn't it."""
    kinds = np.flatnonzero(np.bincount(what, minlength=NOTHING)).tolist()
    full = np.zeros(count, np.int64)
    full[row] = number
    absent: Bools | None = np.ones(count, np.bool_)
    absent[row] = False  # type: ignore[index]
    if not absent.any():  # type: ignore[union-attr]
        absent = None
    if kinds == [INT]:
        return pa.array(full, mask=absent)
    if kinds == [DOUBLE]:
        return pa.array(bits(full), mask=absent)
    if kinds == [BOOL]:
        return pa.array(full.astype(np.bool_), mask=absent)
    if kinds == [SHARED]:
        return chunk.pool.column(_codes(full, absent))
    if kinds == [OWN]:
        return chunk.own.column(_codes(full, absent))
    if kinds == [JSON]:
        return _as_json(chunk.own.column(_codes(full, absent)))
    kind = np.zeros(count, np.uint8)
    kind[row] = what
    codes = full.copy()
    if kinds == [SHARED, OWN]:
        mine = np.flatnonzero(kind == SHARED)
        codes[mine] = _given_up(chunk, full[mine])
        return chunk.own.column(_codes(codes, absent))
    for one in kinds:
        mine = np.flatnonzero(kind == one) if absent is None else np.flatnonzero((kind == one) & ~absent)
        if one != JSON and len(mine):
            texts = json_cells(column_of(chunk, np.arange(len(mine)), kind[mine], full[mine], len(mine)))
            codes[mine] = chunk.own.codes(pc.fill_null(texts, "null").cast(pa.binary()))
    return _as_json(chunk.own.column(_codes(codes, absent)))


def _codes(numbers: Int64, absent: Bools | None) -> Int32:
    codes = numbers.astype(np.int32)
    if absent is not None:
        codes[absent] = -1
    return codes


def _given_up(chunk: Chunk, codes: Int64) -> Int64:
    """The codes in `own` of texts of `pool`."""
    distinct, back = np.unique(codes, return_inverse=True)
    own = [chunk.own.code(chunk.pool.texts[code].encode()) for code in distinct.tolist()]
    found: Int64 = np.array(own, np.int64)[back]
    return found


def own_codes(chunk: Chunk, codes: Int32) -> Int32:
    """The codes in `own` of texts of `pool`; -1 stays."""
    found = codes.copy()
    mine = codes >= 0
    found[mine] = _given_up(chunk, codes[mine].astype(np.int64))
    return found


def _as_json(texts: pa.DictionaryArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(texts.indices, texts.dictionary.cast(pa.binary()))
