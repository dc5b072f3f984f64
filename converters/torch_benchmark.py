"""What torch.utils.benchmark prints: the tables of `Compare`, and single measurements.

    [------------- softmax -------------]
                      |  B=8   |  B=16
    1 threads: --------------------------
          dense       |  12.8  |  141.9
          sparse      |  77.9  |  695.0

    Times are in microseconds (us).

    <torch.utils.benchmark.utils.common.Measurement object at 0x7f4ae0>
    softmax: dense
      Median: 12.83 us
      IQR:    0.10 us (12.78 to 12.88)
      8 measurements, 1000 runs per measurement, 1 thread

A cell is the mean of a measurement; the unit stands below the tables. Facts: torch/utils/benchmark/utils/compare.py,
common.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import nanoseconds
from ktrace.kit.text.titles import likely_lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_TITLE = re.compile(r"\[-* ?(?P<title>[^\[\]]{0,300}?) ?-*\]")
_THREADS = re.compile(r"(?P<threads>\d{1,6}) threads?: -+")
_UNIT = re.compile(r"Times are in \w+ \((?P<unit>s|ms|us|ns)\)\.")
_CELL = re.compile(r"(?P<figure>\d{1,12}(?:\.\d{1,9})?)(?: \(! ?\d{1,4}%\))?")
_OBJECT = re.compile(r"<torch\.utils\.benchmark\.utils\.common\.Measurement object at 0x\w+>")
_TIME = re.compile(r"  (?:Median: )?(?P<figure>\d{1,12}(?:\.\d{1,9})?) (?P<unit>s|ms|us|ns)")
_RUNS = re.compile(
    r"  (?P<measurements>\d{1,9}) measurements?, (?P<runs>\d{1,12}) runs? (?:per measurement)?,"
    r" ?(?P<threads>\d{1,6}) threads?.*"
)


class _Cells(NamedTuple):
    """The cells of a row of a table, before the unit is known: the lines since the first of them count."""

    name: str
    figures: list[tuple[str, Decimal]]
    place: dict[str, Any]
    number: int


def probe(sample: Sample) -> Match | None:
    """DIALECT for a table above its unit, or for a measurement."""
    for number, line in likely_lines(sample, ("times are in ", "torch.utils.benchmark")):
        if _UNIT.fullmatch(line.strip()) and any(map(_THREADS.fullmatch, sample.lines[:number])):
            return Match(Score.DIALECT, f"has a table of torch.utils.benchmark (line {number})")
        if _OBJECT.fullmatch(line.strip()):
            return Match(Score.DIALECT, f"has a measurement of torch.utils.benchmark (line {number})")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each cell of a table, and for each measurement."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "torch.utils.benchmark"})
    text = _Text(lines, rows)
    for line in lines:
        text.read(line.number, line.text)
        if lines.peek() is None:
            text.give_up()
        yield from rows.ready()
    yield from rows.rest()


class _Text:
    """The open table, the rows that wait for the unit, and the measurement that is being read."""

    def __init__(self, lines: Lines, rows: RowBuilder) -> None:
        self._lines, self._rows = lines, rows
        self._title = ""
        self._heads: list[str] | None = None
        self._threads: int | None = None
        self._table = -1
        self._waiting: list[_Cells] = []
        self._name: list[str] | None = None  # of a measurement, while its time is awaited

    def read(self, number: int, text: str) -> None:
        """Accounts for a line, and adds the rows that it completes."""
        line = text.strip()
        if not line:
            self._lines.structure()
        elif found := _UNIT.fullmatch(line):
            self._end(found["unit"])
        elif found := _TITLE.fullmatch(line):
            self._title, self._heads, self._table = found["title"], None, self._table + 1
            self._lines.structure()
        elif found := _THREADS.fullmatch(line):
            self._threads = int(found["threads"])
            self._lines.structure()
        elif self._table >= 0 and "|" in text and self._heads is None:
            self._heads = [head.strip() for head in text.split("|")[1:]]
            self._lines.structure()
        elif self._heads and "|" in text:
            self._row(number, text)
        elif _OBJECT.fullmatch(line):
            self._name = []
            self._lines.structure()
        elif self._name is not None:
            self._measurement(text)

    def _row(self, number: int, text: str) -> None:
        """Keeps the cells of a row until the unit is known."""
        name, *cells = text.split("|")
        figures = [
            (head, Decimal(found["figure"]))
            for head, cell in zip(self._heads or (), cells, strict=False)
            if (found := _CELL.fullmatch(cell.strip()))
        ]
        place = {"table": self._table, "scope": [self._title] if self._title else None}
        self._waiting.append(_Cells(name.strip(), figures, place | {"threads": self._threads}, number))
        self._lines.defer()

    def _end(self, unit: str) -> None:
        """Adds the rows of the tables above their unit."""
        for name, figures, place, _ in self._waiting:
            threads = place.pop("threads")
            for head, figure in figures:
                args = {"column": head, "threads": threads}
                ns = nanoseconds(figure, unit)
                self._rows.summary(
                    "metric", f"{name}, {head}" if head else name, unit="ns", avg=float(ns or 0), args=args, **place
                )
        self._lines.used(len(self._waiting)) if self._waiting else None
        self._waiting = []
        self._heads = None
        self._lines.structure()

    def _measurement(self, text: str) -> None:
        """Reads a line of a measurement: its names, its time, its runs."""
        if found := _TIME.fullmatch(text):
            ns = float(nanoseconds(Decimal(found["figure"]), found["unit"]) or 0)
            figure: dict[str, Any] = {"median" if "Median" in text else "avg": ns}
            self._rows.summary("metric", ": ".join(self._name or ["measurement"]), unit="ns", **figure)
            self._lines.used()
        elif _RUNS.fullmatch(text):
            self._name = None
            self._lines.structure()
        else:
            if not text.startswith("  ") and self._name is not None:
                self._name.append(text.strip())
            self._lines.structure()

    def give_up(self) -> None:
        """Leaves out the rows whose unit never came."""
        for cells in self._waiting:
            self._lines.skip_deferred("cut", cells.number, cells.number, "the line with the unit is missing")


FORMAT = Format(
    "torch-benchmark",
    "torch.utils.benchmark: tables of Compare, measurements",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read=read,
    words=("times are in ", "torch.utils.benchmark"),
    prose=True,
)
