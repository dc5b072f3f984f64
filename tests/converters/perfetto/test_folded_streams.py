"""Many streams of graphs as lanes in the viewer: the same work, named as in the source, and read back as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES
from engine import query
from nightly import few
from perfetto_reference import decode
from real_traces import NSYS, at_hand, kineto

import ktrace
from ktrace.pipeline.convert import GPU_FORMS

Event = dict[str, Any]


def _work(name: str, ts: int, dur: int, stream: int, correlation: int, node: int | None, cat: str = "kernel") -> Event:
    args = {"device": 0, "context": 1, "stream": stream, "correlation": correlation, "External id": correlation}
    if node is not None:
        args |= {"graph id": 3, "graph node id": node}
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur, "args": args}


def _wall() -> list[Event]:
    """Three replays of a graph with two branches, each node on a stream of its own, and two ordinary streams."""
    events: list[Event] = []
    for replay in range(3):
        start = 10_000 * replay
        launch = {
            "ph": "X",
            "cat": "cuda_runtime",
            "pid": 1,
            "tid": 1,
            "ts": start,
            "args": {"correlation": replay + 1},
        }
        events.append(launch | {"name": "cudaGraphLaunch", "dur": 20})
        for node in range(50):
            where = (100 + 60 * replay + node, replay + 1, node + 1)
            if node % 10 == 9:
                copy = _work("Memcpy DtoD (Device -> Device)", start + 50 + 20 * node, 15, *where, cat="gpu_memcpy")
                events.append(copy)
            else:
                events.append(_work(f"gemm_k{node % 3}", start + 50 + 20 * node, 15 + 20 * (node % 2), *where))
        events.append(_work("softmax", start + 30, 15, 7, 100 + replay, None))
        events.append(_work("ncclDevKernel_AllReduce", start + 40, 900, 20, 200 + replay, None))
    return events


@pytest.fixture(scope="module")
def wall(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wall") / "wall.pt.trace.json"
    properties = [{"id": 0, "name": "NVIDIA H100"}]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": properties, "traceEvents": _wall()}))
    return path


def _sums() -> dict[str, int]:
    """The time of each name of device work, in ns."""
    found: Counter[str] = Counter()
    for event in _wall():
        found[event["name"]] += 1000 * event["dur"]
    del found["cudaGraphLaunch"]
    return dict(found)


@pytest.mark.parametrize(("form", "table"), [("stages", "gpu_slice"), ("slices", "slice")])
def test_the_engine_shows_the_same_work_on_few_tracks_without_overlap(
    form: str, table: str, wall: Path, tmp_path: Path
) -> None:
    out = tmp_path / "wall.perfetto"
    assert ktrace.convert(wall, out, gpu=form).balanced()
    (shown,) = query(
        out,
        f"""select s.name, s.ts, s.dur, t.name as track from {table} s join track t on s.track_id = t.id
            where s.name != 'cudaGraphLaunch' order by s.ts""",
    )
    sums: Counter[str] = Counter()
    ends: dict[str, int] = {}
    for row in shown:
        sums[row["name"]] += row["dur"]
        assert row["ts"] >= ends.get(row["track"], 0), row
        ends[row["track"]] = row["ts"] + row["dur"]
    assert sums == _sums()
    names = {name.strip().removeprefix("GPU 0 ") for name in ends}
    assert names == {"stream 7", "stream 20", "graph 3 lane 1", "graph 3 lane 2"}


@pytest.mark.parametrize("form", ["stages-by-stream", "slices-by-stream"])
def test_by_stream_each_stream_has_its_track(form: str, wall: Path, tmp_path: Path) -> None:
    out = tmp_path / "wall.perfetto"
    ktrace.convert(wall, out, gpu=form)
    table = "gpu_slice" if form.startswith("stages") else "slice"
    (shown,) = query(
        out,
        f"""select distinct t.name as track from {table} s join track t on s.track_id = t.id
            where s.name != 'cudaGraphLaunch'""",
    )
    assert {row["track"].strip().removeprefix("GPU 0 ") for row in shown} == {
        f"stream {event['tid']}" for event in _wall() if event["cat"] != "cuda_runtime"
    }


@pytest.mark.parametrize("form", GPU_FORMS)
def test_all_forms_come_back_equal(form: str, wall: Path, tmp_path: Path) -> None:
    out = tmp_path / "wall.perfetto"
    ktrace.convert(wall, out, gpu=form)
    before, after = ktrace.read(wall), ktrace.read(out)
    assert not before.events.stream.dropna().empty
    for name in before.events.columns:
        if name != "source":
            columns = [sorted(map(str, trace.events[name].tolist())) for trace in (before, after)]
            assert columns[0] == columns[1], name
    keys = ["ts", "name", "device", "context", "stream", "tid", "track"]
    rows = [sorted(map(str, trace.events[keys].itertuples(index=False))) for trace in (before, after)]
    assert rows[0] == rows[1]


def test_a_stage_on_a_lane_names_its_own_stream(wall: Path, tmp_path: Path) -> None:
    out = tmp_path / "wall.perfetto"
    ktrace.convert(wall, out)
    found = decode(out.read_bytes())
    shown = sorted((stage.ts, stage.arguments["stream"][1], stage.arguments["context"][1]) for stage in found.stages)
    work = [event for event in _wall() if event["cat"] != "cuda_runtime"]
    assert shown == sorted((1000 * event["ts"], event["tid"], 1) for event in work)


def test_root_tracks_have_the_operations_of_lanes(wall: Path, tmp_path: Path) -> None:
    out = tmp_path / "wall.perfetto"
    ktrace.convert(wall, out)
    (shown,) = query(
        out,
        """select replace(trim(t.name), '  ', ' ') as track, s.name, sum(s.dur) as dur from slice s
           join track t on s.track_id = t.id where s.category = 'derived' and t.name is not null group by 1, 2""",
        derived=True,
    )
    by_track: Counter[str] = Counter()
    for row in shown:
        by_track[row["track"]] += row["dur"]
    of_graph = sum(dur for name, dur in _sums().items() if "gemm" in name or "Memcpy" in name)
    assert {row["name"] for row in shown if row["track"] == "graph 3 lane 1"} <= {"gemm", "copy"}
    assert by_track["graph 3 lane 1"] + by_track["graph 3 lane 2"] == of_graph
    assert by_track["stream 20"] == 3 * 900_000
    assert set(by_track) == {"stream 7", "stream 20", "graph 3 lane 1", "graph 3 lane 2"}


#: Traces of several streams, the first two of graphs.
_ORDINARY = [
    *kineto("graph_execution.json.gz", "sglang_Qwen3-8B_decode.json.gz", "nccl_data.json.gz"),
    *kineto("event_sync_trace.json.gz", "mi250_minitoy_train_ROCm6_2_kineto.json.gz"),
    NSYS,
    SAMPLES / "kineto" / "gaudi-engines-of-one-device.json",
]


@pytest.mark.parametrize("path", few(_ORDINARY, 2))
@pytest.mark.parametrize("form", ["stages", "slices"])
def test_ordinary_streams_are_drawn_as_ever(path: Path, form: str, tmp_path: Path) -> None:
    contents = []
    for one in (form, f"{form}-by-stream"):
        ktrace.convert(at_hand(path), tmp_path / f"{one}.perfetto", gpu=one)
        contents.append(_without_first_packet((tmp_path / f"{one}.perfetto").read_bytes()))
    assert contents[0] == contents[1]


def _without_first_packet(data: bytes) -> bytes:
    """The packets but the first, which names the form."""
    assert data[0] == 0x0A
    assert data[1] < 0x80
    return data[2 + data[1] :]


def test_it_is_the_same_without_the_compiled_part(wall: Path, tmp_path: Path) -> None:
    for native in ("0", "1"):
        code = f"import ktrace; ktrace.convert({str(wall)!r}, {str(tmp_path / native)!r}, to='perfetto')"
        subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"KTRACE_NATIVE": native})
    assert ktrace.read(tmp_path / "0").events.equals(ktrace.read(tmp_path / "1").events)
    queues = [decode((tmp_path / native).read_bytes()).stages for native in ("0", "1")]
    assert [(one.row, one.queue) for one in queues[0]] == [(one.row, one.queue) for one in queues[1]]
