"""Tables of figures, and figures and names for people: 1.200 ms, 61.5%, 4,096, 2.1 MB; names without side effects.

    Table("operation", "by operation", (Column("operation"), Column("time", "ns"), Column("share", "%")),
          [("gemm", 1_200_000, 61.5), ("norm", 751_000, 38.5)])

A table is independent of the format: text and Markdown show `1.200 ms`; CSV and JSON contain the exact figure under
`time_ns`.

shown(1_200_000, Column("time", "ns"))                 1.200 ms
shown(-3.25, Column("change", "%", signed=True))       -3.2%
shown(310.0, Column("change", "%", factors=True))      4.1x
escape_controls("evil\x1b[2J")                         evil\x1b[2J, in plain characters
shortened("void at::native::vectorized_...", 20)       void at::nati…ernel>
parse_interval("1.5s..2s")                             times as written on a command line

Programs get some of the tables, some rows of each, so many bytes, and where it goes on:

Limits(rows=10).select(tables)              by kernel: 10 rows, `more` 120, `next` "kernel:10"
Limits(rows=10, after="kernel:10")      by kernel alone, from the eleventh row on
fitted(tables, as_json, 4_000)          as many whole rows as 4,000 bytes hold, those at the end left out

frames      tables as Arrow tables and DataFrames; what a notebook shows
text        tables as text, fitted to a terminal, and as CSV, JSON and Markdown
workbook    tables as a workbook of Excel
annotations   what a workflow of GitHub shows beside its log
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import count, takewhile
from numbers import Integral, Real

from ktrace.errors import UsageError

#: A cell: text, an exact number, a figure; None where the source doesn't state it.
Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """The heading of a column and the unit of its figures: ns, %, count, B, B/s, J, W, x (a factor); "" is text.

    Figures in "exact" have no unit: whole numbers are shown digit by digit.

    Figures that are `signed` are changes: people see +1.200 ms. Those that are `factors`, too, are percent of what was
    before: people see 4.1x instead of +310.0%. A column that `decides` stays next to the first one where a terminal is
    too narrow for all; rows with that text in it matter less, and are dim where there are colours. `spoken` has what
    people read instead of some codes, which programs get; `title` is what they read instead of the name. Text that is
    `prose` is below its row on a terminal, whole.
    """

    name: str
    unit: str = ""
    signed: bool = False
    decides: str = ""
    factors: bool = False
    spoken: Mapping[str, str] = field(default_factory=dict, hash=False)
    title: str = ""
    prose: bool = False

    @property
    def heading(self) -> str:
        """The column's heading for people."""
        return self.title or self.name

    @property
    def key(self) -> str:
        """The column's name for programs: `time_ns`, `share_percent`, `count`, `operation`."""
        suffix = {
            "ns": "_ns",
            "%": "_percent",
            "B": "_bytes",
            "B/s": "_bytes_per_s",
            "J": "_joules",
            "W": "_watts",
        }.get(self.unit, "")
        return self.name.replace(" ", "_") + suffix


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. `name` is for programs, `title` for people; `notes` are sentences below the table.

    `more` is the number of rows left out after the last one, `next` the cursor of the first of them,
    `begin` the number of those before the first one here. Keys of columns are unique (else ValueError). The rows of
    `sentences` are sentences, which are shown without a table around them.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]
    notes: list[str] = field(default_factory=list)
    more: int = 0
    sentences: bool = False
    next: str = ""
    begin: int = 0

    @property
    def key(self) -> str:
        """The table's name for programs: `idle_host`."""
        return self.name.replace(" ", "_")

    def __post_init__(self) -> None:
        keys = [column.key for column in self.columns]
        if len({*keys}) < len(keys):
            raise ValueError(f"table {self.name}: two columns have the same key: {', '.join(keys)}")


def prose(name: str, sentences: Sequence[str]) -> list[Table]:
    """Sentences as a table without a title; no table without sentences."""
    rows: list[tuple[Cell, ...]] = [(sentence,) for sentence in sentences]
    return [Table(name, "", (Column(name),), rows, sentences=True)] if rows else []


#: Characters that move a cursor, change the direction of writing, end lines, or can't be encoded.
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]")

#: Digits of the number in a cursor, at most.
_DIGITS = 18

#: Factors and units of times that are no times of kernels, largest first.
_LONG = ((86_400 * 10**9, "days"), (3_600 * 10**9, "h"))

#: Factors and units of times, largest first.
TIMES = ((10**9, "s"), (10**6, "ms"), (10**3, "us"))
_SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def percent(part: float | None, whole: float | None) -> float | None:
    """The part in percent of the whole; None where either is unknown or the whole is 0."""
    return None if part is None or not whole else 100 * part / whole


def plain(cell: object) -> Cell:
    """The cell as Python's own str, int or float (numpy has others); None for NaN and infinities."""
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, Integral):
        return int(cell)
    if isinstance(cell, Real):
        return float(cell) if math.isfinite(cell) else None
    return str(cell)


def rounded(cell: Cell, unit: str = "%") -> Cell:
    """The figure with the digits that it deserves, for programs: whole numbers exactly, times and counts with three
    decimals, ratios, rates and probabilities with six digits.
    """
    if not isinstance(cell, float):
        return cell
    return round(cell, 3) if unit in ("ns", "count", "cycle", "B") else float(f"{cell:.6g}")


#: A change in percent from which on people see how many times as much it is.
_DOUBLED = 100


def times_text(factor: float) -> str:
    """A factor for people: 2.1, 694."""
    return f"{factor:,.1f}" if factor < 10 else f"{factor:,.0f}"


def shown(cell: object, column: Column) -> str:
    """The cell as people read it in that column; "" for an unknown figure."""
    value = plain(cell)
    if value is None:
        return ""
    if isinstance(value, str):
        return escape_controls(column.spoken.get(value, value))
    if column.factors and value >= _DOUBLED:
        return f"{times_text(1 + value / 100)}x"
    text = _WRITTEN[column.unit](value)
    return f"+{text}" if column.signed and value > 0 else text


def duration(ns: float) -> str:
    """A time for people: 2.500 days, 3.210 h, 1.234 s, 56.789 ms, 12.345 us, 7 ns."""
    for factor, unit in (*_LONG, *TIMES):
        if abs(ns) >= factor:
            return f"{ns / factor:,.3f} {unit}"
    return f"{ns:,.0f} ns"


def brief(value: float, unit: str = "ns") -> str:
    """A figure next to a chart, with three digits: 1.23 s, 56.8 ms, 346 us; other units as in tables."""
    if unit != "ns":
        return _WRITTEN[unit](value)
    for factor, name in (*_LONG, *TIMES):
        if abs(value) >= factor:
            number = value / factor
            return f"{number:,.{2 if abs(number) < 10 else 1 if abs(number) < 100 else 0}f} {name}"
    return f"{value:,.0f} ns"


def exact(value: float, unit: str = "ns") -> str:
    """A figure as tables show it."""
    return _WRITTEN[unit](value)


def size(count: float) -> str:
    """Bytes for people: 1.5 GB, 4.1 kB, 512 B."""
    for factor, unit in _SIZES:
        if abs(count) >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count:,.0f} B"


def escape_controls(text: str) -> str:
    r"""The text with escapes for characters that have no visible form: `\x1b`, `\n`, `\u202e`."""
    return UNSEEN.sub(lambda match: _escape(match.group()), text)


def shortened(text: str, width: int) -> str:
    """The text without its middle where it is longer than `width`: its beginning and its end tell most."""
    if len(text) <= width:
        return text
    tail = max((width - 1) // 3, 0)
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def shortened_apart(texts: Sequence[str], width: int, cut: Callable[[str, int], str] = shortened) -> list[str]:
    """The texts of a column, each `cut` to `width`; different texts stay different.

    Where several would look the same, they show where they begin to differ, and a number if that isn't enough.
    """
    cuts = {text: cut(text, width) for text in texts}
    alike: dict[str, list[str]] = {}
    for text, seen in cuts.items():
        alike.setdefault(seen, []).append(text)
    taken = set(alike)
    head = width // 3
    for group in (group for group in alike.values() if len(group) > 1):
        same = takewhile(lambda letters: len(set(letters)) == 1, zip(*group, strict=False))
        begin = max(head, sum(1 for _ in same) - width // 10)
        numbers = count(1)
        for text in group:
            seen = cut(f"{text[:head]}…{text[begin:]}", width)
            while seen in taken:
                mark = f" #{next(numbers)}"
                seen = cut(text, width - len(mark)) + mark
            taken.add(seen)
            cuts[text] = seen
    return [cuts[text] for text in texts]


def _escape(character: str) -> str:
    return {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(
        character, f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"
    )


def _count(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}".removesuffix(".0")


def _short(value: float) -> str:
    """A fraction with three decimals, a small one with three digits."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if abs(value) >= 0.1 or not value else f"{value:.3g}"


def _four_digits(value: float) -> str:
    """A figure with four digits, a greater one whole."""
    return f"{value:,.0f}" if 10_000 <= abs(value) < 10**15 else f"{value:.4g}"


def _scaled(value: float, unit: str) -> str:
    """A figure with a prefix: 1.234 kJ, 56.789 J, 12.345 mJ, 7.000 uJ."""
    for factor, prefix in ((1e3, "k"), (1, ""), (1e-3, "m")):
        if abs(value) >= factor:
            return f"{value / factor:,.3f} {prefix}{unit}"
    return f"{value * 1e6:,.3f} u{unit}" if value else f"0 {unit}"


_WRITTEN: dict[str, Callable[[float], str]] = {
    "": lambda value: str(value) if isinstance(value, int) else _four_digits(value),
    "ns": duration,
    "%": lambda value: f"{value:,.1f}%",
    "B": size,
    "B/s": lambda value: f"{size(value)}/s",
    "count": _count,
    "cycle": _count,
    "x": lambda value: f"{value:,.2f}x",
    "J": lambda value: _scaled(value, "J"),
    "W": lambda value: f"{value:,.1f} W",
    "exact": lambda value: str(value) if isinstance(value, int) else _short(value),
}


#: Unit -> ns.
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "μs": 10**3, "ns": 1}

#: The units of a time that is given: a time zone is hours away.
_GIVEN = {"h": 3600 * 10**9, "min": 60 * 10**9} | UNITS

_TIME = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([^\W\d]*)")


def parse_time(text: str) -> int:
    """A time or duration in ns: a number with the unit h, min, s, ms, us or ns; 0 needs none.

    Raises UsageError for anything else.
    """
    parts = _TIME.fullmatch(text.strip())
    number, unit = parts.groups() if parts else ("", "")
    if not number or (unit not in _GIVEN and Decimal(number)) or (unit and unit not in _GIVEN):
        what = f"'{unit}' isn't a unit of time" if unit else f"'{text}' isn't a time with a unit"
        expected = "h, min, s, ms, us or ns, such as 1.5s or 250us"
        raise UsageError(f"{what} (in '{text}')" if unit else what, expected=expected)
    ns = Decimal(number) * _GIVEN.get(unit, 1)
    return int(ns.to_integral_value(ROUND_HALF_EVEN))


def parse_interval(text: str) -> tuple[int | None, int | None]:
    """The ends of `FROM..TO` in ns; one of them may be left out and is None.

    Raises UsageError if it isn't an interval, or ends before it begins.
    """
    first, dots, last = text.partition("..")
    if not dots or not (first.strip() or last.strip()):
        raise UsageError(f"'{text}' isn't a time interval", expected="FROM..TO, such as 1.5s..2.0s, ..2s or 1s..")
    begin, end = (parse_time(part) if part.strip() else None for part in (first, last))
    if begin is not None and end is not None and end < begin:
        raise UsageError(f"the interval '{text}' ends before it begins", remedy=f"{last.strip()}..{first.strip()}")
    return begin, end


def time_text(ns: int) -> str:
    """The exact time as text, in the greatest unit in which it is 1 or more: `1.5s`, `250us`, `0s`."""
    for unit in ("s", "ms", "us", "ns"):
        if abs(ns) >= UNITS[unit] or unit == "ns":
            break
    return f"{(Decimal(ns) / UNITS[unit]).normalize():f}{unit}" if ns else "0s"


#: From two hours on, in ns, seconds alone say little.
_HOURS = 2 * 3600 * 10**9


def long_time_text(ns: int) -> str:
    """The exact time as text, a long one also as people say it: `80000000s (926 days)`."""
    return f"{time_text(ns)} ({brief(abs(ns))})" if abs(ns) >= _HOURS else time_text(ns)


#: The name by which findings are asked for, beside those of tables.
FINDINGS = "findings"


@dataclass(frozen=True)
class Limits:
    """Which tables, by key or name (none: all), at most so many `rows` of each, so many `bytes` of output in all.

    `after` is a cursor, as `Table.next` has it: the rows of that table alone, from there on.
    """

    tables: tuple[str, ...] = ()
    rows: int | None = None
    bytes: int | None = None
    after: str | None = None

    @property
    def findings(self) -> bool:
        """Whether findings are wanted, too."""
        return FINDINGS in self.tables if self.tables else self.after is None

    def select(self, tables: Sequence[Table]) -> list[Table]:
        """The tables that are wanted. Raises UsageError if there is no table of a name, or no such cursor."""
        keys = [table.key for table in tables]
        names, (after, begin) = [name.replace(" ", "_") for name in self.tables], self.cursor()
        names = [after] if after is not None else names
        for name in names:
            if name not in keys and name != FINDINGS:
                raise UsageError(
                    f"there is no table '{name}'",
                    expected=", ".join(dict.fromkeys([*keys, FINDINGS])),
                    remedy="what --by adds needs --by, too",
                )
        chosen = [table for table in tables if not names or table.key in names]
        if begin:
            chosen = [replace(table, rows=table.rows[begin:], begin=begin) for table in chosen]
        return [cut(table, self.rows) for table in chosen]

    def cursor(self) -> tuple[str | None, int]:
        """The key of the table that goes on, and the number of its rows that came before. Raises UsageError."""
        if self.after is None:
            return None, 0
        name, _, begin = self.after.rpartition(":")
        if not name or not begin.isdecimal() or len(begin) > _DIGITS:
            raise UsageError(
                f"'{self.after}' isn't a cursor", expected="TABLE:ROWS, as `next` has it, such as kernel:10"
            )
        return name.replace(" ", "_"), int(begin)


def cut(table: Table, rows: int | None) -> Table:
    """The table with at most so many rows, and the cursor of the others."""
    if rows is None or len(table.rows) <= rows or table.sentences:
        return table
    left = len(table.rows) - rows
    return replace(table, rows=table.rows[:rows], more=table.more + left, next=f"{table.key}:{table.begin + rows}")


def without_empty(table: Table) -> Table:
    """The table without the columns, other than the first, in which no row has anything."""
    columns = list(zip(*table.rows, strict=True))
    kept = [place for place, cells in enumerate(columns) if not place or any(cell not in (None, "") for cell in cells)]
    if len(columns) != len(table.columns) or len(kept) == len(columns):
        return table
    rows = [tuple(row[place] for place in kept) for row in table.rows]
    return replace(table, columns=tuple(table.columns[place] for place in kept), rows=rows)


def spread(table: Table, kept: Sequence[int]) -> Table:
    """The least, the median and the greatest of each figure of a table, then the rows that are kept.

    Its first column has names, all others figures, some of which may be unknown.
    """
    _, *columns = zip(*table.rows, strict=True)
    figures = [sorted(cell for cell in column if isinstance(cell, (int, float))) for column in columns]
    of: Mapping[str, Callable[[list[int | float]], float]] = {
        "minimum": min,
        "median": lambda figures: (figures[(len(figures) - 1) // 2] + figures[len(figures) // 2]) / 2,
        "maximum": max,
    }
    rows: list[tuple[Cell, ...]] = [
        (name, *(value(column) if column else None for column in figures)) for name, value in of.items()
    ]
    return replace(table, rows=[*rows, *(table.rows[number] for number in kept)])


def fitted(tables: Sequence[Table], render: Callable[[Sequence[Table]], str], most: int) -> str:
    """The tables as text of at most `most` bytes: whole rows are left out, the last ones of the last tables first.

    Raises UsageError if that isn't enough for the rest.
    """

    def text(rows: int) -> str:
        kept = []
        for table in tables:
            kept.append(cut(table, max(rows, 0)))
            rows -= 0 if table.sentences else len(table.rows)
        return render(kept)

    def fits(text: str) -> bool:
        return len(text.encode("utf-8", "backslashreplace")) <= most

    every = sum(len(table.rows) for table in tables if not table.sentences)
    low, high, fitting = 0, 16, text(0)
    if not fits(fitting):
        least = len(fitting.encode("utf-8", "backslashreplace"))
        raise UsageError(f"{most:,} bytes can't hold a row", expected=f"at least {least:,}", remedy="fewer --tables")
    while low < every:  # first twice as many each time, then by halves
        tried = text(min(high, every))
        if not fits(tried):
            break
        low, high, fitting = min(high, every), 2 * high, tried
    while high - low > 1 and low < every:
        middle = (low + high) // 2
        tried = text(middle)
        low, high, fitting = (middle, high, tried) if fits(tried) else (low, middle, fitting)
    return fitting
