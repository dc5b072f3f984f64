"""The metrics report of PyTorch/XLA: figures of times, sizes and counts, which don't add up."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.converters.torch_xla import _quantity, probe
from ktrace.input.source import Sample

SAMPLE = SAMPLES / "torch-xla" / "metrics-with-sizes-and-counters.txt"


def test_the_figures_are_those_of_the_sample() -> None:
    rows = ktrace.read(SAMPLE).summaries
    columns = ["name", "metric", "unit", "count", "total", "value", "avg", "median", "p99"]
    found = [[None if pd.isna(cell) else cell for cell in row] for row in rows[columns].values.tolist()]
    minute = 60 * 10**9
    assert found == [
        ["CompileTime", "duration", "ns", 4, 378_660_927, None, None, 150_524_044, 161_778_513],
        [
            "ExecuteTime",
            "duration",
            "ns",
            1121,
            3 * minute + 4_242_643_649,
            None,
            None,
            145_486_663,
            minute + 1_376_662_870,
        ],
        ["XrtReadLiteral", "duration", "ns", 360, 349_719_725, None, 968_666, 731_151, 3_297_894],
        ["InboundData", "bytes", "B", 880, 3.44 * 1024, None, None, 4, 8],
        ["InputOutputAliasCount", "value", "count", 4, 1382, None, None, None, None],
        ["CachedCompile", "value", "count", None, None, 30, None, None, None],
    ]
    assert set(rows["kind"]) == {"metric"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10m29s134ms746.392us", (629_134_746_392, "ns")),
        ("01d02h03m04s005ms006.007us", (93_784_005_006_007, "ns")),
        ("092ms776.335us", (92_776_335, "ns")),
        ("4.09GB", (4.09 * 1024**3, "B")),
        ("1382.00", (1382.0, "")),
        ("nanB", None),
        ("12 minutes", None),
    ],
)
def test_figures(text: str, expected: tuple[float, str] | None) -> None:
    assert _quantity(text) == expected


def test_samples_without_a_metric_are_none_of_it() -> None:
    for text, is_one in (("Metric: A\n  TotalSamples: 3\n", True), ("Loss: A\n  TotalSamples: 3\n", False)):
        assert bool(probe(Sample("a.txt", text.encode()))) is is_one


def test_the_last_metric_may_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(SAMPLE.read_text().partition("  Value: 30")[0])
    rows = ktrace.read(path).summaries
    assert rows["name"].tolist()[-1] == "InputOutputAliasCount"
