"""Lines of ingero trace --json: the same events as in its database have the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import SAMPLES

from ktrace.trace import read
from ktrace.trace.trace import Trace

LINES = SAMPLES / "ingero-json" / "all-sources-in-three-zones-cut.jsonl"
DATABASE = SAMPLES / "ingero" / "schema-0.10-of-a-node-with-ranks.db"
FIRST = LINES.read_text("utf-8").splitlines()[0]


def rows(trace: Trace, *columns: str) -> list[tuple[Any, ...]]:
    """Columns of the events that the database has in its table of events, in order, None for nulls."""
    found = trace.events[~trace.events.kind.isin(("counter", "log")) & ~trace.events.track.isin(("annotations",))]
    found = found.sort_values("id")
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in found[list(columns)].values.tolist()]


def written(tmp_path: Path, **more: Any) -> Path:
    path = tmp_path / "run.jsonl"
    path.write_text(f"{FIRST}\n{json.dumps(json.loads(FIRST) | more, separators=(',', ':'))}\n", "utf-8")
    return path


def test_the_same_as_in_the_database() -> None:
    columns = ("kind", "ts", "dur", "timing", "pid", "tid", "cat", "track", "bytes", "copy_kind")
    assert rows(read(LINES), *columns) == rows(read(DATABASE), *columns)
    assert len(rows(read(LINES), "ts")) == 15
    names = [name for (name,) in rows(read(DATABASE), "name")]
    assert rows(read(LINES), "name") == [(name,) for name in (*names[:-1], "graph_op(99)")]


def test_stacks_and_arguments_are_those_of_the_database() -> None:
    frames = []
    for path in (LINES, DATABASE):
        catalog = read(path).catalog
        frames.append(sorted(catalog[catalog.entity == "stack"].facts))
    assert frames[0] == frames[1]
    args = [json.loads(text) for text in read(LINES).events.sort_values("id").args.dropna()]
    assert args[0] == {"arg1": 0x7F0000001000, "cgroup_id": 44, "stack": "0"}
    assert [one for one in args if "anomaly" in one] == [{"cgroup_id": 44, "anomaly": True}]


def test_every_line_is_accounted_for() -> None:
    report = read(LINES).report
    assert dict(report.reader.removed) == {"cut": 1}
    catalog = read(LINES).catalog
    assert catalog[catalog.entity == "process"][["pid", "name"]].values.tolist() == [[70, "python3"], [71, "python3"]]


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2023-11-14T22:13:20Z", 0),
        ("2023-11-14T22:13:20.5Z", 500_000_000),
        ("2023-11-14T23:43:20.000000001+01:30", 1),
        ("2023-11-14T21:13:20-01:00", 0),
        ("2023-02-30T22:13:20Z", None),
        ("yesterday", None),
    ],
)
def test_times_of_any_zone(tmp_path: Path, text: str, ns: int | None) -> None:
    trace = read(written(tmp_path, timestamp=text))
    if ns is None:
        assert dict(trace.report.reader.removed) == {"bad-record": 1}
    else:
        assert trace.events.ts.tolist()[1] == 1_700_000_000 * 10**9 + ns


@pytest.mark.parametrize("more", [{"duration_ns": -1}, {"op": ""}, {"args": [1]}, {"pid": "70"}, {"stack": [7]}])
def test_lines_that_are_no_event_are_skipped(tmp_path: Path, more: dict[str, Any]) -> None:
    trace = read(written(tmp_path, **more))
    assert len(trace.events) == 1
    assert dict(trace.report.reader.removed) == {"bad-record": 1}
