"""unitrace's text: figures computed here from the lines, names in their parts, properties, calls."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from conftest import SHARED

import ktrace
from ktrace.input.detection import detect
from ktrace.kit.intel import work

SAMPLES = Path(__file__).parent.parent.parent / "samples" / "unitrace"
SUMMARIES = SAMPLES / "summaries-of-two-backends-and-properties.txt"
TIMELINE = SAMPLES / "timeline-and-calls-of-two-threads.txt"
OLDER = SAMPLES / "older-results-of-onetrace.txt"
REAL = SHARED / "corpus" / "intel_unitrace" / "dpc_gemm_linux_d.txt"


def timing_lines(path: Path) -> list[list[int]]:
    """Calls and total of each row of a timing table: the numbers before the only one with a decimal point."""
    found = (
        re.search(r",\s*(\d+),?\s+(\d+),\s+\d+\.\d+,\s+\d+,\s+\d+,\s+\d+$", line)
        for line in path.read_text().splitlines()
    )
    return [[int(number) for number in match.groups()] for match in found if match]


def rows_of(path: Path) -> pd.DataFrame:
    summaries = ktrace.read(path).summaries
    return summaries[(summaries["kind"] != "total") & (summaries["metric"] == "duration")]


@pytest.mark.parametrize("path", [SUMMARIES, OLDER], ids=lambda path: path.stem)
def test_rows_of_timing_tables_have_the_printed_figures(path: Path) -> None:
    expected = timing_lines(path)
    rows = rows_of(path)
    timing = rows[[scope[0].endswith("Timing") for scope in rows["scope"]]]
    assert timing[["count", "total"]].astype(int).to_numpy().tolist() == expected
    assert len(expected) in (11, 3)


def test_the_real_file_has_the_totals_that_it_states() -> None:
    if not REAL.exists():
        pytest.skip("no shared corpus")
    assert detect(REAL)[0].format == "unitrace"
    trace = ktrace.read(REAL)
    rows = rows_of(REAL)
    assert rows[["count", "total"]].astype(int).to_numpy().tolist() == timing_lines(REAL)
    stated = int(re.search(r"L0 backend \(ns\): +(\d+)", REAL.read_text())[1])  # type: ignore[index]
    assert rows["total"].sum() == stated == 97_642_160
    assert rows["kind"].tolist() == ["kernel", "memcpy", "memcpy"]
    kernel = rows.iloc[0]
    assert kernel["name"].endswith("const::__GEMM") and kernel["registers"] == 128
    assert not trace.report.issues


def test_properties_belong_to_the_rows_of_their_names_in_order() -> None:
    rows = rows_of(SUMMARIES)
    kernels = rows[rows["kind"] == "kernel"]
    assert kernels["name"].tolist() == ["std::pair<int, float> f(a, b)"] * 2 + ["tail", "GEMM", "tail"]
    assert kernels["registers"].tolist()[0] == 256 and pd.isna(kernels["registers"].tolist()[1])
    assert kernels["shared_memory"].tolist()[:2] == [2048, 0]
    assert '"compiled":"aot"' in kernels["args"].tolist()[1].replace(" ", "")
    names = ktrace.read(SUMMARIES).catalog
    assert names[names["entity"] == "name"]["name"].tolist() == ["never_ran"]


def test_groups_are_the_grid_and_opencl_has_work_items() -> None:
    rows = rows_of(SUMMARIES)
    kernels = rows[rows["kind"] == "kernel"]
    shape = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]
    assert kernels.iloc[0][shape].tolist() == [56, 2, 1, 64, 8, 1]
    assert kernels.iloc[3][shape].tolist() == [16, 1024, 1, 64, 1, 1]  # 1000 work-items in groups of 64


def test_the_stages_of_a_submission_are_metrics() -> None:
    summaries = ktrace.read(SUMMARIES).summaries
    found = summaries[(summaries["scope"].str[0] == "Kernel Submission") & (summaries["kind"] == "kernel")]
    assert dict(zip(found["metric"], found["total"], strict=True)) == {
        "append": 5003,
        "submit": 700_007,
        "duration": 4_001_000,
    }


def test_the_timeline_is_device_work_with_its_times() -> None:
    lines = [line for line in TIMELINE.read_text().splitlines() if "(start)" in line]
    times = [(int(a), int(b)) for line in lines for a, b in re.findall(r"(\d+) \(start\) (\d+) \(end\)", line)]
    events = ktrace.read(TIMELINE).events
    device = events[events["kind"] != "api"]
    assert device[["ts", "dur"]].to_numpy().tolist() == [[a, b - a] for a, b in times if b >= a]
    assert device["kind"].tolist() == ["memcpy", "kernel", "sync", "kernel"]
    assert device["copy_kind"].tolist()[0] == "HtoD" and device["bytes"].tolist()[0] == 4096
    assert device["grid_y"].tolist()[1] == 1024
    assert device["grid_x"].tolist()[3] == 16  # OpenCL's name isn't quoted: 1000 work-items in groups of 64
    assert device["device"].tolist() == [0, 0, 1, 2]


def test_a_call_begins_its_duration_before_its_end() -> None:
    events = ktrace.read(TIMELINE).events
    calls = events[events["kind"] == "api"].sort_values("ts")
    assert calls[["name", "ts", "tid"]].to_numpy().tolist() == [
        ["zeCommandListAppendMemoryCopy", 2_000_900 - 797, 4701],
        ["zeDriverGet", 2_000_400 - 245, 4702],
        ["zeEventHostSynchronize", 2_001_000, 4701],
    ]
    assert calls["dur"].tolist()[:2] == [797, 245] and pd.isna(calls["dur"].tolist()[2])
    assert "size = 4096" in calls["args"].tolist()[0]


def test_onetrace_states_the_time_that_its_times_are_counted_from() -> None:
    trace = ktrace.read(OLDER)
    clock = trace.catalog[trace.catalog["entity"] == "clock"]["facts"].tolist()[0]
    assert "1795829416753000036" in clock
    assert trace.events["stream"].tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("text", "kind", "name", "columns"),
    [
        ('"GEMM"', "kernel", "GEMM", {}),
        ("GEMM[64]", "kernel", "GEMM[64]", {}),
        (
            "f {2; 3; 4} {8; 1; 1}]",
            "kernel",
            "f",
            {"grid_x": 2, "grid_y": 3, "grid_z": 4, "block_x": 8, "block_y": 1, "block_z": 1},
        ),
        ("zeCommandListAppendMemoryCopy(S2D)[16]", "memcpy", "zeCommandListAppendMemoryCopy(S2D)", {"bytes": 16}),
        (
            "zeCommandListAppendImageCopyRegion(D2D)",
            "memcpy",
            "zeCommandListAppendImageCopyRegion(D2D)",
            {"copy_kind": "DtoD"},
        ),
        ("clEnqueueWriteBuffer[8 bytes]", "memcpy", "clEnqueueWriteBuffer", {"bytes": 8, "copy_kind": "HtoD"}),
        ("clEnqueueFillBuffer", "memset", "clEnqueueFillBuffer", {}),
        ("zeCommandListAppendSignalEvent", "sync", "zeCommandListAppendSignalEvent", {}),
        ("clEnqueueBarrierWithWaitList", "sync", "clEnqueueBarrierWithWaitList", {}),
    ],
)
def test_a_name_in_its_parts(text: str, kind: str, name: str, columns: dict[str, object]) -> None:
    found = work(text)
    assert (found.kind, found.name, found.columns) == (kind, name, columns)


@pytest.mark.parametrize(
    "text", ["=== Device Timing Summary ===\n\n== L0 Backend ==\n", "<<<< [1] zeInit [x ns]\n>>>> [9] z\n"]
)
def test_a_file_without_rows_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "empty.txt"
    path.write_text(text)
    with pytest.raises(ktrace.KtraceError):
        ktrace.convert(path, tmp_path / "out.jsonl", from_="unitrace")


def test_names_extremes_and_processes_are_the_printed_ones() -> None:
    lines = SUMMARIES.read_text().splitlines()
    tables = [line for line in lines if re.search(r", +\d+, +\d+, +\d+\.\d+, +\d+, +\d+, +\d+$", line)]
    figures = [[float(cell) for cell in re.findall(r", +([\d.]+)", line)[-6:]] for line in tables]
    rows = rows_of(SUMMARIES)
    timing = rows[[scope[0].endswith("Timing") for scope in rows["scope"]]]
    assert timing[["count", "total", "avg", "min", "max"]].to_numpy().tolist() == [
        [figure[0], figure[1], figure[3], figure[4], figure[5]] for figure in figures
    ]
    own = ["zeCommandQueueExecuteCommandLists", "zeMemAllocHost", "clEnqueueReadBuffer"]
    assert timing["name"].tolist()[:3] == own
    assert timing["name"].tolist()[3:6] == ["std::pair<int, float> f(a, b)"] * 2 + ["tail"]
    assert timing[timing["kind"] == "memset"]["name"].tolist() == ["zeCommandListAppendMemoryFill(D)"]
    events = ktrace.read(TIMELINE).events
    assert events["name"].tolist()[:3] == [
        "zeCommandListAppendMemoryCopy(H2D)",
        "void g<1, (char)58>",
        "zeCommandListAppendEventReset",
    ]
    assert sorted(events["pid"].dropna().tolist()) == [812, 812, 812, 812]
