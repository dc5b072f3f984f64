"""A time that doesn't fit into 64 bits of ns is left out for that reason, not because it has none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ktrace


def issues(tmp_path: Path, **members: object) -> dict[str, int]:
    path = tmp_path / "run.trace.json"
    events = [{"name": name, "ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 2} for name in ("a", "b")]
    events[1] |= members
    path.write_text(json.dumps({"traceEvents": events}))
    trace = ktrace.read(path)
    assert trace.events.name.tolist() == ["a"]
    return {kind: issue.rows for kind, issue in trace.report.issues.items()}


@pytest.mark.parametrize(
    "members",
    [
        {"ts": 19978045970716470},
        {"ts": -19978045970716470},
        {"ts": "19978045970716470"},
        {"ts": 10**25},
        {"ts": 1e300},
        {"dur": 19978045970716470},
    ],
)
def test_a_time_that_is_out_of_range(tmp_path: Path, members: dict[str, object]) -> None:
    assert issues(tmp_path, **members)["time-range"] == 1


@pytest.mark.parametrize("members", [{"ts": None}, {"ts": "noon"}, {"ts": []}])
def test_no_time(tmp_path: Path, members: dict[str, object]) -> None:
    assert "time-range" not in issues(tmp_path, **members)
