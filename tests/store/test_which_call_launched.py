"""Which call launched which work where correlation ids are reused: after a restart, a wrap, or by each thread."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from idle_traces import Row, host, work, written

import ktrace

#: Calls of a kernel each, besides which there are calls without work that take numbers, too.
LAUNCHES = 400

#: How ids are reused.
REUSED = ("never", "restart", "wrap", "threads")


def rows(how: str, seed: int, lost: float = 0.0) -> list[Row]:
    """Two threads in turn, or one, each with its stream; kernels have their launch's number as name."""
    chance, found = random.Random(seed), list[Row]()
    threads = (1, 2) if how == "threads" else (1,)
    now, count, free = dict.fromkeys(threads, 1_000_000), dict.fromkeys(threads, 0), dict.fromkeys(threads, 0)
    for number in range(LAUNCHES):
        thread = min(threads, key=now.__getitem__)
        if how == "restart" and number in (LAUNCHES // 3, 2 * LAUNCHES // 3):
            count[thread] = 0
        for name in (*["cudaEventRecord"] * (chance.random() < 0.4), "cudaLaunchKernel"):
            count[thread] = count[thread] % (64 if how == "wrap" else LAUNCHES * 2) + 1
            begin, took = now[thread], chance.randint(1_500, 6_000)
            now[thread] += took + chance.randint(100, 2_000)
            found.append(host(name, begin, begin + took, count[thread], tid=thread))
        begin = max(begin + took + chance.randint(1_000, 4_000), free[thread] + 1_000)
        free[thread] = begin + chance.randint(5_000, 60_000)
        if chance.random() >= lost:
            name = f"kernel_{number}"
            found.append(work(name, begin, free[thread], count[thread], stream=6 + thread))
        now[thread] += chance.randint(10_000, 45_000)
    return found


def truth(rows: list[Row]) -> dict[str, int]:
    """The begin of the launch before each kernel, after the first row's."""
    found, begin, start = {}, 0, rows[0]["ts"]
    for row in rows:
        if row["kind"] == "kernel":
            found[row["name"]] = begin
        elif row["name"] == "cudaLaunchKernel":
            begin = row["ts"] - start
    return found


def arrows(path: Path) -> dict[str, int]:
    """The begin of the call from which an arrow leads to each kernel, in a timeline that ktrace wrote."""
    document = path.with_suffix(".chrome.json")
    ktrace.convert(path, document, to="chrome")
    events = json.loads(document.read_text("utf-8"))["traceEvents"]
    begins = {one["id"]: one["ts"] for one in events if one["ph"] == "s"}
    ends = {(one["pid"], one["tid"], one["ts"]): begins[one["id"]] for one in events if one["ph"] == "f"}
    slices = ((one["name"], ends.get((one["pid"], one["tid"], one["ts"]))) for one in events if one["ph"] == "X")
    return {name: round(1000 * ts) for name, ts in slices if name.startswith("kernel_") and ts is not None}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("how", REUSED)
def test_reused_ids_are_told_apart_by_time(how: str, seed: int, tmp_path: Path) -> None:
    run = rows(how, seed)
    path = written(tmp_path / "run.jsonl", run)
    summary, known, right = ktrace.summary(path), arrows(path), truth(run)
    assert not [one.code for one in summary.findings if one.code == "check.launches_lost"]
    wrong = sum(right[name] != ts for name, ts in known.items())
    assert wrong == 0 if how != "threads" else wrong <= 0.01 * LAUNCHES
    assert len(known) >= {"never": 1.0, "restart": 1.0, "wrap": 0.9, "threads": 0.4}[how] * LAUNCHES
    said = [note for note in summary.notes if "of several calls of their process" in note]
    rest = LAUNCHES - len(known)
    assert [note.split()[1] for note in said] == ([str(rest)] if rest else [])
    assert not any("Work may be lost" in note for note in summary.notes)


@pytest.mark.parametrize("how", ["never", "restart", "wrap"])
def test_lost_kernels_are_told_all_the_same(how: str, tmp_path: Path) -> None:
    run = rows(how, 1, lost=0.2)
    path = written(tmp_path / "run.jsonl", run)
    (lost,) = (one for one in ktrace.summary(path).findings if one.code == "check.launches_lost")
    assert abs(lost.value - (LAUNCHES - len(truth(run)))) <= 0.05 * LAUNCHES


def test_calls_within_one_another_are_one_launch(tmp_path: Path) -> None:
    """The graph's kernels are all of the outer call, though a call of the driver has the same id."""
    calls = [host("hipGraphLaunch", 1_000, 9_000, 5), host("hsa_queue_write", 2_000, 3_000, 5)]
    run = [*calls, *(work(f"kernel_{n}", 10_000 * n, 10_000 * n + 5_000, 5) for n in range(1, 4))]
    assert set(arrows(written(tmp_path / "run.jsonl", run)).values()) == {0}
