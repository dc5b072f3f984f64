"""Launches without a time: laid out on their stream, with metrics as counters."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ktrace.conversion import Conversion
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder, to_rows
from ktrace.report import Report
from ktrace.stages.layout import layout

GPU = {"pid": 7, "device": 0, "context": 1, "stream": 7}


def laid_out(made: list[Batch]) -> tuple[list[dict[str, Any]], Report]:
    """The events of a layout, by id, with their arguments as one dict."""
    report = Report()
    found = []
    for batch in layout(made, report):
        if batch.record == "events":
            columns = batch.full()
            found += to_rows(Batch("events", columns))
    for row in found:
        row["args"] = json.loads(row.get("args", "{}"))
    return sorted(found, key=lambda row: row["id"]), report


def rows(size: int = 65_536) -> RowBuilder:
    return RowBuilder(Conversion(Report(), label="run", batch_rows=size))


def test_launches_follow_one_another_on_their_streams() -> None:
    made = rows()
    made.summary("kernel", "a", unit="ns", total=30.0, count=1, **GPU)
    made.summary("kernel", "b", unit="ns", avg=5.0, count=4, **GPU | {"stream": 8})
    made.summary("kernel", "c", unit="ns", value=7.4, **GPU)
    found, report = laid_out(list(made.rest()))
    assert [(row["name"], row["ts"], row["dur"], row["stream"]) for row in found] == [
        ("a", 0, 30, 7),
        ("b", 30, 20, 8),
        ("c", 50, 7, 7),
    ]
    assert {row["timing"] for row in found} == {"synthetic"}
    assert not [row for row in found if "track" in row]
    assert report.stages[0].balanced()


def test_one_of_unknown_length_is_a_point_with_a_margin() -> None:
    made = rows()
    for total in (None, float("nan"), 1e300):
        made.summary("kernel", "k", unit="ns", total=total, **GPU)
    made.summary("kernel", "s", unit="us", total=3.0, **GPU)
    made.summary("kernel", "last", unit="ns", total=3.0, **GPU)
    found, _ = laid_out(list(made.rest()))
    assert [(row["ts"], row["dur"]) for row in found] == [(0, 0), (1000, 0), (2000, 0), (3000, 0), (4000, 3)]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_metrics_are_counters_or_arguments(size: int) -> None:
    made = rows()
    for number in range(2):
        head = made.summary("kernel", f"k{number}", unit="ns", total=10.0, args={"ID": number}, scope=["step"], **GPU)
        made.summary("metric", "Duration", metric="gpu__time_duration.sum", unit="ns", value=10.0, parent=head)
        made.summary("metric", "Waves", metric="launch__waves_per_multiprocessor", value=1.5 + number, parent=head)
        made.summary("metric", "Regs", metric="launch__registers_per_thread", value=32.0, parent=head)
        made.summary("metric", "Cache", metric="launch__func_cache_config", args={"Metric Value": "None"}, parent=head)
        made.summary("metric", "Time", metric="gpu__time_duration.sum", unit="ns", value=10.0, parent=head)
        made.summary("metric", "Time", metric="gpu__time_duration.sum", unit="ns", value=11.0, parent=head)
        made.summary("note", "Too small.", metric="note", args={"Rule Type": "OPT"}, parent=head)
    (whole,) = made.rest()
    parts = [Batch("summaries", whole.columns.slice(start, size)) for start in range(0, len(whole), size)]
    found, report = laid_out(parts)
    kernels = [row for row in found if row["kind"] == "kernel"]
    assert [row["args"] for row in kernels] == [
        {
            "ID": number,
            "launch__waves_per_multiprocessor": 1.5 + number,
            "launch__registers_per_thread": 32,
            "launch__func_cache_config": "None",
            "notes": [{"text": "Too small.", "Rule Type": "OPT"}],
            "scope": ["step"],
        }
        for number in range(2)
    ]
    counters = [row for row in found if row["kind"] == "counter"]
    assert [(row["parent"], row["name"], row["ts"], row["dur"], row["value"], row["stream"]) for row in counters] == [
        (kernel["id"], "gpu__time_duration.sum", kernel["ts"], 10, value, 7)
        for kernel in kernels
        for value in (10.0, 11.0)
    ]
    (stage,) = report.stages
    assert stage.balanced()
    assert (stage.taken, stage.given) == (16, 6)
    assert stage.removed == {"argument of a slice": 8, "said twice": 2}


def test_other_tables_are_laid_out_beside() -> None:
    made = rows()
    made.summary("kernel", "sum of k", unit="ns", total=50.0, count=9, table=0, scope=["Statistics"])
    made.summary("kernel", "k", unit="ns", total=10.0, **GPU)
    made.summary("total", "all", unit="ns", total=60.0, table=0, scope=["Statistics"])
    found, report = laid_out(list(made.rest()))
    assert [(row["name"], row.get("track")) for row in found] == [
        ("sum of k", "Statistics"),
        ("k", None),
        ("all", "Statistics"),
    ]
    assert report.stages[0].balanced()


def test_metrics_of_a_head_without_a_stream_are_its_arguments() -> None:
    made = rows()
    head = made.summary("kernel", "k", unit="ns", total=10.0, device=0, table=0)
    made.summary("metric", "Busy", metric="sm__x", unit="%", value=5.0, parent=head, table=0)
    made.summary("note", "Too small.", metric="note", parent=head, table=0)
    (only,), report = laid_out(list(made.rest()))
    assert only["args"]["sm__x (%)"] == 5
    assert only["args"]["note"] == {"text": "Too small."}
    assert report.stages[0].balanced()


def test_many_launches_keep_every_metric() -> None:
    chance = random.Random(4)
    made = rows()
    expected = []
    for number in range(300):
        head = made.summary("kernel", f"k{number % 7}", unit="ns", total=float(chance.randrange(1, 99)), **GPU)
        for metric in chance.sample(range(40), chance.randrange(12)):
            value = chance.random()
            made.summary("metric", "m", metric=f"unit__{metric}", value=value, parent=head)
            expected.append((head, f"unit__{metric}", value))
    (whole,) = made.rest()
    parts, start = [], 0
    while start < len(whole):
        size = chance.randrange(1, 200)
        parts.append(Batch("summaries", whole.columns.slice(start, size)))
        start += size
    found, report = laid_out(parts)
    counters = [(row["parent"], row["name"], row["value"]) for row in found if row["kind"] == "counter"]
    assert counters == expected
    ends = {row["id"]: row["ts"] + row["dur"] for row in found if row["kind"] == "kernel"}
    begins = [row["ts"] for row in found if row["kind"] == "kernel"]
    assert begins == [0, *list(ends.values())[:-1]]
    assert report.stages[0].balanced()
