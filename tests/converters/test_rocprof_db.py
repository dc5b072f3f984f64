"""rocprof's results.db: samples in the layout of its tblextr.py."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import SAMPLES
from plain import asked

from ktrace.trace import read
from ktrace.trace.trace import Trace

HIP = SAMPLES / "rocprof-db" / "hip-trace-with-counters-and-a-kernel-named-copy.db"
HSA = SAMPLES / "rocprof-db" / "hsa-trace-and-an-unknown-table.db"


def found(trace: Trace, *columns: str) -> list[tuple[Any, ...]]:
    """Columns of the events in the order of their ids, None for nulls."""
    rows = trace.events.sort_values("id")[list(columns)]
    return [tuple(None if pd.isna(value) else value for value in row) for row in rows.values.tolist()]


def test_calls_and_ranges_are_those_of_the_tables() -> None:
    events = read(HIP).events
    calls = events[events.kind == "api"][["ts", "dur", "pid", "tid", "name", "correlation", "cat"]].values.tolist()
    assert calls == [
        [begin, end - begin, pid, tid, name, index, "HIP"]
        for begin, end, pid, tid, name, index in asked(HIP, 'SELECT BeginNs, EndNs, pid, tid, Name, "Index" FROM HIP')
    ]
    ranges = events[events.kind == "range"][["ts", "dur", "tid", "name"]].values.tolist()
    assert ranges == [[7_000_000_999_000, 62_000, 77, "step 0"], [7_000_001_062_000, 1, 77, "done"]]
    first = json.loads(events[events.kind == "api"].args.iloc[0])
    assert first == {"args": "( dst(0x7f01) src(0x7e02) sizeBytes(4096) kind(1) stream(1))"}


def test_work_has_its_launch_and_its_kind_by_the_table() -> None:
    """A kernel that is named copy_rows isn't a copy."""
    trace = read(HIP)
    work = [
        row for row in found(trace, "kind", "name", "device", "stream", "dur", "correlation", "copy_kind") if row[5]
    ]
    assert [row for row in work if row[0] != "api"] == [
        ("kernel", "gemm(float*, int)", 1, 1, 25_000, 2, None),
        ("kernel", "copy_rows", 1, 0, 500, 3, None),
        ("sync", "<barrier packet>", 1, 1, 100, 4, None),
        ("memcpy", "CopyHostToDevice", 1, 1, 5_000, 1, "HtoD"),
        ("memset", "FillBuffer", 1, 1, 250, 6, None),
    ]
    args = [json.loads(text) for text in trace.events[trace.events.name.isin(["gemm(float*, int)", "copy_rows"])].args]
    assert args[:2] == [{"roctx-range": "step 0", "tid": 77, "stream-id": 1}, {"tid": 78, "stream-id": 2}]
    assert dict(trace.report.reader.removed) == {"not-executed": 1}


def test_dispatches_have_their_counters() -> None:
    events = read(HIP).events
    kernels = events[(events.kind == "kernel") & events.grid_x.notna()]
    places = kernels[["name", "device", "stream", "ts", "dur", "grid_x", "block_x", "registers", "shared_memory"]]
    assert places.values.tolist() == [
        ["gemm(float*, int)", 1, 1, 7_000_002_001_000, 25_500, 64, 256, 32, 512],
        ["copy_rows", 1, 0, 7_000_002_031_000, 500, 1, 64, 8, 0],
    ]
    counters = events[events.kind == "counter"]
    names = dict(zip(kernels.id, kernels.name, strict=True))
    assert {(names[row.parent], row["name"], row.value) for _, row in counters.iterrows()} == {
        ("gemm(float*, int)", "SQ_WAVES", 256.0),
        ("gemm(float*, int)", "FETCH_SIZE", 64.5),
        ("copy_rows", "SQ_WAVES", 1.0),
        ("copy_rows", "FETCH_SIZE", 0.25),
    }


def test_calls_of_hsa_have_numbers_of_their_own() -> None:
    trace = read(HSA)
    assert found(trace, "kind", "name", "ts", "dur", "cat") == [
        ("api", "hsa_amd_memory_async_copy", 500_000, 1_000, "HSA"),
        ("api", "hsa_signal_wait_scacquire", 502_000, 1_500, "HSA"),
        ("memcpy", "async-copy", 500_500, 1_000, None),
    ]
    assert "correlation" not in trace.events or trace.events.correlation.isna().all()
    assert [json.loads(text)["Index"] for text in trace.events.args] == [1, 2, 1]
    assert json.loads(trace.events.args.iloc[1])["Data"] == "DataTransfer"
    assert dict(trace.report.reader.removed) == {"unrecognised": 1}


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ('UPDATE HIP SET EndNs = 1 WHERE "Index" = 2', "negative-duration"),
        ('UPDATE COPY SET BeginNs = NULL WHERE "Index" = 1', "bad-record"),
    ],
)
def test_rows_with_odd_times_are_told(tmp_path: Path, sql: str, kind: str) -> None:
    path = tmp_path / "results.db"
    shutil.copy(HIP, path)
    connection = sqlite3.connect(path)
    connection.executescript(sql)
    connection.close()
    trace = read(path)
    assert dict(trace.report.reader.removed) == {"not-executed": 1, kind: 1}
    assert len(trace.events) == len(read(HIP).events) - 1
