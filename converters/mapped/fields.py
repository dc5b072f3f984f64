"""Finds the columns that a mapping names among the headings of a table, or the keys of JSON objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ktrace.errors import InputError, KtraceError
from ktrace.input.mapping import FIGURES, PLACES, SIZE_UNITS, SIZES, TIMES, WHOLE, ColumnMap, nearest
from ktrace.kit.text.headings import heading
from ktrace.model.batch import POINT_KINDS, SLICE_KINDS

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
    own = Own(headings)
    below = dict(zip(headings, units, strict=False))
    columns: dict[str, Column] = {}
    constants = {name: cell.constant for name, cell in mapping.cells.items() if cell.constant is not None}
    for name, cell in mapping.cells.items():
        if name in constants:
            continue
        found = own.find(cell.column)
        if found is not None:
            columns[name] = Column(found, cell.unit or _unit(name, found, below.get(found, "")))
        elif _is_constant(name, cell.column):
            constants[name] = cell.column
        else:
            return name
    return Fields(columns, constants, {name: unit for name, unit in below.items() if unit})


def _is_constant(name: str, word: str) -> bool:
    """Whether a word that isn't a column is a constant without its quotes, which shells remove."""
    return word in (*SLICE_KINDS, *POINT_KINDS) if name == "kind" else name in (*PLACES, *WHOLE) and word.isdecimal()


def _unit(name: str, own: str, below: str) -> str:
    """The unit of a column: below its heading, or in it."""
    unit = below or heading(own).unit
    if name in SIZES:
        return unit if unit in SIZE_UNITS else ""
    if name in TIMES:
        return unit if unit == "ms" else unit.lower()
    return unit if name in FIGURES else ""


def count_found(mapping: ColumnMap, headings: Sequence[str]) -> int:
    """Returns how many of the mapping's columns a line has as headings."""
    own = Own(headings)
    return sum(own.find(cell.column) is not None for cell in mapping.cells.values() if cell.column)


def no_column(mapping: ColumnMap, name: str, headings: Sequence[str], path: str, where: str) -> KtraceError:
    """Returns the error that a mapped column isn't there, with the columns that are, and the nearest one."""
    column = mapping.cells[name].column
    shown = ", ".join(headings[:_SHOWN]) + (f", ... ({len(headings)} columns)" if len(headings) > _SHOWN else "")
    near = nearest(column, headings)
    remedy = f"did you mean {name}={near}?" if near else f"a constant has quotes: \"{name}='{column}'\""
    return InputError(
        f"has no column '{column}', which {mapping.where} names for {name}",
        path=path,
        where=where,
        expected=f"one of {shown}",
        remedy=remedy,
    )
