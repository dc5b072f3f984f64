"""Looks at the head of a file: the keys of JSON objects, or the line with the headings of a table.

Finds the columns there that a mapping names.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import msgspec

from ktrace.errors import InputError, KtraceError
from ktrace.input.mapping import FIGURES, PLACES, SIZE_UNITS, SIZES, TIMES, WHOLE, ColumnMap, nearest
from ktrace.input.source import Sample
from ktrace.kit.text.headings import SEPARATORS, Dialect, heading, headings_of
from ktrace.model.batch import POINT_KINDS, SLICE_KINDS
from ktrace.model.json_text import NOT_JSON

from .json_lines import Record, paths_in
from .printed import columns_of, first_printed, head_cells

#: How many columns a message lists.
_SHOWN = 24


@dataclass(frozen=True)
class Column:
    """A column of a table that fills a field: its heading there, and its unit, '' for none."""

    own: str
    unit: str


@dataclass(frozen=True)
class Fields:
    """What fills the fields of a table's rows: columns and constants. `below` are the units below headings."""

    columns: dict[str, Column]
    constants: dict[str, str]
    below: dict[str, str]


class Own:
    """The headings of a table, found by their name: exactly, else in any case, else without their unit."""

    def __init__(self, headings: Iterable[str]) -> None:
        self.headings = tuple(headings)
        self._found = {name: name for name in self.headings}
        for spell in (str.casefold, lambda name: heading(name).name.casefold()):
            several = [spell(name) for name in self.headings]
            often = Counter(several)
            for name, spelled in zip(self.headings, several, strict=True):
                if often[spelled] == 1:
                    self._found.setdefault(spelled, name)

    def find(self, column: str) -> str | None:
        """Returns the heading of a column, None if the table doesn't have it."""
        return self._found.get(column) or self._found.get(column.casefold())


def resolved(mapping: ColumnMap, headings: Sequence[str], units: Sequence[str] = ()) -> Fields | str:
    """Returns what fills the fields, or the first field whose column isn't there.

    `units` are those of a row below the headings.
    """
    lookup = Own(headings)
    below = dict(zip(headings, units, strict=False))
    columns: dict[str, Column] = {}
    constants = {name: cell.constant for name, cell in mapping.cells.items() if cell.constant is not None}
    for name, cell in mapping.cells.items():
        if name in constants:
            continue
        place = lookup.find(cell.column)
        if place is not None:
            columns[name] = Column(place, cell.unit or _unit(name, place, below.get(place, "")))
        elif _is_constant(name, cell.column):
            constants[name] = cell.column
        else:
            return name
    return Fields(columns, constants, {name: unit for name, unit in below.items() if unit})


def _is_constant(name: str, word: str) -> bool:
    """Whether a word that isn't a column is a constant without its quotes, which shells remove."""
    return word in (*SLICE_KINDS, *POINT_KINDS) if name == "kind" else name in (*PLACES, *WHOLE) and word.isdecimal()


def _unit(name: str, cell: str, below: str) -> str:
    """The unit of a column: below its heading, or in it."""
    unit = below or heading(cell).unit
    if name in SIZES:
        return unit if unit in SIZE_UNITS else ""
    if name in TIMES:
        return unit if unit == "ms" else unit.lower()
    return unit if name in FIGURES else ""


def _count_found(mapping: ColumnMap, headings: Sequence[str]) -> int:
    """Returns how many of the mapping's columns a line has as headings."""
    lookup = Own(headings)
    return sum(lookup.find(cell.column) is not None for cell in mapping.cells.values() if cell.column)


def no_column(mapping: ColumnMap, name: str, headings: Sequence[str], path: str, where: str) -> KtraceError:
    """Returns the error that a mapped column isn't there, with the columns that are, and the nearest one."""
    column = mapping.cells[name].column
    shown = ", ".join(headings[:_SHOWN]) + (f", ... ({len(headings)} columns)" if len(headings) > _SHOWN else "")
    near = nearest(column, headings)
    remedy = f"did you mean {name}={near}?" if near else f"a constant needs quotes: \"{name}='{column}'\""
    return InputError(
        f"has no column '{column}', which {mapping.where} names for {name}",
        path=path,
        where=where,
        expected=f"one of {shown}",
        remedy=remedy,
    )


#: Lines of the head that are looked at for headings, and objects whose keys are collected.
_LINES, _OBJECTS = 400, 200


@dataclass(frozen=True)
class Head:
    """The columns of a table: their names, the line of the headings, the dialect; None for JSON objects.

    `printed` are the cells of the first rows, by columns, if the table is printed rather than separated. `listed` is
    the key of the list that has the objects, "" for a document that is a list, None for objects in lines; `records` are
    the first ones.
    """

    columns: tuple[str, ...]
    line: int
    dialect: Dialect | None
    printed: tuple[tuple[str, ...], ...] = ()
    listed: str | None = None
    records: tuple[Record, ...] = ()

    @property
    def where(self) -> str:
        """The place of the columns, for messages."""
        return f"line {self.line}" if self.dialect or self.printed else "its first objects"


def is_json(sample: Sample) -> bool:
    """Whether the file consists of JSON objects rather than of cells with separators."""
    return sample.is_json or next((line.startswith("{") for line in sample.lines if line.strip()), False)


_RECORD, _DECODER, _BETWEEN = msgspec.json.Decoder(Record), json.JSONDecoder(), re.compile(r"\s{0,200},\s{0,200}(?=\{)")
#: The first list of objects of a document: itself, or a member of it.
_LIST = re.compile(r'(?:"(?P<key>[^"\\]{1,200})"\s{0,20}:\s{0,20}|\A\s{0,200})\[\s{0,200}(?=\{)')


def _objects(sample: Sample) -> tuple[str | None, list[Record]]:
    """The first objects of the head: those in most of its lines, or of a list, with the key of that list."""
    in_lines: list[Record] = []
    lines = [line for line in sample.lines[:_OBJECTS] if line.strip()]
    for line in lines:
        with suppress(*NOT_JSON):
            in_lines.append(_RECORD.decode(line.encode()))
    are_lines = 2 * len(in_lines) > len(lines)
    text = sample.text or ""
    start = None if are_lines and len(lines) > 1 else _LIST.search(text)
    if start is None or (start["key"] is not None and not _is_outermost(text[: start.start()])):
        return None, in_lines if are_lines else []
    return start["key"] or "", [*_elements(text, start.end())]


def _is_outermost(above: str) -> bool:
    """Whether what follows is a member of the document itself."""
    return above.count("{") - above.count("}") == 1 and above.count("[") == above.count("]")


def _elements(text: str, at: int) -> Iterator[Record]:
    """The objects of a list from there on, as far as they are whole."""
    for _ in range(_OBJECTS):
        try:
            _, end = _DECODER.raw_decode(text, at)
            yield _RECORD.decode(text[at:end].encode())
        except (ValueError, RecursionError, *NOT_JSON):
            return
        if not (comma := _BETWEEN.match(text, end)):
            return
        at = comma.end()


def _keys(sample: Sample) -> Head | None:
    """Returns the keys of JSON objects, None if there are none."""
    listed, records = _objects(sample)
    keys = dict.fromkeys(key for record in records for key in paths_in(record))
    return Head(tuple(keys), 1, None, listed=listed, records=tuple(records)) if keys else None


def head_for(mapping: ColumnMap, sample: Sample, path: str) -> Head:
    """Returns the columns that a mapping names, or else those of the line that has most of them.

    Raises InputError for a file without any table.
    """
    best: tuple[int, Head] | None = None
    if is_json(sample):
        if keys := _keys(sample):
            return keys
        raise no_table(path)

    def recognise(cells: list[str]) -> bool | None:
        return True if not isinstance(resolved(mapping, cells), str) else None

    for number, line in enumerate(sample.lines or [sample.text or ""], 1):
        if table := headings_of(line, cast("object", recognise)):  # type: ignore[arg-type]
            return Head(tuple(table[0]), number, table[2])
        if number > _LINES:
            continue
        for separator in SEPARATORS:
            cells = _cells(line, separator) if separator in line else []
            score = _count_found(mapping, cells) if len(cells) > 1 else 0
            if len(cells) > 1 and (best is None or score > best[0]):
                best = score, Head(tuple(cells), number, Dialect(separator, False))
    if (best is None or not best[0]) and (printed := _printed(sample)):
        return printed
    if best is None:
        raise no_table(path)
    return best[1]


def _printed(sample: Sample) -> Head | None:
    """The columns of the first table that is printed: Markdown, a box, columns of fixed width."""
    if not (table := first_printed(sample)):
        return None
    return Head(columns_of(table[0].headings), table[0].line, None, tuple(head_cells(table)))


def no_table(path: str, remedy: str = "") -> InputError:
    """Returns the error that a file has no table; `remedy` is a command that may read it."""
    return InputError(
        "has no table that a mapping could describe",
        path=path,
        expected="headings above rows, separated (CSV, TSV) or printed, or JSON objects, one to a line or in a list",
        remedy=remedy or "ktrace info FILE shows what it is",
    )


def first_table(sample: Sample) -> Head | None:
    """Returns the columns of the first line with headings: words, followed by a row with as many cells."""
    if is_json(sample):
        return _keys(sample)
    lines = sample.lines[:_LINES]
    for number, line in enumerate(lines[:-1], 1):
        for separator in SEPARATORS:
            if separator not in line:
                continue
            cells, below = _cells(line, separator), _cells(lines[number], separator)
            words = [cell for cell in cells if cell and not cell[0].isdigit() and cell[0] not in "+-."]
            if len(cells) > 1 and len(words) == len(cells) and len(below) == len(cells):
                spaced = separator != "\t" and f"{separator} " in line
                return Head(tuple(cells), number, Dialect(separator, spaced))
    return _printed(sample)


def _cells(line: str, separator: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])]
    except csv.Error:
        return []
