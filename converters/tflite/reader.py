"""Reads operators and the times of runs as summaries: of one run, since calls are counted so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.headings import as_int64, cell_quantity
from ktrace.kit.text.lines import Line, Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import RUNS, TIMINGS, headings_of

#: What a logger puts before a line.
_PREFIX = re.compile(r"(?:INFO|WARNING): ")
_TITLE = re.compile(r"={3,} (?P<title>[A-Za-z ]{3,60}) ={3,}")
_SECTION = re.compile(r"(?P<name>[A-Z][^:\[\]]{2,120}?) ?:")
_SETTING = re.compile(r"#?(?P<key>[A-Za-z][^:\[\]]{0,80}): \[(?P<value>.{0,4000})\]")
_FIELDS = re.compile(r"(\w{1,12})=(\S{1,40})")
#: What else the program prints.
_WORDS = re.compile(
    r"STARTING!|Loaded model |Created TensorFlow |The input model file size|Initialized (?:session|TensorFlow)"
    r"|Running benchmark for |Note: as the benchmark |Number of nodes executed: |Memory \(bytes\): "
    r"|\d{1,9} nodes observed"
)
_FOOTPRINT = re.compile(
    r"(?P<key>Memory footprint delta[^:]{0,60}|Peak memory footprint[^:]{0,40}): (?P<value>.{1,200})"
)
_ONCE = re.compile(r"(?P<name>Init|First inference): (?P<value>[\d.]{1,30})")
_PLACE = re.compile(r":\d{1,9}$")

#: Statistics of runs as columns of a summary.
_STATISTICS = {"avg": "avg", "min": "min", "max": "max", "std": "stddev", "median": "median", "p95": "p95"}
_US, _MS = 1_000, 1_000_000


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each operator of each section, and for the runs of each kind."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    text = _Text(lines, rows)
    for line in lines:
        text.read(line)
        yield from rows.ready()
    rows.fact("source", facts={"tool": "benchmark_model", **({"settings": text.settings} if text.settings else {})})
    yield from rows.rest()


class _Text:
    """What was read before a line: the section, the table, the operators that the section has already."""

    def __init__(self, lines: Lines, rows: RowBuilder) -> None:
        self._lines, self._rows = lines, rows
        self._section: str | None = None
        self._table = 0
        self._headings: list[str] | None = None
        self._is_csv = False
        self._seen: set[tuple[str, str]] = set()
        self._runs = 0
        self.settings: dict[str, str] = {}

    def read(self, line: Line) -> None:
        """Accounts for a line and adds its row."""
        text = _PREFIX.sub("", line.text.strip(), count=1).strip()
        if not text:
            self._headings = None
            self._lines.structure()
        elif headings := headings_of(text):
            self._headings, self._is_csv = headings, "[" not in text
            self._lines.structure()
        elif _WORDS.match(text) or _TITLE.fullmatch(text):
            self._lines.structure()
        elif self._headings and (cells := _cells(text, self._headings, is_csv=self._is_csv)):
            self._operator(cells)
        elif found := RUNS.fullmatch(text):
            self._statistics(text, of_operators=found["all"] is not None)
        elif TIMINGS in text:
            self._timings(text)
        elif found := _SETTING.fullmatch(text) or _FOOTPRINT.fullmatch(text):
            self.settings[found["key"]] = found["value"]
            self._lines.structure()
        elif found := _SECTION.fullmatch(text):
            self._section, self._headings = found["name"], None
            self._table += 1
            self._seen.clear()
            self._lines.structure()
        elif self._headings and self._lines.peek() is None:
            self._lines.skip("cut", "the last row breaks off")

    def _operator(self, cells: dict[str, str]) -> None:
        """Adds an operator; the other tables of a section repeat those of the first one, in another order."""
        kind, name = cells["node type"], cells.get("name")
        if name is None or (kind, name) in self._seen:
            self._lines.became("folded")
            return
        keys = ("first", "avg ms", "%", "times called", "mem KB", "start")
        figures = {key: _number(cells.get(key, "")) for key in keys}
        avg, called = figures["avg ms"], figures["times called"]
        calls = None if called is None else as_int64(called)
        if avg is None or calls is None or not kind:
            is_cut = self._lines.peek() is None
            what = "no time" if avg is None else "no number of calls" if kind else "no type"
            self._lines.skip("cut" if is_cut else "bad-record", "the last row breaks off" if is_cut else what)
            return
        self._seen.add((kind, name))
        args: dict[str, Any] = {"node": name}
        args |= {key: float(value) for key in ("first", "start", "mem KB") if (value := figures[key]) is not None}
        args |= {f"{key}_ms": args.pop(key) for key in ("first", "start") if key in args}
        share = figures["%"]
        self._rows.summary(
            "overhead" if self._section and "Initialization" in self._section else "op",
            kind,
            run=self._section,
            table=self._table,
            unit="ns",
            total=float(avg * calls * _MS),
            avg=float(avg * _MS),
            count=calls,
            percent=None if share is None else float(share),
            layer=_PLACE.sub("", name).strip("[]") or None,
            args=args,
        )
        self._lines.used()

    def _statistics(self, text: str, *, of_operators: bool) -> None:
        """Adds the times of runs, in us: of the warm-up, then of those that count; or of all operators in them."""
        found = {key: number for key, value in _FIELDS.findall(text) if (number := _number(value)) is not None}
        if "curr" in found:
            found.setdefault("avg", found["curr"])  # of a single run, or where all are the same
        columns: dict[str, Any] = {
            column: float(found[key] * _US) for key, column in _STATISTICS.items() if key in found
        }
        args = {f"{key}_us": float(found[key]) for key in ("first", "curr") if key in found}
        if of_operators:
            columns |= {"run": self._section, "table": self._table}
        kind, name = (
            ("total", "all operators") if of_operators else ("metric", ("warm-up run", "run")[min(self._runs, 1)])
        )
        self._runs += not of_operators
        self._rows.summary(kind, name, unit="ns", count=as_int64(found["count"]), args=args, **columns)
        self._lines.used()

    def _timings(self, text: str) -> None:
        """Adds how long the initialisation and the first run took; the averages are those of the runs."""
        for found in _ONCE.finditer(text):
            if (value := _number(found["value"])) is not None:
                name = "initialisation" if found["name"] == "Init" else "first run"
                self._rows.summary("metric", name, unit="ns", total=float(value * _US), count=1)
        self._lines.used()


def _cells(text: str, headings: list[str], *, is_csv: bool) -> dict[str, str] | None:
    """The cells of a row by their headings; None if it isn't one.

    Types and names may contain commas and blanks: shares, which end in %, tell where the numbers are.
    """
    cells = text.split(", ") if is_csv else re.split(r"\t[\t ]*| {2,}", text)
    cells = [cell.strip() for cell in cells]
    share = headings.index("avg ms") + 1
    before = share - 1
    place = next((at for at, cell in enumerate(cells[:-1]) if cell.endswith("%") and cells[at + 1].endswith("%")), 0)
    if place <= before - 1:
        return None
    mark = ", " if is_csv else "  "
    kind = mark.join(cells[: place - before])
    numbers = cells[place - before : place - before + headings.index("times called")]
    name = mark.join(cells[place - before + len(numbers) :])
    name = name.replace("\t", ",") if is_csv else name
    named = dict(zip(headings[1:], numbers, strict=False)) | {"node type": kind}
    return named | ({"name": name} if "name" in headings else {})


def _number(text: str) -> Any:
    found = cell_quantity(text)
    return found.number if found and found.number.is_finite() else None
