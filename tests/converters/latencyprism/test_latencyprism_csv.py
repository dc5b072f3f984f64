"""LatencyPrism's CSV. No real file is at hand: the samples are invented after the description of its columns."""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from pathlib import Path

from conftest import SAMPLES

from ktrace.trace import read

FOLDER = SAMPLES / "latencyprism-csv"
PERFORMANCE = FOLDER / "epoch-below-a-nanosecond_perf_data.csv"
COUNTERS = FOLDER / "a-time-in-words_counters_data.csv"


def cells_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_function_of_a_cycle_is_a_row_that_ends_with_the_cycle() -> None:
    rows = read(PERFORMANCE, "latencyprism-csv").summaries
    functions, expected = rows[rows.metric == "duration"], cells_of(PERFORMANCE)[:3]
    assert len(functions) == len(expected)
    for cells, (_, row) in zip(expected, functions.iterrows(), strict=True):
        assert (row["name"], row["short_name"]) == (cells["function_name"], cells["simple_name"])
        assert (row["host"], row["cat"], row["unit"]) == ("node7", cells["func_type"], "ns")
        assert (row["pid"], row["percent"]) == (101, float(cells["beta_pct"]))
        assert row["count"] == int(cells["instances_count"])
        assert row["total"] == float(Decimal(cells["duration"]) * 1000)
        start = int((Decimal(cells["cycle_start_ts"]) * 1000).to_integral_value())
        assert row["ts"] == start + int(Decimal(cells["anchor_dur_us"]) * 1000)
        assert list(row["scope"]) == [f"cycle {cells['cycle']}"]
    assert functions.kind.tolist() == ["kernel", "range", "kernel"]
    assert functions.device.isna().tolist() == [False, True, False]
    assert functions.device.tolist()[0] == 1


def test_each_metric_is_a_row_below_its_function() -> None:
    rows = read(PERFORMANCE, "latencyprism-csv").summaries
    metrics, expected = rows[rows.metric != "duration"], cells_of(PERFORMANCE)
    names = dict(zip(rows.id, rows.name, strict=True))
    assert len(metrics) == len(expected) == 4
    for cells, (_, row) in zip(expected, metrics.iterrows(), strict=True):
        assert (row["metric"], str(row["value"])) == (cells["metric_name"], cells["mu_pct"])
        assert names[row["parent"]] == row["name"] == cells["function_name"]
    # Of memory that is used mu_pct is no share.
    assert metrics.unit.fillna("none").tolist() == ["%", "%", "%", "none"]
    # The last line is another metric of the function of the line before: no function twice.
    assert metrics.parent.tolist()[2] == metrics.parent.tolist()[3]


def test_what_has_no_column_and_what_was_rounded() -> None:
    trace = read(PERFORMANCE, "latencyprism-csv")
    args = [json.loads(text) for text in trace.summaries.args]
    assert args[:3] == [
        {"anchor_dur_us": 1500.5},
        {"interpolation_status": "measured", "anchor_name": "forward"},
        {"device": "Host", "anchor_dur_us": 1500.5},
    ]
    assert args[4]["$ts"] == "1736413971560473.4125"
    assert trace.report.issues["rounded"].places == [
        ("line 4", "1736413971560473.4125"),
        ("line 5", "1736413971560473.4125"),
    ]
    assert set(trace.report.issues) == {"rounded"}


def test_counters_have_their_real_times() -> None:
    trace = read(COUNTERS, "latencyprism-csv")
    events = trace.events
    assert events.ts.tolist() == [1736413971558972912, 1736413971558973000, 1736413971568972912]
    assert events.track.tolist() == events.name.tolist() == ["gpu_usage", "cpu_frequency", "gpu_usage"]
    assert events.value.tolist()[:2] == [7.25, 118687.5] and str(events.value.tolist()[2]) == "nan"
    assert set(events.kind) == {"counter"} and set(events.timing) == {"measured"} and set(events.host) == {"node7"}
    assert trace.report.issues["bad-record"].places == [("line 6", "no time: 'soon'")]
    (clock,) = trace.catalog[trace.catalog.entity == "clock"].facts
    assert json.loads(clock)["kind"] == "unix"


def test_columns_in_any_order_with_units(tmp_path: Path) -> None:
    path = tmp_path / "x_perf_data.csv"
    path.write_text(
        "duration[µs],metric_name,function_name,beta_pct,cycle_start_ts[µs],extra\n2,m,f,5,1000.5,7\n", "utf-8"
    )
    trace = read(path)
    function, metric = trace.summaries.to_dict("records")
    assert (function["name"], function["metric"], function["percent"], function["ts"]) == (
        "f",
        "duration",
        5.0,
        1_000_500,
    )
    assert (function["total"], function["unit"]) == (2000.0, "ns")
    assert (metric["metric"], metric["parent"], metric["ts"]) == ("m", function["id"], 1_000_500)
    assert json.loads(metric["args"]) == {"extra": 7}
    assert trace.report.issues["unknown-column"].places == [("line 1", "extra")]


def test_a_time_beyond_the_range_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x_counters_data.csv"
    path.write_text("counter_name,timestamp,value,hostname\na,4611686018427387904,1,h\nb,1,2,h\n")
    trace = read(path, "latencyprism-csv")
    assert trace.events.name.tolist() == ["b"]
    assert trace.report.issues["time-range"].places == [("line 2", "4611686018427387904")]


def test_real_types_of_functions_and_metrics_that_are_no_shares() -> None:
    trace = read(FOLDER / "types-of-functions-and-a-virtual-gpu_perf_data.csv", "latencyprism-csv")
    rows = trace.summaries
    functions = rows[rows.metric == "duration"]
    found = functions[["name", "kind", "copy_kind", "device"]].astype(object).where(functions.notna(), None)
    assert [tuple(row) for row in found.values] == [
        ("oncpu", "range", None, None),
        ("write", "range", None, None),
        ("gemm", "kernel", None, 7),
        ("gemm", "kernel", None, 3),
        ("Memcpy DtoH (Device -> Pageable)", "memcpy", "DtoH", 7),
        ("Memset (Device)", "memset", None, 7),
    ]
    metrics = rows[rows.metric != "duration"]
    assert dict(zip(metrics.metric, metrics.unit.fillna("none"), strict=True)) == {
        "cpu_frequency": "none",
        "host_cpu_usage": "%",
        "gpu_sm_frequency": "none",
        "net_rx_rate": "none",
        "gpu_pcie_receive": "none",
    }
    # A function of which no counter was read has its one line, and that keeps what has no column.
    write, virtual = (json.loads(functions.args.iloc[index]) for index in (1, 3))
    assert write == {"device": "Host", "anchor_name": "loop", "anchor_dur_us": 1000}
    assert virtual["device"] == "GPU 3 (virtual)"
    assert trace.report.read == 7 and trace.report.balanced()
