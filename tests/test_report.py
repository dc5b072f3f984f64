"""The account: each link of the chain adds up, strict fails at the first repair, users can read it."""

from __future__ import annotations

import json

import pytest
from conftest import ROOT

from ktrace.errors import StrictFailure
from ktrace.report import EXAMPLES, KINDS, Report, Severity


def test_a_reader_that_loses_a_record_is_found_out() -> None:
    report = Report()
    report.record(3)
    report.used()
    report.used(outcome="structure")
    assert not report.balanced()
    report.issue("bad-record", "line 3")
    assert report.balanced()
    assert (report.read, report.total(Severity.SKIP)) == (2, 1)


def test_a_reading_without_a_writer_gives_rows_and_writes_none() -> None:
    report = Report()
    report.record(4)
    report.used(3)
    report.used(outcome="catalog")
    report.rows.update(events=3, catalog=1)
    assert report.line() == "read 4 records, gave 3 rows, repaired 0, skipped 0"
    report.stage("jsonl").taken = 3
    report.stages[0].given = 3
    assert report.line() == "read 4 records, wrote 3 rows, repaired 0, skipped 0"


def test_a_stage_that_loses_a_row_is_found_out() -> None:
    report = Report()
    report.rows["events"] = 2
    first, second = report.stage("layout"), report.stage("perfetto")
    first.taken, first.given = 2, 1
    second.taken = second.given = 1
    assert not report.balanced()
    first.removed["argument of a slice"] = 1
    assert report.balanced()
    second.taken = second.given = 2
    assert not report.balanced()


def test_strict_fails_from_repair_upwards_and_not_at_a_note() -> None:
    report = Report(strict=True)
    report.path = "run.log"
    report.issue("folded", "line 1")
    with pytest.raises(StrictFailure, match=r"run\.log: line 2"):
        report.issue("encoding", "line 2")


def test_only_the_first_places_are_kept() -> None:
    report = Report()
    report.record(100)
    for line in range(100):
        report.issue("unrecognised", f"line {line}")
    assert report.issues["unrecognised"].rows == 100
    assert len(report.issues["unrecognised"].places) == EXAMPLES


def test_an_undeclared_kind_is_a_fault() -> None:
    with pytest.raises(KeyError):
        Report().issue("nonsense", "line 1")


def test_every_kind_has_a_sentence() -> None:
    assert all(kind.sentence.endswith(".") and kind.sentence[0].isupper() for kind in KINDS.values())


def test_every_kind_is_reported_by_somebody() -> None:
    sources = [file for folder in ("ktrace", "converters") for file in (ROOT / folder).rglob("*.py")]
    text = "".join(file.read_text("utf-8") for file in sources if file.name != "report.py")
    assert [kind for kind in KINDS if f'"{kind}"' not in text] == []


def test_the_report_is_plain_json() -> None:
    report = Report()
    report.record()
    report.issue("cut", "byte 7", "ends in a string")
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["cut"] is True
    assert plain["balanced"] is True
    assert plain["issues"][0]["places"] == [{"where": "byte 7", "detail": "ends in a string"}]
