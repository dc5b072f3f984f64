"""Tables of one thing in several settings, whose times don't add up: figures, named by their row and their column.

| Kernel | cuBLAS (us) | mine (us) |    a column of times for each variant of what a row names
| M | N | Time (ms) |                   what a row names are the values of parameters
| op | dtype | Time (ms) |              each name in each setting, once: the settings belong to the names
| Counter | before | after |            a row for each figure, with its unit: `GPU time (us)`, `Occupancy (%)`
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ktrace.model.row_builder import RowBuilder

from .headings import (
    FIGURES,
    Heading,
    before_and_after,
    bounds,
    figure,
    heading,
    is_time,
    is_total,
    own_key,
    plain,
    share_in,
)
from .measured import is_measured
from .numbers import is_missing, nanoseconds
from .tables import Below, Row

#: Fields of the times of variants, and of what their names consist of, with a number.
VARIANT, _PARAMETER = "variant ", "parameter "

#: Words in the heading of a difference of two times, or of one that says when.
_CHANGE = frozenset(("delta", "diff", "difference", "change", "saved", "speedup", "gain", "overhead", "start", "end"))
_STAMPS = frozenset(("timestamp", "ts", "elapsed", "uptime", "eta", "date", "clock", "since", "at"))
_AVERAGE = frozenset(("avg", "average", "mean", "per", "each", "/"))
_STATISTIC = frozenset(("median", "med", "min", "minimum", "max", "maximum", "peak", "total", "sum", "overall"))
_OF_TIME = re.compile(r"(?i)(?<![a-z])(?:times?|latency|duration|elapsed|runtime|ttft|tpot|itl)(?![a-z])")

_WORD = re.compile(r"[^\W_]+|/")
#: Marks of Markdown around a cell, and around words in it.
_MARKS = re.compile(r"^[\s*_]+|[\s*_]+$|(?<!\w)\*\*(?=\S)|(?<=\S)\*\*(?!\w)")
#: A measure beside times: it is no setting.
_MEASURE = re.compile(
    r"[\d.,]+ ?(?:to|–|-) ?[\d.,]+|[\d.,]+ ?(?:%|[xX×]|[KMGT]?i?B(?:/s)?|[KMGT]?FLOP/?S?)|.*\d\.\d+[a-z]?"
)


def variants(
    headings: Sequence[Heading], times: set[int], below: Below, name: int | None, whole: int | None = None
) -> dict[str, int] | None:
    """The fields of a table with a column of times for each variant of what a row names; None if it isn't one.

    Its headings are names of variants: none is a statistic but the average, and none of them is a part of another.
    What a row names may be the values of several columns, the parameters of a benchmark. `whole` is a column that is
    the sum of others.
    """
    rows = [row for row in below if len(row) == len(headings)]
    columns = [index for index in sorted(times) if index != name and not _CHANGE & _words(headings[index].key)]
    columns = [index for index in columns if rows and _are_positive([row[index] for row in rows])]
    if not columns:
        return None
    heads = {headings[index].key for index in columns}
    statistics = {(bool(words & _AVERAGE), bool(words & _STATISTIC)) for words in _words_of(headings, columns, whole)}
    if len(heads) < len(columns) or statistics not in ({(False, False)}, {(True, False)}):
        return None
    fields = {f"{VARIANT}{number}": index for number, index in enumerate(columns)}
    names = [row[name or 0] for row in rows]
    is_named = len(set(names)) == len(names) and all(names)
    if is_named and name is not None:
        return {"name": name} | fields if len(columns) > 1 else None
    are_units = any(head.unit and not head.name for head in headings)  # of headings above
    named = [index for index in range(columns[0]) if headings[index].text or not (index or are_units)]
    parameters = [index for index in named if index not in times]
    settings = [index for index in parameters if not any(_MEASURE.fullmatch(row[index].strip()) for row in rows)]
    if len({_values(row, settings) for row in rows}) == len({_values(row, parameters) for row in rows}):
        parameters = settings
    if not parameters or not all(row[index].strip() for row in rows for index in parameters):
        return None
    differ = [index for index in parameters if len({row[index] for row in rows}) > 1]
    if is_named and len(columns) > 1 and len(differ) < 2:
        return {"name": 0} | fields
    if differ == [0] and not headings[0].text and is_named:
        return {"name": 0} | fields
    if len(columns) + len(differ) < 3 and not (columns and _is_series(headings, rows, differ, columns[0])):
        return None
    return _named_by(differ or parameters) | fields


def _named_by(parameters: Sequence[int]) -> dict[str, int]:
    """The fields of a name that consists of cells."""
    return {"name": parameters[0]} | {f"{_PARAMETER}{number}": index for number, index in enumerate(parameters)}


def _is_series(headings: Sequence[Heading], rows: Sequence[Sequence[str]], differ: Sequence[int], time: int) -> bool:
    """Whether a table has a time, whose heading says so, for each value of one parameter."""
    if len(differ) != 1 or len(rows) < 2:
        return False
    parameter, head = headings[differ[0]], headings[time]
    is_said = is_time(head.unit) and _OF_TIME.search(head.text) is not None and parameter.unit == ""
    return (
        is_said
        and len({row[differ[0]] for row in rows}) == len(rows)
        and not (_words(head.key) | _words(parameter.key)) & _STAMPS
        and is_measured(head.text)
    )


def settings_of(headings: Sequence[Heading], fields: dict[str, int], below: Below) -> dict[str, int] | None:
    """The fields of a table of statistics in which each name is in each setting, once; None where that isn't so.

    Its rows are as many as there are names times the values of each further column: nothing but a benchmark has that.
    Columns that the name decides, such as its tile, are no further ones, nor are those with blank cells.
    """
    times = [index for field, index in fields.items() if field in FIGURES]
    rows = [row for row in below if len(row) == len(headings) and not is_total(row[fields["name"]])]
    if not times or fields.keys() & {"count", "percent"} or len(rows) < 4:
        return None
    others = [index for index in range(len(headings)) if index not in fields.values() and headings[index].text]
    others = [index for index in others if not any(is_time(_unit(row[index])) for row in rows)]
    others = [index for index in others if not any(_MEASURE.fullmatch(row[index].strip()) for row in rows)]
    levels = {index: len({row[index].strip() for row in rows}) for index in (fields["name"], *others)}
    crossed = [
        index for index in sorted(levels) if 1 < levels[index] < len(rows) and all(row[index].strip() for row in rows)
    ]
    of_name = {
        index
        for index in crossed
        if len({_values(row, (fields["name"], index)) for row in rows}) == levels[fields["name"]]
    }
    crossed = [index for index in crossed if index == fields["name"] or index not in of_name]
    if len(crossed) < 2 or fields["name"] not in crossed or prod(levels[index] for index in crossed) != len(rows):
        return None
    if len({_values(row, crossed) for row in rows}) < len(rows):
        return None
    return _named_by(crossed) | {f"{VARIANT}{number}": index for number, index in enumerate(sorted(times))}


def _unit(cell: str) -> str:
    """The unit of the figure in a cell, '' without."""
    read = figure(cell)
    return read.unit if read else ""


def transposed(headings: Sequence[Heading], below: Below) -> dict[str, int] | None:
    """The fields of a table with a row for each figure, whose unit is in its name: `GPU time (us)`, `Occupancy (%)`."""
    rows = [row for row in below if len(row) == len(headings)]
    if len(rows) < 2 or len(headings) < 2 or not headings[0].text or any(head.unit for head in headings):
        return None
    named = [heading(_plainly(row[0])) for row in rows]
    timed = [head for head in named if is_time(head.unit) and _OF_TIME.search(head.text) and is_measured(head.text)]
    if not timed and len(headings) > 2 and _has_times(rows):
        return {"name": 0} | {f"{VARIANT}{number}": number + 1 for number in range(len(headings) - 1)}
    are_numbers = all(is_missing(_plainly(cell)) or figure(_plainly(cell)) for row in rows for cell in row[1:])
    if not timed or not are_numbers or len({head.text for head in named}) < len(named):
        return None
    if any(figure(head.text) for head in headings) or len([head for head in named if head.unit]) * 2 < len(named):
        return None
    return {"name": 0} | {f"{VARIANT}{number}": number + 1 for number in range(len(headings) - 1)}


def _has_times(rows: Sequence[Sequence[str]]) -> bool:
    """Whether each row has figures in its first two cells behind the name, those of one at least in a unit of time."""
    pairs = [[figure(_plainly(cell)) for cell in row[1:3]] for row in rows]
    timed = [
        is_measured(row[0]) and all(read and is_time(read.unit) for read in pair)
        for row, pair in zip(rows, pairs, strict=True)
    ]
    return any(timed) and all(map(all, pairs)) and len({row[0] for row in rows}) == len(rows)


def has_variants(fields: dict[str, int] | None) -> bool:
    """Whether a table has figures of variants."""
    return f"{VARIANT}0" in (fields or {})


def add_variants(row: Row, rows: RowBuilder) -> tuple[str, str] | None:
    """Adds a figure for each variant that a row has a time of; a kind of issue and a detail if it has none."""
    table = row.table
    fields = table.fields or {}
    parameters = [index for field, index in fields.items() if field.startswith(_PARAMETER)]
    columns = [index for field, index in fields.items() if field.startswith(VARIANT)]
    name, unit = _name(row, parameters)
    others = {index for index in range(len(table.headings)) if index not in (fields["name"], *parameters, *columns)}
    settings: dict[str, Any] = {}
    for index in sorted(others):
        if table.headings[index].text and not is_missing(row.cells[index]):
            settings[own_key(settings, table.headings[index])] = plain(row.cells[index], table.headings[index])
    added = False
    for index in columns:
        for cell, when in before_and_after(_plainly(row.cells[index])):
            figures = _figures(cell, table.headings[index].unit or unit)
            if not figures:
                continue
            added = True
            variant = table.headings[index].text + when
            args = settings | {"variant": variant, "cell": row.cells[index]}
            place: dict[str, Any] = {"table": table.ordinal, "scope": table.scope, "args": args}
            rows.summary("metric", f"{name}, {variant}", **figures, **place)
    return None if added else ("bad-record", "no figure")


def _name(row: Row, parameters: Sequence[int]) -> tuple[str, str]:
    """What a row names, and the unit that its name states for all its figures."""
    headings = row.table.headings
    if parameters:
        words = (f"{headings[index].text} {_plainly(row.cells[index])}".strip() for index in parameters)
        return ", ".join(words), ""
    text = _plainly(row.text("name"))
    head = headings[row.table.name_column]
    if figure(text) and head.text:
        return f"{head.text} {text}", ""
    named = heading(text)
    return (named.name, named.unit) if named.unit and _is_transposed(row) else (text, "")


def _is_transposed(row: Row) -> bool:
    return not any(head.unit for head in row.table.headings)


def _figures(cell: str, unit: str) -> dict[str, Any]:
    """The columns of a summary for a cell: a time, the ends of a range of times, or a figure in another unit."""
    if ends := bounds(cell):
        low, high = (nanoseconds(end.number, end.unit) for end in ends)
        if low is not None and high is not None:
            return {"unit": "ns", "min": float(low), "max": float(high)}
    read = figure(cell)
    if read is None:
        return {}
    time = nanoseconds(read.number, read.unit or unit)
    if time is not None:
        share = share_in(cell)
        return {"unit": "ns", "avg": float(time)} | ({} if share is None else {"percent": share})
    return {"unit": unit, "value": float(read.number)} if unit and not read.unit else {}


def _are_positive(cells: Sequence[str]) -> bool:
    """Whether the cells of a column are times that aren't negative, or say that there is none; a few may be texts."""
    given = [cell for cell in cells if not is_missing(cell)]
    times = [cell for cell in given if _is_positive(cell)]
    negative = any(cell.strip().startswith(("-", "\u2212")) and figure(cell) for cell in given)
    return not negative and bool(given) and len(times) * 2 >= len(given)


def _is_positive(cell: str) -> bool:
    if ends := bounds(cell):
        return ends[0].number >= 0
    read = figure(_plainly(cell))
    return read is not None and read.number >= 0 and not (read.unit and not is_time(read.unit.split("/")[0]))


def _values(row: Sequence[str], columns: Sequence[int]) -> tuple[str, ...]:
    return tuple(row[index].strip() for index in columns)


def _plainly(text: str) -> str:
    """A cell without the marks of Markdown around it."""
    text = _MARKS.sub("", text)
    return text.strip("`") if text.count("`") == 2 and text[:1] == text[-1:] == "`" else text


@lru_cache(maxsize=1024)
def _words(key: str) -> frozenset[str]:
    return frozenset(_WORD.findall(key))


def _words_of(headings: Sequence[Heading], columns: Sequence[int], whole: int | None) -> list[frozenset[str]]:
    return [_words(headings[index].key) for index in columns if index != whole]
