"""Turns blocks of text columns into events or summaries, as a mapping states.

The kind, the direction of a copy and the category are found once for each distinct name and cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.mapping import EXTENTS, FIGURES, ISO, NUMBERS, PLACES, SIZES, TEXTS, TIMES, WHOLE, ColumnMap
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.columnar.dictionaries import by_distinct, combinations
from ktrace.kit.columnar.text_cells import argument, floats, has_text, only, stripped
from ktrace.kit.columnar.typed_cells import note_misfits
from ktrace.kit.text.device_names import device_work
from ktrace.kit.text.headings import heading, is_total
from ktrace.model.batch import DEVICE_KINDS, POINT_KINDS, SLICE_KINDS, Batch
from ktrace.model.masks import present
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .cells import Numbers, Reader, direction, kind_of
from .heads import Column, Fields

_NONE = pa.scalar(None, pa.string())


class Kinds:
    """Finds kinds by the cells of the column of `kind`, by the constant, or else by the names of rows."""

    def __init__(self, mapping: ColumnMap, report: Report) -> None:
        self._mapping = mapping
        self._report = report
        self._events = "start" in mapping.cells
        self._own = {cell: self._valid(f"kinds.{cell}", kind) for cell, kind in mapping.kinds.items()}

    def _valid(self, name: str, word: str) -> str:
        """The kind of the model that a word of the mapping spells. Raises UsageError or InputError."""
        if (kind := kind_of(word)) is None and not word.startswith("x_"):
            expected = f"one of {', '.join((*SLICE_KINDS, *POINT_KINDS))}"
            raise self._mapping.error(f"{name} is '{word}', which isn't a kind", expected=expected)
        return "metric" if kind == "counter" and not self._events else kind or word  # without times it counts nothing

    def columns(self, typed: Block, fields: Fields, columns: dict[str, Any]) -> dict[str, Any]:
        """Returns the columns kind, copy_kind, cat, and the track of counters, without those that are there already."""
        names = columns["name"]
        names = pa.repeat(pa.scalar(names, pa.string()), len(typed)) if isinstance(names, str) else names
        cells = typed.take("<kind>")
        kinds = by_distinct(names, self._by_name(fields), pa.string())
        if cells is not None:
            kinds = pc.coalesce(self._by_cell(cells, typed), kinds)
        elif constant := fields.constants.get("kind"):
            kind = pa.scalar(self._own.get(constant) or self._valid("kind", constant), pa.string())
            kinds = pc.if_else(pc.equal(kinds, "total"), kinds, kind)  # a row named Total adds up the others
        kind_columns: dict[str, Any] = {"kind": kinds.dictionary_encode()}
        if cells is not None and "cat" not in columns:
            kind_columns["cat"] = cells
        if "copy_kind" not in columns:
            ways = by_distinct(names, lambda name: device_work(name)[1], pa.string())
            kind_columns["copy_kind"] = pc.if_else(pc.equal(kinds, "memcpy"), ways, _NONE)
        if "track" not in columns and "value" in fields.columns and self._events:
            kind_columns["track"] = pc.if_else(pc.equal(kinds, "counter"), names, _NONE)
        return kind_columns

    def _by_name(self, fields: Fields) -> Any:
        """Returns a function from the name of a row to its kind."""
        given = fields.columns.keys() | fields.constants.keys()
        on_device = given & {"device", "stream", *EXTENTS, *(f"{part}_x" for part in EXTENTS)}
        rest = "op"
        if self._events and not given & {"dur", "end"}:
            rest = "counter" if "value" in given else "instant"

        def kind(name: str) -> str:
            if not self._events and is_total(name):
                return "total"
            return device_work(name)[0] if on_device else rest

        return kind

    def _by_cell(self, cells: pa.StringArray, typed: Block) -> pa.StringArray:
        """The kinds that cells state, null for unknown ones, which are noted."""
        kinds_by_cell = {
            cell: self._own.get(cell) or kind_of(cell) for cell in pc.unique(cells).drop_null().to_pylist()
        }
        for cell in (cell for cell, kind in kinds_by_cell.items() if kind is None):
            rows = np.flatnonzero(pc.fill_null(pc.equal(cells, cell), False).to_numpy(zero_copy_only=False))
            hint = f"{cell!r}: kinds.{cell}=KIND in the mapping makes it one of ktrace's kinds"
            self._report.issue("unknown-kind", typed.where(int(rows[0])), hint, len(rows))
        return by_distinct(cells, kinds_by_cell.__getitem__, pa.string())


#: Field -> column of the model, where they differ.
_MODEL = {"start": "ts", "process": "pid", "thread": "tid"}

#: Place -> the place that it belongs to.
_PARENTS = {"stream": "device", "thread": "process"}

#: So many rows without a single good one, and the input is refused.
_MOST_BAD = 10_000

#: The work covers the time a thousandfold, or not a millionth of it: the units are hardly right.
_FEWEST, _TOO_DENSE, _TOO_SPARSE = 20, 1000, 1_000_000


class MappedRows:
    """Makes batches of blocks; remembers names and extremes for the end."""

    def __init__(self, mapping: ColumnMap, conversion: Conversion, path: str) -> None:
        self._mapping = mapping
        self._conversion = conversion
        self._report = conversion.report
        self._path = path
        self._read = Reader(comma=mapping.decimal == "comma")
        self._batches = BatchBuilder(conversion)
        self._kinds = Kinds(mapping, conversion.report)
        self._numbers = {place: Numbers() for place in PLACES}
        self._named: dict[str, dict[tuple[int | None, int], str]] = {child: {} for child in _PARENTS}
        self._good = self._bad = 0
        self._first_bad: tuple[str, str, str] | None = None
        self._first = self._last = self._busy = 0

    def batch(self, block: Block, fields: Fields, table: int) -> Batch | None:
        """Returns the rows of a block, None if none of them is valid. Raises DamagedInput if no row ever is."""
        rows = len(block)
        typed = self._typed(block, fields)
        typed = self._without_bad(typed, block, fields)
        events = "start" in self._mapping.cells
        if events:
            end = "<end>" if "end" in fields.columns else None
            dur = "<dur>" if "dur" in fields.columns else None
            typed = timed(typed, self._conversion, "<start>", end, dur=dur, open_end=True)
        self._good += len(typed)
        self._bad += rows - len(typed)
        self._require_some()
        if not len(typed):
            return None
        ids = typed.numbers.to_numpy()
        columns = self._common(typed, fields)
        if events:
            return self._batches.events(typed, ids, **columns, **self._times(typed, fields))
        return self._batches.summaries(typed, ids, table=table, **columns, **_figures(typed, fields))

    def _typed(self, block: Block, fields: Fields) -> Block:
        """Returns the block with a column `<field>` for each field; cells that can't be read stay, as arguments."""
        columns: dict[str, pa.Array] = {}
        left: dict[str, pa.Array] = {}
        for name, column in fields.columns.items():
            cells = block.take(column.own)
            if cells is not None:
                self._read_field(block, name, column, cells, columns, left)
        for name in ("ts", "end", "dur"):
            if (rounded := left.get(f"${name}")) is not None:
                for row in np.flatnonzero(present(rounded)).tolist():
                    self._report.issue("rounded", block.where(row), f"${name}")
        for key, cells in block.rest().items():
            plain = key.removeprefix("args.")
            if not pa.types.is_string(cells.type):
                left[plain] = cells
            elif has_text(cells).any():
                unit = fields.below.get(plain)
                left[f"{plain} ({unit})" if unit else plain] = argument(cells, heading(plain))
        headings = {f"<{name}>": column.own for name, column in fields.columns.items()}
        return Block(block.place, block.numbers, columns | left, headings)

    def _read_field(
        self,
        block: Block,
        name: str,
        column: Column,
        cells: pa.StringArray,
        typed: dict[str, pa.Array],
        left: dict[str, pa.Array],
    ) -> None:
        """Adds what the cells of a field become, and those of them that stay arguments."""
        read, values = self._read, {}
        if name in TIMES:
            times = read.times(cells, column.unit)
            values[name] = times.ns
            if times.rounded.any():
                left[f"${_MODEL.get(name, name)}"] = argument(only(cells, times.rounded))
        elif name in EXTENTS:
            values = dict(zip((f"{name}_{axis}" for axis in "xyz"), read.extents(cells), strict=True))
        elif name in PLACES:
            values[name] = self._numbers[name].of(stripped(cells), read)
            typed |= {"<thread cells>": stripped(cells)} if name == "thread" else {}
        elif name in WHOLE:
            values[name] = read.whole(cells)
        elif name in SIZES:
            values[name] = read.sizes(cells, column.unit)
        elif name in FIGURES:
            values[name], typed[f"<unit {name}>"] = read.figures(cells, column.unit)
        elif name in TEXTS or name == "kind":
            values[name] = stripped(cells) if name != "name" else _blank_to_null(cells)
        else:
            values[name] = floats(cells)
        typed |= {f"<{key}>": value for key, value in values.items()}
        first = next(iter(values.values()))
        misfits = has_text(stripped(cells)) & ~present(first) if first.null_count else None
        if misfits is not None and misfits.any():
            left[column.own] = argument(only(cells, misfits))
            if name not in (*TIMES, *FIGURES):  # whose rows are refused without them, or have another figure
                note_misfits(self._report, block, column.own, cells, misfits)

    def _without_bad(self, typed: Block, block: Block, fields: Fields) -> Block:
        """Returns the rows that have a name and whose times or figures can be read; reports the others."""
        good = np.ones(len(typed), np.bool_)
        for name in ("name", *TIMES):
            column = fields.columns.get(name)
            if column is None:
                continue
            cells, values = block.get(column.own), typed.get(f"<{name}>")
            bad = np.ones(len(typed), np.bool_) if values is None else ~present(values)
            if name in ("end", "dur") and cells is not None:
                bad = bad & has_text(stripped(cells))
            elif name in ("end", "dur"):
                continue
            for row in np.flatnonzero(bad & good).tolist():
                self._refuse(typed.where(row), name, column, None if cells is None else cells[row].as_py())
            good &= ~bad
        if "start" not in self._mapping.cells:
            figures = [typed.get(f"<{name}>") for name in (*FIGURES, "count", "percent")]
            empty = np.logical_and.reduce([~present(figure) for figure in figures if figure is not None])
            for row in np.flatnonzero(empty & good).tolist():
                self._report.issue("bad-record", typed.where(row), "no figure")
            good &= ~empty
        return typed if good.all() else typed.filter(pa.array(good))

    def _refuse(self, where: str, name: str, column: Column, cell: str | None) -> None:
        """Reports a row whose cell can't be read."""
        expected = "a text" if name == "name" else _expected(column.unit)
        what = f"{name}: '{column.own}' is " + (repr(cell) if cell and cell.strip() else "empty")
        self._report.issue("bad-record", where, f"{what}, not {expected}")
        self._first_bad = self._first_bad or (where, what, expected)

    def _require_some(self, *, at_end: bool = False) -> None:
        """Raises DamagedInput if there are many rows, or at the end any, and none of them is valid."""
        if self._good or not self._first_bad or (self._bad < _MOST_BAD and not at_end):
            return
        where, what, expected = self._first_bad
        remedy = "state its unit or name another column; ktrace map FILE shows a guess"
        if "," in what and self._mapping.decimal == "point":
            remedy = f"decimal=comma, if that is a decimal comma; or {remedy}"
        raise DamagedInput(
            f"no row can be read by {self._mapping.where}; the first one: {what}",
            path=self._path,
            where=where,
            expected=expected,
            remedy=remedy,
        )

    def _common(self, typed: Block, fields: Fields) -> dict[str, Any]:
        """The columns that events and summaries share."""
        columns: dict[str, Any] = {}
        for name in (*PLACES, *WHOLE, *SIZES, *NUMBERS, *TEXTS):
            if (column := typed.take(f"<{name}>")) is not None:
                columns[_MODEL.get(name, name)] = column
            elif (constant := fields.constants.get(name)) is not None:
                columns[_MODEL.get(name, name)] = self._constant(name, constant)
        if "copy_kind" in columns:
            given = columns["copy_kind"]
            columns["copy_kind"] = (
                direction(given) if isinstance(given, str) else by_distinct(given, direction, pa.string())
            )
        columns |= self._kinds.columns(typed, fields, columns) | self._extents(fields)
        columns |= _launching_threads(columns, typed.take("<thread cells>"), fields)
        self._remember(columns)
        return columns

    def _constant(self, name: str, text: str) -> Any:
        """The value of a constant. Raises UsageError or InputError for one that its field can't represent."""
        cells = pa.array([text])
        if name in PLACES:
            return self._numbers[name].of(cells, self._read)[0].as_py()
        if name in TEXTS:
            return text
        if name in SIZES:
            value = self._read.sizes(cells, "")[0]
        else:
            value = self._read.whole(cells)[0] if name in WHOLE else floats(cells)[0]
        if not value.is_valid:
            raise self._mapping.error(f"{name} is '{text}'", expected="a number")
        return value.as_py()

    def _extents(self, fields: Fields) -> dict[str, int]:
        """The constants of grid and block."""
        columns: dict[str, int] = {}
        for part in EXTENTS:
            if text := fields.constants.get(part):
                numbers = [axis[0].as_py() for axis in self._read.extents(pa.array([text]))]
                if numbers[0] is None:
                    raise self._mapping.error(f"{part} is '{text}'", expected="x, y and z, such as 64x1x1")
                columns |= {f"{part}_{axis}": number for axis, number in zip("xyz", numbers, strict=True) if number}
        return columns

    def _times(self, typed: Block, fields: Fields) -> dict[str, Any]:
        """Start, duration, value and unit of events."""
        start, end, dur = (typed.take(f"<{name}>") for name in TIMES)
        if end is not None:
            dur = pc.subtract(end, start)
        self._widen(start, dur)
        columns = {"ts": start, "dur": dur}
        if (value := typed.take("<value>")) is not None:
            unit = typed.take("<unit value>")
            columns |= {"value": value, "unit": pc.if_else(value.is_valid(), unit, pa.scalar(None, pa.string()))}
        return columns

    def _widen(self, start: pa.Int64Array, dur: pa.Int64Array | None) -> None:
        ends = start if dur is None else pc.add(start, pc.fill_null(dur, 0))
        first, last = pc.min(start).as_py(), pc.max(ends).as_py()
        has_bounds = self._good > len(start)
        self._first, self._last = (min(self._first, first), max(self._last, last)) if has_bounds else (first, last)
        self._busy += 0 if dur is None else int(pc.sum(pc.cast(dur, pa.decimal128(38))).as_py() or 0)

    def _remember(self, columns: dict[str, Any]) -> None:
        """Remembers the devices of streams, and the processes of threads, that have names."""
        for child, parent in _PARENTS.items():
            names = dict(self._numbers[child].names())
            numbers = [columns.get(_MODEL.get(place, place)) for place in (parent, child)]
            if numbers[1] is None or not names:
                continue
            rows = next((len(column) for column in numbers if isinstance(column, pa.Array)), 1)
            both = [
                column if isinstance(column, pa.Array) else pa.repeat(pa.scalar(column, pa.int64()), rows)
                for column in numbers
            ]
            for above, number in combinations(both):
                if number in names:
                    self._named[child][above, number] = names[number]

    def facts(self) -> Iterator[Batch]:
        """Yields the names of places, and the clock; reports units that can't be right. Raises DamagedInput."""
        self._require_some(at_end=True)
        rows = RowBuilder(self._conversion)
        if self._mapping.clock == "unix" or self._mapping.cells.get("start", Column("", "")).unit == ISO:
            rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
        for place in ("device", "process"):
            for number, name in self._numbers[place].names():
                rows.fact(place, name=name, **{_MODEL.get(place, place): number})
        for child, parent in _PARENTS.items():
            for (above, number), name in self._named[child].items():
                numbers = {_MODEL.get(parent, parent): above, _MODEL.get(child, child): number}
                rows.fact(child, name=name, **numbers)
        span, count = self._last - self._first, self._good
        if count >= _FEWEST and self._busy and span:
            ratio = f"{count:,} rows over {span:,} ns last {self._busy:,} ns together"
            if self._busy > _TOO_DENSE * span or self._busy * _TOO_SPARSE < span:
                self._report.issue("unlikely-unit", self._mapping.where, ratio, rows=0)
        yield from rows.rest()


def _blank_to_null(cells: pa.StringArray) -> pa.StringArray:
    """Names without the blanks around them; null for blank ones. `None` and `-` may be names."""
    names = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.equal(pc.binary_length(names), 0), pa.scalar(None, pa.string()), names)


def _figures(typed: Block, fields: Fields) -> dict[str, Any]:
    """The figures of summaries in the unit of the row's first one; a figure in another unit becomes an argument."""
    figures = {name: typed.take(f"<{name}>") for name in FIGURES if typed.is_left(f"<{name}>")}
    if not figures:
        return {}
    units = {name: typed.take(f"<unit {name}>") for name in figures}
    unit = pc.coalesce(*units.values())
    columns: dict[str, Any] = {}
    for name, values in figures.items():
        same = pc.or_(pc.fill_null(pc.equal(units[name], unit), False), pc.is_null(units[name]))
        columns[name] = pc.if_else(same, values, pa.scalar(None, pa.float64()))
        columns[f"args.{fields.columns[name].own}"] = pc.if_else(same, pa.scalar(None, pa.float64()), values)
    others = {key: column for key, column in columns.items() if key not in figures and column.null_count < len(column)}
    metric = heading(fields.columns[next(iter(figures))].own).name or "value"
    is_time = pc.fill_null(pc.equal(unit, "ns"), True)
    metrics = pc.if_else(is_time, pa.scalar("duration"), pa.scalar(metric))
    return {name: columns[name] for name in figures} | others | {"unit": unit, "metric": metrics}


def _launching_threads(columns: dict[str, Any], cells: pa.StringArray | None, fields: Fields) -> dict[str, Any]:
    """Makes the thread of work on a stream an argument: it launched the work, and doesn't divide the stream."""
    tid, stream = columns.get("tid"), columns.get("stream")
    if tid is None or stream is None or cells is None:
        return {}
    on_stream = pc.is_in(columns["kind"].dictionary_decode(), pa.array(DEVICE_KINDS))
    if isinstance(stream, pa.Array):
        on_stream = pc.and_(on_stream, stream.is_valid())
    moved = only(cells, pc.fill_null(on_stream, False).to_numpy(zero_copy_only=False))
    threads = {"tid": pc.if_else(on_stream, pa.scalar(None, tid.type), tid)}
    return threads | (
        {f"args.{fields.columns['thread'].own}": argument(moved)} if moved.null_count < len(moved) else {}
    )


def _expected(unit: str) -> str:
    if unit == ISO:
        return "a date and time such as 2026-11-22T16:05:05.123Z"
    return f"a number of {unit}, such as 12.5" if unit else "a number with its unit, such as 12.5 us"
