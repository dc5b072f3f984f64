"""Google Benchmark: what programs that use it print, and write as JSON (--benchmark_format=json) or CSV.

    ---------------------------------------------------------------
    Benchmark                     Time             CPU   Iterations
    ---------------------------------------------------------------
    BM_Copy/8                  12.5 ns         12.3 ns     56000000 bytes_per_second=0.6G/s
    BM_Sort/1024_mean          3.25 us         3.25 us            3

    {"context": {...}, "benchmarks": [{"name": "BM_Copy/8", "run_type": "iteration", "iterations": 56000000,
      "real_time": 12.5, "cpu_time": 12.3, "time_unit": "ns"}, ...]}

    name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred,error_message
    "BM_Copy/8",56000000,12.5,12.3,ns,6.4e+08,,,,

Times are of one iteration: averages. Benchmarks are measurements, no parts of a whole. Facts: src/console_reporter.cc,
json_reporter.cc and csv_reporter.cc of google/benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source, begins_as_json
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.json_items import beginning, read_elements
from ktrace.kit.text.lines import Lines, quoted_cells
from ktrace.kit.text.numbers import duration_ns, number
from ktrace.kit.text.titles import likely_lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_HEADINGS = re.compile(r"Benchmark +Time +CPU +Iterations(?: UserCounters\.\.\.)?.{0,500}")
_CSV = "name,iterations,real_time,cpu_time,time_unit"
_UNIT = r"ns|us|ms|s"
_ROW = re.compile(
    rf"(?P<name>\S.{{0,500}}?) +(?P<real>\d[\d.e+]{{0,20}}) (?P<unit>{_UNIT}) +(?P<cpu>\d[\d.e+]{{0,20}}) (?:{_UNIT})"
    r" +(?P<iterations>\d{1,15})(?: (?P<counters>.{0,2000}))?"
)
_RULE = re.compile(r"-{20,}")
_AGGREGATES = ("_mean", "_median", "_stddev", "_cv", "_min", "_max")


def probe(sample: Sample) -> Match | None:
    """DIALECT for one of the outputs."""
    text = sample.text or ""
    if sample.is_json:
        is_benchmark = '"benchmarks"' in text and '"real_time"' in text and '"time_unit"' in text
        return Match(Score.DIALECT, "has benchmarks with real_time and time_unit") if is_benchmark else None
    for line, words in likely_lines(sample, ("benchmark ", _CSV)):
        if _HEADINGS.fullmatch(words.rstrip()) or words.startswith(_CSV):
            return Match(Score.DIALECT, f"has the headings of Google Benchmark (line {line})")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each benchmark."""
    rows = RowBuilder(conversion)
    rows.fact("source", facts={"tool": "Google Benchmark"})
    if begins_as_json(beginning(source)):
        yield from read_elements(
            source,
            conversion,
            rows,
            "benchmarks",
            lambda value: _add(rows, {key: str(one) for key, one in value.items()}),
        )
        return
    lines = Lines(source, conversion)
    columns: list[str] | None = None
    for line in lines:
        text = line.text.rstrip()
        if not text.strip() or _RULE.fullmatch(text):
            lines.structure()
        elif _HEADINGS.fullmatch(text):
            columns = []
            lines.structure()
        elif text.startswith(_CSV):
            columns = text.split(",")
            lines.structure()
        elif columns and (cells := quoted_cells(text)) and len(cells) == len(columns):
            lines.used() if _add(rows, dict(zip(columns, cells, strict=True))) else lines.skip("bad-record", "no time")
        elif columns == [] and (match := _ROW.fullmatch(text)):
            counters = dict(part.split("=", 1) for part in (match["counters"] or "").split() if "=" in part)
            cells_ = {"name": match["name"], "iterations": match["iterations"], "real_time": match["real"]}
            _add(rows, cells_ | {"cpu_time": match["cpu"], "time_unit": match["unit"]} | counters)
            lines.used()
        yield from rows.ready()
    yield from rows.rest()


def _add(rows: RowBuilder, cells: dict[str, str]) -> bool:
    """Adds a benchmark; False if it has no time. Aggregates of repetitions are figures of the benchmark."""
    name, unit = cells.pop("name", ""), cells.pop("time_unit", "") or "ns"
    real, cpu = duration_ns(cells.pop("real_time", ""), unit), duration_ns(cells.pop("cpu_time", ""), unit)
    if not name or real is None or cells.get("aggregate_unit") == "percentage" or name.endswith("_cv"):
        return False
    count = number(cells.pop("iterations", ""))
    figure = next((end[1:] for end in _AGGREGATES if name.endswith(end)), "mean")
    columns: dict[str, Any] = {{"mean": "avg"}.get(figure, figure): real}
    if (
        not name.endswith(_AGGREGATES)
        and count is not None
        and count.is_finite()
        and count == int(count)
        and count >= 0
    ):
        columns["count"] = int(count)
    args: dict[str, Any] = {} if cpu is None else {"cpu_ns": cpu}
    args |= {key: value for key, value in cells.items() if value not in ("", "None")}
    rows.summary("metric", name, unit="ns", args=args, **columns)
    return True


FORMAT = Format(
    "google-benchmark",
    "Google Benchmark: console, JSON, CSV",
    patterns=("*.txt", "*.json", "*.csv"),
    probe=probe,
    read=read,
    words=("iterations", '"real_time"'),
)
