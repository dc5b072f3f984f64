"""The files of ggml's OpenCL backend: our samples by hand, and longer files made here as its source writes them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.model.json_text import decoded

OURS = SAMPLES / "ggml-opencl"


def rows(path: Path, record: str) -> list[dict[str, Any]]:
    """The rows without their nulls."""
    table = ktrace.read(path).to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    return [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]


def issues(path: Path) -> dict[str, int]:
    return {kind: issue.rows for kind, issue in ktrace.read(path).report.issues.items()}


def test_kernels_of_the_csv() -> None:
    found = rows(OURS / "cl_profiling.csv", "summaries")
    assert [(row["kind"], row["name"], row["layer"], row["total"], row["count"]) for row in found] == [
        ("kernel", "kernel_get_rows_q4_0", "inp_embd", 12_500, 1),
        ("kernel", "kernel_rms_norm", "norm-0 (a, b)", 8_000, 1),
        ("kernel", "kernel_mul_mm_f16_f32_l4_lm", "ffn_out-3", 1_204_000, 1),
        ("kernel", "kernel_add_row", "ffn_out-3", 0, 1),
    ]
    gemm, add = found[2:]
    assert [gemm[f"{what}_{axis}"] for what in ("grid", "block") for axis in "xyz"] == [16, 16, 1, 128, 1, 1]
    assert json.loads(gemm["args"]) == {"output size": "2048x16x1x1"}
    assert "grid_x" not in add
    assert json.loads(add["args"])["global size"] == "512x1x1"
    assert issues(OURS / "cl_profiling.csv") == {"negative-duration": 1, "bad-record": 1}


def test_columns_of_an_early_version() -> None:
    found = rows(OURS / "five-durations-of-an-early-version.csv", "summaries")
    assert [(row["name"], row["total"]) for row in found] == [("kernel_add", 31_250), ("kernel_scale", 2_750)]
    assert json.loads(found[0]["args"]) == {
        "queued duration (ms)": 0.102,
        "submit duration (ms)": 0.2505,
        "complete duration (ms)": 0.0005,
        "total duration (ms)": 0.38425,
        "output size": "4096x1x1x1",
    }
    assert "grid_x" not in found[1]  # 1000 isn't a multiple of 64


def test_slices_of_the_trace() -> None:
    found = rows(OURS / "cl_trace.json", "events")
    assert [(row["kind"], row["name"], row["ts"], row["dur"]) for row in found if "device" in row] == [
        ("kernel", "kernel_get_rows_q4_0", 81_204_300_000, 12_000),
        ("kernel", "kernel_rms_norm", 81_204_312_000, 8_000),
        ("kernel", "kernel_mul_mm_f16_f32_l4_lm", 81_204_320_000, 1_204_000),
    ]
    assert [(row["kind"], row["track"], row["dur"]) for row in found if "device" not in row] == [
        ("overhead", "Host", 89_000),
        ("overhead", "Host", 80_000),
        ("overhead", "Host", 64_000),
    ]
    assert issues(OURS / "cl_trace.json") == {
        "end-without-begin": 1,
        "bad-record": 1,
        "negative-duration": 2,
        "cut": 1,
    }


@pytest.mark.parametrize("closed", [True, False])
def test_a_long_trace_and_its_csv(tmp_path: Path, closed: bool) -> None:
    """As ggml-opencl.cpp writes them: kernels wait on the host in any order, and run one after the other."""
    dice = random.Random(7)
    csv, trace, kernels, now = [], [], [], 5_000_000
    for number in range(2_000):
        name, queued, dur = f"kernel_{number % 9}", now - dice.randrange(900), dice.randrange(2_000)
        kernels.append((name, now, dur))
        csv.append(f"node_{number},{name},{dur / 1000:f},{(number + 1) * 64}x1x1,64x1x1,1x1x1x1")
        for begin, end, tid in ((queued, queued + dice.randrange(500), "Host"), (now, now + dur, "Device")):
            trace += [
                f'{{"name": "{name}", "cat": "OpenCL", "ph": "{ph}", "ts": {ts}, "pid": "", "tid": "{tid}"}},'
                for ph, ts in (("B", begin), ("E", end))
            ]
        now += dur
    paths = tmp_path / "cl_profiling.csv", tmp_path / "cl_trace.json"
    heading = "op name, kernel name, exec duration (ms), global size, local size, output size"
    paths[0].write_text("\n".join([heading, *csv, ""]))
    paths[1].write_text("\n".join(["[", *trace, *(["]"] if closed else []), ""]))
    assert [ktrace.detect(path)[0].format for path in paths] == ["ggml-opencl", "ggml-opencl"]
    assert [issues(path) for path in paths] == [{}, {}]
    summaries = rows(paths[0], "summaries")
    assert [(row["name"], row["total"], row["grid_x"]) for row in summaries] == [
        (name, dur * 1000, number + 1) for number, (name, _, dur) in enumerate(kernels)
    ]
    events = rows(paths[1], "events")
    ran = [(row["name"], row["ts"], row["dur"]) for row in events if row["kind"] == "kernel"]
    assert ran == [(name, ts * 1000, dur * 1000) for name, ts, dur in kernels]
    assert len(events) == 4_000


@pytest.mark.parametrize("cell", ["", "nan", "1,5", "9" * 40, "-1", "x"])
def test_a_wrong_duration_is_reported(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "cl_profiling.csv"
    path.write_text(
        f"op name, kernel name, duration (ms), global size, local size, output size\na,k,{cell},1x1x1,1x1x1,1\n"
    )
    assert sum(issues(path).values()) == 1
    assert not rows(path, "summaries")
