"""How device work is shown: as stages of a GPU or as slices, its streams in their order, under their ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import SAMPLES
from engine import FAULTS, query
from perfetto_reference import BEGIN, Decoded, decode, written
from scene import rows, write
from wire import repeats

import ktrace
from ktrace.converters.perfetto.writing.descriptors import in_order_of_names
from ktrace.errors import UsageError

TRAINING = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"

HOST = {"pid": 7, "tid": 8}


def gpu(stream: int, **more: Any) -> dict[str, Any]:
    return {"pid": 7, "device": 0, "stream": stream, **more}


def two_kernels_in_a_step() -> list[Any]:
    made = rows()
    made.event("range", "ProfilerStep#3", ts=9, dur=100, cat="gpu_user_annotation", **gpu(7))
    made.event("kernel", "gemm", ts=10, dur=20, **gpu(7))
    made.event("kernel", "norm", ts=40, dur=60, **gpu(7))
    made.event("range", "host side", ts=0, dur=100, **HOST)
    made.event("sync", "Stream Sync", ts=5, dur=90, **gpu(7))
    made.event("range", "of the device", ts=5, dur=90, pid=7, device=0)
    return list(made.rest())


def test_a_range_of_a_stream_is_on_the_queue_of_its_kernels() -> None:
    found = decode(written(two_kernels_in_a_step()))
    stages = {stage.kernel.demangled_name: stage for stage in found.stages}
    assert set(stages) == {"ProfilerStep#3", "gemm", "norm"}
    assert len({stage.event.hw_queue_iid for stage in found.stages}) == 1
    kinds = {name: (stage.stage.category, stage.stage.description) for name, stage in stages.items()}
    assert kinds == {"ProfilerStep#3": (0, "Range"), "gemm": (2, "Kernel"), "norm": (2, "Kernel")}  # 2 is COMPUTE
    assert {event.name for _, _, event in found.events if event.type == BEGIN} == {
        "host side",
        "Stream Sync",
        "of the device",
    }


def test_arrows_to_a_range_of_a_stream_are_drawn() -> None:
    made = rows()
    first = made.event("range", "here", ts=0, dur=5, **HOST)
    second = made.event("range", "there", ts=10, dur=5, **gpu(7))
    made.link("flow", "a", "out", event=first)
    made.link("flow", "a", "in", event=second)
    found = decode(written(list(made.rest())))
    (stage,) = found.stages
    assert submitted(found) == {"here": [stage.event.event_id]}


@pytest.mark.parametrize("form", ["stages", "slices"])
def test_a_range_without_context_is_on_the_only_stream_of_its_number(form: str, tmp_path: Path) -> None:
    made = rows()
    made.event("range", "step", ts=0, dur=100, **gpu(7))
    made.event("kernel", "gemm", ts=10, dur=20, **gpu(7, context=1))
    made.event("range", "other step", ts=0, dur=100, **gpu(9))
    for context in (1, 2):
        made.event("kernel", f"of context {context}", ts=10, dur=20, **gpu(9, context=context))
    out = tmp_path / "out.perfetto"
    write(list(made.rest()), "perfetto", out, gpu=form)
    events = ktrace.read(out).events
    assert {row.name: None if pd.isna(row.context) else row.context for row in events.itertuples()} == {
        "step": None,
        "gemm": 1,
        "other step": None,
        "of context 1": 1,
        "of context 2": 2,
    }
    (tracks,) = query(
        out, "select s.name, coalesce(track_group_id, s.track_id) as row from slice s join track t on track_id = t.id"
    )
    rows_of = {row["name"]: row["row"] for row in tracks}
    if form == "slices":  # each lane of a queue is a track of its own in v52
        assert rows_of["step"] == rows_of["gemm"]
    assert len({rows_of[name] for name in ("other step", "of context 1", "of context 2")}) == 3


def submitted(found: Decoded) -> dict[str, list[int]]:
    from perfetto_reference import CORRELATION

    return {
        event.name: list(event.Extensions[CORRELATION].render_stage_submission_event_ids)
        for _, _, event in found.events
        if event.type == BEGIN
    }


@pytest.mark.parametrize("form", ["stages", "slices"])
def test_both_forms_come_back_equal(form: str, tmp_path: Path) -> None:
    out = tmp_path / "out.perfetto"
    report = ktrace.convert(TRAINING, out, gpu=form)
    assert report.balanced()
    assert repeats(out.read_bytes()) == []
    before, after = ktrace.read(TRAINING), ktrace.read(out)
    for name in ("kind", "name", "ts", "dur", "stream", "grid_x", "registers", "correlation"):
        columns = [sorted(map(str, trace.events[name].tolist())) for trace in (before, after)]
        assert columns[0] == columns[1], name


def test_slices_have_all_arguments_and_arrows_in_any_engine(tmp_path: Path) -> None:
    out = tmp_path / "out.perfetto"
    ktrace.convert(TRAINING, out, gpu="slices")
    faults, stages, kernels, flows = query(
        out,
        FAULTS,
        "select count(*) as n from gpu_slice",
        """select s.name, s.ts, s.dur, t.name as track, extract_arg(s.arg_set_id, 'debug.registers') as registers,
           extract_arg(s.arg_set_id, 'debug.grid.x') as grid from slice s join track t on s.track_id = t.id
           where s.category = 'kernel'""",
        """select a.name as call, b.name as kernel from flow join slice a on slice_out = a.id
           join slice b on slice_in = b.id where b.category = 'kernel'""",
    )
    assert faults == []
    assert stages == [{"n": 0}]
    events = ktrace.read(TRAINING).events
    wanted = events[events.kind == "kernel"]
    assert sorted((row["name"], row["ts"], row["dur"], row["registers"], row["grid"]) for row in kernels) == sorted(
        zip(wanted.name, wanted.ts, wanted.dur, wanted.registers, wanted.grid_x, strict=True)
    )
    assert {row["track"].lstrip() for row in kernels} == {f"stream {stream}" for stream in wanted.stream}
    launched = wanted[wanted.correlation.isin(events[events.kind == "api"].correlation)]
    assert sorted(row["kernel"] for row in flows) == sorted(launched.name)


def test_slices_are_for_perfetto_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--gpu is for Perfetto"):
        ktrace.convert(TRAINING, tmp_path / "out.parquet", gpu="slices")
    with pytest.raises(UsageError, match="isn't a form"):
        ktrace.convert(TRAINING, tmp_path / "out.perfetto", gpu="tiles")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "names",
    [
        ["stream 0", "stream 7", "stream 10", "stream 20", "stream 100"],
        ["Reduce", "Gemm", "Attention"],
        ["a", "B", "c"],
        ["same", "same", "other", "same"],
        [],
        ["one"],
    ],
)
def test_names_sort_in_their_order(names: list[str]) -> None:
    given = in_order_of_names(names)
    assert sorted(given, key=str.lower) == given
    assert [name.lstrip(" ") for name in given] == names


def test_names_that_sort_already_stay() -> None:
    assert in_order_of_names(["CPU 0", "CPU 1", "CPU 2"]) == ["CPU 0", "CPU 1", "CPU 2"]


def test_streams_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    streams = [10, 100, 7, 0, 20, 101, 11]
    made = rows()
    for stream in streams:
        made.event("kernel", "k", ts=stream, dur=1, **gpu(stream))
    (tmp_path / "out.perfetto").write_bytes(written(list(made.rest())))
    sql = "select distinct name from track where type = 'gpu_render_stage' order by lower(name)"  # as the UI asks
    (tracks,) = query(tmp_path / "out.perfetto", sql)
    assert [row["name"].lstrip(" ") for row in tracks] == [f"GPU 0 stream {stream}" for stream in sorted(streams)]


def test_threads_and_processes_are_called_as_the_source_calls_them(tmp_path: Path) -> None:
    made = rows()
    made.fact("process", pid=111, name="python3")
    made.fact("process", pid=222, name="python3")
    made.fact("thread", pid=111, tid=111, name="thread 111 (python3)")
    made.fact("thread", pid=111, tid=112, name="thread 112")
    made.fact("thread", pid=111, tid=113, name="worker")
    for tid in (111, 112, 113):
        made.event("op", "x", ts=tid, dur=1, pid=111, tid=tid)
    made.event("op", "x", ts=5, dur=1, pid=222, tid=222)
    for cpu in (8, 10, 2):
        made.event("range", "python3", ts=1, dur=1, pid=111, track=f"CPU {cpu}")
    (tmp_path / "out.perfetto").write_bytes(written(list(made.rest())))
    processes, threads = query(
        tmp_path / "out.perfetto",
        "select pid, name from process where pid > 0 order by pid",
        "select tid, thread.name from thread_track join thread using (utid) join process using (upid) where pid = 111"
        " order by tid",
    )
    assert [(row["pid"], row["name"]) for row in processes] == [(111, "python3"), (222, "python3")]  # the UI adds ids
    assert [(row["tid"], row["name"]) for row in threads] == [(111, "python3"), (112, None), (113, "worker")]


def test_without_the_time_of_day_there_is_no_clock_snapshot(tmp_path: Path) -> None:
    (tmp_path / "out.perfetto").write_bytes(written(two_kernels_in_a_step()))
    assert query(tmp_path / "out.perfetto", "select count(*) as n from clock_snapshot") == [[{"n": 0}]]
