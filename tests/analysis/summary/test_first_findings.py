"""What is to be looked at first in real traces, against what was written down for each before ktrace was asked.

`first_findings.tsv` has a trace in a line, what its source tells by arithmetic of its own (`finding`, `of`, `why`), and
what ktrace says where it says something else (`ktrace`); docs/figures.md counts both.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from conftest import SHARED
from nightly import few, is_small

import ktrace

#: Checks that take nothing away from what is said first.
_CAVEATS = ("check.ranks_missing", "check.table_incomplete", "check.collectives_undescribed")

with (Path(__file__).parent / "first_findings.tsv").open(newline="") as file:
    ROWS = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.parametrize("row", few(ROWS, lambda row: is_small(SHARED / row["trace"])), ids=lambda row: row["trace"])
def test_first_findings(row: dict[str, str]) -> None:
    path = SHARED / row["trace"]
    if not path.exists():
        pytest.skip("the real traces are not at hand (../shared)")
    findings = ktrace.summary(path).findings
    expected = row["ktrace"] or row["finding"]
    caveats = [code for code in _CAVEATS if code != expected]
    first = next(
        (one for one in findings if one.look == 1), next((one for one in findings if one.code not in caveats), None)
    )
    assert (first.code if first else "nothing").startswith(expected)
    if row["of"] and not row["ktrace"]:
        assert first is not None and row["of"] in map(str, first.subject.values())


def test_most_are_alike() -> None:
    assert len(ROWS) >= 50
    assert sum(not row["ktrace"] for row in ROWS) >= 0.9 * len(ROWS)
