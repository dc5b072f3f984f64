"""What people write into the cells and headings of tables: more than a number, and units anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktrace
from ktrace.kit.text.headings import figure, heading, share_in, unit_in
from ktrace.kit.text.numbers import with_point
from ktrace.trace import read
from ktrace.trace.trace import Trace


@pytest.mark.parametrize(
    ("cell", "number", "unit"),
    [
        *(
            ("100 ± 1", "100", ""),
            ("100 ± 1 ms", "100", "ms"),
            ("9 ms ± 1 ms", "9", "ms"),
            ("1.5ms±0.1", "1.5", "ms"),
            ("3 +/- 0.2 us", "3", "us"),
        ),
        *(("12 (30%)", "12", ""), ("12 ms (30%)", "12", "ms"), ("1.5 [0.2]", "1.5", ""), ("1.5 ms (avg)", "1.5", "ms")),
        *(("~3", "3", ""), ("≈3 us", "3", "us"), ("<0.01", "0.01", ""), ("1.5*", "1.5", ""), ("1.5 ms ↓", "1.5", "ms")),
        *(("1.5 → 1.2", "1.2", ""), ("1.5 ms -> 1.2 ms", "1.2", "ms")),
        *(("1.5 ms/iter", "1.5", "ms"), ("3 us per call", "3", "us"), ("0.5 usec", "0.5", "usec")),
        *(("1m 20s", "80", "s"), ("1m20s", "80", "s"), ("2.5 min", "150", "s"), ("2h 3m", "7380", "s")),
        *(("1:00.000", "60", "s"), ("1:02:03", "3723", "s"), ("0:00:01.5", "1.5", "s")),
        *(("1 234.5 us", "1234.5", "us"), ("1'234.5", "1234.5", ""), ("1_000", "1000", ""), ("12,345", "12345", "")),
    ],
)
def test_a_cell_with_more_than_a_number(cell: str, number: str, unit: str) -> None:
    found = figure(cell)
    assert (found is not None and (str(found.number.normalize()), found.unit) == (number.rstrip(), unit)) or (
        found is not None and found.number == int(number) and found.unit == unit
    )


@pytest.mark.parametrize(
    "cell",
    [
        "00000000:01:00.0",
        "10:00:01",
        "23:59:59.5",
        "3 of 4 done",
        "GPU 7",
        "gemm 3",
        "2024-01-02",
        "12:30",
        "v1.2",
        "1.2.3",
        "7/8",
        "",
        "-",
        "conv 3x3 (2)",
    ],
)
def test_other_text_is_no_figure(cell: str) -> None:
    assert figure(cell) is None


def test_a_share_in_brackets() -> None:
    assert share_in("12 ms (30.5%)") == 30.5
    assert share_in("12 ms (30)") is None and share_in("(30%)") is None


@pytest.mark.parametrize(
    ("cell", "expected"),
    [("1.234,5", "1234.5"), ("1 234,5 ms", "1234.5 ms"), ("1,5 ± 0,2 ms", "1.5 ± 0.2 ms"), ("~1,5", "~1.5")],
)
def test_decimal_commas(cell: str, expected: str) -> None:
    assert with_point(cell) == expected


@pytest.mark.parametrize("name", ["f<1,2>(int)", "conv 3,5", "gemm"])
def test_a_comma_in_a_name_stays(name: str) -> None:
    assert with_point(name) == name


@pytest.mark.parametrize(
    ("text", "key", "unit"),
    [
        *(("Time/ms", "time", "ms"), ("us", "", "us"), ("time_in_us", "time", "us"), ("Time, ms", "time", "ms")),
        *(("Time (in ms)", "time", "ms"), ("Latency (us/call)", "latency per call", "us"), ("ns/op", "per op", "ns")),
        *(("GPU ms total", "gpu total", "ms"), ("ms avg", "avg", "ms"), ("Wall time s", "wall time", "s")),
        *(("Total (us) (f64)", "total", "us"), ("Kernel (str)", "kernel", "")),
        *(("begin_s", "begin", "s"), ("ts_s", "ts", "s"), ("friend_s", "friend s", ""), ("items_s", "items s", "")),
        *(("tokens/s", "tokens/s", ""), ("GB/s", "gb/s", ""), ("Calls", "calls", "")),
    ],
)
def test_a_unit_anywhere_in_a_heading(text: str, key: str, unit: str) -> None:
    assert (heading(text).key, heading(text).unit) == (key, unit)


@pytest.mark.parametrize(
    "text", ["iterations per second", "tokens_per_sec", "GB per second", "launches per ms", "iterations / second"]
)
def test_a_rate_is_no_time(text: str) -> None:
    """894 iterations per second were read as 894 s."""
    assert heading(text).unit == ""


@pytest.mark.parametrize(
    ("title", "unit"),
    [
        *(("Kernel times (ms)", "ms"), ("Times are in microseconds (us).", "microseconds"), ("Units: us", "us")),
        *(("profile, times in us", "us"), ("took 3 ms", ""), ("profile (5 s)", ""), ("measured over 5 s", "")),
    ],
)
def test_a_unit_in_the_title(title: str, unit: str) -> None:
    assert unit_in(title) == unit


def of(text: str, tmp_path: Path) -> Trace:
    path = tmp_path / "table.md"
    path.write_text(text, "utf-8")
    return read(path)


@pytest.mark.parametrize(
    "text",
    [
        "Kernel times (ms)\n\n| Kernel | Calls | Total |\n|---|---|---|\n| a | 2 | 1.5 |\n| b | 1 | 0.5 |\n",
        "All times are in ms.\n\nKernel  Calls  Total\na           2    1.5\nb           1    0.5\n",
        "Kernel,Calls,Total,Unit\na,2,1.5,ms\nb,1,500,us\n",
        "Kernel;Calls;Total (ms)\na;2;1,5 ± 0,1\nb;1;0,5\n",
        "| Kernel | Calls | Total |\n|---|---|---|\n| a | 2 | 1.5 ms (75%) |\n| b | 1 | ~500 us |\n",
    ],
)
def test_where_units_may_stand(text: str, tmp_path: Path) -> None:
    rows = of(text, tmp_path).summaries
    assert rows.name.tolist() == ["a", "b"] and rows.total.tolist() == [1_500_000, 500_000]
    assert rows["count"].tolist() == [2, 1] and set(rows.unit) == {"ns"}


def test_a_cell_with_more_than_a_number_is_kept_as_it_was(tmp_path: Path) -> None:
    rows = of("| Kernel | Total (ms) |\n|---|---|\n| a | 1.5 ± 0.1 |\n| b | 3.0 (66%) |\n", tmp_path).summaries
    assert rows.args[0] == '{"Total (ms)":"1.5 ± 0.1"}' and rows.percent[1] == 66


def test_a_row_without_a_readable_figure_is_told(tmp_path: Path) -> None:
    trace = of("| Kernel | Total (ms) |\n|---|---|\n| a | 1.5 |\n| b | see below |\n| c | 2 |\n", tmp_path)
    assert trace.summaries.name.tolist() == ["a", "c"]
    assert trace.report.issues["bad-record"].places == [("line 4", "no figure")]


@pytest.mark.parametrize(
    ("text", "is_part"),
    [
        ("Top 2 of 14 kernels by time", True),
        ("(2 of 14 rows shown)", True),
        ("14 rows (2 shown)", True),
        ("Kernels, showing 2 out of 1,400", True),
        ("Top 2 of 2 kernels", False),
        ("Top 2 kernels", False),
        ("Step 2 of 14", False),
        ("2 of 14 kernels use tensor cores", False),
    ],
)
def test_what_says_that_a_table_is_a_part(text: str, is_part: bool, tmp_path: Path) -> None:
    table = "| Kernel | Time (ms) |\n|---|---|\n| a | 30 |\n| b | 20 |\n"
    for name, whole in (("above", f"{text}\n\n{table}"), ("below", f"{table}\n{text}\n")):
        path = tmp_path / f"{name}.md"
        path.write_text(whole, "utf-8")
        summary = ktrace.summary(path)
        assert [one.code for one in summary.checks] == (["check.table_cut"] if is_part else [])
        assert any(one.code.startswith("heaviest") for one in summary.findings) is not is_part
