"""Tables in every style of tabulate, rich, prettytable, texttable, pandas, polars and DuckDB are read alike."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

pytest.importorskip("tabulate")
pytest.importorskip("prettytable")
pytest.importorskip("texttable")

import duckdb
import pandas as pd
import polars as pl
import table_styles
from table_styles import ROWS, TOTAL

from ktrace.report import Severity
from ktrace.trace import read
from ktrace.trace.trace import Trace

NAMES = [row[0] for row in ROWS]


def of(text: str, tmp_path: Path) -> Trace:
    path = tmp_path / "table.txt"
    path.write_text(text.rstrip("\n") + "\n", "utf-8")
    return read(path)


def rows(trace: Trace) -> list[tuple[object, ...]]:
    found = trace.summaries[["kind", "name", "count", "total", "percent"]]
    return [tuple(row) for row in found.itertuples(index=False)]


EXPECTED = [("kernel", row[0], row[1], row[2] * 1000, row[4]) for row in ROWS]


def is_whole(style: str, text: str, tmp_path: Path) -> bool:
    """Whether all rows are read, each is accounted for, and nothing else is said than that titles are no rows."""
    trace = of(text, tmp_path)
    found = rows(trace)
    if "rich" in style and "narrow" in style:  # rich itself cuts the word that does not fit
        found = [(row[0], str(row[1]).replace("do… ", "double*, "), *row[2:]) for row in found]
    told = {kind for kind, issue in trace.report.issues.items() if issue.severity > Severity.NOTE}
    return found == EXPECTED and trace.report.balanced() and told <= {"unrecognised"}  # titles, shapes


@pytest.mark.parametrize("library", table_styles.LIBRARIES)
def test_each_style_is_read_whole_with_the_names_as_they_were(library: str, tmp_path: Path) -> None:
    styles = table_styles.LIBRARIES[library]()
    assert [style for style, text in styles if not is_whole(f"{library} {style}", text, tmp_path)] == []


def test_a_total_below_is_no_kernel(tmp_path: Path) -> None:
    total = ("total", TOTAL[0], TOTAL[1], TOTAL[2] * 1000, TOTAL[4])
    styles = table_styles.with_totals()
    assert [style for style, text in styles if rows(of(text, tmp_path)) != [*EXPECTED, total]] == []


@pytest.mark.parametrize("library", table_styles.LIBRARIES)
def test_text_around_a_table_changes_nothing(library: str, tmp_path: Path) -> None:
    style, text = next(iter(table_styles.LIBRARIES[library]()))
    found = rows(of(f"Profile of the run\n\n{text}\n\nfinished\n", tmp_path))
    assert found == EXPECTED, style


def many() -> pd.DataFrame:
    kernels = [f"k{number}_kernel(float*)" for number in range(100)]
    return pd.DataFrame({"Kernel": kernels, "Calls": 10, "Total (us)": 50.0})


@pytest.mark.parametrize(("library", "shown"), [("pandas", 10), ("polars", 10), ("duckdb", 10)])
def test_rows_that_a_library_leaves_out_are_told(library: str, shown: int, tmp_path: Path) -> None:
    file = io.StringIO()
    with redirect_stdout(file):
        if library == "pandas":
            print(many())
        elif library == "polars":
            print(pl.DataFrame(many().to_dict("list")))
        else:
            kernels = many()
            duckdb.sql("SELECT * FROM kernels").show(max_rows=10)
            del kernels
    trace = of(file.getvalue(), tmp_path)
    assert len(trace.summaries) == shown and trace.summaries.total.sum() == shown * 50_000
    assert "elided" in trace.report.issues and trace.report.line().endswith("input cut off")
    assert trace.report.balanced()


def test_a_box_that_ends_amid_its_rows_is_told(tmp_path: Path) -> None:
    whole = dict(table_styles.of_tabulate())["grid"]
    assert "cut" not in of(whole, tmp_path).report.issues
    lines = whole.splitlines()
    cut = of("\n".join(lines[:-3]), tmp_path)  # ends with a rule between rows: nothing shows that more rows follow
    assert len(cut.summaries) == 2
    cut = of("\n".join(lines[:-1]), tmp_path)
    assert len(cut.summaries) == 3
    assert cut.report.issues["cut"].places == [(f"line {len(lines) - 1}", "the box of the table isn't closed")]
