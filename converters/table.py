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
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from itertools import chain, islice, pairwise, permutations, repeat
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.alike import Alike, alike_table
from ktrace.kit.text.device_names import device_work
from ktrace.kit.text.headings import (
    FIGURES,
    STATISTICS,
    TIME_WORDS,
    Columns,
    Figures,
    Heading,
    as_int64,
    bounds,
    cell_quantity,
    figure,
    is_time,
    is_total,
    own_key,
    plain,
    shows_a_part,
    unit_of,
    unit_of_file,
)
from ktrace.kit.text.layouts import LONGEST_HEADER, Dashes, Pipes
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.measured import is_measured
from ktrace.kit.text.numbers import TIME_NS, Quantity, is_missing, nanoseconds, to_ns
from ktrace.kit.text.proofs import bare_table, contradict
from ktrace.kit.text.tables import (
    Below,
    Row,
    SampleLines,
    Table,
    find_tables,
    headings_at,
    may_have_tables,
    read_tables,
)
from ktrace.kit.text.titles import likely_lines
from ktrace.kit.text.trees import TimeTree
from ktrace.kit.text.variants import add_variants, has_variants, settings_of, transposed, variants
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
    *("time", "duration", "dur", "elapsed", "elapsed time", "exec duration", "execution time"),
    *(f"{whose} {word}" for whose in ("gpu", "cuda", "hip", "device", "kernel") for word in ("time", "duration")),
    *("zeit", "dauer", "temps", "durée", "tiempo", "tempo"),
)

COLUMNS = Columns(
    {"name": NAMES, **STATISTICS, "value": (*_PLAIN, "latency", "value"), "unit": ("unit", "units", "time unit")}, ()
)

#: Headings of how often something was measured: a plain time beside them is the average of a single run.
_SAMPLES = frozenset(("samples", "runs", "reps", "repeats", "repetitions", "rounds", "trials"))

_PLAIN_WORDS = frozenset(word for name in _PLAIN for word in name.split())

#: Words in the heading of a time that say whose it is.
_DEVICE = frozenset(("gpu", "device", "cuda", "hip", "npu", "xpu", "tpu", "kernel", "accelerator", "gpu0"))
_OF_DEVICES = frozenset(("gpu", "cuda", "hip", "npu", "shader", "shaders"))
_ACCELERATORS = frozenset(("cuda", "hip", "rocm", "xpu", "npu", "tpu", "mps", "metal", "vulkan", "opencl", "sycl"))
_HOST = frozenset(("cpu", "host", "wall"))

#: Words in the heading of a time.
_TIME_WORDS = frozenset(
    (
        *("time", "times", "duration", "dur", "elapsed", "latency", "total", "sum", "self", "avg", "average", "mean"),
        *("median", "min", "max", "p50", "p95", "p99", "exclusive", "inclusive", "runtime", "cost", *_DEVICE, *_HOST),
    )
)
_SHARE_WORDS = frozenset(
    (
        *("pct", "percent", "percentage", "share", "of", "the", "total", "time", "all", "overall", "self", "kernel"),
        *("kernels", "gpu", "cuda", "device", "runtime"),
    )
)

#: Fields that say of what a run a row is a part.
_PARTS_OF_RUN = frozenset(("total", "value", "count", "percent"))

#: A column whose first rows have no figure is none of times, whatever its heading says.
_LOOKED_AT = 8

#: The fewest rows with shares that show which time they are of.
_FEWEST_SHARES = 3
_LENGTHS_BESIDE_TIME = ("duration", "dur", "latency", "elapsed", "elapsed time", "exec time", "execution time")
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d\d?:\d\d(?::\d\d)?|\d\d?[./]\d\d?[./]\d{2,4}")

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
    ("start",),
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
    "total": {"total", "sum", "overall", "exclusive"},
}

#: Words of figures, and those of what an average is of.
_OF_STATISTICS = frozenset(
    (
        *(word for words in _FIGURE_WORDS.values() for word in words),
        *("call", "calls", "launch", "run", "iter", "iteration", "invocation", "op", "step", "loop", "value", "rank"),
    )
)

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

#: Headings of how often something is done in each step, pass or the like.
_COUNT_PER = re.compile(r"(?:count|calls|launches|num calls|number of calls)(?: ?/ ?| per )[a-z]+")

#: Names of rows that are the figures of one thing: a table of these has no names.
_STATISTIC = re.compile(
    r"count|n|mean|avg|average|median|std|stddev|min|max|minimum|maximum|sum|total|p?\d\d?(?:\.\d+)?%?|p99\.9",
    re.IGNORECASE,
)

#: A unit in brackets; a heading has one, and what has two are two headings.
_UNITS = re.compile(rf"[\[(](?:%|B|{TIME_WORDS})[\])]", re.IGNORECASE)

#: Fields one of which must be a time.
_MEASURES = tuple(field for field in FIGURES if field != "stddev")


def recognise(headings: Sequence[Heading], below: Below) -> dict[str, int] | None:
    """Returns field -> index of its column; None if the table has no names or no times."""
    matched = COLUMNS.match(headings) or {}
    if not _are_headings(headings) or ("name" not in matched and not all(map(_may_be_heading, headings))):
        return None
    first = _first(below)
    times = {index for index, head in enumerate(headings) if is_time(head.unit) or _is_time_cell(first, index)}
    rows = list(islice(below, _LOOKED_AT))
    times = {index for index in times if not rows or any(_has_figure(row, index) for row in rows)}
    if not times and not ("unit" in matched and _is_unit(first, matched["unit"])):
        return variants(headings, _ranges(headings, rows), below, None) or transposed(headings, below)
    name = matched.get("name")
    if name is None or _are_numbers(below, name):
        name = _names_column(headings, below, times, name)
    if name is None:
        return variants(headings, times | _ranges(headings, rows), below, None)
    if rows and all(_STATISTIC.fullmatch(row[name]) for row in rows if name < len(row)):
        return None
    fields = {field: index for field, index in matched.items() if index != name} | {"name": name}
    per = [index for index, head in enumerate(headings) if _COUNT_PER.fullmatch(head.key)]
    if "count" not in fields and len(per) == len(times) == 1:
        fields["count"] = per[0]
    if "unit" in fields and _is_unit(first, fields["unit"]):
        times |= {fields[field] for field in FIGURES if field in fields}
    if not any(fields.get(field) in times for field in _MEASURES) and fields.get("stddev") in times:
        times |= {fields[field] for field in _MEASURES if field in fields and not headings[fields[field]].unit}
    shares = [index for index, head in enumerate(headings) if _is_share(head) or _has_shares(head, first, index)]
    shares = [index for index in shares if index not in fields.values() and not _is_of_row(headings[index], rows, name)]
    if "percent" not in fields and len(shares) == 1:
        fields["percent"] = shares[0]
    elif "percent" not in fields and (proven := _proven_shares(headings, fields, times, below)):
        named = {fields[field] for field in ("total", "value", "avg") if field in fields} & times
        share_columns = proven if len(proven) == 1 or not named else _proven_shares(headings, fields, named, below)
        fields |= {"percent": share_columns[0]} if len(share_columns) == 1 else {}
    if timeline := _timeline(headings, fields, times, below):
        return timeline
    spans = times | _ranges(headings, rows)
    is_choice = _is_choice(headings[name]) or any(map(_is_speedup, headings)) or _are_devices(headings, spans)
    is_choice = is_choice and not fields.keys() & {"count", "percent"}
    if is_choice and len(spans) > 1 and (choice := variants(headings, spans, below, name)):
        return choice
    figures = _figures_of(headings, dict(fields), times, below)
    if figures is None or _is_one_of_parts(headings, figures, spans):
        return variants(headings, spans, below, name, (figures or {}).get("total")) or figures
    return settings_of(headings, figures, below) or figures


def _first(below: Below) -> Sequence[str]:
    """The first row that says anything behind its first cell."""
    if not all(map(is_missing, below.first[1:])):
        return below.first
    return next((row for row in islice(below, _LOOKED_AT) if not all(map(is_missing, row[1:]))), below.first)


def _ranges(headings: Sequence[Heading], rows: Sequence[Sequence[str]]) -> set[int]:
    """The columns whose cells are ranges of times, and times between these."""
    cells = {index: [row[index] for row in rows if index < len(row)] for index in range(len(headings))}
    return {
        index
        for index, column in cells.items()
        if any(map(bounds, column)) and all(bounds(cell) or _is_time_cell([cell], 0) for cell in column)
    }


def _are_devices(headings: Sequence[Heading], times: set[int]) -> bool:
    """Whether times are those of one thing on accelerators of several kinds, which a run has one of."""
    return len({kind for index in times for kind in _words(headings[index]) & _ACCELERATORS}) > 1


def _is_one_of_parts(headings: Sequence[Heading], fields: Mapping[str, int], times: set[int]) -> bool:
    """Whether a total without a count stands beside several times of which no heading says what they are of it."""
    if {field for field in fields if field in FIGURES} != {"total"} or fields.keys() & {"count", "percent"}:
        return False
    others = [index for index in times if index != fields["total"] and not _statistics(headings[index])]
    return len(others) > 1 and not any(_words(headings[index]) & (_DEVICE | _HOST) for index in others)


def _statistics(head: Heading) -> list[str]:
    """The figures that the words of a heading name."""
    return [field for field, words in _FIGURE_WORDS.items() if words & _words(head)]


def _stem(head: Heading) -> frozenset[str]:
    """The words of a heading that say neither which figure it is nor that it is a time."""
    return _words(head) - _OF_STATISTICS - _TIME_WORDS - _PLAIN_WORDS


def _has_figure(row: Sequence[str], index: int) -> bool:
    """Whether a row has a figure in a column, or says that there is none."""
    if index >= len(row):
        return False
    cell = row[index]
    return is_missing(cell) or figure(cell) is not None or figure(cell.replace(",", ".")) is not None


def _is_share(head: Heading) -> bool:
    """Whether a heading is that of shares of the whole time: `GPU %`, `Pct`, `% of total`."""
    words = _words(head)
    is_percent = head.unit == "%" or bool(words & {"pct", "percent", "percentage"})
    is_said = bool(words or not head.name) and words <= _SHARE_WORDS  # 效率(%) has no words
    return is_percent and words != {"self"} and (is_said or head.text.lstrip().startswith("% of "))


def _is_of_row(head: Heading, rows: Sequence[Sequence[str]], name: int) -> bool:
    """Whether percentages are of what one of the rows names, `% of cuBLAS`: it is no share of a sum."""
    _, of, what = head.text.casefold().partition("% of ")
    return bool(of) and any(what.strip() in row[name].casefold() for row in rows if name < len(row))


def _has_shares(head: Heading, first: Sequence[str], index: int) -> bool:
    """Whether the cells below `Share` or the like have percent signs."""
    read = figure(first[index]) if head.key in ("share", "ratio", "portion", "part") and index < len(first) else None
    return read is not None and read.unit == "%"


def _proven_shares(headings: Sequence[Heading], fields: Mapping[str, int], times: set[int], below: Below) -> list[int]:
    """The columns of percentages, whatever they are called, that are in proportion to a time."""
    percent = [head.unit == "%" or _has_percent(below.first, index) for index, head in enumerate(headings)]
    free = [index for index, is_share in enumerate(percent) if is_share and index not in fields.values()]
    rows = [row for row in below if len(row) == len(headings) and not is_total(row[fields["name"]])] if free else []
    columns = {index: [figure(row[index]) for row in rows] for index in free}
    lengths = [[_ns(headings, row, index) for row in rows] for index in times]
    return [
        index
        for index, shares in columns.items()
        if len(rows) >= _FEWEST_SHARES
        and len({read.number for read in shares if read}) > 1
        and any(_are_shares(shares, length) for length in lengths)
    ]


def _has_percent(first: Sequence[str], index: int) -> bool:
    read = figure(first[index]) if index < len(first) and "%" in first[index] else None
    return read is not None and read.unit == "%"


def _figures_of(
    headings: Sequence[Heading], fields: dict[str, int], times: set[int], below: Below
) -> dict[str, int] | None:
    """The fields of a table of statistics, None if none of its times is a figure of the named things."""
    if "value" in fields and fields["value"] not in times:
        del fields["value"]
    free = [index for index in sorted(times - set(fields.values())) if not _OTHER & _words(headings[index])]
    free.sort(key=lambda index: _rank(headings[index]), reverse=True)
    stems = {_stem(headings[index]) for index in free if len(_statistics(headings[index])) == 1}
    if len(stems - {frozenset()}) > 1 or _are_repeated(headings[index] for index in times):
        return None  # statistics of several things: `TTFT mean`, `TPOT median`
    statistics = [_statistics(headings[index]) for index in sorted(times)]
    places = {_on_device(headings[index]) for index in times}
    if statistics == [["avg"]] * len(statistics) and places >= {-1, 1} and not fields.keys() & _PARTS_OF_RUN:
        return None  # averages of several things: `GPU ms/tok`, `host ms/tok`
    for index in free:
        figures = _statistics(headings[index])
        if len(figures) == 1:
            fields.setdefault(figures[0], index)
    plain = [index for index in free if not _statistics(headings[index])]
    if plain and "value" in fields and _on_device(headings[plain[0]]) > _on_device(headings[fields["value"]]):
        fields["value"] = plain[0]
    if not any(fields.get(field) in times for field in _MEASURES):
        if not plain or "value" in fields:
            return None
        if _are_several(headings, plain) and not _is_shared(headings, fields, plain[0], below):
            fields = _by_products(headings, fields, times, below)
            return fields if "total" in fields else None
        if "count" not in fields or _is_shared(headings, fields, plain[0], below):
            fields["value"] = plain[0]
    fields = _by_products(headings, _with_total(headings, fields), times, below)
    return _by_shares(headings, fields, times, below)


def _are_repeated(heads: Iterable[Heading]) -> bool:
    """Whether two statistics and more are there twice, of different things: `Avg`, `Min`, `clAvg`, `clMin`."""
    stems: dict[str, set[frozenset[str]]] = {}
    for head in heads:
        if len(named := _statistics(head)) == 1:
            stems.setdefault(named[0], set()).add(_stem(head))
    return sum(len(of) > 1 for of in stems.values()) > 1


def _are_several(headings: Sequence[Heading], plain: Sequence[int]) -> bool:
    """Whether nothing in the headings of some times, the best first, says which of them is that of the named things."""
    return len(plain) > 1 and _rank(headings[plain[0]]) == _rank(headings[plain[1]])


def _rank(head: Heading) -> tuple[int, bool]:
    return _on_device(head), bool(_words(head) & _PLAIN_WORDS) or not head.name


def _is_shared(headings: Sequence[Heading], fields: Mapping[str, int], column: int, below: Below) -> bool:
    """Whether the stated shares are those of a time, which is the total then."""
    rows = [row for row in below if len(row) == len(headings)]
    if "percent" not in fields or len(rows) < _FEWEST_SHARES:
        return False
    return _are_shares([figure(row[fields["percent"]]) for row in rows], [_ns(headings, row, column) for row in rows])


def _by_products(headings: Sequence[Heading], fields: dict[str, int], times: set[int], below: Below) -> dict[str, int]:
    """The fields, with the total and the average where a time is another one times a count in all rows."""
    rows = [row for row in below if len(row) == len(headings) and not is_total(row[fields["name"]])]
    if len(rows) < 2 or "total" in fields:
        return fields
    columns = {index: [_ns(headings, row, index) for row in rows] for index in sorted(times)}
    counts = {index: [figure(row[index]) for row in rows] for index in range(len(headings)) if index not in times}
    for count, numbers in counts.items():
        often = [read.number for read in numbers if read and not read.unit and as_int64(read.number) is not None]
        if len(often) < len(rows) or max(often) < 2:
            continue
        for one, all_calls in permutations(columns, 2):
            if {*_statistics(headings[all_calls])} & {"min", "median", "max", "p95", "p99"}:
                continue  # what one call takes
            halves = [_half_digit(headings, row, one) for row in rows]
            if all(
                a and b and abs(a * n - b) <= max(b / 50, n * half)
                for a, b, n, half in zip(columns[one], columns[all_calls], often, halves, strict=True)
            ):
                rest = {field: index for field, index in fields.items() if index not in (one, all_calls, count)}
                rest = {field: index for field, index in rest.items() if field not in ("value", "count", "avg")}
                return rest | {"total": all_calls, "avg": one, "count": count}
    return fields


def _half_digit(headings: Sequence[Heading], row: Sequence[str], index: int) -> Decimal:
    """Half of the last digit of a time, by which it is rounded, in ns."""
    read = figure(row[index])
    if not read or not read.number.is_finite():
        return Decimal(0)
    digit = Decimal(1).scaleb(min(int(read.number.as_tuple().exponent), 0)) / 2
    return nanoseconds(digit, read.unit or headings[index].unit) or Decimal(0)


def _by_shares(headings: Sequence[Heading], fields: dict[str, int], times: set[int], below: Below) -> dict[str, int]:
    """The fields, with another time as the total if the stated shares contradict the one that was chosen.

    Shares may be those of a time times its count, which is an average then; shares of other numbers are left out.
    """
    chosen = next((field for field in ("total", "value", "avg") if field in fields), "")
    rows = [row for row in below if len(row) == len(headings) and not is_total(row[fields["name"]])]
    if not chosen or "percent" not in fields or len(rows) < _FEWEST_SHARES:
        return fields
    shares = [figure(row[fields["percent"]]) for row in rows]
    columns = {index: [_ns(headings, row, index) for row in rows] for index in sorted({fields[chosen], *times})}
    counts = [figure(row[fields["count"]]) for row in rows] if "count" in fields else []
    products = [
        time * count.number if time is not None and count else None
        for time, count in zip(columns[fields[chosen]], counts, strict=False)
    ]
    if chosen == "avg" and products and _are_shares(shares, products):
        return fields
    if _are_shares(shares, columns[fields[chosen]]):
        rest = {field: index for field, index in fields.items() if field != "avg"}
        return fields if chosen != "avg" else rest | {"total" if counts else "value": fields["avg"]}
    rest = {field: index for field, index in fields.items() if field != chosen}
    if products and "avg" not in rest and _are_shares(shares, products):
        return rest | {"avg": fields[chosen]}
    used = {rest[field] for field in (*FIGURES, "count") if field in rest}
    others = [index for index, times in columns.items() if index not in used and _are_shares(shares, times)]
    if len(others) == 1:
        return rest | {"total": others[0]}
    numbers = (_numbers(rows, index) for index in range(len(headings)) if index not in (*columns, fields["percent"]))
    are_of_numbers = any(_are_shares(shares, column) for column in numbers)  # of calls or bytes, say
    return {field: index for field, index in fields.items() if field != "percent"} if are_of_numbers else fields


def _numbers(rows: Sequence[Sequence[str]], index: int) -> list[Decimal | None]:
    """The numbers without a unit in a column."""
    column = (figure(row[index]) for row in rows)
    return [read.number if read and not read.unit else None for read in column]


def _are_shares(shares: Sequence[Quantity | None], times: Sequence[Decimal | None]) -> bool:
    """Whether shares are those of times in one sum, as far as their decimals say it."""
    pairs = [(share.number, time) for share, time in zip(shares, times, strict=True) if share and time is not None]
    total = sum((share for share, _ in pairs), Decimal(0))
    if len(pairs) < len(shares) or not (total.is_finite() and total > 0 and all(time.is_finite() for _, time in pairs)):
        return False
    whole = sum((time for _, time in pairs), Decimal(0)) / total
    if whole <= 0:
        return False
    places = max((-min(int(share.as_tuple().exponent), 0) for share, _ in pairs), default=0)
    return all(abs(share * whole - time) <= whole * Decimal(10) ** -places + time / 50 for share, time in pairs)


def _with_total(headings: Sequence[Heading], fields: dict[str, int]) -> dict[str, int]:
    """The fields, in which a plain time is an average next to a number of samples, and else the total."""
    samples = next((index for index, head in enumerate(headings) if head.key in _SAMPLES), None)
    if "value" in fields and "total" not in fields:
        if samples is not None or headings[fields["name"]].key == "benchmark":
            fields.setdefault("avg", fields.pop("value"))
        elif fields.keys() & {"count", "avg"} and headings[fields["value"]].key in _PLAIN:
            fields["total"] = fields.pop("value")
    if samples is not None and "count" not in fields and samples not in fields.values():
        fields["count"] = samples
    return fields


def _are_headings(headings: Sequence[Heading]) -> bool:
    """Whether cells may be headings: hardly any is empty or a number, none a time, and none has a side of the table."""
    blank = sum(not head.text for head in headings[1:])  # names need no heading
    numbers = sum(cell_quantity(head.text) is not None for head in headings)
    times = sum(_is_time_cell([head.text.lstrip(":= ")], 0) for head in headings)
    times += sum(
        not right.name and is_time(right.unit) and figure(left.text) is not None for left, right in pairwise(headings)
    )
    is_drawn = any("|" in head.text or len(_UNITS.findall(head.text)) > 1 for head in headings)
    torn = sum(head.text.count("[") != head.text.count("]") for head in headings)  # pieces of a list
    return (blank < 2 or blank * 2 < len(headings)) and numbers < 2 and not (times or is_drawn or torn > 1)


def _may_be_heading(head: Heading) -> bool:
    """Whether a text is short and has no decimals and times: what stands in a line of a log is rather a sentence."""
    if is_time(head.unit) and len(head.text) <= 2 * _LONGEST_NAME:
        return True
    return (
        len(head.text) <= _LONGEST_NAME
        and head.text.count(" ") < _MOST_WORDS
        and not _SAID.search(_SIZE.sub("", head.text))
    )


def _names_column(headings: Sequence[Heading], below: Below, times: set[int], name: int | None = None) -> int | None:
    """Returns the column of names that the cells show: texts, as distinct as any, in a table with times.

    `name` is a column whose heading says so, but not its cells. None if there is no such column.
    """
    rows = list(below)
    are_times = any(map(_says_time, (headings[index] for index in times)))
    are_times = are_times or (below.is_drawn and any(_are_all_times(rows, index, headings[index]) for index in times))
    if not are_times or any(figure(head.text) for head in headings if head.text):
        return name
    columns = [[row[index].strip() for row in rows if index < len(row)] for index in range(len(headings))]
    texts = {index: cells for index, cells in enumerate(columns) if index not in times and _are_texts(cells)}
    names = max(texts, key=lambda index: (len(set(texts[index])), -index), default=None)
    if names is None or (len(rows) > 2 and len(set(texts[names])) == 1):  # `yes` in each row
        return name
    return names


def _are_all_times(rows: Sequence[Sequence[str]], index: int, head: Heading) -> bool:
    """Whether each row has a time with its unit in a column, and the heading doesn't say that it is another one."""
    cells = [row[index] for row in rows if index < len(row)]
    return len(cells) > 1 and is_measured(head.text) and all(_is_time_cell(cells, at) for at in range(len(cells)))


def _are_texts(cells: Sequence[str]) -> bool:
    """Whether nearly all cells of a column are texts, and few are figures, dates or units."""
    words = [cell for cell in cells if cell and not is_missing(cell)]
    odd = sum(
        figure(cell) is not None
        or _DATE.match(cell) is not None
        or is_time(cell)
        or not any(map(str.isalpha, cell))
        or bounds(cell) is not None
        for cell in words
    )
    return bool(words) and len(words) * 2 > len(cells) and odd * 4 <= len(words)


def _are_numbers(below: Below, index: int) -> bool:
    """Whether the first rows have nothing but numbers in a column."""
    cells = [row[index] for row in islice(below, 4) if index < len(row)]
    return bool(cells) and all(cell_quantity(cell) is not None for cell in cells)


def _says_time(head: Heading) -> bool:
    """Whether a heading has a unit of time, or a word of times or of devices."""
    return is_time(head.unit) or bool(_words(head) & _TIME_WORDS)


def _is_unit(first: Sequence[str], index: int) -> bool:
    return index < len(first) and is_time(unit_of(first[index]))


def _on_device(head: Heading) -> int:
    """1 for the time of a device, -1 for that of the host, 0 for a heading that doesn't say it."""
    words = _words(head)
    return bool(words & _DEVICE) - bool(words & _HOST)


def _timeline(
    headings: Sequence[Heading], fields: Mapping[str, int], times: set[int], below: Below
) -> dict[str, int] | None:
    """The fields of a table of events: those of a name, of times with units, and of places."""
    match = _TIMELINE.match(headings)
    if match is None or "count" in fields:
        return None
    match = {field: index for field, index in match.items() if index in times}
    if match.keys() >= {"start", "dur", "end"} and _is_stamp(headings, match, below):
        others = [index for index in sorted(times - set(match.values())) if headings[index].key in _LENGTHS_BESIDE_TIME]
        del match["dur"]
        match |= {"dur": others[0]} if others else {}
    if "start" not in match:
        return None
    if not match.keys() & {"dur", "end"}:
        lengths = [index for index in times - set(match.values()) if not _OTHER & _words(headings[index])]
        if len(lengths) != 1:
            return None
        match["dur"] = lengths[0]
    places = {f: i for f, i in (_PLACES.match(headings) or {}).items() if not is_time(headings[i].unit)}
    return {"name": fields["name"]} | {f: i for f, i in places.items() if i != fields["name"]} | match


def _is_stamp(headings: Sequence[Heading], fields: Mapping[str, int], below: Below) -> bool:
    """Whether a column `Time` beside starts and ends is a time stamp: its cells aren't the ends less the starts."""
    if headings[fields["dur"]].key not in ("time", "timestamp"):
        return False
    for row in below:
        start, dur, end = (_ns(headings, row, fields[field]) for field in ("start", "dur", "end"))
        if start is not None and dur is not None and end is not None:
            return abs(end - start - dur) > max(abs(dur) / 100, Decimal(1))
    return True


def _ns(headings: Sequence[Heading], row: Sequence[str], index: int) -> Decimal | None:
    read = figure(row[index]) if index < len(row) else None
    return nanoseconds(read.number, read.unit or headings[index].unit) if read else None


@lru_cache(maxsize=1024)
def _words(head: Heading) -> frozenset[str]:
    return frozenset(_KEY_WORD.findall(head.key))


def _is_time_cell(cells: Sequence[str], index: int) -> bool:
    read = figure(cells[index]) if index < len(cells) else None
    return read is not None and is_time(read.unit)


#: Each heading of names contains one of these words, in lower case.
_WORDS = tuple(dict.fromkeys(re.split(r" ", name)[0] for name in NAMES))

#: A unit of time in headings, in cells or in a title; how many lines above and below one headings are looked for.
_TIME = re.compile(rf"(?<![A-Za-z])(?:{TIME_WORDS}|ps)(?![A-Za-z])|[a-z](?:[NUM]s|[NUM]S)(?![a-z])", re.IGNORECASE)
_ABOVE, _BELOW = 5, 4
_TIME_IN_CELL = re.compile(rf"(?<![A-Za-z\d])\d[\d.,]{{0,40}} ?(?:{TIME_WORDS})\b", re.IGNORECASE)

#: Lines that are read as headings, at most.
_MOST_TRIED, _MOST_NAMED = 400, 60

#: The longest heading of a table whose names are known by its cells alone, and words that it has at most.
_LONGEST_NAME, _MOST_WORDS = 48, 7

#: What separates cells; headings have it, or single blanks above figures.
_SEPARATED = re.compile(r"[|,;\t&│┃║┆]|<tr|!!|\S\s\s+\S")

#: Headings don't contain many numbers with decimals.
_DECIMAL = re.compile(r"(?<![\w.])[+-]?\d+\.\d+(?![\d.])")
_MOST_DECIMALS = 2
#: A size in a heading, as of a model: `Latency, ms (1.5B)`.
_SIZE = re.compile(r"\(\d+(?:\.\d+)?[KMBGT]\)")
_SAID = re.compile(rf"{_DECIMAL.pattern}|(?<![A-Za-z\d])\d+ ?(?:{TIME_WORDS})\b", re.IGNORECASE)


def probe(sample: Sample) -> Match | None:
    """SHAPE for a table with names and times, NEAR for a table with names but without a unit of time."""
    if not may_have_tables(sample):
        return None
    for number in islice(_possible(sample), _MOST_TRIED):
        if headings_at(sample.lines, number, recognise):
            for table in find_tables(sample, recognise):
                words = ", ".join(f"'{head.text}'" for head in table.headings[:4])
                return Match(Score.SHAPE, f"contains a table with the columns {words} (line {table.line})")
            break
    if any(map(_is_bare, repeat(sample), islice(_lines_with_units(sample), _MOST_NAMED))):
        for table in find_tables(sample, recognise, bare=True):
            if isinstance(table.layout, Alike):
                return Match(Score.SUFFIX, f"has lines of one form with several times (line {table.line})")
            return Match(Score.SHAPE, f"has rows whose figures prove which is which (line {table.line})")
    return _near(sample)


def _is_bare(sample: Sample, number: int) -> bool:
    """Whether a line and those below are rows without headings, by what their figures prove, or lines of one form."""
    first, *below = sample.lines[number - 1 : number + _BELOW]

    def peek(ahead: int) -> str | None:
        return below[ahead - 1] if ahead <= len(below) else None

    return bare_table(first, peek) is not None or alike_table(first, peek) is not None


def _near(sample: Sample) -> Match | None:
    """NEAR for a table with a heading of names, or with times, and what it lacks."""
    for number, line in islice(likely_lines(sample, _WORDS), _MOST_NAMED):
        table = headings_at(sample.lines, number, _named) if _may_be_headings(line) else None
        if table and (len(table.headings) > 2 or isinstance(table.layout, (Pipes, Dashes))):
            heads = [head for head in table.headings if is_time(head.unit)]
            times = [head.text for head in heads] if not any(map(_statistics, heads)) else []
            in_cells = bool(heads) or any(map(_TIME_IN_CELL.search, sample.lines[number : number + _BELOW]))
            lack = "no unit of time" if not in_cells else "nothing that says which of its times is that of a row"
            lack = lack if not times else f"no time of their own: '{times[0]}' is none"
            return Match(Score.NEAR, f"the table in line {number} has names, but {lack}")
    for number in islice(_possible(sample), _MOST_NAMED):
        table = headings_at(sample.lines, number, _timed)
        if table and table.fields and isinstance(table.layout, (Pipes, Dashes)):
            time = table.headings[table.fields["value"]].text
            return Match(
                Score.NEAR, f"the table in line {number} has times ('{time}'), but nothing says what they are of"
            )
    return None


def _timed(headings: Sequence[Heading], below: Below) -> dict[str, int] | None:
    """The first column with times, of a table whose other columns nothing is known of."""
    first = below.first
    times = (index for index, head in enumerate(headings) if is_time(head.unit) or _is_time_cell(first, index))
    index = next(times, None) if _are_headings(headings) and all(map(_may_be_heading, headings)) else None
    return None if index is None or _SAID.search(headings[index].text) else {"value": index}


def _named(headings: Sequence[Heading], below: Below) -> dict[str, int] | None:
    """The columns of a table with a heading of names."""
    fields = COLUMNS.match(headings)
    return fields if fields and "name" in fields else None


def _possible(sample: Sample) -> Iterator[int]:
    """Yields the numbers, from 1, of the lines that may be headings: those near a unit of time."""
    lines, tried = sample.lines, 0
    for number in _lines_with_units(sample):
        below = _MOST_NAMED if unit_of_file(lines[number - 1]) else _BELOW
        for near in range(max(number - _ABOVE, tried + 1), min(number + below, len(lines)) + 1):
            tried = near
            if _may_be_headings(lines[near - 1]):
                yield near


def _lines_with_units(sample: Sample) -> Iterator[int]:
    """Yields the numbers of the lines with a unit of time, from 1."""
    text, at = sample.text or "", 0
    starts = sample.line_starts
    while match := _TIME.search(text, at):
        number = bisect_right(starts, match.start())
        if number > len(sample.lines):  # it may be cut
            return
        yield number
        if number >= len(starts):
            return
        at = starts[number]


def _may_be_headings(line: str) -> bool:
    """Whether a line may be headings, at first sight."""
    if not line or len(line) > LONGEST_HEADER or not any(map(str.isalpha, line)):
        return False
    return len(_DECIMAL.findall(line[:2000])) <= _MOST_DECIMALS and (
        _SEPARATED.search(line) is not None or line.count(" ") > 2
    )


_LIMIT = 1 << 62

#: Rows of tables that are compared with others, at most, of one and of all: longer ones add up.
_MOST_COMPARED, _ALL_COMPARED = 256, 2_048

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
        number = _parse_int(row.text(field)) if field in table.fields else None
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


def _parse_int(text: str) -> int | None:
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
    of_runs = _apart(source.sample())
    tree = TimeTree(rows, [])
    above: tuple[int, float] | None = None  # a line that states what the table below it takes of the recording
    for item in read_tables(lines, recognise, bare=True):
        if isinstance(item, Table):
            tree.finish()
            tree = TimeTree(rows, item.scope)
            above = above if above and item.line - above[0] <= _ABOVE else None
            if above:
                rows.summary("total", "total", scope=item.scope, table=item.ordinal, unit="ns", total=above[1])
        elif isinstance(item, Row):
            row = _without_shares(item) if above else item
            if problem := _add(_of_run(row) if item.table.line in of_runs else row, rows, conversion, tree):
                lines.skip(*problem)
            else:
                lines.used()
        elif whole := _of_trace(item.text):
            above = item.line, whole
            lines.structure()
        elif shows_a_part(item.text):
            lines.skip("elided", "it says that it isn't complete")
        yield from rows.ready()
    tree.finish()
    yield from rows.rest()


def _add(row: Row, rows: RowBuilder, conversion: Conversion, tree: TimeTree) -> tuple[str, str] | None:
    """Adds a row; returns the kind of issue and a detail if it isn't valid."""
    name, table = row.text("name"), row.table
    if not name:
        return "bad-record", "no name"
    if has_variants(table.fields):
        return add_variants(row, rows)
    kind, copy_kind = _kind(table, name)
    if "start" in (table.fields or {}):
        return add_event(row, kind, copy_kind, rows, conversion.report)
    figures = row.figures()
    if not figures:
        return "bad-record", "no figure"
    if (least := _least_time(figures)) < 0:
        return "negative-duration", f"{least:g} ns"
    if "count" not in figures.columns and (counted := _counted(table, name)):
        name, figures.columns["count"] = counted
    if _are_no_sum(figures):  # the mean is of something else
        column = (table.fields or {})["avg"]
        figures.args[own_key(figures.args, table.headings[column])] = figures.columns.pop("avg")
        kind, copy_kind = (kind, copy_kind) if "percent" in figures.columns else ("metric", None)
    if name in table.sums:
        kind, copy_kind = "total", None
    elif not _adds_up(table, figures, name):
        kind, copy_kind = "metric", None
    place: dict[str, Any] = {"table": table.ordinal, "copy_kind": copy_kind, "args": figures.args}
    time = next((field for field in ("total", "value") if field in figures.columns), "")
    if table.is_tree and kind != "total" and time and figures.columns.get("unit") == "ns":
        total = figures.columns.pop(time)
        tree.add(row.indent, kind, name, total, figure=time, **(place | figures.columns))
    else:
        rows.summary(kind, name, scope=table.scope, **place, **figures.columns)
    return None


def _of_run(row: Row) -> Row:
    """A row of a table whose times don't add up with those of others."""
    return replace(row, table=replace(row.table, adds_up=False, is_tree=False))


def _without_shares(row: Row) -> Row:
    """A row of a table whose shares are of the whole recording: they don't say how much its rows take together."""
    fields = {field: index for field, index in (row.table.fields or {}).items() if field != "percent"}
    return replace(row, table=replace(row.table, fields=fields))


def _of_trace(text: str) -> float | None:
    """What a line above a table says that all of its rows take, in ns, beside their share of the recording."""
    match = _OF_TRACE.search(text)
    time = nanoseconds(Decimal(match[1]), match[2]) if match else None
    return None if time is None else float(time)


_OF_TRACE = re.compile(
    r"\btook (\d{1,9}(?:\.\d{1,9})?) ?([mnuµμ]?s) \(\d{1,3}(?:\.\d{1,6})?% of the (?:trace|recording|run)\)"
)


def _apart(sample: Sample) -> frozenset[int]:
    """The lines of the headings of tables in the sample whose times don't add up with those of others.

    They are of several runs: half of their names are in others with the same headings, too. Or all rows of one, without
    counts and shares, take as much as another one takes as a whole: passes, and operations of one. Or all of their rows
    take what those of one above them do: the same work by other names.
    """
    rows_by_table: dict[int, list[Row]] = {}
    for item in islice(read_tables(SampleLines(sample.lines), recognise, bare=True), _ALL_COMPARED):
        if isinstance(item, Row) and len(rows := rows_by_table.setdefault(item.table.line, [])) <= _MOST_COMPARED:
            rows.append(item)
    tables = {line: rows for line, rows in rows_by_table.items() if len(rows) <= _MOST_COMPARED}
    return _of_runs(tables) | _of_passes(tables) | _of_same(tables) if len(rows_by_table) > 1 else frozenset()


def _of_runs(tables: Mapping[int, Sequence[Row]]) -> frozenset[int]:
    """The tables half of whose names others with the same headings have, too."""
    names: dict[tuple[str, ...], dict[int, set[str]]] = {}
    for line, rows in tables.items():
        headings = tuple(head.text for head in rows[0].table.headings)
        names_of_table = {name for row in rows if not is_total(name := row.text("name"))}
        names.setdefault(headings, {})[line] = names_of_table
    often = {
        headings: Counter(chain.from_iterable(names_of_table.values())) for headings, names_of_table in names.items()
    }
    return frozenset(
        line
        for headings, alike in names.items()
        for line, names_of_table in alike.items()
        if names_of_table and 2 * sum(often[headings][name] > 1 for name in names_of_table) >= len(names_of_table)
    )


def _of_passes(tables: Mapping[int, Sequence[Row]]) -> frozenset[int]:
    """The tables each row of which takes as long as another one as a whole, and those that are within them."""
    times = {line: plain for line, rows in tables.items() if len(plain := _plain_times(rows)) > 1}
    greatest = max(map(min, times.values()), default=0.0)
    within = {line for line, plain in times.items() if 0 < sum(plain) <= greatest}
    least = min((sum(times[line]) for line in within), default=0.0)
    return frozenset(within | {line for line, plain in times.items() if within and min(plain) >= least})


def _of_same(tables: Mapping[int, Sequence[Row]]) -> frozenset[int]:
    """The tables whose rows have the times that those of another one above them have, whatever they are called."""
    seen: set[tuple[float, ...]] = set()
    same = set()
    for line, rows in sorted(tables.items()):
        fields = rows[0].table.fields or {}
        columns = [] if has_variants(fields) or "start" in fields else [row.figures().columns for row in rows]
        times = tuple(sorted(one["total"] for one in columns if one.get("unit") == "ns" and one.get("total", 0) > 0))
        same |= {line} if times in seen else set()
        seen |= {times} if len({*times}) > 1 and len(times) == len(rows) else set()
    return frozenset(same)


def _plain_times(rows: Sequence[Row]) -> list[float]:
    """The times of the rows of a table, in ns, of which nothing says how often or how much of a whole they are."""
    fields = rows[0].table.fields or {}
    if has_variants(fields) or "start" in fields:
        return []
    columns = [row.figures().columns for row in rows if not is_total(row.text("name"))]
    return [
        one["value"]
        for one in columns
        if one.get("unit") == "ns" and "value" in one and one.keys().isdisjoint(("count", "percent"))
    ]


def _least_time(figures: Figures) -> float:
    """The least time of a row that isn't a deviation, in ns; 0 without one."""
    columns = figures.columns
    times = [columns[field] for field in _MEASURES if field in columns] if columns.get("unit") == "ns" else []
    return min(times, default=0.0)


def _adds_up(table: Table, figures: Figures, name: str) -> bool:
    """Whether the times of a row are parts of a sum."""
    if name in table.subtotals or _are_of_one_launch(figures) or _are_alternatives(table, figures):
        return False
    if table.is_tree:
        return True
    return table.adds_up is not False and not _are_inclusive(table) and not _are_unproven(table, figures)


#: The last words of headings of names that are those of parts of a run.
_OF_PARTS = frozenset(
    name.split()[-1] for name in (*NAMES, "name", "module", "type", "action", "program", "dispatch", "pass")
)


_BENCHMARK = re.compile(r"(?i)\bbench(?:mark)?s?\b|\bcompari(?:son|ng)s?\b")


def _are_unproven(table: Table, figures: Figures) -> bool:
    """Whether neither figures nor the heading of names say that plain times are those of parts of a run.

    Nor are they if the title above is that of a benchmark, which measures one after the other.
    """
    if table.adds_up or not figures.columns.keys().isdisjoint(("total", "count", "percent")):
        return False
    if table.path and _BENCHMARK.search(table.path[-1].text):
        return True
    words = table.headings[table.name_column].key.split()
    return not words or (words[-1] not in _OF_PARTS and words[-1].removesuffix("s") not in _OF_PARTS)


def _are_of_one_launch(figures: Figures) -> bool:
    """Whether times are those of a single launch, of which nothing says how many there were: they don't add up."""
    columns = figures.columns
    return columns.get("unit") == "ns" and columns.keys().isdisjoint(("total", "value", "count", "percent"))


#: Headings of names of which a run has one or the other: nothing takes the times of all.
_ALTERNATIVES = frozenset(
    (
        *(
            "model",
            "models",
            "model name",
            "network",
            "job",
            "workflow",
            "check",
            "suite",
            "version",
            "branch",
            "commit",
        ),
        *(
            "backend",
            "framework",
            "engine",
            "platform",
            "hardware",
            "method",
            "approach",
            "setup",
            "setting",
            "dataset",
        ),
        *("batch", "batch size", "input", "input size", "resolution", "precision", "dtype", "config", "configuration"),
        *("variant", "strategy", "algorithm", "implementation", "library", "compiler", "device", "gpu", "hardware"),
        *("arch", "architecture", "metric", "format", "quantization", "quant", "モデル", "手法", "модель", "метод"),
    )
)


_CHOICES = ("模型", "框架", "方法", "手段", "算法", "实现", "版本", "平台", "方式")


def _are_alternatives(table: Table, figures: Figures) -> bool:
    """Whether plain times, without a count or a share, are of things that a run has one of."""
    if not figures.columns.keys().isdisjoint(("total", "count", "percent")):
        return False
    return _is_choice(table.headings[table.name_column]) or any(map(_is_speedup, table.headings))


def _is_choice(head: Heading) -> bool:
    """Whether names are of things that a run has one of."""
    return head.key in _ALTERNATIVES or head.key.endswith(_CHOICES)


def _are_inclusive(table: Table) -> bool:
    """Whether the heading of the times says that they are with what is within."""
    fields = table.fields or {}
    times = [table.headings[fields[field]] for field in ("total", "value") if field in fields]
    return any(_words(head) & {"cumulative", "inclusive", "cumtime", "incl"} for head in times)


_SPEEDUP = re.compile(r"(?i)speed-? ?up|加速|\bvs\.? |\bfaster\b|\bslower\b|\brelative\b|ускорение")


def _is_speedup(head: Heading) -> bool:
    """Whether a column compares the times of its rows with each other."""
    return _SPEEDUP.search(head.text) is not None


def _are_no_sum(figures: Figures) -> bool:
    """Whether a total contradicts its own count and mean."""
    columns = figures.columns
    return columns.keys() >= {"total", "count", "avg"} and contradict(
        columns["total"], columns["count"], columns["avg"]
    )


_COUNTED_HEAD = re.compile(r"\((?:count|calls|num calls|# ?calls|n)\) ?:?$", re.IGNORECASE)
_COUNTED = re.compile(r"(?P<name>.*\S) ?\(\s{0,20}(?P<count>\d{1,18})\s{0,20}\):?")


def _counted(table: Table, name: str) -> tuple[str, int] | None:
    """The name and the count of a cell below `Kernel (count)`; None where the heading doesn't say that."""
    assert table.fields is not None
    if not _COUNTED_HEAD.search(table.headings[table.fields["name"]].text):
        return None
    match = _COUNTED.fullmatch(name)
    return (match["name"], int(match["count"])) if match else None


def _kind(table: Table, name: str) -> tuple[str, str | None]:
    """The kind of a row, and the direction of a copy."""
    assert table.fields is not None
    if is_total(name) and "start" not in table.fields:
        return "total", None
    words = [table.headings[table.fields["name"]].text, *(title.text for title in table.path[-1:])]
    time = next((table.fields[field] for field in ("dur", "total", "value", "avg") if field in table.fields), None)
    shares = [table.headings[table.fields["percent"]]] if "percent" in table.fields else []
    whose = 0 if time is None else next(filter(None, map(_on_device, (table.headings[time], *shares))), 0)
    on_device = "stream" in table.fields or any("kernel" in word.casefold() for word in words)
    on_device = on_device or bool(_words(table.headings[table.fields["name"]]) & _OF_DEVICES)
    return device_work(name) if whose > 0 or (on_device and whose == 0) else ("op", None)


FORMAT = Format(
    "table",
    "any Markdown, TSV or text table with a name and a time",
    patterns=("*.md", "*.tsv", "*.txt"),
    probe=probe,
    read=read,
    prose=True,
    max_score=Score.SHAPE,
)
