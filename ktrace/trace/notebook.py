"""What a notebook shows of a trace: names from the catalog with the events, and how busy each stream is over time.

    device 0 stream 7    ▅█▆▁  ▇▇█▅▂        a bar is as high as the share of its time that is busy
    device 0 stream 20      ▂▂▆█            colours are operations

Time is cut into `BINS` pieces, so that the drawing stays small, however many events there are. Without device work it
shows the threads of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from ktrace.analysis.work.groups import OTHER, Group
from ktrace.model.arrays import Bools, Float64, Int64
from ktrace.model.batch import DEVICE_KINDS, HOST_KINDS
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded
from ktrace.naming.taxonomy import taxonomy
from ktrace.page.blocks import Legend, tag
from ktrace.page.charts import operation_colours
from ktrace.page.drawing import WIDTH, Drawing, Picture, legend
from ktrace.report import counted
from ktrace.store.joins import coded, combined, distinct
from ktrace.tables import duration, shortened
from ktrace.trace.arrow_tables import device_time_of, span_of

if TYPE_CHECKING:
    import pandas as pd

#: Pieces of time, tracks that are drawn, steps of height.
BINS, TRACKS, _STEPS = 240, 8, 16

#: Sizes in pixels: the space of names, a track, the space between tracks, the axis.
_NAME, _TRACK, _GAP, _AXIS = 170, 18, 5, 22

#: The columns that are a track of the device, and of the host.
_DEVICE, _HOST = ("source", "host", "device", "stream"), ("source", "host", "pid", "tid")

_COLUMNS = ("ts", "dur", "kind", "name", "operation")


def timeline(events: pa.Table) -> list[Picture]:
    """The timeline of events and its legend; nothing without slices."""
    kinds = decoded(events["kind"])
    for kinds_shown, place, what in ((DEVICE_KINDS, _DEVICE, "stream"), ((*HOST_KINDS, "range"), _HOST, "thread")):
        is_shown = pc.and_(pc.is_in(kinds, pa.array(kinds_shown)), pc.greater(pc.fill_null(events["dur"], -1), -1))
        rows = events.select([*place, *_COLUMNS]).filter(is_shown).combine_chunks()
        if rows.num_rows:
            return _timeline(rows, place, what)
    return []


def _timeline(rows: pa.Table, place: Sequence[str], what: str) -> list[Picture]:
    begin, dur = (rows[name].to_numpy().astype(np.int64) for name in ("ts", "dur"))
    start, end = int(begin.min()), int((begin + dur).max())
    track, names = _tracks(rows, place, what)
    time = np.bincount(track, dur, len(names))
    shown = np.sort(np.argsort(-time, kind="stable")[:TRACKS])
    operation, words = _operations(rows)
    totals = np.bincount(operation, dur, len(words))
    groups = [Group(words[number], float(totals[number])) for number in np.argsort(-totals, kind="stable").tolist()]
    colours = operation_colours(groups)
    classes = [colours.get(word, "other") for word in words]
    each = np.unique(classes).tolist()
    colour = np.array([each.index(name) for name in classes])[operation]
    drawn: list[Markup] = []
    scale = BINS / max(end - start, 1)
    for line, number in enumerate(shown.tolist()):
        of_track = track == number
        busy = _busy(
            (begin[of_track] - start) * scale,
            (begin[of_track] + dur[of_track] - start) * scale,
            colour[of_track],
            len(each),
        )
        share = time[number] / max(end - start, 1)
        times = f"{counted(int(of_track.sum()), 'time')}, {duration(time[number])}"
        title = f"{names[number]}: {times}, {min(share, 1):.1%} of the span"
        drawn.append(_track(line * (_TRACK + _GAP), names[number], title, busy, each))
    height = len(shown) * (_TRACK + _GAP)
    drawn.append(_axis(height, end - start))
    if more := len(names) - len(shown):
        drawn.append(tag("text", f"{more:,} more", x=0, y=height + 14, class_="soft"))
    entries = [(word, class_) for word, class_ in colours.items()]
    entries += [("other", "other")] if "other" in classes else []
    return [Picture(Markup("").join(drawn), height + _AXIS), Picture(*legend(Legend(entries)))]


def _tracks(rows: pa.Table, place: Sequence[str], what: str) -> tuple[Int64, list[str]]:
    """The number of the track of each row, and the names of the tracks; what all have in common isn't named."""
    columns = [coded(rows[name].combine_chunks()) for name in place]
    first, number = distinct(*combined(((codes_of, len(words)) for codes_of, words in columns), rows.num_rows))
    values = [words.take(pa.array(codes_of[first])).to_pylist() for codes_of, words in columns]
    order = sorted(range(len(first)), key=lambda one: [(column[one] is None, column[one]) for column in values])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    parts = []
    for name, column in zip(place, values, strict=True):
        head = "" if name in ("source", "host") else f"{what if name in ('stream', 'tid') else name} "
        several = len({*column}) > 1 or name == place[-1]
        words = ["" if value is None else shortened(str(value), 14) for value in column]
        parts.append([f"{head}{word}" if several and word else "" for word in words])
    names = [" ".join(word for word in words if word) or what for words in zip(*parts, strict=True)]
    return rank[number], [names[one] for one in order]


def _operations(rows: pa.Table) -> tuple[Int64, list[str]]:
    """The number of the operation of each row, and the operations; of the host the kinds of events."""
    columns = [coded(rows[name].combine_chunks()) for name in ("kind", "name", "operation")]
    first, number = distinct(*combined(((operations, len(words)) for operations, words in columns), rows.num_rows))
    kinds, names, operations = (words.take(pa.array(codes[first])).to_pylist() for codes, words in columns)
    rules = taxonomy(None)
    words: dict[str, int] = {}
    numbers = [
        words.setdefault(
            word or (rules.labels(name, kind, None).operation if kind in DEVICE_KINDS else kind) or OTHER, len(words)
        )
        for kind, name, word in zip(kinds, names, operations, strict=True)
    ]
    return np.array(numbers, np.int64)[number], list(words)


def _busy(begin: Float64, end: Float64, colour: Int64, colours: int) -> Float64:
    """The busy time of each colour in each bin, in bins; begins and ends are in bins, too."""
    first = np.minimum(begin.astype(np.int64), BINS - 1)
    last = np.minimum(end.astype(np.int64), BINS - 1)
    busy = np.zeros((colours, BINS + 1))
    np.add.at(busy, (colour, first), np.minimum(end, first + 1) - begin)
    longer: Bools = last > first
    np.add.at(busy, (colour[longer], last[longer]), (end - last)[longer])
    between = np.zeros((colours, BINS + 1))
    np.add.at(between, (colour[longer], first[longer] + 1), 1.0)
    np.add.at(between, (colour[longer], last[longer]), -1.0)
    busy_time: Float64 = (busy + np.cumsum(between, axis=1))[:, :BINS]
    return busy_time


def _track(y: int, name: str, title: str, busy: Float64, classes: list[str]) -> Markup:
    """A track: its name, and a path for each colour that is the main one of a bin."""
    height = np.ceil(np.minimum(busy.sum(axis=0), 1) * _STEPS - 1e-6).astype(np.int64)
    main = np.where(height > 0, busy.argmax(axis=0), -1)
    width = (WIDTH - _NAME) / BINS
    paths: dict[str, list[str]] = {}
    for (kind, steps), bins in groupby(range(BINS), key=lambda bin: (int(main[bin]), int(height[bin]))):
        filled = list(bins)
        if kind >= 0:
            tall, wide = _TRACK * steps / _STEPS, len(filled) * width
            place = f"M{_NAME + filled[0] * width:.1f} {y + _TRACK - tall:.1f}h{wide:.1f}v{tall:.1f}h{-wide:.1f}z"
            paths.setdefault(classes[kind], []).append(place)
    label = tag("svg", tag("text", shortened(name, 25), x=0, y=14), y=y, width=_NAME - 10, height=_TRACK)
    ground = tag("rect", x=_NAME, y=y, width=WIDTH - _NAME, height=_TRACK, class_="idle", opacity="0.5")
    drawn = [tag("path", d="".join(parts), class_=kind) for kind, parts in paths.items()]
    return tag("g", tag("title", title), label, ground, *drawn)


def _axis(y: float, span: int) -> Markup:
    """Times at the start, the middle and the end."""
    places = ((0.0, "start", "0"), (0.5, "middle", duration(span / 2)), (1.0, "end", duration(span)))
    width = WIDTH - _NAME
    return Markup("").join(
        tag("text", words, x=f"{_NAME + at * width:.0f}", y=y + 12, class_="tick", text_anchor=anchor)
        for at, anchor, words in places
    )


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


def trace_html(name: str, tables: dict[str, pa.Table]) -> str:
    """Returns what a notebook shows: the number of rows of each record, the span, the device time, a small timeline."""
    cells = "".join(
        f"<tr><td>{record}</td><td style='text-align:right'>{table.num_rows:,}</td></tr>"
        for record, table in tables.items()
    )
    span, device_time = span_of(tables["events"]), device_time_of(tables["events"])
    facts = [f"{(span[1] - span[0]) / 1e6:,.3f} ms"] if span else []
    if device_time:
        facts.append(f"device time {device_time / 1e6:,.3f} ms")
    pictures = timeline(tables["events"])
    drawing = Drawing(pictures, f"timeline of {name}")._repr_html_() if pictures else ""
    return f"<b>{escape(name)}</b><br>{', '.join(facts)}<table>{cells}</table>{drawing}"
