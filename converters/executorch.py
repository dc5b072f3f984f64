"""What ExecuTorch's Inspector exports of an ETDump: each event of a model with its times, as TSV or CSV.

    event_block_name  event_name                p10 (ms)  ...  is_delegated_op  start_time
    2  Execute        native_call_relu.out      0.0027    ...  False            [3508999582, 3512140934]

    ,event_block_name,event_name,raw,p10 (ms),...,start_time
    2,Execute,native_call_relu.out,"[1.032108, 0.002954]",0.0027,...,"[3508999582, 3512140934]"

    with open("run.tsv", "w") as file: Inspector("run.etdp").save_data_to_tsv(file)       without `raw`: summaries
    Inspector("run.etdp").to_dataframe().to_csv("run.csv")                                with it: each execution

Facts: devtools/inspector/_inspector.py of ExecuTorch 1.5. `start_time` is in the ticks of the runtime, which are ns
unless the Inspector was told otherwise; those of a delegate are of its own clock, and are believed where they lie
within its call. Events of a delegate come before the DELEGATE_CALL that they are part of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Line, Lines, quoted_cells
from ktrace.kit.text.numbers import TIME_NS
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_BLOCK, _NAME = "event_block_name", "event_name"
_CALL = "DELEGATE_CALL"
_UNIT = re.compile(r"(p10|p50|p90|avg|min|max) \((\w{1,10})\)")
_FIGURES = {"avg": "avg", "min": "min", "max": "max", "p50": "median"}
#: Columns that become columns, or that the others repeat; the others are arguments.
_TAKEN = frozenset((_BLOCK, _NAME, "raw", "start_time", "delegate_debug_identifier", "p10", "p90", *_FIGURES, ""))
_EMPTY = frozenset(("", "[]", "{}", "nan", "None"))
_LIMIT = 1 << 62


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings."""
    for number, text in enumerate(sample.lines[:5], 1):
        if _headings(text):
            return Match(Score.DIALECT, f"has the headings of ExecuTorch's Inspector (line {number})")
    return None


def _headings(text: str) -> list[str] | None:
    """The headings in a line; None for another line."""
    cells = quoted_cells(text, "\t" if "\t" in text else ",") if _BLOCK in text else None
    return cells if cells and cells[0] in ("", _BLOCK) and {_BLOCK, _NAME} <= set(cells) else None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an event for each execution whose times are there, a summary for the other rows."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    table = _Table(rows)
    for line in lines:
        if headings := _headings(line.text):
            table.begin(headings, "\t" if "\t" in line.text else ",")
            lines.structure()
        elif not line.text.strip():
            lines.structure()
        elif problem := table.take(line):
            lines.skip(problem, "no row under these headings" if problem == "bad-record" else "")
        else:
            lines.used()
        yield from rows.ready()
    table.end_delegate(None)
    rows.fact("source", facts={"tool": "ExecuTorch"})
    if table.has_events:
        rows.fact("clock", facts={"kind": "monotonic"})
    yield from rows.rest()


class _Row:
    """The cells of a row by their headings, its times in ns, and its starts."""

    def __init__(self, cells: dict[str, str], units: dict[str, Decimal]) -> None:
        self.block, self.name = cells[_BLOCK], cells[_NAME]
        self.figures = {
            key: parsed
            for key in (*_FIGURES, "p10", "p90")
            if (parsed := _time(cells.get(key, ""), units[key])) is not None
        }
        self.starts = [int(start) for start in _list(cells.get("start_time", "")) if abs(start) < _LIMIT]
        took = [_time(str(time), units["avg"]) for time in _list(cells.get("raw", ""))]
        self.durations = [round(time) for time in took if time is not None and 0 <= time < _LIMIT]
        self.has_times = bool(self.starts) and len(self.starts) == len(self.durations) == len(took)
        self.is_delegated = cells.get("is_delegated_op") == "True"
        self.args = {key: text for key, text in cells.items() if key not in _TAKEN and text not in _EMPTY}
        if not self.is_delegated:
            self.args.pop("is_delegated_op", None)

    @property
    def kind(self) -> str:
        """op for what computes, range for what encloses it."""
        return "op" if self.is_delegated or self.name == _CALL or self.name.startswith("native_call_") else "range"

    def within(self, call: _Row) -> bool:
        """Whether each execution is within one of a call."""
        spans = [(start, start + took) for start, took in zip(call.starts, call.durations, strict=True)]
        intervals = zip(self.starts, self.durations, strict=True)
        return all(any(begin <= start and start + took <= end for begin, end in spans) for start, took in intervals)


class _Table:
    """The headings of the rows, and the rows of a delegate that wait for its call."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self._headings: list[str] = []
        self._units: dict[str, Decimal] = {}
        self._separator = ","
        self._delegated: list[_Row] = []
        self.has_events = False

    def begin(self, headings: list[str], separator: str) -> None:
        """Takes the headings; without a unit times are in ms, as the Inspector has them by default."""
        parts = [(heading, _UNIT.fullmatch(heading)) for heading in headings]
        self._headings = [unit[1] if unit else heading for heading, unit in parts]
        self._units = dict.fromkeys((*_FIGURES, "p10", "p90"), TIME_NS["ms"])
        self._units |= {unit[1]: TIME_NS.get(unit[2], Decimal(0)) for _, unit in parts if unit}
        self._separator = separator

    def take(self, line: Line) -> str | None:
        """Adds a row, or holds it; returns the kind of the issue if it can't."""
        if not self._headings:
            return "unrecognised"
        cells = quoted_cells(line.text, self._separator)
        if len(cells) != len(self._headings):
            return "bad-record"
        row = _Row(dict(zip(self._headings, cells, strict=True)), self._units)
        if not row.name or not (row.has_times or "avg" in row.figures):
            return "bad-record"
        if row.is_delegated:
            self._delegated.append(row)
        elif row.name == _CALL:
            self._add(row, timed=row.has_times, kind="op" if row.has_times or not self._delegated else "total")
            self.end_delegate(row)
        else:
            kind = row.kind if row.has_times or row.kind == "op" else "metric"
            self._add(row, timed=row.has_times, kind=kind)
        return None

    def end_delegate(self, call: _Row | None) -> None:
        """Adds the rows of a delegate: with times if those lie within its call."""
        timed = (
            call is not None and call.has_times and all(row.has_times and row.within(call) for row in self._delegated)
        )
        for row in self._delegated:
            self._add(row, timed=timed, kind="op")
        self._delegated.clear()

    def _add(self, row: _Row, *, timed: bool, kind: str) -> None:
        if timed:
            self.has_events = True
            for start, took in zip(row.starts, row.durations, strict=True):
                self._rows.event(kind, row.name, ts=start, dur=took, track=row.block, args=row.args)
            return
        count = len(row.starts) or None
        figures: dict[str, Any] = {
            column: float(row.figures[key]) for key, column in _FIGURES.items() if key in row.figures
        }
        if "avg" in row.figures:
            figures["total"] = float(row.figures["avg"] * (count or 1))
        args: dict[str, Any] = row.args | {
            f"{key}_ns": float(row.figures[key]) for key in ("p10", "p90") if key in row.figures
        }
        self._rows.summary(kind, row.name, unit="ns", scope=[row.block], table=0, count=count, args=args, **figures)


def _time(text: str, factor: Decimal) -> Decimal | None:
    """A time in ns; None for none, or if the unit isn't one of time (cycles)."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number * factor if factor and number.is_finite() and abs(number.adjusted()) < 18 else None


def _list(text: str) -> list[Decimal]:
    """The numbers of a list; none of another text."""
    if not (text.startswith("[") and text.endswith("]")):
        return []
    try:
        numbers = [Decimal(word) for word in text[1:-1].split(",") if word.strip()]
    except InvalidOperation:
        return []
    return numbers if all(number.is_finite() and number.adjusted() < 20 for number in numbers) else []


FORMAT = Format(
    "executorch",
    "ExecuTorch: what its Inspector exports of an ETDump, as TSV or CSV",
    patterns=("*.tsv", "*.csv"),
    probe=probe,
    read=read,
    words=(_BLOCK,),
    prose=True,
)
