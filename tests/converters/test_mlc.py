"""MLC's kernel statistics: seed 002, and samples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from conftest import SAMPLES

from ktrace.trace import read
from ktrace.trace.trace import Trace

DISAGREES = "two-dialects-and-a-peak-that-disagrees.md"


def sample(name: str) -> Trace:
    return read(SAMPLES / "mlc" / name, "mlc")


def seed_kernels(path: Path) -> list[list[str]]:
    """The rows of the statistics of seed 002: seven cells between pipes, the third a number."""
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in path.read_text("utf-8").split("\n")]
    return [cells for cells in rows if len(cells) == 7 and cells[2].isdigit()]


@pytest.mark.parametrize(
    ("precision", "kernels", "milliseconds", "iterations"),
    [("q0f16", 22, "2344.95", 1988), ("q4f16_1", 22, "2257.64", 1967), ("q4f32_1", 21, "4015.16", 1981)],
)
def test_seed_002_has_the_figures_of_the_issue(
    seed: Callable[[int], Path], precision: str, kernels: int, milliseconds: str, iterations: int
) -> None:
    rows = read(seed(2)).summaries
    rows = rows[rows.run == f"Llama 3.2 1B {precision} on Apple M2"]
    assert (len(rows), rows["count"].sum()) == (kernels, iterations)
    assert rows.total.sum() == float(Decimal(milliseconds) * 10**6)
    assert set(rows.precision) == {precision} and set(rows.device) == {0}
    assert set(rows.kind) == {"kernel"} and set(rows.unit) == {"ns"}


def test_seed_002_cell_by_cell(seed: Callable[[int], Path]) -> None:
    path = seed(2)
    rows, expected = read(path).summaries, seed_kernels(path)
    assert len(rows) == len(expected) == 65
    for cells, (_, row) in zip(expected, rows.iterrows(), strict=True):
        times = [float(Decimal(cells[index]) * 10**6) for index in (1, 3, 4)]
        assert [row["name"], row["total"], row["avg"], row["max"]] == [cells[0], *times]
        assert (row["count"], row["percent"]) == (int(cells[2]), float(cells[5].rstrip("%")))
        assert json.loads(row["args"]) == {"Cumulative %": float(cells[6].rstrip("%"))}


def test_seed_002_folds_its_peaks(seed: Callable[[int], Path]) -> None:
    trace = read(seed(2))
    peaks = re.findall(r"^\|? ?\w+ +\| [\d.]+ +\|?$", seed(2).read_text("utf-8"), re.M)
    assert trace.report.issues["folded"].rows == trace.report.reader.removed["folded"] == len(peaks) == 30
    assert set(trace.report.issues) == {"folded"}
    devices = trace.catalog[trace.catalog.entity == "device"]
    assert (devices.name.tolist(), devices.device.tolist()) == (["Apple M2"], [0])


def test_a_peak_that_disagrees_is_kept_and_reported() -> None:
    trace = sample(DISAGREES)
    rows = trace.summaries.set_index("name")
    norm = rows.loc["rms_norm1_kernel"].iloc[0]
    assert norm["max"] == 800_000
    assert json.loads(norm.args) == {"Cumulative %": 98.08, "Peak Time (ms)": 0.75}
    assert trace.report.issues["folded"].rows == 3
    ((where, said),) = trace.report.issues["disagreement"].places
    assert where == "line 14" and "0.75" in said and "0.80" in said


def test_a_peak_without_statistics_stands_for_itself() -> None:
    take = sample(DISAGREES).summaries.set_index("name").loc["take1_kernel"]
    assert (take["max"], take.table, take.unit) == (250_000, 0, "ns")
    assert take[["total", "count"]].isna().all()


def test_runs_tables_and_scopes() -> None:
    rows = sample(DISAGREES).summaries
    assert rows.run.unique().tolist() == ["TinyChat 2 0.5B q0f16 on Apple M1", "TinyChat 2 0.5B q4f16_1 on Apple M1"]
    assert rows.table.tolist() == [1, 1, 1, 0, 2, 2]
    assert list(rows.scope.iloc[-1])[1:] == [
        "Profiling Analysis: TinyChat 2 0.5B q4f16_1 on Apple M1",
        "Kernel Execution Statistics (Sorted by Total Time)",
    ]
    assert rows.total.sum() == (1200 + 75 + 25 + 400 + 100) * 10**6


def test_columns_in_any_order_without_a_title() -> None:
    rows = sample("columns-in-another-order-bom-crlf.txt").summaries
    assert rows.name.tolist() == ["NT_matmul1_kernel", "fused_softmax_kernel"]
    assert (rows.total.tolist(), rows["max"].tolist()) == ([600_000, 400_000], [250_500, 200_000])
    assert rows.run.isna().all() and rows.device.isna().all()


def test_captures_with_the_same_title_are_not_mixed(tmp_path: Path) -> None:
    text = (SAMPLES / "mlc" / DISAGREES).read_text("utf-8")
    path = tmp_path / "twice.md"
    path.write_text(text + "\n" + text)
    rows = read(path, "mlc").summaries
    assert len(rows) == 12
    totals = rows.total.fillna(-1).tolist()
    assert totals[6:] == totals[:6]
    assert rows.table.tolist()[6:] == [5, 5, 5, 4, 6, 6]
