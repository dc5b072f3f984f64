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
from decimal import Decimal
from typing import Any, NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line
from ktrace.kit.text.numbers import nanoseconds
from ktrace.kit.text.titles import likely_lines

_TITLE = re.compile(r"\[(?P<title>[^\[\]]*)\]")
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


class _Text(LineReader):
    """The open table, the rows that wait for the unit, and the measurement that is being read."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._rows.fact("source", facts={"tool": "torch.utils.benchmark"})
        self._title = ""
        self._heads: list[str] | None = None
        self._threads: int | None = None
        self._table = -1
        self._waiting: list[_Cells] = []
        self._name: list[str] | None = None  # of a measurement, while its time is awaited

    def take(self, line: Line) -> None:
        text = line.text.strip()
        if not text:
            self._lines.structure()
        elif match := _UNIT.fullmatch(text):
            self._add(match["unit"])
        elif match := _TITLE.fullmatch(text):
            title = match["title"].lstrip("-").removeprefix(" ").rstrip("-").removesuffix(" ")
            self._title, self._heads, self._table = title, None, self._table + 1
            self._lines.structure()
        elif match := _THREADS.fullmatch(text):
            self._threads = int(match["threads"])
            self._lines.structure()
        elif self._table >= 0 and "|" in text and self._heads is None:
            self._heads = [head.strip() for head in line.text.split("|")[1:]]
            self._lines.structure()
        elif self._heads and "|" in text:
            self._row(line)
        elif _OBJECT.fullmatch(text):
            self._name = []
            self._lines.structure()
        elif self._name is not None:
            self._measurement(line.text)
        if self._lines.peek() is None:
            for cells in self._waiting:
                self._lines.skip_deferred("cut", cells.number, cells.number, "the line with the unit is missing")

    def _row(self, line: Line) -> None:
        """Keeps the cells of a row until the unit is known."""
        name, *cells = line.text.split("|")
        figures = [
            (head, Decimal(match["figure"]))
            for head, cell in zip(self._heads or (), cells, strict=False)
            if (match := _CELL.fullmatch(cell.strip()))
        ]
        place = {"table": self._table, "scope": [self._title] if self._title else None}
        self._waiting.append(_Cells(name.strip(), figures, place | {"threads": self._threads}, line.number))
        self._lines.defer()

    def _add(self, unit: str) -> None:
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
        if match := _TIME.fullmatch(text):
            ns = float(nanoseconds(Decimal(match["figure"]), match["unit"]) or 0)
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


FORMAT = Format(
    "torch-benchmark",
    "torch.utils.benchmark: tables of Compare, measurements",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read=_Text.read,
    words=("times are in ", "torch.utils.benchmark"),
    prose=True,
)
