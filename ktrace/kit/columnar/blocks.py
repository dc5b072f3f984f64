"""Blocks: rows of a source as columns under the source's own names. SQLite and CSV readers turn them into batches.

    block  CUPTI_ACTIVITY_KIND_KERNEL row 1, 2, 3   start, end, deviceId, gridX, launchType
    taken                                           start, end, deviceId, gridX
    rest   becomes arguments                        args.launchType

A reader takes the columns that have a place in the model, by name and in any case. The columns that it doesn't take
become arguments under the source's own names.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.model.arrays import Int64, is_number
from ktrace.model.batch import Batch, arrow_schema
from ktrace.report import Report

from .dictionaries import constant, mapped_words

#: Times beyond this are refused: they would overflow in ns.
_GREATEST_TIME = 1 << 62


#: Empty cells that columns may have in any case, and for each one that is filled.
_EMPTY, _EMPTY_PER_CELL = 1 << 17, 16


def is_sparse(keys: int, rows: int, filled: int) -> bool:
    """Whether columns for so many keys, of so many rows, would be nearly empty: `filled` cells have a value.

    With ever new keys, columns of all rows take quadratic time and memory; fewer rows at once don't.
    """
    return keys * rows - filled > max(_EMPTY, _EMPTY_PER_CELL * filled)


class Block:
    """Rows with their numbers in the source: rowids or lines. In a report `place` precedes the number.

    `headings` are the source's own names of columns that have others here.
    """

    def __init__(
        self,
        place: str,
        numbers: pa.Int64Array,
        columns: Mapping[str, pa.Array],
        headings: Mapping[str, str] | None = None,
    ) -> None:
        self.place, self._headings = place, headings or {}
        self.numbers = numbers
        self._columns = dict(columns)
        self._own = {name.casefold(): name for name in reversed(self._columns)}
        self._taken: set[str] = set()

    def __len__(self) -> int:
        return len(self.numbers)

    def get(self, *spellings: str) -> pa.Array | None:
        """The column with the first of these names, in any case, that the source has; doesn't take it."""
        name = self._find(spellings)
        return None if name is None else self._columns[name]

    def or_nulls(self, name: str, kind: pa.DataType | None = None) -> pa.Array:
        """The column of this name, nulls of a type (int64) if the source doesn't have it; doesn't take it."""
        column = self.get(name)
        return pa.nulls(len(self), kind or pa.int64()) if column is None else column

    def take(self, *spellings: str) -> pa.Array | None:
        """Takes the column with the first of these names, in any case, that the source has: it won't be an argument."""
        name = self._find(spellings)
        if name is None:
            return None
        self._taken.add(name)
        return self._columns[name]

    def span(self, start: str, end: str) -> dict[str, Any]:
        """Takes the columns of two times: `ts`, and `dur`, None without a column of ends."""
        begin, last = self.take(start), self.take(end)
        return {"ts": begin, "dur": None if last is None else pc.subtract(last, begin)}

    def drop(self, *names: str) -> None:
        """Takes columns without using them, because their content is known from elsewhere."""
        for name in names:
            self.take(name)

    def is_left(self, name: str) -> bool:
        """Whether the source has the column and it wasn't taken."""
        column = self._find((name,))
        return column is not None and column not in self._taken

    def replaced(self, columns: Mapping[str, pa.Array], headings: Mapping[str, str] | None = None) -> Block:
        """Returns a block with other values in these columns, nothing taken yet; `headings` name them in reports."""
        headings = {**self._headings, **(headings or {})}
        return Block(self.place, self.numbers, self._columns | dict(columns), headings)

    def without(self, *names: str) -> Block:
        """Returns a block without these columns, nothing taken yet."""
        small = {name.casefold() for name in names}
        kept = {name: column for name, column in self._columns.items() if name.casefold() not in small}
        return Block(self.place, self.numbers, kept, self._headings)

    def _find(self, spellings: tuple[str, ...]) -> str | None:
        return next((self._own[name] for spelling in spellings if (name := spelling.casefold()) in self._own), None)

    def where(self, row: int) -> str:
        """The place of a row, for a report."""
        return f"{self.place} {self.numbers[row]}"

    def heading(self, name: str) -> str:
        """The source's own name of a column, for a report."""
        return self._headings.get(name, name)

    def filter(self, mask: pa.BooleanArray) -> Block:
        """Returns a block of the rows for which the mask is true, nothing taken yet."""
        return Block(
            self.place,
            self.numbers.filter(mask),
            {name: column.filter(mask) for name, column in self._columns.items()},
            self._headings,
        )

    def sound(self, good: pa.BooleanArray, wrong: str, report: Report) -> Block:
        """Returns a block of the rows for which it is true; reports the others as bad records."""
        for row in pc.indices_nonzero(pc.invert(good)).to_pylist():
            report.issue("bad-record", self.where(row), wrong)
        return self.filter(good)

    def slice(self, start: int, rows: int) -> Block:
        """Returns a block of consecutive rows, nothing taken yet."""
        columns = {name: column.slice(start, rows) for name, column in self._columns.items()}
        return Block(self.place, self.numbers.slice(start, rows), columns, self._headings)

    def rest(self) -> dict[str, pa.Array]:
        """The columns that weren't taken and have values, as columns of arguments; blobs as base64."""
        left = {name: self._columns[name] for name in self.left()}
        return {
            f"args.{name}": _base64(column) if pa.types.is_large_binary(column.type) else column
            for name, column in left.items()
        }

    def left(self) -> list[str]:
        """The names of the columns that weren't taken and have values."""
        return [
            name
            for name, column in self._columns.items()
            if name not in self._taken and column.null_count < len(column)
        ]


def _base64(column: pa.LargeBinaryArray) -> pa.DictionaryArray:
    """Bytes as JSON: {"$base64": ...}."""
    return mapped_words(column, lambda value: json.dumps({"$base64": b64encode(value).decode()}).encode(), pa.binary())


def timed(
    block: Block,
    conversion: Conversion,
    start: str,
    end: str | None = None,
    *,
    dur: str | None = None,
    open_end: bool = False,
) -> Block:
    """Returns the rows with valid times; reports the others with their place.

    `start`, `end` and `dur` are the names of int64 columns in ns. A null is a "bad-record" (but not an end if
    `open_end`), an end before the start a "negative-duration", a time of 2^62 or more a "time-range".
    """
    report = conversion.report
    begin = block.get(start)
    headings = {name: block.heading(name).replace("{", "{{").replace("}", "}}") for name in (start, end, dur) if name}
    checks: list[tuple[str, str, pa.Array]] = []
    if begin is None:
        checks.append(("bad-record", f"has no {headings[start]}", pa.array(np.ones(len(block), np.bool_))))
    else:
        checks.append(("bad-record", f"{headings[start]} is null", pc.is_null(begin)))
        checks.append(("time-range", f"{headings[start]}: {{{start}}}", _beyond(begin)))
    for name in (end, dur):
        column = block.get(name) if name else None
        if name is None or column is None:
            continue
        if not open_end:
            checks.append(("bad-record", f"{headings[name]} is null", pc.is_null(column)))
        checks.append(("time-range", f"{headings[name]}: {{{name}}}", _beyond(column)))
        if begin is not None:
            early = pc.less(column, 0) if name == dur else pc.less(column, begin)
            checks.append(("negative-duration", f"{headings[name]}: {{{name}}}", early))
    good = np.ones(len(block), np.bool_)
    for kind, detail, strange in checks:
        bad = pc.fill_null(strange, False).to_numpy(zero_copy_only=False) & good
        for row in np.flatnonzero(bad).tolist():
            values = {name: block.get(name)[row] for name in (start, end, dur) if name and block.get(name) is not None}  # type: ignore[index]
            report.issue(kind, block.where(row), detail.format(**values))
        good &= ~bad
    return block if good.all() else block.filter(pa.array(good))


def _beyond(column: pa.Array) -> pa.Array:
    return pc.or_(pc.greater_equal(column, _GREATEST_TIME), pc.less_equal(column, -_GREATEST_TIME))


def nonzero(column: pa.Array | None) -> pa.Array | None:
    """Makes zeros null, for ids whose 0 means "none". Columns that aren't numbers are unchanged."""
    if column is None or not is_number(column.type):
        return column
    zero = pc.equal(column, 0)
    return pc.if_else(zero, pa.scalar(None, column.type), column) if zero.true_count else column


def _beside(columns: dict[str, Any], rest: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Returns the rest of a block's columns; one with the name of a column that was made of others is `name#2`."""
    return {f"{name}#2" if name in columns else name: column for name, column in rest.items()}


class BatchBuilder:
    """Makes batches from blocks: adds the id of each row, the source, and as arguments the columns that weren't taken.

        batches = BatchBuilder(conversion)
        ids = batches.ids(len(block))
        yield batches.events(block, ids, kind="kernel", name=names, ts=start, dur=dur, device=block.take("deviceId"))

    A column may be an Arrow array, a numpy array, a text or number for all rows, or None for absent. One that is null
    everywhere is left out.
    """

    def __init__(self, conversion: Conversion, first_id: int = 1) -> None:
        self._label = conversion.label
        self._report = conversion.report
        self._next = first_id

    def ids(self, rows: int, each: int = 1) -> Int64:
        """Returns the ids of `rows` records; each record may become `each` rows: id, id + 1, ..."""
        first = self._next
        self._next += rows * each
        return np.arange(first, self._next, each, dtype=np.int64)

    def events(self, block: Block, ids: Int64, *, timing: str = "measured", **columns: Any) -> Batch:
        """Returns the block's rows as events and counts them as used."""
        self._report.used(len(block))
        columns = _with_values(columns)
        return self.batch("events", ids, timing=timing, **columns, **_beside(columns, block.rest()))

    def summaries(self, block: Block, ids: Int64, *, metric: str = "duration", **columns: Any) -> Batch:
        """Returns the block's rows as summaries and counts them as used."""
        self._report.used(len(block))
        columns = _with_values(columns)
        return self.batch("summaries", ids, metric=metric, **columns, **_beside(columns, block.rest()))

    def batch(self, record: str, ids: Int64, **columns: Any) -> Batch:
        """Returns rows with these columns; counts nothing. For children and links."""
        rows = len(ids)
        schema = arrow_schema(record)
        arrays = {"source": constant(self._label, rows), "id": pa.array(ids)}
        for name, value in _with_values(columns).items():
            kind = schema.field(name).type if name in schema.names else None
            try:
                arrays[name] = _array(value, rows, kind)
            except pa.ArrowInvalid:
                arrays[name], arrays[f"args.${name}"] = _narrowed(value, kind)
                kept = arrays[f"args.${name}"]
                first = pc.index(kept.is_valid(), True).as_py()
                where = f"record {ids[first]}"
                self._report.issue("misfit", where, f"{name}: {kept[first]}", len(kept) - kept.null_count)
        if (counts := arrays.get("count")) is not None and pc.any(negative := pc.less(counts, 0)).as_py():
            arrays["count"] = pc.if_else(negative, None, counts)
            arrays["args.$count"] = pc.if_else(negative, counts, None)
        if record in ("events", "summaries"):
            arrays["name"] = self._named(arrays.get("name"), rows)
        return Batch(record, pa.RecordBatch.from_pydict(arrays))

    def _named(self, names: pa.Array | None, rows: int) -> pa.Array:
        """The names of rows; those without one, in a column that was renamed or has nulls, are reported."""
        if names is not None and not names.null_count:
            return names
        if rows:
            lost = rows if names is None else names.null_count
            self._report.issue("missing-string", "a row without a name", "[no name]", lost)
        if names is None:
            return constant("[no name]", rows)
        return pc.fill_null(names.dictionary_decode() if pa.types.is_dictionary(names.type) else names, "[no name]")


def _with_values(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns that aren't null in all rows."""
    return {
        name: value
        for name, value in columns.items()
        if value is not None and not (isinstance(value, pa.Array) and 0 < len(value) == value.null_count)
    }


def _narrowed(value: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Splits whole numbers into those in the range of the model's type, and the others."""
    narrow = pc.cast(value, kind, safe=False)
    in_range = pc.equal(pc.cast(narrow, value.type, safe=False), value)
    return pc.if_else(in_range, narrow, None), pc.if_else(in_range, None, value)


def _array(value: Any, rows: int, kind: pa.DataType | None) -> pa.Array:
    """Returns the column as an Arrow array of the model's type; a text column may be a dictionary."""
    if isinstance(value, str):
        return constant(value, rows)
    if isinstance(value, (int, float)):
        return pa.repeat(pa.scalar(value, kind), rows)
    array = value if isinstance(value, pa.Array) else pa.array(value)
    if kind is None or array.type == kind or (pa.types.is_string(kind) and pa.types.is_dictionary(array.type)):
        return array
    if pa.types.is_dictionary(kind):
        return array.dictionary_encode().cast(kind) if not pa.types.is_dictionary(array.type) else array.cast(kind)
    return array.cast(kind)
