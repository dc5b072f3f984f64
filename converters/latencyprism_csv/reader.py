"""Functions of cycles as summaries, readings of counters as events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.model import Batch
from ktrace.report import Report
from ktrace.rows import Rows
from ktrace.source import Source

from .._shared.columns import cell_quantity, plain
from .._shared.lines import Lines
from .._shared.numbers import is_missing, to_ns
from .._shared.tables import Row, Table, read_tables
from .columns import PERFORMANCE, fits

_GPU = re.compile(r"(?:(?:GPU|XPU|cuda)[ :_]?)?(\d{1,6})", re.IGNORECASE)
_KERNEL = re.compile(r"kernel|gpu", re.IGNORECASE)
_TOO_LATE = 1 << 62


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """A row of performance is a summary with the begin of its cycle, a row of counters an event."""
    lines, rows = Lines(source, conversion), Rows(conversion)
    rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
    for item in read_tables(lines, fits):
        if isinstance(item, Table):
            for heading in PERFORMANCE.unknown(item.headings, item.fields or {}):
                conversion.report.issue("unknown-column", f"line {item.line}", heading)
        elif isinstance(item, Row):
            take = _performance if "metric" in (item.table.fields or {}) else _counter
            problem = take(item, rows, conversion.report)
            lines.skip(*problem) if problem else lines.used()
        yield from rows.ready()
    yield from rows.rest()


def _performance(row: Row, rows: Rows, report: Report) -> tuple[str, str] | None:
    """Adds a summary; returns the kind of issue and its detail where that can't be."""
    figures, name = row.figures(unit="%"), row.text("name")
    if not name or not figures:
        return "bad-record", "no figure" if name else "no name"
    args = figures.args
    columns = figures.columns | _start(row, args, report)
    on_gpu = _place(row, columns, args)
    cycle, metric = row.text("cycle"), row.text("metric")
    rows.summary(
        "kernel" if on_gpu or _KERNEL.search(row.text("type")) else "range",
        name,
        metric=metric if not is_missing(metric) else "share",
        short_name=row.text("short name") or None,
        host=row.text("host") or None,
        cat=row.text("type") or None,
        table=row.table.ordinal,
        scope=[f"cycle {cycle}"] if cycle else None,
        args=args,
        **columns,
    )
    return None


def _counter(row: Row, rows: Rows, report: Report) -> tuple[str, str] | None:
    """Adds a reading; returns the kind of issue and its detail where that can't be."""
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


def _start(row: Row, args: dict[str, Any], report: Report) -> dict[str, int]:
    """The time of a row: epoch microseconds, exactly; what isn't whole ns is noted and kept in args."""
    text = row.text("start")
    found = cell_quantity(text)
    if not found or found.unit or not found.number.is_finite():
        if not is_missing(text):
            args["$ts"] = text
        return {}
    if abs(found.number) >= _TOO_LATE:
        return {"ts": _TOO_LATE}
    ts, exact = to_ns(found.number, "us")
    if not exact:
        args["$ts"] = text
        report.issue("rounded", f"line {row.line}", text)
    return {"ts": ts}


def _place(row: Row, columns: dict[str, Any], args: dict[str, Any]) -> bool:
    """Fills `pid` and `device`, what is no number of either goes to args; whether it is a GPU."""
    for field, pattern in (("pid", re.compile(r"(-?\d{1,18})")), ("device", _GPU)):
        text = row.text(field)
        if found := pattern.fullmatch(text):
            columns[field] = int(found.group(1))
        elif not is_missing(text):
            args[field] = plain(text)
    return "device" in columns
