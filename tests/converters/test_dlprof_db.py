"""DLProf's database: the figures of the sample, which a script writes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import dlprof_samples

import ktrace


def events(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ktrace.read(path).to_arrow()["events"].to_pylist()
    return rows


def test_the_sample_is_what_the_script_writes(tmp_path: Path) -> None:
    dlprof_samples.write(tmp_path / "new.sqlite")
    dumps = []
    for path in (tmp_path / "new.sqlite", dlprof_samples.SAMPLE):
        with closing(sqlite3.connect(path)) as database:
            dumps.append(list(database.iterdump()))
    assert dumps[0] == dumps[1]


def test_work_and_the_calls_that_started_it() -> None:
    rows = events(dlprof_samples.SAMPLE)
    work = {row["correlation"]: row for row in rows if row["device"] is not None}
    calls = {row["correlation"]: row for row in rows if row["kind"] == "api" and row["correlation"]}
    found = [
        (work[key]["name"], work[key]["ts"], work[key]["dur"], calls[key]["name"], calls[key]["ts"]) for key in work
    ]
    assert sorted(found, key=lambda row: row[1]) == [
        ("[CUDA memcpy HtoD]", 4_500, 5_000, "cudaMemcpyAsync", 2_000),
        ("void tile_gemm<half, 128>(half const*)", 15_000, 20_000, "[launch of a kernel]", 10_000),
        ("[string 98]", 115_500, 2_250, "[launch of a kernel]", 110_000),
        ("[CUDA memset]", 122_000, 400, "cudaMemsetAsync", 120_000),
        ("[CUDA memcpy]", 241_500, 1_500, "cudaMemcpyAsync", 240_000),
    ]
    assert work.keys() == calls.keys()
    assert sorted((row["ts"], row["kind"], row["bytes"], row["device"], row["pid"]) for row in work.values()) == [
        (4_500, "memcpy", 4096, 0, 70),
        (15_000, "kernel", None, 0, 70),
        (115_500, "kernel", None, 0, 70),
        (122_000, "memset", 64, 0, 70),
        (241_500, "memcpy", 512, 0, 70),
    ]
    assert {row["pid"] for row in calls.values()} == {70}
    assert all(key in (work[key]["id"], None) for key in work)
    (gemm,) = (row for row in rows if row["short_name"] == "tile_gemm")
    assert [gemm[f"grid_{axis}"] for axis in "xyz"] + [gemm["block_x"]] == [8, 2, 1, 128]
    args = json.loads(gemm["args"])
    assert (args["op_id"], args["op_name"], args["direction"], args["uses_tc"]) == (
        "LINEAR_1",
        "/module/net/linear",
        "fprop",
        1,
    )
    (unknown,) = (row for row in rows if row["name"] == "[CUDA memcpy]")
    assert (unknown["copy_kind"], json.loads(unknown["args"])["copy_kind"]) == (None, 77)


def test_operators_calls_and_iterations() -> None:
    rows = events(dlprof_samples.SAMPLE)
    operators = [
        (row["name"], row["short_name"], row["ts"], row["dur"], row["tid"]) for row in rows if row["kind"] == "op"
    ]
    assert operators == [
        ("/module/net/linear", "linear", 1_000, 89_000, 71),
        ("/module/net/relu", "relu", 100_000, 40_000, 71),
        ("/module/net/linear", "linear", 200_000, 60_000, 71),
    ]
    shapes = [json.loads(row["args"]).get("input_shapes") for row in rows if row["kind"] == "op"]
    assert shapes == ["[[32,64],[128,64]]", None, "[[32,64],[128,64]]"]
    alone = [(row["name"], row["dur"]) for row in rows if row["kind"] == "api" and row["correlation"] is None]
    assert alone == [("cudaMalloc", 400), ("cudaStreamSynchronize", 10_000)]
    ranges = [(row["name"], row["ts"], row["dur"]) for row in rows if row["kind"] == "range"]
    assert ranges == [("iteration 0", 0, 150_000), ("iteration 1", 150_000, 150_000)]


def test_what_is_reported_and_the_facts() -> None:
    trace = ktrace.read(dlprof_samples.SAMPLE)
    places = {kind: [where for where, _ in issue.places] for kind, issue in trace.report.issues.items()}
    assert places == {
        "negative-duration": ["read_only_kernels row 3"],
        "missing-string": ["read_only_kernels row 2", "read_only_kernels row 2"],
        "bad-record": ["iteration_list"],
        "unrecognised": ["read_only_sub_ops"],
    }
    assert trace.report.reader.removed["folded"] == 2
    notes = trace.to_arrow()["summaries"].to_pylist()
    assert [(row["name"], row["args"]) for row in notes] == [
        ("1 op was eligible to use tensor cores", '{"recommendation":"Try AMP"}')
    ]
    facts = {row["entity"]: row for row in trace.to_arrow()["catalog"].to_pylist()}
    assert facts["device"]["name"] == "NVIDIA GeForce RTX 2070"
    assert json.loads(facts["source"]["facts"])["version"] == "v1.8.0"
