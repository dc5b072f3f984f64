"""Guesses a mapping from headings, units and some cells. Each guess has its reason; unsure ones are marked."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from itertools import pairwise

import pyarrow as pa
from msgspec.structs import replace

from ktrace.input.mapping import (
    FIGURES,
    ISO,
    NO_UNIT,
    NUMBERS,
    PLACES,
    SIZE_UNITS,
    SIZES,
    WHOLE,
    Cell,
    ColumnMap,
    Guess,
    Proposal,
)
from ktrace.input.source import Sample
from ktrace.kit.text.headings import STATISTICS, Heading, are_units, cell_quantity, heading, is_time
from ktrace.kit.text.layouts import Delimited
from ktrace.kit.text.measured import is_measured
from ktrace.kit.text.numbers import TIME_NS, Evidence, is_missing, with_point
from ktrace.kit.text.proofs import add_up
from ktrace.kit.text.tables import Below, Table
from ktrace.kit.text.variants import settings_of, variants
from ktrace.model.schema import columns_in

from .cells import kind_of
from .guess_lines import command_for_lines, guess_lines
from .heads import Head, first_table, no_table
from .json_lines import cell_texts, member

#: Rows whose cells are looked at.
_ROWS = 200

#: Field -> headings, in the form of `Heading.key`; the first one in the list that the table has wins.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "start": (
        *("start", "start time", "begin", "begin time", "start timestamp", "begin timestamp", "task start time"),
        *("ts", "timestamp", "t start", "t begin", "t0", "started", "started at", "start at", "datetime", "date", "t"),
    ),
    "end": (
        *("end", "end time", "stop", "stop time", "finish", "finish time", "end timestamp"),
        *("t end", "t1", "ended", "ended at", "finished", "finished at", "completed"),
    ),
    "dur": (
        *("duration", "dur", "duration time", "elapsed", "elapsed time", "time taken", "latency", "delta", "δ"),
        *("dt", "δt", "runtime", "run time", "exec time", "execution time", "exec duration", "wall time"),
        *("kernel time", "gpu time", "task duration", "took"),
    ),
    **STATISTICS,
    "name": (
        *("kernel name", "kernel", "name", "function name", "function", "operation", "operator", "op name", "op"),
        *("event name", "task name", "label", "event", "task", "stage", "region", "activity", "layer name"),
        *("node name", "layer", "node", "message", "msg"),
    ),
    "device": ("device id", "device", "gpu id", "gpu", "gpu index", "dev", "agent id", "agent"),
    "stream": ("stream id", "stream", "strm", "queue id", "queue", "command queue"),
    "process": ("pid", "process id", "process"),
    "thread": ("tid", "thread id", "thread", "worker"),
    "context": ("context", "context id", "ctx"),
    "correlation": ("correlation id", "corrid", "corr id", "correlation"),
    **{
        f"{part}_{axis}": tuple(f"{word} {axis}" for word in words)
        for part, words in (
            ("grid", ("grid", "grid size", "grid dim")),
            ("block", ("block", "block size", "block dim", "workgroup size")),
        )
        for axis in "xyz"
    },
    "grid": ("grid", "grid size", "grid dim", "workgroups"),
    "block": ("block", "block size", "block dim", "workgroup size", "workgroup", "local size"),
    "registers": ("registers per thread", "registers", "regs"),
    "bytes": ("bytes", "size bytes", "num bytes", "nbytes", "transfer size", "size"),
    "copy_kind": ("direction", "copy kind"),
    "kind": ("kind", "category", "cat", "type", "event type"),
    "value": ("value", "reading"),
}

#: Other numbers of a launch are found by the name of their column.
for _name in (it for it in columns_in("grid", "launch") if it in WHOLE or it in SIZES):
    SPELLINGS.setdefault(_name, (_name.replace("_", " "),))

#: Fields whose cells are numbers; those whose cells may be anything are left out.
_NUMBERS = frozenset(("dur", *STATISTICS, *FIGURES, *WHOLE, *SIZES, *NUMBERS))
_TIMED = ("start", "end", "dur", *FIGURES)
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?")
_EXTENT = re.compile(r'\D?\d+(?:\D{1,2}\d+){0,2}\D?|\{ ?"x": ?\d+(?:, ?"y": ?\d+(?:, ?"z": ?\d+)?)? ?\}')

#: Unix times between 2001 and 2039 -> the unit that they are in.
_EPOCHS = ((9, "s"), (12, "ms"), (15, "us"), (18, "ns"))

#: What parts the fields of a mapping.
_SIGNS = re.compile(r"[=,:]|^$")

#: Why a unit isn't a shorter one.
_OVERLAP = "rows overlap"

#: Kernels are rarely that many us long, all of them.
_LONG = 500


@dataclass(frozen=True)
class _Column:
    """A column: its name, its heading, the unit below it, some of its cells."""

    name: str
    head: Heading
    below: str
    cells: tuple[str, ...]

    @cached_property
    def values(self) -> list[str]:
        """The cells that have a value."""
        return [cell for cell in self.cells if not is_missing(cell)]

    @cached_property
    def numbers(self) -> list[Decimal]:
        """The numbers of the cells."""
        figures = [cell_quantity(cell) for cell in self.values]
        return [figure.number for figure in figures if figure and figure.number.is_finite()]

    @cached_property
    def is_number(self) -> bool:
        """Whether nearly all cells are numbers."""
        return bool(self.values) and len(self.numbers) * 10 >= len(self.values) * 9

    @cached_property
    def is_date(self) -> bool:
        """Whether the cells are dates with times."""
        return bool(self.values) and all(_DATE.fullmatch(cell.strip()) for cell in self.values)

    @cached_property
    def cell_unit(self) -> str:
        """The unit in the cells, '' for none."""
        quantity = next((figure for cell in self.values if (figure := cell_quantity(cell))), None)
        return quantity.unit if quantity else ""


def guess(sample: Sample, path: str, lines: Sequence[str] = ()) -> Proposal:
    """Returns a guess at the mapping of a table, or of `lines`: patterns of them, or their numbers.

    Raises InputError for a file without a table or such lines.
    """
    if lines:
        return guess_lines(sample, path, lines)
    head = first_table(sample)
    if head is None:
        raise no_table(path, command_for_lines(sample, path))
    columns, decimal = _columns(sample, head)
    return _Guesses(columns).proposal(_layout(head), decimal)


def stated(sample: Sample) -> tuple[Head, ColumnMap | Table] | None:
    """What the keys of JSON objects state: a name and a time with its unit, or times of variants and of settings.

    The latter are a table of figures, as a printed table with these headings is: {"M": 64, "a_ms": 0.5, "b_ms": 0.25}.
    """
    head = first_table(sample)
    if head is None or head.dialect or head.printed:
        return None
    columns, decimal = _columns(sample, head)
    mapping = _stated_mapping(_Guesses(columns).proposal(_layout(head), decimal))
    if table := _figures(columns, mapping):
        return head, table
    if mapping and "start" not in mapping.cells and _add_up(columns, mapping) is False:
        mapping = replace(mapping, cells={**mapping.cells, "kind": Cell(constant="metric")})
    return (head, mapping) if mapping else None


def _add_up(columns: Sequence[_Column], mapping: ColumnMap) -> bool | None:
    """What the cells show of the times of objects: that they add up, that they don't, or neither."""
    places = {column.name: place for place, column in enumerate(columns)}
    fields = {name: places[it.column] for name, it in mapping.cells.items() if it.column in places}
    rows = list(zip(*(column.cells for column in columns), strict=True))
    return add_up([column.head for column in columns], fields, rows, frozenset())


def _figures(columns: Sequence[_Column], mapping: ColumnMap | None) -> Table | None:
    """The table of objects with times of variants, or of one thing in several settings; None for others."""
    headings = tuple(column.head for column in columns)
    rows = [list(cells) for cells in zip(*(column.cells for column in columns), strict=True)]
    below = Below(partial(iter, rows))
    places = {column.name: place for place, column in enumerate(columns)}
    if mapping is None:
        times = {
            place
            for place, column in enumerate(columns)
            if column.is_number and is_time(column.head.unit) and is_measured(column.name)
        }
        if any(_epoch_unit(columns[place].numbers) for place in times):
            return None  # dates
        texts = (place for place, it in enumerate(columns) if it.values and not it.is_number)
        name = next((place for place in texts if len({row[place] for row in rows}) == len(rows)), None)
        fields = variants(headings, times, below, name)
    elif "start" in mapping.cells:
        return None
    else:
        mapped = {name: cell for name, cell in mapping.cells.items() if name in ("name", "count", "percent", *FIGURES)}
        fields = settings_of(headings, {name: places[cell.column] for name, cell in mapped.items()}, below)
    return Table(0, 1, (), Delimited("tabs"), headings, fields) if fields else None


def _stated_mapping(proposal: Proposal) -> ColumnMap | None:
    """The mapping of a table whose keys state a name and a time with its unit; None for another one.

    Starts count only where their unit is stated, or shown by rows that would overlap in a shorter one.
    """
    guesses = {one.field: one for one in proposal.guesses}
    if "start" in guesses and not guesses["start"].sure and _OVERLAP not in guesses["start"].because:
        guesses = {name: one for name, one in guesses.items() if name not in ("start", "end")}
        guesses |= {"value": replace(guesses.pop("dur"), field="value")} if "dur" in guesses else {}
    times = [guesses[name] for name in ("dur", "end", *FIGURES) if name in guesses]
    if "name" not in guesses or not all(one.sure for one in (guesses["name"], *times)) or not times:
        return None
    if not any(is_time(heading(one.cell.column.rpartition(".")[2]).unit) for one in times):
        return None
    cells = {name: one.cell for name, one in guesses.items() if one.sure or name == "start"}
    return ColumnMap(cells, decimal=proposal.decimal, clock=proposal.clock).check()


def _layout(head: Head) -> str:
    if head.printed:
        return f"a printed table, {len(head.columns)} columns, headings in line {head.line}"
    if head.dialect is None:
        of = "a JSON object in each line" if head.listed is None else "a list of JSON objects"
        of = f"JSON objects in the list {head.listed}" if head.listed else of
        return f"{of}, {len(head.columns)} keys"
    word = {",": "commas", "\t": "tabs", ";": "semicolons"}[head.dialect.separator]
    return f"a table separated by {word}, {len(head.columns)} columns, headings in line {head.line}"


def _columns(sample: Sample, head: Head) -> tuple[list[_Column], str]:
    """The columns with some cells, and the decimal separator."""
    units: Sequence[str] = ()
    if head.printed:
        cells = list(head.printed)
    elif head.dialect is None:
        parts = [
            cell_texts(pa.array([member(it, name) for it in head.records], pa.binary())).to_pylist()
            for name in head.columns
        ]
        cells = [tuple(text or "" for text in part) for part in parts]
    else:
        lines = sample.lines[head.line : head.line + _ROWS + 1]
        rows = list[list[str]]()
        with suppress(csv.Error):  # the rows above a cell that is longer than the module allows
            rows.extend(csv.reader(lines, delimiter=head.dialect.separator, skipinitialspace=head.dialect.spaced))
        if rows and are_units(rows[0]):
            units = [unit.strip() for unit in rows.pop(0)]
        rows = [row for row in rows if len(row) == len(head.columns)]
        cells = [tuple(row[index].strip() for row in rows) for index in range(len(head.columns))]
    evidence = Evidence()
    for column in cells:
        for cell in column:
            evidence.add(cell, is_whole=False)
    if evidence.commas:
        cells = [tuple(map(with_point, column)) for column in cells]
    below = dict(zip(head.columns, units, strict=False))
    columns = [
        _Column(
            name,
            heading(name if head.dialect or head.printed else name.rpartition(".")[2]),
            below.get(name, ""),
            column,
        )
        for name, column in zip(head.columns, cells, strict=True)
    ]
    return columns, "comma" if evidence.commas else "point"


class _Guesses:
    """The guesses at the fields of some columns."""

    def __init__(self, columns: list[_Column]) -> None:
        self._columns = columns
        self._found: dict[str, tuple[_Column, bool]] = {}
        self._clock = "relative"

    def proposal(self, layout: str, decimal: str) -> Proposal:
        """Returns all guesses."""
        for name, spellings in SPELLINGS.items():
            if column := self._spelled(name, spellings):
                self._found[name] = (column, True)
        self._settle_times()
        self._settle_names()
        for part in ("grid", "block"):
            if part in self._found and f"{part}_x" in self._found:
                del self._found[part]
        order = sorted(self._found, key=lambda name: list(_ORDER).index(name) if name in _ORDER else len(_ORDER))
        units = self._units()
        guesses = [self._guess(name, *units.get(name, ("", "", True))) for name in order]
        if "kind" not in self._found and self._found.get("name") and "kernel" in self._found["name"][0].head.key:
            guesses.append(Guess("kind", Cell(constant="kernel"), "the heading of the names is about kernels"))
        elif "kind" not in self._found and (words := self._words_of_time(_OF_DEVICE - {"device"})):
            guesses.append(Guess("kind", Cell(constant="kernel"), f"the heading of its time says {words}", sure=False))
        elif "kind" not in self._found and (words := self._words_of_time(_OF_HOST)):
            guesses.append(Guess("kind", Cell(constant="op"), f"the heading of its time says {words}", sure=False))
        lacks = ""
        if "name" not in self._found:
            lacks = "no column has names"
        elif not self._found.keys() & {"start", "count", *FIGURES}:
            lacks = "no column has starts, and none has figures"
        names = tuple(column.name for column in self._columns)
        return Proposal(layout, names, tuple(guesses), decimal, self._clock, lacks, self._for_users() if lacks else "")

    def _for_users(self) -> str:
        """A mapping that says that a column of numbers is the time of what another names; '' for none, or shares."""
        columns = [column for column in self._free() if not _SIGNS.search(column.name)]
        chosen = self._found.get("name")
        if chosen is not None:
            columns.insert(0, chosen[0])
        name = next((column for column in columns if not column.is_number and column.values), None)
        time = next((column for column in columns if column.is_number), None)
        are_shares = any("%" in (column.cell_unit, column.head.unit) for column in columns)
        if name is None or time is None or are_shares or _SIGNS.search(name.name):
            return ""
        return f"name={name.name},value={time.name}:{time.head.unit if is_time(time.head.unit) else 'ms'}"

    def _guess(self, name: str, unit: str, why: str, sure: bool) -> Guess:
        column, by_heading = self._found[name]
        reason = "by its heading" if by_heading else "by its cells"
        return Guess(name, Cell(column.name, unit), f"{reason}; {why}" if why else reason, sure and by_heading)

    def _words_of_time(self, words: frozenset[str]) -> str:
        """Those of some words that are in the heading of the time that the work took; '' for none."""
        time = next((self._found[name][0] for name in ("dur", "value", "total", "avg") if name in self._found), None)
        return " and ".join(sorted(set(time.head.key.split()) & words)) if time else ""

    def _free(self) -> list[_Column]:
        taken = {column.name for column, _ in self._found.values()}
        return [column for column in self._columns if column.name not in taken]

    def _spelled(self, name: str, spellings: Sequence[str]) -> _Column | None:
        """Returns the first column with one of these headings whose cells can be those of the field."""
        for spelling in spellings:
            for column in self._free():
                if column.head.key == spelling and self._can_be(name, column):
                    return column
        return None

    def _can_be(self, name: str, column: _Column) -> bool:
        if name in ("start", "end"):
            return column.is_number or column.is_date
        if name in PLACES and is_time(column.below or column.head.unit):
            return False  # gpu_ms is a time of the GPU, not its number
        if name == "name":
            return not column.is_number and not column.is_date and bool(column.values)
        if name == "kind":
            distinct = set(column.values)
            return bool(distinct) and sum(kind_of(cell) is not None for cell in distinct) * 2 >= len(distinct)
        if name in ("grid", "block"):
            return bool(column.values) and all(_EXTENT.fullmatch(cell) for cell in column.values)
        return column.is_number if name in _NUMBERS else True

    def _settle_times(self) -> None:
        """Decides what a plain `time` is, and leaves out what can't go together."""
        time = next((it for it in self._free() if it.head.key == "time" and (it.is_number or it.is_date)), None)
        if time and "start" not in self._found:
            is_start = time.is_date or bool(self._found.keys() & {"dur", "end"})
            self._found["start" if is_start else "dur"] = (time, True)
        elif time and not self._found.keys() & {"dur", "end"} and time.is_number:
            self._found["dur"] = (time, True)
        if "start" in self._found:
            for name in (*STATISTICS, *(["end"] if "dur" in self._found else [])):
                if name != "value":
                    self._found.pop(name, None)
        elif "dur" in self._found:
            name = "total" if "count" in self._found else "value"
            self._found.setdefault(name, self._found["dur"])
            del self._found["dur"]
        if "start" not in self._found:
            self._found.pop("end", None)
            timed = [it for it in self._free() if it.is_number and is_time(it.below or it.head.unit or it.cell_unit)]
            if timed and not self._found.keys() & set(FIGURES):
                self._found["value"] = (max(timed, key=_likely), False)

    def _settle_names(self) -> None:
        """Takes the first column of texts for the names where no heading is one of names."""
        if "name" not in self._found:
            texts = [it for it in self._free() if it.values and not it.is_number and not it.is_date]
            if texts:
                self._found["name"] = (max(texts, key=lambda it: len(set(it.values)) > 1), False)

    def _units(self) -> dict[str, tuple[str, str, bool]]:
        """The units of times, figures and sizes; why; and whether that is sure."""
        units = {name: self._stated(name) for name in self._found if name in _TIMED}
        units_by_field = {name: unit for name, unit in units.items() if unit is not None}
        for name in [name for name, unit in units.items() if unit is None]:
            units_by_field[name] = self._assumed(name, units_by_field)
        for name in (it for it in SIZES if it in self._found):
            if (unit := self._found[name][0].head.unit) in SIZE_UNITS:
                units_by_field[name] = ("", f"{unit} by its heading", True)
        return units_by_field

    def _stated(self, name: str) -> tuple[str, str, bool] | None:
        """The unit that the table states, None if it doesn't."""
        column = self._found[name][0]
        if column.is_date:
            self._clock = "unix"
            return ISO, "dates and times", True
        if is_time(column.below):
            return "", f"{column.below} below its heading", True
        if is_time(column.head.unit):
            if name == "start" and _epoch_unit(column.numbers) == column.head.unit.lower():
                self._clock = "unix"
            return "", f"{column.head.unit} in its heading", True
        if is_time(column.cell_unit):
            return "", f"{column.cell_unit} in its cells", True
        if name == "value" and "start" in self._found:
            return column.head.unit or column.below, "", True
        return None

    def _assumed(self, name: str, units: dict[str, tuple[str, str, bool]]) -> tuple[str, str, bool]:
        """The unit of times that the table doesn't state."""
        if name == "start" and (unit := _epoch_unit(self._found[name][0].numbers)) and not self._are_ns():
            return unit, f"as {unit} these are dates of this century; clock=unix, if that is so", False
        if name == "start" and (longer := self._unit_without_overlaps(units)):
            return longer
        other = next((self._word(it) for it in ("start", "dur", "end", *FIGURES) if it in units and self._word(it)), "")
        if not other and name != "start" and "start" in units and units["start"][0] not in ("", ISO):
            other = units["start"][0]
        if other:
            return other, f"{NO_UNIT}: {other} as the other times", False
        if self._are_ns():
            return "ns", f"{NO_UNIT} anywhere: whole numbers, no duration below {_LONG}, may be ns", False
        return "us", f"{NO_UNIT} anywhere: us is a guess", False

    def _unit_without_overlaps(self, units: dict[str, tuple[str, str, bool]]) -> tuple[str, str, bool] | None:
        """A longer unit of starts than that of durations, where in the latter most rows would overlap with the next."""
        if "dur" not in units or not (unit := self._word("dur")):
            return None
        dur = self._found["dur"][0]
        starts, durations = self._found["start"][0].numbers, dur.numbers
        if len(starts) < 3 or len(starts) != len(durations):
            return None
        rows = sorted(zip(starts, durations, strict=True))
        pairs = [(after[0] - before[0], before[1]) for before, after in pairwise(rows)]
        scale = TIME_NS[unit if unit in TIME_NS else unit.lower()]
        for longer in ("ns", "us", "ms", "s"):
            times = TIME_NS[longer] / scale
            if times >= 1 and sum(gap * times < length for gap, length in pairs) * 5 <= len(pairs):
                as_others = times == 1
                why = f"{longer} as the other times" if as_others else f"{longer}, since in {unit} {_OVERLAP}"
                return longer, f"{NO_UNIT}: {why}", False
        return None

    def _are_ns(self) -> bool:
        """Whether times are whole numbers and no duration is as short as kernels are in us."""
        columns = [self._found[name][0] for name in ("start", "end", "dur", *FIGURES) if name in self._found]
        if not all(it.is_number and all(number == int(number) for number in it.numbers) for it in columns):
            return False
        start, end, dur = (
            self._found[name][0].numbers if name in self._found else [] for name in ("start", "end", "dur")
        )
        lengths = dur or [to - at for at, to in zip(start, end, strict=False)] or columns[-1].numbers
        lengths = [length for length in lengths if length]
        return bool(lengths) and min(lengths) >= _LONG and (bool(dur or end) or "start" not in self._found)

    def _word(self, name: str) -> str:
        """The unit of time that the table states for a field."""
        column = self._found[name][0]
        words = (column.below, column.head.unit, column.cell_unit)
        return next((word for word in words if is_time(word)), "")


#: Words in headings of times: those of work of a device, those of other work or of a part of it.
_OF_DEVICE = frozenset(("device", "gpu", "kernel", "npu", "cuda", "hip"))
_OF_HOST = frozenset(("host", "cpu", "dispatch"))
_OF_A_PART = frozenset(("start", "end", "wait", "latency", "gap", "idle", "min", "max", "avg", "first", "last", "per"))


def _likely(column: _Column) -> int:
    """How likely a column has the time that the named work took on a device."""
    words = set(column.head.key.split())
    return len(words & _OF_DEVICE) - 2 * len(words & _OF_A_PART) - 8 * len(words & _OF_HOST)


#: The order in which guesses are shown.
_ORDER = ("name", "start", "end", "dur", "kind", "value", *(it for it in FIGURES if it != "value"), "count", "percent")


def _epoch_unit(numbers: list[Decimal]) -> str:
    """The unit in which all numbers are unix times between 2001 and 2039, '' for none."""
    for power, unit in _EPOCHS:
        low, high = Decimal(10) ** power, Decimal(22) * Decimal(10) ** (power - 1)
        if numbers and low <= min(numbers) and max(numbers) <= high:
            return unit
    return ""
