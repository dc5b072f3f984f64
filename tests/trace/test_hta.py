"""`Trace.to_hta()` beside what HTA makes of the same Kineto JSON by its own rules, worked out here from the JSON."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pandas as pd
from conftest import SAMPLES

import ktrace
from ktrace.conversion import Conversion
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report
from ktrace.trace.arrow_tables import COLUMNS
from ktrace.trace.trace import Trace

TRACE = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def by_the_rules_of_hta() -> list[dict[str, Any]]:
    """A row for each event with a duration: rounded inwards to microseconds, missing arguments -1."""
    rows = []
    for event in json.loads(TRACE.read_text(), parse_float=Decimal)["traceEvents"]:
        if event.get("ph") == "X" and event["cat"] != "Trace":
            begin, end = math.ceil(event["ts"]), math.floor(event["ts"] + event["dur"])
            arguments = event.get("args", {})
            row = {name: event[name] for name in ("cat", "name", "pid", "tid")}
            row |= {"ts": begin, "dur": end - begin, "end": end}
            row |= {name: int(arguments.get(name, -1)) for name in ("stream", "correlation")}
            if event["cat"] == "gpu_user_annotation":
                row["stream"] = event["tid"]  # which HTA doesn't look at, and takes these for the host's
            rows.append(row)
    return rows


def key(row: Any) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("cat", "name", "ts", "dur", "end", "stream", "correlation"))


def test_the_rows_are_those_that_hta_reads() -> None:
    frame = ktrace.read(TRACE).to_hta()[0]
    expected = by_the_rules_of_hta()
    assert len(expected) > 50
    found = frame.to_dict("records")
    assert sorted(map(key, found)) == sorted(map(key, expected))
    places = {key(row): (row["pid"], row["tid"]) for row in expected if row["cat"] != "cuda_sync"}
    assert {key(row): (row["pid"], row["tid"]) for row in found if row["cat"] != "cuda_sync"} == places


def test_calls_and_their_work_name_each_other() -> None:
    frame = ktrace.read(TRACE).to_hta()[0]
    expected = by_the_rules_of_hta()
    host = {row["correlation"]: row["name"] for row in expected if row["stream"] < 0 <= row["correlation"]}
    work = [row for row in expected if row["stream"] > 0 and row["correlation"] in host]
    found = frame[(frame["stream"] > 0) & (frame["index_correlation"] > 0)]
    assert len(found) == len(work) > 10
    for row in found.to_dict("records"):
        partner = frame.loc[row["index_correlation"]]
        assert partner["name"] == host[row["correlation"]]
        assert partner["index_correlation"] == row["index"]
    assert set(frame.loc[frame["correlation"] == -1, "index_correlation"]) == {-1}


def test_work_belongs_to_the_step_of_its_call() -> None:
    frame = ktrace.read(TRACE).to_hta()[0]
    step = frame[frame["name"] == "ProfilerStep#3"].iloc[0]
    host = frame[frame["stream"] < 0]
    inside = host["ts"].between(step["ts"], step["end"], inclusive="left")
    assert set(host.loc[inside, "iteration"]) == {3}
    linked = frame[(frame["stream"] > 0) & (frame["index_correlation"] > 0)]
    assert set(linked["iteration"]) == {3}


def made(**rank: int) -> Trace:
    rows = RowBuilder(Conversion(Report(), "run"))
    rows.event("range", "ProfilerStep#7", ts=0, dur=9_000, pid=1, tid=2, cat="user_annotation")
    rows.event("api", "hipLaunchKernel", ts=1_500, dur=200, pid=1, tid=2, correlation=5, cat="HIP_API")
    rows.event("api", "hipLaunchKernel", ts=1_500, dur=200, pid=9, tid=2, correlation=5)
    rows.event("kernel", "gemm", ts=9_500, dur=3_400, pid=1, device=0, stream=3, correlation=5)
    rows.event("kernel", "lost", ts=20_000, dur=1_000, pid=1, device=1, correlation=6)
    rows.event("range", "layer 1", ts=9_000, dur=5_000, pid=1, device=0, stream=3)
    rows.event("op", "aten::mm", ts=2**60 + 1, dur=2_000, pid=1, tid=2)
    rows.event("op", "unfinished", ts=3_000, pid=1, tid=2)
    rows.event("instant", "mark", ts=3_000, pid=1, tid=2)
    rows.fact("source", facts=rank)
    return Trace(rows.rest())


def test_other_formats_get_the_words_of_kineto() -> None:
    frames = made(rank=4).to_hta()
    assert list(frames) == [4]
    frame = frames[4]
    assert list(frame.columns) == list(COLUMNS)
    assert all(frame.dtypes[name] == "int64" for name in COLUMNS if name not in ("cat", "name"))
    frame = frame.set_index("name")
    assert frame["cat"].to_list() == [
        *("user_annotation", "cuda_runtime", "cuda_runtime", "kernel", "kernel", "gpu_user_annotation", "cpu_op")
    ]
    gemm, lost = frame.loc["gemm"], frame.loc["lost"]
    assert gemm[["pid", "tid", "stream", "ts", "dur", "end"]].to_list() == [0, 3, 3, 10, 2, 12]
    assert lost[["pid", "tid", "stream"]].to_list() == [1, 0, 0]
    assert (lost["correlation"], lost["index_correlation"], lost["iteration"]) == (6, 0, -1)
    assert gemm["iteration"] == 7
    calls = frame.loc["hipLaunchKernel"]
    assert calls["index_correlation"].to_list() == [gemm["index"], 0], "the call of another process is no partner"
    assert calls["dur"].to_list() == [0, 0], "within one microsecond"
    assert frame.loc["aten::mm", "ts"] == 2**60 // 1000 + 1


def test_sources_without_a_rank_get_the_next_number() -> None:
    trace = ktrace.read([TRACE, SAMPLES / "nsys/schema-2.9-calls-twice-mpi-as-a-domain.sqlite"])
    frames = trace.to_hta()
    assert list(frames) == [0, 1]
    assert (frames[0]["name"] == "ProfilerStep#3").any()
    assert not (frames[1]["name"] == "ProfilerStep#3").any()
    assert list(made().to_hta()) == [0]


def test_a_trace_of_tables_has_no_rows_for_hta() -> None:
    frames = ktrace.read(SAMPLES / "mlc/two-dialects-and-a-peak-that-disagrees.md").to_hta()
    assert all(isinstance(frame, pd.DataFrame) and frame.empty for frame in frames.values())
