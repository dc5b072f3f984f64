"""The path in samples and real traces: no holes, the figures of HTA, and how the command and the slices show it."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from conftest import SAMPLES, SHARED
from nightly import few, is_small
from path_timelines import Timeline, pieces
from real_traces import OF_SEVERAL_TOOLS, at_hand

import ktrace
from ktrace.analysis.questions import idle
from ktrace.analysis.questions.critical_path import CriticalPathAnswer
from ktrace.analysis.questions.critical_path.device import asof_join
from ktrace.analysis.questions.critical_path.host_threads import covered, segments
from ktrace.analysis.questions.critical_path.path import slices
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.gather import WorkInput
from ktrace.analysis.work.question import Labels
from ktrace.analysis.work.stored_columns import by_source
from ktrace.cli import cli
from ktrace.naming.taxonomy import taxonomy
from ktrace.pipeline.read import read_batches
from ktrace.report import Report
from ktrace.store import SPILL_BYTES, Spill

Explain = Callable[[Work, Labels], Iterator[pa.RecordBatch]]

TRAINING = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def answer_of(path: Path) -> CriticalPathAnswer:
    found = ktrace.summary(at_hand(path), by=["critical-path"]).answers["critical-path"]
    assert isinstance(found, CriticalPathAnswer)
    return found


@pytest.mark.parametrize("path", OF_SEVERAL_TOOLS, ids=lambda path: path.name[:24])
def test_the_pieces_are_the_time_of_the_steps_to_the_ns(path: Path) -> None:
    answer = answer_of(path)
    assert answer.path is not None and answer.steps
    frame = answer.path.to_pandas()
    frame["end"] = frame.ts + frame.dur
    assert (frame.dur > 0).all()
    for step, rows in frame.groupby("step", observed=True):
        told = next(one for one in answer.steps if one.label == step)
        assert told.wall == rows.dur.sum() == rows.end.max() - rows.ts.min()
        assert (rows.ts.to_numpy()[1:] == rows.end.to_numpy()[:-1]).all()
        assert told.times == rows.groupby("kind", observed=True).dur.sum().to_dict()
    assert {one.key: (one.time, one.pieces) for one in answer.kinds} == {
        kind: (rows.dur.sum(), len(rows)) for kind, rows in frame.groupby("kind", observed=True)
    }
    for one in answer.names:
        mine = frame[(frame.name == one.key) & (frame.kind == one.kind)]
        assert (one.time, one.pieces) == (mine.dur.sum(), len(mine))
        assert one.total is None or one.total >= one.time


def test_the_training_step() -> None:
    """Times read off the sample: launches decide until the attention's backward kernel, then its stream does."""
    answer = answer_of(TRAINING)
    assert (answer.wall, answer.count) == (1_004_928, 1)
    work = [one for one in pieces(answer) if one[2] in ("kernel", "collective", "copy", "dependency")]
    assert [(begin, end) for begin, end, _, _ in work] == [
        (650_220, 778_475),
        (779_531, 845_962),
        (845_962, 945_481),  # the optimizer waits for the second all_reduce, without an event in the trace
        (947_681, 1_088_928),
    ]
    assert work[2][3] == "while ncclDevKernel_AllReduce_Sum_bf16_RING_LL ran"
    assert pieces(answer)[-2][1:] == (1_095_228, "API call", "cudaDeviceSynchronize")
    by_operation = {one.key: (one.time, one.total) for one in answer.operations}
    assert by_operation["attention"] == (128_255, 71_391 + 128_255)
    assert by_operation["collective"] == (0, 118_687 + 97_119)


def test_where_a_launch_decides_and_hta_says_the_work_before() -> None:
    """HTA 0.5 of 2025: 124 us in 2 kernels, 15 us between them. The call returned 1 us before the second one began.

    It began when the first one, a memset of 1 us, ended: so it decided, as `--by idle` says of this gap.
    """
    path = SHARED / "corpus/pytorch_kineto/event_sync_trace.json.gz"
    answer = answer_of(path)
    found = pieces(answer)
    times = {one.key: (one.time, one.pieces) for one in answer.kinds}
    assert times["kernel"] == (123_000, 1) and times["launch delay"] == (1_000, 1)
    launch = next(number for number, one in enumerate(found) if one[2] == "launch delay")
    assert found[launch][1] - found[launch - 1][0] == 15_000 and found[launch - 1][3] == "cudaLaunchKernel"
    assert found[-1][3] == "cudaDeviceSynchronize"


def rows_of(path: Path, explained: Explain = slices) -> list[dict[str, Any]]:
    """The slices of the path in a trace, or of another answer."""
    spill, report = Spill(SPILL_BYTES), Report()
    try:
        gathered = WorkInput(taxonomy(None), spill, spans=True)
        for batch in by_source(read_batches([str(path)], report)):
            gathered.collect_host(batch)
            gathered.collect_work(batch)
        work = Work.of_devices(gathered)
        labels = Labels(gathered.catalog, {(one["source"], one["host"], one["device"]) for one in work.shapes})
        return [row for batch in explained(work, labels) for row in batch.to_pylist()]
    finally:
        spill.close()


#: What the path may call a delay in a gap of this cause, before the same work.
NAMES = {
    **{cause: {cause} for cause in ("dependency", "unknown", "queued before the recording", "between graph nodes")},
    "launch overhead": {"launch overhead", "launch delay"},
    "host late": {"launch delay"},  # the rest of the gap is what the host did
    "host synchronised": {"launch delay"},
}
BOTH = [
    *OF_SEVERAL_TOOLS,
    *(SHARED / f"corpus/pytorch_kineto/{name}" for name in ("graph_execution.json.gz", "gpu_only_trace.json.gz")),
    SHARED / "corpus/pytorch_kineto/sglang_Qwen3-8B_decode.json.gz",
    SHARED / "corpus/pytorch_kineto/mtia_inference_rank_0.json.gz",
    SHARED / "corpus/pytorch_kineto/worker0.1623143089861.pt.trace.json.gz",
]


@pytest.mark.parametrize("path", few(BOTH, is_small), ids=lambda path: path.name[:24])
def test_a_gap_has_the_same_cause_as_the_delay_on_the_path(path: Path) -> None:
    gaps: dict[tuple[object, object], list[dict[str, Any]]] = {}
    for gap in sorted(rows_of(at_hand(path), lambda work, _: idle.slices(work)), key=lambda one: one["ts"]):
        gaps.setdefault((gap["source"], gap.get("device")), []).append(gap)
    for delay in (one for one in rows_of(path) if one["args.path_kind"] in set().union(*NAMES.values())):
        mine = gaps.get((delay["source"], delay.get("args.work_device")), [])
        end = delay["ts"] + delay["dur"]
        for gap in mine[max(bisect_right(mine, delay["ts"], key=lambda one: one["ts"]) - 1, 0) :]:
            if gap["ts"] >= end:
                break
            if gap["ts"] + gap["dur"] == end:
                assert delay["args.path_kind"] in NAMES[gap["args.cause"]], (gap, delay)
            elif gap["ts"] + gap["dur"] > delay["ts"]:  # other work ended this gap, while that of the delay waited
                assert delay["args.path_kind"] in {"dependency", *NAMES[gap["args.cause"]]}, (gap, delay)


def test_the_slices_are_the_pieces() -> None:
    rows = rows_of(TRAINING)
    told = [(row["ts"], row["ts"] + row["dur"], row["args.path_kind"], row["name"]) for row in rows]
    found = pieces(answer_of(TRAINING))
    assert told == found
    assert {row["track"] for row in rows} == {"critical path"} and {row["kind"] for row in rows} == {"range"}
    assert {row["args.step"] for row in rows} == {"ProfilerStep#3"}
    last = [row for row in rows if row["args.path_kind"] == "kernel"][-1]
    assert (last["args.work_stream"], last["args.work_device"], last["args.thread"]) == (7, 0, None)
    assert str(last["args.work"]).startswith("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<")
    assert {row["args.thread"] for row in rows if row["args.path_kind"] == "API call"} == {4242, 4300}


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    for more in ([], ["-o", str(path)]):
        done = CliRunner().invoke(cli, ["summary", str(TRAINING), "--by", "critical-path", *more], prog_name="ktrace")
        assert done.exit_code == 0, done.output
        assert more or ("critical path of 1 step" in done.stdout and "critical path by operation" in done.stdout)
    tables = json.loads(path.read_text())["tables"]
    kinds = {row["kind"]: row["time_ns"] for row in tables["critical_path"]}
    assert kinds.pop("step") == sum(kinds.values()) == 1_004_928
    assert {"critical_path_steps", "critical_path_by_operation", "critical_path_by_name"} <= tables.keys()


def test_several_sources_are_added(tmp_path: Path) -> None:
    paths = []
    for number, end in enumerate((10_000, 12_000)):
        line = Timeline()
        line.step(1, 0, end)
        line.host("api", "cudaLaunchKernel", 0, 100, corr=1)
        line.work("gemm", 200, 9_000, 7, 1)
        line.host("api", "cudaDeviceSynchronize", 300, end)
        folder = tmp_path / str(number)
        folder.mkdir()
        line.answer(folder)
        paths.append(folder / "run.jsonl")
    answer = ktrace.summary(paths, by=["critical-path"]).answers["critical-path"]
    assert isinstance(answer, CriticalPathAnswer)
    assert [(step.label, step.count, step.wall) for step in answer.steps] == [("ProfilerStep#1", 2, 22_000)]
    assert [(one.key, one.time, one.total) for one in answer.operations] == [("gemm", 17_600, 17_600)]


def test_segments_of_random_slices() -> None:
    """Each ns has the innermost slice: the one that began last, and of those the shortest."""
    chance = np.random.default_rng(3)
    begin, thread = chance.integers(0, 60, 80), chance.integers(0, 3, 80).astype(np.int32)
    end = begin + chance.integers(0, 25, 80)
    found = segments(thread, begin, end)
    for number in range(3):
        mine = np.flatnonzero((thread == number) & (end > begin))
        for at in range(begin[mine].min(), end[mine].max()):
            rows = np.flatnonzero((found.thread == number) & (found.begin <= at) & (found.end > at))
            assert len(rows) == 1
            row = found.row[rows[0]]
            open_ = [one for one in mine if begin[one] <= at < end[one]]
            assert (row >= 0) == bool(open_)
            if open_:
                best = max(open_, key=lambda one: (begin[one], -end[one]))
                assert (begin[row], end[row], thread[row]) == (begin[best], end[best], number)


def test_latest_and_covered() -> None:
    chance = np.random.default_rng(4)
    group, time = chance.integers(0, 5, 50), chance.integers(0, 100, 50)
    wanted, until = chance.integers(0, 6, 70), chance.integers(-5, 110, 70)
    for one, place in enumerate(asof_join(group, time, wanted, until).tolist()):
        before = [number for number in range(50) if group[number] == wanted[one] and time[number] <= until[one]]
        assert place == max(before, key=lambda number: (time[number], number), default=-1)
    begin, end = np.array([3, 10, 20]), np.array([5, 18, 21])
    for at in range(25):
        inside = sum(begin[number] <= one < end[number] for number in range(3) for one in range(at))
        assert covered(begin, end, np.array([at])).tolist() == [inside]
