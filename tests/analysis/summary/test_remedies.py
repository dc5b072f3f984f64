"""Remedies: each is given where it holds, and absent where it doesn't."""

from __future__ import annotations

from pathlib import Path

import pytest
from idle_traces import Row, host, work, written

import ktrace
from ktrace.analysis.answers.summary.remedies import remedy
from ktrace.analysis.work.findings import Evidence, Finding

#: A part of a remedy -> what the host was in during long gaps where it holds.
BY_HOST = {
    "prefetch_factor": ["DataLoader.__next__", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"],
    "caching or pool allocator": ["cudaMalloc", "hipFree", "cudaHostAlloc", "cuMemCreate"],
    "CUDA_MODULE_LOADING": ["cuModuleLoadData", "cuLibraryLoadData", "hipModuleLoad"],
    "TORCH_LOGS=recompiles": [
        "TorchDynamo Cache Lookup",
        "compile_fx.<locals>.inductor",
        "_compile.compile_inner (dynamo_timed)",
        "torch/_dynamo/convert_frame.py(1100): _compile",
        "torch/_inductor/compile_fx.py(743): _compile_fx_inner",
        "torch/_inductor/scheduler.py(1970): __init__",
        "triton/compiler/compiler.py(226): compile",
        "torch/_inductor/runtime/triton_heuristics.py(1027): benchmark_all_configs",
        "compile_fx.<locals>.fw_compiler_base",
        "bw_compiler",
    ],
    "pinned memory": ["cudaMemcpy", "cudaMemcpyAsync", "hipMemcpyWithStream", "aten::copy_", "aten::_to_copy"],
    "no .item()": ["cudaStreamSynchronize", "aten::item", "aten::_local_scalar_dense", "aten::nonzero"],
    "fused=True": ["Optimizer.step#AdamW.step", "Optimizer.zero_grad#SGD.zero_grad"],
    "so that the host gets ahead": [
        "aten::mm",
        "cudaLaunchKernel",
        "AddmmBackward0",
        "autograd::engine::evaluate_function",
    ],
    "with_stack=True": ["ProfilerStep#N", "train_step", "training step", "", "no call or range", "forward"],
    "Shorten what the host does in": ["tokenise", "preprocess batch", "write_checkpoint", "aten_like", "copy_rows"],
}


def late(host_was_in: str, gaps: int = 10, value: int = 100_000_000, look: int | None = 1) -> Finding:
    details = {"cause": "host late", "gaps": gaps, "host_was_in": host_was_in, "host_time_ns": value}
    return Finding("idle.host_late", "time", value, "ns", 2 * value, "", look=look, details=details)


@pytest.mark.parametrize("formats", [("xplane",), ("xprof-json",), ("xplane", "kineto"), ("kineto",), ()])
def test_a_late_host_of_jax_is_told_jax_options(formats: tuple[str, ...]) -> None:
    """Where another profiler's files are beside it, the general remedy is said."""
    is_jax = bool(formats) and all(name.startswith("xp") for name in formats)
    long, short = late(""), late("", value=10 * 1000)
    for one, of_torch, of_jax in ((long, "with_stack=True", "TraceAnnotation"), (short, "torch.compile", "jax.jit")):
        said = remedy(one, formats=formats)
        assert (of_torch in said, of_jax in said) == (not is_jax, is_jax)


@pytest.mark.parametrize("formats", [("nsys",), ("rocprofv3", "rpd"), ("nsys", "kineto"), ("kineto",)])
def test_programs_in_any_language_are_told_more_than_options_of_torch(formats: tuple[str, ...]) -> None:
    is_any = "kineto" not in formats
    for one in (late(""), late("", value=10 * 1000), late("cudaMemcpy"), late("cudaStreamSynchronize")):
        said = remedy(one, formats=formats)
        assert said and ("(in PyTorch: " in said or "NVTX or ROCTX" in said) is is_any, said
    assert remedy(late("cudaMalloc"), formats=formats) == remedy(late("cudaMalloc"))


@pytest.mark.parametrize("words", BY_HOST)
def test_a_remedy_is_that_of_what_the_host_was_in(words: str) -> None:
    for name in BY_HOST[words]:
        said = remedy(late(name))
        assert words in said, (name, said)
        assert not any(other in said for other in BY_HOST if other != words), (name, said)
        assert "#N" not in said and said.endswith(".")
    assert not any(remedy(late(name, look=None)) for name in BY_HOST[words]), "nothing that needn't be looked at"


@pytest.mark.parametrize(
    "name",
    [
        "/tmp/torchinductor_root/ov/cov46.py(2533): call",
        "## Call CompiledFxGraph fal4x ##",
        "Torch-Compiled Region: 0/1",
        "torch/_inductor/runtime/triton_heuristics.py(1283): run",
        "torch/_inductor/cudagraph_trees.py(2008): run",
    ],
)
def test_compiled_code_that_runs_is_not_being_compiled(name: str) -> None:
    assert remedy(late(name)).startswith("Launch less often")


@pytest.mark.parametrize(
    "name",
    [
        "torch/_compile.py(41): inner",
        "torch/_dynamo/eval_frame.py(791): compile_wrapper",
        "torch/_inductor/compile_fx.py(1777): static_input",
        "triton/compiler/compiler.py(487): launch_metadata",
        "torch/_inductor/runtime/autotune_cache.py(487): end_compile",
        "flashinfer/autotuner.py(400): choose_one",
    ],
)
def test_what_every_call_of_compiled_code_passes_is_no_compilation(name: str) -> None:
    assert "recompiles" not in remedy(late(name))


@pytest.mark.parametrize("name", ["aten::mm", "aten::copy_", "cudaMemcpyAsync", "ProfilerStep#N", "tokenise", ""])
def test_short_gaps_come_from_launches(name: str) -> None:
    assert remedy(late(name, gaps=10_000)).startswith("Launch less often")
    assert not remedy(late(name)).startswith("Launch less often")


@pytest.mark.parametrize(
    ("formats", "words"),
    [
        (("rocprofv3",), "rocprofv3 --sys-trace"),
        (("rocprof", "rocpd"), "rocprofv3 --sys-trace"),
        (("ascend-json",), "torch_npu.profiler"),
        (("tenstorrent",), "python -m tracy"),
        (("webllm",), "Performance panel"),
        (("kineto",), "nsys profile"),
        (("rocprofv3", "nsys"), "nsys profile"),
        ((), "nsys profile"),
    ],
)
def test_how_to_record_the_host_is_what_the_profiler_of_that_maker_does(formats: tuple[str, ...], words: str) -> None:
    for code in ("idle", "idle.unknown"):
        said = remedy(Finding(code, "time", 10, "ns", 20, "", look=1), formats=formats)
        makers = ("rocprofv3", "torch_npu", "tracy", "nsys", "DevTools")
        assert words in said and sum(maker in said for maker in makers) == 1


@pytest.mark.parametrize(("recorded", "words"), [(True, "no known call launched"), (False, "Record host calls, too")])
def test_calls_that_are_recorded_are_not_asked_for(recorded: bool, words: str) -> None:
    for formats in (("kineto",), ("rocprofv3",), ("tenstorrent",), ()):
        one = Finding("idle.unknown", "time", 10, "ns", 20, "", details={"host_recorded": recorded}, look=1)
        said = remedy(one, formats=formats)
        assert ("no known call launched" in said) == recorded
        assert words in said or formats in (("rocprofv3",), ("tenstorrent",))


#: The code of a finding -> a part of its remedy.
BY_CODE = {
    "idle.host_synchronised": "no .item()",
    "idle.dependency": "--by wait",
    "idle.launch_overhead": "Launch less often",
    "idle.between_graph_nodes": "Fuse small nodes",
    "idle.setup": "run a warm-up",
    "idle.unknown": "ProfilerActivity.CPU",
    "idle": "ProfilerActivity.CPU",
    "exposed.communication": "start collectives as soon as",
    "exposed.copies": "pinned memory",
    "straggler": "ktrace diff",
    "outside": "Prepare the next step's input",
    "heaviest.operation": "--by roofline",
}


@pytest.mark.parametrize("code", BY_CODE)
def test_a_remedy_is_that_of_its_finding(code: str) -> None:
    assert BY_CODE[code] in remedy(Finding(code, "time", 10**9, look=1))
    others = [one for one in BY_CODE if BY_CODE[one] != BY_CODE[code]]
    assert not any(BY_CODE[code] in remedy(Finding(one, "time", 10**9, look=1)) for one in others)
    assert not remedy(Finding(code, "time", 10**9))


#: The copies that were longest -> a part of the remedy.
BY_COPIES = {
    ("Memcpy HtoD (Pinned -> Device)",): "is pinned, so that it can",
    ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"): "copies of pageable memory block",
    ("Memcpy DtoH (Device -> Pinned)", "Memcpy HtoD (Pageable -> Device)"): "to and from the host use pinned memory",
    ("Memcpy DtoD (Device -> Device)", "[CUDA memcpy Device-to-Device]"): "Avoid copies within the device",
    ("MEMORY_COPY_DEVICE_TO_DEVICE",): "Avoid copies within the device",
    ("[CUDA memcpy HtoD]",): "to and from the host use pinned memory",
    (): "to and from the host use pinned memory",
}


@pytest.mark.parametrize("names", BY_COPIES)
def test_copies_are_told_what_their_memory_needs(names: tuple[str, ...]) -> None:
    rows = [Evidence("run", None, name, 0, 10, 10) for name in names]
    for launches in (1, 1_000):
        said = remedy(Finding("exposed.copies", "time", 10, look=1, evidence=rows), launches=launches)
        assert [words for words in {*BY_COPIES.values()} if words in said] == [BY_COPIES[names]]
        assert "Copy on a separate stream while kernels run" in said


@pytest.mark.parametrize(
    "code", ["busy", "no_compute", "idle.queued_before_the_recording", "unsteady.shift", "memory.peak"]
)
def test_what_nothing_general_can_be_done_about_has_none(code: str) -> None:
    assert not remedy(Finding(code, "time", 10**9, look=1))


def _stepping(pause: int) -> list[Row]:
    """Steps in which the host does something between launches, outside of all operators, for so many ns."""
    rows: list[Row] = []
    now = 0
    for step in range(4):
        begin = now
        for at in range(5):
            number = 10 * step + at + 1
            rows.append(host("cudaLaunchKernel", now, now + 3_000, number))
            rows.append(work("gemm", now + 6_000, now + 206_000, number))
            now += 206_000 + pause
        rows.append(host(f"ProfilerStep#{step}", begin, now, kind="range"))
    return rows


@pytest.mark.parametrize(
    ("pause", "words"), [(2_000_000, "your own code between the operators"), (60_000, "Launch less")]
)
def test_a_step_is_no_call_to_shorten(pause: int, words: str, tmp_path: Path) -> None:
    summary = ktrace.summary(written(tmp_path / "run.jsonl", _stepping(pause)), by=["idle"])
    first = next(one for one in summary.findings if one.look == 1)
    assert first.code == "idle.host_late" and words in first.remedy
    assert not any("ProfilerStep" in one.remedy for one in summary.findings)


def _alone(launches: int, step: bool) -> list[Row]:
    """A few kernels after the host has prepared something for as long as they take."""
    name = "ProfilerStep#3" if step else "main"
    rows, now = [host(name, 0, 110_000 * launches + 100_000, kind="range")], 100_000 * launches
    rows.append(host("aten::mm", 1_000, now - 1_000, kind="op"))
    for at in range(launches):
        rows += [host("cudaLaunchKernel", now, now + 3_000, at + 1), work("gemm", now + 6_000, now + 16_000, at + 1)]
        now += 10_000
    return rows


@pytest.mark.parametrize(("launches", "said"), [(1, False), (9, False), (10, True), (40, True)])
def test_a_few_launches_show_no_pattern(launches: int, said: bool, tmp_path: Path) -> None:
    summary = ktrace.summary(written(tmp_path / "run.jsonl", _alone(launches, step=True)), by=["idle"])
    first = next(one for one in summary.findings if one.look == 1)
    assert first.code == "outside" and bool(first.remedy) == said
    assert any("Prepare the next step's input" in line for line in summary.advice) == said


def test_a_recording_without_steps_has_no_next_one(tmp_path: Path) -> None:
    summary = ktrace.summary(written(tmp_path / "run.jsonl", _alone(40, step=False)), by=["idle"])
    first = next(one for one in summary.findings if one.look == 1)
    assert first.code == "outside" and not first.remedy


@pytest.mark.parametrize("code", BY_CODE)
def test_what_needs_no_pattern_is_said_of_one_launch_too(code: str) -> None:
    said = {
        "idle",
        "idle.unknown",
        "idle.dependency",
        "idle.setup",
        "straggler",
        "exposed.copies",
        "heaviest.operation",
    }
    one = Finding(code, "time", 10**9, look=1)
    assert bool(remedy(one, launches=9)) == (code in said)
    assert remedy(one, launches=10) == remedy(one, launches=None) == remedy(one)


#: What the heaviest kernels are called -> a part of the remedy.
BY_KERNEL = {
    ("Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_32x3_nn_align2>",): "multiples of 16 bytes",
    (
        "cutlass_75_tensorop_h1688gemm_256x64_nt_align4",
        "cutlass_80_tensorop_f16_s16816gemm_tn_align1",
    ): "multiples of 16",
    ("cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align2",): "multiples of 16 bytes",
    ("ampere_sgemm_128x64_tn", "cutlass_80_simt_sgemm_128x128_8x4_nn_align1"): "TF32",
    ("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_32x5_nn_align8",): "--by roofline",
    ("cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4",): "--by roofline",
    ("cutlass_80_tensorop_i16832gemm_s8_128x128_64x3_tn_align8",): "--by roofline",
    ("cutlass_80_tensorop_bf16_s16816gemm_bf16_nn_align2", "sm90_xmma_gemm_bf16bf16_bf16f32"): "--by roofline",
    ("volta_sgemm_128x64_nn",): "--by roofline",
    (): "--by roofline",
}


@pytest.mark.parametrize("names", BY_KERNEL)
def test_products_are_told_what_tensor_cores_need(names: tuple[str, ...]) -> None:
    rows = [Evidence("run", None, name, 0, 10, 10) for name in names]
    assert BY_KERNEL[names] in remedy(Finding("heaviest.operation", "time", 10, look=1, evidence=rows))
    assert not any(words in remedy(late(one)) for one in names for words in BY_KERNEL.values())


def _then(pauses: list[int], name: str, *, waits: bool = False) -> list[Row]:
    """Twelve launches of which each is followed by a range of the host that takes so long, and maybe by a wait."""
    rows: list[Row] = []
    now = 0
    for number, pause in enumerate(pauses, 1):
        rows.append(host("cudaLaunchKernel", now, now + 3_000, number))
        rows.append(work("gemm", now + 6_000, now + 206_000, number))
        if waits:
            rows.append(host("cudaStreamSynchronize", now + 4_000, now + 208_000))
        rows.append(host(name, now + 208_000, now + 208_000 + pause, kind="range"))
        now += 208_000 + pause
    return rows


@pytest.mark.parametrize(
    ("name", "words"), [("enumerate(DataLoader)#0.__next__", "more workers"), ("log", "no .item()")]
)
def test_what_the_host_does_after_a_sync_point_is_what_to_change(name: str, words: str, tmp_path: Path) -> None:
    rows = _then([150_000] * 12, name, waits=True)
    first = next(one for one in ktrace.summary(written(tmp_path / "run.jsonl", rows), by=["idle"]).findings if one.look)
    assert first.code == "idle.host_synchronised" and words in first.remedy


@pytest.mark.parametrize(("longest", "said"), [(50_000_000, True), (500_000, False)])
def test_one_gap_that_is_most_of_the_time_is_no_pattern(longest: int, said: bool, tmp_path: Path) -> None:
    rows = _then([*([400_000] * 6), longest, *([400_000] * 5)], "log")
    findings = ktrace.summary(written(tmp_path / "run.jsonl", rows), by=["idle"]).findings
    late = next(one for one in findings if one.code == "idle.host_late")
    assert late.look and late.remedy and ("one gap of 50.0 ms" in late.remedy) == said


@pytest.mark.parametrize(("first_takes", "warm_up"), [(40_000_000, True), (600_000, False)])
def test_a_warm_up_is_no_input_to_prepare(first_takes: int, warm_up: bool, tmp_path: Path) -> None:
    rows: list[Row] = []
    now = 0
    for step in range(8):
        begin = now
        now += 600_000 if step else first_takes
        for at in range(4):
            number = 10 * step + at + 1
            rows += [host("cudaLaunchKernel", now, now + 3_000, number)]
            rows += [work("gemm", now + 6_000 + 50_000 * at, now + 54_000 + 50_000 * at, number)]
            now += 3_000
        now += 200_000
        rows.append(host(f"ProfilerStep#{step}", begin, now, kind="range"))
    findings = ktrace.summary(written(tmp_path / "run.jsonl", rows), by=["idle"]).findings
    outside = next(one for one in findings if one.code == "outside")
    assert ("Record steps after the first one" in outside.remedy) == warm_up
    assert bool(outside.details.get("warm_up")) == warm_up
