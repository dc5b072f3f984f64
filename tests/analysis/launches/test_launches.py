"""Launches by configuration, against plain arithmetic; limits and advice of Nsight Compute, against its own reports."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SAMPLES

import ktrace
from ktrace.analysis.questions.launches import LIGHT, PAUSE, KernelSequence, SequencesAnswer
from ktrace.analysis.questions.launches.answer import CopiesAnswer, LaunchesAnswer, LengthsAnswer, LimitsAnswer, dims
from ktrace.cli import cli

STEP = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"
DETAILS = SAMPLES / "ncu" / "details-with-rules-two-processes-amid-output.csv"


def launches(path: Path) -> LaunchesAnswer:
    found = ktrace.summary(path, by=["launch"]).answers["launch"]
    assert isinstance(found, LaunchesAnswer)
    return found


def limits(*paths: Path) -> LimitsAnswer:
    found = ktrace.summary(paths, by=["limits"]).answers["limits"]
    assert isinstance(found, LimitsAnswer)
    return found


def test_launches_of_a_trace_add_up() -> None:
    """By the JSON itself: count and time of each grid, block and registers."""
    kernels = [one for one in json.loads(STEP.read_text())["traceEvents"] if one.get("cat") == "kernel"]
    expected: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for one in kernels:
        args = one["args"]
        sums = expected[tuple(args["grid"]), tuple(args["block"]), args["registers per thread"]]
        sums[0] += 1
        sums[1] += round(one["dur"] * 1000)
    found: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for use in launches(STEP).launches:
        found[use.grid, use.block, use.registers][0] += use.count
        found[use.grid, use.block, use.registers][1] += use.time
    assert found == expected


@pytest.mark.parametrize("out", ["run.parquet", "run.jsonl"])
def test_launches_are_the_same_after_a_conversion(tmp_path: Path, out: str) -> None:
    ktrace.convert(STEP, tmp_path / out)
    assert launches(tmp_path / out) == launches(STEP)


def test_limits_are_those_of_the_report() -> None:
    """The figures of the sample, read off its text."""
    gemm = next(one for one in limits(DETAILS).kernels if one.kernel == "gemm_tile")
    assert gemm.rates == {"compute": 88.63, "memory": 71.2, "DRAM": 18.45, "L2": 35.02, "L1": 74.11}
    assert (gemm.occupancy, gemm.possible, gemm.limited_by, gemm.waves) == (24.61, 25.0, "registers", 7.76)
    assert (gemm.launches, gemm.time) == (1, 412_860)


def test_launches_of_a_report_have_a_configuration() -> None:
    gemm = next(one for one in launches(DETAILS).launches if one.kernel == "gemm_tile")
    assert (gemm.grid, gemm.block, gemm.registers, gemm.shared) == ((64, 32, 1), (256, 1, 1), 96, 16_416)
    assert gemm.threads == 64 * 32 * 256


def test_several_launches_are_a_mean_weighted_by_time(tmp_path: Path) -> None:
    """Two launches of 100 and 300 ns; one lacks the occupancy, which the other one's is then."""
    head = "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC,"
    rows = [head + "Section Name,Metric Name,Metric Unit,Metric Value"]
    for number, (time, compute) in enumerate(((100, 20.0), (300, 60.0))):
        start = f'"{number}","1","a","h","k(int)","1","7","(64, 1, 1)","(8, 1, 1)","0","9.0",'
        rows += [
            f'{start}"GPU Speed Of Light Throughput","Duration","nsecond","{time}"',
            f'{start}"GPU Speed Of Light Throughput","Compute (SM) Throughput","%","{compute}"',
        ]
    rows.append(f'{start}"Occupancy","Achieved Occupancy","%","40"')
    path = tmp_path / "details.csv"
    path.write_text("\n".join(rows) + "\n")
    (kernel,) = limits(path).kernels
    assert (kernel.launches, kernel.time) == (2, 400)
    assert kernel.rates == {"compute": pytest.approx((100 * 20 + 300 * 60) / 400)}
    assert (kernel.occupancy, kernel.limited_by, kernel.waves) == (40.0, "", None)


def test_advice_is_said_once_the_greatest_promise_first() -> None:
    found = limits(DETAILS, DETAILS.with_name("printed-by-default-amid-output.txt"))
    said = Counter((one.kernel, one.rule, one.text) for one in found.advice)
    assert max(said.values()) == 1
    assert ("gemm_tile", "TheoreticalOccupancy", 11.37) in [(one.kernel, one.rule, one.speedup) for one in found.advice]
    promises = [one.speedup or 0 for one in found.advice]
    assert promises == sorted(promises, reverse=True)


def test_the_command_shows_limits_of_a_report_unasked_and_of_a_trace_never() -> None:
    report = CliRunner().invoke(cli, ["summary", str(DETAILS)])
    assert "Speed of Light: kernels against the peak of their device" in report.output
    assert "Registers limit the blocks of a multiprocessor to two." in report.output
    trace = CliRunner().invoke(cli, ["summary", str(STEP)])
    assert "limits" not in trace.output
    asked = CliRunner().invoke(cli, ["summary", str(STEP), "--by", "limits"])
    assert "This input has no limits information. Limits of kernels: ncu --set detailed" in asked.output


def test_dims_are_short() -> None:
    assert [dims(one) for one in ((64, 32, 1), (256, 1, 1), (1, 1, 1), (1, 1, 4), (None, None, None))] == [
        "64x32", "256", "1", "1x1x4", None,
    ]  # fmt: skip


def events_of(path: Path, cat: str) -> list[dict[str, Any]]:
    return [one for one in json.loads(path.read_text())["traceEvents"] if one.get("cat") == cat]


def test_kernels_by_duration_add_up() -> None:
    found = ktrace.summary(STEP, by=["duration"]).answers["duration"]
    assert isinstance(found, LengthsAnswer)
    durations = [round(one["dur"] * 1000) for one in events_of(STEP, "kernel")]
    for one in found.lengths:
        mine = [dur for dur in durations if one.least <= dur and (one.most is None or dur < one.most)]
        assert (one.kernels, one.time) == (len(mine), sum(mine))
    assert sum(one.kernels for one in found.lengths) == len(durations)
    assert found.lengths[0].label == "below 20.0 us"


def test_copies_by_direction_add_up(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    events = [
        {"ph": "X", "cat": "gpu_memcpy", "name": f"Memcpy {way} (Pageable -> Device)", "pid": 0, "tid": 7, "ts": at,
         "dur": dur, "args": {"device": 0, "stream": 7, "correlation": at} | ({"bytes": size} if size else {})}
        for way, at, dur, size in (("HtoD", 10, 2, 4_000), ("HtoD", 20, 6, 12_000), ("DtoH", 30, 5, None))
    ]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    found = ktrace.summary(path, by=["copy"]).answers["copy"]
    assert isinstance(found, CopiesAnswer)
    up, down = found.copies
    assert (up.direction, up.count, up.time, up.bytes) == ("HtoD", 2, 8_000, 16_000)
    assert (up.median, up.largest) == (8_000, 12_000)
    assert up.bandwidth == pytest.approx(16_000 / 8e-6)
    assert (down.direction, down.count, down.time, down.bytes, down.bandwidth) == ("DtoH", 1, 5_000, None, None)


def sequences(path: Path) -> list[KernelSequence]:
    found = ktrace.summary(path, by=["sequence"]).answers.get("sequence")
    assert found is None or isinstance(found, SequencesAnswer)
    return found.sequences if found else []


def stream_of(tmp_path: Path, *kernels: tuple[str, str, int, int]) -> Path:
    """A trace with kernels on a stream: name, operation, ts and dur in ns."""
    head = {"ktrace": "1.0"}
    rows = [
        {"record": "event", "source": "run", "id": place, "kind": "kernel", "name": name, "timing": "measured"}
        | {"operation": operation, "ts": ts, "dur": dur, "device": 0, "stream": 7}
        for place, (name, operation, ts, dur) in enumerate(kernels)
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [head, *rows]))
    return path


def test_light_kernels_between_heavy_ones_are_a_sequence(tmp_path: Path) -> None:
    path = stream_of(
        tmp_path,
        *(("mm", "gemm", 0, 90), ("rms", "norm", 100, 10), ("quant", "quantise", 115, 20), ("mm", "gemm", 140, 90)),
        *(("rms", "norm", 240, 11), ("quant", "quantise", 251, 21), ("mm", "gemm", 280, 90), ("rms", "norm", 400, 10)),
        *(("fa", "attention", 420, 50), ("add", "elementwise", 480, 5), ("add", "elementwise", 490, 5)),
    )
    assert sequences(path) == [KernelSequence(("rms", "quant"), 2, 62, 5), KernelSequence(("add", "add"), 1, 10, 5)]
    assert [one.label for one in sequences(path)] == ["rms → quant", "add x2"]


@pytest.mark.parametrize(
    "between", [("mm", "gemm", 20, 5), ("all_reduce", "collective", 20, 5), ("what", "other", 20, 5), None]
)
def test_there_is_no_sequence_over_heavy_work_or_a_pause(
    tmp_path: Path, between: tuple[str, str, int, int] | None
) -> None:
    after = 30 if between else 20 + PAUSE
    light = [("rms", "norm", 0, 10), ("add", "elementwise", after, 5)]
    assert not sequences(
        stream_of(tmp_path, *sorted([*light, *([between] if between else [])], key=lambda one: one[2]))
    )


def test_sequences_of_a_trace_add_up() -> None:
    """By the JSON itself: the light kernels that stand beside another one on their stream."""
    rows = ktrace.read(STEP).classify().to_arrow()["events"].to_pylist()
    streams: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["stream"] is not None and row["kind"] in ("kernel", "memcpy", "memset"):
            streams[row["stream"]].append(row)
    expected = 0
    for work in streams.values():
        work.sort(key=lambda row: row["ts"])
        light = [row["kind"] == "kernel" and row["operation"] in LIGHT for row in work]
        beside = [a and b for a, b in zip([False, *light], [*light, False], strict=True)]
        expected += sum(
            row["dur"] for row, one, *near in zip(work, light, beside, beside[1:], strict=False) if one and any(near)
        )
    assert sum(one.time for one in sequences(STEP)) == expected > 0
