"""The database of rocprof-compute's analysis: a sample, and a real one whose own views have the sums."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES
from plain import asked

from ktrace.trace import read
from ktrace.trace.trace import Trace

SAMPLE = SAMPLES / "rocprof-compute" / "two-kernels-and-metrics-of-one-name.db"
REAL = SAMPLES / "real" / "hunt" / "rocm" / "rocprof_compute_23ed6f36.db"
FIELDS = {"Avg": "avg", "Min": "min", "Max": "max", "Median": "median", "Std Dev": "stddev", "Value": "value"}


def changed(tmp_path: Path, sql: str) -> Trace:
    path = tmp_path / "changed.db"
    shutil.copy(SAMPLE, path)
    connection = sqlite3.connect(path)
    connection.executescript(sql)
    connection.close()
    return read(path)


def metrics(trace: Trace, name: str) -> dict[str, dict[str, Any]]:
    """Metric -> the row of a kernel or workload, without nulls."""
    rows = trace.summaries[trace.summaries.name == name]
    return {row.metric: row.dropna().to_dict() for _, row in rows.iterrows()}


def test_dispatches_are_kernels() -> None:
    found = read(SAMPLE).events[["kind", "name", "device", "ts", "dur", "args"]].values.tolist()
    assert found == [
        ["kernel", "__amd_rocclr_fillBuffer", 0, 5_000_000_000, 2_500, '{"dispatch_id":0}'],
        ["kernel", "softmax(float*, int)", 0, 5_000_010_000, 25_250, '{"dispatch_id":1}'],
        ["kernel", "softmax(float*, int)", 1, 5_000_040_000, 24_750, '{"dispatch_id":2}'],
    ]


def test_values_of_a_metric_are_one_row() -> None:
    found = metrics(read(SAMPLE), "softmax(float*, int)")
    flops, time = found["VALU FLOPs"], found["Kernel Time"]
    assert (flops["kind"], flops["avg"], flops["unit"], flops["run"]) == ("kernel", 812.5, "Gflop/s", "softmax")
    assert json.loads(flops["args"]) == {"metric_id": "2.1.0", "Peak": 163400.0, "Pct of Peak": 0.5}
    assert [time[field] for field in ("min", "median", "max", "unit")] == [24750.0, 25000.0, 25250.0, "ns"]
    assert list(time["scope"]) == ["Wavefront", "Wavefront Runtime Stats"]
    assert found["VGPR"]["value"] == 32.0
    assert "unit" not in found["VGPR"]


def test_metrics_of_one_name_have_their_numbers() -> None:
    trace = read(SAMPLE)
    fill = metrics(trace, "__amd_rocclr_fillBuffer")
    assert (fill["13.1.0 Bandwidth Utilization"]["avg"], fill["13.1.0 Bandwidth Utilization"]["unit"]) == (3.5, "%")
    assert json.loads(fill["14.1.0 Bandwidth Utilization"]["args"])["Avg"] == "Infinity"
    facts = trace.catalog[trace.catalog.entity == "metric"].set_index("name").facts
    assert json.loads(facts["14.1.0 Bandwidth Utilization"])["description"] == "Of the scalar cache."


def test_what_was_not_computed_has_no_row() -> None:
    trace = read(SAMPLE)
    assert "14.1.0 Bandwidth Utilization" not in metrics(trace, "softmax(float*, int)")
    assert dict(trace.report.reader.removed) == {"structure": 1}


def test_the_workload_its_roofline_and_samples() -> None:
    trace = read(SAMPLE)
    found = metrics(trace, "softmax")
    assert {row["kind"] for row in found.values()} == {"range"}
    assert {name: row.get("avg", row.get("value")) for name, row in found.items()} == {
        "VALU FLOPs": 770.25,
        "VGPR": 28.0,
        "roofline total_flops": 770.25,
        "roofline l1_cache_data": 0.5,
        "roofline l2_cache_data": 0.25,
    }
    assert metrics(trace, "softmax(float*, int)")["roofline hbm_cache_data"]["value"] == 0.125
    samples = trace.summaries[trace.summaries.kind == "sample"]
    assert dict(zip(samples.name, samples["count"], strict=True)) == {
        "v_exp_f32_e32 v1, v2": 40,
        "s_waitcnt vmcnt(0)": 60,
    }
    assert json.loads(samples.args.iloc[1])["count_stall"] == 60


def test_the_catalog_has_the_machine() -> None:
    catalog = read(SAMPLE).catalog.to_dict("records")
    devices = {row["device"]: row for row in catalog if row["entity"] == "device"}
    assert set(devices) == {0, 1}
    assert devices[0]["name"] == "MI300X"
    facts = json.loads(devices[0]["facts"])
    assert (facts["sm_count"], facts["gpu_arch"], facts["roofline HBMBw"]) == (304, "gfx942", 4100.5)
    source = next(
        json.loads(row["facts"]) for row in catalog if row["entity"] == "source" and "tool" in str(row["facts"])
    )
    assert {key: source[key] for key in source.keys() - {"path", "format"}} == {
        "tool": "rocprof-compute",
        "version": "3.5.0",
        "schema_version": "1.3.0",
        "run": "softmax",
        "command": "./softmax 4096",
    }


def test_a_kernel_of_several_workloads_says_which(tmp_path: Path) -> None:
    trace = changed(tmp_path, "INSERT INTO compute_workload VALUES (2, 'other', 'MI300X', NULL, '[', NULL)")
    assert {json.loads(args)["workload"] for args in trace.events.args} == {"softmax"}


@pytest.mark.parametrize(
    ("sql", "removed"),
    [
        ("UPDATE compute_dispatch SET end_timestamp = 1 WHERE dispatch_id = 1", {"negative-duration": 1}),
        (
            "UPDATE compute_dispatch SET start_timestamp = 0, end_timestamp = 0 WHERE dispatch_id = 1",
            {"not-executed": 1},
        ),
        ("DELETE FROM compute_metric_definition WHERE metric_uuid = 4", {"bad-record": 10}),
        ("DELETE FROM compute_kernel WHERE kernel_uuid = 1", {"bad-record": 14}),
        ("CREATE TABLE compute_news (id INTEGER); INSERT INTO compute_news VALUES (7)", {"unrecognised": 1}),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, sql: str, removed: dict[str, int]) -> None:
    trace = changed(tmp_path, sql)
    assert Counter(trace.report.reader.removed) - Counter({"structure": 1}) == Counter(removed)
    assert trace.report.balanced()
    nameless = (trace.events.name == "[no name]").sum()
    issue = trace.report.issues.get("missing-string")
    assert nameless == (issue.rows if issue else 0) == (2 if "compute_kernel " in sql else 0)


def test_a_real_one_has_the_sums_of_its_views() -> None:
    trace = read(REAL)
    kernels = trace.events.groupby("name").dur.agg(["count", "sum", "min", "max"])
    figures = "kernel_name, dispatch_count, duration_ns_sum, duration_ns_min, duration_ns_max"
    view = asked(REAL, f"SELECT {figures} FROM compute_kernel_view")
    assert {name: tuple(map(int, row)) for name, row in zip(kernels.index, kernels.values, strict=True)} == {
        name: tuple(rest) for name, *rest in view
    }
    rows = trace.summaries
    for kind, table in (("kernel", "compute_kernel_metric_view"), ("range", "compute_workload_metric_view")):
        mine = rows[(rows.kind == kind) & ~rows.metric.str.startswith("roofline ")]
        values = asked(REAL, f"SELECT value_name, value FROM {table} WHERE value IS NOT NULL")
        in_columns = [(name, value) for name, value in values if name in FIELDS and math.isfinite(value)]
        for name, field in FIELDS.items():
            found = mine[field].dropna() if field in mine else mine.metric.head(0)
            assert len(found) == sum(own == name for own, _ in in_columns)
            assert found.sum() == pytest.approx(sum(value for own, value in in_columns if own == name), rel=1e-12)
        in_args = sum(len(json.loads(args)) - 1 for args in mine.args)  # each has its metric_id
        assert in_args == len(values) - len(in_columns)
