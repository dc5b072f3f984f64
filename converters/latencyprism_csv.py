"""LatencyPrism's CSV: each function's share of each cycle, and the counters of the same run (DeepDive, 2025).

    cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,…,cycle_start_ts,…
    0,4711,node7,3.21,oncpu,host_cpu_usage,Host,python,5.84,0.12,20270.5,…,1736413971558972.912,…

    counter_name,timestamp,value,hostname
    gpu_usage,1736413971558972.912,7.25,node7

Times are epoch microseconds. `*_perf_data.csv` has the first form, `*_counters_data.csv` the second.

Reads functions of cycles as summaries, and counter readings as events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import Columns, Heading, cell_quantity, plain
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import is_missing, nanoseconds, to_ns
from ktrace.kit.text.tables import Row, Table, find_tables, read_tables
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of either file."""
    for table in find_tables(sample, columns_of):
        words = "beta_pct" if "metric" in (table.fields or {}) else "counter_name, timestamp"
        return Match(Score.DIALECT, f"has the columns {words} of LatencyPrism (line {table.line})")
    return None


#: A row is a function in a cycle, with the mean and deviation of a metric while it ran. The figures of the
#: function itself (share, duration, instances) repeat in the row of each metric.
PERFORMANCE = Columns(
    {
        "name": ("function name",),
        "metric": ("metric name",),
        "percent": ("beta pct",),
        "value": ("mu pct",),
        "stddev": ("sigma pct",),
        "count": ("instances count",),
        "cycle": ("cycle",),
        "pid": ("pid",),
        "host": ("hostname",),
        "device": ("device",),
        "type": ("func type",),
        "start": ("cycle start ts",),
        "duration": ("duration",),
        "anchor": ("anchor dur",),
        "short name": ("simple name",),
    },
    required=("name", "metric", "percent|value"),
    others=("interpolation status", "anchor name"),
)

#: A row is a reading of a counter.
COUNTERS = Columns(
    {"name": ("counter name",), "start": ("timestamp",), "value": ("value",), "host": ("hostname",)},
    required=("name", "start", "value"),
)


def columns_of(headings: Sequence[Heading], below: object = None) -> dict[str, int] | None:
    """Returns the columns of either file."""
    return PERFORMANCE.match(headings) or COUNTERS.match(headings)


_GPU = re.compile(r"(?:(?:GPU|XPU|cuda)[ :_]?)?(\d{1,6})(?: \(virtual\))?", re.IGNORECASE)
_COPY = re.compile(r"gpu_memcpy_([hd])2([hd])", re.IGNORECASE)
_KERNEL = re.compile(r"kernel|gpu", re.IGNORECASE)
_TOO_LATE = 1 << 62

#: Endings of metrics that are shares. For other metrics `mu_pct` is 100 times the counter's value, in its unit
#: (core/metrics_analysis.py divides only shares by 100, core/reporting.py multiplies all).
_SHARES = ("_usage", "_util", "_occupancy", "(%)")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields functions of cycles as summaries that end with their cycle, and counter readings as events."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
    cycle = _Cycle(rows, conversion.report)
    for item in read_tables(lines, columns_of):
        if isinstance(item, Table):
            for heading in PERFORMANCE.unknown(item.headings, item.fields or {}):
                conversion.report.issue("unknown-column", f"line {item.line}", heading)
        elif isinstance(item, Row):
            is_performance = "metric" in (item.table.fields or {})
            problem = cycle.take(item) if is_performance else _counter(item, rows, conversion.report)
            lines.skip(*problem) if problem else lines.used()
        yield from rows.ready()
    yield from rows.rest()


class _Cycle:
    """The functions of the cycle being read: each has one row of its own, and one for each metric."""

    def __init__(self, rows: RowBuilder, report: Report) -> None:
        self._rows = rows
        self._report = report
        self._cycle = ""
        self._functions: dict[tuple[str, ...], int] = {}

    def take(self, row: Row) -> tuple[str, str] | None:
        """Adds the rows of a line; returns the issue's kind and detail if it can't."""
        name, metric = row.text("name"), row.text("metric")
        figures = row.figures(unit="%" if is_missing(metric) or metric.endswith(_SHARES) else "")
        if not name or not (figures or row.text("duration")):
            return "bad-record", "no figure" if name else "no name"
        if row.text("cycle") != self._cycle:
            self._cycle = row.text("cycle")
            self._functions.clear()
        columns: dict[str, Any] = {"table": row.table.ordinal, "host": row.text("host"), "cat": row.text("type")}
        columns = {column: value for column, value in columns.items() if value != ""}
        if self._cycle:
            columns["scope"] = [f"cycle {self._cycle}"]
        args: dict[str, Any] = {}
        on_gpu = _place(row, columns, args)
        kind, columns["copy_kind"] = _kind(name, row.text("type"), on_gpu)
        columns |= _end(row, args, self._report)
        if abs(columns.get("ts", 0)) >= _TOO_LATE:
            return "time-range", row.text("start")
        measured = {
            field: figures.columns.pop(field) for field in ("value", "stddev", "unit") if field in figures.columns
        }
        key = tuple(row.text(field) for field in ("name", "device", "pid", "host", "duration", "percent", "count"))
        if key not in self._functions:
            bare = is_missing(metric) and not measured
            own_args = args | figures.args if bare else args
            self._functions[key] = self._function(row, kind, name, columns | figures.columns, own_args)
            if bare:  # a function without counter readings has one line, with N/A for the metric
                return None
        metric = "share" if is_missing(metric) else metric
        columns |= {"parent": self._functions[key], "args": figures.args}
        self._rows.summary(kind, name, metric=metric, **columns, **measured)
        return None

    def _function(self, row: Row, kind: str, name: str, columns: dict[str, Any], args: dict[str, Any]) -> int:
        """Adds the row of the function itself: its time in the cycle, its share, its instances. Returns its id."""
        duration = _time(row, "duration")
        if duration is not None:
            columns["total"] = float(duration)
        if anchor := row.text("anchor"):
            args["anchor_dur_us"] = plain(anchor)
        return self._rows.summary(
            kind, name, unit="ns", short_name=row.text("short name") or None, args=args, **columns
        )


def _kind(name: str, func_type: str, on_gpu: bool) -> tuple[str, str | None]:
    """Returns the kind of a function and a copy's direction. Memsets have the type of copies, too."""
    if name.startswith("Memset"):
        return "memset", None
    if copy := _COPY.fullmatch(func_type):
        return "memcpy", f"{copy.group(1).upper()}to{copy.group(2).upper()}"
    return ("kernel" if on_gpu or _KERNEL.search(func_type) else "range"), None


def _counter(row: Row, rows: RowBuilder, report: Report) -> tuple[str, str] | None:
    """Adds a counter reading; returns the issue's kind and detail if it can't."""
    figures, name = row.figures(), row.text("name")
    if not name or "value" not in figures.columns:
        return "bad-record", "no value" if name else "no name"
    args = figures.args
    start = _start(row, args, report)
    if "ts" not in start:
        return "bad-record", f"no time: '{row.text('start')}'"
    if abs(start["ts"]) >= _TOO_LATE:
        return "time-range", row.text("start")
    columns = figures.columns | start | {"host": row.text("host") or None}
    rows.event("counter", name, track=name, args=args, **columns)
    return None


def _time(row: Row, field: str) -> Decimal | None:
    """Returns a duration in ns; it is read as microseconds unless the cell or heading has another unit."""
    quantity = cell_quantity(row.text(field))
    if not quantity or not quantity.number.is_finite() or abs(quantity.number) >= _TOO_LATE:
        return None
    heading = row.table.headings[(row.table.fields or {})[field]]
    return nanoseconds(quantity.number, quantity.unit or heading.unit or "us")


def _end(row: Row, args: dict[str, Any], report: Report) -> dict[str, int]:
    """Returns the end of the cycle as `ts`: its start plus the duration of its anchor."""
    start = _start(row, args, report)
    anchor = _time(row, "anchor")
    return {"ts": start["ts"] + round(anchor)} if start and anchor is not None else start


def _start(row: Row, args: dict[str, Any], report: Report) -> dict[str, int]:
    """Returns the time of a row as `ts`: epoch microseconds, exactly; if not whole ns, args keep the text."""
    text = row.text("start")
    quantity = cell_quantity(text)
    if not quantity or quantity.unit or not quantity.number.is_finite():
        if not is_missing(text):
            args["$ts"] = text
        return {}
    if abs(quantity.number) >= _TOO_LATE:
        return {"ts": _TOO_LATE}
    ts, exact = to_ns(quantity.number, "us")
    if not exact:
        args["$ts"] = text
        report.issue("rounded", f"line {row.line}", text)
    return {"ts": ts}


def _place(row: Row, columns: dict[str, Any], args: dict[str, Any]) -> bool:
    """Sets `pid` and `device`, or keeps their text in args if it isn't a number; returns whether it is a GPU."""
    for field, pattern in (("pid", re.compile(r"(-?\d{1,18})")), ("device", _GPU)):
        text = row.text(field)
        if match := pattern.fullmatch(text):
            columns[field] = int(match.group(1))
            if text.endswith("(virtual)"):
                args[field] = text
        elif not is_missing(text):
            args[field] = plain(text)
    return "device" in columns


FORMAT = Format(
    "latencyprism-csv",
    "LatencyPrism performance and counter CSV",
    patterns=("*_data.csv",),
    probe=probe,
    read=read,
    words=("counter_name", "function_name"),
    prose=True,
)
