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
    "name", ["request 101", "req-7", "cmpl-1a2b3c", "0d1f6a2e-9b3c-4d5e-8f70-123456789abc", "REQ_0042", "0xabc", "7"]
)
def test_ids_of_requests_stay_arguments_where_the_id_is_another(name: str, tmp_path: Path) -> None:
    found = read(tmp_path, *pair(name, "5", 1000, 1400.5, cat="llama")).to_arrow()["events"].to_pylist()
    assert [(row["name"], row["track"], row["dur"]) for row in found] == [("llama", "llama/5", 400_500)]
    assert json.loads(found[0]["args"])["$name"] == name
    same = read(tmp_path, *pair(name, name, 1000, 1400.5, cat="llama")).events
    assert same[["name", "track"]].values.tolist() == [["llama", f"llama/{name}"]]


@pytest.mark.parametrize(
    ("name", "key", "members"),
    [
        ("request", "7", {"cat": "x"}),
        ("requests per second", "7", {"cat": "x"}),
        ("req-7", "7", {}),
        ("load", "load", {"cat": "x"}),
        ("7", "7", {}),
        ("step 7", "7", {"cat": "x"}),
    ],
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
