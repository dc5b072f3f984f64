"""The tables that `torch.utils.benchmark.Compare` prints: a time for each row and column, by threads.

[------------- softmax -------------]
                  |  B=8   |  B=16
1 threads: --------------------------
      dense       |  12.8  |  141.9          dense, B=8: 12.8 us;  dense, B=16: 141.9 us
      sparse      |  77.9  |  695.0

Times are in microseconds (us).

torch/utils/benchmark/utils/compare.py writes them. The unit of all tables stands at the end. What was measured may be
work of the host or of a device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import TIME_NS
from ktrace.kit.text.titles import likely_lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_WORDS = ("threads: ---",)
_TITLE = re.compile(r"\[-+ (?P<title>.*?) -+\]\s*")
_THREADS = re.compile(r"\s*(?P<threads>\d{1,6} threads?): -+\s*")
_UNIT = re.compile(r"\s*Times are in [a-z]{1,20} \((?P<unit>ns|us|ms|s)\)\.\s*")
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}m")
_FIGURE = re.compile(r"(?P<time>\d[\d.,]{0,30}(?:e[+-]?\d{1,3})?)(?P<varies> \(! \d{1,4}%\))?")

#: Longer lines have no cells; more rows than this aren't kept until their unit comes.
_LONGEST = 1 << 16
_MOST = 1 << 17


class _Cell(NamedTuple):
    """A time that waits for its unit."""

    name: str
    time: Decimal
    scope: list[str]
    table: int
    args: dict[str, str]


def probe(sample: Sample) -> Match | None:
    """DIALECT for a line of threads with a title two lines above."""
    for number, line in likely_lines(sample, _WORDS):
        above = sample.lines[max(number - 3, 0) : number - 1]
        if _THREADS.fullmatch(_bare(line)) and any(_TITLE.fullmatch(_bare(text)) for text in above):
            return Match(Score.DIALECT, f"contains a table of torch.utils.benchmark (line {number})")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an op for each cell, with its average; those whose unit never comes are reported."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "torch.utils.benchmark"})
    waiting: list[_Cell] = []
    title, table = "", -1
    columns: list[str] = []
    scope: list[str] = []
    for line in lines:
        text = _bare(line.text) if len(line.text) <= _LONGEST else ""
        if found := _TITLE.fullmatch(text):
            title, columns, scope, table = found["title"].strip(), [], [], table + 1
            lines.structure()
        elif threads := _THREADS.fullmatch(text):
            scope = [title, threads["threads"]]
            lines.structure()
        elif unit := _UNIT.fullmatch(text):
            _give(rows, waiting, unit["unit"])
            title, columns, scope = "", [], []
            lines.structure()
        elif not text.strip():
            lines.structure()
        elif title and not columns and "|" in text:
            columns = [cell.strip() for cell in text.split("|")[1:]]
            lines.structure()
        elif scope and "|" in text and len(waiting) < _MOST and (cells := list(_cells(text, columns, scope, table))):
            waiting += cells
            lines.used()
        yield from rows.ready()
    if waiting:
        conversion.report.issue("cut", "the end", "the line with the unit of times is missing", 0)
    yield from rows.rest()


def _bare(text: str) -> str:
    return _COLOURS.sub("", text).rstrip()


def _cells(text: str, columns: list[str], scope: list[str], table: int) -> Iterator[_Cell]:
    """The cells of a row with a time."""
    label, *cells = (part.strip() for part in text.split("|"))
    for column, cell in zip(columns, cells, strict=False):
        if found := _FIGURE.fullmatch(cell):
            args = {"variance": found["varies"].strip(" (!)")} if found["varies"] else {}
            name = ", ".join(filter(None, (label, column)))
            yield _Cell(name, Decimal(found["time"].replace(",", "")), scope, table, args)


def _give(rows: RowBuilder, waiting: list[_Cell], unit: str) -> None:
    for cell in waiting:
        avg = float(cell.time * TIME_NS[unit])
        rows.summary("op", cell.name, avg=avg, unit="ns", scope=cell.scope, table=cell.table, args=cell.args)
    waiting.clear()


FORMAT = Format(
    "torch-benchmark",
    "torch.utils.benchmark's tables of `Compare`",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read=read,
    words=_WORDS,
    prose=True,
)
