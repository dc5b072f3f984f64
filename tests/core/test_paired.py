"""The stage before a table writer, against the plain reference of the timeline."""

from __future__ import annotations

import json
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from test_order import event_rows, in_batches
from timeline_reference import Row, expected

from ktrace.model import Batch
from ktrace.paired import paired
from ktrace.report import Report
from ktrace.rows import to_rows


@settings(deadline=None, max_examples=150)
@given(event_rows(), st.integers(1, 9), st.integers(1, 9))
def test_same_as_the_reference(events: list[Row], size: int, range_rows: int) -> None:
    report = Report()
    report.rows["events"] = len(events)
    with patch("ktrace.ordering.eventstore.BATCH_ROWS", size):
        found = [
            row
            for batch in paired(in_batches("events", events, size), report, range_rows=range_rows)
            for row in to_rows(batch)
        ]
    want = expected(events, [])
    assert sorted(map(shown, found)) == sorted(map(shown, want.rows))
    assert report.balanced()
    assert report.written == len(found)


def shown(row: Row) -> str:
    """A row as text, without what only a timeline has."""
    left_out = ("half", "lane", "run", "dur", "args")
    plain = {name: value for name, value in row.items() if name not in left_out}
    return json.dumps(plain | {"dur": row.get("dur"), "args": json.loads(row.get("args") or "{}")}, sort_keys=True)


def test_what_has_no_halves_is_passed_on_as_it_is() -> None:
    rows = [{"source": "s", "id": 1, "ts": 0, "kind": "range", "name": "n", "timing": "measured"}]
    report = Report()
    report.rows["events"] = 1
    (batch,) = in_batches("events", rows, 9)
    (found,) = paired([batch], report)
    assert found is batch
    assert not report.stages
    assert isinstance(found, Batch)
