"""Reads the log of trtexec: the profile of the layers, the performance summary, averages over runs, facts of the run.

[05/08/2024-14:05:14] [I] === Profile (2094 iterations ) ===
[05/08/2024-14:05:14] [I]    Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer        since TensorRT 10
[05/08/2024-14:05:14] [I]    Layer   Time (ms)   Avg. Time (ms)   Time %                 before
[05/08/2024-14:05:14] [I] Average on 10 runs - GPU latency: 0.86 ms - Host latency: 0.9 ms (enqueue 0.005 ms)
[05/08/2024-14:05:14] [I] Latency: min = 0.856 ms, max = 0.872 ms, mean = 0.863 ms, median = 0.862 ms
[05/08/2024-14:05:14] [I] GPU Compute                                                    TensorRT 7: figures below
[05/08/2024-14:05:14] [I] min: 0.856 ms

Facts are the command, the version, the device and the options.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.headings import cell_quantity
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line
from ktrace.kit.text.numbers import quantity
from ktrace.model.row_builder import RowBuilder

#: Words in the name of a layer that copies between host and device -> its direction.
_COPIES = {"HostToDeviceCopy": "HtoD", "DeviceToHostCopy": "DtoH", "DeviceToShapeHostCopy": "DtoH"}


def kind_of(name: str) -> tuple[str, str | None]:
    """Returns the kind of a layer's work, and the direction of a copy.

    A reformatting copy is a kernel: it changes the layout of a tensor on the device.
    """
    way = next((way for word, way in _COPIES.items() if word in name), None)
    return ("memcpy", way) if way else ("kernel", None)


def milliseconds(value: Any) -> float | None:
    """Returns ms as ns; None for anything but a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    quantity = cell_quantity(str(value))
    return float(quantity.number * 10**6) if quantity and not quantity.unit and quantity.number.is_finite() else None


_RUN = re.compile(r"&&&& (?:RUNNING|PASSED|FAILED|WAIVED) TensorRT\.trtexec(?: \[TensorRT v(\d+)\])?[^#]{0,40}# ?(.*)")
_VERSION = re.compile(r"TensorRT version: ([\d.]{1,30})\s*")
_FACT = re.compile(r"(?P<key>[A-Za-z][\w ./()-]{0,60}): (?P<value>.*)")
_LISTED = re.compile(r"Device (?P<number>\d{1,4}): \"(?P<name>.*)\" UUID: (?P<uuid>\S*)\s*")
_DEVICE = {
    "Selected Device": "name",
    "Selected Device ID": "id",
    "Selected Device UUID": "uuid",
    "Compute Capability": "compute_capability",
    "SMs": "sm_count",
    "Device Global Memory": "memory",
}


class About:
    """Collects the facts of the sections, and adds them at the end. `device` is the ordinal, once it is known."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self.section = ""
        self.device: int | None = None
        self._source: dict[str, Any] = {"tool": "TensorRT trtexec"}
        self._facts: dict[str, Any] = {}
        self._options: dict[str, dict[str, str]] = {}

    def takes(self, text: str) -> bool:
        """Whether the line is a fact; keeps it."""
        if match := _RUN.match(text):
            if match[1]:
                self._source.setdefault("build", match[1])
            self._source.setdefault("command", match[2].strip())
            return True
        if match := _VERSION.fullmatch(text):
            self._source["version"] = match[1]
            return True
        if not self.section.endswith((" Options", "Device Information")) or text.startswith("[TRT]"):
            return False
        if match := _LISTED.fullmatch(text.strip()):
            facts = {"uuid": match["uuid"]}
            self._rows.fact("device", device=int(match["number"]), name=match["name"], facts=facts)
            return True
        fact = _FACT.fullmatch(text.strip())
        if not fact:
            return False
        key, value = fact["key"], fact["value"].strip()
        if self.section == "Device Information":
            self._of_device(key, value)
        else:
            self._options.setdefault(self.section, {})[key] = value
            if self.section == "Model Options" and key == "Model" and value:
                self._source.setdefault("model", value)
        return True

    def _of_device(self, key: str, value: str) -> None:
        name = _DEVICE.get(key, key)
        number = quantity(value)
        if name == "id":
            self.device = int(value) if value.isdigit() and len(value) < 5 else None
        elif name == "sm_count" and value.isdigit():
            self._facts[name] = int(value)
        elif name == "memory" and number and number.unit == "MiB":
            self._facts[name] = int(number.number) << 20
        else:
            self._facts[name] = value

    def end(self) -> None:
        """Adds the facts."""
        self._rows.fact("source", facts=self._source | self._options)
        if self._facts:
            name = self._facts.pop("name", None)
            self._rows.fact("device", device=self.device or 0, name=name, facts={"api": "cuda"} | self._facts)


#: What precedes a line: the mark of a quotation, the logger's time and level.
PREFIX = re.compile(r"(?:> ?)?\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[[A-Z]\] ?|> ?|\[[FEWIV]\] ?")

_PROFILE = re.compile(r"=== Profile \((\d{1,18}) iterations \) ===")
_TITLE = re.compile(r"=== (.{1,60}) ===\s*")
_HEADING = re.compile(
    r"(?P<avg>Avg\.(?: Time)? ?\(ms\))|(?P<median>Median(?: Time)? ?\(ms\))|(?P<total>Time ?\(ms\))"
    r"|(?P<percent>Time ?(?:%|\(%\)))|(?P<name>Layer)\b"
)
_AVERAGE = re.compile(
    r"Average on (?P<count>\d{1,18}) runs - GPU latency: (?P<gpu>\S+) ms - Host latency: (?P<host>\S+) ms"
    r"(?: \((?P<more>[^()]*)\))?\s*"
)
_OLD_AVERAGE = re.compile(
    r"Average over (?P<count>\d{1,18}) runs is (?P<gpu>\S+) ms \(host walltime is (?P<host>\S+) ms, "
    r"(?P<at>\d+)% percentile time is (?P<percentile>[^\s)]+)\)\.\s*"
)
_PART = re.compile(r"(end to end|enqueue) (\S+) ms")
_QUERIES = re.compile(
    r"(?P<name>Warmup|Timing trace) (?:completed|has) (?P<count>\d{1,18}) queries over (?P<time>\S+) (?P<unit>m?s)\s*"
)
_STATISTICS = re.compile(r"(?P<name>[A-Z][\w -]{1,40}): (?P<figures>min = .*)")
_FIGURE = re.compile(r"(?P<name>min|max|mean|median|percentile)(?:\((?P<at>[\d.]+)%\))? = (?P<value>\S+) ms(?:, |\s*$)")
_TOTAL = re.compile(
    r"(?P<name>Throughput|Total Host Walltime|Total GPU Compute Time): (?P<value>\S+) (?P<unit>qps|s)\s*"
)

#: TensorRT 7: a heading, then a figure in each line.
_GROUP = re.compile(r"(?P<name>Host [Ll]atency|Enqueue Time|GPU Compute)\s*")
_GROUP_LINE = re.compile(
    r"(?P<name>min|max|mean|median|percentile|throughput|walltime|total compute time): "
    r"(?P<value>\S+) (?P<unit>ms|s|qps)(?: at (?P<at>[\d.]+)%)?(?: \(end to end (?P<end>\S+) ms(?: at [\d.]+%)?\))?\s*"
)
_COLUMNS = {"min": "min", "max": "max", "mean": "avg", "median": "median", "95": "p95", "99": "p99"}


class TrtexecLog(LineReader):
    """Adds a summary for each layer, and for each figure of the run."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._about = About(self._rows)
        self._tables = -1
        self._iterations: int | None = None
        self._order: list[str] = []  # the columns of the open table
        self._width = 0  # of its headings
        self._open = False  # whether a profile waits for its row of totals
        self._group = ""
        self._figures: dict[str, dict[str, Any]] = {}

    def take(self, line: Line) -> None:
        match = PREFIX.match(line.text)
        text = line.text[match.end() :] if match else line.text
        level = match[0][-3:-1].strip("[] ") if match and "[" in match[0] else ""
        if self._order and self._layer(text):
            return
        self._order = []
        if not text.strip():
            self._close_group()
            self._lines.structure()
        elif self._title(text) or self._run(text, line) or self._grouped(text):
            return
        elif self._about.takes(text):
            self._lines.became("catalog")
        elif level:
            if level == "W" and text.startswith("* "):
                self._report.issue("capture-warning", f"line {line.number}", text[2:200].strip())
            self._lines.structure()

    def end(self) -> None:
        self._close_group()
        if self._open:
            self._report.issue("cut", "the end", "the profile has no row of totals", 0)
        self._about.end()

    def _title(self, text: str) -> bool:
        """A title, or the headings of the profile."""
        if match := _PROFILE.search(text):
            self._iterations, self._open = int(match[1]), True
        elif match := _TITLE.fullmatch(text):
            self._about.section = match[1]
        elif not self._headings(text):
            return False
        self._close_group()
        self._lines.structure()
        return True

    def _headings(self, text: str) -> bool:
        order = [match.lastgroup or "" for match in _HEADING.finditer(text)]
        is_heading = len(set(order)) == len(order) and {"total", "percent", "name"} <= set(order)
        if not is_heading or _HEADING.sub("", text).strip() or order.index("name") not in (0, len(order) - 1):
            return False
        self._order, self._width = order, len(text.rstrip())
        self._tables += 1
        return True

    def _layer(self, text: str) -> bool:
        """A row of the profile; False for another line, which ends it."""
        last = self._lines.peek() is None
        cells = self._cells(text)
        short = self._order[0] == "name" and len(text.rstrip()) < self._width
        if cells is None or (last and short):
            if last and self._open and text.strip():
                self._lines.skip("cut", "the last row is cut off")
                return True
            return False
        name, figures = cells
        kind, way = ("total", None) if name == "Total" else kind_of(name)
        place: dict[str, Any] = {"table": self._tables, "scope": ["Profile"], "copy_kind": way}
        place["percent"] = float(figures.pop("percent"))
        place |= {column: float(number * 10**6) for column, number in figures.items()}
        if kind == "total":
            self._open = False
        else:
            place["device"] = self._about.device
        self._rows.summary(kind, name, unit="ns", count=self._iterations, **place)
        self._lines.used()
        return True

    def _cells(self, text: str) -> tuple[str, dict[str, Decimal]] | None:
        """The name and the figures in a row, by column; None for a line that isn't a row."""
        count = len(self._order) - 1
        if self._order[0] == "name":
            name, *cells = text.rsplit(None, count) or [""]
            columns = self._order[1:]
        else:
            *cells, name = text.split(None, count) or [""]
            columns = self._order[:-1]
        numbers = [cell_quantity(cell) for cell in cells]
        figures = {
            column: number.number
            for column, number in zip(columns, numbers, strict=False)
            if number and not number.unit and number.number.is_finite()
        }
        return (name.strip(), figures) if len(figures) == len(cells) == count and name.strip() else None

    def _run(self, text: str, line: Line) -> bool:
        """A line with figures of the run."""
        if match := _AVERAGE.fullmatch(text) or _OLD_AVERAGE.fullmatch(text):
            self._average(match)
        elif match := _QUERIES.fullmatch(text):
            total = _time(match["time"], match["unit"])
            self._metric(match["name"], unit="ns", total=total, count=int(match["count"]))
        elif match := _TOTAL.fullmatch(text):
            self._total(match["name"], match["value"], match["unit"])
        elif match := _STATISTICS.fullmatch(text):
            if self._lines.peek() is None and not text.rstrip().endswith(" ms"):
                self._lines.skip("cut", "the figures break off")
                return True
            figures: dict[str, Any] = {}
            for figure in _FIGURE.finditer(match["figures"]):
                _put(figures, figure["at"] or figure["name"], figure["value"], "ms")
            self._metric(match["name"], **figures)
        else:
            return False
        self._lines.used()
        return True

    def _average(self, match: re.Match[str]) -> None:
        parts = {"Host latency": match["host"]}
        fields = match.groupdict()
        if fields.get("more"):
            parts |= {part[1]: part[2] for part in _PART.finditer(fields["more"])}
        if fields.get("percentile"):
            parts[f"percentile({fields['at']}%)"] = fields["percentile"]
        common: dict[str, Any] = {"unit": "ns", "count": int(match["count"]), "scope": ["Trace averages"]}
        head = self._rows.summary("metric", "GPU latency", avg=_time(match["gpu"], "ms"), **common)
        for name, value in parts.items():
            self._rows.summary("metric", name, avg=_time(value, "ms"), parent=head, **common)

    def _total(self, name: str, value: str, unit: str) -> None:
        if unit == "qps":
            number = quantity(value)
            self._metric(name, metric="throughput", unit="qps", value=float(number.number) if number else None)
        else:
            self._metric(name, unit="ns", value=_time(value, unit))

    def _metric(self, name: str, **columns: Any) -> None:
        columns.setdefault("unit", "ns")
        self._rows.summary("metric", name, scope=["Performance summary"], **columns)

    def _grouped(self, text: str) -> bool:
        """Lines of TensorRT 7: the heading of a group, or a figure below it."""
        if match := _GROUP.fullmatch(text):
            self._close_group()
            self._group = match["name"]
            self._lines.structure()
            return True
        match = _GROUP_LINE.fullmatch(text) if self._group else None
        if not match:
            return False
        name = match["name"]
        if name in ("throughput", "walltime", "total compute time"):
            self._total(name, match["value"], match["unit"])
        else:
            key = match["at"] or name
            _put(self._figures.setdefault(self._group, {}), key, match["value"], match["unit"])
            if match["end"]:
                _put(self._figures.setdefault("End to end", {}), key, match["end"], "ms")
        self._lines.used()
        return True

    def _close_group(self) -> None:
        for name, figures in self._figures.items():
            self._metric(name, **figures)
        self._group, self._figures = "", {}


def _put(figures: dict[str, Any], key: str, value: str, unit: str) -> None:
    """Adds a statistic to its column; a percentile without a column goes to args."""
    time = _time(value, unit)
    if key in _COLUMNS:
        figures[_COLUMNS[key]] = time
    else:
        figures.setdefault("args", {})[f"percentile({key}%) (ns)" if key != "percentile" else key] = time


def _time(text: str, unit: str) -> float | None:
    """Returns a time in ns; None if it isn't a finite number."""
    parsed = quantity(text)
    if not parsed or parsed.unit or not parsed.number.is_finite() or abs(parsed.number.adjusted()) > 18:
        return None
    return float(parsed.number * (10**9 if unit == "s" else 10**6))
