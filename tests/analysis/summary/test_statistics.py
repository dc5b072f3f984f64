"""Summaries of tables of statistics: the seeds against their own lines, tables that say the same again, shares."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.analysis.answers.summary.summary import Summary

Seed = Callable[[int], Path]
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "μs": 10**3, "µs": 10**3, "ns": 1}


def totals(found: Summary, by: str) -> dict[str, float]:
    return {group.key: group.total for group in found.groups[by]}


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8", "replace").splitlines()


def test_seed_0_adds_up_each_of_its_reports(seed: Seed) -> None:
    """Of each report the lines below the total: `name  12.34ms (5.6%)`."""
    path = seed(0)
    found = ktrace.summary(path, by=["kernel", "operation", "layer"])
    said = ktrace.read(path).summaries
    heads = said[said["kind"] == "total"]["total"].sum()
    assert found.work == "statistics"
    # The lines are rounded to 10 us each, the totals to as much: they differ by less than 9,149 half units.
    assert abs(found.total - heads) < 9_149 * 5_000
    assert sum(totals(found, "operation").values()) == pytest.approx(found.total, rel=1e-12)
    assert len(found.groups["layer"]) == 27  # L0 to L25, and what is of none
    assert [group.key for group in found.groups["layer"]] == [*(f"L{number}" for number in range(26)), "other"]


def test_seed_2_is_of_three_runs(seed: Seed) -> None:
    found = ktrace.summary(seed(2), by=["kernel", "run"])
    by_run = totals(found, "run")
    assert len(by_run) == 3 and list(found.runs) == [run for run in found.runs if run in by_run]
    for run, one in found.runs.items():
        assert sum(totals(one, "kernel").values()) == pytest.approx(by_run[run], rel=1e-12) == one.total
    assert any("3 runs" in note for note in found.notes)
    titles = [table.title for table in found.tables(["kernel"], brief=True)]
    assert titles[2:] == [f"{run}: by kernel" for run in found.runs]
    [_, _, kernels, runs] = found.tables()
    assert kernels.columns[0].name == "run" and {row[0] for row in kernels.rows} == {*found.runs}
    assert [row[0] for row in runs.rows] == sorted(by_run, key=lambda run: -by_run[run])


def test_seed_3_has_shares_alone(seed: Seed) -> None:
    """Of a kernel each metric has a line with the same share: it counts once."""
    found = ktrace.summary(seed(3), by=["kernel"])
    assert found.unit == "%" and found.count is None and len(found.runs) == 2
    said = ktrace.read(seed(3)).summaries
    mine = said[said["kind"].isin(["kernel", "memcpy", "memset"])]
    shares = mine.groupby(["run", "name"])["percent"].max().groupby("run").sum()
    for run, one in found.runs.items():
        assert one.total == pytest.approx(shares[run], rel=1e-12)
        assert all(group.average is None and group.count is None for group in one.groups["kernel"])
    heads = [column.key for column in found.tables(brief=True)[1].columns]
    assert heads == ["kernel", "of_the_whole_percent", "share_percent"]


def test_seed_4_by_its_own_lines(seed: Seed) -> None:
    """Count and total of each kernel, as the table of nsys has them, read with a regular expression."""
    path = seed(4)
    said: defaultdict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    for line in lines(path):
        row = re.match(r"[\d.]+%\t([\d.]+) (\S+)\t(\d+)\t(?:.*\t)? *([^\t]+)$", line)
        if row:
            figures = said[row[4]]
            figures[0] += int(row[3])
            figures[1] += Decimal(row[1]) * UNITS[row[2]]
    found = ktrace.summary(path, by=["kernel", "operation"])
    assert found.count == sum(int(count) for count, _ in said.values())
    assert found.total == pytest.approx(float(sum(total for _, total in said.values())), rel=1e-12)
    checked = 0
    for group in found.groups["kernel"]:
        if group.name in said:
            count, total = said[group.name]
            assert (group.count, group.total) == (int(count), pytest.approx(float(total), rel=1e-12))
            checked += 1
    assert checked > 100
    assert totals(found, "operation")["gemm"] / found.total > 0.6


def test_seed_1_adds_up_kernels_and_not_the_phases_around_them(seed: Seed) -> None:
    found = ktrace.summary(seed(1), by=["kernel"])
    said = ktrace.read(seed(1)).summaries
    kernels = said[(said["kind"] == "kernel") & (said["metric"] == "duration")]
    assert found.total == pytest.approx(kernels["total"].sum(), rel=1e-12)
    assert found.count == kernels["count"].sum()


def summary(name: str, metric: str = "duration", **columns: Any) -> dict[str, Any]:
    row = {"record": "summary", "source": "t", "kind": "kernel", "name": name, "metric": metric}
    return row | ({"unit": "ns"} if metric == "duration" else {}) | columns


def summarised(folder: Path, rows: list[dict[str, Any]], **options: Any) -> Summary:
    path = folder / "t.jsonl"
    numbered = [row | {"id": row.get("id", number)} for number, row in enumerate(rows, 1)]
    path.write_text("".join(json.dumps(row) + "\n" for row in [{"ktrace": "1.0"}, *numbered]))
    return ktrace.summary(path, **options)


def test_what_a_source_says_stays_and_medians_are_not_joined(tmp_path: Path) -> None:
    figures = {"count": 4, "total": 100.0, "median": 24.0, "min": 20.0, "max": 30.0, "p95": 29.0}
    rows = [
        summary("a", id=1, table=0, **figures),
        summary("b", id=2, table=0, count=1, total=7.0, short_name="b"),
        summary("b", id=3, table=1, count=2, total=8.0, min=1.0, max=5.0, short_name="b"),
        summary("a", "occupancy", id=4, parent=1, value=50.0, kind="metric"),
        summary("all", id=5, table=0, kind="total", total=115.0),
        summary("phase", id=6, kind="range", total=900.0),
        summary("within a", id=7, parent=1, total=60.0),
    ]
    found = summarised(tmp_path, rows, by=["kernel"])
    a, b = found.groups["kernel"]
    assert (a.total, a.count, a.average, a.median, a.p95, a.p99, a.min, a.max) == (100, 4, 25, 24, 29, None, 20, 30)
    assert (b.total, b.count, b.average, b.median, b.min, b.max) == (15, 3, 5, None, None, None)
    assert (found.total, found.count) == (115, 7)


def test_tables_that_say_the_same_again(tmp_path: Path) -> None:
    kernels, every, ranges = ["Kernel Summary (cuda_gpu_kern_sum)"], ["(cuda_gpu_sum)"], ["(nvtx_kern_sum)"]
    rows = [
        summary("a", table=0, scope=kernels, count=4, total=100.0),
        summary("b", table=0, scope=kernels, count=1, total=9.0),
        summary("a", table=1, scope=every, count=4, total=100.0),
        summary("copy", table=1, scope=every, count=1, total=50.0, kind="memcpy"),
        summary("a", table=2, scope=ranges, count=3, total=70.0),
        summary("a", table=3, scope=ranges, count=1, total=30.0),
        summary("a", table=4, scope=["my own heading"], count=4, total=100.0),
        summary("a", table=5, scope=["decode"], count=4, total=90.0),
    ]
    found = summarised(tmp_path, rows, by=["kernel"])
    assert totals(found, "kernel") == {"a": 190, "copy": 50, "b": 9}
    assert found.notes == ["Not counted: 4 rows of tables that repeat others."]
    alone = summarised(tmp_path, rows[4:6], by=["kernel"])
    assert totals(alone, "kernel") == {"a": 100} and not alone.notes
    timed = [row | {"ts": number} for number, row in enumerate(rows[:1] * 3)]
    assert summarised(tmp_path, timed).total == 300  # reports of three times


def test_a_table_that_was_measured_anew_is_counted_whole(tmp_path: Path) -> None:
    """Short times are rounded, so that some rows of two measurements are equal; two tables of the second are one."""
    rows = [
        summary(name, table=table, scope=[title], count=1, total=total)
        for table, title, totals in ((0, "a.py", (160, 80, 5)), (1, "b.py", (160, 81, 5)), (2, "by time", (160, 81)))
        for name, total in zip("fgh", totals, strict=False)
    ]
    counted = summarised(tmp_path, rows, by=["kernel"])
    assert totals(counted, "kernel") == {"f": 320, "g": 161, "h": 10}
    assert counted.notes == ["Not counted: 2 rows of tables that repeat others."]


def test_equal_rows_of_one_table_are_no_repeats(tmp_path: Path) -> None:
    """As of a tree of calling contexts: a copy of the same size from two callers."""
    callers = (["main", "load"], ["main", "store"])
    found = summarised(tmp_path, [summary("copy", table=0, scope=scope, count=2, total=7.0) for scope in callers])
    assert (found.total, found.count, found.notes) == (14, 4, [])


def test_samples_count_where_a_source_has_their_sums_too(tmp_path: Path) -> None:
    sample = {"record": "event", "source": "t", "kind": "sample", "name": "f", "timing": "measured", "unit": "ns"}
    rows = [sample | {"ts": ts, "value": 10.0} for ts in (5, 15)]
    sums = summary("f", total=19.0, kind="sample", metric="CPUTIME", unit="ns")
    found = summarised(tmp_path, [*rows, sums], by=["kernel"])
    assert (found.work, found.total, found.count) == ("samples", 20, 2)
    alone = summarised(tmp_path, [sums])
    assert (alone.total, alone.unit) == (19, "ns")


def test_rows_without_a_time(tmp_path: Path) -> None:
    rows = [summary("a", count=3), summary("b", count=3, avg=5.0), summary("c", value=2.0)]
    found = summarised(tmp_path, rows, by=["kernel"])
    assert totals(found, "kernel") == {"b": 15, "c": 2}
    assert found.notes == ["Not counted: 1 row without a total time."]
    assert found.count is None


def test_events_count_where_a_source_has_both(tmp_path: Path) -> None:
    event = {"record": "event", "source": "t", "kind": "kernel", "name": "a", "ts": 5, "dur": 7, "timing": "measured"}
    found = summarised(tmp_path, [event, summary("a", count=1, total=7.0)])
    assert (found.work, found.total, found.count) == ("events", 7, 1)
    assert any("events are counted" in note for note in found.notes)
    other = summary("b", count=2, total=3.0) | {"source": "u"}
    mixed = summarised(tmp_path, [event, other], by=["kernel", "source"])
    assert totals(mixed, "source") == {"t": 7, "u": 3}
    assert (mixed.total, mixed.count) == (10, 3)


def test_operators_where_there_is_no_device_work() -> None:
    path = SAMPLES / "table/a-drawn-box-marks-of-markdown-and-totals.md"
    found = ktrace.summary(path)
    said = ktrace.read(path).summaries
    assert found.work == "host"
    assert found.total == said[said["kind"] == "op"]["total"].sum()


@pytest.mark.parametrize(("second", "said"), [(300, ["heaviest.operation", "heaviest.kernel"]), (3, [])])
def test_what_is_the_heaviest_in_each_run(second: int, said: list[str], tmp_path: Path) -> None:
    """Of several runs nothing is said of what is the heaviest in all together but not in each."""
    rows = [("a", "gemm_nn", 500), ("a", "softmax_fwd", 100), ("b", "gemm_nn", second), ("b", "softmax_fwd", 100)]
    told = [
        {"record": "summary", "source": "s", "id": number, "kind": "kernel", "name": name, "run": run, "table": 1}
        | {"metric": "duration", "unit": "ns", "count": 2, "total": 1_000.0 * time}
        for number, (run, name, time) in enumerate(rows, 1)
    ]
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [{"ktrace": "1.0"}, *told]), "utf-8")
    summary = ktrace.summary(path)
    assert len(summary.runs) == 2
    assert [one.code for one in summary.findings] == said
    if said:
        assert (summary.findings[0].value, summary.findings[0].whole) == (800_000, 1_000_000)
        assert "in each of the 2 runs: 75.0% to 83.3%; 80.0%" in summary.verdict[0]
