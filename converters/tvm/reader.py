"""Reads a report of TVM as JSON, or what TVM prints.

Reads a report as JSON. Each value is an object whose key is its type: `{"microseconds": 12.5}`.

Reads what TVM prints, anywhere in a text: reports as tables and CSV, the debug executor, time evaluators.

Execution time summary:
 mean (ms)   median (ms)    max (ms)     min (ms)     std (ms)        in 2021 seconds, without a median
   2.1234       2.1000       2.5000       2.0000       0.1250

A call with its metrics as a row of the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source, begins_as_json
from ktrace.kit.text.headings import as_int64, cell_quantity
from ktrace.kit.text.json_items import Item, beginning, json_items, plain_value
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line, quoted_cells
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import DURATION, NAME, Grid, grid_of, is_csv_heading

_DEVICE = re.compile(r"(?P<api>[A-Za-z_]+?)(?P<number>\d{1,4})")

#: Devices that aren't: work of the host.
_HOST = frozenset({"cpu", "stackvm", "c", "llvm"})

#: Instructions of the virtual machines that aren't work of the model.
_OVERHEAD = ("VM::", "vm.builtin.")

#: Names of rows that sum up others.
_TOTALS = frozenset({"Sum", "Total", "Total_time"})


class Calls:
    """Adds calls, and the devices that they name."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self._devices: dict[str, int] = {}
        self.table = -1

    def begin(self) -> None:
        """Begins another table."""
        self.table += 1

    def add(self, metrics: dict[str, Any], *, total: bool = False) -> bool:
        """Adds the metrics of a call, numbers as ints and Decimals; returns False without a name or a duration."""
        args = dict(metrics)
        name, duration = args.pop(NAME, None), microseconds(args.pop(DURATION, None))
        if not isinstance(name, str) or not name or duration is None:
            return False
        place: dict[str, Any] = {"table": self.table}
        percent, count = _finite(args.get("Percent")), _finite(args.get("Count"))
        if percent is not None:
            place["percent"] = float(percent)
            del args["Percent"]
        if count is not None and (number := as_int64(count)) is not None:
            place["count"] = number
            del args["Count"]
        device = self._device(args)
        args = {key: plain_value(value) for key, value in args.items() if value not in ("", None)}
        kind = "kernel" if device is not None else "op"
        if total or name in _TOTALS:
            kind = "total"
        elif name.startswith(_OVERHEAD):
            kind = "overhead"
        self._rows.summary(kind, name, unit="ns", total=duration, device=device, args=args, **place)
        return True

    def _device(self, args: dict[str, Any]) -> int | None:
        """Takes the device from the arguments; None for the host, whose name stays there."""
        name = args.get("Device")
        match = _DEVICE.fullmatch(name) if isinstance(name, str) else None
        if not match or match["api"] in _HOST or not isinstance(name, str):
            return None
        del args["Device"]
        if name not in self._devices:
            number = int(match["number"])
            while number in self._devices.values():
                number += 1
            self._devices[name] = number
            self._rows.fact("device", device=number, name=name, facts={"api": match["api"]})
        return self._devices[name]


def microseconds(value: Any) -> float | None:
    """Returns us as ns; None for anything but a finite number."""
    number = _finite(value)
    return None if number is None else float(number * 1000)


def _finite(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    quantity = cell_quantity(str(value))
    return quantity.number if quantity and not quantity.unit and quantity.number.is_finite() else None


_RULE = re.compile(r"[ #>/*]*-[- ]*")
_SUMMARY = "Execution time summary:"
_STATISTIC = re.compile(r"(mean|median|max|min|std) \((ms|s)\)")
_COLUMNS = {"mean": "avg", "std": "stddev"}
_CONFIGURATION = re.compile(r"(?P<key>[A-Za-z][^:]{0,80}): (?P<value>.*)")

#: A number of a report: two decimals, thousands separated as the locale does it.
_SEPARATED = re.compile(r"(?P<whole>[+-]?\d[\d.,'\u00a0\u202f]*)[.,](?P<part>\d\d)")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:[.,'\u00a0\u202f]\d{3})+")
_MARKS = re.compile(r"[.,'\u00a0\u202f]")

_DEBUG_FIELDS = {"Node Name": NAME, "Time(us)": DURATION, "Time(%)": "Percent"}


class _Text(LineReader):
    """Adds a summary for each row of each table."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._rows.fact("source", facts={"tool": "TVM"})
        self._calls = Calls(self._rows)
        self._grid: Grid | None = None
        self._headings: list[str] = []  # of CSV
        self._last: tuple[str, ...] = ()
        self._statistics: list[tuple[str, str]] = []
        self._summary = False
        self._configuration: dict[str, str] | None = None

    def take(self, line: Line) -> None:
        text = line.text
        if grid := grid_of(text):
            self._begin(grid, [])
        elif is_csv_heading(text):
            self._begin(None, [cell.strip() for cell in text.split(",")])
        elif not text.strip():
            self._grid, self._headings = None, []
            self._lines.structure()
        elif _RULE.fullmatch(text):
            self._lines.structure()
        elif self._grid and self._row(self._grid, line):
            return
        elif self._headings:
            self._csv_row(text)
        elif not self._evaluated(text):
            self._configured(text)

    def end(self) -> None:
        if self._configuration:
            self._rows.fact("source", facts={"configuration": self._configuration})

    def _begin(self, grid: Grid | None, headings: list[str]) -> None:
        self._grid, self._headings, self._last = grid, headings, ()
        self._calls.begin()
        self._lines.structure()

    def _row(self, grid: Grid, line: Line) -> bool:
        """A row of the open table; False for another line, which ends it."""
        cells = grid.cells(line.text)
        metrics = _text_metrics(cells, grid.right) if cells else {}
        last = self._lines.peek() is None
        if cells and _is_whole(cells, metrics, last):
            if not grid.right and self._repeats(cells):
                self._report.issue("folded", f"line {line.number}", "another output of the same node")
                self._lines.became("folded")
                return True
            if self._calls.add(metrics):
                self._lines.used()
                return True
        self._grid = None
        if last:
            self._lines.skip("cut", "the last row is cut off")
        return last

    def _repeats(self, cells: dict[str, str]) -> bool:
        """Whether the row is another output of the node above: it has the same time again."""
        key = tuple(cells.get(name, "") for name in ("Node Name", "Ops", "Time(us)", "Outputs"))
        same = key == self._last and key[3] not in ("", "1", "-")
        self._last = key
        return same

    def _csv_row(self, text: str) -> None:
        cells = quoted_cells(text)
        if len(cells) != len(self._headings):
            cut = self._lines.peek() is None
            self._lines.skip("cut" if cut else "bad-record", "" if cut else f"not {len(self._headings)} cells")
            return
        metrics = {heading: _number(cell) for heading, cell in zip(self._headings, cells, strict=True)}
        metrics[NAME] = cells[self._headings.index(NAME)]
        if self._calls.add(metrics):
            self._lines.used()
        else:
            self._lines.skip("bad-record", "no name or no duration")

    def _evaluated(self, text: str) -> bool:
        """A line of a time evaluator's summary."""
        bare = text.strip(" #>/*")
        if bare.endswith(_SUMMARY):
            self._summary, self._statistics = True, []
        elif self._summary and not self._statistics and _STATISTIC.match(bare):
            self._statistics = _STATISTIC.findall(bare)
        elif self._summary and self._statistics:
            return self._figures(bare)
        else:
            return False
        self._lines.structure()
        return True

    def _figures(self, text: str) -> bool:
        names, values = self._statistics, text.split()
        self._summary, self._statistics = False, []
        times = [cell_quantity(value) for value in values]
        if len(times) != len(names) or any(time is None or time.unit for time in times):
            self._lines.skip("bad-record", f"not {len(names)} figures")
            return True
        columns: dict[str, Any] = {
            _COLUMNS.get(name, name): float(time.number * (10**9 if unit == "s" else 10**6))
            for (name, unit), time in zip(names, times, strict=True)
            if time and time.number.is_finite()
        }
        self._rows.summary("metric", "Execution time", unit="ns", **columns)
        self._lines.used()
        return True

    def _configured(self, text: str) -> None:
        """A line of the configuration below a report."""
        if text.strip() == "Configuration":
            self._configuration = self._configuration or {}
            self._lines.structure()
        elif self._configuration is not None and (match := _CONFIGURATION.fullmatch(text.rstrip())):
            self._configuration[match["key"]] = match["value"]
            self._lines.became("catalog")


def _is_whole(cells: dict[str, str], metrics: dict[str, Any], last: bool) -> bool:
    """Whether a row has its duration, and the last line of a text its later columns, too."""
    if not isinstance(metrics.get(DURATION), (int, Decimal)):
        return False
    named = [heading for heading in cells if heading in ("Count", "Inputs")]
    return not last or not named or any(cells[heading] for heading in named)


def _text_metrics(cells: dict[str, str], report: bool) -> dict[str, Any]:
    """The metrics of a printed row under the names of a report."""
    by_heading = {_DEBUG_FIELDS.get(heading, heading): cell for heading, cell in cells.items()}
    read = _separated if report else _number
    texts = (NAME, "Device", "Argument Shapes", "Hash", "Ops", "Shape", "Measurements(us)")
    return {key: cell if key in texts else read(cell) for key, cell in by_heading.items() if cell not in ("", "-")}


def _separated(cell: str) -> Any:
    """The number in a cell whose thousands are separated as in any locale, else its text."""
    if match := _SEPARATED.fullmatch(cell):
        return Decimal(_MARKS.sub("", match["whole"]) + "." + match["part"])
    if _THOUSANDS.fullmatch(cell):
        return int(_MARKS.sub("", cell))
    return _number(cell)


def _number(cell: str) -> Any:
    """The number in a cell, else its text."""
    try:
        return int(cell) if cell.isdigit() and len(cell) < 20 else Decimal(cell)
    except (InvalidOperation, ValueError):
        return cell


_TYPES = frozenset({"string", "microseconds", "percent", "count", "ratio"})


def read_json(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each call, and for each device its total."""
    rows = RowBuilder(conversion)
    rows.fact("source", facts={"tool": "TVM"})
    calls, document = Calls(rows), -1
    for item in json_items(source, conversion.report):
        conversion.report.record()
        if item.document != document:
            document = item.document
            calls.begin()
        if item.problem:
            conversion.report.issue(item.problem, item.where, item.text[:80])
        elif outcome := _added(item, calls, rows):
            conversion.report.used(outcome=None if outcome == "rows" else outcome)
        else:
            kind = "bad-record" if item.key in ("calls", "device_metrics", "configuration") else "unrecognised"
            conversion.report.issue(kind, item.where, str(item.value)[:80])
        yield from rows.ready()
    yield from rows.rest()


def _added(item: Item, calls: Calls, rows: RowBuilder) -> str:
    """Adds an item; returns its outcome, "" if it isn't what it should be."""
    value = item.value
    if not isinstance(value, dict):
        return ""
    if item.key == "calls" and item.listed:
        return "rows" if calls.add(_metrics(value)) else ""
    if item.key == "device_metrics" and not item.listed:
        totals = [calls.add(_device(name, metrics), total=True) for name, metrics in value.items()]
        return ("rows" if any(totals) else "structure") if all(totals) else ""
    if item.key == "configuration" and not item.listed:
        facts = {key: plain_value(cell) for key, cell in _metrics(value).items()}
        rows.fact("source", facts={"configuration": facts} if facts else {})
        return "catalog"
    return ""


def _metrics(typed: dict[str, Any]) -> dict[str, Any]:
    """The metrics without their types. A value that has no known type is kept as it is."""
    return {key: _value(cell) for key, cell in typed.items()}


def _value(cell: Any) -> Any:
    if isinstance(cell, dict) and len(cell) == 1 and (kind := next(iter(cell))) in _TYPES:
        return cell[kind]
    return cell


def _device(name: str, metrics: Any) -> dict[str, Any]:
    """The metrics of a device, as those of a call named Total."""
    values = _metrics(metrics) if isinstance(metrics, dict) else {}
    return {"Device": name} | values | {NAME: "Total"}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each call, and the totals."""
    is_json = begins_as_json(beginning(source))
    yield from read_json(source, conversion) if is_json else _Text.read(source, conversion)
