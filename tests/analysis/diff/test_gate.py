"""What fails a pipeline, and that the first sentence, the exit code and the JSON say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from sides import events, side

import ktrace
from ktrace.analysis.answers.diff.compare import compared
from ktrace.analysis.answers.diff.comparison import gate
from ktrace.analysis.answers.summary.summary import StepUse, Summary
from ktrace.cli import cli


def trace(path: Path, *, kernel: float = 80.0, gap: float = 20.0, count: int = 50, slow: float = 1.0) -> Path:
    """A trace without steps: kernels of `kernel` us, each with a `gap` before it in which the host does something else.

    Each second kernel is another one, `slow` times as long.
    """
    found: list[dict[str, Any]] = []
    clock = 1000.0
    for number in range(count):
        place = {"ph": "X", "pid": 1, "tid": 1, "args": {"correlation": number + 1}}
        found.append({**place, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": clock, "dur": gap / 2})
        dur = kernel * slow if number % 2 else kernel
        work = {"correlation": number + 1, "device": 0, "stream": 7}
        name = ("gemm_kernel", "softmax_kernel")[number % 2]
        begin = {"cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": clock + gap, "dur": dur, "args": work}
        found.append({"ph": "X", **begin})
        clock = round(clock + gap + dur, 3)
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}], "traceEvents": found}
    path.write_text(json.dumps(document))
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["diff", *map(str, words)])


def test_gaps_twice_as_long_fail_without_steps(tmp_path: Path) -> None:
    """The kernels are equal: 50 of 80 us, with gaps of 20 or 120 us."""
    a, b = trace(tmp_path / "a.json"), trace(tmp_path / "b.json", gap=120.0)
    result = run(a, b, "--fail-over", "5%")
    assert result.exit_code == 3
    assert result.stdout.startswith("b.json takes 2.0 times as long as a.json: 10.0 ms instead of 5.00 ms.\n")
    assert "Its device is idle for 5.88 ms instead of 980 us, most of the change: launch latency. " in result.stdout
    assert "Whether the change exceeds noise isn't known: one recording of each." in result.stdout
    told = [line.partition(" got slower")[0] for line in result.stderr.splitlines()]
    assert told == ["slower: span", "slower: device span", "slower: idle"]
    back = run(b, a, "--fail-over", "5%")
    assert back.exit_code == 0
    assert back.stdout.startswith("a.json takes 50.0% less time than b.json: 5.00 ms instead of 10.0 ms.\n")
    assert "Its device is idle for 980 us instead of 5.88 ms, most of the change: launch latency." in back.stdout


def test_json_has_the_outcome(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a.json"), trace(tmp_path / "b.json", gap=120.0)
    document = json.loads(run(a, b, "--fail-over", "5%", "--format", "json").stdout)
    assert document["failed"] is True
    span, device, idle = document["regressions"]
    assert (span["name"], span["by"], span["a_ns"], span["b_ns"]) == ("span", None, 5_000_000, 10_000_000)
    assert (span["change_percent"], span["limit_percent"], span["known"]) == (100, 5, False)
    assert span["sentence"].startswith("span got slower: 2.0 times as long, more than 5%")
    assert (device["name"], idle["a_ns"], idle["b_ns"]) == ("device span", 980_000, 5_880_000)
    for words in ([b, a, "--fail-over", "5%"], [a, a, "--fail-over-each", "0%"]):
        document = json.loads(run(*words, "--format", "json").stdout)
        assert (document["failed"], document["regressions"]) == (False, [])
    assert "failed" not in json.loads(run(a, b, "--format", "json").stdout)  # nobody asked
    slow = trace(tmp_path / "slow.json", slow=1.5)
    document = json.loads(run(a, slow, "--fail-over-each", "20%", "--format", "json").stdout)
    (row,) = document["regressions"]
    assert (row["name"], row["by"], row["limit_percent"], row["known"]) == ("softmax_kernel", "kernel", 20, True)


def test_a_trace_against_itself_says_nothing_of_idle_time(tmp_path: Path) -> None:
    a = trace(tmp_path / "a.json")
    result = run(a, a, "--fail-over", "0%")
    assert result.exit_code == 0
    assert result.stdout.startswith("a.json takes as long as a.json: 5.00 ms.\n")
    assert "idle for" not in result.stdout
    assert "but" not in result.stdout.split("\n\n")[0]


def test_a_part_is_compared_by_its_work_alone(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a.json"), trace(tmp_path / "b.json", gap=120.0)
    result = run(a, b, "--fail-over", "5%", "--name", "gemm*")
    assert result.exit_code == 0
    assert result.stdout.startswith("b.json takes as long as a.json: 2.00 ms of work.\n")


def test_another_number_of_calls_is_no_reason_for_gaps(tmp_path: Path) -> None:
    """Two kernels more don't make a trace twice as long."""
    a, b = trace(tmp_path / "a.json"), trace(tmp_path / "b.json", gap=120.0, count=52)
    (first, *_) = ktrace.diff(a, b).verdict
    assert first.startswith("b.json takes 2.1 times as long as a.json")
    (first, *_) = ktrace.diff(a, trace(tmp_path / "long.json", count=100)).verdict
    assert first.startswith("Not like for like: long.json has 2.00 times the calls of the kernels of a.json ")


def steps(name: str, work: list[int], walls: list[int], spans: list[int] | None = None) -> Summary:
    """Eight steps of ten launches each; devices are at each step for its `spans`, else for as long as the host."""
    found = side(name, [events("gemm", work, steps=8)])
    totals = np.asarray(work).reshape(8, -1).sum(axis=1).tolist()
    found.step_use = [
        StepUse(f"step {number}", 1, wall, busy, busy, 0, 0, 0, 0, span)
        for number, (wall, busy, span) in enumerate(zip(walls, totals, spans or walls, strict=True))
    ]
    return found


def around(seed: int, mean: float, count: int) -> list[int]:
    drawn: list[int] = np.random.default_rng(seed).normal(mean, mean * 0.005, count).astype(np.int64).tolist()
    return drawn


def test_work_that_the_time_of_a_step_hides_is_in_the_first_sentence() -> None:
    walls = around(1, 42_700_000, 8)
    a = steps("a", around(2, 2_000_000, 80), walls)
    b = steps("b", around(3, 2_400_000, 80), walls)
    diff = compared(a, b)
    assert gate(diff, 5).failed
    assert [one.name for one in gate(diff, 5).regressions] == ["all work"]
    assert diff.verdict[0].startswith("b takes as long as a: 42.7 ms a step, but its work is 19.9% more")
    assert diff.verdict[0].endswith(" (24.0 ms instead of 20.0 ms).")
    assert diff.verdict[1].startswith("The largest changes by kernel: gemm +3.98 ms. Its device is idle for ")
    same = compared(a, steps("b", around(4, 2_000_000, 80), walls))
    assert not gate(same, 5).failed
    assert same.verdict[0] == "b takes as long as a: 42.7 ms a step."
    assert "greatest" not in same.verdict[1]
    assert same.verdict[1] == "No change by kernel exceeds noise."


def test_idle_time_is_named_where_it_is_the_change() -> None:
    work = around(1, 6_000_000, 80)
    a, b = steps("a", work, around(2, 137_000_000, 8)), steps("b", work, around(3, 853_000_000, 8))
    whole, because, sure = compared(a, b).verdict
    assert whole.startswith("b takes 6.2 times as long as a: ")
    assert because == "Its device is idle for 791 ms instead of 77.0 ms a step. No change by kernel exceeds noise."
    assert sure.startswith("The change exceeds the noise")
    near = compared(a, steps("b", work, around(5, 137_000_000, 8)))
    assert near.idle is not None and near.idle.delta
    assert "idle" not in " ".join(near.verdict)
    assert "within noise" in near.verdict[0]


def test_devices_that_take_longer_fail_although_the_host_does_not() -> None:
    work, walls = around(1, 2_000_000, 80), around(2, 30_000_000, 8)
    a, b = steps("a", work, walls), steps("b", work, walls, around(3, 40_000_000, 8))
    diff = compared(a, b)
    assert [one.name for one in gate(diff, 5).regressions] == ["step", "span", "idle"]
    assert diff.verdict[0].startswith("b takes 33.")
    assert " longer than a: 39.9 ms instead of 30.0 ms a step" in diff.verdict[0]


def test_the_greatest_changes_exceed_noise_and_come_in_order() -> None:
    same = around(1, 1_000_000, 80)
    a = side("a", [events("loud", around(2, 3e7, 80), steps=8), *(events(name, same, steps=8) for name in "xyz")])
    wild = [int(one * (1.5 if number < 20 else 0.8)) for number, one in enumerate(around(3, 3e7, 80))]
    other = [events("x", [one + 9_000 for one in same], steps=8), events("y", [one - 60_000 for one in same], steps=8)]
    b = side("b", [events("loud", wild, steps=8), *other, events("z", same, steps=8)])
    diff = compared(a, b)
    assert diff.rows["kernel"][0].key == "loud"
    said = diff.verdict[1]
    assert "loud" not in said
    assert "z" not in said.split(":")[-1]
    assert "y -600 us" in said


def test_repr_says_what_the_verdict_says(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a.json"), trace(tmp_path / "b.json", gap=120.0)
    assert repr(ktrace.diff(a, b)).startswith(
        "<Diff a.json to b.json: b.json takes 2.0 times as long as a.json: 10.0 ms instead of 5.00 ms; by kernel 0"
    )


def test_a_trace_without_host_is_compared_by_its_devices(tmp_path: Path) -> None:
    """What the host did before the first kernel counts only if both sides show it."""
    a, b = trace(tmp_path / "a.json"), tmp_path / "b.json"
    document = json.loads(a.read_text())
    document["traceEvents"] = [event for event in document["traceEvents"] if event["cat"] == "kernel"]
    b.write_text(json.dumps(document))
    diff = ktrace.diff(a, b)
    assert [change.key for change in diff.times] == ["device span", "idle"]
    assert diff.verdict[0] == "b.json takes as long as a.json: 4.98 ms."
    assert not gate(diff, 0).failed


def of_grids(path: Path, seed: int, slow: float = 1.0) -> Path:
    """A kernel of 40 launches with each of six grids, from 10 to 60 us, within 0.2 %; those of grid 384 are slower."""
    drawn, found, clock = np.random.default_rng(seed), list[dict[str, Any]](), 0.0
    for number in range(240):
        grid = 1 + number % 6
        dur = round(10.0 * grid * drawn.normal(1, 0.002) * (slow if grid == 3 else 1.0), 3)
        args = {"device": 0, "stream": 7, "grid": [128 * grid, 1, 1], "block": [128, 1, 1]}
        place = {"cat": "kernel", "name": "gemm_kernel", "pid": 0, "tid": 7, "args": args}
        found.append({"ph": "X", **place, "ts": clock, "dur": dur})
        clock = round(clock + dur + 1, 3)
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": found}))
    return path


def test_one_percent_of_one_grid_is_found(tmp_path: Path) -> None:
    """By kernel alone, launches of 10 to 60 us hide it; the rows of grids and the rest add up to the kernel."""
    a, b = of_grids(tmp_path / "a.json", 1), of_grids(tmp_path / "b.json", 2, slow=1.01)
    slower, rest = sorted(ktrace.diff(a, b).rows["kernel"], key=lambda one: one.key != "gemm_kernel grid 384x1x1")
    assert (slower.key, slower.verdict, slower.count_a) == ("gemm_kernel grid 384x1x1", "clear", 40)
    assert slower.percent is not None and 0.9 < slower.percent < 1.1
    assert (rest.key, rest.verdict, rest.count_a) == ("gemm_kernel, different grids", "within noise", 200)
    whole = ktrace.diff(a, b).whole
    assert (slower.total_a + rest.total_a, slower.total_b + rest.total_b) == (whole.total_a, whole.total_b)
    assert "What got slower: gemm_kernel grid 384x1x1 +12.8 us, 100% of all that." in ktrace.diff(a, b).verdict[1]
    (operation,) = ktrace.diff(a, b).rows["operation"]
    assert (operation.key, operation.verdict, operation.why) == ("gemm", "clear", "that of its kernels")
    alike = ktrace.diff(a, of_grids(tmp_path / "c.json", 3))
    assert [one.verdict for one in alike.rows["operation"]] == ["within noise"]
    (same,) = alike.rows["kernel"]
    assert (same.key, same.verdict) == ("gemm_kernel", "within noise")
    assert [row.name for row in gate(ktrace.diff(a, b), each=0.5).regressions] == ["gemm_kernel grid 384x1x1"]


def test_a_longer_recording_is_compared_at_the_same_length(tmp_path: Path) -> None:
    """Three times the loop, without steps: each call and each gap is as long as before."""
    a, longer = trace(tmp_path / "a.json"), trace(tmp_path / "b.json", count=150)
    found = ktrace.diff(a, longer)
    assert found.verdict[:2] == [
        "Not like for like: b.json has 3.00 times the calls of the kernels of a.json and is nearly as many times as "
        "long,"
        " so its totals are divided by that.",
        "b.json takes as long as a.json: 5.00 ms.",
    ]
    assert (found.whole.total_a, found.whole.total_b, found.whole.count_b) == (4_000_000, 4_000_000, 50)
    assert run(a, longer, "--fail-over", "5%").exit_code == 0
    back = ktrace.diff(longer, a)
    assert (back.length, back.whole.delta) == (1 / 3, 0)
    slower = ktrace.diff(a, trace(tmp_path / "c.json", count=150, kernel=90.0))
    assert slower.length == 3 and gate(slower, 5).failed
    assert slower.whole.percent == pytest.approx(12.5)


@pytest.mark.parametrize("more", [{"count": 52}, {"count": 150, "gap": 120.0}, {"count": 50, "gap": 220.0}])
def test_another_length_without_as_many_calls_is_not_divided(tmp_path: Path, more: dict[str, Any]) -> None:
    found = ktrace.diff(trace(tmp_path / "a.json"), trace(tmp_path / "b.json", **more))
    assert found.length == 1 and not found.verdict[0].startswith("Not alike")


def mixed(path: Path, seed: int, count: int, *, names: str = "gns", slow: float = 1.0) -> Path:
    """Kernels drawn at random, as a server's are; one of each name takes 20, 30, 40 us."""
    drawn, found, clock = np.random.default_rng(seed), list[dict[str, Any]](), 0.0
    for which in drawn.integers(0, len(names), count).tolist():
        dur = round((20 + 10 * which) * drawn.normal(1, 0.01) * slow, 3)
        place = {
            "cat": "kernel",
            "name": f"{names[which]}_kernel",
            "pid": 0,
            "tid": 7,
            "args": {"device": 0, "stream": 7},
        }
        found.append({"ph": "X", **place, "ts": clock, "dur": dur})
        clock = round(clock + dur + 5, 3)
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": found}))
    return path


def test_a_longer_recording_of_a_mixture_is_compared_at_the_same_length(tmp_path: Path) -> None:
    """Without steps, twice as long at the same rates isn't slower, in 15 pairs of runs; 20 % longer calls are."""
    for seed in range(15):
        a, b = mixed(tmp_path / "a.json", seed, 300), mixed(tmp_path / "b.json", seed + 100, 600)
        found = ktrace.diff(a, b)
        assert found.length == pytest.approx(2) and not gate(found, 10).failed, (seed, gate(found, 10).regressions)
        slower = ktrace.diff(a, mixed(tmp_path / "c.json", seed + 100, 600, slow=1.2))
        assert slower.length == pytest.approx(2) and gate(slower, 10).failed


def test_work_that_is_not_comparable_is_not_called_slower(tmp_path: Path) -> None:
    """One kernel, twice as often: for the same, or for twice as much? The gate fails, and says so."""
    a, b = mixed(tmp_path / "a.json", 1, 300, names="g"), mixed(tmp_path / "b.json", 2, 600, names="g")
    found = ktrace.diff(a, b)
    (said,) = gate(found, 5).regressions
    assert not said.comparable and not said.known
    assert str(said) == (
        "the time isn't comparable (600 calls of g_kernel instead of 300, and without steps there is no telling "
        "whether they do the same)"
        ": whether it got slower isn't known; a call takes as long as before"
    )
    done = run(a, b, "--fail-over", "5%")
    assert done.exit_code == 3 and "not known: the time isn't comparable" in done.stderr
    assert "slower: " not in done.stderr
    (each,) = gate(ktrace.diff(a, mixed(tmp_path / "c.json", 2, 600, names="g", slow=1.2)), 5).regressions
    assert each.comparable and str(each).startswith("each call got slower: +20.")
    assert not gate(ktrace.diff(a, mixed(tmp_path / "d.json", 3, 300, names="g")), 5).failed


def shaped(path: Path, rows: int, *, seed: int = 0, spread: int = 1, inputs: bool = True) -> Path:
    """Products of so many rows, drawn from `spread` sizes, as PyTorch's profiler records them with record_shapes."""
    drawn, events, clock = np.random.default_rng(seed), list[dict[str, Any]](), 0.0
    for number in range(60):
        size = rows * int(drawn.integers(1, spread + 1))
        dims = {"Input Dims": [[size, 4096], [4096, 4096]]} if inputs else {}
        place = {"ph": "X", "pid": 1, "tid": 1, "ts": clock}
        events.append({**place, "cat": "cpu_op", "name": "aten::mm", "dur": 9, "args": dims | {"External id": number}})
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 4, "args": {"correlation": number + 1}}
        events.append({**place, **launch})
        args = {"device": 0, "stream": 7, "correlation": number + 1}
        work = {"ph": "X", "cat": "kernel", "name": "gemm_kernel", "pid": 0, "tid": 7, "args": args}
        events.append({**work, "ts": clock + 6, "dur": round(50 * drawn.normal(1, 0.01), 3)})
        clock = round(clock + 60, 3)
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}))
    return path


def test_inputs_of_other_shapes_are_said(tmp_path: Path) -> None:
    """Kernels' grids aren't all that tells another batch: inputs of operators do, where they are recorded."""
    for seed in range(15):
        a = shaped(tmp_path / "a.json", 32, seed=seed)
        found = ktrace.diff(a, shaped(tmp_path / "b.json", 64, seed=seed + 50))
        assert [one.code for one in found.differences] == ["differs.shapes"]
        assert (
            "aten::mm has inputs [[32,4096],[4096,4096]] in a.json, [[64,4096],[4096,4096]] in b.json"
            in found.verdict[0]
        )
        alike = (
            (a, shaped(tmp_path / "c.json", 32, seed=seed + 50)),
            (a, shaped(tmp_path / "d.json", 64, inputs=False)),
            (shaped(tmp_path / "e.json", 8, seed=seed, spread=4), shaped(tmp_path / "f.json", 8, seed=1, spread=4)),
        )
        for one, other in alike:
            assert not ktrace.diff(one, other).differences


def named(path: Path, kernel: str) -> Path:
    """Forty launches of one kernel, and of one of which nothing says that it multiplies."""
    lines = ["kernel,start_ns,dur_ns,stream"]
    for number in range(40):
        lines += [f'"{kernel}",{number * 100_000},40000,7', f"relu_half,{number * 100_000 + 50_000},10000,7"]
    path.write_text("\n".join(lines) + "\n")
    return path


BF16, FP32 = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "ampere_sgemm_128x64_tn"


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (BF16, FP32, "gemm is bf16 in a.csv, fp32 in b.csv"),
        (BF16, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", ""),
        (BF16, "my_gemm", ""),
        ("norm_bf16", "norm_fp32", ""),
    ],
)
def test_products_of_another_precision_are_said(a: str, b: str, said: str, tmp_path: Path) -> None:
    """Where names of kernels tell it on both sides; another kernel of the same precision is no difference."""
    found = ktrace.diff(named(tmp_path / "a.csv", a), named(tmp_path / "b.csv", b))
    assert [one.code for one in found.differences if one.code == "differs.precision"] == ["differs.precision"] * bool(
        said
    )
    assert said in " ".join(found.verdict[:1])


def _two(times: tuple[float, float]) -> list[tuple[str, int, int, float]]:
    return [("gemm", 4, 50, times[0]), ("softmax", 6, 80, times[1])]


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ((1_000, 1_100), "all kernels of b take 1,000 times as long as those of a, as if"),
        ((0.001, 0.0009), "all kernels of a take 1,000 times as long as those of b, as if"),
        ((1_000_000, 900_000), "take 1,000,000 times as long"),
        ((1_000, 1), ""),
        ((300, 1_000), ""),
        ((1.2, 1.2), ""),
        ((100, 100), ""),
    ],
)
def test_times_in_other_units_are_said(factors: tuple[float, float], said: str, tmp_path: Path) -> None:
    """Where every kernel takes a power of 1,000 times as long; one that does so may be slower."""
    for name, times in (("a", (1, 1)), ("b", factors)):
        rows = [f"{kernel},{count},{count * us * by:.9f}" for kernel, count, us, by in _two(times)]
        (tmp_path / name).write_text("\n".join(["kernel,calls,total_ms", *rows]) + "\n", "utf-8")
    found = ktrace.diff(tmp_path / "a", tmp_path / "b")
    assert [one.code for one in found.differences] == ["differs.units"] * bool(said)
    assert said in found.verdict[0]
