"""Asynchronous events that are named by their id, and lists that end at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ktrace


def read(tmp_path: Path, *events: dict[str, Any]) -> ktrace.Trace:
    path = tmp_path / "requests.json"
    path.write_text(json.dumps(list(events)))
    return ktrace.read(path)


def pair(name: str, key: object, start: float, end: float, **members: Any) -> list[dict[str, Any]]:
    one = {"name": name, "id": key, "pid": 0} | members
    return [one | {"ph": "b", "ts": start}, one | {"ph": "e", "ts": end}]


def test_requests_named_by_their_number_have_the_name_of_their_category(tmp_path: Path) -> None:
    events = [*pair("1", "1", 1000, 1400.5, cat="resnet50"), *pair("0x2", "0x2", 1100, 1550.5, cat="resnet50")]
    found = read(tmp_path, *events).events
    assert found[["name", "track", "dur"]].values.tolist() == [
        ["resnet50", "resnet50/1", 400_500],
        ["resnet50", "resnet50/0x2", 450_500],
    ]


@pytest.mark.parametrize(
    ("name", "key", "members"),
    [("load", "load", {"cat": "x"}), ("7", "8", {"cat": "x"}), ("7", "7", {}), ("step 7", "7", {"cat": "x"})],
)
def test_other_events_keep_their_names(tmp_path: Path, name: str, key: str, members: dict[str, Any]) -> None:
    assert read(tmp_path, *pair(name, key, 1, 2, **members)).events.name.tolist() == [name]


def test_a_list_that_ends_after_its_bracket_is_an_empty_trace_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("[\n")
    trace = ktrace.read(path)
    assert trace.report.inputs[0]["format"] == "chrome"
    assert "cut" in trace.report.issues
    assert len(trace.events) == 0
