"""Profiles of Qualcomm's QNN: the CSV of ONNX Runtime's provider and of qnn-profile-viewer, and what that prints.

    Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier
    1714566896000,EXECUTE,3301,US,NETRUN,ROOT,Graph 0: decode
    1714566896010,EXECUTE,13807,CYCLES,BACKEND,SUB-EVENT,_Transpose_3:OpId_119 (cycles)      an operator
    UNKNOWN,NODE,500,CYCLES,BACKEND,SUB-EVENT,Conv2d:OpId_1 (cycles)                         one, by ONNX Runtime

    Execute Stats (Average):
    --- Graph 0 (model):
        NetRun:  2952 us
        Backend (Number of HVX threads used): 4 count
            /model/conv/Conv:OpId_27 (cycles): 13807 cycles

The writer of ONNX Runtime: core/providers/qnn, 2023 to 2026 (a last column with ONNX' operators since 2026).

Reads operators as kernels of the accelerator, in cycles or time, and all other figures as metrics.

Neither file says when something began: a time of the CSV is when the row was noted. So all rows are summaries.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import cell_quantity
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line, quoted_cells

COLUMNS = ("Msg Timestamp", "Message", "Time", "Unit of Measurement", "Timing Source", "Event Level")
IDENTIFIER = "Event Identifier"
#: The headings of what qnn-profile-viewer prints.
SECTION = re.compile(
    r"(?P<name>(?:Init|Compose Graphs|Finalize|De-Init|Execute|Create From Binary|Apply Binary Section) Stats"
    r"(?: \(\w{1,20}\))?):\s*"
)
_LINES = 200

#: qnn-profile-viewer writes its version and its input above the headings: lines that are looked at.
PREAMBLE = 20


def is_headings(cells: Sequence[str]) -> bool:
    """Whether these are the headings of the CSV, with or without further ones after the identifier."""
    return tuple(cell.strip() for cell in cells[:7]) == (*COLUMNS, IDENTIFIER)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of the CSV, or a section of the printed statistics with a time."""
    lines = sample.lines[:_LINES]
    if any(is_headings(line.lstrip("\ufeff").split(",")) for line in lines[:PREAMBLE]):
        return Match(Score.DIALECT, "has the headings of QNN's profile")
    for number, text in enumerate(lines):
        if SECTION.fullmatch(text.strip().removeprefix("--- ")) and any(
            line.lstrip().startswith("NetRun:") for line in lines[number : number + 8]
        ):
            return Match(Score.DIALECT, f"has statistics of qnn-profile-viewer (line {number + 1})")
    return None


#: Units of times in ns; of other figures as the model writes them.
_TIMES = {"us": 1_000, "ms": 1_000_000, "ns": 1}
_UNITS = {"bytes": "B", "cycles": "cycle", "count": "count"}

#: An operator by its number, or any row of a node.
_OPERATOR = re.compile(r"(?P<name>.{1,4000}?)[: ]OpId_(?P<id>\d{1,9})(?: \(cycles\))?")
_GRAPH = re.compile(r"(?:--- )?(?P<name>Graph \d{1,6}\b.{0,500}?):?")
_FIGURE = re.compile(r"(?P<what>.{1,4000}): +(?P<value>[-+]?\d[\d.eE+-]{0,30}) (?P<unit>[A-Za-z/]{1,16})")
_BACKEND = re.compile(r"Backend \((?P<name>.{1,4000})\)")
_DECORATION = re.compile(r"-{3}(?: Total Inference Time:)?|Qnn Init/.{0,200}Statistics:|Log File Created: .*")


class _Profile(LineReader):
    """The graph and the section of the rows that come, and the columns of the CSV."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._headings: list[str] = []
        self._graph: str | None = None
        self._section: str | None = None

    def take(self, line: Line) -> None:
        text = line.text.strip().lstrip("\ufeff")
        if not text or _DECORATION.fullmatch(text):
            self._lines.structure()
        elif is_headings(text.split(",")):
            self._headings = [cell.strip() for cell in text.split(",")]
            self._lines.structure()
        elif self._headings:
            self._row(text)
        elif self._is_preamble(line):
            self._lines.structure()
        elif match := SECTION.fullmatch(text.removeprefix("--- ")):
            self._section, self._graph = match["name"], None
            self._lines.structure()
        elif text.startswith("--- ") and (match := _GRAPH.fullmatch(text)):
            self._graph = match["name"]
            self._lines.structure()
        elif self._section and (match := _FIGURE.fullmatch(text)):
            self._printed(match["what"], match["value"], match["unit"])

    def end(self) -> None:
        self._rows.fact("device", device=0, name="HTP", facts={"vendor": "Qualcomm"})
        self._rows.fact("source", facts={"tool": "QNN"})

    def _is_preamble(self, line: Line) -> bool:
        """Whether the headings of the CSV come soon."""
        coming = (self._lines.peek(ahead) or "" for ahead in range(1, PREAMBLE - line.number + 1))
        return any(is_headings(text.split(",")) for text in coming)

    def _row(self, text: str) -> None:
        """A row of the CSV: only the identifier may contain commas."""
        cells = quoted_cells(text) if '"' in text else text.split(",", len(COLUMNS))
        if len(cells) <= len(COLUMNS):
            self._lines.skip("cut" if self._lines.peek() is None else "bad-record", "too few cells")
            return
        behind = self._headings[len(COLUMNS) + 1 :]
        *others, name = cells if '"' in text else [*cells[: len(COLUMNS)], *cells[-1].rsplit(",", len(behind))]
        named = dict(zip(self._headings, [*others, name], strict=False))
        time, message, value, unit, origin, level = (named[column].strip() for column in COLUMNS)
        identifier = named[IDENTIFIER].strip()
        if graph := _GRAPH.fullmatch(identifier):
            self._graph = graph["name"]
        args: dict[str, Any] = {"message": message, "timing source": origin, "event level": level}
        args |= {column: cell for column in behind if (cell := named.get(column, "").strip())}
        args |= {} if time in ("UNKNOWN", "") else {"msg timestamp": time}
        is_node = message == "NODE" or (level == "SUB-EVENT" and _OPERATOR.fullmatch(identifier) is not None)
        name = message if identifier in ("NULL", "") else identifier
        self._add(name, value, unit, args, is_operator=is_node)

    def _printed(self, what: str, value: str, unit: str) -> None:
        """A line of the printed statistics. Operators are counted in the first section of a kind alone."""
        match = _BACKEND.fullmatch(what)
        name = match["name"] if match else what
        section = self._section or ""
        repeats = section.startswith("Execute") and "(" in section and "Average" not in section
        is_operator = _OPERATOR.fullmatch(name) is not None and not repeats
        self._add(name, value, unit, {"section": section}, is_operator=is_operator)

    def _add(self, name: str, value: str, unit: str, args: dict[str, Any], *, is_operator: bool) -> None:
        """Adds a figure: a duration or cycles of an operator, of a whole graph or phase, or another one."""
        quantity = cell_quantity(value)
        if quantity is None or quantity.unit or not quantity.number.is_finite():
            self._lines.skip("bad-record", "no number")
            return
        scale = _TIMES.get(unit.lower())
        base = "ns" if scale else _UNITS.get(unit.lower(), unit)
        figure = float(quantity.number * (scale or 1))
        columns: dict[str, Any] = {"unit": base, "run": self._graph}
        if is_operator and (scale or base == "cycle"):
            operator = _OPERATOR.fullmatch(name)
            args = {"op_id": int(operator["id"])} | args if operator else args
            name = operator["name"] if operator else name
            metric = "duration" if scale else "cycles"
            self._rows.summary("kernel", name, metric=metric, total=figure, count=1, device=0, args=args, **columns)
        elif scale:
            self._rows.summary("metric", name, total=figure, count=1, args=args, **columns)
        else:
            metric = "cycles" if base == "cycle" else base
            self._rows.summary("metric", name, metric=metric, value=figure, args=args, **columns)
        self._lines.used()


FORMAT = Format(
    "qnn",
    "Qualcomm QNN profiles: CSV of ONNX Runtime and qnn-profile-viewer, its statistics",
    patterns=("*qnn*.csv", "*.csv", "*.txt"),
    probe=probe,
    read=_Profile.read,
    words=("msg timestamp,", "netrun:"),
    prose=True,
)
