"""Checks of what was read: texts and tables that say less than they should, planted in 15 inputs each."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from idle_traces import Row, host, work, written
from worlds import World, build, write
from worlds.databases import nsys

import ktrace
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.checks import check_of

SEEDS = range(15)

_NAMES = ("gemm_bf16", "softmax_warp", "layer_norm", "vectorized_add", "copy_kernel")


def _text(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


_ERRORS = (
    "==ERROR== LaunchFailed",
    "==ERROR== The application returned an error code (9).",
    '==ERROR== Failed to profile "gemm" in process 12',
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
)


def _ncu(rng: random.Random, folder: Path, planted: bool) -> Path:
    """What ncu prints, with an error of its own."""
    lines = [f"==PROF== Connected to process {rng.randrange(10, 9999)} (/app/run)"]
    profiled = ((rng.choice(_NAMES), number) for number in range(rng.randrange(1, 4)))
    lines += [f'==PROF== Profiling "{name}" - {number}: 0%....50%....100% - 8 passes' for name, number in profiled]
    lines += [rng.choice(_ERRORS)] if planted else []
    rule = f"    {'-' * 23} {'-' * 12} {'-' * 12}"
    lines += ["==PROF== Disconnected from process 7", "[7] run@127.0.0.1"]
    lines += ["  gemm (64, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0"]
    lines += ["    Section: GPU Speed Of Light Throughput", rule]
    lines += ["    Metric Name              Metric Unit Metric Value", rule]
    lines += [f"    Duration                          us {rng.uniform(5, 90):12.2f}", rule, ""]
    return _text(folder / "ncu.txt", "\n".join(lines))


def _world(rng: random.Random) -> World:
    return build(rng.randrange(1000), ranks=1, layers=2, scale=0.3, steps=2, uses_graph=False)


def _dropped(rng: random.Random, folder: Path, planted: bool) -> Path:
    """An nsys export, with a warning that events are missing."""
    path = nsys(_world(rng), folder / "run.sqlite")
    said = rng.choice(("Not all CUDA events were collected.", "CUDA profiling data was lost.", "Events were dropped."))
    fine = rng.choice(("Profiling has started.", "Processed 120 events."))
    numbers = ("timestamp", "timestampType", "source", "severity", "globalPid")
    with sqlite3.connect(path) as base:
        base.execute(f"CREATE TABLE DIAGNOSTIC_EVENT ({', '.join(f'{one} INTEGER' for one in numbers)}, text TEXT)")
        row = (1, 1, 1, 2 if planted else 1, None, said if planted else fine)
        base.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (?, ?, ?, ?, ?, ?)", row)
    return path


def _drawn(rng: random.Random, folder: Path, planted: bool) -> Path:
    """A table of kernels, as it is or drawn as a timeline."""
    rows = [f"{name},{rng.randrange(1, 50)},{rng.randrange(1_000, 900_000)}" for name in rng.sample(_NAMES, 3)]
    path, drawn = (
        _text(folder / "kernels.csv", "\n".join(["kernel,calls,total_ns", *rows, ""])),
        folder / "a.trace.json",
    )
    if planted:
        ktrace.convert(path, drawn, overwrite=True)
    return drawn if planted else path


def _graphs(rng: random.Random, folder: Path, planted: bool) -> Path:
    """`nsys stats` of a run whose graphs aren't in the table of kernels."""
    head = "Time (%),Total Time (ns),{},Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    kernels = rng.randrange(50_000, 900_000)
    waited = kernels * rng.randrange(5, 50) if planted else kernels + rng.randrange(2_000)
    name = "cudaGraphLaunch_v10000" if planted or rng.random() < 0.5 else "cudaLaunchKernel_v7000"
    calls = f"90.0,{waited},1,{','.join([str(waited)] * 4)},0,cudaDeviceSynchronize\n"
    calls += f"10.0,9000,{rng.randrange(5, 50)},900,900,900,900,0,{name}"
    rows = f"100.0,{kernels},20,{','.join([str(kernels // 20)] * 4)},0,{rng.choice(_NAMES)}(float)"
    text = f" ** CUDA API Summary (cuda_api_sum):\n\n{head.format('Num Calls')}\n{calls}\n\n"
    text += f" ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n{head.format('Instances')}\n{rows}\n"
    return _text(folder / "stats.txt", text)


_OPERATORS = ("aten::mm", "aten::add_", "aten::softmax", "aten::copy_", "aten::mul")
_HEADINGS = ("Self CPU %", "Self CPU", "CPU total", "Self CUDA", "Self CUDA %", "CUDA total", "# of Calls")


def _limited(rng: random.Random, folder: Path, planted: bool) -> Path:
    """A table of torch.profiler, whole or cut by row_limit."""
    rows = [(name, rng.uniform(20, 900)) for name in _OPERATORS]
    total = sum(time for _, time in rows)
    rule = f"{'-' * 24}  " + "  ".join(["-" * 14] * 7)
    lines = [rule, f"{'Name':>24}  " + "  ".join(f"{one:>14}" for one in _HEADINGS), rule]
    for name, time in rows[: rng.randrange(2, 4)] if planted else rows:
        cells = ("1.00%", "1.000ms", "1.000ms", f"{time:.3f}ms", f"{100 * time / total:.2f}%", f"{time:.3f}ms", "12")
        lines.append(f"{name:>24}  " + "  ".join(f"{one:>14}" for one in cells))
    lines += [rule, "Self CPU time total: 50.000ms", f"Self CUDA time total: {total:.3f}ms", ""]
    return _text(folder / "table.txt", "\n".join(lines))


def _elided(rng: random.Random, folder: Path, planted: bool) -> Path:
    """A frame that pandas printed, which leaves rows out above sixty."""
    count = rng.randrange(70, 99)
    shown = (10, 11, 12, count - 2, count - 1)
    rows = [f"{number}  kernel_{number}  {rng.uniform(10, 90):8.2f}" for number in shown]
    rows = [*rows[:3], "..        ...       ...", *rows[3:]] if planted else rows
    foot = f"\n[{count} rows x 2 columns]\n" if planted else ""
    return _text(folder / "frame.txt", "\n".join(["         name  total_ms", *rows, foot]))


def _unreadable(rng: random.Random, folder: Path, planted: bool) -> Path:
    """A table one of whose cells has no figure."""
    rows = [[name, str(rng.randrange(1, 50)), str(rng.randrange(1_000, 900_000))] for name in _NAMES]
    if planted:
        rng.choice(rows)[2] = rng.choice(("?", "n/a", "ERR", "#DIV/0!"))
    return _text(folder / "kernels.csv", "\n".join(["kernel,calls,total_ns", *map(",".join, rows), ""]))


def _ranks(rng: random.Random, folder: Path, planted: bool) -> Path:
    """A rank of a job of several, or of one, with a collective in each step."""
    rows: list[Row] = []
    for number in range(8):
        now, name = 100_000 * number, "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if number % 2 else "gemm_bf16"
        rows.append(host("cudaLaunchKernel", now, now + 3_000, number + 1))
        rows.append(work(name, now + 6_000, now + rng.randrange(20_000, 90_000), number + 1))
    path = written(folder / "rank0.jsonl", rows)
    facts = {"rank": 0, "world_size": rng.choice((2, 4, 8)) if planted else 1}
    line = {"record": "catalog", "source": "run", "id": 0, "entity": "source", "name": "run", "facts": facts}
    return _text(path, path.read_text("utf-8") + json.dumps(line) + "\n")


def _cut(rng: random.Random, folder: Path, planted: bool) -> Path:
    """A trace of Kineto, whole or cut: amid an event, or between two of them."""
    path = write(_world(rng), folder / "run.json")
    text = path.read_text("utf-8")
    return _text(path, text[: int(len(text) * rng.uniform(0.5, 0.9))]) if planted else path


#: The check -> the input, in which it is planted or not.
INPUTS: dict[str, Callable[[random.Random, Path, bool], Path]] = {
    "profiler_failed": _ncu,
    "records_dropped": _dropped,
    "times_made_up": _drawn,
    "graphs_missing": _graphs,
    "table_incomplete": _limited,
    "table_cut": _elided,
    "rows_unreadable": _unreadable,
    "ranks_missing": _ranks,
    "input_cut": _cut,
}


def failed(summary: Summary) -> set[str]:
    return {one.code.removeprefix("check.") for one in summary.checks}


@pytest.mark.parametrize("check", INPUTS)
def test_what_is_planted_is_said_and_its_claims_are_not(check: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        summary = ktrace.summary(INPUTS[check](random.Random(seed), tmp_path, True), by=["idle"])
        assert check in failed(summary), (seed, failed(summary))
        (found,) = (one for one in summary.checks if one.code == f"check.{check}")
        taken = check_of(found).takes
        assert not [one.code for one in summary.findings if taken and one.code.startswith(taken)]


@pytest.mark.parametrize("check", INPUTS)
def test_sound_inputs_fail_none(check: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        summary = ktrace.summary(INPUTS[check](random.Random(seed), tmp_path, False), by=["idle"])
        assert failed(summary) == set(), seed


def test_the_remedy_for_a_table_that_lacks_rows_is_that_of_its_program(tmp_path: Path) -> None:
    torch = ktrace.summary(str(_limited(random.Random(1), tmp_path, True)))
    (found,) = [one for one in torch.checks if one.code.endswith("table_incomplete")]
    assert "row_limit=-1" in found.remedy
    text = "| Kernel | Calls | Total (ms) | % |\n|--|--|--|--|\n| gemm | 2 | 10 | 40.0 |\n| norm | 2 | 5 | 20.0 |\n"
    own = ktrace.summary(str(_text(tmp_path / "own.md", text)))
    (found,) = [one for one in own.checks if one.code.endswith("table_incomplete")]
    assert found.remedy == "Print all rows."
