"""`ktrace diff --why`: the parts of the time of devices add up to it, and what was changed is named with its share."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import SAMPLES
from real_traces import OF_SEVERAL_TOOLS, at_hand

import ktrace
from ktrace.analysis.questions.breakdown import BreakdownAnswer
from ktrace.cli import cli

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"


def breakdown(path: Path) -> tuple[ktrace.Summary, BreakdownAnswer]:
    summary = ktrace.summary(path, by=["breakdown", "step"])
    answer = summary.answers["breakdown"]
    assert isinstance(answer, BreakdownAnswer)
    return summary, answer


def kind(key: str) -> str:
    return key.partition(":")[0]


@pytest.mark.parametrize("path", OF_SEVERAL_TOOLS, ids=lambda path: path.name[:24])
def test_parts_are_the_time_of_devices_to_the_ns(path: Path) -> None:
    """Of each step, where there are steps, else of the recording; and by role they are what `DeviceUse` has."""
    summary, answer = breakdown(at_hand(path))
    assert answer.whole == sum(one.total for one in answer.parts)
    if summary.step_use:
        times = np.sum([one.steps for one in answer.parts if one.steps is not None], axis=0)
        assert times.tolist() == [use.span for use in summary.step_use]
        return
    for name in ("exposed communication", "exposed copies", "compute"):
        parts = sum(one.total for one in answer.parts if kind(one.key) == name)
        assert parts == sum(getattr(use, name.replace(" ", "_")) for use in summary.devices)
    inside = sum(one.total for one in answer.parts if kind(one.key) == "idle" and "the first" not in one.key)
    after = sum(one.total for one in answer.parts if one.key == "idle: after the last work")
    assert inside - after == sum(use.idle for use in summary.devices)


def _role(name: str) -> int:
    """0 of compute, 1 of communication, 2 of copies."""
    return 1 if "nccl" in name else 2 if name.startswith("Memcpy") else 0


def test_each_instant_counts_once_by_plain_arithmetic() -> None:
    """Of the sample, whose step is swept ns range by ns range: kernel that began first, collective, copy, nothing."""
    events = [one for one in json.loads(STEP.read_text())["traceEvents"] if one.get("ph") == "X"]
    ns = lambda us: round(us * 1000)  # noqa: E731
    step = next(one for one in events if one["name"].startswith("ProfilerStep#") and one["cat"] == "user_annotation")
    begin, end = ns(step["ts"]), ns(step["ts"] + step["dur"])
    work = [
        (
            ns(one["ts"]),
            ns(one["ts"] + one["dur"]),
            1 if "nccl" in one["name"] else 2 if "mem" in one["cat"] else 0,
            one["name"],
        )
        for one in events
        if one["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    bounds = sorted({begin, end, *(time for one in work for time in one[:2] if begin < time < end)})
    swept = {"compute": 0, "exposed communication": 0, "exposed copies": 0, "idle": 0}
    gemm = 0
    for low, high in pairwise(bounds):
        running = sorted((role, ts, name) for ts, stop, role, name in work if ts <= low < stop)
        swept[list(swept)[running[0][0] if running else 3]] += high - low
        gemm += (high - low) * (bool(running) and running[0][0] == 0 and "gemm" in running[0][2])
    _, answer = breakdown(STEP)
    parts: dict[str, int] = {}
    for one in answer.parts:
        parts[kind(one.key)] = parts.get(kind(one.key), 0) + int(one.total)
    assert parts == swept
    assert next(one.total for one in answer.parts if one.key == "compute: gemm") == gemm


def changed(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The sample with each event changed."""
    document = json.loads(STEP.read_text())
    for event in document["traceEvents"]:
        change(event)
    path = tmp_path / "b.pt.trace.json"
    path.write_text(json.dumps(document))
    return path


def test_what_changed_is_named_with_its_share(tmp_path: Path) -> None:
    """The last kernels of the step take longer, so that nothing else moves: their part is all of the change."""

    def slower(event: dict[str, Any]) -> None:
        if event.get("cat") == "kernel" and "multi_tensor_apply" in event["name"]:
            event["dur"] = round(event["dur"] + 500, 3)

    b = changed(tmp_path, slower)
    result = CliRunner().invoke(cli, ["diff", str(STEP), str(b), "--why"], catch_exceptions=False)
    said = " ".join(result.output.split())
    assert "compute: optimizer +500 us" in said
    diff = ktrace.diff(STEP, b, by=["breakdown"])
    assert sum(one.delta for one in diff.rows["breakdown"]) == diff.measure("span").delta  # type: ignore[union-attr]


def test_parts_have_the_words_of_the_tables_of_idle_time() -> None:
    """People read `launch latency` of gaps everywhere; keys for programs stay."""
    arguments = ["summary", str(STEP), "--by", "breakdown"]
    forms: tuple[list[str], ...] = ([], ["--format", "json"])
    text, document = (CliRunner().invoke(cli, [*arguments, *form], catch_exceptions=False).output for form in forms)
    assert "idle: launch latency" in text and "idle: launch overhead" not in text
    assert '"idle: launch overhead"' in document and '"idle: launch latency"' not in document


def test_nothing_is_named_where_nothing_changed() -> None:
    diff = ktrace.diff(STEP, STEP, by=["breakdown"])
    assert diff.verdict[1] == "No part of the device time a step changed beyond noise."
    assert not any(one.delta for one in diff.rows["breakdown"])


def test_a_host_that_is_late_is_divided_by_what_it_was_in(tmp_path: Path) -> None:
    """A call that allocates where the host was between calls takes that time out of the launch-bound part."""
    before = {one.key: one.total for one in breakdown(STEP)[1].parts}

    def named(event: dict[str, Any]) -> None:
        if event.get("cat") == "cpu_op":
            event["name"] = "compile_inner (dynamo_timed) " + event["name"]

    after = {one.key: one.total for one in breakdown(changed(tmp_path, named))[1].parts}
    assert "idle: compilation" not in before
    moved = after["idle: compilation"]
    assert moved > 0 and after.get("idle: launch-bound", 0) + moved == before["idle: launch-bound"]
    others = {key: time for key, time in before.items() if key != "idle: launch-bound"}
    assert {key: after[key] for key in others} == others


def test_without_device_work_there_is_no_breakdown(tmp_path: Path) -> None:
    document = json.loads(STEP.read_text())
    document["traceEvents"] = [one for one in document["traceEvents"] if one.get("cat") == "cpu_op"]
    path = tmp_path / "host.pt.trace.json"
    path.write_text(json.dumps(document))
    assert "breakdown" not in ktrace.summary(path, by=["breakdown"]).answers


WAITING, TRANSFER = (f"exposed communication: {part}" for part in ("waiting for other ranks", "transfer"))


def of_ranks(paths: list[Path]) -> tuple[dict[str, float], ktrace.Summary]:
    summary = ktrace.summary([str(path) for path in paths], by=["breakdown", "collective"])
    answer = summary.answers["breakdown"]
    assert isinstance(answer, BreakdownAnswer)
    assert answer.whole == sum(one.total for one in answer.parts)
    return {one.key: one.total for one in answer.parts}, summary


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
    args |= {"device": 0, "stream": 7} if cat == "kernel" else {}
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": args} | place


ALL_REDUCE = {"Collective name": "allreduce", "Process Group Name": "0", "In msg nelems": 1024, "dtype": "Float"}


def step_of(rank: int, step: int, late: float) -> list[dict[str, Any]]:
    """A gemm, which takes longer by `late` us on rank 1, and an all-reduce of 100 us, in which rank 0 waits so long."""
    at, ends = 1_000.0 * step, 1_000.0 * step + 310 + late * rank
    first, second = {"correlation": 2 * step + 1}, {"correlation": 2 * step + 2}
    return [
        event("user_annotation", f"ProfilerStep#{step}", at, 1_000),
        event("cuda_runtime", "cudaLaunchKernel", at + 1, 2, **first),
        event("cuda_runtime", "cudaLaunchKernel", at + 4, 2, **second),
        event("kernel", "ampere_sgemm_128x64", at + 10, 300 + late * rank, **first),
        event("kernel", "ncclDevKernel_AllReduce_Sum_f32", ends, 100 + late * (1 - rank), **second, **ALL_REDUCE),
    ]


def job(folder: Path, late: float) -> Path:
    """Two ranks with four such steps each, on one clock."""
    folder.mkdir()
    for rank in range(2):
        document = {
            "schemaVersion": 1,
            "baseTimeNanoseconds": 1_700_000_000_000_000_000,
            "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}],
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
            "traceEvents": [one for step in range(4) for one in step_of(rank, step, late)],
        }
        (folder / f"rank{rank}.pt.trace.json").write_text(json.dumps(document))
    return folder


def test_exposed_communication_of_ranks_is_waiting_and_transfer(tmp_path: Path) -> None:
    """Rank 1 is late by 250 us in each of four steps: rank 0 waits so long; both transfer for 100 us."""
    parts, _ = of_ranks([*sorted(job(tmp_path / "late", 250).iterdir())])
    assert parts[WAITING] == 4 * 250_000 and parts[TRANSFER] == 2 * 4 * 100_000
    assert "exposed communication" not in parts
    parts, _ = of_ranks([*sorted(job(tmp_path / "even", 0).iterdir())])
    assert WAITING not in parts and parts[TRANSFER] == 2 * 4 * 100_000


def test_waiting_of_ranks_is_what_collectives_say(tmp_path: Path) -> None:
    """Nothing hides the collectives of these ranks, so that waiting is that of `--by collective`."""
    parts, summary = of_ranks([*sorted(job(tmp_path / "late", 250).iterdir())])
    ranks = summary.answers["collective"].ranks  # type: ignore[attr-defined]
    assert parts[WAITING] == sum(one.waited.total for one in ranks if one.waited)


def test_one_rank_alone_has_communication_undivided(tmp_path: Path) -> None:
    late = job(tmp_path / "late", 250)
    parts, _ = of_ranks([late / "rank0.pt.trace.json"])
    assert parts["exposed communication"] == 4 * 350_000
    assert not parts.keys() & {WAITING, TRANSFER}


def test_a_late_rank_is_why_a_step_takes_longer(tmp_path: Path) -> None:
    """Half of the change is the late rank's own work, half the wait for it on the other one; transfer is none of it."""
    a, b = job(tmp_path / "a", 0), job(tmp_path / "b", 250)
    diff = ktrace.diff(a, b, by=["breakdown"])
    changes = {one.key: one.delta for one in diff.rows["breakdown"]}
    assert changes[WAITING] == changes["compute: gemm"] == 250_000 and changes[TRANSFER] == 0


def test_sides_that_differ_in_what_is_known_are_compared_undivided(tmp_path: Path) -> None:
    a, b = job(tmp_path / "a", 0), job(tmp_path / "b", 250)
    diff = ktrace.diff(a / "rank0.pt.trace.json", b, by=["breakdown"])
    keys = [one.key for one in diff.rows["breakdown"]]
    assert keys.count("exposed communication") == 1 and not {WAITING, TRANSFER} & {*keys}
