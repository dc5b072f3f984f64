"""The log of Doppler: the real seed 000 against arithmetic of our own, and what is odd about our samples."""

from __future__ import annotations

import json
import re
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.converters.doppler.figures import device_of, memory_levels, parse_label, perf_figures, tool_figures
from ktrace.input.detection import detect
from ktrace.input.format import Score

ODD = SAMPLES / "doppler" / "long-labels-and-nan.log"
NEWER = SAMPLES / "doppler" / "newer-spellings-without-browser-prefix.log"
CUT = SAMPLES / "doppler" / "cut-in-a-report.log"

ROW = re.compile(r"^(\S.*?) +(\d+\.\d\d) +(\d+\.\d|NaN)$")


def rows_of(path: Path, record: str) -> list[dict[str, Any]]:
    rows = ktrace.read(path).to_arrow()[record].to_pylist()
    return [{**row, "args": json.loads(row["args"] or "{}")} for row in rows]


def test_the_seed_has_every_row_of_every_report(seed: Any) -> None:
    path = seed(0)
    printed = [ROW.match(line) for line in path.read_text("utf-8").splitlines()]
    rows = [(found[1], Decimal(found[2]), found[3]) for found in printed if found]
    kernels = [row for row in rows if row[0] != "TOTAL"]
    totals = [row for row in rows if row[0] == "TOTAL"]
    assert (len(kernels), len(totals)) == (9149, 65)
    assert (sum(row[1] for row in kernels), sum(row[1] for row in totals)) == (Decimal("37201.59"), Decimal("37206.47"))

    summaries = rows_of(path, "summaries")
    read = [row for row in summaries if row["kind"] == "kernel"]
    assert [(row["name"], row["total"], row["percent"]) for row in read] == [
        (name, float(ms * 10**6), float(percent)) for name, ms, percent in kernels
    ]
    heads = [row for row in summaries if row["kind"] == "total"]
    assert [row["total"] for row in heads] == [float(ms * 10**6) for _, ms, _ in totals]
    assert [row["table"] for row in heads] == list(range(65))


def test_the_rows_of_the_seed_belong_to_their_report(seed: Any) -> None:
    path = seed(0)
    stamps = re.findall(r"\[(\d+)\.(\d)ms\]\[Profile\] GPU Profile Report", path.read_text("utf-8"))
    labels = re.findall(r"\[Profile\] (.*):$", path.read_text("utf-8"), re.M)
    summaries = rows_of(path, "summaries")
    heads = {row["id"]: row for row in summaries if row["kind"] == "total"}
    assert [row["ts"] for row in heads.values()] == [int(ms) * 10**6 + int(part) * 10**5 for ms, part in stamps]
    assert [row["name"] for row in heads.values()] == labels
    assert labels.count("Batch decode (N=4)") == 63
    sizes = dict.fromkeys(heads, 0)
    for row in summaries:
        if row["kind"] == "kernel":
            head = heads[row["parent"]]
            assert head["id"] < row["id"]
            assert all(row[column] == head[column] for column in ("ts", "table", "scope", "device", "unit"))
            assert row["scope"] == [head["name"]]
            sizes[row["parent"]] += 1
    assert list(sizes.values()) == [189] + [140] * 64


def test_every_log_line_of_the_seed_is_an_event(seed: Any) -> None:
    path = seed(0)
    lines = path.read_text("utf-8").splitlines()
    browser = [re.match(r"\[browser:(\w+)\] (?:\[([\d.]+)ms\])?(?:\[(\w+)\] )?(.*)", line) for line in lines]
    expected = [(f[1], f[3], f[4], f[2] is not None) for f in browser if f]
    assert len(expected) == 162
    logs = [row for row in rows_of(path, "events") if row["kind"] == "log"]
    read = [row for row in logs if row["cat"] in ("log", "warning", "error")]
    assert [(r["cat"], r["args"].get("module"), r["name"], r["timing"] == "measured") for r in read] == expected
    stamps = [Decimal(f[2]) * 10**6 for f in browser if f and f[2]]
    assert [row["ts"] for row in read if row["timing"] == "measured"] == stamps
    assert [row["ts"] for row in logs[:3]] == [190_300_000] * 3, "before the first stamp: the first stamp"
    assert logs[-1]["ts"] == 44_316_600_000, "behind the last stamp: the last stamp"
    tool = [line for line in lines if re.match(r"\[(progress|ok|metrics)\]", line)]
    assert [f"[{row['cat']}] {row['name']}" for row in logs if row not in read] == tool


def test_every_line_of_the_seed_is_accounted_for(seed: Any) -> None:
    report = ktrace.read(seed(0)).report
    assert report.balanced()
    assert report.reader.taken == 9708
    assert not report.issues
    # 9,149 rows, 65 totals, 162 browser lines, 7 of the tool; of each report 3 rules, a heading and a blank line
    assert (report.reader.given, dict(report.reader.removed)) == (9149 + 65 + 162 + 7, {"structure": 65 * 5})


def test_the_metrics_of_the_seed(seed: Any) -> None:
    summaries = rows_of(seed(0), "summaries")
    found = {
        (row["scope"][0], row["metric"]): (row["value"], row["unit"]) for row in summaries if row["kind"] == "metric"
    }
    assert found == {
        ("Perf", "ttft"): (308e6, "ns"),
        ("Perf", "prefill"): (192e6, "ns"),
        ("Perf", "decode"): (40472e6, "ns"),
        ("Perf", "decode_tokens"): (255, "count"),
        ("Perf", "decode_tokens_per_second"): (6.3, "tokens/s"),
        ("ok", "passed"): (1, "count"),
        ("ok", "failed"): (0, "count"),
        ("ok", "duration"): (44124100000, "ns"),
        ("metrics", "load"): (3343500000, "ns"),
        ("metrics", "prefill_tokens"): (9, "count"),
        ("metrics", "decode_tokens"): (256, "count"),
        ("metrics", "max_tokens"): (256, "count"),
        ("metrics", "ttft"): (308100000, "ns"),
        ("metrics", "prefill"): (191800000, "ns"),
        ("metrics", "decode"): (40471500000, "ns"),
        ("metrics", "total"): (40780100000, "ns"),
        ("metrics", "tokens_per_second"): (6.28, "tokens/s"),
        ("metrics", "prefill_tokens_per_second"): (46.92, "tokens/s"),
        ("metrics", "decode_tokens_per_second"): (6.33, "tokens/s"),
    }


def test_variants_of_the_seed_stand_with_the_kernels_that_they_name(seed: Any) -> None:
    summaries = rows_of(seed(0), "summaries")
    chosen = {
        (row["table"], row["args"]["op"]): [item["variant"] for item in row["args"].get("variants", ())]
        for row in summaries
        if row["kind"] == "kernel"
    }
    assert chosen[0, "matmul"] == ["f16"]
    assert chosen[0, "attention"] == ["prefill_streaming_f16"]
    for table in (1, 2, 64):
        assert chosen[table, "matmul"] == ["gemv_subgroup_vec4_f16a", "gemv_subgroup_multicol_f16a"]
        assert chosen[table, "attention"] == ["decode_chunked_f16"]
        assert chosen[table, "matmul_rmsnorm_fused"] == []


def test_device_model_and_clock_of_the_seed(seed: Any) -> None:
    trace = ktrace.read(seed(0))
    facts = {
        row["entity"]: (row["name"], json.loads(row["facts"] or "{}"))
        for row in trace.to_arrow()["catalog"].to_pylist()
    }
    assert facts["device"] == (
        "apple metal-3",
        {"api": "webgpu", "features": ["f16", "subgroups"], "max_storage_buffer": 4 << 30},
    )
    assert facts["source"][1]["model"] == "gemma-3-1b-it"
    assert facts["source"][1]["prompt"] == "Summarize this input in one sentence."
    assert facts["process"][0] == "Doppler gemma-3-1b-it"
    assert facts["clock"][1]["kind"] == "page"


def test_labels_that_overrun_their_column_and_shares_that_are_no_number() -> None:
    kernels = [row for row in rows_of(ODD, "summaries") if row["kind"] == "kernel"]
    long = kernels[2]
    assert (long["name"], long["total"], long["percent"], long["layer"]) == (
        "matmul_rmsnorm_fused_with_a_long_name:L1.ffn_down",
        3e6,
        15.0,
        "L1",
    )
    assert long["args"] == {"op": "matmul_rmsnorm_fused_with_a_long_name", "tensor": "ffn_down"}
    assert (kernels[-1]["name"], kernels[-1]["total"]) == ("sample_phase1", 0)
    assert kernels[-1]["percent"] != kernels[-1]["percent"], "NaN"
    assert kernels[-1]["scope"] == ["GPU Profile Report"], "no line before it says which phase it is"


def test_a_stack_trace_goes_on_with_its_message_and_other_text_is_skipped() -> None:
    trace = ktrace.read(ODD)
    (error,) = (row for row in rows_of(ODD, "events") if row["name"].startswith("Uncaught Error"))
    assert error["args"]["more"] == ["    at decode (pipeline.js:10:5)", "    at run (pipeline.js:99:1)"]
    assert {kind: issue.places for kind, issue in trace.report.issues.items()} == {"unrecognised": [("line 45", "")]}


def test_memory_counters_are_children_of_their_line() -> None:
    events = rows_of(ODD, "events")
    logs = {row["id"]: row for row in events if row["kind"] == "log"}
    counters = [row for row in events if row["kind"] == "counter"]
    assert {logs[row["parent"]]["name"].split(":")[0] for row in counters} == {
        "[0.0s] Memory (start)",
        "[0.8s] Memory (complete)",
    }
    later = {row["track"]: (row["value"], row["unit"]) for row in counters if row["ts"] == 902_100_000}
    assert later == {
        "Heap used": (640.5 * 2**20, "B"),
        "Heap total": (2.0**30, "B"),
        "Heap limit": (2.0**32, "B"),
        "GPU memory": (96.25 * 2**20, "B"),
        "GPU buffers active": (31, "count"),
        "GPU buffers pooled": (2, "count"),
        "GPU memory peak": (98 * 2**20, "B"),
        "Shard cache": (12, "B"),
        "Shards cached": (1, "count"),
        "Layers loaded": (2, "count"),
        "GPU buffers": (33, "count"),
    }


def test_a_report_without_its_total_keeps_its_rows_and_is_reported() -> None:
    trace = ktrace.read(CUT)
    kernels = trace.to_arrow()["summaries"].to_pylist()
    assert [(row["name"], row["parent"]) for row in kernels] == [("attention", None), ("matmul:lm_head", None)]
    assert [place for place, _ in trace.report.issues["cut"].places] == ["line 2"]
    assert "input cut off" in trace.report.line()


def test_newer_spellings_other_units_and_columns() -> None:
    summaries = rows_of(NEWER, "summaries")
    softmax = next(row for row in summaries if row["name"] == "softmax")
    assert (softmax["total"], softmax["percent"], softmax["count"]) == (120_500, 60.2, 3)
    assert softmax["args"]["variants"] == [{"variant": "online"}]
    metrics = {(row["scope"][0], row["metric"]): row["value"] for row in summaries if row["kind"] == "metric"}
    assert metrics["metrics", "ttft"] == 46e6
    assert metrics["metrics", "tokens_per_second"] == 79.68
    assert metrics["memory", "pool"] == 64 * 2**20
    assert ("metrics", "decode") not in metrics, "decode=n/a is no figure"
    stamped = [row for row in rows_of(NEWER, "events") if row["timing"] == "measured"]
    assert [(row["ts"], row["cat"], row["args"]["module"]) for row in stamped] == [
        (4_200_000, None, "Pipeline"),
        (5_000_250, None, "KernelSelect"),
    ]


@pytest.mark.parametrize(
    ("label", "op", "tensor", "layer", "sub"),
    [
        ("attention", "attention", None, None, None),
        ("matmul:lm_head", "matmul", "lm_head", None, None),
        ("matmul:ffn_up:L0", "matmul", "ffn_up", "L0", None),
        ("matmul_rmsnorm_fused:L9.ffn_down", "matmul_rmsnorm_fused", "ffn_down", "L9", None),
        ("rmsnorm:L12", "rmsnorm", None, "L12", None),
        ("matmul:moe:L3.expert7", "matmul", "moe", "L3", "expert7"),
        ("matmul:Lora", "matmul", "Lora", None, None),
    ],
)
def test_labels_are_taken_apart(label: str, op: str, tensor: str | None, layer: str | None, sub: str | None) -> None:
    parts = parse_label(label)
    assert (parts.op, parts.tensor, parts.layer, parts.sub) == (op, tensor, layer, sub)


def test_figures_of_single_lines() -> None:
    bench = "tok/s median=6.00 avg=6.10 prefill median=40.00 avg=41.00"
    assert [(figure.metric, figure.column, figure.value) for figure in tool_figures("metrics", bench)] == [
        ("tokens_per_second", "median", 6.0),
        ("tokens_per_second", "avg", 6.1),
        ("prefill_tokens_per_second", "median", 40.0),
        ("prefill_tokens_per_second", "avg", 41.0),
    ]
    tokens = list(tool_figures("metrics", "tokens prefill(avg)=9 decode(avg)=256 generated(avg)=n/a"))
    assert [(figure.metric, figure.column, figure.value) for figure in tokens] == [
        ("prefill_tokens", "avg", 9),
        ("decode_tokens", "avg", 256),
    ]
    assert list(perf_figures("nothing to see: here")) == []
    assert memory_levels("Complete: 0 B in 1.22s (0 B/s)") == []
    assert device_of("Platform: Apple M2 (apple)") is None


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_line_ends_and_a_byte_order_mark_make_no_difference(tmp_path: Path, ending: str) -> None:
    path = tmp_path / ODD.name
    path.write_bytes(ODD.read_bytes())
    plain = ktrace.read(path)
    path.write_bytes(b"\xef\xbb\xbf" + ODD.read_text("utf-8").replace("\n", ending).encode())
    assert ktrace.read(path).equals(plain)


def test_what_is_no_log_of_doppler_is_not_claimed(tmp_path: Path) -> None:
    path = tmp_path / "other.log"
    path.write_text("the words GPU Profile Report\nand nothing else\n", "utf-8")
    claims = {match.format: match.score for match in detect(str(path))}
    assert claims.get("doppler", Score.NEAR) == Score.NEAR


def test_a_bench_says_each_rate_of_its_own_phase_and_which_figures_are_medians() -> None:
    path = SAMPLES / "doppler" / "bench-of-the-command-line-tool.log"
    rows = rows_of(path, "summaries")
    figures = {
        (row["scope"][0], row["metric"], column): (row[column], row["unit"])
        for row in rows
        for column in ("value", "avg", "median")
        if row[column] is not None
    }
    assert {key: value for key, value in figures.items() if value[1] == "tokens/s"} == {
        ("metrics", "decode_tokens_per_second", "value"): (6.5, "tokens/s"),
        ("metrics", "decode_tokens_per_second", "avg"): (6.4, "tokens/s"),
        ("metrics", "prefill_tokens_per_second", "value"): (46.0, "tokens/s"),
        ("metrics", "prefill_tokens_per_second", "avg"): (45.0, "tokens/s"),
    }
    assert {(metric, value) for (scope, metric, _), value in figures.items() if scope == "metrics"} >= {
        ("ttft", (300.1e6, "ns")),
        ("prefill", (190.5e6, "ns")),
        ("decode", (4e9, "ns")),
    }
    assert {(metric, column): value for (scope, metric, column), value in figures.items() if scope == "gpu"} == {
        ("decode_record", "median"): (1e6, "ns"),
        ("decode_submit_wait", "median"): (2e6, "ns"),
        ("prefill", "median"): (10e6, "ns"),
        ("decode", "median"): (20e6, "ns"),
    }
    catalog = ktrace.read(path).to_arrow()["catalog"].to_pylist()
    facts = [json.loads(row["facts"]) for row in catalog if row["entity"] == "device"]
    said = {"vendor": "acme", "architecture": "gpu-9", "features": ["f16", "timestamp_query"]}
    assert facts == [{"api": "webgpu"} | said]


@pytest.mark.parametrize("rest", ["a" * 50_000, "a=1" + " " * 20_000 + "x", "a=1 " * 10_000 + "("])
def test_a_memory_line_without_end_takes_no_time(rest: str) -> None:
    begin = time.process_time()
    levels = memory_levels(f"Memory (start): | Heap=1.00 KB | {rest}")
    assert time.process_time() - begin < 2
    assert [(level.series, level.value) for level in levels][:1] == [("Heap used", 1024.0)]
