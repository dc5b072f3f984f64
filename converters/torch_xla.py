"""The metrics report of PyTorch/XLA: `torch_xla.debug.metrics.metrics_report()`, 2019 to 2025.

    Metric: ExecuteTime
      TotalSamples: 33
      Accumulator: 30s472ms589.762us                    Counter: until 2019
      ValueRate: 915ms105.186us / second                Mean and StdDev in the server's report
      Rate: 0.991037 / second
      Percentiles: 1%=009ms527.404us; 5%=095ms027.683us; 50%=378ms401.124us; 95%=463ms390.338us; 99%=19s286ms033.353us
    Metric: InboundData
      TotalSamples: 2
      Accumulator: 8.00B
    Counter: CachedCompile
      Value: 30

Metrics of the client and the server are within each other (ExecuteTime, XrtExecute): figures, which don't add up.
Facts: torch_xla/csrc/runtime/metrics.cc (MetricFnTime, MetricFnBytes: KB is 1024 B) of pytorch/xla.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.titles import likely_lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_HEAD = re.compile(r"(?P<what>Metric|Counter): (?P<name>\S{1,200})\s*")
_PROPERTY = re.compile(
    r"\s+(?P<key>TotalSamples|Accumulator|Counter|Mean|StdDev|ValueRate|Rate|Percentiles|Value): ?(?P<value>.{0,4000})"
)
_COLUMNS = {"Accumulator": "total", "Counter": "total", "Mean": "avg", "StdDev": "stddev", "Value": "value"}
_PERCENTILES = {"50%": "median", "95%": "p95", "99%": "p99"}

#: The parts of a time, and of a size, with what they are in ns and in B.
_TIME = re.compile(
    r"(?:(?P<d>\d{1,6})d)?(?:(?P<h>\d\d)h)?(?:(?P<m>\d\d)m(?!s))?(?:(?P<s>\d\d)s)?(?:(?P<ms>\d{2,3})ms)?(?P<us>\d{1,3}(?:\.\d{1,3})?)us"
)
_NS = {"d": 86_400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000}
_SIZE = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,2})?)(?P<unit>[KMGTP]?B)?")
_BYTES = {unit: 1024**power for power, unit in enumerate(("B", "KB", "MB", "GB", "TB", "PB"))}


def probe(sample: Sample) -> Match | None:
    """DIALECT for a metric with its samples in the next line."""
    for number, _ in likely_lines(sample, FORMAT.words):
        if number > 1 and (match := _HEAD.match(sample.lines[number - 2])) and match["what"] == "Metric":
            return Match(Score.DIALECT, f"has metrics of PyTorch/XLA (line {number - 1})")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each metric and each counter."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    name, members, count = "", dict[str, str](), 0
    for line in lines:
        if head := _HEAD.fullmatch(line.text):
            name, members, count = head["name"], {}, 1
        elif name and (one := _PROPERTY.fullmatch(line.text)):
            members[one["key"]] = one["value"].strip()
            count += 1
        else:
            name = ""
            if not line.text.strip():
                lines.structure()
            continue
        if _PROPERTY.fullmatch(lines.peek() or ""):
            lines.defer()
        elif columns := _columns(members):
            rows.summary("metric", name, **columns)
            lines.used(count)
            name = ""
        else:
            lines.structure(count)  # of no samples
            name = ""
        yield from rows.ready()
    rows.fact("source", facts={"tool": "PyTorch/XLA"})
    yield from rows.rest()


def _columns(members: dict[str, str]) -> dict[str, Any]:
    """The figures of a metric in the unit of its sum, the others as arguments; none without a figure."""
    figures = {_COLUMNS[key]: value for key, value in members.items() if key in _COLUMNS}
    for part in members.get("Percentiles", "").split(";"):
        key, _, value = part.strip().partition("=")
        figures |= {_PERCENTILES[key]: value} if key in _PERCENTILES else {}
    read = {column: quantity for column, value in figures.items() if (quantity := _quantity(value))}
    unit = next((unit for _, unit in read.values()), "")
    columns: dict[str, Any] = {column: number for column, (number, its) in read.items() if its == unit}
    if not columns:
        return {}
    samples = members.get("TotalSamples", "")
    args = {key: members[key] for key in ("ValueRate", "Rate", "Percentiles") if members.get(key)}
    metric = {"ns": "duration", "B": "bytes"}.get(unit, "value")
    count = {"count": int(samples)} if samples.isdecimal() and len(samples) < 19 else {}
    return {"metric": metric, "unit": unit or "count", "args": args or None, **count, **columns}


def _quantity(text: str) -> tuple[float, str] | None:
    """A figure and its unit: ns, B or none."""
    if time := _TIME.fullmatch(text):
        return float(sum(Decimal(part) * _NS[unit] for unit, part in time.groupdict().items() if part)), "ns"
    size = _SIZE.fullmatch(text)
    if size is None:
        return None
    number = Decimal(size["number"])
    return (float(number * _BYTES[size["unit"]]), "B") if size["unit"] else (float(number), "")


FORMAT = Format(
    "torch-xla",
    "PyTorch/XLA: metrics report",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read=read,
    words=("totalsamples: ",),
    prose=True,
)
