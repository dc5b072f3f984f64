"""Kineto: real files of all ages, against what json and Decimal say in a loop; and our samples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED
from engine import errors, query
from nightly import few, is_small
from perfetto.protos.perfetto.trace import perfetto_trace_pb2
from perfetto_reference import decode
from plain_events import events_of, load, nanoseconds

import ktrace
from ktrace.conversion import Conversion
from ktrace.converters.kineto.reader import read
from ktrace.errors import ClosedFormat, DamagedInput
from ktrace.input.format import Score
from ktrace.input.source import Sample, Source
from ktrace.pipeline.convert import convert
from ktrace.report import Report

FILES = sorted((SHARED / "corpus" / "pytorch_kineto").glob("*.json*"))
needs_corpus = pytest.mark.skipif(not FILES, reason="the real Kineto files are not at hand (../shared/corpus)")

#: Category -> kind, as docs/formats/kineto.md says; those of an MTIA device by name.
KINDS = {
    **dict.fromkeys(("kernel", "Kernel"), "kernel"),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), "memcpy"),
    **dict.fromkeys(("gpu_memset", "Memset"), "memset"),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "mtia_runtime", "Runtime"), "api"),
    **dict.fromkeys(("cpu_op", "Operator"), "op"),
    "cuda_sync": "sync",
    "overhead": "overhead",
}
CCP = {"dma_request": "memcpy", "event_wait": "sync", "event_record": "sync"}
FOLDED = ("ac2g", "async", "async_cpu_to_gpu")
DEVICE = ("kernel", "memcpy", "memset")


def kind_of(event: dict[str, Any]) -> str:
    if event["ph"] == "i":
        return "alloc" if event["name"] == "[memory]" else "instant"
    if event.get("cat") == "mtia_ccp_events":
        return CCP.get(event["name"], "kernel")
    return KINDS.get(event.get("cat", ""), "range")


def blocks(event: dict[str, Any]) -> list[Any]:
    """The grid of a launch that counts work-items, in blocks."""
    sizes = (event["args"].get(name) or [] for name in ("grid", "block"))
    return [-(-items // threads) for items, threads in zip(*sizes, strict=True)] or [None] * 3


@pytest.fixture(scope="module", params=few(FILES, is_small), ids=lambda path: path.name)
def both(request: pytest.FixtureRequest) -> tuple[list[dict[str, Any]], ktrace.Trace]:
    """The events by json, and the trace."""
    return events_of(load(request.param)), ktrace.read(request.param)


def rows(trace: ktrace.Trace, record: str = "events") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = trace.to_arrow()[record].to_pylist()
    return found


def own_name(row: dict[str, Any]) -> str:
    """The name as the source has it: of a decoded one, the argument that keeps it."""
    args = json.loads(row["args"]) if row["args"] else {}
    return str(args.get("mangled_name", row["name"]))


@needs_corpus
def test_every_event_is_accounted_for(both: tuple[list[dict[str, Any]], ktrace.Trace]) -> None:
    events, trace = both
    reader = trace.report.reader
    flows = [event for event in events if event["ph"] in "sf"]
    assert reader.balanced()
    assert reader.taken - reader.removed["structure"] == len(events)
    assert reader.removed["folded"] == sum(event["cat"] in FOLDED for event in flows)
    assert reader.removed["catalog"] == sum(event["ph"] == "M" for event in events)
    assert not [kind for kind in trace.report.issues if kind not in ("rounded", "text-number")]


@needs_corpus
def test_counts_and_durations_by_kind_and_category(both: tuple[list[dict[str, Any]], ktrace.Trace]) -> None:
    events, trace = both
    wanted: Counter[Any] = Counter()
    spent: Counter[Any] = Counter()
    for event in events:
        if event["ph"] in "Xi":
            key = (kind_of(event), event.get("cat"))
            wanted[key] += 1
            spent[key] += nanoseconds(event.get("dur")) or 0
    got: Counter[Any] = Counter()
    took: Counter[Any] = Counter()
    for row in rows(trace):
        if row["parent"] is None:
            got[row["kind"], row["cat"]] += 1
            took[row["kind"], row["cat"]] += row["dur"] or 0
    assert got == wanted
    assert +took == +spent


@needs_corpus
def test_names_times_and_places_of_device_work(both: tuple[list[dict[str, Any]], ktrace.Trace]) -> None:
    events, trace = both
    ext = {event["args"]["correlation"] for event in events if event.get("name") == "hipExtModuleLaunchKernel"}
    wanted = Counter(
        (
            *(event["name"], nanoseconds(event["ts"]), nanoseconds(event["dur"])),
            *(event["args"].get("device", event["pid"]), event["args"]["stream"], event["args"].get("context")),
            *(event["args"].get("correlation"), event["args"].get("External id", event["args"].get("external id"))),
            *(blocks(event) if event["args"].get("correlation") in ext else event["args"].get("grid") or [None] * 3),
            *(event["args"].get("block") or [None] * 3),
            *(event["args"].get("registers per thread"), event["args"].get("shared memory")),
        )
        for event in events
        if event["ph"] == "X" and kind_of(event) in DEVICE
    )
    columns = ("ts", "dur", "device", "stream", "context", "correlation", "external_id")
    launch = (*(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"), "registers", "shared_memory")
    work = [row for row in rows(trace) if row["kind"] in DEVICE]
    assert Counter((own_name(row), *(row[name] for name in (*columns, *launch))) for row in work) == wanted
    assert all(row["pid"] is None for row in work)


@needs_corpus
def test_launches_meet_their_work(both: tuple[list[dict[str, Any]], ktrace.Trace]) -> None:
    """Pairs of a call and device work by correlation: from the arguments, and from the columns."""
    events, trace = both
    slices = [event for event in events if event["ph"] == "X" and (event.get("args") or {}).get("correlation")]
    kinds = [(event["args"]["correlation"], kind_of(event)) for event in slices]
    columns = [(row["correlation"], row["kind"]) for row in rows(trace) if row["correlation"]]

    def pairs(found: list[tuple[int, str]]) -> int:
        calls = Counter(number for number, kind in found if kind == "api")
        work = Counter(number for number, kind in found if kind in DEVICE)
        return sum(calls[number] * count for number, count in work.items())

    assert pairs(columns) == pairs(kinds)


@needs_corpus
def test_arguments_stay_or_have_a_column(both: tuple[list[dict[str, Any]], ktrace.Trace]) -> None:
    """Every argument of every event is in `args` as it was, in its column, or in a counter of the event."""
    events, trace = both
    columns = {
        **{"correlation": "correlation", "External id": "external_id", "external id": "external_id", "bytes": "bytes"},
        **{"shared memory": "shared_memory", "registers per thread": "registers", "Seq": "comm_seq"},
        **{"est. achieved occupancy %": "occupancy", "Process Group Name": "comm"},
        **{"device": "device", "stream": "stream", "context": "context", "kind": "copy_kind", "size": "bytes"},
        **{"Bytes": "bytes", "Device Id": "device"},
    }
    children: dict[int, dict[str, float]] = defaultdict(dict)
    found: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows(trace):
        if row["parent"] is not None:
            children[row["parent"]][row["name"]] = row["value"]
        else:
            found[own_name(row), row["ts"], row["dur"]].append(row)
    series = {"Total Allocated": "allocated", "Total Reserved": "reserved"}
    for event in events:
        if event["ph"] not in "Xi" or not event.get("args"):
            continue
        alike = found[event["name"], nanoseconds(event["ts"]), nanoseconds(event.get("dur"))]
        matched = False
        for row in alike:
            args = json.loads(row["args"]) if row["args"] else {}
            matched = all(
                _same(args.get(key, _MISSING), value)
                or (key in columns and _same(row[columns[key]], value))
                or (key == "bytes" and f"{row[key]}" == value)  # ROCm's numbers are texts
                or (key == "stream" and value == -1 and row[key] is None)
                or (key in ("grid", "block") and [row[f"{key}_{axis}"] for axis in "xyz"] == value)
                or (key == "grid" and value and [row[f"grid_{axis}"] for axis in "xyz"] == blocks(event))
                or (key in series and children[row["id"]].get(series[key]) == value)
                for key, value in event["args"].items()
            )
            if matched:
                break
        assert matched, event


_MISSING = object()


def _same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(_same, ours, theirs))
    if theirs is None or isinstance(theirs, (str, bool)):
        return type(ours) is type(theirs) and ours == theirs
    if isinstance(theirs, int):
        return ours == theirs
    return isinstance(ours, (int, float)) and float(ours) == float(theirs)


@needs_corpus
def test_forward_and_backward_meet(both: tuple[list[dict[str, Any]], ktrace.Trace]) -> None:
    events, trace = both
    wanted = Counter(
        ({"s": "out", "f": "in"}[event["ph"]], f"fwdbwd/fwdbwd/{event['id']}", nanoseconds(event["ts"]), event["tid"])
        for event in events
        if event.get("cat") == "fwdbwd"
    )
    links = [row for row in rows(trace, "links") if row["link"] == "fwdbwd"]
    assert Counter((row["role"], row["key"], row["ts"], row["tid"]) for row in links) == wanted
    assert {row["bind"] for row in links} <= {"enclosing"}


@pytest.fixture
def run() -> ktrace.Trace:
    return ktrace.read(SAMPLES / "kineto" / "base-after-the-events-graph-of-three-kernels.pt.trace.json")


def test_the_clock_and_the_device_are_facts(run: ktrace.Trace) -> None:
    known = {(row["entity"], row["device"], row["stream"]): row for row in rows(run, "catalog")}
    assert '"unix_ns":1724000000000000000' in known["clock", None, None]["facts"]
    device = known["device", 0, None]
    assert device["name"] == "NVIDIA H100 80GB HBM3"
    assert '"memory":85028896768' in device["facts"]
    assert '"sm_count":132' in device["facts"]
    assert '"compute_capability":"9.0"' in device["facts"]
    assert known["stream", 0, 7]["name"] == "stream 7"


def test_a_graph_launch_has_three_kernels_in_the_timeline(run: ktrace.Trace) -> None:
    kernels = [row for row in rows(run) if row["correlation"] == 13]
    assert [row["kind"] for row in sorted(kernels, key=lambda row: row["ts"])] == ["api", "kernel", "kernel", "kernel"]


def test_a_wait_meets_the_record_that_it_waits_for(run: ktrace.Trace) -> None:
    names = {row["id"]: row["name"] for row in rows(run)}
    waits = [row for row in rows(run, "links") if row["link"] == "wait"]
    assert {(row["role"], row["key"], names[row["event"]]) for row in waits} == {
        ("out", "12", "cudaEventRecord"),
        ("in", "12", "Event Sync"),
    }


def test_operators_and_calls_are_on_their_thread_and_device_work_on_none(run: ktrace.Trace) -> None:
    places = {row["name"]: (row["pid"], row["tid"]) for row in rows(run)}
    assert places["aten::addmm"] == places["cudaLaunchKernel"] == places["cudaGraphLaunch"] == (4242, 4242)
    assert places["autograd::engine::evaluate_function: AddmmBackward0"] == (4242, 4300)
    assert places["graph_node_0"] == places["Memset (Device)"] == (None, None)


def test_rows_without_a_process_are_on_a_track_of_their_text(run: ktrace.Trace) -> None:
    tracks = {row["name"]: (row["pid"], row["tid"], row["track"]) for row in rows(run)}
    assert tracks["PyTorch Profiler (0)"] == (None, None, "Spans/PyTorch Profiler")
    assert tracks["Record Window End"] == (None, None, "Spans/PyTorch Profiler")


def test_memory_and_metrics_are_counters() -> None:
    trace = ktrace.read(SAMPLES / "kineto" / "memory-events-counters-profiler-range.json")
    found = rows(trace)
    allocs = [row for row in found if row["kind"] == "alloc"]
    assert [(row["device"], row["bytes"]) for row in allocs] == [(None, 1728), (0, 2097152), (0, -2097152)]
    by_parent = {(row["parent"], row["name"]): row["value"] for row in found if row["kind"] == "counter"}
    assert [by_parent[row["id"], "allocated"] for row in allocs] == [1728.0, 2097152.0, 0.0]
    assert [by_parent[row["id"], "reserved"] for row in allocs] == [0.0, 20971520.0, 20971520.0]
    measured = next(row for row in found if row["cat"] == "cuda_profiler_range")
    assert by_parent[measured["id"], "smsp__inst_executed.sum"] == 123456.0
    assert by_parent[measured["id"], "dram__bytes_read.sum"] == 4096.0
    assert measured["args"] == '{"kernel":"gemm"}'
    active = next(row for row in found if row["name"] == "sm__cycles_active.avg")
    assert (active["device"], active["value"], active["parent"]) == (0, 1234.5, None)


def test_a_collective_has_its_group() -> None:
    trace = ktrace.read(SAMPLES / "kineto" / "collective-with-truncated-ranks.json.gz")
    kernel = next(row for row in rows(trace) if row["kind"] == "kernel")
    assert (kernel["comm"], kernel["comm_seq"]) == ("0", 17)
    assert '"Process Group Ranks":"[0, 1, 2, 3, ...]"' in kernel["args"]
    source = [row["facts"] for row in rows(trace, "catalog") if row["entity"] == "source"]
    assert any('"rank":5,"world_size":128' in facts for facts in source)


def test_of_a_copy_of_amd_the_kind_is_the_direction() -> None:
    trace = ktrace.read(SAMPLES / "kineto" / "amd-clock-skew-overlap-bare-inf.json")
    copies = [row for row in rows(trace) if row["kind"] == "memcpy"]
    assert [(row["copy_kind"], row["bytes"]) for row in copies] == [("HtoD", None), ("DtoD", 13248)]
    assert "Infinity" in copies[1]["args"]
    launch = next(row for row in rows(trace) if row["kind"] == "api")
    assert (launch["grid_x"], launch["block_x"]) == (65536, 256)


def test_a_tid_that_is_not_the_stream_stays() -> None:
    trace = ktrace.read(SAMPLES / "kineto" / "mtia-xpu-hpu-privateuse1.json")
    work = [row for row in rows(trace) if row["cat"] == "mtia_ccp_events"]
    assert [row["kind"] for row in work] == ["kernel", "memcpy", "sync"]
    assert {(row["device"], row["stream"]) for row in work} == {(17, 108)}
    assert all('"$tid":3774' in row["args"] for row in work)


def test_engines_of_a_gaudi_without_kernels_are_on_the_device() -> None:
    trace = ktrace.read(SAMPLES / "kineto" / "gaudi-engines-of-one-device.json")
    found = [(row["name"], row["kind"], row["device"], row["stream"], row["dur"]) for row in rows(trace)]
    assert sorted(found, key=lambda row: (row[4], row[0])) == [
        ("DmaSpill", "memcpy", 0, 4001, 3_000),
        ("DmaSpill", "memcpy", 0, 4001, 3_500),
        ("memcpy", "memcpy", 0, 4001, 9_125),
        ("relu_fwd_bf16", "kernel", 0, 7019, 12_000),
        ("enqueueWithExternalEventsExt", "api", None, None, 22_000),
        ("GEMM", "kernel", 0, 6002, 40_250),
        ("aten::mm", "op", None, None, 60_000),
    ]


@pytest.mark.parametrize(
    ("head", "tail", "score"),
    [
        (b'{"schemaVersion": 1, "traceEvents": [', b"", Score.DIALECT),
        (b'\xef\xbb\xbf{"schemaVersion": 1, "traceEvents": [', b"", Score.DIALECT),
        (b'{"traceEvents": [{"ph":"X","cat":"cpu_op"}', b"", Score.DIALECT),
        (b'{"traceEvents": [{"ph":"X","cat":"x"}', b'], "baseTimeNanoseconds": 5}', Score.DIALECT),
        (b'{"traceEvents": [{"ph":"X","cat":"x"}]}', b"", None),
        (b'[{"ph":"X","cat":"cpu_op"}]', b"", None),
        (b'{"ktrace": "1.0", "schemaVersion": 1}', b"", None),
        (b'{"otherData":{"ktrace":{"origin_ns":1}},"traceEvents":[{"ph":"X","cat":"cpu_op"}]}', b"", None),
    ],
)
def test_what_is_kineto(head: bytes, tail: bytes, score: Score | None) -> None:
    from ktrace.converters.kineto import probe

    match = probe(Sample("x.json", head, tail, not tail))
    assert (match and match.score) == score


@needs_corpus
@pytest.mark.parametrize("name", ["event_sync_trace.json.gz", "mi250_minitoy_train_ROCm6_2_kineto.json.gz"])
def test_the_engine_shows_what_was_read(name: str, tmp_path: Path) -> None:
    path = next((path for path in FILES if path.name == name), None)
    if path is None:
        pytest.skip(f"{name} is not at hand")
    trace = ktrace.read(path)
    report = convert(path, tmp_path / "out.perfetto")
    assert report.balanced()
    faults = {error["name"] for error in errors(tmp_path / "out.perfetto")}
    assert faults <= {"unknown_extension_fields"}  # GPU fields that the engine of today doesn't know
    shown = query(tmp_path / "out.perfetto", "select name, sum(dur) as dur, count(*) as n from slice group by name")[0]
    ours: Counter[str] = Counter()
    for row in rows(trace):
        if row["kind"] in ("op", "api"):
            ours[row["name"]] += row["dur"]
    theirs = {row["name"]: row["dur"] for row in shown}
    assert {name: theirs.get(name) for name in ours} == dict(ours)


def test_a_memory_timeline_is_allocations() -> None:
    trace = ktrace.read(SAMPLES / "kineto" / "memory-timeline-from-before-the-capture.raw.json")
    start = 1_715_000_000_000_000_000
    found = [(row["kind"], row["name"], row["ts"] - start, row["bytes"], row["args"]) for row in rows(trace)]
    assert found == [
        ("alloc", "create", 0, 2097152, '{"category":"activation"}'),
        ("alloc", "increment_version", 1000, -2097152, '{"category":"activation"}'),
        ("alloc", "increment_version", 1000, 2097152, '{"category":"gradient"}'),
        ("alloc", "destroy", 2500, -2097152, '{"category":"gradient"}'),
    ]
    before = [(row["name"], row["metric"], row["value"], row["unit"]) for row in rows(trace, "summaries")]
    assert before == [("preexisting", "bytes", 4096.0, "B"), ("preexisting", "bytes", 1048576.0, "B")]


def test_stacks_are_summaries_with_their_frames_around() -> None:
    trace = ktrace.read(SAMPLES / "kineto" / "stacks-with-spaces-and-blanks.txt")
    found = [(row["name"], row["scope"], row["total"], row["unit"]) for row in rows(trace, "summaries")]
    assert found == [
        ("torch/nn/functional.py(2050): linear", ["train.py(12): main", "nn.Module: Linear_0"], 12_034_000.0, "ns"),
        (
            "<built-in method run_backward of torch._C._EngineBase object at 0x7f>",
            ["train.py(12): main"],
            250_000.0,
            "ns",
        ),
        ("<lambda>", ["train.py(12): main", "train.py(30): step"], 7_000.0, "ns"),
    ]


def test_a_memory_timeline_by_category_is_counters() -> None:
    trace = ktrace.read(SAMPLES / "kineto" / "memory-timeline-by-category.json")
    start = 1_715_000_000_000_000_000
    found = [(row["kind"], row["name"], row["ts"] - start, row["value"], row["unit"]) for row in rows(trace)]
    sizes = [
        {"parameter": 4096.0, "activation": 0.0, "gradient": 0.0, "unknown": 0.0},
        {"parameter": 4096.0, "activation": 2097152.0, "gradient": 0.0, "unknown": 0.0},
        {"parameter": 4096.0, "activation": 0.0, "gradient": 1048576.0, "unknown": 512.0},
    ]
    times = [0, 0, 1000]
    assert found == [
        ("counter", name, time, value, "B")
        for time, row in zip(times, sizes, strict=True)
        for name, value in row.items()
    ]


def test_sizes_that_are_not_of_the_times_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    path.write_text("[[1715000000000000, 1715000000000001], [[0, 1, 2]]]")
    with pytest.raises(DamagedInput, match="2 times and 1 rows"):
        ktrace.read(path)


def test_stacks_as_torch_writes_them() -> None:
    trace = ktrace.read(SAMPLES / "kineto" / "stacks-with-underscores-and-single-frames.txt")
    found = [(row["name"], row.get("scope"), row["total"]) for row in rows(trace, "summaries")]
    assert found == [
        ("train.py(59):_<module>", None, 4_000.0),
        ("torch/profiler/profiler.py(1118):___enter__", ["train.py(59):_<module>"], 12_000.0),
        ("nn.Module:_Linear_0", None, 17_000.0),
        ("<built-in_function_linear>", ["train.py(59):_<module>", "train.py(26):_step"], 54_000.0),
    ]


def test_a_page_with_a_picture_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "memory.html"
    path.write_text(
        '<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>\n'
        "<body>\n  <img src='data:image/png;base64,iVBORw0KGgo'>\n</body>\n</html>"
    )
    for format in (None, "kineto"):
        with pytest.raises(ClosedFormat) as caught:
            ktrace.read(path, from_=format)
        assert ".raw.json.gz" in str(caught.value.remedy)


def amd(folder: Path, *events: dict[str, Any], **members: Any) -> Path:
    """A trace of roctracer with those calls and kernels: name, correlation, grid, block."""
    made = []
    for number, event in enumerate(events):
        is_call = event["name"].startswith("hip")
        args = {name: value for name, value in event.items() if name != "name"}
        args |= {} if is_call else {"device": 9, "stream": 0}
        place = {"pid": 1, "tid": 1} if is_call else {"pid": 9, "tid": 0}
        cat = "cuda_runtime" if is_call else "kernel"
        made.append({"ph": "X", "cat": cat, "name": event["name"], **place, "ts": number, "dur": 1, "args": args})
    (folder / "amd.json").write_text(json.dumps({"schemaVersion": 1, **members, "traceEvents": made}))
    return folder / "amd.json"


LAUNCHES = (
    {"name": "hipExtModuleLaunchKernel", "correlation": 1, "grid": [512, 8, 1], "block": [256, 1, 1]},
    {"name": "hipModuleLaunchKernel", "correlation": 2, "grid": [512, 8, 1], "block": [256, 1, 1]},
    {"name": "hipLaunchKernel", "correlation": 3, "grid": [512, 8, 1], "block": [256, 1, 1]},
    {"name": "hipExtModuleLaunchKernel", "correlation": 4, "grid": [300, 4, 1], "block": [256, 4, 1]},
    {"name": "Cijk_Alik", "correlation": 1, "grid": [512, 8, 1], "block": [256, 1, 1]},
    {"name": "triton_poi", "correlation": 2, "grid": [512, 8, 1], "block": [256, 1, 1]},
    {"name": "reduce", "correlation": 3, "grid": [512, 8, 1], "block": [256, 1, 1]},
    {"name": "uneven", "correlation": 4, "grid": [300, 4, 1], "block": [256, 4, 1]},
    {"name": "alone", "correlation": 5, "grid": [512, 8, 1], "block": [256, 1, 1]},
)


@pytest.mark.parametrize("batch_rows", [1, 2, 65536])
def test_only_grids_of_work_items_become_blocks(batch_rows: int, tmp_path: Path) -> None:
    """HIP's reference: hipExtModuleLaunchKernel takes global work sizes, the other calls take blocks."""
    conversion = Conversion(Report(), "amd", batch_rows=batch_rows)
    batches = [batch for batch in read(Source(str(amd(tmp_path, *LAUNCHES))), conversion) if batch.record == "events"]
    found = [row for batch in batches for row in batch.full().to_pylist()]
    grids = [(row["name"], row["grid_x"], row["grid_y"], row["grid_z"]) for row in found]
    assert sorted(grids) == sorted(
        [
            *[("hipExtModuleLaunchKernel", 2, 8, 1), ("Cijk_Alik", 2, 8, 1)],
            *[("hipModuleLaunchKernel", 512, 8, 1), ("triton_poi", 512, 8, 1)],
            *[("hipLaunchKernel", 512, 8, 1), ("reduce", 512, 8, 1)],
            *[("hipExtModuleLaunchKernel", 2, 1, 1), ("uneven", 2, 1, 1), ("alone", 512, 8, 1)],
        ]
    )
    kept = [row["name"] for row in found if "300" in (row["args"] or "")]
    assert sorted(kept) == ["hipExtModuleLaunchKernel", "uneven"]  # the last block is partly filled
    assert all(json.loads(row["args"])["grid"] == [300, 4, 1] for row in found if row["name"] == "uneven")


@pytest.mark.parametrize(
    ("members", "api"),
    [({"hip_runtime_version": 60443483}, 5), ({"roctracer_version": 4.1}, 5), ({"cuda_runtime_version": 12040}, 4)],
)
def test_the_api_is_that_of_the_runtime(members: dict[str, Any], api: int, tmp_path: Path) -> None:
    """Also of a device without a name, and of one that isn't among the properties."""
    devices = [{"id": 0, "name": ""}]
    assert _apis(amd(tmp_path, *LAUNCHES, deviceProperties=devices, **members), tmp_path) == {api}


def test_the_api_is_unknown_where_nothing_says_it(tmp_path: Path) -> None:
    assert _apis(amd(tmp_path, *LAUNCHES), tmp_path) == {0}


def _apis(path: Path, folder: Path) -> set[int]:
    ktrace.convert(path, folder / "amd.perfetto")
    packets = perfetto_trace_pb2.Trace.FromString((folder / "amd.perfetto").read_bytes()).packet
    return {context.api for packet in packets for context in packet.interned_data.graphics_contexts}


@needs_corpus
@pytest.mark.parametrize("name", ["gpu_only_trace", "graph_execution"])
def test_grids_of_real_launches_are_blocks(name: str) -> None:
    """The work-items of each call divided by its threads, in whole numbers: all of these are whole blocks."""
    path = SHARED / "corpus" / "pytorch_kineto" / f"{name}.json.gz"
    events = [event for event in events_of(load(path)) if "grid" in event.get("args", {})]
    calls = {event["args"]["correlation"]: event["name"] for event in events if event["cat"] == "cuda_runtime"}
    expected = Counter(
        (event["name"], of[0] // (event["args"]["block"][0] if ext else 1))
        for event in events
        for of, ext in [(event["args"]["grid"], calls.get(event["args"]["correlation"]) == "hipExtModuleLaunchKernel")]
    )
    found = Counter((row["name"], row["grid_x"]) for row in rows(ktrace.read(path)) if row["grid_x"] is not None)
    assert found == expected


def _graph(tmp_path: Path) -> Path:
    """A replayed graph of three kernels on two streams, as PyTorch's monitor of CUPTI writes it, and an annotation."""

    def slice_(cat: str, name: str, tid: int, ts: float, dur: float, **args: object) -> dict[str, object]:
        place = {"pid": 42 if cat == "cuda_runtime" else 0, "tid": tid, "ts": ts, "dur": dur}
        return {"ph": "X", "cat": cat, "name": name, **place, "args": args}

    def flow(phase: str, number: int, pid: int, tid: int, ts: float) -> dict[str, object]:
        found = {"ph": phase, "id": number, "pid": pid, "tid": tid, "ts": ts, "cat": "ac2g", "name": "ac2g"}
        return found | ({"bp": "e"} if phase == "f" else {})

    works = (("a", 7, 50), ("b", 9, 60), ("c", 7, 58))
    kernels = [slice_("kernel", name, tid, ts, 8, device=0, context=1, stream=tid) for name, tid, ts in works]
    events = [
        slice_("cuda_runtime", "cudaGraphLaunch", 42, 0, 20, correlation=1),
        flow("s", 1, 42, 42, 0),
        *kernels,
        flow("f", 1, 0, 7, 50),
        slice_("gpu_user_annotation", "step", 7, 49, 30),
        slice_("graph_event_node", "EventRecord", 7, 70, 0, device=0, context=1, stream=7),
        *(flow("s", 1 << 40, 0, 7, 58), flow("f", 1 << 40, 0, 9, 60)),
        *(flow("s", (1 << 40) + 1, 0, 7, 58), flow("f", (1 << 40) + 1, 0, 7, 58)),
    ]
    path = tmp_path / "graph.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": 0, "traceEvents": events}), "utf-8")
    return path


@pytest.mark.parametrize("native", ["1", "0"])
def test_edges_between_nodes_of_a_graph_are_waits(tmp_path: Path, native: str) -> None:
    path, out = _graph(tmp_path), tmp_path / "out.perfetto"
    code = f"import ktrace; ktrace.convert({str(path)!r}, {str(out)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"KTRACE_NATIVE": native})
    stages = [stage for stage in decode(out.read_bytes()).stages if stage.kernel]
    name_of = {stage.event.event_id: stage.kernel.demangled_name for stage in stages}
    waits = {name_of[stage.event.event_id]: [name_of[one] for one in stage.event.event_wait_ids] for stage in stages}
    assert waits == {"step": [], "a": [], "b": ["a"], "c": ["a"]}


def test_an_event_node_is_on_its_stream(tmp_path: Path) -> None:
    trace = ktrace.read(_graph(tmp_path))
    (node,) = (row for row in trace.to_arrow()["events"].to_pylist() if row["cat"] == "graph_event_node")
    assert (node["kind"], node["device"], node["stream"], node["pid"], node["args"]) == ("sync", 0, 7, None, None)
    assert trace.report.reader.removed["folded"] == 2  # flows of the launch


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("correlation", "0xab1", True),
        ("grid", {"x": 1, "y": 2}, True),
        ("correlation", "17", False),
        ("bytes", "8", False),
    ],
)
def test_values_that_no_row_can_represent_are_said(key: str, value: Any, said: bool, tmp_path: Path) -> None:
    """Also where they are all of their column: nothing joins launches by hexadecimal numbers."""
    path = tmp_path / "run.json"
    events = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 5, "args": {"device": 0, key: value}}
        for cat, name, ts in (("cuda_runtime", "cudaLaunchKernel", 10), ("kernel", "gemm", 20))
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    trace = ktrace.read(path)
    issues = trace.report.issues
    assert ([place[1].partition(":")[0] for place in issues["misfit"].places] if said else []) == [key] * 2 * said
    assert ("misfit" in issues) is said and all((key in (row["args"] or "")) == said for row in rows(trace))
