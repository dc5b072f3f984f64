"""The tables of Paddle's profiler: operators and kernels add up, other views of the same time don't."""

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

VIEWS = SAMPLES / "paddle" / "views-of-a-gpu.log"
CUT = SAMPLES / "paddle" / "operators-in-us-indented-cut.txt"
FIGURES = ("total", "avg", "max", "min", "percent")


def rows(trace: Trace, *columns: str, **where: str) -> list[tuple[Any, ...]]:
    """Columns of the summaries for which others have these values, None for nulls."""
    found = trace.summaries
    for name, value in where.items():
        found = found[found[name] == value]
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in found[list(columns)].values.tolist()]


def cells(path: Path, factor: int) -> list[tuple[Any, ...]]:
    """Name and figures in ns of each cell of five figures that has a total, in the order of the text."""
    found = []
    for line in path.read_text("utf-8").splitlines():
        parts = re.split(r" {2,}", line.strip())
        for cell in parts[2:4]:
            figures = cell.split(" / ")
            if len(figures) == 5 and figures[0] not in ("-", "0.00", "CPU Total", "GPU Total"):
                ns = [None if text == "-" else float(Decimal(text) * factor) for text in figures[:4]]
                found.append((parts[0], *ns, float(figures[4])))
    return found


@pytest.mark.parametrize(("path", "factor"), [(VIEWS, 1_000_000), (CUT, 1_000)])
def test_every_cell_of_five_figures_is_a_summary(path: Path, factor: int) -> None:
    trace = read(path)
    plain = trace.summaries[trace.summaries.avg.notna() | (trace.summaries.name == "Others")]
    found = [
        tuple(None if pd.isna(cell) else cell for cell in row) for row in plain[["name", *FIGURES]].values.tolist()
    ]
    assert found == cells(path, factor)
    assert len(found) == (18 if path == VIEWS else 3)


def test_what_adds_up_and_what_is_within_it() -> None:
    trace = read(VIEWS)
    assert rows(trace, "name", "id", "parent", kind="op") == [
        ("matmul dygraph", 15, None),
        ("matmul infer_meta", 17, 15),
        ("matmul kernel launch", 18, 15),
        ("GpuMemcpyAsync:CPU->GPU", 21, 15),
        ("relu dygraph", 22, None),
    ]
    assert rows(trace, "name", "parent", metric="GPU time")[4:] == [
        ("matmul dygraph", 15),
        ("matmul kernel launch", 18),
        ("void gemm<float, 128>(Params...", 18),
        ("relu dygraph", 22),
    ]
    assert rows(trace, "name", "total", "count", kind="kernel") == [
        ("void gemm<float, 128>", 12_000_000, 4),
        ("relu_kernel", 250_000, 1),
    ]
    assert ktrace.summary(VIEWS).total == 12_250_000


def test_operators_add_up_where_there_are_no_kernels(tmp_path: Path) -> None:
    text = VIEWS.read_text("utf-8")
    path = tmp_path / "cpu.log"
    path.write_text(text[: text.index("Kernel Summary")].rstrip("-"), "utf-8")
    assert ktrace.summary(path).total == 6_500_000 + 2_000_000  # neither what is in them, nor phases and event types


def test_totals_of_event_types_and_of_communication() -> None:
    trace = read(VIEWS)
    found = [row for row in rows(trace, "name", "metric", "total", "count", "percent", "avg") if row[5] is None]
    assert [row[:5] for row in found if row[2] is not None and row[0] != "Others"][:5] == [
        ("ProfileStep", "CPU time", 20_000_000, 2, 100.0),
        ("Operator", "CPU time", 8_500_000, 6, 42.5),
        ("Kernel", "GPU time", 12_250_000, 5, 61.25),
        ("ProfileStep", "time", 20_000_000, None, 100.0),
        ("Communication", "time", 2_000_000, None, 10.0),
    ]
    assert rows(trace, "name", "value", metric="utilization") == [
        ("CPU(Process)", 102.29),
        ("CPU(System)", 4.7),
        ("GPU0", 59.68),
    ]


def test_memory_and_flops() -> None:
    trace = read(VIEWS)
    memory = trace.summaries[trace.summaries.metric == "memory"]
    assert memory[["kind", "name", "unit"]].values.tolist() == [
        ["metric", "Peak Allocated Memory", "B"],
        ["metric", "Peak Reserved Memory", "B"],
        ["alloc", "matmul kernel launch", "B"],
        ["alloc", "backward", "B"],
    ]
    assert memory[["total", "count"]].values.tolist()[2:] == [[65_536, 4], [0, 0]]
    args = json.loads(memory.args.iloc[3])
    assert args == {
        "place": "Place(gpu:0)",
        "Type": "Reserved",
        "Free Count": 3,
        "Free Size": 53_004,
        "Increased Size": -53_004,
    }
    flops = trace.summaries[trace.summaries.name == "matmul dygraph"].args.iloc[0]
    assert json.loads(flops) == {"FLOPs": 268_435_456}


def test_other_lines_are_told() -> None:
    assert dict(read(VIEWS).report.reader.removed) == {"structure": 78, "unrecognised": 1}
    assert dict(read(CUT).report.reader.removed) == {"structure": 7, "unrecognised": 2}


@pytest.mark.parametrize("text", ["Model Summary\nForward  2  5.00\n", "Name  Calls  Total / Avg / Max / Min\n"])
def test_other_texts_are_none_of_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(text, "utf-8")
    with pytest.raises(KtraceError, match="unrecognised format"):
        read(path)
