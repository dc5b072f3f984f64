"""Metallic's raw JSON Lines. No real file is at hand: the samples are synthetic, after event.rs of the crate."""

from __future__ import annotations

import calendar
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace

TYPES = SAMPLES / "metallic-jsonl" / "every-type-and-an-unknown-one.jsonl"
CONSOLE = SAMPLES / "metallic-jsonl" / "console-with-other-output.log"

SECOND = calendar.timegm((2025, 10, 21, 17, 3, 11)) * 10**9
SPAN = {"span_id": 2, "parent_span_id": 1, "span_name": "decode"}


def events_of(path: Path) -> list[dict[str, Any]]:
    rows = ktrace.read(path).to_arrow()["events"].to_pylist()
    return [{**row, "args": json.loads(row["args"] or "{}")} for row in rows]


def a_record(kind: str, data: Any, timestamp: str = "2025-10-21T17:03:11Z") -> str:
    event = {"type": kind, "data": data}
    return json.dumps(
        {"timestamp": timestamp, "span_id": None, "parent_span_id": None, "span_name": None, "event": event}
    )


def test_a_record_is_stamped_at_its_end() -> None:
    slices = {row["name"]: row for row in events_of(TYPES) if row["dur"] is not None}
    records = [json.loads(line) for line in TYPES.read_text("utf-8").splitlines()]
    timed = [record for record in records if record["event"]["type"] in ("GpuOpCompleted", "InternalKernelCompleted")]
    assert len(slices) == len(timed) == 6
    for record in timed:
        data = record["event"]["data"]
        row = slices[data.get("op_name") or data["internal_kernel_name"]]
        fraction = record["timestamp"].split(".")[1].removesuffix("Z").ljust(9, "0")
        assert row["dur"] == data["duration_us"] * 1000
        assert row["ts"] + row["dur"] == SECOND + int(fraction)
        assert (row["timing"], row["cat"]) == ("derived", record["event"]["type"])


def test_kinds_and_tracks_of_slices() -> None:
    slices = {row["name"]: row for row in events_of(TYPES) if row["dur"] is not None}
    assert {name: (row["kind"], row["device"], row["track"], row["layer"]) for name, row in slices.items()} == {
        "Generation Loop/block_3/sdpa_block_3_op": ("kernel", 0, "GPU", "block_3"),
        "Generation Loop/matmul/gemv (C)": ("kernel", 0, "GPU", None),
        "Generation Loop/cb_gpu": ("range", 0, "command buffers", None),
        "Generation Loop/cb_wait": ("sync", 0, "waits", None),
        "forward_cpu_block_3": ("op", None, "generation_loop", "block_3"),
        "block_3_total": ("range", None, "generation_loop", "block_3"),
    }
    gemv = slices["Generation Loop/matmul/gemv (C)"]["args"]
    assert gemv["data"]["n"] == "896"
    assert gemv.items() >= {"backend": "Metal", **SPAN}.items()


def test_a_dispatch_has_its_grid() -> None:
    (row,) = (row for row in events_of(TYPES) if row["cat"] == "GpuKernelDispatched")
    assert (row["name"], row["grid_x"], row["grid_y"], row["grid_z"]) == ("sdpa_f16", 14, 2, 1)
    assert row["args"] == {"op_name": "block_3/sdpa#1", **SPAN}


def test_memory_is_counters_below_a_head_that_keeps_the_rest() -> None:
    events = events_of(TYPES)
    heads = {row["id"]: row for row in events if row["kind"] == "instant"}
    counters = [row for row in events if row["kind"] == "counter"]
    assert {row["name"]: row["value"] for row in counters} == {
        "GgufFileMmap size_bytes": 1048576,
        "ModelWeights total_bytes": 900000,
        "HostMemory total_bytes": 5000,
        "HostMemory tensor_pool_reserved_bytes": 3000,
        "HostMemory tensor_pool_used_bytes": 2500,
        "HostMemory kv_pool_reserved_bytes": 1000,
        "HostMemory kv_pool_used_bytes": 10,
    }
    assert all(heads[row["parent"]]["cat"] == row["cat"] and row["unit"] == "B" for row in counters)
    (host,) = (row for row in heads.values() if row["cat"] == "HostMemory")
    assert host["args"] == {"forward_pass_breakdown": {"0": ["block", {"q": 5}]}}
    (mapped,) = (row for row in heads.values() if row["cat"] == "GgufFileMmap")
    assert mapped["ts"] == SECOND + 500


def test_an_unknown_type_passes_through_whole() -> None:
    row = events_of(TYPES)[-1]
    assert (row["kind"], row["cat"], row["ts"]) == ("instant", "TeleportStarted", SECOND + 267_000_000)
    assert row["args"] == {"where": {"x": 1}, "duration_us": 5, **SPAN}
    issues = ktrace.read(TYPES).report.issues
    assert {kind: issue.places for kind, issue in issues.items()} == {"unknown-kind": [("line 14", "TeleportStarted")]}


def test_the_console_variant_amid_other_output() -> None:
    trace = ktrace.read(CONSOLE)
    starts = {row["name"]: row["ts"] for row in events_of(CONSOLE)}
    assert starts == {
        "ForwardStep": SECOND + 500_000_000,  # 19:03:11.5+02:00
        "ForwardStep total_bytes": SECOND + 500_000_000,
        "token_push": SECOND + 10**9 - 1000,
    }
    assert {kind: [place for place, _ in issue.places] for kind, issue in trace.report.issues.items()} == {
        "unrecognised": ["line 1", "line 6"],
        "bad-record": ["line 4", "line 5"],
        "cut": ["line 8"],
    }
    assert trace.report.balanced()


@pytest.mark.parametrize(
    ("line", "issue"),
    [
        ('{"timestamp":"2025-10-21T17:03:11Z","event":{"type":"X"', "bad-record"),
        ('{"timestamp":"2025-13-21T17:03:11Z","event":{"type":"X","data":{}}}', "bad-record"),
        ('{"timestamp":"2025-10-21T17:03:11Z","event":"X"}', "bad-record"),
        (a_record("GpuOpCompleted", {"backend": "Metal", "duration_us": 1}), "bad-record"),
        (a_record("GpuOpCompleted", {"op_name": "a", "duration_us": -1}), "negative-duration"),
        (a_record("GpuOpCompleted", {"op_name": "a", "duration_us": 1 << 60}), "time-range"),
        (a_record("GpuOpCompleted", {"op_name": "a", "duration_us": True}), "bad-record"),
        ("[1]", "unrecognised"),
    ],
)
def test_a_record_that_is_broken_is_skipped(tmp_path: Path, line: str, issue: str) -> None:
    path = tmp_path / "a.jsonl"
    good = a_record("CacheEviction", {"count": 3})
    path.write_text(f"{good}\n{line}\n{good}\n", "utf-8")
    trace = ktrace.read(path)
    assert {kind: found.rows for kind, found in trace.report.issues.items()} == {issue: 1}
    assert [row["name"] for row in events_of(path)] == ["CacheEviction"] * 2
    assert trace.report.balanced()


def test_data_that_is_no_object_and_times_below_a_nanosecond_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(a_record("CacheEviction", [1, 2], "2025-10-21T17:03:11.0000000015Z") + "\n", "utf-8")
    (row,) = events_of(path)
    assert row["ts"] == SECOND + 2
    assert row["args"] == {"$ts": "2025-10-21T17:03:11.0000000015Z", "data": [1, 2]}
    assert "rounded" in ktrace.read(path).report.issues


def test_times_and_figures_that_no_column_holds(tmp_path: Path) -> None:
    path = tmp_path / "far.jsonl"
    lines = [
        a_record("GpuOpCompleted", {"op_name": "late", "duration_us": 1}, "9999-10-21T17:03:11Z"),
        a_record("GpuOpCompleted", {"op_name": "early", "duration_us": 10**15}, "1830-10-21T17:03:11Z"),
        a_record("ForwardStep", {"total_bytes": 10**400, "breakdown": {}}),
        a_record("GpuOpCompleted", {"op_name": "near", "duration_us": 1}),
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    trace = ktrace.read(path, "metallic-jsonl")
    assert [row["name"] for row in trace.to_arrow()["events"].to_pylist()] == ["ForwardStep", "near"]
    assert [place for place, _ in trace.report.issues["time-range"].places] == ["line 1", "line 2"]
    assert trace.report.balanced()
