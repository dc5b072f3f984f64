"""What a viewer shows of a trace that nobody has touched: which rows there are, what they are called, which time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import engine
import pytest
from conftest import SAMPLES
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace

import ktrace

STEP = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"

#: Tracks with slices, and the process of each; a track without a name is a thread's own.
TRACKS = (
    "select coalesce(p.name, '') as process, coalesce(h.name, '') as thread, h.tid as tid, k.name as track,"
    " count(*) as n from slice s join track k on s.track_id = k.id left join thread_track t on t.id = k.id"
    " left join process_track o on o.id = k.id left join thread h using (utid)"
    " left join process p on p.upid = coalesce(o.upid, h.upid) group by k.id order by 1, h.tid, k.id"
)
PROCESSES = "select pid, name from process where name is not null order by pid"
SHOWN = "select name, int_value as ns from metadata where name in ('tracing_started_ns', 'tracing_disabled_ns')"


def event(name: str, ts: float, dur: float, pid: Any = 7, tid: Any = 7, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": {}} | more


def kernel(ts: float, dur: float, device: int = 0) -> dict[str, Any]:
    args = {"device": device, "stream": 7, "correlation": 1}
    return event("gemm", ts, dur, device, 7, cat="kernel", args=args)


def converted(folder: Path, *events: dict[str, Any], **more: Any) -> Path:
    (folder / "made.pt.trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events} | more))
    ktrace.convert(folder / "made.pt.trace.json", folder / "out.perfetto")
    return folder / "out.perfetto"


#: What PyTorch's profiler says of itself.
PROFILER = (
    event("PyTorch Profiler (0)", 0, 1000, "Spans", "PyTorch Profiler", cat="Trace"),
    {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 2000},
)


def test_what_a_profiler_says_of_itself_is_in_the_only_process(tmp_path: Path) -> None:
    """A process named after the source, with nothing to see in it, was a second one."""
    out = converted(tmp_path, event("aten::mm", 500, 400), kernel(600, 100), *PROFILER)
    (processes,) = engine.query(out, PROCESSES)
    assert [row["pid"] for row in processes] == [0, 7]
    assert processes[0]["name"] == "GPU", "to which the viewer adds the id: GPU 0"


def test_with_two_processes_it_has_one_whose_rows_are_seen(tmp_path: Path) -> None:
    """Only threads are drawn of a closed process."""
    out = converted(tmp_path, event("a", 500, 400), event("b", 500, 400, 8, 8), *PROFILER)
    (tracks,) = engine.query(out, TRACKS)
    assert [row["thread"] for row in tracks if row["tid"] not in (7, 8)] == ["Spans/PyTorch Profiler"]


def test_the_time_of_the_work_is_shown_and_not_that_of_a_profiler(tmp_path: Path) -> None:
    out = converted(tmp_path, event("aten::mm", 500, 400), kernel(600, 350), *PROFILER)
    shown, bounds = engine.query(out, SHOWN, "select start_ts, end_ts from trace_bounds")
    assert {row["name"]: row["ns"] for row in shown} == {"tracing_started_ns": 500_000, "tracing_disabled_ns": 950_000}
    assert bounds == [{"start_ts": 0, "end_ts": 2_000_000}]
    report = ktrace.convert(out, tmp_path / "back.parquet")
    assert report.balanced()
    assert report.written == 4


@pytest.mark.parametrize("rows", [(event("a", 0, 1000), kernel(10, 980)), (event("a", 5, 990), *PROFILER[:1])])
def test_a_trace_that_is_nearly_all_work_is_shown_whole(tmp_path: Path, rows: tuple[dict[str, Any], ...]) -> None:
    (shown,) = engine.query(converted(tmp_path, *rows), SHOWN)
    assert shown == []


def test_tracks_of_a_device_are_below_its_process(tmp_path: Path) -> None:
    """Context Sync was in a group "GPU 0 · NVIDIA H100 80GB HBM3" of the process, apart from the device."""
    ktrace.convert(STEP, tmp_path / "out.perfetto")
    (tracks,) = engine.query(tmp_path / "out.perfetto", TRACKS)
    waits = [row for row in tracks if row["track"] and row["track"].strip() == "context 1"]
    assert [(row["process"], row["n"]) for row in waits] == [("NVIDIA H100 80GB HBM3 · GPU", 1)]
    assert not any("GPU 0 · NVIDIA" in (row["track"] or "") for row in tracks)


def test_what_ktrace_explains_is_a_thread_and_above_others(tmp_path: Path) -> None:
    ktrace.convert(STEP, tmp_path / "out.perfetto", explain="idle,critical-path")
    (tracks,) = engine.query(tmp_path / "out.perfetto", TRACKS)
    found = {(row["process"], row["thread"]): row["n"] for row in tracks if row["thread"] in ("idle", "critical path")}
    assert found == {("NVIDIA H100 80GB HBM3 · GPU", "idle"): 13, ("python3", "critical path"): 77}
    assert ktrace.read(tmp_path / "out.perfetto").events.query("track == 'idle'").device.tolist() == [0] * 13


@pytest.mark.parametrize(
    ("name", "device", "label"),
    [
        ("GPU 2", 2, "GPU 2"),
        (None, 2, "GPU 2"),
        ("H100", 2, "H100 · GPU 2"),
        ("TPU:2", 2, "TPU 2"),
        ("GPU 2", 1, "GPU 2 · GPU 1"),
        ("H100", 7, "GPU 7 · H100 · id 1"),  # a process of the host has that id
    ],
)
def test_a_device_has_its_number_once(tmp_path: Path, name: str | None, device: int, label: str) -> None:
    facts = [{"id": device, "name": name}] if name else []
    out = converted(tmp_path, event("a", 0, 10), kernel(1, 5, device), deviceProperties=facts)
    (processes,) = engine.query(out, PROCESSES)
    assert label in [f"{row['name']} {row['pid']}" for row in processes], "as the viewer shows them"
    ktrace.convert(tmp_path / "made.pt.trace.json", tmp_path / "out.trace.json")
    assert "GPU 2 GPU 2" not in (tmp_path / "out.trace.json").read_text()


def test_devices_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """In that in which they first worked, eight GPUs stood 0 1 2 3 5 7 4 6."""
    first = (0, 1, 2, 3, 5, 7, 4, 6)
    kernels = [kernel(place, 5, device) for place, device in enumerate(first)]
    out = converted(tmp_path, event("a", 0, 10, 4242), *kernels)
    told = trace.Trace.FromString(out.read_bytes())
    ranks = {
        packet.track_descriptor.process.pid: packet.track_descriptor.sibling_order_rank
        for packet in told.packet
        if packet.track_descriptor.process.process_name == "GPU"
    }
    assert sorted(ranks, key=ranks.__getitem__) == [*range(8)]
    threads, roots = engine.query(
        out,
        "select distinct t.tid, t.name from thread t join thread_track using (utid) join process using (upid)"
        " where process.name = 'GPU'",
        "select distinct name from track where name glob 'GPU [0-9] stream*' order by name",
    )
    assert threads == [{"tid": 7, "name": "stream"}], "stream 7, on GPU 7 as well"
    assert [row["name"] for row in roots] == [f"GPU {device} stream 7" for device in range(8)]
    ktrace.convert(tmp_path / "made.pt.trace.json", tmp_path / "out.trace.json")
    events = json.loads((tmp_path / "out.trace.json").read_text())["traceEvents"]
    places = {row["tid"]: row["args"]["sort_index"] for row in events if row["name"] == "thread_sort_index"}
    names = {row["tid"]: row["args"]["name"] for row in events if row["name"] == "thread_name"}
    assert [names[tid] for tid in sorted(places, key=places.__getitem__) if "GPU" in names[tid]] == [
        f"GPU {device} › stream 7" for device in range(8)
    ]
    assert ktrace.read(out).events.query("kind == 'kernel'").device.tolist() == [*first]


def test_gpus_of_ranks_begin_with_the_rank(tmp_path: Path) -> None:
    """Viewers cut long names in the middle."""
    ranks = [SAMPLES / "kineto" / f"collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]
    ktrace.merge(ranks, tmp_path / "out.perfetto")
    (processes,) = engine.query(tmp_path / "out.perfetto", PROCESSES)
    assert sorted(row["name"] for row in processes) == [
        *("rank 0, on node0: python3", "rank 0: NVIDIA H100 80GB HBM3 · GPU"),
        *("rank 1, on node1: python3", "rank 1: NVIDIA H100 80GB HBM3 · GPU"),
    ]


def test_a_further_row_of_a_thread_says_what_it_is(tmp_path: Path) -> None:
    """It had the name "thread 7", and looked like another one than the viewer's "Thread 7"."""
    rows = [event("a", 0, 10), event("b", 5, 10), event("c", 0, 10, 7, 8), event("d", 5, 10, 7, 8)]
    named = {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "worker"}}
    (tracks,) = engine.query(converted(tmp_path, *rows, named), TRACKS)
    assert {row["track"] for row in tracks} == {None, "overlapping", "worker, overlapping"}


def test_spans_without_threads_are_seen(tmp_path: Path) -> None:
    """Of closed processes a viewer draws threads alone: those of OpenTelemetry were empty."""
    ktrace.convert(SAMPLES / "otlp" / "two-services-one-request-links-and-lanes.otlp.json", tmp_path / "out.perfetto")
    (tracks,) = engine.query(tmp_path / "out.perfetto", TRACKS)
    assert all(row["tid"] and row["track"] is None for row in tracks)
    assert [(row["process"], row["thread"], row["n"]) for row in tracks] == [
        ("on edge-1: gateway", "gateway", 2),
        *(("on gpu-7: vllm.llm_engine", "vllm.llm_engine", many) for many in (5, 2, 1)),
    ]


def test_a_table_without_a_title_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "zones.csv").write_text(
        "name,src_file,total_ns,total_perc,counts\nfetch,a.c,4000,40,2\ndecode,a.c,6000,60,3\n"
    )
    ktrace.convert(tmp_path / "zones.csv", tmp_path / "out.perfetto")
    (tracks,) = engine.query(tmp_path / "out.perfetto", TRACKS)
    assert {row["thread"] or row["track"] for row in tracks} == {"table at line 1 (totals)"}


@pytest.mark.parametrize(
    ("sample", "word", "process"),
    [
        ("ascend-csv/two-devices-and-a-row-without-a-start.csv", "NPU", "NPU 4"),
        ("ascend-db/schema-1.2-collective-ffts-and-a-task-backwards.db", "NPU", "Ascend910B · NPU 6"),
        ("xplane/tpu-loop-sums-lines-backwards-since-1970.xplane.pb", "TPU", "TPU 0"),
        ("xctrace/two-processes-a-nested-row-and-blits.xml", "GPU", "M7 Mini · GPU 0"),
    ],
)
def test_accelerators_have_the_word_of_their_source(tmp_path: Path, sample: str, word: str, process: str) -> None:
    ktrace.convert(SAMPLES / sample, tmp_path / "out.perfetto")
    processes, queues = engine.query(
        tmp_path / "out.perfetto", PROCESSES, "select distinct name from track where name glob '*[GNT]PU [0-9]*'"
    )
    assert process in [f"{row['name']} {row['pid']}" for row in processes]
    assert queues and all(word in row["name"] for row in queues)
