"""Reads a comparison of two runs as summaries: one per run, with the comparison in `args` of the second."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.headings import as_int64, cell_quantity, heading, own_key, plain, to_base
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import is_missing
from ktrace.kit.text.tables import Row, Text, read_tables
from ktrace.kit.text.titles import Title
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import columns_of, runs_of

_GPU = re.compile(r"(?:GPU|XPU|cuda)[ :_]?(?P<number>\d{1,6})(?P<virtual> \(virtual\))?", re.IGNORECASE)
_COPY = re.compile(r"Memcpy ([HDP]to[HDP])\b.*")
_SHARES = ("_usage", "_util", "_occupancy")
_BULLET = re.compile(r"[-*+] +")
_CYCLES = "total cycles"

#: The number of a run, and the columns of its summary.
_RunColumns = tuple[int, dict[str, Any]]


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields metrics, cycles and functions of both runs; prose becomes notes."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    reading = _ComparisonReader(lines, rows)
    for item in read_tables(lines, columns_of):
        if isinstance(item, Text):
            reading.text(item)
        elif isinstance(item, Row):
            reading.row(item)
        yield from rows.ready()
    reading.end_note()
    yield from rows.rest()


@dataclass
class _ComparisonReader:
    """What later rows need: the cycles of each run, the note being read, the title."""

    lines: Lines
    rows: RowBuilder
    cycles: dict[str, int] = field(default_factory=dict)
    note: list[Text] = field(default_factory=list)
    title: Title | None = None

    def row(self, row: Row) -> None:
        """Reads a row of any table: a summary per run, with the comparison in the last one."""
        fields = row.table.fields or {}
        self._document(row.table.path)
        if "role" in fields or "cluster" in fields:
            self._exploratory(row)
            self.end_note()
            return
        read_figures = self._function if "name" in fields else self._cycle if "rank" in fields else self._overall
        summaries = list(read_figures(row))
        if summaries:
            self.lines.used()
        else:
            self.lines.skip("bad-record", "no figure for any run")
        runs = runs_of(row.table)
        for number, columns in summaries:
            if number == summaries[-1][0] and (compare := _comparison(row)):
                columns["args"] = columns.get("args", {}) | {"compare": compare}
            baseline = runs[0].name if number and summaries[0][0] == 0 else None
            scope = _scope(row.table.path) or row.table.scope
            run = runs[number]
            self.rows.summary(
                run=run.name, pid=run.pid, baseline=baseline, table=row.table.ordinal, scope=scope, **columns
            )
        self.end_note()

    def _exploratory(self, row: Row) -> None:
        """Reads a row of an exploratory report: a run and its cycles, or a cluster of runs."""
        place: dict[str, Any] = {"table": row.table.ordinal, "scope": _scope(row.table.path) or row.table.scope}
        args = _comparison(row)
        if cluster := row.text("cluster"):
            self.rows.summary("note", cluster, metric="note", args=args, **place)
            self.lines.used()
            return
        cycles, time = cell_quantity(row.text("cycles")), cell_quantity(row.text("time"))
        if not row.text("role") or not cycles or not time:
            self.lines.skip("bad-record", "no role, or a figure is missing")
            return
        heads = [row.table.headings[(row.table.fields or {})[field]] for field in ("cycles", "time")]
        unit, value = to_base(time.number, time.unit or heads[1].unit)
        pid = row.text("pid")
        place |= {"run": row.text("role"), "pid": int(pid) if re.fullmatch(r"[0-9]{1,18}", pid) else None}
        count = as_int64(cycles.number)
        self.rows.summary("metric", heads[0].text, metric=heads[0].name, unit="count", value=count, args=args, **place)
        self.rows.summary("total", heads[1].text, unit=unit, value=float(value), count=count, **place)
        self.lines.used()

    def text(self, text: Text) -> None:
        """Reads a line of a note; lines before the first title aren't part of the document."""
        if not text.path:
            return
        self._document(text.path)
        self.lines.defer()
        if self.note and not self._continues_note(text):
            self.end_note()
        self.note.append(text)

    def _continues_note(self, text: Text) -> bool:
        """Whether a line continues the note: it is the next line and, if the note is a bullet, it is indented."""
        if text.line != self.note[-1].line + 1 or _BULLET.match(text.text):
            return False
        return text.text.startswith((" ", "\t")) or not _BULLET.match(self.note[0].text)

    def end_note(self) -> None:
        """Adds the note that was being read. The current line must have its outcome already."""
        if self.note:
            words = "\n".join(text.text for text in self.note).strip()
            scope = _scope(self.note[0].path) or None
            bullet = _BULLET.match(words)
            self.rows.summary("note", words[bullet.end() :] if bullet else words, metric="note", scope=scope)
            self.lines.used(len(self.note))
            self.note.clear()

    def _document(self, path: tuple[Title, ...]) -> None:
        """Adds the title of the document as a fact of the source, once."""
        if path and path[0].level == 1 and path[0] != self.title:
            self.title = path[0]
            self.rows.fact("source", facts={"run": self.title.text})

    def _overall(self, row: Row) -> Iterator[_RunColumns]:
        """Yields a metric of each whole run; the mean time of a cycle is the total that shares refer to."""
        head = heading(row.text("metric"))
        for number, run in enumerate(runs_of(row.table)):
            found = cell_quantity(row.text(f"run {number}"))
            if not found:
                continue
            unit, value = to_base(found.number, found.unit or head.unit)
            columns: dict[str, Any] = {"name": head.text, "unit": unit or None, "value": float(value)}
            if head.name.casefold() == _CYCLES and (cycles := as_int64(value)) is not None:
                self.cycles[run.name] = cycles
                columns["unit"] = "count"
            if unit == "ns":
                columns |= {"kind": "total", "metric": "duration", "count": self.cycles.get(run.name)}
            else:
                columns |= {"kind": "metric", "metric": head.name}
            yield number, columns

    def _cycle(self, row: Row) -> Iterator[_RunColumns]:
        """Yields the cycle of a rank in each run; the first rank is the longest cycle."""
        fields = row.table.fields or {}
        rank = row.table.headings[fields["rank"]].text
        for number in range(len(runs_of(row.table))):
            found = cell_quantity(row.text(f"run {number}"))
            if found:
                unit, value = to_base(found.number, found.unit or row.table.headings[fields[f"run {number}"]].unit)
                columns = {"kind": "range", "name": "cycle", "metric": "duration", "unit": unit, "value": float(value)}
                yield number, columns | {"args": {rank: plain(row.text("rank"))}}

    def _function(self, row: Row) -> Iterator[_RunColumns]:
        """Yields a (function, metric, device) of each run: β as percent, μ as the metric's value."""
        name, metric = row.text("name"), row.text("metric")
        where = _place(row.text("device"))
        kind, copy = _kind(name, "device" in where)
        unit = "%" if metric.endswith(_SHARES) else None
        for number in range(len(runs_of(row.table))):
            share, mean = _figure(row.text(f"share {number}")), _figure(row.text(f"mean {number}"))
            if name and (share is not None or mean is not None):
                columns = {"kind": kind, "name": name, "metric": metric, "copy_kind": copy, "unit": unit}
                yield number, columns | where | {"value": mean, "percent": share}


def _scope(path: tuple[Title, ...]) -> list[str]:
    """Returns the sections, without the title of the document, which is a fact of the source."""
    return [title.text for title in path if title.level > 1]


def _comparison(row: Row) -> dict[str, Any]:
    """Returns the cells that compare the runs, under their own headings."""
    used = set((row.table.fields or {}).values())
    compare: dict[str, Any] = {}
    for column, (head, cell) in enumerate(zip(row.table.headings, row.cells, strict=True)):
        if column not in used and not is_missing(cell):
            compare[own_key(compare, head)] = plain(cell, head)
    return compare


def _figure(cell: str) -> float | None:
    found = cell_quantity(cell)
    return float(found.number) if found else None


def _place(device: str) -> dict[str, Any]:
    """Returns the `device` of a GPU; "Host", and a text with more than the number, go to `args`."""
    found = _GPU.fullmatch(device)
    if found:
        args = {"args": {"Device": device}} if found["virtual"] else {}
        return {"device": int(found["number"])} | args
    return {} if is_missing(device) else {"args": {"Device": device}}


def _kind(name: str, on_gpu: bool) -> tuple[str, str | None]:
    """Returns the kind of a function and a copy's direction: Kineto's names of copies and memsets, else a kernel."""
    if not on_gpu:
        return "range", None
    if found := _COPY.fullmatch(name):
        return "memcpy", found.group(1)
    return ("memset", None) if name.startswith("Memset") else ("kernel", None)
