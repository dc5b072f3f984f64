"""bpftrace: maps as text and as JSON, against plain arithmetic over the text."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.converters.bpftrace.maps import unit_of
from ktrace.errors import UnknownFormat

TEXT = SAMPLES / "bpftrace/cuda-launches-stacks-and-histograms.txt"
JSON = SAMPLES / "bpftrace/messages-of-json-a-bad-one-cut.jsonl"
NEWER = SAMPLES / "bpftrace/newer-text-series-and-scalars.txt"
MADE = SAMPLES / "real/corpus/made/bpftrace"
OTHERS = SAMPLES / "real/corpus/bpftrace"


def entries(path: Path) -> list[dict[str, Any]]:
    """The summaries, without what is absent, and args as an object."""
    rows = ktrace.read(path, from_="bpftrace").to_arrow()["summaries"].to_pylist()
    found = [{key: value for key, value in row.items() if value is not None} for row in rows]
    return [row | {"args": json.loads(row.get("args", "{}"))} for row in found]


def by_name(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["metric"], row["name"]): row for row in entries(path)}


def bars(text: str) -> int:
    """The sum of all histograms of a text."""
    return sum(int(number) for number in re.findall(r"(?<=[\])])\s*(\d+) \|[ @]*\|$", text, re.MULTILINE))


def test_a_map_that_is_printed_twice_is_two_tables() -> None:
    rows = [row for row in entries(TEXT) if row["metric"] == "@launches"]
    found = [(row["name"], row["value"], row["table"], row["args"]["time"]) for row in rows]
    assert found == [
        ("cuLaunchKernel, trainer", 1200, 0, "14:02:11"),
        ("cuLaunchKernel, loader: gpu 0", 36, 0, "14:02:11"),
        ("cuLaunchKernel, trainer", 1310, 1, "14:02:12"),
        ("cuLaunchKernel, loader: gpu 0", 41, 1, "14:02:12"),
    ]
    assert not any("unit" in row for row in rows)


def test_histograms_keep_their_buckets_in_the_unit_of_the_row() -> None:
    rows = by_name(TEXT)
    launch = rows["@launch_us", "@launch_us"]
    assert (launch["count"], launch["unit"]) == (910, "ns")
    assert launch["args"]["buckets"] == [
        {"below": 0, "count": 1},
        {"from": 0, "below": 1000, "count": 2},
        {"from": 1000, "below": 2000, "count": 0},
        {"from": 2000, "below": 4000, "count": 900},
        {"from": 512_000, "below": 1_024_000, "count": 7},
    ]
    assert rows["@copy_bytes", "DtoH"]["args"]["buckets"] == [{"from": 1 << 20, "below": 1 << 21, "count": 3}]
    assert rows["@copy_bytes", "DtoH"]["unit"] == "B"
    grid = rows["@grid", "@grid"]
    assert "unit" not in grid
    assert grid["args"]["buckets"][-1] == {"from": 200, "count": 1}
    assert sum(row["count"] for row in rows.values() if "buckets" in row["args"]) == bars(TEXT.read_text())


def test_both_forms_agree() -> None:
    text, messages = by_name(TEXT), by_name(JSON)
    for key in (("@copy_bytes", "HtoD"), ("@copy_bytes", "DtoH"), ("@sync_us", "cuStreamSynchronize")):
        one, other = (
            {name: row[name] for name in row if name not in ("id", "table", "source")}
            for row in (text[key], messages[key])
        )
        one["args"].pop("time"), other["args"].pop("time")
        assert one == other
    assert text["@sync_us", "cuStreamSynchronize"]["total"] == 1_003_000
    assert (text["@wait_ns", "poll"]["count"], text["@wait_ns", "poll"]["total"]) == (2, 3001)


def test_stacks_in_keys() -> None:
    rows = [row for row in entries(TEXT) if row["metric"] == "@stacks"]
    scopes = [(row["name"], row["scope"], row["value"]) for row in rows]
    outer = ["@stacks", "trainer", "PyEval_EvalFrame+21", "at::native::gpu_kernel_impl(at::TensorIteratorBase&)+344"]
    assert scopes == [
        ("cuLaunchKernel+0", outer, 977),
        ("cuLaunchKernel+0", ["@stacks", "trainer", "warmup()+8"], 23),
    ]
    rows = [row for row in entries(JSON) if row["metric"] == "@stacks"]
    assert [(row["scope"], row["value"]) for row in rows] == [
        (["@stacks", "trainer", "warmup()+8"], 23),
        (["@stacks", "main+4"], 5),
    ]


def test_messages_in_words_and_what_is_reported() -> None:
    trace = ktrace.read(JSON)
    issues = {kind: issue.places for kind, issue in trace.report.issues.items()}
    assert issues["bad-record"] == [("line 15", "not a whole number: many")]
    assert issues["capture-warning"] == [("line 20", "Bad address"), ("line 22", "4 events were lost")]
    assert [where for where, _ in issues["cut"]] == ["line 23"]
    notes = [(row["scope"], row["name"]) for row in entries(JSON) if row["metric"] == "note"]
    assert notes == [
        (["printf"], "Tracing CUDA calls... Hit Ctrl-C to end."),
        (["value"], "5"),
        (["helper_error"], "Bad address"),
        (["benchmark_result"], '{"probe_a":{"average":220,"iters":1000}}'),
    ]
    rows = by_name(JSON)
    assert rows["@last_ns", "@last_ns"]["args"]["value"] == 9007199254740993123
    assert rows["@average_ns", "@average_ns"]["avg"] == 2500
    assert rows["@empty", "@empty"]["count"] == 0


def test_series() -> None:
    rows = ktrace.read(JSON).to_arrow()["events"].to_pylist()
    start = 1_772_366_400 * 10**9  # 2026-03-01 12:00:00 UTC
    assert [(row["name"], row["ts"] - start, row["value"]) for row in rows] == [
        ("@busy[gpu 0]", 500_000_000, 7),
        ("@busy[gpu 0]", 600_000_000, 9),
    ]
    rows = by_name(NEWER)
    assert rows["@queued", "@queued"]["args"]["value"] == {"12:00:00.000": 0, "12:00:00.100": 5}
    assert rows["@waits", "0"]["value"] == -3
    assert rows["@waits", "1"]["args"]["value"] == (1 << 64) - 1


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("@us", ("ns", 1000)),
        ("@usecs", ("ns", 1000)),
        ("@launch_ns", ("ns", 1)),
        ("@latencyMs", ("ns", 10**6)),
        ("@wait_us_total", ("ns", 1000)),
        ("@bytes", ("B", 1)),
        ("@bytes_per_sec", (None, 1)),
        ("@cpus", (None, 1)),
        ("@status", (None, 1)),
        ("@countUS", (None, 1)),
        ("@s", (None, 1)),
        ("@total", (None, 1)),
        ("@", (None, 1)),
    ],
)
def test_a_unit_is_what_the_name_ends_with(name: str, unit: tuple[str | None, int]) -> None:
    assert unit_of(name) == unit


def test_older_json(tmp_path: Path) -> None:
    """bpftrace 0.9.2 had other keys."""
    lines = [
        '{"type": "attached_probes", "probes": 3}',
        '{"type": "printf", "msg": "a\\n"}',
        '{"type": "lost_events", "events": 7}',
    ]
    path = tmp_path / "old.jsonl"
    path.write_text("\n".join([*lines, '{"type": "map", "data": {  "@x": 4}}']) + "\n")
    trace = ktrace.read(path)
    assert [row["name"] for row in entries(path)] == ["a", "@x"]
    assert trace.report.issues["capture-warning"].places == [("line 3", "7 events were lost")]


def test_a_script_that_prints_no_map_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("Attaching 2 probes...\nPID COMM\n1 init\n")
    with pytest.raises(UnknownFormat, match="no map of bpftrace"):
        ktrace.read(path)


@pytest.mark.parametrize("name", ["launches", "every-20-ms"])
def test_recorded_json(name: str) -> None:
    """Every number of every message, by json alone."""
    path = MADE / f"{name}.jsonl"
    counts: Counter[str] = Counter()
    values: Counter[str] = Counter()
    for line in filter(str.strip, path.read_text().splitlines()):
        record = json.loads(line)
        if record["type"] not in ("map", "hist", "stats"):
            continue
        ((metric, body),) = record["data"].items()
        factor = 1000 if metric.endswith("us") else 1
        is_one = not isinstance(body, dict) or "total" in body
        for entry in [body] if is_one else body.values():
            if record["type"] == "hist":
                counts[metric] += sum(bucket["count"] for bucket in entry)
                values[metric] += factor * sum(bucket.get("min", 0) for bucket in entry)
            elif isinstance(entry, dict):
                counts[metric] += entry["count"]
                values[metric] += factor * entry["total"]
            elif isinstance(entry, int):
                values[metric] += factor * entry
    found_counts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for row in entries(path):
        if row["kind"] == "note":
            continue
        buckets = row["args"].get("buckets", [])
        found_counts[row["metric"]] += row.get("count", 0)
        own = row.get("value", row.get("total", row.get("avg", 0)))
        found[row["metric"]] += int(own) + sum(bucket.get("from", 0) for bucket in buckets)
    assert found == values
    assert found_counts == counts
    assert sum(values.values()) > 10**6
    assert not ktrace.read(path).report.issues


@pytest.mark.parametrize(("name", "left"), [("launches", 2), ("every-20-ms", 0), ("profile", 0)])
def test_recorded_text(name: str, left: int) -> None:
    path = MADE / f"{name}.txt"
    text = path.read_text()
    rows = [row for row in entries(path) if row["kind"] == "metric"]
    numbers = sum(
        int(number) for number in re.findall(r"^(?:@\w*(?:\[[^\n]*\])?|[,\]].*\]|\]): (\d+)$", text, re.MULTILINE)
    )
    scaled = {"@launch_us": 1000}
    exact = (row["args"].get("value", int(row.get("value", 0)) // scaled.get(row["metric"], 1)) for row in rows)
    assert sum(exact) == numbers
    assert sum(row["count"] for row in rows if "buckets" in row["args"]) == bars(text)
    skipped = ktrace.read(path).report.issues
    assert sum(issue.rows for issue in skipped.values()) == left


def test_examples_of_the_tools() -> None:
    rows = entries(OTHERS / "ssllatency_example.txt")
    assert sum(row["count"] for row in rows if "buckets" in row["args"]) == bars(
        (OTHERS / "ssllatency_example.txt").read_text()
    )
    text = (OTHERS / "ssllatency_example.txt").read_text()
    totals = [int(total) for total in re.findall(r"total (\d+)$", text, re.MULTILINE)]
    assert sum(row.get("total", 0) for row in rows) == sum(totals)
    assert len(totals) == 11
    rows = entries(OTHERS / "swapin_example.txt")
    assert sum(row["value"] for row in rows) == 10809 + 3826 + 23 + 4 + 12410 + 2462 + 3420
    rows = entries(OTHERS / "runqlat_example.txt")
    assert sum(row["count"] for row in rows) == bars((OTHERS / "runqlat_example.txt").read_text())
    assert {row["unit"] for row in rows} == {"ns"}
