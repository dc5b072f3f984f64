"""What viewers show above all processes: steps, and what streams do, never called after a kernel."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import engine
import pytest
from conftest import SAMPLES, SHARED
from nightly import few
from real_traces import NSYS, at_hand, kineto

import ktrace
from ktrace.converters.perfetto.writing import derived_tracks

STEP = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"

#: The slices of tracks at the root: those without thread, process and parent.
ROOTS = (
    "select replace(trim(t.name), '  ', ' ') as track, s.name, s.ts, s.dur, s.category,"
    " extract_arg(s.arg_set_id, 'debug.kernels') as kernels, extract_arg(s.arg_set_id, 'debug.copies') as copies,"
    " extract_arg(s.arg_set_id, 'debug.span_ns') as span"
    " from slice s join track t on s.track_id = t.id where s.category = 'derived' and t.name is not null"
    " order by t.name, s.ts"
)

#: Traces of several tools.
TRACES = [
    STEP,
    SAMPLES / "kineto" / "collectives-of-two-ranks-rank0.json",
    SAMPLES / "rocprofv3" / "kernel_trace.csv",
    *kineto("gpu_only_trace.json.gz", "graph_execution.json.gz", "sglang_Qwen3-8B_decode.json.gz"),
    NSYS,
    *kineto("nccl_data.json.gz", "event_sync_trace.json.gz", "mi250_minitoy_train_ROCm6_2_kineto.json.gz"),
    *kineto("rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", "worker0.1623143089861.pt.trace.json.gz"),
]


def converted(source: Path, folder: Path, **options: Any) -> Path:
    ktrace.convert(source, folder / "out.perfetto", **options)
    return folder / "out.perfetto"


@pytest.mark.parametrize("path", few(TRACES, 7))
def test_sums_by_name_are_those_of_the_source(path: Path, tmp_path: Path) -> None:
    """In `slice` with all that ktrace derives, and in `gpu_slice`."""
    events = ktrace.read(at_hand(path)).events
    work = events[events.kind.isin(["kernel", "memcpy", "memset", "graph"]) & events.dur.notna()]
    everywhere, on_devices, most = engine.query(
        converted(path, tmp_path),
        "select name, sum(dur) as total from slice group by name",
        "select name, sum(dur) as total from gpu_slice group by name",
        "select count(*) as n from slice where category = 'derived'",
        derived=True,
    )
    names = set(work.name)
    wanted = {name: int(total) for name, total in work.groupby("name").dur.sum().items()}
    slices = events[events.name.isin(names) & events.dur.notna()]
    assert {row["name"]: row["total"] for row in everywhere if row["name"] in names} == {
        name: int(total) for name, total in slices.groupby("name").dur.sum().items()
    }
    assert {row["name"]: row["total"] for row in on_devices if row["name"] in names} == wanted
    assert most[0]["n"] <= 12_000


@pytest.mark.parametrize(
    ("path", "name", "total", "rows"),
    [
        (SAMPLES / "nsys-stats/page-and-raw-table-of-a-summary-and-a-trace.html", "scale<float, int>(T1 *)", 300, 2),
        (SHARED / "hunt/rocm/rocprof_compute_23ed6f36.db", "__amd_rocclr_initHeap", 3040, 64),
    ],
)
def test_rows_of_a_table_beside_the_kernels_are_told_apart(
    path: Path, name: str, total: int, rows: int, tmp_path: Path
) -> None:
    """Of one kernel the page has a launch and a row of its summary, the database 63 tables of metrics."""
    of_it = f"select count(*) as n, sum(dur) as total from {{}} where name = '{name}'"
    measured = " and extract_arg(arg_set_id, 'debug.timing') is not 'synthetic'"
    everywhere, without_tables, on_devices = engine.query(
        converted(at_hand(path), tmp_path),
        of_it.format("slice"),
        of_it.format("slice") + measured,
        of_it.format("gpu_slice"),
        derived=True,
    )
    assert everywhere[0]["n"] == rows
    assert without_tables == on_devices == [{"n": 1, "total": total}]


def test_a_track_for_the_steps_and_one_for_each_stream(tmp_path: Path) -> None:
    rows = engine.query(converted(STEP, tmp_path), ROOTS, derived=True)[0]
    assert [*dict.fromkeys(row["track"] for row in rows)] == ["steps", "stream 7", "stream 20"]
    assert {row["category"] for row in rows} == {"derived"}
    assert [(row["name"], row["dur"]) for row in rows if row["track"] == "steps"] == [("#3", 1_004_928)]
    names = [row["name"] for row in rows if row["track"] == "stream 7"]
    assert names[:4] == ["copy", "gather", "gemm", "attention"]
    times: Counter[str] = Counter()
    for row in rows:
        times[row["name"]] += row["dur"]
        if row["track"] != "steps":
            assert row["kernels"] + row["copies"] >= 1 and row["span"] >= row["dur"]
    groups = ktrace.summary(STEP, by=["operation"]).groups["operation"]
    assert {group.key: group.total for group in groups} == {name: time for name, time in times.items() if name != "#3"}


def test_each_has_a_counter_below_it(tmp_path: Path) -> None:
    """Without a child the track would be in a closed group."""
    counters = engine.query(
        converted(STEP, tmp_path),
        "select replace(trim(p.name), '  ', ' ') as above, t.name, sum(c.value) as total from counter c join track t"
        " on c.track_id = t.id join track p on t.parent_id = p.id where t.name in ('time of a step', 'work in a run')"
        " group by 1, 2 order by 1",
    )[0]
    assert [(row["above"], row["name"], row["total"]) for row in counters] == [
        ("steps", "time of a step", 1_004_928.0),
        ("stream 20", "work in a run", 2.0),
        ("stream 7", "work in a run", 13.0),
    ]


def test_none_with_slices(tmp_path: Path) -> None:
    assert engine.query(converted(STEP, tmp_path, gpu="slices"), ROOTS, derived=True)[0] == []


def made(folder: Path, *rows: dict[str, Any]) -> Path:
    lines = [{"ktrace": "1.0"}]
    for number, row in enumerate(rows):
        lines.append({"record": "event", "source": "made", "id": number, "timing": "measured", "dur": 10} | row)
    (folder / "made.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "made.jsonl"


def kernel(ts: int, name: str = "sgemm", stream: int = 7, **more: Any) -> dict[str, Any]:
    return {"kind": "kernel", "name": name, "ts": ts, "device": 0, "stream": stream} | more


def step(ts: int, number: int, *, tid: int = 1, dur: int = 90) -> dict[str, Any]:
    return {"kind": "range", "name": f"ProfilerStep#{number}", "ts": ts, "dur": dur, "pid": 1, "tid": tid}


def test_a_run_is_one_operation_without_gaps_that_can_be_seen(tmp_path: Path) -> None:
    rows = [kernel(0), kernel(10), kernel(21), kernel(40, "softmax_kernel"), kernel(60, "sgemm"), kernel(1_000_000)]
    runs = engine.query(converted(made(tmp_path, *rows), tmp_path), ROOTS, derived=True)[0]
    assert [(row["name"], row["ts"], row["dur"], row["kernels"], row["span"]) for row in runs] == [
        ("gemm", 0, 30, 3, 31),
        ("softmax", 40, 10, 1, 10),
        ("gemm", 60, 10, 1, 10),
        ("gemm", 1_000_000, 10, 1, 10),
    ]


@pytest.mark.parametrize("taken", ["gemm", "busy"])
def test_no_run_is_called_as_anything_in_the_trace(taken: str, tmp_path: Path) -> None:
    rows = [kernel(0, "gemm"), kernel(20, "unknown_thing"), {"kind": "op", "name": taken, "ts": 0, "pid": 1, "tid": 1}]
    names = {row["name"] for row in engine.query(converted(made(tmp_path, *rows), tmp_path), ROOTS, derived=True)[0]}
    assert names == {"gemm (busy)", "busy (busy)" if taken == "busy" else "busy"}


def test_steps_of_the_thread_that_has_most_of_them_one_after_the_other(tmp_path: Path) -> None:
    steps = [step(100 * number, number) for number in range(4)]
    inner, elsewhere = [step(110, 9, dur=20)], [step(0, 7, tid=2)]
    runs = engine.query(
        converted(made(tmp_path, kernel(0), *steps, *inner, *elsewhere), tmp_path), ROOTS, derived=True
    )[0]
    found = [(row["name"], row["ts"], row["dur"]) for row in runs if row["track"] == "steps"]
    assert found == [(f"#{number}", 100 * number, 90) for number in range(4)]


def test_very_many_steps_are_drawn_several_at_once(tmp_path: Path) -> None:
    steps = [(100 * number, 100 * number + 90, f"#{number}") for number in range(2 * derived_tracks._DRAWN)]
    drawn = derived_tracks._drawn(steps)
    assert len(drawn) == derived_tracks._DRAWN
    assert drawn[1] == (200, 390, "#2 to #3")


def test_many_streams_are_the_busiest_one_of_each_device(tmp_path: Path) -> None:
    rows = [
        kernel(100 * number, stream=stream, device=device, dur=10 + stream)
        for number, (device, stream) in enumerate((device, stream) for device in range(3) for stream in range(7, 14))
    ]
    runs = engine.query(converted(made(tmp_path, *rows), tmp_path), ROOTS, derived=True)[0]
    tracks: defaultdict[str, int] = defaultdict(int)
    for row in runs:
        tracks[row["track"]] += row["dur"]
    assert tracks == {f"GPU {device} stream 13": 23 for device in range(3)}


def test_host_steps_alone_need_no_track(tmp_path: Path) -> None:
    assert engine.query(converted(made(tmp_path, step(0, 1), step(100, 2)), tmp_path), ROOTS, derived=True)[0] == []
