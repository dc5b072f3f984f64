"""The report of the OpenCL Intercept Layer: figures computed here from the lines, names in their parts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

import ktrace
from ktrace.kit.intel import intercepted

SAMPLES = Path(__file__).parent.parent.parent / "samples" / "clintercept"
REPORT = SAMPLES / "report-of-two-devices.txt"
LOG = SAMPLES / "amid-a-log-without-end.txt"


@pytest.mark.parametrize("path", [REPORT, LOG], ids=lambda path: path.stem)
def test_rows_have_the_printed_figures(path: Path) -> None:
    found = (
        re.search(r",\s+(\d+),\s+(\d+),\s+[\d.na]+%,\s+\d+,\s+(\d+),\s+(\d+)$", line)
        for line in path.read_text().splitlines()
    )
    expected = [[int(number) for number in match.groups()] for match in found if match]
    summaries = ktrace.read(path).summaries
    rows = summaries[(summaries["kind"] != "total") & (summaries["unit"] == "ns")]
    assert rows[["count", "total", "min", "max"]].astype(int).to_numpy().tolist() == expected
    assert len(expected) in (7, 2)


def test_totals_are_those_of_their_rows() -> None:
    summaries = ktrace.read(REPORT).summaries
    for table in (0, 1, 2):
        rows = summaries[summaries["table"] == table]
        assert rows[rows["kind"] == "total"]["total"].sum() == rows[rows["kind"] != "total"]["total"].sum()


def test_devices_and_kinds() -> None:
    trace = ktrace.read(REPORT)
    devices = trace.catalog[trace.catalog["entity"] == "device"]
    assert devices["name"].tolist() == ["Intel(R) Graphics [0x5916] (24CUs, 1100MHz)", "cpu-znver9 (64CUs, 3529MHz)"]
    work = trace.summaries[trace.summaries["scope"].str[0] == "Device Performance Timing"]
    work = work[work["kind"] != "total"]
    assert work["kind"].tolist() == ["kernel", "kernel", "memcpy", "memset", "kernel"]
    assert work["device"].astype(int).tolist() == [0, 0, 0, 0, 1]
    assert pd.isna(work["percent"].tolist()[4])


def test_sizes_of_a_kernel() -> None:
    summaries = ktrace.read(REPORT).summaries
    blur = summaries[summaries["name"] == "blur<f, 4>"].iloc[0]
    assert blur[["grid_x", "grid_y", "block_x", "block_y"]].astype(int).tolist() == [7, 4, 16, 8]
    assert json.loads(blur["args"]) == {"simd": 16, "slm": 2048, "global_size": [100, 30], "global_offset": [0, 0]}
    tail = summaries[summaries["name"] == "tail"].iloc[0]
    assert pd.isna(tail["grid_x"]) and json.loads(tail["args"]) == {"global_size": [7]}


@pytest.mark.parametrize("name", ["f SIMD16", "f SIMD16 g", "GWS[ 4 ]", "f GWS[ 4 ] x"])
def test_only_the_end_of_a_name_is_taken_apart(name: str) -> None:
    assert intercepted(name).name == ("f" if name == "f SIMD16" else name)


def test_what_is_no_row_is_reported() -> None:
    trace = ktrace.read(LOG)
    assert trace.report.issues["unrecognised"].rows == 3
    assert len(trace.summaries) == 4


def test_names_kinds_and_the_enqueues_are_the_printed_ones() -> None:
    rows = ktrace.read(REPORT).summaries
    assert rows["value"].dropna().tolist() == [31]
    times = rows[(rows["metric"] == "duration") & (rows["kind"] != "total")]
    assert times[["kind", "name"]].to_numpy().tolist() == [
        ["api", "clFinish"],
        ["api", "clEnqueueNDRangeKernel( blur<f, 4> GWS[ 64 x 3 ] )"],
        ["kernel", "blur<f, 4>"],
        ["kernel", "tail"],
        ["memcpy", "clEnqueueMapBuffer"],
        ["memset", "clEnqueueFillBuffer"],
        ["kernel", "nothing"],
    ]


def test_copies_of_macos_are_copies() -> None:
    """There the names of all calls begin with "icl"."""
    rows = ktrace.read(SAMPLES / "calls-of-macos-begin-with-icl.txt").summaries
    device = rows[rows["device"].notna() & (rows["kind"] != "total")]
    assert device[["kind", "name", "total"]].to_numpy().tolist() == [
        ["memset", "iclEnqueueFillBuffer", 500],
        ["memcpy", "iclEnqueueReadBuffer", 2600],
        ["memcpy", "iclEnqueueWriteBuffer", 9400],
        ["kernel", "saxpy16", 600000],
    ]
    assert device["copy_kind"].dropna().tolist() == ["DtoH", "HtoD"]
    assert set(rows[rows["device"].isna()]["kind"]) == {"total", "api"}
    assert intercepted("iclone_buffer").kind == "kernel"
