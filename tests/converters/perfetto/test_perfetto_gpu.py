"""Device work in Perfetto traces: render stages, their arrows and counters."""

from __future__ import annotations

import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from conftest import SHARED
from engine import FAULTS, query
from perfetto_reference import BEGIN, CORRELATION, Trace, decode, written
from scene import KERNEL, rows, scene, write

from ktrace.converters.perfetto.writing.kernel_counters import KernelCounters
from ktrace.stages.order import order

LINT = SHARED / "tools" / "gpu_lint.py"

HOST = {"pid": 7, "tid": 8}
GPU = {"device": 0, "context": 1, "stream": 7}


def test_four_ways_of_an_arrow() -> None:
    made = rows()
    call = made.event("api", "call", ts=0, dur=5, correlation=1, **HOST)
    other = made.event("api", "other call", ts=6, dur=2, **HOST)
    first = made.event("kernel", "first", ts=10, dur=5, correlation=1, **GPU)
    second = made.event("kernel", "second", ts=20, dur=5, **GPU)
    wait = made.event("sync", "wait", ts=30, dur=5, **HOST)
    for key, (out, inn) in {
        "a": (other, second),
        "b": (first, second),
        "c": (second, wait),
        "d": (call, other),
    }.items():
        made.link("flow", key, "out", event=out)
        made.link("flow", key, "in", event=inn)
    found = decode(written(list(made.rest())))
    stage = {stage.kernel.demangled_name: stage.event for stage in found.stages}
    event = {event.name: event for _, _, event in found.events if event.type == BEGIN}
    assert list(event["call"].Extensions[CORRELATION].render_stage_submission_event_ids) == [stage["first"].event_id]
    assert list(event["other call"].Extensions[CORRELATION].render_stage_submission_event_ids) == [
        stage["second"].event_id
    ]
    assert list(stage["second"].event_wait_ids) == [stage["first"].event_id]
    assert list(event["wait"].Extensions[CORRELATION].render_stage_wait_event_ids) == [stage["second"].event_id]
    assert list(event["call"].flow_ids) == list(event["other call"].flow_ids) != []


@pytest.mark.parametrize("first", [1, -1000])  # the other slice after the call, and in a range before it
def test_a_stage_has_one_submitter_and_the_second_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr("ktrace.stages.order.order", partial(order, range_rows=1))
    made = rows()
    call = made.event("api", "call", ts=0, dur=5, correlation=1, **HOST)
    other = made.event("api", "other", ts=first, dur=2, **HOST)
    kernel = made.event("kernel", "kernel", ts=10, dur=5, correlation=1, **GPU)
    made.link("flow", "a", "out", event=other)
    made.link("flow", "a", "in", event=kernel)
    report = write(list(made.rest()), "perfetto", tmp_path / "out.perfetto")
    found = decode((tmp_path / "out.perfetto").read_bytes())
    submitted = {
        event.name: event.Extensions[CORRELATION].render_stage_submission_event_ids
        for _, _, event in found.events
        if event.name
    }
    assert {name: len(ids) for name, ids in submitted.items()} == {"call": 1, "other": 0}
    assert report.issues["not-representable"].rows == 2
    assert call < kernel


def test_an_allocation_without_duration_is_a_point(tmp_path: Path) -> None:
    made = rows()
    made.event("alloc", "malloc", ts=0, bytes=8, **HOST)
    made.event("range", "step", ts=1, **HOST)
    made.event("instant", "end", ts=9, **HOST)
    path = tmp_path / "out.perfetto"
    write(list(made.rest()), "perfetto", path)
    found = {
        event.name: {annotation.name for annotation in event.debug_annotations}
        for _, _, event in decode(path.read_bytes()).events
        if event.name
    }
    assert "unfinished" not in found["malloc"]
    assert "unfinished" in found["step"]


def test_one_launch_of_many_kernels_names_them_all() -> None:
    made = rows()
    made.fact("device", device=0, name="NVIDIA H100", facts={"api": "cuda", "compute_capability": "9.0"})
    made.event("api", "cudaGraphLaunch", ts=0, dur=5, correlation=1, **HOST)
    for number in range(3):
        made.event("kernel", f"kernel {number}", ts=10 * number, dur=5, correlation=1, device=0, stream=number)
    found = decode(written(list(made.rest())))
    (call,) = (event for _, _, event in found.events if event.type == BEGIN)
    assert sorted(call.Extensions[CORRELATION].render_stage_submission_event_ids) == sorted(
        s.event.event_id for s in found.stages
    )
    assert found.stages[0].context.api == 4
    assert "api" not in found.stages[0].arguments  # which the context has
    assert {stage.kernel.arch for stage in found.stages} == {"sm_90"}
    assert {stage.context.pid for stage in found.stages} == {7}  # the only process of the source with threads
    assert len({stage.event.hw_queue_iid for stage in found.stages}) == 3


def test_a_mixed_track_in_small_ranges_keeps_the_ends_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.stages.order.order", partial(order, range_rows=3))
    chance = random.Random(3)
    made = rows()
    put = {}
    for number in range(200):
        ts, dur = chance.randrange(300), chance.choice((0, 0, chance.randrange(60)))
        kind = chance.choice(("kernel", "range", "memset"))
        made.event(kind, f"slice {number}", ts=ts, dur=dur, device=0, stream=number % 2)
        put[f"slice {number}"] = (ts, dur)
    write(list(made.rest()), "perfetto", tmp_path / "mixed.perfetto")
    slices, faults = query(tmp_path / "mixed.perfetto", "select name, ts, dur from slice", FAULTS)
    assert {row["name"]: (row["ts"], row["dur"]) for row in slices} == put
    assert faults == []


def test_metrics_are_counters_at_the_begin_of_their_kernel(tmp_path: Path) -> None:
    made = rows()
    for number in range(3):
        kernel = made.event("kernel", "k", ts=10 * number, dur=number + 1, device=0, stream=0, occupancy=50.0 + number)
        made.event(
            "counter", "sm__throughput", ts=10 * number, dur=5, parent=kernel, value=number / 4, unit="%", device=0
        )
    made.event("counter", "power", ts=3, value=1.0, device=0)
    report = write(list(made.rest()), "perfetto", tmp_path / "out.perfetto")
    found = decode((tmp_path / "out.perfetto").read_bytes())
    throughput = [(ts, value) for ts, name, value in found.counters if name == "sm__throughput"]
    assert throughput == [(0, 0.0), (10, 0.25), (20, 0.5)]
    assert [value for _, name, value in found.counters if name != "sm__throughput"] == [50.0, 51.0, 52.0]
    assert report.written == 7
    assert not report.issues


def test_only_the_longest_kernels_keep_their_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.converters.perfetto.writer.KernelCounters", partial(KernelCounters, 2))
    monkeypatch.setattr("ktrace.stages.order.order", partial(order, range_rows=10))
    made = rows()
    for number in range(60):
        kernel = made.event("kernel", "k", ts=10 * number, dur=number % 30, device=0, stream=0, occupancy=50.0)
        made.event("counter", "metric", ts=10 * number, parent=kernel, value=float(number), device=0)
    report = write(list(made.rest()), "perfetto", tmp_path / "out.perfetto")
    found = decode((tmp_path / "out.perfetto").read_bytes())
    assert {(ts, value) for ts, name, value in found.counters if name == "metric"} == {(290, 29.0), (590, 59.0)}
    assert len(found.counters) == 4
    assert report.written == 62
    assert report.issues["counters-capped"].places == [("output", "the 2 longest of 60 kernels keep their counters")]


def test_the_sequence_of_stages_starts_anew_where_too_much_is_interned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrace.stages.order.order", partial(order, range_rows=50))
    monkeypatch.setattr("ktrace.converters.perfetto.writing.render_stages._MOST_KERNELS", 2000)
    made = rows()
    for number in range(400):
        made.event("kernel", f"kernel {number % 90}", ts=number, dur=1, device=0, stream=number % 2, registers=number)
    data = written(list(made.rest()))
    found = decode(data)
    names = {stage.ts: stage.kernel.demangled_name for stage in found.stages}
    assert names == {number: f"kernel {number % 90}" for number in range(400)}
    assert all(stage.arguments["registers_per_thread"] == ("int_value", stage.ts) for stage in found.stages)
    starts = [packet for packet in Trace.FromString(data).packet if packet.sequence_flags == 1]
    assert len(starts) > 3


def test_a_laid_out_table_isnt_measured_work(tmp_path: Path) -> None:
    made = rows()
    made.event("kernel", "k", ts=0, dur=5, timing="synthetic", device=0, track="Statistics")
    made.event("kernel", "n", ts=0, dur=5, track="Kernels")
    found = decode(written(list(made.rest())))
    assert not found.stages
    assert len([event for _, _, event in found.events if event.type == BEGIN]) == 2


def test_a_launch_that_is_laid_out_on_its_stream_is_a_stage_with_its_metrics() -> None:
    made = rows()
    how = {"args.launch__waves_per_multiprocessor": 1.5, "args.sm__maximum_warps_per_active_cycle_pct": 25}
    kernel = made.event("kernel", "k", ts=0, dur=5, timing="synthetic", **how, **GPU)
    counter = {"value": 12.5, "unit": "%", "parent": kernel, "timing": "synthetic"}
    made.event("counter", "sm__throughput", ts=0, dur=5, **counter, **GPU)
    found = decode(written(list(made.rest())))
    assert not [event for _, _, event in found.events if event.type == BEGIN]
    assert found.counters == [(0, "sm__throughput", 12.5)]
    (stage,) = found.stages
    shown = {name: value for name, (_, value) in stage.arguments.items()}
    assert shown["timing"] == "synthetic"
    assert shown["waves_per_multiprocessor"] == shown["launch__waves_per_multiprocessor"] == 1.5
    assert shown["sm__maximum_warps_per_active_cycle_pct"] == 25


@pytest.mark.skipif(not LINT.exists(), reason="no ../shared")
def test_the_lint_finds_no_fault(tmp_path: Path) -> None:
    write(scene(), "perfetto", tmp_path / "scene.perfetto")
    made = rows()
    made.event("api", "launch", ts=0, dur=5, correlation=1, **HOST)
    launch = {"grid_x": 3, "grid_y": 4, "grid_z": 5, "block_x": 128, "registers": 96, "occupancy": 33.25}
    made.event("kernel", KERNEL, ts=6, dur=9, correlation=1, **launch, **GPU)
    write(list(made.rest()), "perfetto", tmp_path / "launch.perfetto")
    done = subprocess.run(
        [sys.executable, LINT, tmp_path / "scene.perfetto", tmp_path / "launch.perfetto"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()
    words = done.stdout.decode()
    assert words.count("Launch Statistics: fills") == words.count("Occupancy: fills") == 2
    assert "1 launched by a slice of the trace" in words
