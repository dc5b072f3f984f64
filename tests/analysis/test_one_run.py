"""One run has one answer in each of our own formats: findings, operations, collectives, critical path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES
from nightly import few

import ktrace
from ktrace.tables import Cell

FORMS = (".perfetto", ".trace.json", ".parquet", ".jsonl")

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
OTHERS = [
    path
    for pattern in ("kineto/*.json", "nsys/*.sqlite", "rocpd/*.db", "xplane/*.pb", "rpd/*.rpd")
    for path in sorted(SAMPLES.glob(pattern))
    if path != STEP
]


def answers(path: Path) -> tuple[dict[str, Any], dict[str, list[tuple[Cell, ...]]]]:
    """The findings of an input by their codes, and the rows of its tables that don't name the source."""
    summary = ktrace.summary(path, by=["operation", "critical-path", "collective", "idle"])
    codes = {one.code: (one.value, one.whole, one.share, one.look) for one in summary.findings}
    codes.pop("check.input_cut", None)  # what was read of a cut input is whole in another file
    groups = {"operation": [(one.key, one.total, one.count) for one in summary.heaviest["operation"]]}
    tables = {
        f"{name} {table.name}": [row[1:] for row in table.rows]
        for name, answer in summary.answers.items()
        if name != "collective"
        for table in answer.tables()
    }
    return codes, groups | tables


@pytest.mark.parametrize("path", [STEP, *few(OTHERS, 6)], ids=lambda path: path.name)
def test_our_own_formats_answer_as_the_source_does(path: Path, tmp_path: Path) -> None:
    expected = answers(path)
    for form in FORMS:
        out = tmp_path / f"{path.name.partition('.')[0]}{form}"
        ktrace.convert(path, out)
        found = answers(out)
        assert found[0] == expected[0], form
        assert found[1] == expected[1], form


@pytest.mark.parametrize("form", FORMS)
def test_no_change_between_the_forms_of_one_run(form: str, tmp_path: Path) -> None:
    out = tmp_path / f"run{form}"
    ktrace.convert(STEP, out)
    changed = [one for one in ktrace.diff(STEP, out).findings if one.code.startswith(("change", "time", "work"))]
    assert [one for one in changed if one.value] == []
