"""Rows of a source as columns under the source's own names, on their way to batches: what SQLite and CSV share.

    block  CUPTI_ACTIVITY_KIND_KERNEL row 1, 2, 3   start, end, deviceId, gridX, launchType
    taken                                           start, end, deviceId, gridX
    rest   becomes arguments                        args.launchType

A reader takes the columns that the model has a place for, by name and in any case; what it doesn't take becomes an
argument under the source's own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch, arrow_schema

from .dictionaries import constant

#: Beyond this no time is believed (MODEL 3).
_GREATEST_TIME = 1 << 62


class Block:
    """Rows with their numbers in the source: rowids or lines. `place` is what stands before the number in a report."""

    def __init__(self, place: str, numbers: pa.Int64Array, columns: Mapping[str, pa.Array]) -> None:
        self.place = place
        self.numbers = numbers
        self._columns = dict(columns)
        self._own = {name.casefold(): name for name in reversed(self._columns)}
        self._taken: set[str] = set()

    def __len__(self) -> int:
        return len(self.numbers)

    def get(self, *spellings: str) -> pa.Array | None:
        """The column of the first of these names, in any case, that the source has; it remains to be taken."""
        name = self._find(spellings)
        return None if name is None else self._columns[name]

    def take(self, *spellings: str) -> pa.Array | None:
        """The column of the first of these names, in any case, that the source has; it will be no argument."""
        name = self._find(spellings)
        if name is None:
            return None
        self._taken.add(name)
        return self._columns[name]

    def drop(self, *names: str) -> None:
        """Takes columns that say nothing that isn't said elsewhere."""
        for name in names:
            self.take(name)

    def is_left(self, name: str) -> bool:
        """Whether the source has the column and nobody took it."""
        own = self._find((name,))
        return own is not None and own not in self._taken

    def replaced(self, columns: Mapping[str, pa.Array]) -> Block:
        """The rows with other values in these columns, nothing taken yet."""
        return Block(self.place, self.numbers, self._columns | dict(columns))

    def without(self, *names: str) -> Block:
        """The rows without these columns, nothing taken yet."""
        small = {name.casefold() for name in names}
        kept = {name: column for name, column in self._columns.items() if name.casefold() not in small}
        return Block(self.place, self.numbers, kept)

    def _find(self, spellings: tuple[str, ...]) -> str | None:
        return next((self._own[name] for spelling in spellings if (name := spelling.casefold()) in self._own), None)

    def where(self, row: int) -> str:
        """The place of a row, for a report."""
        return f"{self.place} {self.numbers[row]}"

    def filter(self, mask: pa.BooleanArray) -> Block:
        """The rows for which it is true, nothing taken yet."""
        return Block(
            self.place,
            self.numbers.filter(mask),
            {name: column.filter(mask) for name, column in self._columns.items()},
        )

    def slice(self, start: int, rows: int) -> Block:
        """Some rows, nothing taken yet."""
        columns = {name: column.slice(start, rows) for name, column in self._columns.items()}
        return Block(self.place, self.numbers.slice(start, rows), columns)

    def rest(self) -> dict[str, pa.Array]:
        """What wasn't taken and isn't null throughout, as columns of arguments."""
        return {
            f"args.{name}": column
            for name, column in self._columns.items()
            if name not in self._taken and column.null_count < len(column)
        }


def timed(
    block: Block,
    conversion: Conversion,
    start: str,
    end: str | None = None,
    *,
    dur: str | None = None,
    open_end: bool = False,
) -> Block:
    """The rows of which the times can be believed; the others are reported by their place.

    `start`, `end` and `dur` name int64 columns in ns. A null is a "bad-record" (that of `end` not where `open_end`),
    an end before the start a "negative-duration", a time of 2^62 or more a "time-range".
    """
    report = conversion.report
    begin = block.get(start)
    checks: list[tuple[str, str, pa.Array]] = []
    if begin is None:
        checks.append(("bad-record", f"has no {start}", pa.array(np.ones(len(block), np.bool_))))
    else:
        checks.append(("bad-record", f"{start} is null", pc.is_null(begin)))
        checks.append(("time-range", f"{start}: {{{start}}}", _beyond(begin)))
    for name in (end, dur):
        column = block.get(name) if name else None
        if name is None or column is None:
            continue
        if not open_end:
            checks.append(("bad-record", f"{name} is null", pc.is_null(column)))
        checks.append(("time-range", f"{name}: {{{name}}}", _beyond(column)))
        if begin is not None:
            early = pc.less(column, 0) if name == dur else pc.less(column, begin)
            checks.append(("negative-duration", f"{name}: {{{name}}}", early))
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


class Batches:
    """Makes batches of blocks: gives each row its id, the source, and what wasn't taken as arguments.

        batches = Batches(conversion)
        ids = batches.ids(len(block))
        yield batches.events(block, ids, kind="kernel", name=names, ts=start, dur=dur, device=block.take("deviceId"))

    A column may be an Arrow array, a numpy array, a text or number that is the same in every row, or None for absent.
    """

    def __init__(self, conversion: Conversion, first_id: int = 1) -> None:
        self._label = conversion.label
        self._report = conversion.report
        self._next = first_id

    def ids(self, rows: int, each: int = 1) -> Int64:
        """The ids of so many records, of which each gives up to `each` rows: id, id + 1, ..."""
        first = self._next
        self._next += rows * each
        return np.arange(first, self._next, each, dtype=np.int64)

    def events(self, block: Block, ids: Int64, *, timing: str = "measured", **columns: Any) -> Batch:
        """Events of the block's rows, which are counted as used."""
        self._report.used(len(block))
        return self.batch("events", ids, timing=timing, **columns, **block.rest())

    def summaries(self, block: Block, ids: Int64, *, metric: str = "duration", **columns: Any) -> Batch:
        """Summaries of the block's rows, which are counted as used."""
        self._report.used(len(block))
        return self.batch("summaries", ids, metric=metric, **columns, **block.rest())

    def batch(self, record: str, ids: Int64, **columns: Any) -> Batch:
        """Rows of a record with these columns; nothing is counted. For children and links."""
        rows = len(ids)
        schema = arrow_schema(record)
        arrays = {"source": constant(self._label, rows), "id": pa.array(ids)}
        for name, value in columns.items():
            if value is not None:
                kind = schema.field(name).type if name in schema.names else None
                try:
                    arrays[name] = _array(value, rows, kind)
                except pa.ArrowInvalid:
                    arrays[name], arrays[f"args.${name}"] = _narrowed(value, kind)
        return Batch(record, pa.RecordBatch.from_pydict(arrays))


def _narrowed(value: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """A column of whole numbers, null where the model's type can't hold one, and these."""
    held = pc.cast(value, kind, safe=False)
    fits = pc.equal(held.cast(value.type), value)
    return pc.if_else(fits, held, None), pc.if_else(fits, None, value)


def _array(value: Any, rows: int, kind: pa.DataType | None) -> pa.Array:
    """The column as an Arrow array of the model's type; a text column of the model may be a dictionary."""
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
