"""Columns of tables in text: headings with their units, the model's fields they name, the figures in their cells.

    Total Time (ns)   Total_Time_ms   TotalDurationNs   Duration [µs]   % of Total   Time (%)   β_run(%)

A format declares its columns as spellings of fields; case, blanks, underscores and units don't matter:

    COLUMNS = Columns({"name": ("kernel name", "name"), "total": ("total time",)}, required=("name", "total"))

Of CSV tables in a text, the headings say how the rows below them are written:

"Start","Duration","Name"      separated by commas
Start;  Duration;  Name        separated by semicolons with blanks after them
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from .numbers import BYTES, TIME_NS, Quantity, is_missing, nanoseconds, quantity, without_groups

#: Fields with figures in the unit of the row, named as the columns of a summary.
FIGURES = ("total", "value", "avg", "median", "min", "max", "stddev", "p95", "p99")

#: Spellings of the columns of statistics, as nsys, nvprof, rocprof, msprof and people's own scripts write them.
#: A final `%` means that the unit is percent. Where several columns match, the first spelling in the list wins.
STATISTICS: dict[str, tuple[str, ...]] = {
    "percent": (
        "time %",
        "percent",
        "percentage",
        "percent %",
        "percentage %",
        "total perc",
        "of total %",
        "tot %",
        "%",
        "ratio %",
        "share %",
    ),
    "total": ("total time", "total duration", "time total", "total", "sum"),
    "count": (
        "instances",
        "calls",
        "num calls",
        "number of calls",
        "# of calls",
        "count",
        "counts",
        "iterations",
        "invocations",
        "occurrences",
        "launches",
        "ncalls",
        "n calls",
        "call count",
        "visits",
    ),
    "avg": ("avg", "ave", "average", "mean", "avg time", "average time", "mean time", "avg duration", "time avg"),
    "median": ("med", "median", "med time", "median time", "p50"),
    "min": ("min", "minimum", "min time", "minimum time", "min duration"),
    "max": ("max", "maximum", "max time", "maximum time", "max duration", "peak time", "peak"),
    "stddev": ("stddev", "std dev", "std", "standard deviation", "stddev time"),
    "p95": ("p95", "p95 time", "95th percentile"),
    "p99": ("p99", "p99 time", "99th percentile"),
}

#: Fields whose cells are numbers. The format reads the cells of the other fields.
MEASURED = frozenset((*FIGURES, "count", "percent"))

_SIZES = r"[KMGT]i?B|[KMG]Bi|[KMGT]?bytes?|B"
#: Units of time in a heading; the length is bounded so that a long word isn't searched again from each letter.
TIME_WORDS = r"[nuµμm]?s|[num]?secs?|[a-z]{0,8}seconds?"
#: Units in a heading, or in a row of units below the headings.
UNIT = re.compile(rf"%|{TIME_WORDS}|(?:{_SIZES})(?:/s)?|[KMG]?Hz|cycles?|W|mW", re.IGNORECASE)
#: Types of columns as polars, pandas, Arrow and DuckDB name them.
TYPE = (
    r"str|string|object|category|cat|enum|bool|boolean|u?int(?:8|16|32|64|128)?|[iu](?:8|16|32|64|128)|f(?:32|64)|"
    r"float(?:16|32|64)?|double|real|decimal(?:[(\[][\d, ]*[)\]])?|varchar|text|u?(?:tiny|small|big|huge)int|u?integer|"
    r"date|time|datetime(?:\[[^\]]*\])?|timestamp(?:_\w+)?|duration(?:\[[^\]]*\])?|interval|uuid|null"
)
_TYPES = re.compile(rf"(?:{TYPE})", re.IGNORECASE)
_BRACKETED = re.compile(r"(.*?)[(\[]([^()\[\]]+)[)\]]")
_RATE_PER_TIME = re.compile(rf".{{0,100}}(?:[\s_]per[\s_]|[\s_]/ )({TIME_WORDS})", re.IGNORECASE)
_SUFFIXED = re.compile(r"(.*[^\s_])[\s_](ns|us|µs|μs|ms|[num]?secs?|[a-z]{0,8}seconds?)", re.IGNORECASE)
_ENGLISH = re.compile(rf"(.{{0,100}}[^\s_])(?:[\s_]in[\s_]|, ?|: ?)({TIME_WORDS})", re.IGNORECASE)
_QUOTIENT = re.compile(
    r"(.{0,100}(?:time|dur|duration|latency|elapsed|total|sum|avg|average|mean|median|min|max|start|end))"
    rf" ?/ ?({TIME_WORDS})",
    re.IGNORECASE,
)
_ALONE_PER = re.compile(r"(ns|us|µs|μs|ms|[num]secs?)(?: ?/ ?|[\s_]per[\s_])([a-z]{1,20})", re.IGNORECASE)
_PER_AFTER = re.compile(
    r"(.{0,60}[^\s_])[\s_](ns|us|µs|μs|ms|s(?=/[a-z]))(?: ?/ ?|[\s_]per[\s_])([a-z]{1,20})", re.IGNORECASE
)
_INNER = re.compile(r"(.{0,60}[^\s_])[\s_](ns|us|µs|μs|ms|msec|usec)[\s_](.{1,40})", re.IGNORECASE)
_LEADING = re.compile(
    r"(ns|us|µs|μs|ms)[\s_]((?:avg|average|mean|median|min|max|total|sum|p\d\d|time).{0,40})", re.IGNORECASE
)
_SECONDS = re.compile(
    r"(.{0,60}(?:time|duration|elapsed|latency|total|sum|avg|average|mean|median|min|max"
    r"|(?<![a-z])(?:begin|start|end|stop|dur|ts)))[\s_](s)",
    re.IGNORECASE,
)
_REMARKED = re.compile(r"(.{0,60}[^\s_,]), ?(ns|us|µs|μs|ms|secs?|seconds?|s) (\([^()]{1,40}\))", re.IGNORECASE)
_ALONE = re.compile(r"ns|us|µs|μs|ms|[num]?secs?|(?:nano|micro|milli)?seconds", re.IGNORECASE)
_PER = re.compile(rf"(?:in\s+)?({TIME_WORDS})(?:\s*/\s*|\s+per\s+)([a-z]+)|in\s+({TIME_WORDS})", re.IGNORECASE)
#: What a program that knows the type of a column adds to its heading: `Total (us) (f64)`.
_TYPED = re.compile(rf"(.{{0,100}}\S) ?\((?:{TYPE})\)")
_SINCE = re.compile(r"(ns|us|µs|μs|ms|s)[\s_](since[\s_]start)", re.IGNORECASE)
_CAMEL = re.compile(r"(.*[a-z])(Ns|Us|Ms|NS|US|MS)")
#: What a count is times, where programs shorten it: 240k calls.
_TIMES = {"": 1, "k": 1000, "K": 1000, "M": 1_000_000}
_GREATEST_EXPONENT = 300
_BARE_TOTAL = re.compile(r"^[\s'\"*_`]{1,8}|(?:[\s'\"*_`:]| ?\([^()]{0,40}\)){1,8}$")
_TOTALS = frozenset(
    {"total", "totals", "sum", "grand total", "overall total", "total time", "total gpu time", "subtotal", "σ"}
)
_KNOWN_UNITS = frozenset({"%", *TIME_NS})
_SHAPE = re.compile(r"\b(?:shape|dim|grid|block|size)")
_CELL_UNIT = re.compile(r"[%°A-Za-zµμ][\w%°µμ/.\-]{0,15}")


@dataclass(frozen=True)
class Heading:
    """The heading of a column: its text, and that text split into a name and a unit ('' for none)."""

    text: str
    name: str
    unit: str

    @cached_property
    def key(self) -> str:
        """The name as spellings are compared: "total time" for `Total_Time_ms`, "time %" for `Time(%)`."""
        return spelling(self.name) if self.unit != "%" else f"{spelling(self.name)} %".strip()


@lru_cache(maxsize=4096)
def heading(text: str) -> Heading:
    """Splits a heading into its name and its unit."""
    text = text.strip().strip('"').strip()
    if text.startswith("[") and text.endswith("]") and (bare := heading(text[1:-1])).unit:
        return Heading(text, bare.name, bare.unit)
    if match := _TYPED.fullmatch(text):
        text = match.group(1)
    if text.endswith(".") and (bare := heading(text[:-1])).unit:
        return Heading(text, bare.name, bare.unit)
    if match := _REMARKED.fullmatch(text):
        return Heading(text, f"{match[1]} {match[3]}", match[2].lower())
    if match := _BRACKETED.fullmatch(text):
        name, unit = match.group(1).rstrip(), match.group(2).strip()
        if UNIT.fullmatch(unit):
            return Heading(text, name, unit)
        if per := _PER.fullmatch(unit):
            return Heading(text, f"{name} per {per[2]}" if per[2] else name, (per[1] or per[3]).lower())
        what, _, last = unit.rpartition(",")
        if what and is_time(last.strip()):
            return Heading(text, f"{name} {what.strip()}", last.strip().lower())
    if _ALONE.fullmatch(text):
        return Heading(text, "", text.lower())
    if match := _ENGLISH.fullmatch(text) or _QUOTIENT.fullmatch(text):
        return Heading(text, match.group(1), match.group(2).lower())
    if "%" in text:
        return Heading(text, text.replace("%", " ").strip(), "%")
    if match := _SINCE.fullmatch(text):
        return Heading(text, match.group(2), match.group(1).lower())
    if match := _ALONE_PER.fullmatch(text):
        return Heading(text, f"per {match[2]}", match[1].lower())
    if match := _PER_AFTER.fullmatch(text):
        return Heading(text, f"{match[1]} per {match[3]}", match[2].lower())
    if _RATE_PER_TIME.fullmatch(text):  # iterations per second: no time
        return Heading(text, text, "")
    if match := _LEADING.fullmatch(text):
        return Heading(text, match[2], match[1].lower())
    if match := _INNER.fullmatch(text):
        return Heading(text, f"{match[1]} {match[3]}", match[2].lower())
    for pattern in (_SUFFIXED, _CAMEL, _SECONDS):
        if match := pattern.fullmatch(text):
            return Heading(text, match.group(1), match.group(2).lower())
    return Heading(text, text, "")


@lru_cache(maxsize=4096)
def spelling(name: str) -> str:
    """Returns a name in lower case with single blanks between words: "total time" for `Total_Time` and `TotalTime`.

    The micro sign becomes the letter μ, the increment sign the letter Δ.
    """
    name = name.replace("\u00b5", "\u03bc").replace("\u2206", "\u0394")
    name = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", name)
    return " ".join(re.split(r"[\s_\-]+", name)).strip().rstrip(".").casefold()


@dataclass(frozen=True)
class Columns:
    """Maps headings to fields.

    A table belongs to the format if it has all `required` fields; of alternatives ("count|percent") one is enough.
    `others` are further known headings, whose cells go to args.
    """

    spellings: Mapping[str, Sequence[str]]
    required: Sequence[str]
    others: Sequence[str] = ()

    @cached_property
    def _needs(self) -> list[frozenset[str]]:
        """For each required field its spellings, of which a table needs at least one."""
        fields = (need.split("|") for need in self.required)
        return [frozenset(name for field in need for name in self.spellings[field]) for need in fields]

    def match(self, headings: Sequence[Heading], below: object = None) -> dict[str, int] | None:
        """Returns field -> index of its column; None if a required field has no column.

        `below`, the rows, is ignored. It is there so that `read_tables` can take this method as its `recognise`.
        """
        free: dict[str, int] = {}
        for index, head in enumerate(headings):
            free.setdefault(head.key, index)
        if any(need.isdisjoint(free) for need in self._needs):
            return None
        fields: dict[str, int] = {}
        for field, names in self.spellings.items():
            key = next((name for name in names if name in free), None)
            if key is not None:
                fields[field] = free.pop(key)
        lacking = [need for need in self.required if not any(field in fields for field in need.split("|"))]
        return None if lacking else fields

    def unknown(self, headings: Sequence[Heading], fields: Mapping[str, int]) -> list[str]:
        """The headings that the format doesn't define."""
        taken = set(fields.values())
        return [head.text for index, head in enumerate(headings) if index not in taken and head.key not in self.others]


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a row: columns of a summary, and `args` under the source's headings."""

    columns: dict[str, Any]
    args: dict[str, Any]

    def __bool__(self) -> bool:
        return any(field in self.columns for field in (*FIGURES, "count", "percent"))


def read_figures(
    headings: Sequence[Heading], cells: Sequence[str], fields: Mapping[str, int], *, unit: str = ""
) -> Figures:
    """Returns the figures of a row in base units: ns for times, B for units of known size, else the source's unit.

    The unit of a figure is that in its cell, else that in its heading, else that of the table's other figures, else
    `unit`. Cells without a field and cells that aren't numbers in the row's unit go to `args`. The format itself reads
    the cells of fields that aren't figures (a name, a device).
    """
    in_headings = (headings[fields[field]].unit for field in FIGURES if field in fields)
    common = next(filter(None, in_headings), unit)
    if "unit" in fields:
        common = unit_of(cells[fields["unit"]]) or common
    field_of = {index: field for field, index in fields.items()}
    columns: dict[str, Any] = {}
    args: dict[str, Any] = {}
    measured: dict[str, Quantity] = {}
    for index, (head, cell) in enumerate(zip(headings, cells, strict=False)):
        field = field_of.get(index, "")
        if is_missing(cell) or (field and field not in MEASURED):
            continue
        read = figure(cell) if field else None
        if read and field == "percent" and read.unit in ("", "%"):
            columns["percent"] = float(read.number)
        elif read and field == "count" and (count := as_int64(read.number * _TIMES.get(read.unit, 0))) and count >= 0:
            columns["count"] = count
        elif read and field in FIGURES:
            measured[field] = Quantity(read.number, read.unit or head.unit or common)
            if read is not (plainly := cell_quantity(cell)) and read != plainly:
                args[own_key(args, head)] = cell.strip()
                if field in ("total", "value") and "percent" not in fields and (share := share_in(cell)) is not None:
                    columns["percent"] = share
        elif field in FIGURES and (ends := bounds(cell, head.unit or common)):
            measured |= dict(zip(("min", "max"), ends, strict=True))
        else:
            args[own_key(args, head)] = plain(cell, head)
    base, figures = _in_one_unit(measured)
    columns |= figures | ({"unit": base} if base else {})
    for field in measured.keys() - figures.keys():
        args[own_key(args, headings[fields[field]])] = cells[fields[field]].strip()
    return Figures(columns, args)


def _in_one_unit(measured: Mapping[str, Quantity]) -> tuple[str, dict[str, float]]:
    """The base unit of the first figure that isn't zero, and all figures that can be expressed in it."""
    scaled = {field: to_base(*figure) for field, figure in measured.items()}
    units = [unit for unit, value in scaled.values() if value] or [unit for unit, _ in scaled.values()]
    base = units[0] if units else ""
    return base, {field: float(value) for field, (unit, value) in scaled.items() if unit == base or not value}


def to_base(value: Decimal, unit: str) -> tuple[str, Decimal]:
    """Returns the base unit and the value in it: ns for times, B for units of known size; others are unchanged."""
    time = nanoseconds(value, unit)
    if time is not None:
        return "ns", time
    return ("B", value * BYTES[unit]) if unit in BYTES else (unit, value)


@lru_cache(maxsize=65_536)
def cell_quantity(cell: str) -> Quantity | None:
    """Returns the number in a cell and its unit; None for other text, even if it begins with a number.

    Also None for a number beyond the range of a float.
    """
    parsed = quantity(cell)
    if parsed and parsed.number.is_finite() and abs(parsed.number.adjusted()) > _GREATEST_EXPONENT:
        return None
    return (
        parsed
        if parsed and (not parsed.unit or parsed.unit in _KNOWN_UNITS or _CELL_UNIT.fullmatch(parsed.unit))
        else None
    )


_NUMBER = r"[+-]?(?:\d[\d,._'’]*|\.\d+)(?:[eE][+-]?\d+)?"
_SPREAD = re.compile(r" ?(?:±|\+/-|\+-) ?")
_DEVIATION = re.compile(rf"{_NUMBER} ?%?")
_ABOUT = re.compile(r"^(?:[~≈≃∼<>≤≥]=?|about|approx\.?|ca\.)\s{0,4}(?=[\d.+-])")
_REMARK = re.compile(r" ?(?:\([^()]{0,60}\)|\[[^\[\]]{0,60}\]|[*†‡§¹²³^!↑↓▲▼⬆⬇✓]{1,8})$")
_ARROW = re.compile(r"\s{0,4}(?:→|->|=>|⟶)\s{0,4}")
_RATE = re.compile(rf"({_NUMBER}\s{{0,4}}(?:{TIME_WORDS}))\s{{0,4}}(?:/|per)\s{{0,4}}[A-Za-z]+", re.IGNORECASE)
#: A time and a rate beside it: `23.5 us / 1.5 TB/s`.
_BESIDE_RATE = re.compile(
    rf"({_NUMBER}\s{{0,4}}(?:{TIME_WORDS}))\s{{0,4}}(?:[/@|,]|\()\s{{0,4}}{_NUMBER}\s{{0,4}}"
    r"(?:[KMGT]?i?[Bb]/s|[KMGTP]?FLOP/?[sS]|[A-Za-z]{1,12}/s)\)?",
    re.IGNORECASE,
)
_PART = re.compile(
    r"(\d+(?:\.\d+)?)\s{0,4}(d|hours?|hrs?|h|minutes?|mins?|m|(?:milli|micro|nano)?seconds?|secs?|s|ms|us|µs|μs|ns)"
    r"(?![A-Za-z]),?\s{0,4}"
)
#: Minutes and seconds, perhaps after hours of one digit: 10:00:05 is rather a time of day.
_CLOCK = re.compile(r"(?:(\d):)?([0-5]?\d):([0-5]\d(?:\.\d+)?)")
_MINUTES = re.compile(r"\d ?(?:d|h|hours?|hrs?|m|mins?|minutes?)(?![A-Za-z])|\d ?[a-z]{0,5}seconds?[, ]{1,4}\d")
_LONG_UNITS = {"d": 86_400, "h": 3600, "m": 60}
_PERCENT = re.compile(rf"[(\[]\s{{0,4}}({_NUMBER})\s{{0,4}}%\s{{0,4}}[)\]]\s{{0,4}}$")


@lru_cache(maxsize=65_536)
def figure(cell: str) -> Quantity | None:
    """Returns the figure in a cell that may have more than a number and a unit; None for other text.

    `100 ± 1 ms`, `12 (30%)`, `~3`, `<0.01`, `1.5*`, `1.5 ms/iter` have the figure alone, `1.5 → 1.2` the last one,
    and `1m 20s` and `1:20.500` are seconds. Figures in groups, such as 1 234 567 and 1'234.5, are read, too.
    """
    cell = cell.replace("**", "")
    text = cell.strip()
    if parsed := cell_quantity(cell):
        rate = _RATE.fullmatch(text) if "/" in parsed.unit else None
        return cell_quantity(rate.group(1)) if rate else (parsed.unit and _long_time(text)) or parsed
    if len(text) > 80 or not any(char.isdigit() for char in text):
        return None
    text = without_groups(_ARROW.split(text)[-1])
    if text[:1] in ("*", "_", "`") and text[-1] in "*_`":
        text = text.strip("*_`")
    before, *spread = _SPREAD.split(text, maxsplit=1)
    if spread and not before[-1:].isalpha():
        before += _DEVIATION.sub("", spread[0], count=1)
    text = _ABOUT.sub("", before).strip()
    while (bare := _REMARK.sub("", text)) != text and bare:
        text = bare
    if rate := _RATE.fullmatch(text) or _BESIDE_RATE.fullmatch(text):
        text = rate.group(1)
    return cell_quantity(text) or _long_time(text)


_RANGE = re.compile(
    rf"(?P<low>\d[\d,.]*) ?(?P<unit>{TIME_WORDS})?\s?(?:[–—-]|\.\.\.?|…|to)\s?"
    rf"(?P<high>\d[\d,.]*) ?(?P<last>{TIME_WORDS})?",
    re.IGNORECASE,
)


@lru_cache(maxsize=16_384)
def bounds(cell: str, unit: str = "") -> tuple[Quantity, Quantity] | None:
    """The ends of a range of times, `0.09-0.28 ms`, or of numbers in a unit; None for another cell."""
    if len(cell) > 60 or not (match := _RANGE.fullmatch(cell.strip(" *_`\t"))):
        return None
    low, high = quantity(match["low"]), quantity(match["high"])
    last = match["last"] or unit
    if not low or not high or not is_time(last):
        return None
    ends = low._replace(unit=match["unit"] or last), high._replace(unit=last)
    times = [time for end in ends if (time := nanoseconds(end.number, end.unit)) is not None]
    return ends if len(times) == 2 and times[0] <= times[1] else None


def before_and_after(cell: str) -> list[tuple[str, str]]:
    """The figures of `8.9 → 6.1 us`, each with what it is, and with the unit of the last one; else the cell alone."""
    before, *after = _ARROW.split(cell.strip())
    last = figure(after[0]) if len(after) == 1 else None
    if not last or not (first := figure(before)):
        return [(cell, "")]
    return [(before if first.unit else f"{before} {last.unit}", ", before"), (after[0], ", after")]


def _long_time(text: str) -> Quantity | None:
    """The seconds of a time with minutes: `1m 20s`, `2.5 min`, `1:20.500`, `1:02:03`."""
    if (clock := _CLOCK.fullmatch(text)) and (clock[1] or "." in text):
        return Quantity(Decimal(clock[1] or 0) * 3600 + Decimal(clock[2]) * 60 + Decimal(clock[3]), "s")
    if not _MINUTES.search(text):
        return None
    parts, at = [], 0
    while match := _PART.match(text, at):
        parts.append((Decimal(match[1]), match[2]))
        at = match.end()
    if not parts or at < len(text) or (len(parts) == 1 and parts[0][1] == "m"):
        return None
    seconds = [
        number * _LONG_UNITS[unit[0]]
        if unit[0] in "dh" or unit in ("m", "min", "mins", "minute", "minutes")
        else number * TIME_NS[unit] / TIME_NS["s"]
        for number, unit in parts
    ]
    return Quantity(sum(seconds, Decimal(0)), "s")


def share_in(cell: str) -> float | None:
    """Returns the share that a cell has in brackets after its figure, in percent: 30 for `12 ms (30%)`."""
    match = _PERCENT.search(cell)
    inner = cell_quantity(match.group(1)) if match and cell[: match.start()].strip() else None
    return float(inner.number) if inner else None


def as_int64(number: Decimal) -> int | None:
    """Returns the number as an int64; None if it isn't a whole number or is too large."""
    if not number.is_finite() or abs(number) >= 1 << 63 or number != number.to_integral_value():
        return None
    return int(number)


def is_total(name: str) -> bool:
    """Whether a row's name says that it is the sum of the others."""
    return _BARE_TOTAL.sub("", name).casefold() in _TOTALS


def are_types(cells: Iterable[str]) -> bool:
    """Whether a row contains the types of the columns, as polars and DuckDB print below headings."""
    words = [cell.strip() for cell in cells if cell.strip()]
    return len(words) > 1 and all(_TYPES.fullmatch(word) for word in words)


def are_units(cells: Iterable[str]) -> bool:
    """Whether a row contains the units of the columns: hardly any cell is something else, and none has a digit."""
    words = [cell.strip() for cell in cells if cell.strip()]
    units = sum(UNIT.fullmatch(word) is not None for word in words)
    few = len(words) < 4 or any(char.isdigit() for word in words for char in word)
    return bool(words) and (units == len(words) if few else units * 4 >= len(words) * 3)


def with_units(headings: Sequence[Heading], units: Sequence[str]) -> tuple[Heading, ...]:
    """Adds the units of the row below to the headings, spelled as in other tables: "Duration (ms)"."""
    padded = [*units, *[""] * len(headings)]
    return tuple(
        replace(head, text=f"{head.text} ({unit})", unit=unit) if unit and not head.unit else head
        for head, unit in zip(headings, padded, strict=False)
    )


def unit_of(text: str) -> str:
    """Returns the unit that a cell of a column of units names, '' for none."""
    text = text.strip().strip("()[]")
    return text if UNIT.fullmatch(text) else ""


_UNIT_IN = re.compile(
    rf"[(\[](?:(?:all )?(?:times?|durations?|units?|values?)?(?: are)?(?: in|:)? ?)({TIME_WORDS})[)\]]|"
    rf"\b(?:times?|durations?|latenc(?:y|ies)|units?|values?|figures?|measured|given|shown|reported)\b[^.\n]{{0,40}}?"
    rf"(?: in|:|=) ?({TIME_WORDS})(?![\w/])|"
    rf"(?:^|[,;(] ?)(?:p50|median|mean|avg|average|times?|latency|duration|all)? ?({TIME_WORDS})"
    r"(?=[,;)]|:?$|(?: ?/ ?| per )(?:iter|step|call|run|launch|token|pass|layer|image|frame)[a-z]{0,6}(?:[,;)]|:?$))",
    re.IGNORECASE,
)
#: Words of headings that name times, which a title above the table may state the unit of.
_OF_TIME = frozenset(
    ("time", "duration", "dur", "elapsed", "latency", "total", "sum", "avg", "average", "mean", "median", "min", "max")
)

#: Headings of what is no time, though figures stand below them.
_OTHER_QUANTITY = re.compile(
    r"[/%#×]|(?i:speed|\bx\b|ratio|factor|gain|improve|flop|bandw|through|[kmgt]i?b\b|mem|byte|accura|\bacc\b|loss|err|"
    r"diff|delta|change|effic|util|occup|size|scale|score|\bstd|dev|var|cycle|hz|freq|power|watt|energy|tok|iter|count|"
    r"calls|number|\bn\b|version|rate|alpha|beta|\blr\b|dropout|eps|prob|percent|share)"
)


def unit_in(text: str) -> str:
    """Returns the unit of times that a title above a table states, ms for `Kernel times (ms)`; '' for none."""
    match = _UNIT_IN.search(text[:200])
    unit = (match[1] or match[2] or match[3]).lower() if match else ""
    return unit if is_time(unit) else ""


_OF_FILE = re.compile(rf"\s*(?:time )?units?(?: of (?:all )?times?)?\s?[:=]\s?({TIME_WORDS})[\s.]*", re.IGNORECASE)


def unit_of_file(text: str) -> str:
    """Returns the unit of the times of all tables below a line such as `Time unit: ms`; '' for other lines."""
    match = _OF_FILE.fullmatch(text) if len(text) < 60 else None
    return match[1].lower() if match and is_time(match[1]) else ""


def with_unit_of_all(
    headings: Sequence[Heading], unit: str, columns: Iterable[int] | None = None
) -> tuple[Heading, ...]:
    """Adds the unit of a table to the headings of times, or to those of some columns."""
    named = [index for index, head in enumerate(headings) if _OF_TIME & set(head.key.split())]
    taken = {*named} if columns is None else {*columns}
    return tuple(
        replace(head, text=f"{head.text} ({unit})", unit=unit) if index in taken and not head.unit else head
        for index, head in enumerate(headings)
    )


def bare_figures(headings: Sequence[Heading], rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns of figures with decimals and without units, whose headings name no other quantity.

    None with fewer than two rows or two such columns, nor where cells have units: what the title states is theirs.
    """
    whole = [row for row in rows if len(row) == len(headings)]
    figures = [[figure(row[index]) for row in whole] for index in range(len(headings))]
    if len(whole) < 2 or any(
        read.unit not in ("", "%", "x", "X", "×") for column in figures for read in column if read
    ):
        return []
    bare = [
        index
        for index, column in enumerate(figures)
        if all(read is not None and not read.unit and read.number > 0 for read in column)
        and any(read.number % 1 for read in column if read)
        and not headings[index].unit
        and not _OTHER_QUANTITY.search(headings[index].text)
    ]
    return bare if len(bare) > 1 else []


def is_time(unit: str) -> bool:
    """Whether it is a unit of time."""
    return unit in TIME_NS or unit.lower() in TIME_NS


def plain(cell: str, head: Heading | None = None) -> Any:
    """Returns a cell as a value for `args`: a number if the cell is just a number, else its text.

    A % after the number is dropped if the heading has it, too. Quoted text stays text, and so does text with commas
    under a heading of shapes: 512,512 isn't half a million.
    """
    if '"' in cell or ("," in cell and head is not None and _SHAPE.search(head.key)):
        return cell.strip()
    parsed = cell_quantity(cell)
    if not parsed or (parsed.unit and not (parsed.unit == "%" and head and head.unit == "%")):
        return cell.strip()
    value = parsed.number
    if not value.is_finite():
        return "NaN" if value.is_nan() else "Infinity" if value > 0 else "-Infinity"
    if value == value.to_integral_value() and "e" not in cell.lower() and "." not in cell:
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else cell.strip()


def own_key(args: Mapping[str, Any], head: Heading) -> str:
    """Returns the heading as a key of `args`, with '#2' and so on appended if the key exists."""
    key, number = head.text, 1
    while key in args:
        number += 1
        key = f"{head.text}#{number}"
    return key


#: Recognises a format's tables by the cells of a line: None if they aren't headings, else anything (`CsvTable.what`).
Recogniser = Callable[[Sequence[str]], Any]

SEPARATORS = ",\t;"
_SPACED = re.compile(r'[,;] +"?\w')


class Dialect(NamedTuple):
    """How the rows of a table are written: the separator of cells, and whether a blank follows it.

    `bare`: quotes surround a cell with a separator, but quotes inside the cell aren't doubled.
    """

    separator: str
    spaced: bool
    bare: bool = False

    def cells(self, text: str) -> list[str] | None:
        """The cells of a row, which may contain line ends inside quotes; None if a quote isn't closed."""
        rows = [text]
        for strict in (True, False):
            reader = csv.reader(rows, delimiter=self.separator, skipinitialspace=self.spaced, strict=strict)
            try:
                return next(reader, [])
            except csv.Error as error:
                if "unexpected end" in str(error):
                    return None
        return []


def find_csv(lines: Sequence[str], recognise: Recogniser) -> Iterator[tuple[int, Any]]:
    """Yields the number of each line of headings, and the format's answer for it. For probes."""
    for number, line in enumerate(lines, 1):
        if table := headings_of(line, recognise):
            yield number, table[1]


def headings_of(line: str, recognise: Recogniser) -> tuple[list[str], Any, Dialect] | None:
    """Returns the headings in a line, the format's answer for them and the dialect; None for other lines."""
    for separator in SEPARATORS:
        if separator in line:
            dialect = Dialect(separator, separator != "\t" and bool(_SPACED.search(line)))
            cells = [cell.strip() for cell in Dialect(separator, True).cells(line) or ()]
            if cells and (what := recognise(cells)) is not None:
                return cells, what, dialect
    return None


#: A longer line says nothing of a table.
_LONGEST_SAID = 200

#: What a program prints beside a table of which it shows the first rows: "Top 2 of 14 kernels", "14 rows (2 shown)".
_SHOWN = (
    re.compile(
        r"\b(?:top|show(?:s|n|ing)|display(?:s|ed|ing)|list(?:s|ed|ing)?)\b\D{0,30}(?P<some>\d[\d,]{0,12})"
        r"(?: [a-z]{1,20})? (?:of|out of) (?P<all>\d[\d,]{0,12})\b",
        re.I,
    ),
    re.compile(
        r"\b(?P<some>\d[\d,]{0,12})(?: [a-z]{1,20})? of (?P<all>\d[\d,]{0,12}) [a-z]{1,20} (?:are )?shown\b", re.I
    ),
    re.compile(r"\b(?P<all>\d[\d,]{0,12}) [a-z]{1,20} \((?P<some>\d[\d,]{0,12}) (?:are )?shown\)", re.I),
)


def shows_a_part(text: str) -> bool:
    """Whether a line beside a table says that the table has some of all rows."""
    matches = (pattern.search(text) for pattern in _SHOWN if len(text) <= _LONGEST_SAID)
    numbers = (tuple(int(one[name].replace(",", "")) for name in ("some", "all")) for one in matches if one)
    return any(some < every for some, every in numbers)
