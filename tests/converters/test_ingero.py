"""Ingero's database: what its tables say of starts and ends, of bytes and of stacks."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import SAMPLES
from plain import asked

import ktrace
from ktrace.errors import KtraceError
from ktrace.trace import read
from ktrace.trace.trace import Trace

NEW = SAMPLES / "ingero" / "schema-0.10-of-a-node-with-ranks.db"
OLD = SAMPLES / "ingero" / "schema-0.8-with-an-unknown-table.db"


def rows(trace: Trace, *columns: str) -> list[tuple[Any, ...]]:
    """Columns of the events of the table `events`, in its order, None for nulls."""
    found = trace.events[~trace.events.kind.isin(("counter", "log"))].sort_values("id")
    found = found[~found.track.isin(("annotations",))]
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in found[list(columns)].values.tolist()]


@pytest.mark.parametrize("path", [NEW, OLD])
def test_calls_have_the_time_of_their_start_and_others_of_their_end(path: Path) -> None:
    expected = []
    for stamp, pid, tid, source, dur in asked(path, "SELECT timestamp, pid, tid, source, duration FROM events"):
        if source in (1, 4, 8):
            expected.append((pid, tid, stamp, dur, "api", "measured"))
        elif dur:
            expected.append((pid, tid, stamp - dur, dur, "range", "derived"))
        else:
            expected.append((pid, tid, stamp, None, "instant", "measured"))
    assert rows(read(path), "pid", "tid", "ts", "dur", "kind", "timing") == expected


def test_names_bytes_and_ways_of_copies() -> None:
    found = rows(read(NEW), "name", "cat", "bytes", "copy_kind")
    assert found == [
        ("cudaMalloc", "CUDA", 4096, None),
        ("cudaMemcpyAsync", "CUDA", 4096, "HtoD"),
        ("cudaLaunchKernel", "CUDA", None, None),  # arg0 is the address of a kernel
        ("cuLaunchKernel", "DRIVER", None, None),
        ("sched_switch", "HOST", None, None),
        ("sched_wakeup", "HOST", None, None),
        ("cudaStreamSync", "CUDA", None, None),
        ("mm_page_alloc", "HOST", 16384, None),
        ("block_read", "IO", None, None),  # arg0 counts sectors
        ("net_recv", "NET", 756, None),
        ("tcp_retransmit", "TCP", None, None),
        ("cudaFree", "CUDA", None, None),
        ("cudaMemcpy2D", "CUDA", 8192, "DtoH"),  # no name in the table of ops
        ("graphLaunch", "CUDA_GRAPH", None, None),
        ("CUDA_GRAPH op 99", "CUDA_GRAPH", None, None),
    ]


def test_what_is_of_the_thread_has_no_track_and_all_else_has_one() -> None:
    """The kernel's work may overlap the calls of a thread."""
    found = rows(read(OLD), "cat", "track", "host")
    assert found == [(cat, None if cat in ("CUDA", "DRIVER") else cat, None) for cat, *_ in found]
    assert {host for (host,) in rows(read(NEW), "host")} == {"node-7"}


def test_arguments_that_mean_nothing_are_left_out() -> None:
    trace = read(NEW)
    events = trace.events.set_index("id")
    about = {"comm": "python3", "container_id": "c0ffee", "pod_name": "trainer-0", "namespace": "ml", "cgroup_id": 44}
    ranks = {"rank": 1, "local_rank": 1, "world_size": 2}
    assert json.loads(events.args[12]) == {"arg0": 0x7F0000001000, "arg1": 4096, "ret_code": 700, **about, **ranks}
    assert json.loads(events.args[2]) == about | ranks  # size and way of the copy are columns
    assert json.loads(events.args[5]) == {"arg1": 90, "comm": "python3", **ranks}  # cgroup 1 is no container
    assert json.loads(events.args[11])["gpu_id"] == 1  # the state of a TCP connection


def test_stacks_are_outermost_first() -> None:
    trace = read(NEW)
    used = [json.loads(args).get("stack") for args in trace.events.args.dropna()]
    stacks = trace.catalog[trace.catalog.entity == "stack"]
    found = {name: json.loads(facts)["frames"] for name, facts in zip(stacks.name, stacks.facts, strict=True)}
    assert found == {
        "-5000000000000000001": ["main", "forward", "0x7f02", "cudaMalloc+0x10"],
        "7": ["0x7f04", "0x7f03"],
    }
    assert {stack for stack in used if stack} == set(found)


def test_calls_of_python_within_native_ones_stay_there(tmp_path: Path) -> None:
    frames = '[{"s":"cudaMalloc"},{"pfn":"forward"},{"pfn":"main"},{"s":"_PyEval"},{"s":"_start"}]'
    path = changed(tmp_path, "UPDATE stack_traces SET frames = ? WHERE hash = 7", frames)
    catalog = read(path).catalog
    facts = catalog[(catalog.entity == "stack") & (catalog.name == "7")].facts.item()
    assert json.loads(facts)["frames"] == ["_start", "_PyEval", "main", "forward", "cudaMalloc"]


@pytest.mark.parametrize("frames", ["not JSON", "7", "[7, null]", '{"s": "a"}'])
def test_stacks_that_are_no_frames(tmp_path: Path, frames: str) -> None:
    path = changed(tmp_path, "UPDATE stack_traces SET frames = ? WHERE hash = 7", frames)
    assert len(read(path).events) == len(read(NEW).events)


def changed(tmp_path: Path, sql: str, *values: Any) -> Path:
    path = tmp_path / "changed.db"
    shutil.copy(NEW, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql, values)
        connection.commit()
    return path


def test_aggregates_are_statistics_of_all_that_happened() -> None:
    trace = read(NEW)
    found = trace.summaries[trace.summaries.table == 0]
    expected = asked(
        NEW, "SELECT count, nullif(sum_dur, 0), nullif(min_dur, 0), nullif(max_dur, 0) FROM event_aggregates"
    )
    figures = [
        tuple(None if pd.isna(cell) else cell for cell in row)
        for row in found[["count", "total", "min", "max"]].values.tolist()
    ]
    assert figures == expected
    assert found[["name", "kind", "metric", "unit"]].values.tolist() == [
        ["cudaLaunchKernel", "api", "duration", "ns"],
        ["sched_wakeup", "instant", "count", "count"],
        ["mm_page_alloc", "instant", "count", "count"],
        ["sched_switch", "range", "duration", "ns"],
    ]
    (issue,) = [issue for issue in trace.report.issues.values() if "1,041" in str(issue)]
    assert issue  # (1001 - 1) + (40 - 1) + (3 - 1) weren't stored


def test_nothing_is_said_of_what_was_stored_whole(tmp_path: Path) -> None:
    path = changed(tmp_path, "UPDATE event_aggregates SET stored = count")
    assert "not-stored" in read(NEW).report.issues
    assert "not-stored" not in read(path).report.issues


def test_system_chains_annotations_and_waits() -> None:
    trace = read(NEW)
    counters = trace.events[trace.events.kind == "counter"].sort_values(["ts", "id"])
    columns = "timestamp, cpu_pct, mem_pct, mem_avail, swap_mb, load_avg"
    for stamp, *values in asked(NEW, f"SELECT {columns} FROM system_snapshots"):
        assert counters[counters.ts == stamp].value.tolist() == values
    assert counters.unit.head(4).tolist() == ["%", "%", "MB", "MB"]
    chain = trace.events[trace.events.kind == "log"].iloc[0]
    assert (chain["cat"], chain["name"][:24]) == ("HIGH", "cudaStreamSync p99=82us ")
    notes = trace.events[trace.events.track == "annotations"][["kind", "name", "ts", "dur"]]
    assert notes.values.tolist()[0] == ["range", '{"phase":"train","step":"3"}', 1_700_000_000_000_005_000, 325_000]
    assert notes.kind.tolist() == ["range", "instant"]
    waits = trace.summaries[trace.summaries.table == 1]
    assert waits[["total", "p99", "count"]].values.tolist() == [[80_000, 80_000, 1]]


def test_facts_of_the_session_and_processes() -> None:
    catalog = read(NEW).catalog
    (facts,) = [json.loads(text) for text in catalog[catalog.entity == "source"].facts]
    assert (facts["tool"], facts["version"], facts["gpu_model"]) == ("Ingero", "v0.17.0", "NVIDIA H100, 81559 MiB")
    processes = catalog[catalog.entity == "process"]
    assert dict(zip(processes.pid, processes.name, strict=True)) == {70: "python3", 90: "kworker"}


def test_calls_alone_add_up() -> None:
    """What the kernel did, and statistics of calls that are there, too, aren't added to the calls."""
    summary = ktrace.summary(NEW)
    ((total,),) = asked(NEW, "SELECT sum(duration) FROM events WHERE source IN (1, 4, 8)")
    assert summary.total == total - 3_000  # cuLaunchKernel is within cudaLaunchKernel


def test_a_damaged_time_costs_its_row(tmp_path: Path) -> None:
    path = changed(tmp_path, "UPDATE events SET duration = -5 WHERE id = 'node-7:0'")
    trace = read(path)
    assert dict(trace.report.reader.removed)["negative-duration"] == 1
    assert len(rows(trace, "ts")) == 14


def test_a_database_of_others_is_none(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE events (id INTEGER, timestamp INTEGER, name TEXT)")
    with pytest.raises(KtraceError, match="unrecognised format"):
        read(path)
