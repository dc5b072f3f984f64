"""Reads log lines as events, and each report as a table of summaries that ends when the report was logged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.kit.text.lines import Line, Lines
from ktrace.kit.text.numbers import TIME_NS, to_ns
from ktrace.model.batch import Batch
from ktrace.model.json_text import dump_json
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .figures import (
    Figure,
    device_of,
    memory_levels,
    pairs,
    parse_label,
    perf_figures,
    tool_device,
    tool_figures,
    variant_of,
)

TRACK = "browser"
TITLE = "GPU Profile Report"

#: Kinds of the command line tool's lines that contain figures of the run.
FIGURE_LINES = ("metrics", "ok", "gpu", "memory", "batching")

#: Modules of the browser log whose messages are figures of the run.
PERF_MODULES = ("Perf", "Benchmark")

#: A report or a message ends here: the most rows of one report, the most continuation lines of one message.
MOST_ROWS = 20_000
MOST_MORE = 1_000

_STAMPED = re.compile(
    r"(?:\[browser:(?P<level>[^\]]*)\] ?|(?P<at>\S+:\d+(?::\d+)?) +)?"
    r"(?:\[(?P<ms>\d{1,15}(?:\.\d{1,9})?)ms\])?(?:\[(?P<module>[A-Za-z][^\]\[]*)\])? ?(?P<text>.*)",
    re.S,
)
_TOOL = re.compile(r"\[(?P<kind>[a-z][a-z_-]*)\] (?P<text>.*)", re.S)
_FIRST_TIME = re.compile(rb"\[(\d{1,15}(?:\.\d{1,9})?)ms\]")
_CONTINUED = re.compile(r"\s+\S|[}\])]+[,;]?\s*$")
_HEADER = re.compile(r"\s*Kernel\s.*Time", re.I)
_UNIT = re.compile(r"\(([^()]*)\)|%")
_DECIMAL = re.compile(r"-?\d+\.\d+|-?\d+\.\d+e[+-]?\d+|NaN|-?Infinity")
_COUNT = re.compile(r"[0-9]{1,18}")
_MODEL = re.compile(r"(?:Loading: |resolved modelUrl=\S*/)(?P<model>[^\s/]+)\s*")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the log as events on one track, counters, run metrics, and a table of summaries for each report.

    Keeps one report at a time in memory, since its total comes last.
    """
    return _Log(source, conversion).read()


@dataclass
class _Report:
    """The report being read: where it began, and its rows."""

    label: str
    line: int
    ts: int | None
    total_id: int
    columns: list[str] = field(default_factory=lambda: ["ms", "%"])
    rows: list[tuple[str, list[str]]] = field(default_factory=list)


class _Log:
    """The state of reading: the last time stamp, the open report, and the variants chosen for each operation."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        self._lines = Lines(source, conversion)
        self._rows = RowBuilder(conversion)
        self._issues: Report = conversion.report
        self._last_ts = _first_time(source)
        self._report: _Report | None = None
        self._reports = 0
        self._phase: str | None = None
        self._variants: dict[str, list[dict[str, str]]] = {}
        self._variants_since: dict[str, int] = {}
        self._model: str | None = None
        self._arguments = lru_cache(maxsize=4096)(self._layer_and_args)

    def read(self) -> Iterator[Batch]:
        self._rows.fact("source", facts={"tool": "Doppler"})
        self._rows.fact("clock", facts={"kind": "page", "resolution_ns": 100_000})
        self._rows.fact("process", name="Doppler")
        self._rows.fact("track", track=TRACK, name="browser console")
        stream = iter(self._lines)
        for line in stream:
            self._take(line, stream)
            yield from self._rows.ready()
        self._end_report()
        yield from self._rows.rest()

    def _take(self, line: Line, stream: Iterator[Line]) -> None:
        text = line.text
        if self._report and not text.startswith("[") and self._take_row(line):
            return
        if not text.strip():
            self._lines.structure()
        elif text.strip() == TITLE:
            self._begin_report(line, None)
            self._lines.structure()
        elif text.startswith("[") or "ms][" in text:
            self._take_message(line, stream)

    # Messages

    def _take_message(self, line: Line, stream: Iterator[Line]) -> None:
        """Reads a line of the log: [browser:LEVEL], with Doppler's own time stamp, or of the command line tool."""
        match = _STAMPED.fullmatch(line.text)
        if match and (match["level"] is not None or (match["ms"] and match["module"])):
            self._end_report()
            self._take_browser(line, stream, match)
        elif tool := _TOOL.fullmatch(line.text):
            self._end_report()
            self._take_tool(stream, tool["kind"], tool["text"])

    def _take_browser(self, line: Line, stream: Iterator[Line], match: re.Match[str]) -> None:
        module, text, args = match["module"], match["text"], {}
        timing = "derived"
        if match["ms"]:
            ts, exact = to_ns(Decimal(match["ms"]), "ms")
            if ts >= 1 << 62:
                self._lines.skip("time-range")
                return
            self._last_ts, timing = ts, "measured"
            if not exact:
                self._issues.issue("rounded", f"line {line.number}")
                args["$ts"] = match["ms"]
        if module:
            args["module"] = module
        if match["at"]:
            args["at"] = match["at"]
        identity = self._log(stream, match["level"], text, timing, args)
        self._understand(module, text, line, identity)

    def _take_tool(self, stream: Iterator[Line], kind: str, text: str) -> None:
        self._log(stream, kind, text, "derived", {})
        if kind in FIGURE_LINES:
            self._metrics(kind, tool_figures(kind, text))
        if kind == "device" and (device := tool_device(text)):
            self._rows.fact("device", device=0, facts={"api": "webgpu"} | device)
        facts = (
            {key: value for _, key, value in pairs(text) if key in ("model", "prompt")} if kind != "progress" else {}
        )
        if "prompt" in facts:
            self._rows.fact("source", facts={"prompt": facts["prompt"]})
        if model := facts.get("model") or _model_in(text):
            self._name_model(model)

    def _log(self, stream: Iterator[Line], cat: str | None, text: str, timing: str, args: dict[str, Any]) -> int:
        """Adds the message with its continuation lines; returns the id of its event."""
        self._lines.used()
        more: list[str] = []
        while len(more) < MOST_MORE and _CONTINUED.match(self._lines.peek() or ""):
            more.append(next(stream).text)
            self._lines.used()
        if more:
            args["more"] = more
        return self._rows.event("log", text, ts=self._last_ts, timing=timing, cat=cat, track=TRACK, args=args)

    def _understand(self, module: str | None, text: str, line: Line, identity: int) -> None:
        """Adds what a message of the browser means: a report, a phase, a variant, a device, figures, memory levels."""
        if module == "Profile":
            if text.strip() == TITLE:
                self._begin_report(line, self._last_ts)
            else:
                self._phase = text.strip().rstrip(":")
        elif module == "KernelSelect" and (chosen := variant_of(text)):
            self._note_variant(*chosen)
        elif module == "GPU" and (device := device_of(text)):
            self._rows.fact("device", device=0, name=device[0], facts=device[1])
        elif module in PERF_MODULES:
            self._metrics(module, perf_figures(text))
        elif module == "Loader":
            for level in memory_levels(text):
                place: dict[str, Any] = {"ts": self._last_ts, "track": level.series, "parent": identity}
                self._rows.event("counter", level.series, value=level.value, unit=level.unit, **place)
        if model := _model_in(text):
            self._name_model(model)

    def _metrics(self, kind: str, figures: Iterator[Figure]) -> None:
        for figure in figures:
            value: dict[str, Any] = {figure.column: figure.value, "unit": figure.unit, "metric": figure.metric}
            self._rows.summary("metric", figure.name, scope=[kind], ts=self._last_ts, **value)

    def _name_model(self, model: str) -> None:
        if model != self._model:
            self._model = model
            self._rows.fact("source", facts={"model": model})
            self._rows.fact("process", name=f"Doppler {model}")

    def _note_variant(self, op: str, chosen: dict[str, str]) -> None:
        """Adds a variant to those chosen for an operation since the last report; a report starts a new list."""
        if self._variants_since.get(op) != self._reports:
            self._variants_since[op] = self._reports
            self._variants[op] = []
        if chosen not in self._variants[op]:
            self._variants[op].append(chosen)
        self._arguments.cache_clear()

    # Reports

    def _begin_report(self, line: Line, ts: int | None) -> None:
        self._end_report()
        ts = self._last_ts if ts is None else ts
        self._report = _Report(self._phase or TITLE, line.number, ts, self._rows.reserve())
        self._phase = None

    def _take_row(self, line: Line) -> bool:
        """Reads a line of the open report; returns False for a line that isn't part of it."""
        report, text = self._report, line.text
        assert report is not None
        if not any(map(str.isalnum, text)):
            self._lines.structure()
            return True
        if not report.rows and _HEADER.match(text):
            report.columns = _columns(text) or report.columns
            self._lines.structure()
            return True
        cells = text.rsplit(None, len(report.columns))
        if len(cells) <= len(report.columns) or not _are_figures(report.columns, cells[1:]):
            return False
        label = cells[0].strip()
        self._lines.used()
        if label == "TOTAL":
            self._end_report(cells[1:])
        else:
            report.rows.append((label, cells[1:]))
            if len(report.rows) >= MOST_ROWS:
                self._end_report()
        return True

    def _end_report(self, total: list[str] | None = None) -> None:
        """Adds the rows of the open report, its total first."""
        report, self._report = self._report, None
        if report is None:
            return
        place: dict[str, Any] = {"ts": report.ts, "table": self._reports, "scope": [report.label], "device": 0}
        parent = None
        if total is not None:
            parent = report.total_id
            figures, others = _figures(report.columns, total)
            self._rows.summary("total", report.label, id=parent, unit="ns", args=others, **place, **figures)
        else:
            self._issues.issue("cut", f"line {report.line}", f"the report '{report.label}' has no TOTAL line", 0)
        for label, cells in report.rows:
            figures, others = _figures(report.columns, cells)
            layer, args = self._arguments(label, *others.items())
            columns = {"parent": parent, "layer": layer, "args": args, "unit": "ns"} | place | figures
            self._rows.summary("kernel", label, **columns)
        self._reports += 1

    def _layer_and_args(self, label: str, *others: tuple[str, str]) -> tuple[str | None, str]:
        """Returns the layer and, as JSON, the arguments of a label: its parts, other columns, chosen variants."""
        parts = parse_label(label)
        args = parts.args() | dict(others)
        if chosen := self._variants.get(parts.op):
            args["variants"] = chosen
        return parts.layer, dump_json(args)


def _first_time(source: Source) -> int:
    """Returns the first time in the log, used for the lines before it; 0 if there is none."""
    with source.open(quiet=True) as stream:
        while raw := current().readline(stream):
            if match := _FIRST_TIME.search(raw):
                ts, _ = to_ns(Decimal(match.group(1).decode()), "ms")
                return ts if ts < 1 << 62 else 0
    return 0


def _model_in(text: str) -> str | None:
    match = _MODEL.search(text)
    return match["model"] if match else None


def _columns(header: str) -> list[str]:
    """Returns the columns after the name: units of time, "%", or the heading itself."""
    columns = []
    for heading in re.split(r"\s{2,}|\t", header.strip())[1:]:
        match = _UNIT.search(heading)
        unit = (match.group(1) or "%") if match else heading
        columns.append(unit if unit in TIME_NS or unit == "%" else heading)
    return columns


def _are_figures(columns: list[str], cells: list[str]) -> bool:
    """Whether the cells are figures. Doppler prints times and shares with decimals: one without is cut off."""
    return all(
        _DECIMAL.fullmatch(cell) or (column not in TIME_NS and column != "%")
        for column, cell in zip(columns, cells, strict=True)
    )


def _figures(columns: list[str], cells: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the figures as columns of a summary (total in ns, percent, count), and the cells of unknown columns."""
    figures: dict[str, Any] = {}
    others: dict[str, str] = {}
    for column, cell in zip(columns, cells, strict=True):
        if column in TIME_NS and "total" not in figures:
            figures["total"] = _ns(cell, column)
        elif column == "%" and "percent" not in figures:
            figures["percent"] = float(cell)
        elif column.lower() in ("count", "calls") and _COUNT.fullmatch(cell):
            figures["count"] = int(cell)
        else:
            others[column] = cell
    return figures, others


@lru_cache(maxsize=65_536)
def _ns(text: str, unit: str) -> float:
    return float(Decimal(text) * TIME_NS[unit])
