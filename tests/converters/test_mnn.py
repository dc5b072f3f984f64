"""MNN's tools: models, nodes by name or by type, runs; nodes by type repeat those by name."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import KtraceError
from ktrace.trace import read
from ktrace.trace.trace import Trace

BENCHMARK = SAMPLES / "mnn" / "benchmark-of-two-backends.txt"
TABLES = SAMPLES / "mnn" / "nodes-by-name-then-type.txt"
CALLBACK = SAMPLES / "mnn" / "nodes-by-callback-cut.log"


def found(trace: Trace, *columns: str) -> list[tuple[Any, ...]]:
    rows = trace.summaries[list(columns)].values.tolist()
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in rows]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.txt"
    path.write_text(text, "utf-8")
    return path


def test_models_have_their_settings() -> None:
    trace = read(BENCHMARK)
    expected = [
        (name, *(float(Decimal(time) * 10**6) for time in times))
        for name, *times in re.findall(
            r"\[ - \] (.+?) +max = +([\d.]+) ?ms  min = +([\d.]+) ?ms  avg = +([\d.]+) ?ms",
            BENCHMARK.read_text("utf-8"),
        )
    ]
    assert found(trace, "name", "max", "min", "avg") == expected
    assert [name for name, *_ in expected] == ["vgg16.mnn", "my model v2.mnn"]
    assert found(trace, "kind", "count") == [("metric", None), ("metric", 10)]
    args = [json.loads(text) for text in trace.summaries.args]
    assert args[0] == {"forward type": "CPU"}
    assert (args[1]["forward type"], args[1]["thread"], args[1]["warmup"]) == ("OpenCL", "4", 5)


def test_nodes_by_name_and_what_repeats_them() -> None:
    trace = read(TABLES)
    assert found(trace, "kind", "name", "layer", "avg", "total", "count", "percent", "table") == [
        ("op", "Convolution", "conv 1", 250_000, 250_000, 1, 62.5, 0),
        ("op", "ReLU", "relu", 50_000, 50_000, 1, 12.5, 0),
        ("op", "Convolution", "conv2", 100_000, 100_000, 1, 25.0, 0),
        ("total", "all nodes", None, 400_000, None, None, None, 0),
        ("op", "Raster", None, 5_000, 10_000, 2, 100.0, 1),  # by type alone
        ("total", "all nodes", None, 10_000, None, None, None, 1),
    ]
    assert trace.report.reader.removed["folded"] == 2
    assert ktrace.summary(TABLES).total == 250_000 + 50_000 + 100_000 + 10_000


def test_nodes_of_a_callback_and_runs() -> None:
    trace = read(CALLBACK)
    assert found(trace, "kind", "name", "layer", "avg", "total", "count", "table") == [
        ("op", "ReLU", "relu", 50_000, 500_000, 10, 0),
        ("op", "Convolution", "conv1", 350_000, 3_500_000, 10, 0),
        ("metric", "run", None, 410_000, None, 10, 0),
        ("total", "all nodes", None, 400_000, None, 10, 0),
        ("metric", "run", None, 380_000, None, None, 1),
        ("op", "Softmax", "softmax", 20_000, 60_000, 3, 2),
    ]
    assert dict(trace.report.reader.removed) == {"structure": 4, "unrecognised": 1}


@pytest.mark.parametrize(
    "row",
    [
        "relu \tReLU \tfast \t12.5 \t5.0 \t",
        "relu \tReLU \t0.050000 \t12.500000 \t",
        "\tReLU \t0.050000 \t1.0 \t1.0 \t1 \t",
    ],
)
def test_rows_that_fit_no_heading_are_skipped(tmp_path: Path, row: str) -> None:
    text = f"Node Name \tOp Type \tAvg(ms) \t% \tFlops Rate \t\n{row}\nconv \tConvolution \t0.25 \t62.5 \t70.0 \t\n"
    trace = read(written(tmp_path, text))
    assert found(trace, "name", "layer", "avg") == [("Convolution", "conv", 250_000)]
    assert dict(trace.report.reader.removed) == {"structure": 1, "bad-record": 1}


def test_a_table_that_breaks_off(tmp_path: Path) -> None:
    text = "Node Name \tOp Type \tAvg(ms) \t% \t\nconv \tConvolution \t0.25 \t62.5 \t\nrelu \tReLU \t0."
    assert dict(read(written(tmp_path, text)).report.reader.removed) == {"structure": 1, "cut": 1}


@pytest.mark.parametrize(
    "line",
    ["[ - ] a.mnn  max = 1.0 ms  min = 1.0 ms", "relu \t[ReLU] run 10 average cost"],
)
def test_other_lines_are_none_of_it(tmp_path: Path, line: str) -> None:
    with pytest.raises(KtraceError, match="unrecognised format"):
        read(written(tmp_path, f"{line}\n"))
