"""Files that write 2,5 where others write 2.5."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SAMPLES

from ktrace.errors import DamagedInput
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.kit.text.numbers import quantity, separator_in, with_point
from ktrace.trace import read
from ktrace.trace.trace import Trace


def one(tmp_path: Path, text: str) -> Trace:
    path = tmp_path / "some.txt"
    path.write_text(text, "utf-8")
    assert choose(Source(str(path))).name == "table"
    return read(path)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        *(
            (cell, "comma")
            for cell in ("2,5", "0,125", "-0,125 ms", "1.234,5", "1.234.567", "12,3456", "1234,567", "45,64%")
        ),
        *((cell, "point") for cell in ("2.5", "0.125", "1,234.5", "1,234,567", "12.3456", "1234.567 us", "1.5e-3")),
        *((cell, "either") for cell in ("1,234", "999,000 ms")),
        *((cell, "") for cell in ("1.234", "5", "gemm", "1,2,3", "1.2,3.4", "", "f(1,5)", "1,5,6 x")),
    ],
)
def test_what_a_cell_says(cell: str, said: str) -> None:
    assert separator_in(cell) == said


@pytest.mark.parametrize(
    ("cell", "pointed"),
    [("2,5", "2.5"), ("1.234,5 ms", "1234.5 ms"), ("1.234", "1234"), ("-0,125", "-0.125"), ("45,64%", "45.64%")]
    + [(text, text) for text in ("gemm", "1,234,567", "1,234.5", "conv 3,5 x", "f(1,5)", "12.5,1")],
)
def test_with_a_point(cell: str, pointed: str) -> None:
    assert with_point(cell) == pointed


def test_a_decimal_comma_is_none_between_thousands() -> None:
    assert quantity("0,125") is None and quantity("0,125 ms") is None
    found = quantity("1,125")
    assert found is not None and found.number == 1125


@pytest.mark.parametrize("separator", [";", "\t", " | ", "   "])
def test_a_file_with_decimal_commas(tmp_path: Path, separator: str) -> None:
    rows = [("conv 3,5", "0,125", "3", "2,5"), ("fc", "1.234,5", "1.024", "97,5")]
    lines = [("layer", "Time (ms)", "Calls", "Time (%)"), *rows]
    trace = one(tmp_path, "\n".join(separator.join(cells) for cells in lines) + "\n")
    found = trace.summaries
    assert found.name.tolist() == ["conv 3,5", "fc"]
    assert found.total.tolist() == [125_000, 1_234_500_000]
    assert found["count"].tolist() == [3, 1024] and found.percent.tolist() == [2.5, 97.5]


def test_the_sample() -> None:
    found = read(SAMPLES / "table" / "decimal-commas-and-points-between-thousands.csv").summaries
    assert found.name.tolist() == ["conv 3,5", "fc", "norm"]
    assert found.total.tolist() == [125_000, 1_234_500_000, 28_542_000] and found["count"].tolist() == [3, 1024, 7]
    assert found.percent.tolist() == [0.5, 97.25, 2.25]


def test_units_in_the_cells(tmp_path: Path) -> None:
    found = one(
        tmp_path, "layerName;execStatus;realTime;cpuTime\nconv;EXECUTED;2,5 ms;1,125 ms\n".replace("layerName", "layer")
    ).summaries
    assert found.value.tolist() == [2_500_000]


def test_quotes_in_a_file_with_commas_between_cells(tmp_path: Path) -> None:
    found = one(tmp_path, 'Kernel,Duration (ms),Calls\nk,"1,125",3\nl,"2,5",4\n').summaries
    assert found.total.tolist() == [1_125_000, 2_500_000]


def test_a_timeline_with_decimal_commas(tmp_path: Path) -> None:
    found = one(tmp_path, "Name;Start (us);Duration (us)\na;1.699.529.622.790.614,8;607,98\n").events
    assert (found.ts[0], found.dur[0]) == (1_699_529_622_790_614_800, 607_980)


def test_thousands_stay_thousands(tmp_path: Path) -> None:
    found = one(tmp_path, "Kernel\tTime (ms)\tCalls\nk\t1,024\t3\nl\t2.5\t1,024\n").summaries
    assert found.total.tolist() == [1_024_000_000, 2_500_000] and found["count"].tolist() == [3, 1024]
    found = one(tmp_path, "Kernel\tTime (ns)\tCalls\nk\t64,892\t1,024\n").summaries
    assert found.total.tolist() == [64_892]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (("2,5", "2.5"), "writes numbers in two ways: '2,5' and '2.5'"),
        (("1,125", "7"), "contains '1,125', but nothing that shows whether the comma is decimal or groups thousands"),
    ],
)
def test_what_nobody_can_know_is_refused(tmp_path: Path, cells: tuple[str, str], said: str) -> None:
    path = tmp_path / "some.tsv"
    path.write_text("Kernel\tTime (ms)\n" + "".join(f"k\t{cell}\n" for cell in cells), "utf-8")
    with pytest.raises(DamagedInput, match="LC_ALL=C") as error:
        read(path)
    assert error.value.what == said and error.value.path == str(path)
