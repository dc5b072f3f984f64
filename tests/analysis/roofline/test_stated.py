"""Figures that the source states: XLA's FLOPs and bytes, the counters of Nsight Compute."""

from __future__ import annotations

import json
from pathlib import Path

import ncu_pages
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.analysis.questions.roofline.answer import RooflineAnswer
from ktrace.analysis.questions.roofline.roofline import COUNTED, STATED

TPU = SAMPLES / "xplane/tpu-loop-sums-lines-backwards-since-1970.xplane.pb"


def answer(path: Path) -> RooflineAnswer:
    found = ktrace.summary(path, by=["roofline"]).answers["roofline"]
    assert isinstance(found, RooflineAnswer)
    return found


def test_xla(tmp_path: Path) -> None:
    found = answer(TPU)
    (item,) = found.items
    assert (item.name, item.precision, item.calls, item.time) == ("fusion.7", "bf16", 4, 6_500)
    assert (item.flops, item.bytes) == (3 * 16384 + 32768, 4 * 4096)
    assert found.notes == [STATED] and found.devices[0].flops_known == pytest.approx(100 * 6.5 / 8.5)
    ktrace.convert(TPU, tmp_path / "run.jsonl")  # the arguments as text
    assert answer(tmp_path / "run.jsonl").items == found.items


def details(path: Path, *kernels: tuple[str, dict[str, float]]) -> Path:
    """A page of raw metrics as ncu prints it with --csv --page raw."""
    names = sorted({name for _, metrics in kernels for name in metrics})
    units = {"gpu__time_duration.sum": "nsecond", "dram__bytes.sum": "byte"}
    lines = [
        [*ncu_pages.HEADS, *names],
        ["", "", "", "", "", "", "", "block", "block", "", "", *(units.get(n, "inst") for n in names)],
    ]
    for number, (kernel, metrics) in enumerate(kernels):
        place = [str(number), "7", "bench", "node7", kernel, "1", "7", "(128, 1, 1)", "(16, 1, 1)", "0", "8.0"]
        lines.append([*place, *(str(metrics.get(name, "")) for name in names)])
    ncu_pages.write(path, lines)
    return path


def test_counters_of_thread_instructions(tmp_path: Path) -> None:
    """An addition and a multiplication are one operation each, a fused multiplication and addition two."""
    words = {"fadd": 100, "fmul": 20, "ffma": 1000, "dadd": 1, "dmul": 0, "dfma": 2}
    counts = {f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum": count for name, count in words.items()}
    saxpy = ("saxpy", {"gpu__time_duration.sum": 2000, "dram__bytes.sum": 4096, **counts})
    gemm = ("sgemm_128", {"gpu__time_duration.sum": 3000, "dram__bytes.sum": 8192, **counts})
    tensor = {"sm__ops_path_tensor_src_bf16_dst_fp32.sum": 1e6}
    fast = ("bf16_gemm", {"gpu__time_duration.sum": 5000, "dram__bytes.sum": 100, **tensor, **counts})
    found = answer(details(tmp_path / "raw.csv", saxpy, gemm, fast))
    items = {item.name: item for item in found.items}
    threads = 100 + 20 + 2 * 1000 + 1 + 2 * 2
    assert (items["saxpy"].flops, items["saxpy"].bytes, items["saxpy"].precision) == (threads, 4096, "fp32")
    assert (items["sgemm_128"].flops, items["sgemm_128"].bytes) == (None, 8192)  # matrix units may have done it
    assert (items["bf16_gemm"].flops, items["bf16_gemm"].precision) == (threads + 1e6, "bf16")
    assert found.notes == [COUNTED]
    (device,) = found.devices
    assert (device.device.time, device.device.span, device.utilisation) == (10_000, None, None)
    assert device.flops_known == 70 and device.bytes_known == 100


def test_counters_that_were_joined_to_a_timeline(tmp_path: Path) -> None:
    """The rates by cycle and by second are over the time that Nsight Compute measured."""
    kernels = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 100 + 10 * number, "dur": 3 + number}
        | {"args": {"device": 0, "stream": 7, "correlation": number, "grid": [16, 1, 1], "block": [128, 1, 1]}}
        for number, name in enumerate(("saxpy", "saxpy", "fill"))
    ]
    (tmp_path / "run.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": kernels}))
    rates = {
        f"smsp__sass_thread_inst_executed_op_f{word}_pred_on.sum.per_cycle_elapsed": 2.0
        for word in ("add", "mul", "fma")
    }
    counters = {"gpu__time_duration.sum": 2000, "smsp__cycles_elapsed.avg.per_second": 1e9} | rates
    path = details(tmp_path / "raw.csv", *[("saxpy", counters | {"dram__bytes.sum": 4096.0})] * 2)
    found = ktrace.summary(tmp_path / "run.json", by=["roofline"], metrics=path).answers["roofline"]
    assert isinstance(found, RooflineAnswer)
    (item,) = found.items
    assert (item.calls, item.time, item.bytes) == (2, 3_000 + 4_000, 2 * 4096)
    assert item.flops == pytest.approx(2 * (2 + 2 + 2 * 2) * 2000)  # two launches of 2,000 cycles each
    assert found.notes == [COUNTED] and found.devices[0].flops_known == pytest.approx(100 * 7 / 12)


def test_launches_without_counters_are_not_an_answer() -> None:
    found = ktrace.summary(SAMPLES / "ncu/printed-details-all-cells-over-lines.txt", by=["roofline"])
    assert all(item.bytes is not None or item.flops is not None for one in found.answers.values() for item in one.items)
