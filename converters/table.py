"""Any table in text with a column of names and a column of times: Markdown, TSV, CSV or fixed width.

Users' scripts, and tools without a format of their own, write them:

    | Kernel   | Time (ms) | Calls |
    |----------|----------:|------:|
    | gemm_f16 |     1,024 |     3 |

A table has a column of names, and a unit of time in a heading or in the first row:

Name, Time (ms), Calls                  statistics: a plain time next to a count is the total
Name, GPU (us), Calls                   the meaning of the time is unknown: it stays an argument
Name, Time per call (us), Calls         an average
Name, Start Time(us), Duration(us)      a timeline: each row is an event
name, ns_since_start, exec_time_ns      the same

Rows are summaries, and those of a table with starts are events:

Name,      Stream ID, Start Time(us),        Duration(us)
MatMul12,  16,        "1699529622790614.8",  607.98           a kernel on stream 16
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.device_names import device_work
from ktrace.kit.text.headings import (
    FIGURES,
    STATISTICS,
    TIME_WORDS,
    Columns,
    Heading,
    as_int64,
    cell_quantity,
    is_time,
    is_total,
    own_key,
    plain,
)
from ktrace.kit.text.layouts import LONGEST_HEADER, is_rule
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import TIME_NS, is_missing, to_ns
from ktrace.kit.text.tables import Recogniser, Row, Table, find_tables, headings_at, may_have_tables, read_tables
from ktrace.kit.text.titles import likely_lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

NAMES = (
    *("kernel name", "kernel", "name", "kernels", "function name", "function", "op name", "operation", "operator"),
    *("operator name", "op", "range", "layer name", "layer", "node name", "event name", "event", "task", "stage"),
    *("region", "routine", "symbol", "label", "phase", "component", "shader"),
)

#: Headings of a time that, next to a count, is the total: they don't mention a single call.
_PLAIN = (
    *("time", "duration", "dur", "elapsed", "elapsed time", "gpu time", "cuda time", "kernel time"),
    *("exec duration", "execution time"),
)

COLUMNS = Columns({"name": NAMES, **STATISTICS, "value": (*_PLAIN, "latency")}, ("name",))

#: Columns of a timeline: a start with a duration or an end.
_WHAT = ("", "task ", "kernel ", "gpu ", "op ", "event ")
_STARTS = ("start time", "start", "begin time", "begin", "start timestamp", "begin timestamp", "since start")
_LENGTHS = ("duration", "duration time", "dur", "time", "elapsed time")
_ENDS = ("end time", "end", "stop time", "stop", "finish time", "finish", "end timestamp")
_TIMELINE = Columns(
    {
        "start": (*(what + word for what in _WHAT for word in _STARTS), "timestamp", "ts", "t0"),
        "dur": (
            *(what + word for what in _WHAT for word in _LENGTHS),
            *("elapsed", "exec duration", "exec time", "execution time", "latency", "dt", "δ", "δt"),
        ),
        "end": tuple(what + word for what in _WHAT for word in _ENDS),
    },
    ("start", "dur|end"),
)

#: Columns with the place of an event.
_PLACES = Columns(
    {
        "device": ("device id", "device", "gpu id", "gpu", "gpu index", "dev"),
        "stream": ("stream id", "stream", "strm", "queue id", "queue"),
        "context": ("context", "ctx", "cuda context"),
        "pid": ("pid", "process id"),
        "tid": ("tid", "thread id", "thread"),
        "correlation": ("correlation id", "corrid", "corr id", "correlation"),
    },
    (),
)

#: Fields of an event that a table of statistics doesn't have.
PLACES = tuple(_PLACES.spellings)

#: Figure -> words in its heading.
_FIGURE_WORDS = {
    "avg": {"avg", "average", "mean", "per", "each", "/"},
    "median": {"median", "med", "p50"},
    "min": {"min", "minimum", "fastest"},
    "max": {"max", "maximum", "peak", "slowest"},
    "p95": {"p95"},
    "p99": {"p99"},
    "total": {"total", "sum", "overall"},
}

#: Words in the heading of a time that isn't a duration of the named thing.
_OTHER = frozenset(
    (
        *(
            "t0",
            "t1",
            "start",
            "started",
            "begin",
            "began",
            "end",
            "ended",
            "finish",
            "stop",
            "timestamp",
            "ts",
            "at",
            "since",
        ),
        *("offset", "wait", "waiting", "waited", "idle", "gap", "delta", "diff", "queue", "queued", "queueing"),
        *("submit", "overhead", "std", "stddev", "deviation", "variance", "error", "baseline", "before", "after"),
        *("cumulative", "running", "first", "last", "saved", "speedup"),
    )
)
_KEY_WORD = re.compile(r"[a-z]+\d*|/")

#: Fields one of which must be a time.
_MEASURES = tuple(field for field in FIGURES if field != "stddev")


def recognise(headings: Sequence[Heading], first: Sequence[str]) -> dict[str, int] | None:
    """Returns field -> index of its column; None if the table has no names or no times."""
    fields = COLUMNS.match(headings)
    if fields is None:
        return None
    times = {index for index, head in enumerate(headings) if is_time(head.unit) or _is_time_cell(first, index)}
    if timeline := _timeline(headings, fields, times):
        return timeline
    free = [index for index in sorted(times - set(fields.values())) if not _OTHER & _words(headings[index])]
    for index in free:
        figures = [field for field, words in _FIGURE_WORDS.items() if words & _words(headings[index])]
        if len(figures) == 1:
            fields.setdefault(figures[0], index)
    plain = [index for index in free if not any(words & _words(headings[index]) for words in _FIGURE_WORDS.values())]
    if not any(fields.get(field) in times for field in _MEASURES):
        if not plain or "value" in fields:
            return None
        if "count" not in fields:
            fields["value"] = plain[0]
    if "count" in fields and "total" not in fields and "value" in fields and headings[fields["value"]].key in _PLAIN:
        fields["total"] = fields.pop("value")
    return fields


def _timeline(headings: Sequence[Heading], fields: Mapping[str, int], times: set[int]) -> dict[str, int] | None:
    """The fields of a table of events: those of a name, of times with units, and of places."""
    found = _TIMELINE.match(headings)
    if found is None or "count" in fields:
        return None
    found = {field: index for field, index in found.items() if index in times}
    if "start" not in found or not found.keys() & {"dur", "end"}:
        return None
    places = _PLACES.match(headings) or {}
    return {"name": fields["name"]} | {f: i for f, i in places.items() if i != fields["name"]} | found


def _words(head: Heading) -> set[str]:
    return set(_KEY_WORD.findall(head.key))


def _is_time_cell(cells: Sequence[str], index: int) -> bool:
    found = cell_quantity(cells[index]) if index < len(cells) else None
    return found is not None and is_time(found.unit)


#: Each heading of names contains one of these words, in lower case.
_WORDS = tuple(dict.fromkeys(re.split(r" ", name)[0] for name in NAMES))

_NAME = "|".join(sorted((re.sub(" ", r"[\\s_\\-]*", name) for name in NAMES), key=len, reverse=True))
_UNIT = rf"(?:[\s_]*[(\[][^()\[\]]+[)\]]|[\s_](?:{TIME_WORDS})|[NUM]s)?\.?"

#: A heading of names as a cell of its own: between separators, or after a prefix.
_CELL = re.compile(
    rf"(?:^|[|,;\t│┃║>\]:)/]|\s\s|[A-Z\d] )(?=[\s\"*`a-z])[\s\"*`]{{0,8}}"
    rf"(?:{_NAME}){_UNIT}[\"*`]{{0,8}}(?:\s*(?:$|[|,;\t│┃║])|\s\s)",
    re.IGNORECASE,
)
_WORD = re.compile(rf"(?<![A-Za-z])(?:{_NAME})", re.IGNORECASE)

#: A unit of time in headings, below them or in a cell; and how many lines below the headings are searched for it.
_TIME = re.compile(rf"(?<![A-Za-z])(?:{TIME_WORDS}|ps)(?![A-Za-z])|[a-z](?:[NUM]s|[NUM]S)(?![a-z])", re.IGNORECASE)
_BELOW = 4

#: Blanks between cells: three or more are equivalent to two.
_PADDING = re.compile(r"(\s\s)\s+")

#: Headings don't contain many numbers with decimals.
_DECIMAL = re.compile(r"\d\.\d")
_MOST_POINTS = 8

#: A row below headings that single blanks separate: three figures or more at its begin or end.
_FIGURE = r"(?:[+-]?\d\S*(?: ?[%A-Za-zµμ/]{1,5})?|-|N/A)"
_FIGURES = re.compile(rf"^\s*(?:{_FIGURE}\s+){{2}}{_FIGURE}\s|\s{_FIGURE}(?:\s+{_FIGURE}){{2}}\s*$")


def probe(sample: Sample) -> Match | None:
    """SHAPE for a table with names and times, NEAR for a table with names but without a unit of time."""
    if not may_have_tables(sample):
        return None
    near: Table | None = None
    for number in _possible(sample):
        if _TIME.search("\n".join(sample.lines[number - 1 : number + _BELOW])) and _opened(sample, number, recognise):
            for table in find_tables(sample, recognise):
                words = ", ".join(f"'{head.text}'" for head in table.headings[:4])
                return Match(Score.SHAPE, f"contains a table with the columns {words} (line {table.line})")
            break
        near = near or _opened(sample, number, COLUMNS.match)
    if near:
        return Match(Score.NEAR, f"the table in line {near.line} has names, but no unit of time")
    return None


def _opened(sample: Sample, number: int, recogniser: Recogniser) -> Table | None:
    """The table whose headings are in a line; without recognised times it needs more than two columns."""
    table = headings_at(sample.lines, number, recogniser)
    return table if table and (recogniser is recognise or len(table.headings) > 2) else None


def _possible(sample: Sample) -> Iterator[int]:
    """Yields the numbers, from 1, of the lines that may be headings."""
    lines = sample.lines
    for number, line in likely_lines(sample, _WORDS):
        if len(line) > LONGEST_HEADER or (
            line.count(".") > _MOST_POINTS and len(_DECIMAL.findall(line)) > _MOST_POINTS
        ):
            continue
        heading = _PADDING.sub(r"\1", line)
        below = lines[number : number + 2]
        if _CELL.search(heading) or (_WORD.search(heading) and any(map(_is_below_headings, below))):
            yield number


def _is_below_headings(text: str) -> bool:
    """Whether a line is a rule, or a row of figures that single blanks separate."""
    if len(text) > LONGEST_HEADER:
        return False
    return (not text.lstrip()[:1].isalnum() and is_rule(text)) or _FIGURES.search(_PADDING.sub(r"\1", text)) is not None


_LIMIT = 1 << 62

#: Numbers that mean "no id": the greatest of 32 and of 64 bits.
_NONE = frozenset((0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF))


def add_event(row: Row, kind: str, copy_kind: str | None, rows: RowBuilder, report: Report) -> tuple[str, str] | None:
    """Adds the row as an event; returns the kind of issue and a detail if it can't be one."""
    table = row.table
    assert table.fields is not None
    times: dict[str, tuple[int, bool]] = {}
    for field in ("start", "dur", "end"):
        time = _time(row, field)
        if time is not None:
            times[field] = time
    if "start" not in times or not times.keys() & {"dur", "end"}:
        return "bad-record", "no start" if "start" not in times else "no duration"
    start = times["start"][0]
    dur = times["dur"][0] if "dur" in times else times["end"][0] - start
    if dur < 0:
        return "negative-duration", f"{dur} ns"
    if max(abs(start), abs(start + dur)) >= _LIMIT:
        return "time-range", f"{start} ns"
    columns: dict[str, Any] = {}
    shown = {table.fields["name"]}
    for field, (_, exact) in times.items():
        if exact and (field != "end" or "dur" not in times or times["end"][0] == start + dur):
            shown.add(table.fields[field])
        elif not exact:
            report.issue("rounded", f"line {row.line}")
    for field in PLACES:
        number = _number(row.text(field)) if field in table.fields else None
        if number is not None:
            shown.add(table.fields[field])
            columns[field] = number if number not in _NONE else None
    columns["args"] = _arguments(row, shown)
    if not any(columns.get(field) is not None for field in ("device", "stream", "pid", "tid")):
        columns["track"] = table.scope[-1]
    rows.event(kind, row.text("name"), ts=start, dur=dur, copy_kind=copy_kind, **columns)
    return None


def _time(row: Row, field: str) -> tuple[int, bool] | None:
    """The time of a field in ns and whether it is exact; None for no time."""
    assert row.table.fields is not None
    index = row.table.fields.get(field)
    figure = cell_quantity(row.cells[index]) if index is not None else None
    if index is None or figure is None:
        return None
    unit = figure.unit or row.table.headings[index].unit
    unit = unit if unit in TIME_NS else unit.lower()
    if unit not in TIME_NS or not figure.number.is_finite():
        return None
    return to_ns(figure.number, unit)


def _number(text: str) -> int | None:
    figure = cell_quantity(text)
    return as_int64(figure.number) if figure and not figure.unit else None


def _arguments(row: Row, shown: set[int]) -> dict[str, Any]:
    """The cells that aren't in columns, under their headings."""
    args: dict[str, Any] = {}
    for index, (head, cell) in enumerate(zip(row.table.headings, row.cells, strict=False)):
        if index not in shown and not is_missing(cell):
            args[own_key(args, head)] = plain(cell, head)
    return args


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a row for each row: device work if the table mentions kernels or streams, else an op or a total."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    for item in read_tables(lines, recognise):
        if isinstance(item, Row):
            if problem := _add(item, rows, conversion):
                lines.skip(*problem)
            else:
                lines.used()
        yield from rows.ready()
    yield from rows.rest()


def _add(row: Row, rows: RowBuilder, conversion: Conversion) -> tuple[str, str] | None:
    """Adds a row; returns the kind of issue and a detail if it isn't valid."""
    name, table = row.text("name"), row.table
    if not name:
        return "bad-record", "no name"
    kind, copy_kind = _kind(table, name)
    if "start" in (table.fields or {}):
        return add_event(row, kind, copy_kind, rows, conversion.report)
    figures = row.figures()
    if not figures:
        return "bad-record", "no figure"
    place: dict[str, Any] = {"table": table.ordinal, "scope": table.scope}
    rows.summary(kind, name, copy_kind=copy_kind, args=figures.args, **place, **figures.columns)
    return None


def _kind(table: Table, name: str) -> tuple[str, str | None]:
    """The kind of a row, and the direction of a copy."""
    assert table.fields is not None
    if is_total(name) and "start" not in table.fields:
        return "total", None
    words = [table.headings[table.fields["name"]].text, *(title.text for title in table.path[-1:])]
    on_device = "stream" in table.fields or any("kernel" in word.casefold() for word in words)
    return device_work(name) if on_device else ("op", None)


FORMAT = Format(
    "table",
    "any Markdown, TSV or text table with a name and a time",
    patterns=("*.md", "*.tsv", "*.txt"),
    probe=probe,
    read=read,
    prose=True,
    max_score=Score.SHAPE,
)
