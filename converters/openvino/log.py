"""Reads what benchmark_app prints: the counters of `-pc`, and the figures of the run.

[ INFO ] Performance counts for 0-th infer request
conv      Status.EXECUTED  layerType: Convolution   execType: jit_avx512_f32   realTime (ms): 0.103  cpuTime (ms): 0.103
conv      EXECUTED         layerType: Convolution   realTime: 103   cpu: 103   execType: jit_avx512_f32   until 2021
conv      Status.EXECUTEDlayerType: Convolution  realTime: 0:00:00.000103cpu: 0:00:00.000103 execType: jit  in 2022
Total time:     0.103 milliseconds
[ INFO ] Latency:
[ INFO ]    Median:     0.25 ms

Names of 20 characters and more are cut: `branch1/conv/Wit...`.

A layer with its counters as a row of the model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.headings import cell_quantity
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line
from ktrace.model.row_builder import RowBuilder

#: Status of a layer that was measured; others are NOT_RUN and OPTIMIZED_OUT.
EXECUTED = "EXECUTED"

STATUSES = frozenset({EXECUTED, "NOT_RUN", "OPTIMIZED_OUT", "INVALID_STATUS"})


@dataclass
class Layer:
    """A layer as the source states it; times are ns."""

    name: str
    status: str
    type: str
    exec_type: str
    real: float
    args: dict[str, Any] = field(default_factory=dict)
    percent: float | None = None


class Layers:
    """Adds layers. `on_gpu` is True once the source names a GPU as the device of the run."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self.on_gpu = False

    def add(self, layer: Layer, *, table: int, scope: list[str] | None = None) -> None:
        """Adds an executed layer with its time: `kernel` on a GPU, else `op`. One that didn't run is a note.

        The GPU plug-in names the type of the output after the kernel: `convolution_gpu_bfyx_f16__f16`.
        """
        args = ({"execType": layer.exec_type} if layer.exec_type else {}) | layer.args
        place: dict[str, Any] = {"table": table, "scope": scope, "cat": layer.type or None}
        if layer.status != EXECUTED:
            args = {"execStatus": layer.status} | args
            self._rows.summary("note", layer.name, metric="layer", args=args, **place)
            return
        kind = "kernel" if self.on_gpu or "__" in layer.exec_type or "_gpu_" in layer.exec_type else "op"
        figures: dict[str, Any] = {"unit": "ns", "total": layer.real, "percent": layer.percent}
        self._rows.summary(kind, layer.name, args=args, **figures, **place)

    def total(self, name: str, time: float, *, table: int, scope: list[str] | None = None, **more: Any) -> None:
        """Adds the total that the source states after the layers."""
        self._rows.summary("total", name, unit="ns", total=time, table=table, scope=scope, **more)


def status_of(text: str) -> str:
    """Returns the status without the name of Python's enumeration: EXECUTED for Status.EXECUTED."""
    return text.strip().removeprefix("Status.").removeprefix("ProfilingInfo.Status.")


def ns(cell: Any, unit: int = 10**6) -> float | None:
    """Returns a time in ns; None for anything but a finite number. `unit` is the length of its unit in ns."""
    if isinstance(cell, bool) or not isinstance(cell, (int, Decimal, str)):
        return None
    quantity = cell_quantity(str(cell))
    return float(quantity.number * unit) if quantity and not quantity.unit and quantity.number.is_finite() else None


def percent_of(cell: Any) -> float | None:
    """Returns a share as a number: `53.33%`; None for N/A and other text."""
    quantity = cell_quantity(str(cell))
    return float(quantity.number) if quantity and quantity.unit in ("", "%") and quantity.number.is_finite() else None


def number(cell: str) -> Any:
    """A printed time as a value for `args`."""
    quantity = cell_quantity(cell)
    return float(quantity.number) if quantity and not quantity.unit and quantity.number.is_finite() else cell.strip()


def _ns(cell: str) -> float | None:
    """A time in microseconds, or in hours, minutes and seconds, in ns."""
    if match := _CLOCK.fullmatch(cell.strip()):
        return float((int(match[1]) * 3600 + int(match[2]) * 60 + Decimal(match[3])) * 10**9)
    return ns(cell, 1000)


_PREFIX = re.compile(r"\[ ?[A-Z]+ ?\] ?")
_STEP = re.compile(r"\[Step \d+/\d+\] .*")
_TITLE = re.compile(r"(?:Sort p|P)erformance counts(?: sorted)? for (?P<number>\d{1,9})-th infer request:?\s*")
_PLAIN_TITLE = re.compile(r"[Pp]erfo(?:r)?mance counts:\s*")
#: Until 2021 a long type leaves no blank before the next key.
_KEY = re.compile(r"(layerType|execType|realTime \(ms\)|realTime|cpuTime \(ms\)|cpu|proportion): ")
#: In 2018 the status is right behind the name: `conv1:EXECUTED`.
_STUCK = re.compile(r":(?=(?:EXECUTED|NOT_RUN|OPTIMIZED_OUT)\s*$)")
_TOTAL = re.compile(r"(?P<name>Total(?: CPU)? time): +(?P<value>\S+) +(?P<unit>milliseconds|microseconds)\s*")
_PROPORTION = re.compile(r"Total proportion: .*")
_LATENCY = re.compile(r"Latency:\s*|Latency for each data shape group:.*")
_STATISTIC = re.compile(r"(?P<name>Median|Average|AVG|Min|MIN|Max|MAX|\d{1,3} percentile): +(?P<value>\S+) ms\s*")
_RUN = re.compile(r"(?P<name>Count|Duration|Throughput|Latency): +(?P<value>\S+) (?P<unit>iterations|ms|FPS)\s*")
_FACT = re.compile(
    r"(?P<key>Build|NETWORK_NAME|EXECUTION_DEVICES|Execution Devices|Full device name)(?: \.+|:) ?(?P<value>.*)",
    re.DOTALL,
)
#: A time of Python's as benchmark_app prints it in 2022: h:mm:ss and microseconds.
_CLOCK = re.compile(r"(\d{1,4}):(\d\d):(\d\d(?:\.\d{6})?)")
_COLUMNS = {"median": "median", "average": "avg", "avg": "avg", "min": "min", "max": "max"}
_FACTS = {"Build": "version", "NETWORK_NAME": "model"}
_METRICS = {"iterations": ("count", 1), "ms": ("ns", 10**6), "FPS": ("FPS", 1)}


class BenchmarkAppLog(LineReader):
    """Adds a summary for each layer of each infer request, and for each figure of the run."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._layers = Layers(self._rows)
        self._table = -1
        self._scope: list[str] | None = None
        self._open = False  # whether layers wait for their total
        self._latency: dict[str, Any] | None = None
        self._facts: dict[str, Any] = {"tool": "OpenVINO benchmark_app"}

    def take(self, line: Line) -> None:
        match = _PREFIX.match(line.text)
        text = line.text[match.end() if match else 0 :].strip()
        if self._latency is not None and not _STATISTIC.fullmatch(text):
            self._close_latency()
        if not text:
            self._lines.structure()
        elif "layerType: " in line.text:
            self._layer(line.text)
        elif title := _TITLE.fullmatch(text):
            self._begin([f"infer request {title['number']}"])
        elif _PLAIN_TITLE.fullmatch(text):
            self._begin(None)
        elif not self._figure(text) and (match or _STEP.fullmatch(text) or _PROPORTION.fullmatch(text)):
            self._lines.structure()

    def end(self) -> None:
        self._close_latency()
        if self._open:
            self._report.issue("cut", "the end", "the layers have no total", 0)
        self._rows.fact("source", facts=self._facts)

    def _begin(self, scope: list[str] | None) -> None:
        self._table += 1
        self._scope, self._open = scope, True
        self._lines.structure()

    def _layer(self, line: str) -> None:
        """A line with the counters of a layer."""
        head, _, rest = line.partition("layerType: ")
        words = _STUCK.sub(": ", head).rsplit(None, 1)
        fields, keys = {}, list(_KEY.finditer("layerType: " + rest))
        whole = "layerType: " + rest
        for key, following in zip(keys, [*keys[1:], None], strict=True):
            fields[key[1]] = whole[key.end() : following.start() if following else None].strip()
        real = ns(fields["realTime (ms)"]) if "realTime (ms)" in fields else _ns(fields.get("realTime", ""))
        status = status_of(words[-1]) if words else ""
        lacks_end = not ({"cpuTime (ms)", "cpu"} & fields.keys() and fields.get("execType"))
        if len(words) < 2 or status not in STATUSES or real is None or lacks_end:
            cut = self._lines.peek() is None
            self._lines.skip("cut" if cut else "bad-record", "" if cut else "no name, no status or no time")
            return
        self._table = max(self._table, 0)
        args = {name: number(fields[name]) for name in ("cpuTime (ms)", "cpu") if name in fields}
        layer = Layer(words[0].rstrip().removesuffix(":"), status, fields["layerType"], fields["execType"], real, args)
        layer.percent = percent_of(fields["proportion"]) if "proportion" in fields else None
        self._layers.add(layer, table=self._table, scope=self._scope)
        self._lines.used()

    def _figure(self, text: str) -> bool:
        """A total, a figure of the run or a fact."""
        if match := _TOTAL.fullmatch(text):
            return self._total(match)
        if _LATENCY.fullmatch(text):
            self._latency = {}
            self._lines.structure()
            return True
        if self._latency is not None and (match := _STATISTIC.fullmatch(text)):
            name, value = match["name"].lower(), ns(match["value"])
            if name in _COLUMNS:
                self._latency[_COLUMNS[name]] = value
            else:
                self._latency.setdefault("args", {})[f"{name} (ns)"] = value
            self._lines.used()
            return True
        if match := _RUN.fullmatch(text):
            unit, factor = _METRICS[match["unit"]]
            metric = {"FPS": "throughput", "count": "count"}.get(unit, "duration")
            self._rows.summary("metric", match["name"], metric=metric, unit=unit, value=ns(match["value"], factor))
            self._lines.used()
            return True
        if match := _FACT.fullmatch(text):
            key = match["key"]
            if key in ("EXECUTION_DEVICES", "Execution Devices"):
                self._layers.on_gpu = "GPU" in match["value"] and "CPU" not in match["value"]
            self._facts.setdefault(_FACTS.get(key, key), match["value"].strip())
            self._lines.became("catalog")
            return True
        return False

    def _total(self, match: re.Match[str]) -> bool:
        value = ns(match["value"], 10**6 if match["unit"] == "milliseconds" else 1000)
        if value is None:
            return False
        self._open = False
        place: dict[str, Any] = {"table": max(self._table, 0), "scope": self._scope}
        if match["name"] == "Total time":
            self._layers.total(match["name"], value, **place)
        else:
            self._rows.summary("metric", match["name"], unit="ns", value=value, **place)
        self._lines.used()
        return True

    def _close_latency(self) -> None:
        if self._latency:
            self._rows.summary("metric", "Latency", unit="ns", **self._latency)
        self._latency = None
