"""JSON of programs that measure: pytest-benchmark (--benchmark-json) and nvbench (--json).

    {"machine_info": {...}, "benchmarks": [{"name": "test_gemm[128]", "fullname": "tests/b.py::test_gemm[128]",
      "stats": {"min": 1.05e-05, "max": 5.5e-05, "mean": 1.2e-05, "stddev": 1.2e-06, "rounds": 5102, ...}}]}

    {"devices": [...], "benchmarks": [{"name": "copy", "states": [{"device": 0, "axis_values": [{"name": "T", ...}],
      "summaries": [{"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "value": "1.26e-05"}]}]}]}]}

All times are seconds. What pytest-benchmark measures is the host's, and no part of a whole; the GPU time of nvbench is
the mean of its samples. Facts: src/pytest_benchmark/fixture.py; json_printer.cu and measure_cold.cu of nvbench.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.json_items import read_elements
from ktrace.kit.text.numbers import duration_ns, number
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_FIGURES = {"mean": "avg", **{name: name for name in ("min", "max", "median", "stddev", "total")}}

#: Tags of nvbench's summaries -> what they are; times in seconds.
_GPU, _CPU, _SAMPLES = "nv/cold/time/gpu/mean", "nv/cold/time/cpu/mean", "nv/cold/sample_size"


def probe(sample: Sample) -> Match | None:
    """DIALECT for the members of one of the programs."""
    text = sample.text or ""
    if not sample.is_json or '"benchmarks"' not in text:
        return None
    if '"machine_info"' in text and '"stats"' in text:
        return Match(Score.DIALECT, "has benchmarks with stats, as pytest-benchmark writes them")
    if '"states"' in text and '"nv/cold/' in text:
        return Match(Score.DIALECT, "has benchmarks with states and summaries, as nvbench writes them")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each benchmark, or for each state of one."""
    rows = RowBuilder(conversion)
    yield from read_elements(
        source, conversion, rows, "benchmarks", lambda value: sum(_add(rows, *one) for one in _measured(value))
    )


def _measured(value: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The kind, the name and the columns of the measurements of a benchmark; times are ns, None for none."""
    stats, states = value.get("stats"), value.get("states")
    name = str(value.get("fullname") or value.get("name") or "")
    if isinstance(stats, dict):
        figures = {column: _ns(stats.get(key)) for key, column in _FIGURES.items()}
        args = {key: value[key] for key in ("group", "params", "extra_info") if value.get(key)}
        yield "metric", name, figures | {"count": _count(stats.get("rounds")), "args": args}
    for state in states if isinstance(states, list) else ():
        if isinstance(state, dict):
            axes = _values(state.get("axis_values"), "name", "value")
            measures = {tag: _values(data, "name", "value").get("value") for tag, data in _tagged(state)}
            named = " ".join(f"{axis}={at}" for axis, at in axes.items())
            columns = {"avg": _ns(measures.get(_GPU)), "count": _count(measures.get(_SAMPLES))}
            args = {"cpu_ns": cpu} if (cpu := _ns(measures.get(_CPU))) is not None else {}
            device = _count(state.get("device"))
            yield "kernel", f"{name} [{named}]" if named else name, columns | {"device": device, "args": args}


def _tagged(state: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The summaries of a state: their tags and data."""
    summaries = state.get("summaries")
    if isinstance(summaries, list):
        yield from ((str(one.get("tag")), one.get("data")) for one in summaries if isinstance(one, dict))


def _values(items: Any, key: str, value: str) -> dict[str, Any]:
    """Named values in a list of objects."""
    return {str(one.get(key)): one.get(value) for one in items or () if isinstance(one, dict)} if items else {}


def _add(rows: RowBuilder, kind: str, name: str, columns: dict[str, Any]) -> bool:
    """Adds a measurement; False if it has no time."""
    if not name or columns.get("avg") is None:
        return False
    columns = {key: value for key, value in columns.items() if value is not None}
    rows.summary(kind, name, unit="ns", **(columns | {"args": columns["args"] or None}))
    return True


def _ns(value: Any) -> float | None:
    """Seconds as ns; None for what is no time."""
    return duration_ns(str(value), "s")


def _count(value: Any) -> int | None:
    parsed = number(str(value)) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
    return int(parsed) if parsed is not None and parsed.is_finite() and 0 <= parsed < 1 << 62 else None


FORMAT = Format(
    "benchmark-json",
    "pytest-benchmark and nvbench: JSON",
    patterns=("*.json",),
    probe=probe,
    read=read,
    words=('"benchmarks"',),
    document=True,
)
