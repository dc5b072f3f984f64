"""Adds names from the catalog to the events of a trace, and shows a trace as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from ktrace.model.catalog import Catalog
from ktrace.page.drawing import Drawing

if TYPE_CHECKING:
    import pandas as pd

    from ktrace.trace.trace import Trace

#: Added column -> the entity that names it and the columns of an event that identify it.
_JOINED = {
    "process_name": ("process", ("source", "host", "pid")),
    "thread_name": ("thread", ("source", "host", "pid", "tid")),
    "device_name": ("device", ("source", "host", "device")),
    "stream_name": ("stream", ("source", "host", "pid", "device", "context", "stream")),
    "host_name": ("host", ("source", "host")),
}


def join_names(frame: pd.DataFrame, catalog: Catalog) -> pd.DataFrame:
    """Adds `process_name`, `thread_name`, `device_name`, `stream_name`, `host_name` and `rank` to the events."""
    import pandas as pd

    for column, (entity, key) in _JOINED.items():
        names = {tuple(entry.key.get(part) for part in key): entry.name for entry in catalog.of(entity)}
        frame[column] = pd.array(_look_up(frame, key, names), dtype="string")
    ranks = {(entry.key.get("source"),): entry.facts.get("rank") for entry in catalog.of("source")}
    frame["rank"] = pd.array(_look_up(frame, ("source",), ranks), dtype="Int64")
    return frame


def _look_up(frame: pd.DataFrame, key: tuple[str, ...], names: dict[tuple[Any, ...], Any]) -> list[Any]:
    import pandas as pd

    if not names:
        return [None] * len(frame)
    columns = [[None if value is pd.NA else value for value in frame[part]] for part in key]
    return [names.get(values) for values in zip(*columns, strict=True)]


def trace_html(trace: Trace) -> str:
    """Returns what a notebook shows: the number of rows of each record, the span, the device time, a small timeline."""
    from ktrace.trace.timeline import timeline

    tables = trace.to_arrow()
    cells = "".join(
        f"<tr><td>{record}</td><td style='text-align:right'>{table.num_rows:,}</td></tr>"
        for record, table in tables.items()
    )
    span = trace.span()
    facts = [f"{(span[1] - span[0]) / 1e6:,.3f} ms"] if span else []
    if trace.device_time():
        facts.append(f"device time {trace.device_time() / 1e6:,.3f} ms")
    pictures = timeline(tables["events"])
    drawing = Drawing(pictures, f"timeline of {trace!r}")._repr_html_() if pictures else ""
    return f"<b>{escape(repr(trace))}</b><br>{', '.join(facts)}<table>{cells}</table>{drawing}"
