"""Recognises tables: they have a column of names, and a unit of time in a heading or in the first row.

Name, Time (ms), Calls                  statistics: a plain time next to a count is the total
Name, GPU (us), Calls                   the meaning of the time is unknown: it stays an argument
Name, Time per call (us), Calls         an average
Name, Start Time(us), Duration(us)      a timeline: each row is an event
name, ns_since_start, exec_time_ns      the same
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ktrace.kit.text.headings import FIGURES, STATISTICS, Columns, Heading, cell_quantity, is_time

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
_WORD = re.compile(r"[a-z]+\d*|/")

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
    return set(_WORD.findall(head.key))


def _is_time_cell(cells: Sequence[str], index: int) -> bool:
    found = cell_quantity(cells[index]) if index < len(cells) else None
    return found is not None and is_time(found.unit)
