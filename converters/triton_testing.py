"""What `triton.testing.perf_report` prints: a table for each benchmark, a column for each provider.

    fused-softmax-performance:
             N   Triton (ms)   Torch (ms)
    0    256.0      0.005120     0.012288           avg 5,120 ns of `fused-softmax-performance N=256.0 Triton`
    1    384.0      0.006144     0.014336

The columns before those of providers are the parameters. A unit in a heading says what is measured; where none has one,
as before Triton 2.2, figures are values without a unit, and the first columns of whole numbers are the parameters.
Providers are a choice, which nothing adds up.
Facts: python/triton/testing.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import nanoseconds, number
from ktrace.kit.text.titles import likely_lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_TITLE = re.compile(r"(?P<title>[A-Za-z][\w .,()=/-]{0,200}):")
_HEAD = re.compile(
    r"(?P<name>\S.*?)(?: \((?P<unit>[A-Za-z/]{1,12})\)| \([a-z]{1,12} \((?P<inner>[A-Za-z/]{1,12})\)\))?"
)
_GAP = re.compile(r"\s{2,}")
_UNITS = ("(ms)", "(us)", "(s)", "(gb/s)", "(tflops)", "(tb/s)", "(gflops)")
_INDEX = re.compile(r"\d{1,6} +[-+\d.naife]")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a table with a unit in its headings, SHAPE for one below a title alone."""
    shape: Match | None = None
    for line, text in likely_lines(sample, (*_UNITS, "-performance:")):
        at = line if _TITLE.fullmatch(text.strip()) else line - 1
        if at > 0 and _is_table(sample.lines[at - 1 : at + 2]):
            if any(unit in sample.lines[at].lower() for unit in _UNITS):
                return Match(Score.DIALECT, f"has a table of triton.testing (line {at})")
            shape = shape or Match(Score.SHAPE, f"has a table as triton.testing prints it (line {at})")
    return shape


def _is_table(lines: list[str]) -> bool:
    """Whether lines are a title, headings, and a first row with an index and figures."""
    if len(lines) < 3 or not _TITLE.fullmatch(lines[0].strip()):
        return False
    heads, cells = _GAP.split(lines[1].strip()), lines[2].split()
    return len(heads) > 1 and len(cells) == len(heads) + 1 and cells[0] == "0" and number(cells[-1]) is not None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each figure of a row."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "triton.testing"})
    title, table, first = "", -1, 1
    heads: list[str] = []
    for line in lines:
        text = line.text.strip()
        if _is_table([text, lines.peek() or "", lines.peek(2) or ""]):
            title, heads, table = text[:-1], [], table + 1
            lines.structure()
        elif table >= 0 and not heads:
            heads = _GAP.split(text)
            first = _parameters(heads, (lines.peek() or "").split()[1:])
            lines.structure()
        elif heads and _INDEX.match(text) and len(text.split()) == len(heads) + 1:
            _add(rows, title, (heads, first), text.split()[1:], table)
            lines.used()
        elif not text:
            lines.structure()
        yield from rows.ready()
    yield from rows.rest()


def _parameters(heads: list[str], cells: list[str]) -> int:
    """How many of the first columns are parameters, by the headings with units, or the cells of the first row."""
    units = [at for at, head in enumerate(heads) if head.lower().replace("))", ")").endswith(_UNITS)]
    whole = [cell.endswith(".0") or cell.isdecimal() for cell in cells]
    last = whole.index(False) if False in whole else 1
    return max(units[0] if units else last, 1)


def _add(rows: RowBuilder, title: str, columns: tuple[list[str], int], cells: list[str], table: int) -> None:
    """Adds a row for each provider; `columns` are the headings, and how many of them are of parameters."""
    heads, first = columns
    heads_read = [(head["name"], head["unit"] or head["inner"] or "") for head in map(_HEAD.fullmatch, heads) if head]
    named = " ".join(f"{name}={cell}" for (name, _), cell in zip(heads_read[:first], cells, strict=False))
    for (name, unit), cell in zip(heads_read[first:], cells[first:], strict=False):
        figure = number(cell)
        if figure is None or not figure.is_finite():
            continue
        ns = nanoseconds(figure, unit) if unit else None
        measured = (
            {"avg": float(ns), "unit": "ns"} if ns is not None else {"value": float(figure), "unit": unit or None}
        )
        metric = "duration" if ns is not None else unit or "value"
        rows.summary("metric", f"{named} {name}", scope=[title], table=table, metric=metric, **measured)


FORMAT = Format(
    "triton-testing",
    "triton.testing: tables of perf_report",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read=read,
    words=(*_UNITS, "-performance:"),
    prose=True,
)
