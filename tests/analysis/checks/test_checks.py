"""Checks of recordings: each is planted in generated runs, and must be said; in sound ones nothing may be."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ROOT, SAMPLES
from idle_traces import Row, host, work, written

import ktrace
from ktrace.analysis.answers.summary.screen import screen
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.checks import CHECKS, check_of, sentence
from ktrace.cli import cli
from ktrace.pipeline.info import NOT_MADE

SEEDS = range(15)

Plant = Callable[[random.Random, list[Row]], list[Row]]


def sound(rng: random.Random, steps: int = 5, kernels: int = 12) -> list[Row]:
    """A run in steps, each of which ends in a synchronisation; the device is 2 to 6 us behind its calls."""
    rows: list[Row] = []
    now, done, correlation = rng.randrange(10**12), 0, 0
    for step in range(steps):
        begin = now
        for _ in range(kernels):
            correlation += 1
            call = rng.randrange(2_000, 6_000)
            rows.append(host("cudaLaunchKernel", now, now + call, correlation))
            start = max(done, now + call + rng.randrange(2_000, 6_000))
            done = start + rng.randrange(5_000, 400_000) * 1 + rng.randrange(0, 999)
            rows.append(work(rng.choice(["gemm_bf16", "softmax", "layer_norm"]), start, done, correlation))
            now += call + rng.randrange(500, 3_000)
        rows.append(host("cudaDeviceSynchronize", now, done + 3_000))
        now = done + 5_000
        rows.append(host(f"ProfilerStep#{step}", begin, now, kind="range"))
    return rows


def _kernels(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["kind"] == "kernel"]


def _clocks_apart(rng: random.Random, rows: list[Row]) -> list[Row]:
    for row in _kernels(rows):
        row["ts"] -= rng.randrange(13_000, 14_000)
    return rows


def _durations_too_long(rng: random.Random, rows: list[Row]) -> list[Row]:
    for row in rng.sample(_kernels(rows), 6):
        row["dur"] *= 1_000
    return rows


def _one_stream_for_two(rng: random.Random, rows: list[Row]) -> list[Row]:
    some = rng.sample(_kernels(rows), 10)
    return [*rows, *({**row, "ts": row["ts"] + 1, "correlation": None} for row in some if row["dur"] > 10_000)]


def _times_not_set(rng: random.Random, rows: list[Row]) -> list[Row]:
    for row in rng.sample(_kernels(rows), 3):
        row["ts"], row["dur"] = rng.choice(((0, 0), (-1, 0), (-1000, 0)))
    return [{**row, "ts": row["ts"] + (10**12 if row["ts"] > 0 else 0)} for row in rows]


def _kernels_lost(rng: random.Random, rows: list[Row]) -> list[Row]:
    lost = [row["correlation"] for row in rng.sample(_kernels(rows)[:-1], 12)]
    return [row for row in rows if row["kind"] != "kernel" or row["correlation"] not in lost]


def _device_not_recorded(rng: random.Random, rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["kind"] != "kernel"]


def _whole_graphs(rng: random.Random, rows: list[Row]) -> list[Row]:
    for row in rng.sample(_kernels(rows), 20):
        row |= {"kind": "graph", "name": "CUDA graph 4"}
    return rows


def _two_runs(rng: random.Random, rows: list[Row]) -> list[Row]:
    later = rng.randrange(3_600, 10**6) * 10**9
    return [*rows, *({**row, "ts": row["ts"] + later, "correlation": None} for row in rows)]


def _hardly_any(rng: random.Random, rows: list[Row]) -> list[Row]:
    first = _kernels(rows)[0]
    span = host("warm_up", first["ts"] - 10**9, first["ts"] + 10**9, kind="range")
    return [span, first | {"dur": rng.randrange(1_000, 90_000)}]


def _coarse(rng: random.Random, rows: list[Row]) -> list[Row]:
    for row in _kernels(rows):
        row["dur"] = -(-row["dur"] // 65_536) * 65_536
    return rows


def _coarse_clock(rng: random.Random, rows: list[Row]) -> list[Row]:
    """Begins and ends are multiples, so that hardly any durations differ."""
    for row in _kernels(rows):
        begin, end = (at // 65_536 * 65_536 for at in (row["ts"], row["ts"] + min(row["dur"], 90_000)))
        row["ts"], row["dur"] = begin, end - begin
    return rows


def _durations_too_short(rng: random.Random, rows: list[Row]) -> list[Row]:
    for row in _kernels(rows):
        row["dur"] //= 1_000
    return rows


def _work_and_calls_lost(rng: random.Random, rows: list[Row]) -> list[Row]:
    """Of all steps but the first and the last only the synchronisation is there."""
    lost = {row["correlation"] for row in _kernels(rows)[12:-12]}
    return [row for row in rows if row.get("correlation") not in lost]


def _two_steps_lost(rng: random.Random, rows: list[Row]) -> list[Row]:
    """As above, of two steps of five, so that most of the waiting is for work that is there."""
    lost = {row["correlation"] for row in _kernels(rows)[24:48]}
    return [row for row in rows if row.get("correlation") not in lost]


def _rounded_to_a_clock(rng: random.Random, rows: list[Row]) -> list[Row]:
    """A clock of 100 us, by which kernels of a name take none, one or two of these."""
    for row in _kernels(rows):
        begin, end = (at // 100_000 * 100_000 for at in (row["ts"], row["ts"] + min(row["dur"], 90_000)))
        row["ts"], row["dur"] = begin, end - begin
    return rows


def _open_range(rng: random.Random, rows: list[Row]) -> list[Row]:
    """Two runs, and a range of the program that stays open throughout."""
    rows = _again(rows, rng.randrange(10, 10**4) * 10**9, steps=100)
    first, last = min(row["ts"] for row in rows), max(row["ts"] + row["dur"] for row in rows)
    return [*rows, host("main", first - 1_000, last + 1_000, kind="range")]


def _end_of_the_device_lost(rng: random.Random, rows: list[Row]) -> list[Row]:
    """The host waited for all, and the device's records end early."""
    lost = {row["correlation"] for row in _kernels(rows)[rng.randrange(20, 50) :]}
    return [row for row in rows if row["kind"] != "kernel" or row["correlation"] not in lost]


def _begins_as_durations(rng: random.Random, rows: list[Row]) -> list[Row]:
    """Times count from the start of the recording, as Kineto's do."""
    first = min(row["ts"] for row in rows)
    for row in rows:
        row["ts"] -= first
    for row in [row for row in _kernels(rows) if row["ts"] > 1_000_000][: rng.randrange(3, 9)]:
        row["dur"] = row["ts"]
    return rows


def _begin_as_duration(rng: random.Random, rows: list[Row]) -> list[Row]:
    for row in rows:
        row["ts"] += 10**12
    for row in rng.sample(_kernels(rows), 3):
        row["dur"] = row["ts"]
    return rows


def _host_bound(rng: random.Random, by: int) -> list[Row]:
    """Kernels that are shorter than the time between launches, without a synchronisation, on a clock that is late."""
    rows: list[Row] = []
    now, done = rng.randrange(10**12), 0
    for number in range(1, 61):
        call = rng.randrange(2_000, 6_000)
        rows.append(host("cudaLaunchKernel", now, now + call, number))
        start = max(done, now + call + rng.randrange(2_000, 6_000))
        done = start + rng.randrange(5_000, 20_000)
        rows.append(work("gemm_bf16", start + by, done + by, number))
        now += rng.randrange(30_000, 60_000)
    return rows


def _late_clock(rng: random.Random, _: list[Row]) -> list[Row]:
    return _host_bound(rng, rng.randrange(150_000, 10_000_000))


#: The check -> what makes it fail.
PLANTED: dict[str, Plant] = {
    "cause_after_effect": _clocks_apart,
    "work_outlasts_wait": _durations_too_long,
    "stream_overlaps": _one_stream_for_two,
    "time_not_set": _times_not_set,
    "launches_lost": _kernels_lost,
    "graphs_whole": _whole_graphs,
    "runs_apart": _two_runs,
    "little_recorded": _hardly_any,
    "times_quantised": _coarse,
    "time_as_duration": _begin_as_duration,
    "waits_for_nothing": _durations_too_short,
    "starts_late": _late_clock,
}

#: Other faults that a check finds.
OTHERS: list[tuple[str, Plant]] = [
    ("times_quantised", _coarse_clock),
    ("times_quantised", _rounded_to_a_clock),
    ("waits_for_nothing", _work_and_calls_lost),
    ("waits_for_nothing", _two_steps_lost),
    ("runs_apart", _open_range),
    ("launches_lost", _end_of_the_device_lost),
    ("time_as_duration", _begins_as_durations),
]


def made(folder: Path, rows: list[Row], name: str = "run") -> Summary:
    return ktrace.summary(written(folder / f"{name}.jsonl", rows), by=["idle"])


def failed(summary: Summary) -> set[str]:
    return {one.code.removeprefix("check.") for one in summary.checks}


@pytest.mark.parametrize("factor", [2, 1_000])
def test_durations_that_cannot_be_have_no_heaviest_kernel_where_they_are_most_of_the_time(
    factor: int, tmp_path: Path
) -> None:
    rng = random.Random(5)
    rows = sound(rng)
    for row in sorted(_kernels(rows), key=lambda row: row["dur"])[-6:]:
        row["dur"] *= factor
    summary = made(tmp_path, rows)
    assert ("work_outlasts_wait" in failed(summary)) or factor == 2
    said = any(one.code.startswith(("heaviest", "busy")) for one in summary.findings)
    assert said is (factor == 2)


@pytest.mark.parametrize(("check", "plant"), [*PLANTED.items(), *OTHERS])
def test_a_planted_fault_is_said_and_its_claims_are_not(check: str, plant: Plant, tmp_path: Path) -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        summary = made(tmp_path, plant(rng, sound(rng)), f"run{seed}")
        assert check in failed(summary), (check, seed, failed(summary))
        (found,) = (one for one in summary.checks if one.code == f"check.{check}")
        assert sentence(found) in summary.verdict, "it is said first"
        assert found.document()["remedy"] == check_of(found).remedy
        taken = check_of(found).takes
        assert not [one.code for one in summary.findings if taken and one.code.startswith(taken)]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_wait_that_tells_how_late_the_clock_is_need_not_be_recorded(is_known: bool, tmp_path: Path) -> None:
    rows = _late_clock(random.Random(2), [])
    if is_known:
        begin = max(row["ts"] for row in rows if row["kind"] == "api")
        rows.append(host("cudaDeviceSynchronize", begin + 10_000, begin + 20_000))
    (late,) = (one for one in made(tmp_path, rows).checks if one.code == "check.starts_late")
    assert ("Record a synchronisation" in late.remedy) is not is_known


def test_a_run_without_device_records_has_no_idle_time(tmp_path: Path) -> None:
    rng = random.Random(3)
    summary = made(tmp_path, _device_not_recorded(rng, sound(rng)))
    assert failed(summary) == {"launches_lost"}
    assert summary.verdict[0].startswith("The input has no device work for 60 launches")
    assert not any(note.startswith("There is no device work") for note in summary.notes)


@pytest.mark.parametrize(
    ("launch", "nodes"), [("cudaGraphLaunch", True), ("hipGraphLaunch", False), ("cudaLaunchKernel", False)]
)
def test_most_work_lost_says_of_what_and_has_no_heaviest_kernel(launch: str, nodes: bool, tmp_path: Path) -> None:
    rng = random.Random(4)
    rows = sound(rng)
    kept = {row["correlation"] for row in _kernels(rows)[::4]}
    rows = [row for row in rows if row["kind"] != "kernel" or row["correlation"] in kept]
    for row in rows:
        if row["kind"] == "api" and row.get("correlation") and row["correlation"] not in kept:
            row["name"] = launch
    summary = made(tmp_path, rows)
    (lost,) = (one for one in summary.checks if one.code == "check.launches_lost")
    assert (", all of them of graphs: device" in sentence(lost)) is ("Graph" in launch)
    assert ("--cuda-graph-trace=node" in lost.remedy) is nodes
    assert not any(one.code.startswith(("heaviest", "busy")) for one in summary.findings)


def test_the_input_whose_device_was_not_recorded_is_named(tmp_path: Path) -> None:
    rng = random.Random(4)
    runs = [sound(rng) for _ in range(3)]
    runs[1] = _device_not_recorded(rng, runs[1])
    paths = []
    for number, rows in enumerate(runs):
        paths.append(written(tmp_path / f"rank{number}.jsonl", rows))
        paths[-1].write_text(
            paths[-1].read_text("utf-8").replace('"source": "run"', f'"source": "rank{number}"'), "utf-8"
        )
    (lost,) = (one for one in ktrace.summary(paths).checks if one.code == "check.launches_lost")
    assert sentence(lost).startswith("60 of 180 launches have no kernel, all of them in rank1: device records")


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_work_that_is_there_twice_is_no_overlap(share: float, tmp_path: Path) -> None:
    """A tenth of it among other overlaps is."""
    rng = random.Random(5)
    rows = sound(rng)
    kernels = [row for row in _kernels(rows) if row["dur"] > 10_000]
    rows += [{**row, "ts": row["ts"] + (0 if rng.random() < share else 2_000), "correlation": None} for row in kernels]
    (one,) = (one for one in made(tmp_path, rows).checks if one.code == "check.stream_overlaps")
    assert ("are there twice, with the same times" in sentence(one)) is (share == 1.0)
    assert ("Give each record once" in sentence(one)) is (share == 1.0)


@pytest.mark.parametrize(
    ("overlap", "dur", "said"),
    [
        (900, 4_000, False),
        (3_800, 8_000, False),
        (9_000, 100_000, False),
        (15_000, 100_000, True),
        (12_000, 20_000, True),
        (2_500, 2_000, True),
    ],
)
def test_dependent_launches_overlap_a_little(overlap: int, dur: int, said: bool, tmp_path: Path) -> None:
    """On a B200 a product starts 3.7 us before the one of 104 us before it has ended; none ends before that does."""
    rows: list[Row] = []
    for number in range(12):
        begin = 100_000 + 300_000 * number
        rows += [host("cudaLaunchKernel", begin - 6_000, begin - 3_000, 2 * number + 1)]
        rows += [host("cudaLaunchKernelExC", begin - 3_000, begin - 1_000, 2 * number + 2)]
        rows += [work("gemm", begin, begin + 100_000, 2 * number + 1)]
        rows += [work("finalize", begin + 100_000 - overlap, begin + 100_000 - overlap + dur, 2 * number + 2)]
    assert ("stream_overlaps" in failed(made(tmp_path, rows))) is said


@pytest.mark.parametrize("seed", SEEDS)
def test_sound_runs_fail_no_check(seed: int, tmp_path: Path) -> None:
    assert failed(made(tmp_path, sound(random.Random(seed)))) == set()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clock_is_late_only_where_all_work_is_as_late(seed: int, tmp_path: Path) -> None:
    """Not a host that is late; nor work that waits for what isn't recorded, more and more; nor a single quick start."""
    rng = random.Random(seed)
    assert failed(made(tmp_path, _host_bound(rng, 0))) == set()
    rows = _host_bound(rng, 0)
    for place, row in enumerate(_kernels(rows)):
        row["ts"] += 200_000 * (place + 1)
    assert "starts_late" not in failed(made(tmp_path, rows, "ahead"))
    rows = _host_bound(rng, 2_000_000)
    rows += [host("cudaLaunchKernel", 10**13, 10**13 + 3_000, 99), work("gemm", 10**13 + 6_000, 10**13 + 9_000, 99)]
    assert "starts_late" not in failed(made(tmp_path, rows, "quick"))


_COUNTED = ",".join(
    f'"{name}"'
    for name in (
        *("Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id", "Grid_Size", "Kernel_Id"),
        *("Kernel_Name", "Workgroup_Size", "LDS_Block_Size", "Scratch_Size", "VGPR_Count", "SGPR_Count"),
        *("Counter_Name", "Counter_Value", "Start_Timestamp", "End_Timestamp"),
    )
)


@pytest.mark.parametrize(("counted", "apart", "said"), [(40, 900_000, True), (6, 900_000, False), (40, 2_000, False)])
def test_kernels_that_run_one_by_one_for_counters_tell_nothing_of_idle_time(
    counted: int, apart: int, said: bool, tmp_path: Path
) -> None:
    """Unless they are few, or ran beside each other."""
    times = [(10**9 + number * apart, 10**9 + number * apart + 9_000) for number in range(counted)]
    rows = [
        f'{n},{n},"Agent 1",1,7,7,1024,1,"gemm",64,0,0,16,16,"SQ_WAVES",{n},{begin},{end}'
        for n, (begin, end) in enumerate(times, 1)
    ]
    path = tmp_path / "7_counter_collection.csv"
    path.write_text("\n".join([_COUNTED, *rows]) + "\n", "utf-8")
    summary = ktrace.summary(path, by=["idle"])
    assert ("kernels_serialised" in failed(summary)) is said
    assert any(one.code == "idle" for one in summary.findings) != said
    assert summary.verdict[0].startswith(f"Counters were collected of {counted} kernels") is said


def test_a_clock_that_is_off_makes_no_recording_long(tmp_path: Path) -> None:
    """Three days between host and device are no sign of a warm-up alone."""
    for days in (-3, 3):
        rows = sound(random.Random(1))
        for row in _kernels(rows):
            row["ts"] += days * 86_400_000_000_000
        assert failed(made(tmp_path, rows)) & {"cause_after_effect", "work_outlasts_wait", "little_recorded"} in (
            {"cause_after_effect"},
            {"work_outlasts_wait"},
        )


@pytest.mark.parametrize(("name", "fails"), [("cudaFree", set()), ("read_input", {"little_recorded"})])
def test_what_is_set_up_once_makes_no_recording_long(name: str, fails: set[str], tmp_path: Path) -> None:
    rows = sound(random.Random(1), steps=1)
    first = min(row["ts"] for row in rows)
    assert failed(made(tmp_path, [host(name, first - 6_500_000_000, first - 100_000), *rows])) == fails


def test_captured_launches_are_not_lost(tmp_path: Path) -> None:
    """What a stream captures runs only when its graph is launched."""
    rows = sound(random.Random(1))
    first = min(row["ts"] for row in rows)
    captured = [
        host("cudaLaunchKernel", first - 50_000 + 100 * at, first - 49_950 + 100 * at, 900 + at) for at in range(30)
    ]
    around = [
        host("cudaStreamBeginCapture", first - 60_000, first - 59_000),
        host("cudaStreamEndCapture", first - 9_000, first),
    ]
    assert failed(made(tmp_path, [*rows, *around, *captured])) == set()
    assert failed(made(tmp_path, [*rows, *captured])) == {"launches_lost"}


def _again(rows: list[Row], pause: int, *, pid: int = 1, numbers: int = 1_000, steps: int = 0) -> list[Row]:
    """The rows, and after a pause the same work once more: of a process, with other correlation ids."""
    later = max(row["ts"] + row["dur"] for row in rows) - min(row["ts"] for row in rows) + pause
    again = []
    for row in rows:
        name, correlation = row["name"], row.get("correlation")
        if name.startswith("ProfilerStep#"):
            name = f"ProfilerStep#{int(name.partition('#')[2]) + steps}"
        moved = {"ts": row["ts"] + later, "pid": pid, "name": name}
        again.append({**row, **moved, "correlation": correlation and correlation + numbers})
    return [*rows, *again]


#: What follows a sound run after how many ns -> what tells that it is another run; None where nothing does.
ANOTHER: dict[str, tuple[int, dict[str, int], str | None]] = {
    "far": (10**10, {"steps": 100}, "or one that paused"),
    "other process": (10**8, {"steps": 100, "pid": 2}, "they are of different processes"),
    "steps": (10**8, {}, "step numbers restart"),
    "calls": (10**8, {"steps": 100, "numbers": 0}, "call numbers restart"),
    "a pause": (10**8, {"steps": 5}, None),
    "steps are missing": (10**8, {"steps": 100}, None),
    "short": (10**5, {"pid": 2}, None),
}


@pytest.mark.parametrize("seed", SEEDS[:5])
@pytest.mark.parametrize("name", ANOTHER)
def test_two_runs_in_one_input_blame_nobody(name: str, seed: int, tmp_path: Path) -> None:
    pause, options, words = ANOTHER[name]
    rows = sound(random.Random(seed))
    summary = made(tmp_path, _again(rows, pause, **options))
    assert failed(summary) == ({"runs_apart"} if words else set())
    assert words is None or (words in summary.verdict[0] and "Analyse each run on its own" in summary.verdict[0])
    said = {one.code for one in summary.findings}
    if words:
        assert not said & {"idle", "busy", "outside"} and not any(one.startswith("idle.") for one in said)
    elif pause >= 10**8:
        cause = "idle.unknown" if options["steps"] == 5 else "idle.not_recorded"
        assert cause in said and not any("late launches" in line for line in summary.verdict)


@pytest.mark.parametrize(
    ("parts", "pause", "is_said"), [(3, 10**12, True), (5, 10**12, True), (6, 10**12, False), (3, 10**11, False)]
)
def test_three_to_five_runs_in_one_input_are_said(parts: int, pause: int, is_said: bool, tmp_path: Path) -> None:
    run = [row for row in sound(random.Random(7)) if row["kind"] != "range"]
    numbers = {"ts": pause, "correlation": 1_000}
    rows = [
        row | {name: row[name] + part * each for name, each in numbers.items() if row.get(name) is not None}
        for part in range(parts)
        for row in run
    ]
    summary = made(tmp_path, rows)
    assert failed(summary) == ({"runs_apart"} if is_said else set())
    said = (
        f"has {parts} parts, with pauses of 1,000 s to 1,000 s in which nothing happens: these look like several runs"
    )
    assert any(said in line for line in summary.verdict) is is_said
    assert not is_said or not any(one.code.startswith("idle.") for one in summary.findings)


@pytest.mark.parametrize(("pause", "more"), [(10**12, 0), (10**11, 0), (10**12, 10**12)])
def test_two_runs_on_different_devices_are_said(pause: int, more: int, tmp_path: Path) -> None:
    """No device has a pause then. `more` later, something else is recorded, which makes it three parts."""
    rows = [work("gemm", 20_000 * n, 20_000 * n + 19_000) for n in range(20)]
    rows += [work("gemm", pause + 20_000 * n, pause + 20_000 * n + 19_000, device=1) for n in range(20)]
    rows += [host("a sample", pause + more, pause + more + 10, kind="sample")] * bool(more)
    summary = made(tmp_path, rows)
    is_said = pause == 10**12
    assert failed(summary) == ({"runs_apart"} if is_said else {"little_recorded"})
    said = "has 3 parts" if more else "Nothing happens for 1,000 s between two parts"
    assert (said in summary.verdict[0]) is is_said
    assert ("recorded" in screen(summary).partition("\n\n")[0]) is not is_said


@pytest.mark.parametrize("name", ["ProfilerStep#2", "training"])
def test_a_step_that_lasts_throughout_is_one_run(name: str, tmp_path: Path) -> None:
    rows = [row for row in sound(random.Random(3), steps=1) if row["kind"] != "range"]
    rows = _again(rows, 10**10)
    first, last = min(row["ts"] for row in rows), max(row["ts"] + row["dur"] for row in rows)
    summary = made(tmp_path, [*rows, host(name, first - 1_000, last + 1_000, kind="range")])
    assert failed(summary) == ({"runs_apart"} if name == "training" else set())


@pytest.mark.parametrize(("pieces", "fails"), [(2, {"little_recorded"}), (12, set())])
def test_a_few_pieces_of_work_tell_nothing_of_a_long_recording(pieces: int, fails: set[str], tmp_path: Path) -> None:
    """Two fills that lie far apart in operators of the host; twelve may be all that a program does."""
    rows = [host("aten::mm", 100_000 * at, 100_000 * at + 90_000, kind="op") for at in range(800)]
    for at in range(pieces):
        begin = 10_000_000 + 60_000_000 * at // pieces
        rows += [
            host("cudaMemsetAsync", begin, begin + 4_000, at + 1),
            work("fill", begin + 8_000, begin + 13_000, at + 1),
        ]
    assert failed(made(tmp_path, rows)) == fails


@pytest.mark.parametrize("waits", [40, 4])
def test_short_waits_are_no_sign_of_lost_work(waits: int, tmp_path: Path) -> None:
    """A wait returns some us after the work has ended, in each of many steps, and a long one has work within it."""
    rows, now = list[Row](), 0
    for at in range(600):
        rows += [host("cudaLaunchKernel", now, now + 5_000, at + 1), work("gemm", now + 8_000, now + 12_000, at + 1)]
        rows += [host("cudaDeviceSynchronize", now + 6_000, now + 30_000)]
        now += waits * 1_000
    assert failed(made(tmp_path, rows)) == set()


@pytest.mark.parametrize("step", [100_000, 65_000])
def test_kernels_that_take_whole_multiples_are_not_rounded(step: int, tmp_path: Path) -> None:
    """Times that a person made up: each kernel takes as long in all launches."""
    rows = [
        work(name, 4 * step * at, 4 * step * at + step * many)
        for at in range(20)
        for name, many in (("a", 1), ("b", 2))
    ]
    assert "times_quantised" not in failed(made(tmp_path, rows))


@pytest.mark.parametrize(("name", "kind"), [("aten::save", "op"), ("cudaMalloc", "api"), ("main", "range")])
def test_a_pause_that_the_host_spent_in_something_parts_no_runs(name: str, kind: str, tmp_path: Path) -> None:
    rows = sound(random.Random(3))
    end, pause = max(row["ts"] + row["dur"] for row in rows), 10**10
    rows = [*_again(rows, pause), host(name, end + 1_000, end + pause - 1_000, kind=kind)]
    summary = made(tmp_path, rows)
    assert failed(summary) == set()
    assert any(one.code in ("idle.host_late", "idle.setup") and one.value > 9 * 10**9 for one in summary.findings)


def test_work_at_zero_beside_others_has_a_time(tmp_path: Path) -> None:
    rows = [work("first", 0, 0), work("gemm", 1_000, 5_000), work("gemm", 6_000, 9_000)]
    summary = made(tmp_path, rows)
    assert failed(summary) == set() and summary.span == (0, 9_000) and summary.devices[0].span == 9_000


#: Errors that profilers print: the text, the words that are said.
SAID = (
    (
        '==PROF== Connected to process 7 (/app)\n==PROF== Profiling "k" - 0: 0%....100% - 1 pass\n\n'
        "==ERROR== LaunchFailed\n",
        "LaunchFailed",
    ),
    ("==PROF== Connected to process 7 (/app)\n==ERROR== The driver is too old.\n", "The driver is too old"),
    (
        "==7== NVPROF is profiling process 7, command: ./app\n"
        "==7== Warning: ERR_NVGPUCTRPERM - The user does not have permission.\n"
        "==7== Profiling application: ./app\n==7== Profiling result:\nNo kernels were profiled.\n",
        "ERR_NVGPUCTRPERM",
    ),
)


SAID += (
    (
        '==ERROR== Failed to profile "step" in process 7\n==PROF== Trying to shutdown target application\n',
        "Failed to profile",
    ),
    (
        "==7== NVPROF is profiling process 7, command: ./app\n======== Warning: No profile data collected.\n",
        "No profile data",
    ),
)


@pytest.mark.parametrize(("text", "words"), SAID)
def test_what_the_profiler_reports_is_said_first(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(text, "utf-8")
    summary = ktrace.summary(path)
    assert failed(summary) == {"profiler_failed"} and words in summary.verdict[0]


@pytest.mark.parametrize(("kind", "fails"), [("kernel", {"time_not_set"}), ("range", set())])
def test_work_without_a_time_needs_no_short_recording(kind: str, fails: set[str], tmp_path: Path) -> None:
    """A kernel never takes no time, so that 0 is none 2 s before a run of 1 s; a mark of the host may stand there."""
    rows = sound(random.Random(3))
    least, first = min(row["ts"] for row in rows), 2_000_000_000
    rows = [{**row, "ts": row["ts"] - least + first} for row in rows]
    last = max(row["ts"] + row["dur"] for row in rows)
    rows.append(
        {
            **next(row for row in rows if row["kind"] == "api"),
            "kind": "range",
            "name": "run",
            "ts": first,
            "correlation": 0,
        }
    )
    rows[-1] |= {"dur": max(1_000_000_000, last - first)}
    rows.append({**next(row for row in rows if row["kind"] == kind), "ts": 0, "dur": 0, "correlation": 0})
    summary = made(tmp_path, rows)
    assert failed(summary) & {"time_not_set"} == fails
    assert summary.span is not None and (summary.span[0] > 0) is bool(fails)


def _stats(waited: int, graphs: int, kernels: int) -> str:
    head = "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    calls = f"99.0,{waited},1,{waited},{waited},{waited},{waited},0,cudaDeviceSynchronize\n"
    calls += f"1.0,9000,{graphs or 20},900,900,900,900,0,"
    name = "cudaGraphLaunch_v10000" if graphs else "cudaLaunchKernel_v7000"
    table = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    return (
        f" ** CUDA API Summary (cuda_api_sum):\n\n{head}\n{calls}{name}\n\n"
        f" ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n{table}\n"
        f"100.0,{kernels},20,1400,1400,1400,1400,0,fill(float)\n"
    )


@pytest.mark.parametrize(
    ("waited", "graphs", "kernels", "fails"),
    [(7_000_000, 10, 28_000, True), (30_000, 10, 28_000, False), (7_000_000, 0, 28_000, False)],
)
def test_graphs_whose_kernels_a_table_lacks(
    waited: int, graphs: int, kernels: int, fails: bool, tmp_path: Path
) -> None:
    path = tmp_path / "stats.txt"
    path.write_text(_stats(waited, graphs, kernels), "utf-8")
    summary = ktrace.summary(path)
    assert ("graphs_missing" in failed(summary)) is fails
    assert any(one.code.startswith("heaviest") for one in summary.findings) is not fails


@pytest.mark.parametrize(
    ("line", "fails"),
    [
        ("ERROR: The target application terminated: no CUDA device.", {"profiler_failed"}),
        ("WARNING: 1234 CUDA events were dropped.", {"records_dropped"}),
        ("WARNING: CPU sampling isn't supported here.", set()),
        ("Errors of other programs: none.", set()),
    ],
)
def test_what_nsys_says_between_its_tables(line: str, fails: set[str], tmp_path: Path) -> None:
    path = tmp_path / "stats.txt"
    path.write_text(f"{line}\n{_stats(30_000, 0, 28_000)}", "utf-8")
    assert failed(ktrace.summary(path)) == fails


def test_tables_of_graphs_in_files_of_their_own(tmp_path: Path) -> None:
    """The kernels of one file are those that the calls of the other one launched; calls alone tell of no kernels."""
    parts = _stats(7_000_000, 10, 28_000).split(" ** ")[1:]
    for name, part in zip(("calls_cuda_api_sum", "work_cuda_gpu_kern_sum"), parts, strict=True):
        (tmp_path / f"{name}.csv").write_text(part.split("\n\n", 1)[1], "utf-8")
    (found,) = ktrace.summary(tmp_path).checks
    assert (found.code, found.details["kernels_ns"]) == ("check.graphs_missing", 28_000)
    assert failed(ktrace.summary(tmp_path / "calls_cuda_api_sum.csv")) == set()


NVPROF = """==42== NVPROF is profiling process 42, command: ./app
{}==42== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  4.0000ms         2  2.0000ms  2.0000ms  2.0000ms  k(int)
"""


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        (NVPROF.format(""), set()),
        (
            NVPROF.format("==42== Warning: Some profiling data are not recorded. Call cudaProfilerStop().\n"),
            {"records_dropped"},
        ),
        (
            NVPROF.format(
                "==42== Warning: 512 records have invalid timestamps due to insufficient device buffer space.\n"
            ),
            {"records_dropped"},
        ),
        ("======== Warning: nvprof is not supported on devices with compute capability 8.0.\n", {"profiler_failed"}),
        ("SKIPPED: run.sqlite does not contain CUDA trace data.\n", {"profiler_failed"}),
        (f"SKIPPED: run.sqlite does not contain CUDA Unified Memory data.\n\n{_stats(30_000, 10, 28_000)}", set()),
    ],
)
def test_what_the_profiler_says_itself(text: str, fails: set[str], tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text(text, "utf-8")
    summary = ktrace.summary(path)
    assert failed(summary) == fails
    if fails:
        assert text.rpartition("Warning: ")[2].partition("\n")[0].rstrip(".") in sentence(summary.checks[0])


def test_calls_without_a_table_of_kernels(tmp_path: Path) -> None:
    """What nsys stats prints of a report without device records."""
    text = _stats(5_000, 0, 28_000).partition(" ** CUDA GPU Kernel")[0]
    path = tmp_path / "stats.txt"
    path.write_text(f"SKIPPED: run.sqlite does not contain CUDA kernel data.\n\n{text}", "utf-8")
    assert failed(ktrace.summary(path)) == {"launches_lost"}


@pytest.mark.parametrize("row", ["softmax,1,?", "softmax,-,-", "softmax,N/A,n/a"])
def test_a_damaged_table_has_no_heaviest_kernel(row: str, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(f"kernel,calls,total_ns\ngemm,2,1000\n{row}\nnorm,4,300\n", "utf-8")
    summary = ktrace.summary(path)
    assert failed(summary) == {"rows_unreadable"}
    assert not any(one.code.startswith("heaviest") for one in summary.findings)


def _rank(path: Path, rows: list[Row], rank: int | None, unix_ns: int | None) -> Path:
    """A trace with the facts of its rank and clock: `unix_ns` is the unix time at 0."""
    written(path, rows)
    facts = {"rank": rank, "world_size": 2} if rank is not None else {}
    lines = [{"entity": "source", "name": "run", "facts": facts}]
    if unix_ns is not None:
        lines.append({"entity": "clock", "facts": {"at_ns": 0, "unix_ns": unix_ns}})
    about = ({"record": "catalog", "source": "run", "id": number, **line} for number, line in enumerate(lines))
    path.write_text(path.read_text("utf-8") + "".join(f"{json.dumps(line)}\n" for line in about), "utf-8")
    return path


@pytest.mark.parametrize(
    ("ranks", "anchors", "later", "fails"),
    [
        ((0, 1), (0, 0), 20_000_000_000, "ranks_apart"),
        ((0, 1), (0, 0), 0, None),
        ((0, 1), (10**18, 10**18 + 5_000_000_000_000), 0, "ranks_apart"),
        ((0, 1), (None, None), 20_000_000_000, "inputs_apart"),
        ((None, None), (0, 0), 20_000_000_000, "inputs_apart"),
        ((0, 0), (0, 0), 20_000_000_000, "inputs_apart"),
        ((0, 1), (0, None), 1_798_761_600_000_000_000, "inputs_apart"),
    ],
)
def test_inputs_that_do_not_overlap(
    ranks: tuple[Any, Any], anchors: tuple[Any, Any], later: int, fails: str | None, tmp_path: Path
) -> None:
    for seed in SEEDS:
        rows = [{**row, "ts": row["ts"] % 10**12} for row in sound(random.Random(seed))]
        moved = [{**row, "ts": row["ts"] + later} for row in rows]
        sides = zip((rows, moved), ranks, anchors, strict=True)
        paths = [_rank(tmp_path / f"{seed}{name}.jsonl", *side) for name, side in zip("ab", sides, strict=True)]
        summary = ktrace.summary(paths, by=["idle"])
        assert failed(summary) == ({fails} if fails else set()), seed
        assert not any(one.code == "straggler" for one in summary.findings)
        if fails:
            (found,) = summary.checks
            assert (sentence(found) in summary.verdict) is (fails == "ranks_apart")
            assert ("on clocks that can't be aligned" in sentence(found)) is (None in anchors)
            assert ("57.0 years" in sentence(found)) is (later > 10**18)


def test_a_merge_of_inputs_that_do_not_overlap_says_so(tmp_path: Path) -> None:
    rows = sound(random.Random(2))
    span = max(row["ts"] + row["dur"] for row in rows) - min(row["ts"] for row in rows)
    paths = [_rank(tmp_path / f"{at}.jsonl", rows, at, at * 2 * span) for at in (0, 1)]
    report = ktrace.merge(paths, tmp_path / "both.perfetto")
    assert "after run has ended" in report.issues["no-overlap"].places[0][1]
    near = ktrace.merge([paths[0], _rank(tmp_path / "2.jsonl", rows, 1, span // 2)], tmp_path / "near.perfetto")
    assert "no-overlap" not in near.issues


REPORTS = ROOT.parent / "shared/reports"

#: Reports on which a verdict was wrong -> the check that fails, and what the verdict must not say.
REPORTED = {
    "nv/01_unset_times.json": ("time_not_set", "5.00 s"),
    "nv/04_launches_without_kernels.json": ("launches_lost", "no device work:"),
    "nv/13a_ncu_launch_failed.txt": ("profiler_failed", "nothing"),
    "nv/13b_ncu_driver.txt": ("profiler_failed", "nothing"),
    "nv/13c_nvprof_no_permission.txt": ("profiler_failed", "nothing"),
    "nv/15_whole_graphs.sqlite": ("graphs_whole", "busy for"),
    "nv/16_one_memset_in_a_second.sqlite": ("little_recorded", "busy for"),
    "nv/17_calls_without_device_work.sqlite": ("launches_lost", "no device work:"),
    "nv/19_stats_with_graph_launches.txt": ("graphs_missing", "fill"),
    "foreign/causality.pt.trace.json": ("cause_after_effect", "queue"),
    "other/kineto_launches_without_kernels.json": ("launches_lost", "host"),
    "people/host-only-but-two-fills.json": ("little_recorded", "busy for"),
    "people/rocprof-two-runs": ("runs_apart", "busy for"),
}


@pytest.mark.skipif(not REPORTS.exists(), reason="the reports aren't here")
@pytest.mark.parametrize("name", REPORTED)
def test_what_was_reported(name: str) -> None:
    check, never = REPORTED[name]
    summary = ktrace.summary(REPORTS / name, by=["idle"])
    assert failed(summary) == {check}
    assert not any(never in line for line in summary.verdict[1:])


def test_one_rank_of_several(tmp_path: Path) -> None:
    step = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
    summary = ktrace.summary(step, by=["idle"])
    found, undescribed = summary.checks
    assert (found.code, found.value, found.whole, check_of(found).partial) == ("check.ranks_missing", 1, 8, True)
    assert (undescribed.code, undescribed.value) == ("check.collectives_undescribed", 2)
    exposed = next(one for one in summary.findings if one.code == "exposed.communication")
    assert exposed.doubts == ["check.ranks_missing"]
    assert not any("ranks" in line for line in summary.verdict), "the recording is sound as far as it goes"


@pytest.mark.parametrize(
    ("devices", "name", "said"),
    [
        (1, "ncclDevKernel_AllReduce_Sum_f32", True),
        (2, "ncclDevKernel_AllReduce_Sum_f32", False),
        (1, "ampere_sgemm_128x64_tn", False),
    ],
)
def test_one_device_of_a_group_that_nothing_states(devices: int, name: str, said: bool, tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": device, "tid": 7, "ts": 10, "dur": 50}
        | {"args": {"device": device, "stream": 7}}
        for device in range(devices)
    ]
    path = tmp_path / "run.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    told = [sentence(one) for one in ktrace.summary(path).checks if one.code == "check.ranks_missing"]
    assert bool(told) is said
    assert not said or told[0].startswith("One device with collectives is here; if others take part, ")


@pytest.mark.parametrize("planted", [None, "cause_after_effect"])
def test_the_command(planted: str | None, tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = sound(rng) if planted is None else PLANTED[planted](rng, sound(rng))
    path = written(tmp_path / "run.jsonl", rows)
    shown = CliRunner().invoke(cli, ["check", str(path)])
    assert shown.exit_code == (3 if planted else 0)
    assert shown.stdout.splitlines()[0] == ("run: 1 check fails" if planted else "run: no failed checks")
    told = CliRunner().invoke(cli, ["check", str(path), "--format", "json"])
    document = json.loads(told.stdout)
    assert document["sound"] is (planted is None) and len(document["laws"]) == len(CHECKS)
    assert [one["code"] for one in document["failed"]] == ([f"check.{planted}"] if planted else [])


@pytest.mark.parametrize("check", PLANTED)
def test_info_says_the_same(check: str, tmp_path: Path) -> None:
    rng = random.Random(7)
    path = written(tmp_path / "run.jsonl", PLANTED[check](rng, sound(rng)))
    found = ktrace.inspect(path)
    assert found.checks == ktrace.summary(path, by=["idle"]).checks
    shown = CliRunner().invoke(cli, ["info", str(path)]).stdout
    assert f"\n  {check}: " in shown.partition("failed checks")[2]
    listed = json.loads(CliRunner().invoke(cli, ["info", str(path), "--format", "json"]).stdout)["checks"]
    assert [one["code"] for one in listed] == [f"check.{code}" for code in CHECKS]
    assert {one["code"] for one in listed if one["failed"]} == {one.code for one in found.checks}
    assert {one["code"] for one in listed if one["failed"] is None} == {f"check.{name}" for name in NOT_MADE}


def test_info_of_a_sound_run_has_no_heading_for_checks(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", sound(random.Random(4)))
    assert not ktrace.inspect(path).checks
    assert "checks" not in CliRunner().invoke(cli, ["info", str(path)]).stdout


def test_the_page_lists_all_checks() -> None:
    page = (ROOT / "docs/commands/check.md").read_text("utf-8")
    for code, check in CHECKS.items():
        assert f"| `check.{code}` | {check.law} |" in page


def test_a_comparison_begins_with_what_is_wrong_with_a_side(tmp_path: Path) -> None:
    """A side whose kernels are lost isn't one that got faster."""
    rng = random.Random(8)
    rows = sound(rng)
    a, b = written(tmp_path / "a.jsonl", rows), written(tmp_path / "b.jsonl", _kernels_lost(rng, rows))
    diff = ktrace.diff(a, b)
    assert diff.verdict[0].startswith("b.jsonl: 12 of 60 launches have no kernel")
    assert (diff.findings[0].code, diff.findings[0].subject["side"]) == ("check.launches_lost", "b")
    assert not any("launches have no kernel" in line for line in ktrace.diff(a, a).verdict)


def test_what_a_filter_leaves_out_is_not_lost(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", sound(random.Random(4)))
    for part in ({"filter": ktrace.Filter(names=["gemm*"])}, {"crop": ktrace.Crop(step="1")}):
        assert failed(ktrace.summary(path, by=["idle"], **part)) == set()


def test_a_table_of_calls_alone_lacks_nothing(tmp_path: Path) -> None:
    """What nsys and rocprof write as one file: the kernels are in another one, and the calls are what they are."""
    path = tmp_path / "hip_api_stats.csv"
    path.write_text(
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
        '"hipMalloc",2,900,450,90,400,500,1\n"hipLaunchKernel",4,100,25,10,20,30,1\n',
        "utf-8",
    )
    summary = ktrace.summary(path)
    assert failed(summary) == set()
    assert [(one.code, one.value, one.whole) for one in summary.findings] == [("heaviest.call", 900, 1_000)]


@pytest.mark.parametrize(("captured", "said"), [(90, True), (20, False)])
def test_a_capture_of_graphs_isnt_a_run(captured: int, said: bool, tmp_path: Path) -> None:
    """Most launches go into a graph; what runs beside them lies far apart, and tells nothing of idle time."""
    rows = []
    for at in range(20):
        rows.append(host("cudaLaunchKernel", 5_000_000 * at, 5_000_000 * at + 5_000, at + 1))
        rows.append(work("fill", 5_000_000 * at + 9_000, 5_000_000 * at + 49_000, at + 1))
    begin = 40_000_000
    rows += [
        host("cudaStreamBeginCapture", begin + 200_000, begin + 201_000),
        *(
            host("cuLaunchKernel", begin + 202_000 + at * 9, begin + 202_008 + at * 9, 900 + at)
            for at in range(captured)
        ),
        host("cudaStreamEndCapture", begin + 203_000 + 9 * captured, begin + 204_000 + 9 * captured),
    ]
    summary = made(tmp_path, rows)
    assert failed(summary) == ({"little_recorded"} if said else set())
    assert any(one.code == "idle.host_late" for one in summary.findings) is not said
    if said:
        assert f"{captured} of {captured + 20} launches" in summary.verdict[0]


@pytest.mark.parametrize(("name", "said"), [("c10d::allreduce_", True), ("aten::mm", False)])
def test_one_rank_of_several_on_the_host(name: str, said: bool, tmp_path: Path) -> None:
    """Collectives of gloo are operators of the host; without any, the other ranks don't matter."""
    info = {"backend": "gloo", "rank": 0, "world_size": 4}
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 10, "dur": 50, "args": {}}
    path = tmp_path / "rank0.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": info, "traceEvents": [event]}), "utf-8")
    assert ("ranks_missing" in failed(ktrace.summary(path))) is said


@pytest.mark.parametrize(
    ("devices", "hidden", "said"), [((0,), False, True), ((0, 1), False, False), ((0,), True, False)]
)
def test_one_rank_alone_cannot_tell_waiting_from_transfer(
    devices: tuple[int, ...], hidden: bool, said: bool, tmp_path: Path
) -> None:
    """Where nothing states how many ranks there are; devices of one process may be all of a group."""
    rows: list[Row] = []
    for device in devices:
        begin = 2_000 if hidden else 52_000
        rows += [work("gemm", 1_000, 51_000, 10 * device + 1, device=device)]
        rows += [work("ncclDevKernel_AllReduce", begin, begin + 20_000, 10 * device + 2, stream=8, device=device)]
    checks = [one for one in made(tmp_path, rows).checks if one.code == "check.ranks_missing"]
    assert [sentence(one) for one in checks] == said * [
        "One device with collectives is here; if others take part, how much of the communication is waiting for "
        "them isn't known. Give the traces of all ranks."
    ]
