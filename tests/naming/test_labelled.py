"""Labels of some thousand real names: what is said is right, and what is known is said."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

from ktrace.tables import shortened_apart
from naming.labelled import COLUMNS, Score, measured, names

#: Least precision and recall in percent, as measured.
FLOORS = {"operation": (99, 98), "library": (99, 98), "precision": (99, 99)}

_HOW = {"name", "argument", "source"}


def test_the_table_is_whole() -> None:
    rows = names()
    assert len(rows) >= 2_000
    assert len({row["name"] for row in rows}) == len(rows)
    assert {row["how"] for row in rows} == _HOW
    assert all(row["source"] for row in rows)
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    operations = page[page.index("## Operations") : page.index("## Libraries")]
    assert {row["operation"] for row in rows} - {"", "?"} <= set(re.findall(r"[a-z-]+", operations))
    libraries = page[page.index("## Libraries") : page.index("## Short names")]
    assert all(row["library"] in libraries for row in rows if row["library"] not in ("", "?"))


@pytest.mark.parametrize("column", COLUMNS)
def test_what_is_said_is_right(column: str) -> None:
    score = measured()[0][column]
    assert score.precision >= FLOORS[column][0], score


@pytest.mark.parametrize("column", COLUMNS)
def test_what_is_known_is_said(column: str) -> None:
    score = measured()[0][column]
    assert score.recall >= FLOORS[column][1], score


def test_the_floors_are_near() -> None:
    """A floor far below what is measured would hide what gets worse."""
    for column, score in measured()[0].items():
        assert isinstance(score, Score)
        assert max(score.precision - FLOORS[column][0], score.recall - FLOORS[column][1]) < 1


def test_the_page_has_the_scores() -> None:
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    for column, score in measured()[0].items():
        assert f"| {column} | {score.precision:.1f} | {score.recall:.1f} |" in page


@pytest.mark.parametrize("width", [80, 40])
def test_no_two_names_look_equal_in_a_table(width: int) -> None:
    shown = shortened_apart([row["name"] for row in names()], width)
    assert len(set(shown)) == len(names())
    assert max(map(len, shown)) <= width
