"""Roofline: which operator work belongs to, rates, roofs and what isn't known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.analysis.questions.roofline.answer import RooflineAnswer, RooflineRate

SHAPES = SAMPLES / "kineto/shapes-of-products-attention-copies.json"
BF16 = "c10::BFloat16"


def answer(path: Path, **options: Any) -> RooflineAnswer:
    found = ktrace.summary(path, by=["roofline"], **options).answers["roofline"]
    assert isinstance(found, RooflineAnswer)
    return found


def by_key(rates: list[RooflineRate]) -> dict[str, RooflineRate]:
    return {one.key: one for one in rates}


def test_the_sample() -> None:
    """FLOPs and bytes by hand; H100 SXM: 989.5 TFLOP/s in bf16, 494.5 in TF32, 3,350 GB/s."""
    found = answer(SHAPES)
    rates = by_key(found.operators)
    side, square = 4096, 4096 * 4096
    addmm = rates["aten::addmm"]
    assert (addmm.time, addmm.calls, addmm.kernels) == (201_000, 1, 2)  # with the memset in it
    assert addmm.flops == 2 * side**3 and addmm.bytes == 2 * (side + 3 * square)
    assert addmm.tflops == pytest.approx(2 * side**3 / 201e-6 / 1e12)
    assert addmm.bound == "compute" and addmm.reached == pytest.approx(100 * addmm.tflops / 989.5)
    flash = rates["aten::_flash_attention_forward"]
    assert flash.flops == 4 * 8 * 32 * 512 * 512 * 128 / 2
    assert flash.bound == "memory" and flash.reached == pytest.approx(
        100 * (4 * 2 * 8 * 512 * 32 * 128) / 60e-6 / 3350e9
    )
    mm = rates["aten::mm"]
    assert mm.item is not None and mm.item.precision == "tf32"  # the kernel's name tells it
    assert mm.of_compute == pytest.approx(100 * 2 * 1024**3 / 12e-6 / 494.5e12)
    assert rates["aten::cudnn_convolution"].flops == 2 * 8 * 56 * 56 * 64 * 64 * 9
    assert rates["aten::copy_"].gb_per_s == pytest.approx(square * (2 + 4) / 40e-6 / 1e9)
    assert rates["aten::copy_"].tflops is None and rates["aten::copy_"].calls == 1  # without the one from the host
    assert rates["aten::native_layer_norm"].bytes == 2 * (2 * square + 2 * side)
    assert "mine::rotate" not in rates and "aten::linear" not in rates
    assert [one.key for one in found.operations][:2] == ["gemm", "attention"]


def test_the_device_of_the_sample() -> None:
    (device,) = answer(SHAPES).devices
    known = 201_000 + 60_000 + 12_000 + 10_000 + 8_000 + 30_000 + 40_000
    whole = known + 90_000 + 15_000 + 7_000
    assert device.device.time == whole and device.device.span == 537_000 and device.device.unlaunched == 7_000
    assert device.flops_known == device.bytes_known == pytest.approx(100 * known / whole)
    shortest = (2 * 4096**3 + 4 * 8 * 32 * 512 * 512 * 128 / 2 + 2 * 8 * 56 * 56 * 64 * 64 * 9) / 989.5e12
    shortest += 2 * 1024**3 / 494.5e12
    assert device.utilisation == pytest.approx(100 * shortest / 537e-6)


def test_operations_are_the_sums_of_their_operators() -> None:
    found = answer(SHAPES)
    for rate in found.operations:
        mine = [one for one in found.operators if one.item is not None and one.item.operation == rate.key]
        assert rate.time == sum(one.time for one in mine) and rate.flops == sum(one.flops for one in mine)
        assert rate.best == pytest.approx(sum(max(one.computing, one.moving) for one in mine))
    tables = {table.name: table for table in found.tables(3, brief=True)}
    rows = {row[0]: row for row in tables["roofline"].rows}
    assert rows["cost not known"][1] == 105_000 and rows["launch not known"][1] == 7_000
    assert sum(float(row[2]) for row in rows.values()) == pytest.approx(100)
    assert len(tables["roofline by operator"].rows) == 3 and tables["roofline by operator"].more == 4


def test_the_same_from_records(tmp_path: Path) -> None:
    """Canonical outputs have the arguments as JSON text."""
    for name in ("run.parquet", "run.jsonl"):
        ktrace.convert(SHAPES, tmp_path / name)
        assert answer(tmp_path / name).items == answer(SHAPES).items


def test_a_part_of_a_trace() -> None:
    only = ktrace.summary(SHAPES, by=["roofline"], filter=ktrace.Filter(names=["nvjet*"])).answers["roofline"]
    assert isinstance(only, RooflineAnswer)
    assert [(item.name, item.time) for item in only.items] == [("aten::addmm", 200_000)]


def trace(path: Path, *events: dict[str, Any], device: str = "NVIDIA H100 80GB HBM3") -> Path:
    path.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": device}], "traceEvents": [*events]}))
    return path


def op(name: str, ts: float, dur: float, *shapes: list[int], tid: int = 1) -> dict[str, Any]:
    args = {"Input Dims": [*shapes], "Input type": [BF16] * len(shapes)}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launched(number: int, ts: float, dur: float, tid: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": tid, "ts": ts, "dur": 1}
    kernel = {"ph": "X", "cat": "kernel", "name": f"gemm_{number}", "pid": 0, "tid": 7, "ts": 100 * number, "dur": dur}
    place = {"device": 0, "stream": 7, "correlation": number}
    return call | {"args": {"correlation": number}}, kernel | {"args": place}


def test_flops_count_once(tmp_path: Path) -> None:
    """Both the outer and the inner product have work of their own: the inner one has the FLOPs."""
    events = [op("aten::linear", 10, 50, [8, 64], [32, 64]), op("aten::mm", 20, 10, [8, 64], [64, 32])]
    path = trace(tmp_path / "nested.json", *events, *launched(1, 12, 3), *launched(2, 22, 5))
    (item,) = answer(path).items
    assert (item.name, item.time, item.flops) == ("aten::mm", 5_000, 2 * 8 * 64 * 32)


def test_work_belongs_to_the_operator_on_the_thread_of_its_call(tmp_path: Path) -> None:
    events = [op("aten::mm", 10, 50, [8, 64], [64, 32]), op("aten::mm", 10, 50, [8, 8], [8, 8], tid=2)]
    work = [*launched(1, 12, 3), *launched(2, 14, 4, tid=2), *launched(3, 30, 9), *launched(4, 70, 11)]
    found = {
        item.shapes: (item.calls, item.kernels, item.time)
        for item in answer(trace(tmp_path / "two.json", *events, *work)).items
    }
    assert found == {"8x64, 64x32": (1, 2, 12_000), "8x8, 8x8": (1, 1, 4_000)}


def test_without_shapes_there_is_no_answer(tmp_path: Path) -> None:
    path = trace(tmp_path / "none.json", op("mine::op", 10, 50, [8]), *launched(1, 12, 3))
    found = ktrace.summary(path, by=["roofline"])
    assert found.answers == {}
    assert any(note.startswith("This input has no roofline information. The roofline needs") for note in found.notes)
    dims_alone = ktrace.summary(SAMPLES / "kineto/one-step-of-training.pt.trace.json", by=["roofline"])
    assert dims_alone.answers == {}


def test_an_unknown_device_has_rates_but_no_roof(tmp_path: Path) -> None:
    path = trace(tmp_path / "x.json", op("aten::mm", 10, 50, [8, 64], [64, 32]), *launched(1, 12, 3), device="Mine 7")
    found = answer(path)
    (rate,) = found.operations
    assert rate.tflops == pytest.approx(2 * 8 * 64 * 32 / 3e-6 / 1e12)
    assert rate.bound is rate.reached is rate.of_compute is None
    assert found.devices[0].utilisation is None and found.devices[0].peak is None
    assert found.tables()[0].notes[-1] == "No peak rates are known for Mine 7; --peaks FILE adds them."
    peaks = tmp_path / "peaks.json"
    mine = {"name": "^mine", "tflops": {"bf16": 0.02}, "gb_per_s": 1000}
    peaks.write_text(json.dumps({"ktrace_peaks": "1.0", "devices": [mine]}))
    (rate,) = answer(path, peaks=peaks).operations
    assert rate.bound == "compute" and rate.reached == pytest.approx(100 * rate.flops / 0.02e12 / 3e-6)


_BATCH = "execute_6_context_1(sq4sk6sqsq16sqsk24)_generation_2(sq2sk14sqsq2sqsk14)"
_PAIRS = 2 * (24 + 14) - (16 + 2)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("vllm::unified_attention_with_output", ([8, 4, 16], [8, 2, 16], [8, 2, 16], [8, 4, 16])),
        ("sglang_profiler::attention_paged_attention_ragged_7", ([8, 4, 16], [99], [8, 4, 16], *[[99, 1, 2, 16]] * 2)),
    ],
)
def test_attention_over_a_cache_has_the_lengths_of_its_batch(tmp_path: Path, name: str, shapes: Any) -> None:
    """Six tokens of eight are real: 4 heads, 2 of keys and values, of 16 bf16 each; 20 tokens of the cache are read."""
    work = [op(name, 10, 50, *shapes), *launched(1, 12, 3)]
    batch = {"ph": "X", "cat": "user_annotation", "name": _BATCH, "pid": 1, "tid": 1, "ts": 5, "dur": 90}
    found = answer(trace(tmp_path / "with.json", batch, *work))
    (item,) = found.items
    assert item.flops == 2 * 2 * 16 * 4 * _PAIRS / 2
    assert item.bytes == 2 * (6 * 4 * 16 + 6 * 4 * 16 + 20 * 2 * 16 + 20 * 2 * 16)
    assert any("as if each token saw all before it" in note for note in found.notes)
    assert not any("don't state" in note for note in found.notes)
    without = answer(trace(tmp_path / "without.json", *work))
    (item,) = without.items
    assert (item.operation, item.flops, item.bytes, item.time) == ("attention", None, None, 3_000)
    assert any(
        note.startswith("3.00 us of attention has no FLOPs: its arguments don't state") for note in without.notes
    )
    assert not any("as if each token" in note for note in without.notes)
    other = batch | {"name": _BATCH.replace("sq4sk6sqsq16", "sq40sk60sqsq16")}  # more tokens than the query has
    (item,) = answer(trace(tmp_path / "other.json", other, *work)).items
    assert item.flops is None


def test_experts_have_two_products_for_each_choice(tmp_path: Path) -> None:
    """Five tokens take 2 of 8 experts each: 32 to twice 24, then 24 to 32."""
    inputs = [5, 32], [8, 48, 32], [8, 32, 24], [5, 2], [5, 2]
    work = [op("vllm::inplace_fused_experts", 10, 50, *inputs), *launched(1, 12, 3)]
    found = answer(trace(tmp_path / "experts.json", *work))
    (item,) = found.items
    assert (item.operation, item.flops, item.bytes) == ("gemm", 2 * 5 * 2 * (32 * 48 + 24 * 32), None)
    assert not any("of experts has no FLOPs" in note for note in found.notes)
    found = answer(
        trace(tmp_path / "whole.json", op("vllm::moe_forward", 10, 50, [5, 32], [5, 8]), *launched(1, 12, 3))
    )
    assert any(note.startswith("3.00 us of experts has no FLOPs: its arguments state neither") for note in found.notes)
