"""Reads the CSV of benchmark_app: a table for each infer request, or one with averages, or one sorted by time.

layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)          Python; C++ ends each line with a semicolon
layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms); %;      C++, sorted
layerName,execStatus,layerType,execType,realTime (ms),cpuTime (ms),"proportion (%)        Python, sorted
"
Names aren't quoted where semicolons separate, so that lines are split from the right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.lines import Lines, quoted_cells
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .layers import STATUSES, Layer, Layers, ns, number, percent_of, status_of

_FIRST = "layerName"
_TOTAL_LINE = re.compile(r"\"?(?P<name>Total(?: CPU)? time): (?P<value>\S+) milliseconds\"?,*\s*")


def read_csv(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each layer, and the totals."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "OpenVINO benchmark_app"})
    tables = _Tables(lines, rows)
    for line in lines:
        tables.read(line.text)
        yield from rows.ready()
    tables.end(conversion)
    yield from rows.rest()


class _Tables:
    def __init__(self, lines: Lines, rows: RowBuilder) -> None:
        self._lines = lines
        self._rows = rows
        self._layers = Layers(rows)
        self._headings: list[str] = []
        self._separator = ";"
        self._table = -1
        self._closed = True  # whether the table has its totals

    def read(self, text: str) -> None:
        """Accounts for a line and adds its row."""
        if text.startswith(_FIRST):
            self._begin(text)
        elif not text.strip() or (text.strip() == '"' and self._separator == ","):
            self._lines.structure()
        elif found := _TOTAL_LINE.fullmatch(text):
            self._stated(found["name"], ns(found["value"]))
        elif self._headings:
            self._row(text)

    def end(self, conversion: Conversion) -> None:
        """Reports a table without its totals."""
        if not self._closed:
            conversion.report.issue("cut", "the end", "the table has no totals", 0)

    def _begin(self, text: str) -> None:
        self._separator = text[len(_FIRST) : len(_FIRST) + 1]
        if self._separator not in (";", ","):
            return
        self._headings = [part.strip().strip('"') for part in text.split(self._separator)]
        self._table += 1
        self._closed = False
        self._lines.structure()

    def _stated(self, name: str, value: float | None) -> None:
        if value is None:
            self._lines.skip("bad-record", "the total isn't a number")
            return
        self._closed = True
        table = max(self._table, 0)
        if name == "Total time":
            self._layers.total(name, value, table=table)
        else:
            self._rows.summary("metric", name, unit="ns", value=value, table=table)
        self._lines.used()

    def _row(self, text: str) -> None:
        cells = self._cells(text)
        if cells is None:
            cut = self._lines.peek() is None
            self._lines.skip("cut" if cut else "bad-record", "" if cut else f"not {len(self._headings)} cells")
            return
        row = dict(zip(self._headings, cells, strict=True))
        name, status = row.get("layerName", ""), status_of(row.get("execStatus", ""))
        real = ns(row.get("realTime (ms)", ""))
        if real is None or not name or (status not in STATUSES and not (name == "Total" and not status)):
            cut = self._lines.peek() is None
            self._lines.skip("cut" if cut else "bad-record", "" if cut else "no name, no status or no time")
            return
        args = {"cpuTime (ms)": number(row["cpuTime (ms)"])} if row.get("cpuTime (ms)") else {}
        if not status:
            self._closed = True
            self._layers.total(name, real, table=self._table, args=args)
        else:
            share = next((value for key, value in row.items() if key.endswith("%") or key.startswith("proportion")), "")
            layer = Layer(name, status, row.get("layerType", ""), row.get("execType", ""), real, args)
            layer.percent = percent_of(share)
            self._layers.add(layer, table=self._table)
        self._lines.used()

    def _cells(self, text: str) -> list[str] | None:
        """The cells of a row; None if there are too few or, where names are quoted, too many."""
        semicolons = self._separator == ";"
        cells = text.rsplit(";", len(self._headings) - 1) if semicolons else quoted_cells(text)
        return cells if len(cells) == len(self._headings) else None
