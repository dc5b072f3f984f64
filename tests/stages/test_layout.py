"""Tables become slices: their widths, places, nesting and arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ktrace.conversion import Conversion
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report
from ktrace.stages.layout import layout

Event = dict[str, Any]


def lay_out(fill: Callable[[RowBuilder], object]) -> tuple[list[Event], Report]:
    """The events that layout makes of the rows, arguments decoded, and the report."""
    report = Report()
    rows = RowBuilder(Conversion(report, "run"))
    fill(rows)
    batches = list(rows.rest())
    for batch in batches:
        report.rows[batch.record] += len(batch)
    events: list[Event] = []
    for batch in layout(batches, report):
        if batch.record == "events":
            events += [{k: v for k, v in row.items() if v is not None} for row in batch.columns.to_pylist()]
    for event in events:
        event["args"] = json.loads(event.get("args", "{}"))
    assert report.stages[0].balanced()
    return sorted(events, key=lambda event: event["id"]), report


def test_rows_stand_side_by_side_as_wide_as_their_total_in_the_order_of_the_source() -> None:
    def fill(rows: RowBuilder) -> None:
        rows.summary("kernel", "gemm", total=30.0, unit="ns", count=3, table=0, scope=["Statistics"], run="q4")
        rows.summary("kernel", "norm", avg=5.0, count=4, unit="ns", table=0, scope=["Statistics"], run="q4")
        rows.summary("kernel", "take", value=7.0, unit="ns", table=0, scope=["Statistics"], run="q4")
        rows.summary("kernel", "never", count=2, unit="ns", table=0, scope=["Statistics"], run="q4")

    events, _ = lay_out(fill)
    assert [(e["name"], e["ts"], e.get("dur"), e["kind"]) for e in events] == [
        ("gemm", 0, 30, "kernel"),
        ("norm", 30, 20, "kernel"),
        ("take", 50, 7, "kernel"),
        ("never", 57, None, "instant"),
    ]
    assert {(e["track"], e["run"], e["timing"]) for e in events} == {("Statistics", "q4", "synthetic")}
    assert events[0]["args"] == {"count": 3, "total_ns": 30}


def test_tables_of_one_track_follow_one_another_and_tracks_start_together() -> None:
    def fill(rows: RowBuilder) -> None:
        for table, section in enumerate(("A", "A", "B")):
            rows.summary("kernel", "k", total=10.0, unit="ns", table=table, scope=[section])

    events, _ = lay_out(fill)
    assert [(e["track"], e["ts"]) for e in events] == [("A", 0), ("A", 10), ("B", 0)]


def test_a_table_with_a_time_ends_there() -> None:
    def fill(rows: RowBuilder) -> None:
        rows.summary("kernel", "a", total=30.0, unit="ns", table=0, ts=1000)
        rows.summary("kernel", "b", total=20.0, unit="ns", table=0, ts=1000)

    events, _ = lay_out(fill)
    assert [(e["ts"], e["dur"]) for e in events] == [(950, 30), (980, 20)]


def test_rows_nest_in_their_total_which_holds_them_even_where_rounding_made_it_too_small() -> None:
    def fill(rows: RowBuilder) -> None:
        total = rows.reserve()
        rows.summary("kernel", "a", total=30.0, unit="ns", parent=total, table=0, ts=100)
        rows.summary("kernel", "b", total=20.0, unit="ns", parent=total, table=0, ts=100)
        rows.summary("total", "step", total=49.0, unit="ns", id=total, table=0, ts=100)

    events, _ = lay_out(fill)
    assert [(e["name"], e["kind"], e["ts"], e["dur"]) for e in events] == [
        ("step", "range", 50, 50),
        ("a", "kernel", 50, 30),
        ("b", "kernel", 80, 20),
    ]
    assert events[0]["args"] == {"total_ns": 49}


def test_several_measures_of_one_thing_are_one_slice() -> None:
    def fill(rows: RowBuilder) -> None:
        rows.summary("total", "cycle", value=1000.0, unit="ns", table=0, run="a")
        rows.summary(
            "kernel",
            "k",
            metric="gpu",
            value=7.25,
            unit="%",
            percent=50.0,
            table=1,
            run="a",
            args={"compare": {"z": 1}},
        )
        rows.summary("kernel", "k", metric="mem", value=2.0, percent=50.0, table=1, run="a")
        rows.summary("kernel", "k2", metric="gpu", value=1.0, unit="%", percent=10.0, table=1, run="a")

    events, report = lay_out(fill)
    assert [(e["name"], e.get("dur")) for e in events] == [("cycle", 1000), ("k", 500), ("k2", 100)]
    assert events[1]["args"] == {"gpu (%)": {"value": 7.25, "compare": {"z": 1}}, "mem": 2, "percent": 50.0}
    assert report.stages[0].removed == {"argument of a slice": 1}


def test_metrics_and_notes_of_a_section_are_one_point() -> None:
    def fill(rows: RowBuilder) -> None:
        rows.summary("metric", "ttft", metric="ttft", value=308.1e6, unit="ns", table=0, scope=["metrics"], ts=9)
        rows.summary("metric", "tokens", metric="tokens", value=9.0, table=0, scope=["metrics"], ts=9)
        rows.summary("note", "look here", table=1, scope=["Findings"])

    events, _ = lay_out(fill)
    assert [(e["name"], e["kind"], e["ts"]) for e in events] == [("metrics", "instant", 9), ("Findings", "instant", 0)]
    assert events[0]["args"] == {"ttft (ns)": 308100000, "tokens": 9}
    assert events[1]["args"] == {"1": "look here"}


def test_shares_of_an_unknown_whole_are_parts_of_100_ms_and_that_is_noted() -> None:
    events, report = lay_out(lambda rows: rows.summary("kernel", "k", metric="share", percent=25.0, table=0))
    assert events[0]["dur"] == 25_000_000
    assert report.issues["no-whole"].rows == 1


def test_figures_that_are_no_numbers_have_no_width() -> None:
    def fill(rows: RowBuilder) -> None:
        rows.summary("kernel", "nan", total=float("nan"), unit="ns", table=0)
        rows.summary("kernel", "minus", total=-5.0, unit="ns", table=0)

    events, _ = lay_out(fill)
    assert [e.get("dur") for e in events] == [None, None]
    assert events[0]["args"] == {"total_ns": "NaN"}


def test_devices_in_one_table_have_tracks_of_their_own() -> None:
    def fill(rows: RowBuilder) -> None:
        rows.summary("kernel", "a", total=10.0, unit="ns", table=0, scope=["S"], device=0)
        rows.summary("kernel", "b", total=10.0, unit="ns", table=0, scope=["S"], device=1)

    events, _ = lay_out(fill)
    assert [(e["device"], e["ts"]) for e in events] == [(0, 0), (1, 0)]


def test_a_table_in_a_source_with_times_begins_where_the_source_begins() -> None:
    def fill(rows: RowBuilder) -> None:
        rows.event("log", "hello", ts=5_000)
        rows.summary("kernel", "a", total=10.0, unit="ns", table=0)

    events, _ = lay_out(fill)
    assert events[1]["ts"] == 5_000


def test_no_figure_hides_another_of_the_same_name() -> None:
    def fill(rows: RowBuilder) -> None:
        for value in (1.0, 2.0, 3.0):
            rows.summary("metric", "load", metric="load", value=value, unit="ns", table=0, scope=["metrics"], ts=9)
        head = rows.summary("kernel", "gemm", total=30.0, unit="ns", table=1)
        for value in (4.0, 5.0):
            rows.summary("kernel", "gemm", metric="gpu", value=value, unit="%", table=1, parent=head)

    events, _ = lay_out(fill)
    assert events[0]["args"] == {"load (ns)": 1, "load (ns) #2": 2, "load (ns) #3": 3}
    assert events[1]["args"] == {"total_ns": 30, "gpu (%)": 4, "gpu (%) #2": 5}


def test_stacks_of_samples_are_on_one_track_as_wide_as_their_own_time() -> None:
    """Each had a track of its own, by its scope; stacks of one name and another metric were one slice there."""

    def fill(rows: RowBuilder) -> None:
        for scope, own in (["main"], 30.0), (["main", "step"], 5.0), (["other"], 7.0):
            rows.summary("sample", "leaf", metric="samples", unit="count", value=2.0, scope=scope, table=0)
            rows.summary("sample", "leaf", metric="cpu", unit="ns", total=own, scope=scope, table=0)

    events, _ = lay_out(fill)
    assert [(e["track"], e["name"], e["ts"], e["dur"]) for e in events] == [
        ("samples", "leaf", 0, 30),
        ("samples", "leaf", 30, 5),
        ("samples", "leaf", 35, 7),
    ]
    assert [e["args"]["cpu (ns)"] for e in events] == [{"total": 30}, {"total": 5}, {"total": 7}]


def test_contexts_nest_in_those_around_them_and_have_their_own_time_besides() -> None:
    def fill(rows: RowBuilder) -> None:
        main = rows.summary("total", "main", metric="CPUTIME", unit="ns", total=100.0, table=0)
        for name, own in ("send", 40.0), ("wait", 60.0):
            rows.summary("sample", name, metric="CPUTIME", unit="ns", total=own, scope=["main"], parent=main, table=0)
        wait = main + 2
        rows.summary("sample", "poll", metric="CPUTIME", unit="ns", total=5.0, scope=["main"], parent=wait, table=0)

    events, _ = lay_out(fill)
    assert [(e["name"], e["ts"], e["dur"], e["track"]) for e in events] == [
        ("main", 0, 105, "rows"),
        ("send", 0, 40, "rows"),
        ("wait", 40, 65, "rows"),
        ("poll", 40, 5, "rows"),
    ]


def test_rows_may_nest_as_deeply_as_the_source_says() -> None:
    """Two functions called themselves for each level."""

    def fill(rows: RowBuilder) -> None:
        parent = None
        for number in range(5_000):
            parent = rows.summary("total", f"row {number}", unit="ns", total=1.0, table=0, parent=parent)

    events, _ = lay_out(fill)
    assert (len(events), {e["dur"] for e in events}) == (5_000, {1})


def test_threads_of_one_process_start_together() -> None:
    def fill(rows: RowBuilder) -> None:
        for tid in (7, 8):
            rows.summary("sample", "main", metric="cpu", unit="ns", total=5.0, table=0, pid=1, tid=tid)

    events, _ = lay_out(fill)
    assert [(e["tid"], e["ts"], e["dur"]) for e in events] == [(7, 0, 5), (8, 0, 5)]
