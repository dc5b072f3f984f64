"""A mapping: which column of any table is which field of a row.

name=Kernel,start=t0:us,dur=Δ:us,stream=queue,kind='kernel'      on a command line

name = "Kernel"                                                  in a file next to the data, run.csv.ktrace.toml
start = { column = "t0", unit = "us" }
kind = { constant = "kernel" }

Of lines that are no table it has patterns, whose placeholders name the fields (`line_pattern.py` beside this):

line='{name} took {dur} ms on {device}',kind='kernel'

A `Proposal` is a guess at it, which `ktrace map` shows before anything trusts it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ktrace.errors import InputError, KtraceError, UsageError
from ktrace.input.files import open_file
from ktrace.input.line_pattern import DATE, LinePattern, line_pattern
from ktrace.input.source import MAPPING_SUFFIX
from ktrace.model.schema import columns_in, fields

#: The format that reads tables by a mapping.
FORMAT = "mapped"

TIMES = ("start", "end", "dur")
FIGURES = ("value", "total", "avg", "median", "min", "max", "stddev", "p95", "p99")
EXTENTS = ("grid", "block")
PLACES = ("device", "stream", "process", "thread")


def _columns(*types: str) -> tuple[str, ...]:
    """The columns of the model that are fields under their own name, by the types of their values."""
    specs = fields("summaries") | fields("events")
    names = ("context", "percent", "count", *columns_in("link", "grid", "launch", "transfer", "label"))
    return tuple(name for name in names if specs[name]["x-arrow"] in types)


SIZES = tuple(name for name in _columns("int64") if fields("events").get(name, {}).get("x-unit") == "B")
WHOLE = tuple(name for name in _columns("int64", "int32") if name not in SIZES)
NUMBERS = _columns("float64")
TEXTS = ("name", "cat", "track", "host", *_columns("string", "dictionary"))

#: Every field of a mapping.
FIELDS = ("name", *TIMES, "kind", *PLACES, *EXTENTS, *WHOLE, *SIZES, *FIGURES, *NUMBERS, *TEXTS[1:])

#: Fields whose cells are numbers.
_MEASURED = frozenset((*TIMES, *FIGURES, *SIZES, *WHOLE, *NUMBERS))

#: Figures of many occurrences, which an event doesn't have.
OF_MANY = (*(figure for figure in FIGURES if figure != "value"), "count", "percent")

#: Further names of fields.
ALIASES = {
    **dict.fromkeys(("ts", "begin"), "start"),
    **dict.fromkeys(("duration",), "dur"),
    **{"stop": "end", "pid": "process", "tid": "thread", "queue": "stream", "category": "cat"},
    **{"corr": "correlation", "average": "avg", "mean": "avg", "calls": "count"},
}

#: Units of times; `iso` is a date and time such as 2026-11-22T16:05:05.123Z. Units of sizes: KB is 1000, KiB 1024.
TIME_UNITS = ("s", "ms", "us", "µs", "μs", "ns", "ps")
ISO = DATE
SIZE_UNITS = {
    **{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40},
    **{"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
}

#: Setting -> its values, the default first.
SETTINGS = {"decimal": ("point", "comma"), "clock": ("relative", "unix")}

_PAIR = re.compile(
    r"\s*(kinds\.[^=,]*[^=,\s]|[A-Za-z_]\w*)\s*=\s*"
    r"(?:'(?P<constant>(?:[^']|'')*)'|\"(?P<quoted>(?:[^\"]|\"\")*)\"|(?P<bare>[^,'\"][^,]*|))"
    r"(?P<unit>:[^,]*)?\s*(?:,|$)"
)
_PLAIN = re.compile(r"[^\s,:='\"][^,:='\"]*(?<!\s)")


class Cell(msgspec.Struct, frozen=True):
    """What fills a field: the cells of a column with their unit ('' if table or cells state it), or a constant."""

    column: str = ""
    unit: str = ""
    constant: str | None = None

    def __str__(self) -> str:
        if self.constant is not None:
            return "'" + self.constant.replace("'", "''") + "'"
        column = self.column if _PLAIN.fullmatch(self.column) else '"' + self.column.replace('"', '""') + '"'
        return f"{column}:{self.unit}" if self.unit else column


class ColumnMap(msgspec.Struct, frozen=True):
    """A mapping. `origin` is the file that it was read from, None for `--map`.

    `kinds` maps cells of the column of `kind` to kinds of the model. `decimal` is the decimal separator of numbers,
    `clock` tells whether starts are counted from 1970 ("unix") or from any other moment ("relative").
    `lines` are patterns of lines that are no table: their placeholders fill the fields that `cells` doesn't.
    """

    cells: Mapping[str, Cell]
    kinds: Mapping[str, str] = msgspec.field(default_factory=dict)
    decimal: str = "point"
    clock: str = "relative"
    lines: tuple[str, ...] = ()
    origin: Path | None = None

    def text(self) -> str:
        """The mapping as `--map` takes it."""
        pairs = [f"line={Cell(constant=line)}" for line in self.lines]
        pairs += [f"{name}={cell}" for name, cell in self.cells.items()]
        pairs += [f"kinds.{word}={kind}" for word, kind in self.kinds.items()]
        pairs += [f"{name}={getattr(self, name)}" for name, values in SETTINGS.items() if self._is_set(name, values)]
        return ",".join(pairs)

    def toml(self, remarks: Iterable[str] = ()) -> str:
        """The mapping as a TOML file, which begins with some remarks."""
        lines = [f"# {remark}".rstrip() for remark in remarks]
        if self.lines:
            lines += ["lines = [", *(f"    {_quoted(line)}," for line in self.lines), "]"]
        for name, cell in self.cells.items():
            if cell.constant is not None:
                lines.append(f"{name} = {{ constant = {_quoted(cell.constant)} }}")
            elif cell.unit:
                lines.append(f"{name} = {{ column = {_quoted(cell.column)}, unit = {_quoted(cell.unit)} }}")
            else:
                lines.append(f"{name} = {_quoted(cell.column)}")
        lines += [
            f"{name} = {_quoted(getattr(self, name))}"
            for name, values in SETTINGS.items()
            if self._is_set(name, values)
        ]
        if self.kinds:
            lines += ["", "[kinds]", *(f"{_quoted(word)} = {_quoted(kind)}" for word, kind in self.kinds.items())]
        return "\n".join(lines) + "\n"

    def _is_set(self, name: str, values: tuple[str, ...]) -> bool:
        return bool(getattr(self, name) != values[0])

    @property
    def where(self) -> str:
        """The file or option that contains it, for messages."""
        return str(self.origin) if self.origin else "--map"

    def changed(self, other: ColumnMap) -> ColumnMap:
        """Returns the mapping with the fields of another one in place of its own."""
        cells = {
            name: cell for name, cell in self.cells.items() if name in other.cells or not _excluded(name, other.cells)
        }
        settings = {name: getattr(other, name) for name, values in SETTINGS.items() if other._is_set(name, values)}
        return replace(
            self,
            cells={**cells, **other.cells},
            kinds={**self.kinds, **other.kinds},
            lines=other.lines or self.lines,
            **settings,
        )

    def check(self) -> ColumnMap:
        """Returns the mapping. Raises UsageError or InputError where it can't make rows."""
        if self.lines:
            self.of_lines().check()
            return self
        cells = self.cells
        for name, cell in cells.items():
            self._check_cell(name, cell)
        if "name" not in cells:
            raise self.error("it has no name", expected="name=COLUMN")
        for one, others in (("dur", ("end",)), *((part, [f"{part}_{axis}" for axis in "xyz"]) for part in EXTENTS)):
            if one in cells and (both := [other for other in others if other in cells]):
                raise self.error(f"it has both {one} and {both[0]}", remedy="leave out one of them")
        if "start" in cells and (figures := [name for name in OF_MANY if name in cells]):
            why = f"{figures[0]} is a statistic of many occurrences, but rows with a start are single events"
            raise self.error(why, remedy=f"leave out {figures[0]}: its column becomes an argument")
        if "start" not in cells and not any(name in cells for name in (*FIGURES, "count")):
            given = next((name for name in ("dur", "end") if name in cells), None)
            why = f"it has {given}, but no start" if given else "it has neither a start nor a figure"
            raise self.error(
                why, expected="start=COLUMN with dur or end; or total, avg, count, value, ...", remedy=_PAIRS
            )
        return self

    def patterns(self) -> list[LinePattern]:
        """The patterns of lines. Raises UsageError or InputError for one that can't be understood."""
        compiled = []
        for line in self.lines:
            try:
                compiled.append(line_pattern(line, _MEASURED, ALIASES))
            except ValueError as error:
                expected = "a text with names of fields in braces, such as {name} took {dur} ms"
                raise self.error(f"the line '{line}' can't be understood: {error}", expected=expected) from None
        return compiled

    def of_lines(self) -> ColumnMap:
        """The mapping of what the patterns of lines have in braces, as that of the columns of a table.

        A duration without a start is the total of one occurrence. Raises UsageError or InputError.
        """
        cells = dict(self.cells)
        patterns = self.patterns()
        for pattern in patterns:
            if "name" not in pattern.fields and "name" not in cells:
                raise self.error(f"the line '{pattern.text}' has no name", expected="{name} in it, or name='constant'")
            if ("start" in pattern.fields) != ("start" in patterns[0].fields):
                raise self.error("some lines have a start and others none", expected="a start in each line, or in none")
            units = {name: unit if unit == ISO else "" for name, unit in pattern.fields.items() if name in FIELDS}
            cells |= {name: Cell(name, unit) for name, unit in units.items() if name not in cells}
        if "dur" in cells and "start" not in cells:
            cells = {name: cell for name, cell in cells.items() if name != "dur"}
            cells |= {"total": Cell("dur"), "count": Cell("count")}
        return replace(self, cells=cells, lines=())

    def _check_cell(self, name: str, cell: Cell) -> None:
        if cell.constant is not None and name in (*TIMES, *FIGURES, "count", "percent"):
            raise self.error(f"{name} is a constant", expected=f"{name}=COLUMN, the column with these cells")
        if not cell.column and cell.constant is None:
            raise self.error(f"{name} has no column", expected=f"{name}=COLUMN")
        units: Iterable[str] = ()
        if name in TIMES:
            units = (*TIME_UNITS, ISO) if name != "dur" else TIME_UNITS
        elif name in SIZES:
            units = SIZE_UNITS
        if cell.unit and name not in FIGURES and cell.unit not in units:
            expected = f"one of {', '.join(units)}" if units else f"{name}=COLUMN without a unit"
            raise self.error(f"'{cell.unit}' isn't a unit of {name}", expected=expected)

    def error(self, what: str, *, expected: str | None = None, remedy: str | None = None) -> KtraceError:
        """Returns an error in the mapping: one of usage for `--map`, one of the input for a file."""
        if self.origin is None:
            return UsageError(f"--map: {what}", expected=expected, remedy=remedy)
        return InputError(f"the mapping can't be used: {what}", path=str(self.origin), expected=expected, remedy=remedy)


_PAIRS = "ktrace map FILE shows a guess, which you can change"


def mapping_of(value: str | Path) -> ColumnMap:
    """Returns the mapping that a value of `--map` states: pairs, or the path of a TOML file (*.toml).

    Raises UsageError or InputError.
    """
    if str(value).endswith(".toml") and "=" not in Path(value).name:
        return read_mapping(Path(value))
    return _parsed(str(value)).check()


def parts_of(value: str) -> ColumnMap:
    """Returns some pairs, which needn't be a whole mapping. Raises UsageError."""
    return _parsed(value)


def read_mapping(path: Path) -> ColumnMap:
    """Returns the mapping in a TOML file. Raises InputError."""
    try:
        import tomllib as toml
    except ImportError:  # Python 3.10
        import tomli as toml  # type: ignore[no-redef, import-not-found, unused-ignore]
    empty = ColumnMap({}, origin=path)
    try:
        with open_file(path) as file:
            document = toml.loads(file.read().decode())
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it isn't UTF-8"
        raise InputError(f"the mapping can't be read: {why}", path=str(path), remedy="check the path") from None
    except (toml.TOMLDecodeError, RecursionError) as error:
        raise empty.error(f"it isn't TOML: {error}", expected='lines such as name = "Kernel"') from None
    lines = document.pop("lines", [])
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise empty.error("lines isn't a list of texts", expected='lines = ["{name} took {dur} ms"]')
    kinds = document.pop("kinds", {})
    if not isinstance(kinds, dict) or not all(isinstance(kind, str) for kind in kinds.values()):
        raise empty.error("[kinds] isn't a table of texts", expected='lines such as AI_CORE = "kernel"')
    items = [("line", Cell(constant=line)) for line in lines]
    items += [(key, _cell_of(empty, key, value)) for key, value in document.items()]
    items += [(f"kinds.{word}", Cell(kind)) for word, kind in kinds.items()]
    return _assembled(items, empty).check()


def _cell_of(empty: ColumnMap, key: str, value: Any) -> Cell:
    """Returns the cell that a value of a TOML file states."""
    if isinstance(value, str):
        return Cell(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Cell(constant=str(value))
    if (
        isinstance(value, dict)
        and value.keys() <= {"column", "unit"}
        and all(isinstance(it, str) for it in value.values())
    ):
        return Cell(value.get("column", ""), value.get("unit", ""))
    if isinstance(value, dict) and value.keys() == {"constant"} and isinstance(value["constant"], (str, int)):
        return Cell(constant=str(value["constant"]))
    expected = f'{key} = "COLUMN", or {key} = {{ column = "COLUMN", unit = "us" }}, or {key} = {{ constant = "..." }}'
    raise empty.error(f"{key} can't be understood", expected=expected)


def _parsed(text: str) -> ColumnMap:
    return _assembled(_pairs(text), ColumnMap({}))


def _pairs(text: str) -> Iterator[tuple[str, Cell]]:
    """Yields the pairs of a text: field, cell. Raises UsageError."""
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if not match:
            raise UsageError(
                f"--map: can't understand '{text[at : at + 40]}'",
                expected="FIELD=COLUMN or FIELD=COLUMN:UNIT or FIELD='constant', separated by commas",
                remedy='a column with a comma or a colon needs double quotes: name="a, b"',
            )
        name, unit = match[1].strip(), (match["unit"] or "")[1:].strip()
        if match["constant"] is not None:
            yield name, Cell(constant=match["constant"].replace("''", "'"))
        elif match["quoted"] is not None:
            yield name, Cell(match["quoted"].replace('""', '"'), unit)
        else:
            column, colon, word = match["bare"].strip().rpartition(":")
            has_unit = colon and _may_be_unit(ALIASES.get(name, name), word.strip())
            yield name, Cell(column.strip(), word.strip()) if has_unit else Cell(match["bare"].strip())
        at = match.end()


def _may_be_unit(name: str, word: str) -> bool:
    """Whether the word after the last colon is a unit, and not part of the column's name."""
    return name in FIGURES or (name in (*TIMES, *SIZES) and word in (*TIME_UNITS, ISO, *SIZE_UNITS))


def _assembled(items: Iterable[tuple[str, Cell]], empty: ColumnMap) -> ColumnMap:
    """Returns the mapping of some pairs; `empty` has their origin. Raises UsageError or InputError."""
    cells: dict[str, Cell] = {}
    kinds: dict[str, str] = {}
    settings: dict[str, str] = {}
    lines: list[str] = []
    for key, cell in items:
        name = ALIASES.get(key, key)
        value = cell.column or cell.constant or ""
        if key.startswith("kinds."):
            kinds[key.removeprefix("kinds.").strip()] = value
        elif key == "line":
            lines.append(value)
        elif key in SETTINGS:
            if value not in SETTINGS[key]:
                raise empty.error(f"{key} is '{value}'", expected=f"one of {', '.join(SETTINGS[key])}")
            settings[key] = value
        elif name not in FIELDS:
            remedy = f"did you mean {near}?" if (near := nearest(key, (*FIELDS, *SETTINGS))) else None
            raise empty.error(f"there is no field '{key}'", expected=f"one of {', '.join(FIELDS)}", remedy=remedy)
        elif name in cells:
            raise empty.error(f"{name} occurs twice", remedy="leave out one of them")
        else:
            cells[name] = cell
    return ColumnMap(cells, kinds, **settings, lines=tuple(lines), origin=empty.origin)


def _excluded(name: str, others: Mapping[str, Cell]) -> bool:
    """Whether a field gives way to the fields of another mapping: dur to end, grid_x to grid."""
    if name in ("dur", "end"):
        return "dur" in others or "end" in others
    part, _, axis = name.partition("_")
    return part in EXTENTS and (part in others if axis else any(f"{part}_{it}" in others for it in "xyz"))


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Returns the word that is spelled most like another one; None if none is similar."""
    from difflib import get_close_matches

    small = {it.casefold(): it for it in words}
    close = get_close_matches(word.casefold(), small, 1, 0.5)
    return small[close[0]] if close else None


def mapping_path(path: str) -> Path:
    """Returns where the mapping of a file is kept: next to it."""
    return Path(path + MAPPING_SUFFIX)


def _quoted(text: str) -> str:
    """A text as a basic string of TOML, which is written as in JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


#: Why the unit of a time is a guess, in `Guess.because`.
NO_UNIT = "no unit is stated"


class Guess(msgspec.Struct, frozen=True):
    """A field with what may fill it, and why. `sure`: the table itself states it."""

    field: str
    cell: Cell
    because: str
    sure: bool = True


class Proposal(msgspec.Struct, frozen=True):
    """What a table may mean: `layout` in words, its columns, the guesses, and the settings of the mapping.

    `lacks` is why this can't be a mapping yet, '' if it can; `stated` is one that says the rest. `lines` are
    patterns of lines that are no table.
    """

    layout: str
    columns: tuple[str, ...]
    guesses: tuple[Guess, ...]
    decimal: str = "point"
    clock: str = "relative"
    lacks: str = ""
    stated: str = ""
    lines: tuple[str, ...] = ()

    def mapping(self) -> ColumnMap:
        """The guesses as a mapping, which may lack something."""
        if self.lines:
            cells = {guess.field: guess.cell for guess in self.guesses if guess.cell.constant is not None}
            return ColumnMap(cells, lines=self.lines)
        cells = {guess.field: guess.cell for guess in self.guesses}
        return ColumnMap(cells, decimal=self.decimal, clock=self.clock)
