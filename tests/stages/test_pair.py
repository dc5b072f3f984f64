"""The stage before a table writer, against the plain reference of the timeline."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_order import event_rows, in_batches
from timeline_reference import Row, expected

import ktrace
from ktrace.model.batch import Batch
from ktrace.model.row_builder import to_rows
from ktrace.report import Report
from ktrace.stages.order.pairing import pair_halves


@settings(deadline=None, max_examples=150)
@given(event_rows(), st.integers(1, 9), st.integers(1, 9))
def test_same_as_the_reference(events: list[Row], size: int, range_rows: int) -> None:
    report = Report()
    report.rows["events"] = len(events)
    with patch("ktrace.store.events.BATCH_ROWS", size):
        found = [
            row
            for batch in pair_halves(in_batches("events", events, size), report, range_rows=range_rows)
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


@pytest.mark.parametrize("size", [1, 2, 65_536])
def test_a_link_on_an_end_is_one_on_the_slice(tmp_path: Path, size: int) -> None:
    source = tmp_path / "t.json"
    place = [{"name": name, "pid": 1, "tid": tid} for tid, name in enumerate("abc")]
    arrow = {"bind_id": "0x7", "flow_out": True}
    events = [
        *(place[tid] | {"ph": "B", "ts": tid} for tid in range(3)),
        place[0] | {"ph": "E", "ts": 5} | arrow,
        place[1] | {"ph": "E", "ts": 9},
        place[2] | {"ph": "E", "ts": 9, "bind_id": "0x7", "flow_in": True},
        {"ph": "X", "name": "d", "pid": 1, "tid": 9, "ts": 1, "dur": 1} | arrow,
    ]
    source.write_text(json.dumps({"traceEvents": events}))
    with ktrace.open_batches(source, batch_rows=size) as batches:
        trace = ktrace.Trace(batches)
    name = dict(zip(trace.events["id"], trace.events["name"], strict=True))
    assert sorted((name[link["event"]], link["role"]) for _, link in trace.links.iterrows()) == [
        ("a", "out"),
        ("c", "in"),
        ("d", "out"),
    ]
    for options in ({}, {"filter": ktrace.Filter(drop_args=True)}, {"crop": ktrace.Crop("..1s")}):
        report = ktrace.convert(source, tmp_path / "o.perfetto", overwrite=True, strict=True, **options)
        assert report.written == 7


def test_what_has_no_halves_is_passed_on_as_it_is() -> None:
    rows = [{"source": "s", "id": 1, "ts": 0, "kind": "range", "name": "n", "timing": "measured"}]
    report = Report()
    report.rows["events"] = 1
    (batch,) = in_batches("events", rows, 9)
    (found,) = pair_halves([batch], report)
    assert found is batch
    assert not report.stages
    assert isinstance(found, Batch)
