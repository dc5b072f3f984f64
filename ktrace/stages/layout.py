"""The stage `layout`: turns summaries into synthetic slices, so that a timeline can show a table.

    | kernel | total |            run q4f16, track "Statistics"
    | gemm   | 30 ms |    ──►     [ gemm               ][ norm   ]
    | norm   | 10 ms |            0                    30       40 ms

The duration of a slice is its total, and slices have the order of the source. A table with a time ends
there; tables without one follow one another on their track; rows with a parent nest in it. Each run is a process,
each section a track. All figures of a row are arguments of its slice. Launches with a stream stay on it
(`ktrace/stages/launch_tables.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from ktrace.model.batch import Batch
from ktrace.model.json_text import dump_json, load_object
from ktrace.model.row_builder import to_batch, to_rows
from ktrace.model.schema import columns_in
from ktrace.naming.alike import FreeNames
from ktrace.report import Ledger, Report
from ktrace.stages.launch_tables import Launches, is_sampled

Row = dict[str, Any]

DESCRIPTION = (
    "Slices with timing=synthetic have no time in the source: ktrace laid out the rows of its tables "
    "side by side, as wide as their total and in their order."
)

#: What follows the name of a track with such slices.
TOTALS = " (totals)"

#: The scope of a table without a title: a heading and the line where it begins.
_LINE = re.compile(r"^.+ \(line ([0-9]+)\)$")

#: Figures of a summary in the order in which an argument list shows them.
FIGURES = ("value", "count", "total", "avg", "median", "min", "max", "stddev", "p95", "p99")

#: Times from here on are out of range (docs/model.md): such widths have figures that can't be right.
LIMIT = 1 << 62

#: How many rows a batch has.
BATCH_ROWS = 16_384

#: The whole of shares for which the source doesn't record one: 100 ms, so that 1 % is 1 ms.
NOMINAL_WHOLE = 100_000_000

#: Kinds of summaries that are texts or single numbers, and not drawn as slices.
REMARKS = ("metric", "note")

#: Kinds of summaries whose scope is a stack, and not the section of a table: all of them are on one track.
STACKED = ("sample", "alloc")

#: Columns that a slice copies from its row.
_KEPT = (*columns_in("origin"), "host", "pid", "tid", "cat", *columns_in("label", "grid", "launch", "transfer"))


def layout(batches: Iterable[Batch], report: Report) -> Iterator[Batch]:
    """Yields events, links and facts unchanged, and summaries as events with timing `synthetic`.

    Keeps one table of the source in memory at a time. Opens the ledger "layout" of the report.
    """
    plan = _Plan(report, report.stage("layout"))
    for batch in batches:
        if batch.record == "summaries":
            yield from plan.feed(batch)
        elif batch.record == "events" and is_sampled(batch):
            yield from plan.place_samples(batch)
        else:
            if batch.record != "catalog":
                plan.ledger.taken += len(batch)
                plan.ledger.given += len(batch)
            if batch.record == "events":
                plan.saw_events(batch)
            yield batch
    yield from plan.finish()


class _Slice(msgspec.Struct):
    """A row that is drawn, with the rows that become its arguments and the slices in it."""

    head: Row
    measures: list[Row] = msgspec.field(default_factory=list)
    children: list[_Slice] = msgspec.field(default_factory=list)
    width: int = 0

    @property
    def extent(self) -> int:
        """The time that the slice takes; 1 ns for a point, so that no two are at the same time."""
        return self.width or 1


class _Plan:
    """The place of the next table, and the table that is being collected."""

    def __init__(self, report: Report, ledger: Ledger) -> None:
        self.report = report
        self.ledger = ledger
        self._events: list[Row] = []
        self._facts: list[Row] = []
        self._table: list[Row] = []
        self._table_key: tuple[Any, ...] | None = None
        self._cursor: dict[tuple[Any, ...], int] = {}  # (process, track) -> where its last table ended
        self._orders: dict[tuple[Any, ...], int] = {}  # (process, track) -> its position among the tracks
        self._first: dict[str, int] = {}  # source -> its earliest time so far
        self._whole: dict[tuple[Any, ...], int] = {}  # (source, run) -> the ns that are 100 %
        self._described: set[str] = set()
        self._launches: dict[str, Launches] = {}

    def saw_events(self, batch: Batch) -> None:
        """Remembers when the source begins, for tables without a time."""
        import pyarrow.compute as pc

        start = pc.min(batch.column("ts")).as_py()
        if start is not None:
            source = batch.column("source")[0].as_py()
            self._first[source] = min(start, self._first.get(source, start))

    def place_samples(self, batch: Batch) -> Iterator[Batch]:
        """Yields samples that count from their launch, at the time of this launch."""
        self.ledger.taken += len(batch)
        launches = self._launches.get(batch.column("source")[0].as_py())
        if launches is None:
            self.ledger.removed["launch left out"] += len(batch)
        else:
            yield from launches.samples(batch)

    def feed(self, batch: Batch) -> Iterator[Batch]:
        """Collects rows; yields the slices of each complete table, and launches."""
        source = batch.column("source")[0].as_py()
        if source not in self._launches:
            self._launches[source] = Launches(self.ledger, self._first.get(source, 0))
        others, events = self._launches[source].feed(batch)
        yield from self._of_launches(source, events)
        for row in to_rows(others) if others is not None else ():
            key = (row["source"], row.get("table"))
            if key != self._table_key and self._table:
                yield from self._lay_out()
            self._table_key = key
            self._table.append(row)

    def finish(self) -> Iterator[Batch]:
        """Yields the last table and the last launches."""
        for source, launches in self._launches.items():
            yield from self._of_launches(source, launches.finish())
        if self._table:
            yield from self._lay_out()
        yield from self._given()

    def _of_launches(self, source: str, events: list[Batch]) -> Iterator[Batch]:
        if events:
            self._describe(source)
        yield from events

    def _describe(self, source: str) -> None:
        """Adds a fact about a source, once: its times are made by ktrace."""
        if source not in self._described:
            self._described.add(source)
            facts = dump_json({"description": DESCRIPTION})
            self._facts.append({"entity": "source", "id": 0, "source": source, "facts": facts})

    def _lay_out(self) -> Iterator[Batch]:
        rows, self._table = self._table, []
        self.ledger.taken += len(rows)
        before = len(self._events)
        rows.sort(key=lambda row: row["id"])
        for row in rows:
            if row["kind"] == "total" and row["metric"] == "duration" and row.get("unit") == "ns":
                whole = row.get("total", row.get("value", row.get("avg")))
                if whole:
                    self._whole[row["source"], row.get("run")] = _ns(whole)
        devices = {row.get("device") for row in rows if "parent" not in row and row["kind"] not in REMARKS}
        by_device = len(devices) > 1
        for block in _blocks(rows, by_device=by_device):
            self._block(block, by_device=by_device)
        drawn = len(self._events) - before
        self.ledger.given += drawn
        if len(rows) > drawn:
            self.ledger.removed["argument of a slice"] += len(rows) - drawn
        self._describe(rows[0]["source"])
        if len(self._events) >= BATCH_ROWS:
            yield from self._given()

    def _given(self) -> Iterator[Batch]:
        """Yields what was laid out so far."""
        for record, rows in (("catalog", self._facts), ("events", self._events)):
            if rows:
                yield to_batch(record, rows)
                rows.clear()

    def _block(self, rows: list[Row], *, by_device: bool) -> None:
        """Lays out the rows of one table, one run and one time."""
        first = rows[0]
        heads = {row["id"] for row in rows if row["kind"] not in REMARKS}
        remarks = [row for row in rows if row["kind"] in REMARKS and row.get("parent") not in heads]
        drawn = [row for row in rows if row["kind"] not in REMARKS or row.get("parent") in heads]
        slices = _trees(drawn)
        for piece in slices:
            self._measure(piece)
        device = first.get("device") if by_device else None
        track = " › ".join(_section(first))
        place = (*(first.get(name) for name in ("source", "host", "pid", "tid", "run")), track, device)
        if place not in self._orders:
            self._orders[place] = len(self._orders)
            self._facts.append(_track_fact(first, track, device, totals=bool(slices)) | {"order": self._orders[place]})
        span = sum(piece.extent for piece in slices)
        if "ts" in first:
            start = first["ts"] - span
        else:
            start = self._cursor.get(place, self._first.get(first["source"], 0))
            self._cursor[place] = start + span
        common = {"track": track, "timing": "synthetic", "run": first.get("run"), "device": device}
        if remarks:
            ts = start + span if "ts" in first else start
            self._events.append(_remark(remarks, max(-LIMIT, min(ts, LIMIT))) | common)
        for piece in slices:
            _emit(piece, start, common, self._events)
            start += piece.extent

    def _measure(self, root: _Slice) -> None:
        """Sets the widths: the figure of a slice, but at least the sum of the slices in it.

        The figure of a sample is what its stack has without those in it.
        """
        pieces = [root]
        for piece in pieces:  # which grows: parents before their children
            pieces += piece.children
        for piece in reversed(pieces):
            inside = sum(child.extent for child in piece.children)
            if piece.head["kind"] == "sample":
                rows = (row for row in (piece.head, *piece.measures) if row.get("unit") == "ns" and "total" in row)
                piece.width = inside + max(self._width(piece.head), next((_ns(row["total"]) for row in rows), 0))
            else:
                piece.width = max(self._width(piece.head), inside)

    def _width(self, row: Row) -> int:
        if row["metric"] == "duration" and row.get("unit") == "ns":
            if "total" in row:
                return _ns(row["total"])
            if "count" in row and "avg" in row:
                return _ns(row["count"] * row["avg"])
            if "value" in row:
                return _ns(row["value"])
        if "percent" in row:
            whole = self._whole.get((row["source"], row.get("run")))
            if whole is None:
                whole = NOMINAL_WHOLE
                self.report.issue("no-whole", f"row {row['id']}", rows=1, stage=self.ledger)
            return _ns(row["percent"] * whole / 100)
        return 0


def _blocks(rows: list[Row], *, by_device: bool) -> list[list[Row]]:
    """The rows that are laid out together: those of one place and time, children with their parent."""
    columns = ("host", "pid", "tid", "run", "ts", "clock", *(("device",) if by_device else ()))
    keys: dict[int, tuple[Any, ...]] = {}
    blocks: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        of_row = (*(row.get(name) for name in columns), *_section(row))
        key = keys[row["id"]] = keys.get(row.get("parent", -1), of_row)
        blocks.setdefault(key, []).append(row)
    return list(blocks.values())


def _trees(rows: list[Row]) -> list[_Slice]:
    """The slices of a table in the order of their ids, nested in their parents.

    Several measures of the same work are one slice: a row that repeats name and device of an earlier one
    with another metric, and a child whose metric is neither a duration nor that of its parent.
    """
    roots: list[_Slice] = []
    by_id: dict[int, _Slice] = {}
    by_thing: dict[tuple[Any, ...], _Slice] = {}
    for row in rows:
        parent = by_id.get(row.get("parent", -1))
        if parent and row["metric"] not in ("duration", parent.head["metric"]):
            parent.measures.append(row)
            continue
        stack = tuple(row.get("scope") or ()) if row["kind"] in STACKED else ()
        identity = (row["name"], row["kind"], row.get("device"), row.get("parent"), stack)
        same = by_thing.get(identity)
        if same and row["metric"] != "duration" and row["metric"] not in _metrics(same):
            same.measures.append(row)
            continue
        piece = by_id[row["id"]] = by_thing[identity] = _Slice(row)
        (parent.children if parent else roots).append(piece)
    return roots


def _metrics(piece: _Slice) -> set[str]:
    return {piece.head["metric"], *(row["metric"] for row in piece.measures)}


def _emit(root: _Slice, start: int, common: Row, events: list[Row]) -> None:
    """Appends the slice and the slices in it."""
    waiting = [(root, start)]
    while waiting:
        piece, start = waiting.pop()
        events.append(_event(piece, start, common))
        starts = accumulate((child.extent for child in piece.children), initial=start)
        waiting += reversed(list(zip(piece.children, starts, strict=False)))


def _event(piece: _Slice, start: int, common: Row) -> Row:
    head = piece.head
    event = {name: head[name] for name in _KEPT if name in head} | common
    if common["device"] is None and "device" in head:
        event["args"] = dump_json({"device": head["device"]} | _arguments(piece))
    else:
        event["args"] = dump_json(_arguments(piece))
    ts = max(-LIMIT, min(start, LIMIT))  # `order` reports those at the limit
    drawn = {"kind": _event_kind(head["kind"], piece.width), "name": head["name"], "ts": ts}
    if piece.width:
        drawn["dur"] = min(piece.width, LIMIT)
    return {name: value for name, value in (event | drawn).items() if value is not None}


def _event_kind(kind: str, width: int) -> str:
    """The kind of an event: a total is a range around others, a row without a width is a point."""
    if not width:
        return "instant"
    return "range" if kind == "total" else kind


def _arguments(piece: _Slice) -> Row:
    """All figures of the slice, and the arguments of the source."""
    arguments: Row = {}
    names = FreeNames(arguments.__contains__, " #")
    for row in (piece.head, *piece.measures):
        figures = {name: _plain(row[name]) for name in FIGURES if name in row}
        extra = load_object(row.get("args"))
        if row["kind"] == "note":
            extra = {"text": row["name"]} | extra
        if row is piece.head and row["metric"] == "duration":
            suffix = "_ns" if row.get("unit") == "ns" else ""
            arguments |= {name if name == "count" else name + suffix: value for name, value in figures.items()}
            arguments |= {f"args.{key}" if key in arguments else key: value for key, value in extra.items()}
        else:
            measure = figures | extra
            name = names.free(f"{row['metric']} ({row['unit']})" if row.get("unit") else str(row["metric"]))
            arguments[name] = measure["value"] if list(measure) == ["value"] else measure
        if "percent" in row:
            arguments.setdefault("percent", row["percent"])
    if len(piece.head.get("scope", ())) > 1:
        arguments["scope"] = piece.head["scope"]
    if "baseline" in piece.head:
        arguments["baseline"] = piece.head["baseline"]
    return arguments


def _ns(figure: float) -> int:
    """A width in whole ns; 0 for NaN, infinities and negative figures."""
    return round(figure) if math.isfinite(figure) and figure > 0 else 0


def _plain(figure: float) -> float | int:
    """A whole number without its '.0'."""
    return int(figure) if math.isfinite(figure) and figure == int(figure) else figure


def _remark(rows: list[Row], ts: int) -> Row:
    """A point with all metrics, or notes, of a section."""
    first = rows[0]
    arguments: Row = {}
    names = FreeNames(arguments.__contains__, " #")
    for number, row in enumerate(rows, 1):
        figures = {name: _plain(row[name]) for name in FIGURES if name in row}
        if not figures:
            arguments[str(number)] = row["name"]
            continue
        name = f"{row['name']} ({row['unit']})" if row.get("unit") else row["name"]
        arguments[names.free(name)] = next(iter(figures.values())) if len(figures) == 1 else figures
    keep = {name: first[name] for name in ("source", "id", "host", "pid", "tid", "clock") if name in first}
    name = _section(first)[-1]
    return keep | {"kind": "instant", "name": name, "ts": ts, "args": dump_json(arguments)}


def _section(row: Row) -> Sequence[str]:
    """The section of the table that a row is in: a scope, or a name by the kind of rows without a heading."""
    untitled = {"metric": "metrics", "note": "notes", "sample": "samples", "alloc": "memory"}.get(row["kind"], "rows")
    return (row["kind"] not in STACKED and row.get("scope")) or (untitled,)


def _said_once(title: str) -> str:
    """The title without brackets that say the same again: `Prefill (prefill)`."""
    half = title[: (len(title) - 3) // 2]
    return half if half and title.lower() == f"{half} ({half})".lower() else title


def _track_fact(row: Row, track: str, device: int | None, *, totals: bool) -> Row:
    """A fact about a track: it is named by the last part of its scope, and its times are made by ktrace."""
    title = _said_once(_LINE.sub(r"table at line \1", _section(row)[-1]))
    name = title + (TOTALS if totals else "")
    key = {column: row[column] for column in ("source", "host", "pid", "tid") if column in row}
    facts = dump_json({"description": DESCRIPTION})
    fact = key | {"entity": "track", "id": row["id"], "track": track, "name": name, "facts": facts}
    return fact if device is None else fact | {"device": device}
