"""Formats of text as declarations: groups become columns, headings scopes, margins trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktrace.conversion import Conversion
from ktrace.input.source import Sample, Source
from ktrace.kit.text.forms import Columns, Form, Forms
from ktrace.model.row_builder import to_rows
from ktrace.report import Report

TOOK = Form("kernel", r"(?P<indent> *)(?P<name>\w+) took (?P<total>[\d.]+) (?P<unit>[mun]?s)(?: of (?P<share>\w+))?")


def rows_of(tmp_path: Path, text: str, *forms: Form) -> tuple[list[dict[str, Any]], Report]:
    path = tmp_path / "run.log"
    path.write_text(text, "utf-8")
    report = Report()
    batches = Forms("rocket", ("took",), *forms).read(Source(str(path)), Conversion(report))
    rows = [row for batch in batches for row in to_rows(batch) if batch.record != "catalog"]
    assert report.reader.taken == report.reader.given + sum(report.reader.removed.values())
    return rows, report


def test_a_figure_is_in_the_unit_that_the_line_states(tmp_path: Path) -> None:
    rows, report = rows_of(tmp_path, "a took 1.25 ms\nb took 3 ns of all\n\nother\n", TOOK)
    assert [(row["name"], row["total"], row["unit"]) for row in rows] == [("a", 1_250_000, "ns"), ("b", 3, "ns")]
    assert rows[1]["args"] == '{"share":"all"}'
    assert dict(report.reader.removed) == {"structure": 1, "unrecognised": 1}


def test_a_heading_is_the_scope_of_the_rows_below_it_and_begins_a_table(tmp_path: Path) -> None:
    heading = Form("", r"run (?P<name>\w+) on (?P<where>\w+)", opens=True)
    end = Form("", r"end", closes=True)
    rows, _ = rows_of(
        tmp_path, "run x on gpu\na took 1 us\nrun y on gpu\nb took 1 us\nend\nc took 1 us\n", heading, end, TOOK
    )
    assert [(row["name"], row.get("scope"), row["table"]) for row in rows] == [
        ("a", ["x"], 0),
        ("b", ["y"], 1),
        ("c", None, 1),
    ]
    assert [row.get("args") for row in rows] == ['{"where":"gpu"}', '{"where":"gpu"}', None]


def test_rows_below_a_heading_that_folds_repeat_others(tmp_path: Path) -> None:
    rows, report = rows_of(tmp_path, "a took 1 us\nsums\na took 1 us\n", Form("", "sums", opens=True, folds=True), TOOK)
    assert len(rows) == 1
    assert report.reader.removed["folded"] == 1


def test_a_form_within_counts_only_below_a_heading(tmp_path: Path) -> None:
    within = Form("kernel", r"(?P<name>\w+) (?P<total>\d+)", "us", within=True)
    rows, report = rows_of(tmp_path, "a 1\nlist\na 2\n", Form("", "list", opens=True), within)
    assert [row["total"] for row in rows] == [2_000]
    assert report.reader.removed["unrecognised"] == 1


def test_margins_nest_rows_and_a_row_with_others_in_it_has_another_kind(tmp_path: Path) -> None:
    tree = Form("kernel", TOOK.pattern, inner="range")
    rows, _ = rows_of(tmp_path, "a took 9 us\n  b took 5 us\n    c took 5 us\n  d took 4 us\ne took 1 us\n", tree)
    assert [(row["name"], row["kind"], row.get("scope")) for row in rows] == [
        ("a", "range", None),
        ("b", "range", ["a"]),
        ("c", "kernel", ["a", "b"]),
        ("d", "kernel", ["a"]),
        ("e", "kernel", None),
    ]


def test_a_name_on_the_line_before_belongs_to_the_figures(tmp_path: Path) -> None:
    name = Form("", r"- (?P<name>.+)", carries=True)
    figures = Form("op", r" (?P<total>\d+) us", "us")
    rows, report = rows_of(tmp_path, "- a\n 1 us\n- lost\nother\n- b\n 2 us\n- cut\n", name, figures)
    assert [(row["name"], row["total"]) for row in rows] == [("a", 1_000), ("b", 2_000)]
    assert report.reader.given == 4
    assert dict(report.reader.removed) == {"unrecognised": 1, "bad-record": 1, "cut": 1}


def test_a_line_with_a_start_is_an_event_and_what_is_below_a_nanosecond_is_said(tmp_path: Path) -> None:
    form = Form("kernel", r"(?P<name>\w+) at (?P<ts>[\d.]+) for (?P<dur>[\d.]+)", "us", {"track": "t"})
    rows, report = rows_of(tmp_path, "a at 1.5 for 2.25\nb at 9 for 0.0004\n", form)
    assert [(row["ts"], row["dur"]) for row in rows] == [(1_500, 2_250), (9_000, 0)]
    assert report.issues["rounded"].rows == 1


def test_refined_columns_may_be_several_rows_none_or_no_record(tmp_path: Path) -> None:
    def refine(columns: Columns) -> list[Columns] | None:
        times = {"two": 2, "none": 0}.get(columns["name"])
        return None if times is None else [dict(columns) for _ in range(times)]

    rows, report = rows_of(
        tmp_path, "two took 1 us\nnone took 1 us\nbad took 1 us\n", Form("op", TOOK.pattern, refine=refine)
    )
    assert len(rows) == 2
    assert dict(report.reader.removed) == {"folded": 1, "bad-record": 1}


@pytest.mark.parametrize(
    ("text", "says"), [("x\na took 1 us\n", "line 2"), ("a takes 1 us\n", None), ("b took it\n", None)]
)
def test_a_line_of_a_form_that_is_a_sign_says_what_the_text_is(text: str, says: str | None) -> None:
    match = Forms("rocket", ("took",), TOOK, Form("", "x", sign=False)).probe(Sample("x", text.encode()))
    assert (match.reason if match else None) == (f"has lines of rocket ({says})" if says else None)
