"""Statistics that Metallic's tools/analyze_jsonl.py (github cchance27/test-burn) prints from its raw JSON Lines.

    === Analyzing /tmp/prof.jsonl ===
    Total events: 179225

    GPU kernel aggregate (by kernel type):
      gemv (C): count=145 | total=365.77ms | avg=2.523ms | min=2.134ms | max=2.781ms | p95_ms=2.735ms, p99_ms=2.749ms

Sections repeat each other (a top 20 of kernels, the same by type, the same by shape) and nest (an iteration
contains a forward step, which contains blocks), so their totals can't be added up.

Reads every row of every section as a summary; the section is its scope, the analysed file its run.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source, stem
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line
from ktrace.kit.text.numbers import TIME_NS
from ktrace.model.fitting import whole_of

_LIKELY_TITLE = re.compile(r"^=== Analyzing .+ ===\s*$", re.M)
_LIKELY_ROW = re.compile(r"^ {2,}\S.*: count=\d+ \| total=[\d.]+ms \| avg=[\d.]+ms", re.M)
_EVENTS = re.compile(r"^Total events: \d+\s*$", re.M)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the title with a row or the number of events, or for a row without the title."""
    text = sample.text
    if not text:
        return None
    title, row, events = _LIKELY_TITLE.search(text), _LIKELY_ROW.search(text), _EVENTS.search(text)
    if title and (row or events):
        return Match(Score.DIALECT, f"has the line '{title.group().strip()}'")
    if row:
        return Match(Score.DIALECT, "has rows like 'name: count=… | total=…ms | avg=…ms'")
    if title:
        return Match(Score.NEAR, f"has the line '{title.group().strip()}', but no statistics")
    return None


#: The start of a section's title -> the kind of its rows. Only the section by kernel type has rows of kind kernel: the
#: others contain a selection of the same work, or the same work by another key, and are ranges.
KINDS = (
    ("event type", "total"),
    ("backend selection", "metric"),
    ("foundry capture", "metric"),
    ("internal kernel", "range"),
    ("kernel aggregate", "op"),
    ("gpu kernel durations", "range"),
    ("gpu kernel aggregate", "kernel"),
    ("matmul", "range"),
    ("gpu wait", "sync"),
    ("command buffer", "range"),
    ("sync", "sync"),
)

#: Figures of a row -> columns of a summary.
COLUMNS = {
    "total": "total",
    "avg": "avg",
    "mean": "avg",
    "median": "median",
    "p50": "median",
    "min": "min",
    "max": "max",
    "stddev": "stddev",
    "p95": "p95",
    "p99": "p99",
}

_TITLE = re.compile(r"=== Analyzing (?P<path>.+) ===\s*")
_SECTION = re.compile(r"(?P<title>\S.*):\s*")
_SHAPE = re.compile(r"\s+(?P<shape>\w+=[^|]*(?:\| *\w+=[^|]*)*):\s*")
_ROW = re.compile(
    r"\s+(?P<name>\S.*): (?P<key>count=)?(?P<count>\d{1,18})(?: ops)?"
    r"(?P<figures>\s*(?:[|,]\s*[A-Za-z]\w{0,40}(?:=|: )[^|,]{0,80}){0,16})"
)
_NO_SAMPLES = re.compile(r"\s+(?P<name>\S.*): no samples\s*")
_METRIC = re.compile(r"\s*(?P<name>\S.*): (?P<value>\d+(?:\.\d+)?)(?P<unit>ns|us|ms|s)?\s*")
_FIGURE = re.compile(
    r"(?P<key>[A-Za-z]\w*?)(?:_(?:ns|us|ms|s))?(?:=|: )(?P<value>-?\d+(?:\.\d+)?)(?P<unit>ns|us|ms|s)\s*"
)
_REMARK = re.compile(r"\s+\(.*\)\s*|Error parsing line .*")
_COUNTED = re.compile(r"(?P<name>.*) \(count=(?P<count>\d{1,18})\)")
_BLOCK = re.compile(r"block_\d+")
_FIELD = re.compile(r"(?<!\w)(\w+)=([^\s|]+)")


class _Analysis(LineReader):
    """The state of reading: the run, the section and, in the section of shapes, the shape."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._run: str | None = None
        self._section: str | None = None
        self._table = -1
        self._shape: str | None = None
        self._rows.fact("source", facts={"tool": "Metallic analyze_jsonl.py"})

    def take(self, line: Line) -> None:
        text = line.text
        if not text.strip():
            self._lines.structure()
        elif title := _TITLE.fullmatch(text):
            self._run, self._section, self._shape = stem(title["path"].replace("\\", "/")), None, None
            self._rows.fact("source", facts={"run": self._run, "analyzed": title["path"]})
            self._lines.became("catalog")
        elif section := _SECTION.fullmatch(text):
            self._begin_section(section["title"])
            self._lines.structure()
        elif shape := _SHAPE.fullmatch(text):
            self._shape = shape["shape"].strip()
            self._lines.structure()
        elif row := _NO_SAMPLES.fullmatch(text):
            self._add(row["name"], {}, {"samples": "no samples"})
        elif row := _ROW.fullmatch(text):
            self._take_row(row)
        elif metric := _METRIC.fullmatch(text):
            self._take_metric(metric)
        elif _REMARK.fullmatch(text):
            self._summary("note", text.strip(), metric="note")

    def _begin_section(self, title: str) -> None:
        self._section, self._shape = title, None
        self._table += 1

    def _take_row(self, row: re.Match[str]) -> None:
        figures: dict[str, Any] = {}
        args: dict[str, Any] = {}
        for part in filter(None, map(str.strip, re.split(r"[|,]", row["figures"]))):
            match = _FIGURE.fullmatch(part)
            if not match:
                self._skip_broken(f"the figure '{part}' has no unit")
                return
            value = float(Decimal(match["value"]) * TIME_NS[match["unit"]])
            column = COLUMNS.get(match["key"].lower())
            if column and column not in figures:
                figures[column] = value
            else:
                args[part.replace(": ", "=").split("=")[0]] = value
        if row["key"] and not figures and _kind(self._section) != "metric":
            self._skip_broken("a row without a total")
            return
        self._add(row["name"], {"count": int(row["count"])} | figures, args)

    def _skip_broken(self, detail: str) -> None:
        """Skips a row that breaks off: as cut at the end of the file, else as a bad record."""
        self._lines.skip("cut" if self._lines.peek() is None else "bad-record", detail)

    def _take_metric(self, match: re.Match[str]) -> None:
        """Adds a number with a name, outside the statistics: `Total events: 179225`."""
        value, unit = Decimal(match["value"]), match["unit"]
        if re.fullmatch(r"Sync operations", match["name"]):
            self._begin_section(match["name"])
        metric = "_".join(match["name"].lower().split())
        if unit:
            self._summary("metric", match["name"], metric=metric, unit="ns", value=float(value * TIME_NS[unit]))
        else:
            self._summary("metric", match["name"], metric=metric, unit="count", value=float(value))

    def _add(self, name: str, figures: dict[str, Any], args: dict[str, Any]) -> None:
        """Adds a row of statistics. The parts of its name go to args, too."""
        section, kind = self._section or "", _kind(self._section)
        if counted := _COUNTED.fullmatch(name):
            name = counted["name"]
            events = int(counted["count"])
            if figures.setdefault("count", events) != events:
                args["events"] = events
        if self._shape:
            name = f"{self._shape} | {name}"
        args |= _name_parts(section, name)
        if kind == "op" and name.endswith(("_total", "cb_wait")):
            kind = "range"
        block = _BLOCK.search(name)
        columns = {"layer": block.group() if block else None, "args": args}
        if kind == "metric":
            self._summary(kind, name, metric="count", unit="count", **figures, **columns)
        else:
            self._summary(kind, name, metric="duration", unit="ns", **figures, **columns)

    def _summary(self, kind: str, name: str, **columns: Any) -> None:
        place: dict[str, Any] = {"run": self._run}
        if self._section:
            place |= {"table": self._table, "scope": [self._section]}
        self._rows.summary(kind, name, **place, **columns)
        self._lines.used()


def _kind(section: str | None) -> str:
    """Returns the kind of a section's rows; those of an unknown section are ranges."""
    title = (section or "").lower()
    return next((kind for start, kind in KINDS if title.startswith(start)), "range")


def _name_parts(section: str, name: str) -> dict[str, Any]:
    """Returns the parts of a name: parent and op of `loop :: block_0_total`, fields of `op=sdpa backend=Metal`."""
    if section.startswith("Internal kernel") and " :: " in name:
        parent, _, op = name.partition(" :: ")
        return {"parent": parent, "op": op}
    if section.startswith("Matmul op/backend") and " @ " in name:
        op, _, backend = name.rpartition(" @ ")
        return {"op": op, "backend": backend}
    if section.startswith(("Matmul", "Backend selection")):
        return {key: value if (number := whole_of(value)) is None else number for key, value in _FIELD.findall(name)}
    return {}


FORMAT = Format(
    "metallic",
    "Metallic analysis text",
    patterns=("*.txt",),
    probe=probe,
    read=_Analysis.read,
    words=("=== analyzing ", ": count="),
    prose=True,
)
