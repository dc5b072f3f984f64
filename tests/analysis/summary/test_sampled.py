"""A profile of samples alone: what ran, by the time of its samples, and nothing of it where there is work to add up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import SAMPLES

import ktrace

NOTE = "There is no device work and no call: these are samples, by the function that ran."
SPEEDSCOPE = SAMPLES / "speedscope/py-spy-two-threads-and-an-unknown-frame.speedscope.json"
NODE = SAMPLES / "cpuprofile/node-collects-garbage-a-step-back-and-an-unknown-node.cpuprofile"
FOLDED = SAMPLES / "folded/perf-kernel-frames-a-comment-and-decimals.folded"
GO = SAMPLES / "pprof/go-cpu-inlined-and-a-location-too-few.pb.gz"


def sums(path: Path) -> dict[str, float]:
    """The time of the samples by name, from the rows."""
    found: dict[str, float] = {}
    for row in ktrace.read(path).to_arrow()["events"].to_pylist():
        if row["kind"] == "sample" and row["value"] is not None:
            found[row["name"]] = found.get(row["name"], 0) + row["value"]
    return found


@pytest.mark.parametrize("path", [SPEEDSCOPE, NODE], ids=lambda path: path.parent.name)
@pytest.mark.parametrize("form", [None, "parquet", "jsonl"])
def test_samples_with_a_time_are_added_up_by_function(tmp_path: Path, path: Path, form: str | None) -> None:
    expected = sums(path)
    if form:
        ktrace.convert(path, tmp_path / f"x.{form}")
        path = tmp_path / f"x.{form}"
    summary = ktrace.summary(path)
    assert {group.key: group.total for group in summary.groups["kernel"]} == expected
    assert (summary.work, summary.total, summary.unit) == ("samples", sum(expected.values()), "ns")
    assert NOTE in summary.notes


def test_the_sentence_names_a_function_that_ran() -> None:
    assert ktrace.summary(SPEEDSCOPE).verdict[0] == "matmul takes the most sampled time: 42.9% (30.0 ms of 70.0 ms)."
    summary = ktrace.summary(NODE)
    assert summary.groups["kernel"][0].key == "(idle)", "it has the most samples"
    assert summary.verdict[0].startswith("(garbage collector) takes the most sampled time"), "but waiting isn't running"


def test_stacks_without_times_are_counted() -> None:
    summary = ktrace.summary(FOLDED)
    counts = [line.rsplit(" ", 1)[-1] for line in FOLDED.read_text().splitlines() if line and line[0] != "#"]
    total = sum(float(count) for count in counts if count[0].isdigit())
    assert total == 52.5
    assert (summary.unit, summary.total) == ("count", total)
    assert "The source has only counts, no times." in summary.notes
    assert NOTE in summary.notes


def test_a_profile_with_times_and_counts_shows_times() -> None:
    summary = ktrace.summary(GO)
    assert (summary.unit, summary.groups["kernel"][0].key, summary.groups["kernel"][0].total) == (
        "ns",
        "main.gamma",
        140e6,
    )


def test_samples_beside_calls_or_kernels_are_not_what_is_added_up(tmp_path: Path) -> None:
    for kind, work in (("api", "host"), ("kernel", "events")):
        rows = [
            {
                "ktrace": "1.0",
                "record": "event",
                "source": "a",
                "id": 1,
                "kind": "sample",
                "name": "f",
                "ts": 5,
                "value": 9.0,
            },
            {"record": "event", "source": "a", "id": 2, "kind": kind, "name": "g", "ts": 5, "dur": 7},
        ]
        path = tmp_path / f"{kind}.jsonl"
        lines = [{"ktrace": "1.0"}, *({"timing": "measured", "unit": "ns"} | row for row in rows)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        summary = ktrace.summary(path)
        assert (summary.work, summary.total) == (work, 7)
        assert NOTE not in summary.notes


def test_functions_are_no_kernels_in_what_people_read() -> None:
    """Programs find them where they find kernels."""
    summary, diff = ktrace.summary(SPEEDSCOPE), ktrace.diff(SPEEDSCOPE, NODE)
    for tables in (summary.tables(brief=True), diff.tables(full=False)):
        [table] = [table for table in tables if table.name == "kernel"]
        assert (table.title, table.columns[0].name) == ("by function", "function")
    for tables in (summary.tables(), diff.tables()):
        [table] = [table for table in tables if table.name == "kernel"]
        assert table.columns[0].name == "kernel"
    assert "by function 0 clear" in repr(diff)
    assert repr(summary).endswith(": 7 samples, 70.000 ms; top function matmul 42.9%>")
    assert ">Top functions<" in summary.plot("kernels").svg
    assert ">Changes by function<" in diff.plot().svg


def test_kernels_are_kernels_in_what_people_read() -> None:
    summary = ktrace.summary(SAMPLES / "kineto/one-step-of-training.pt.trace.json")
    assert ">Top kernels<" in summary.plot("kernels").svg
    assert ("by kernel", "kernel") in [(table.title, table.columns[0].name) for table in summary.tables(brief=True)]
