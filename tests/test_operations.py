"""How much of the kernel time of real traces has an operation; and that names of known kernels say what they are.

`python -m pytest tests/test_operations.py -s` prints the table that docs/operations.md has.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT, SHARED, seed_path
from real_traces import at_hand

import ktrace

#: The share of kernel time that must have an operation, in percent.
ENOUGH = 95

#: Real traces with kernels. Not here: those without any, and MTIA's, whose kernels are called merge, pe_exe and remote.
CORPUS = [
    "pytorch_kineto/backward_thread.json",
    "pytorch_kineto/event_sync_trace.json.gz",
    "pytorch_kineto/gpu_metrics_input.json",
    "pytorch_kineto/gpu_only_trace.json.gz",
    "pytorch_kineto/graph_execution.json.gz",
    "pytorch_kineto/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "pytorch_kineto/nccl_data.json.gz",
    "pytorch_kineto/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "pytorch_kineto/sglang_Qwen3-8B_decode.json.gz",
    "pytorch_kineto/triton_example.json.gz",
    "pytorch_kineto/worker0.1623143089861.pt.trace.json.gz",
    "nsys_sqlite/h100_2gpu_1s.sqlite",
    "nsys_sqlite/mock.sqlite",
    "nsys_sqlite/saxpy-mpi-cuda_nsys_perlmutter0.sqlite",
    "nvprof/gputrace_reduction.csv",
    "nvprof/radixSortThrust_trace.csv",
    "rocprofv3/counter_collection.csv",
    "rocprofv3/kernel_trace.csv",
    "rocprof_v1_v2/MI100_timestamps.csv",
    "rpd/matmul_result.json",
    "rpd/matmul_result.rpd",
    "intel_unitrace/dpc_gemm_linux_d.txt",
]

#: The same for the library, where the kernels are those of one and not of the program itself.
OF_LIBRARIES = re.compile(r"kineto|h100|rpd/|radix")

Shares = tuple[int, dict[str, float], Counter[str]]


def kernels(path: Path) -> list[tuple[str | None, str | None, str | None, float]]:
    """Operation, library, precision and weight of each kernel: its time, without times its share of the cycle."""
    trace = ktrace.read(path).classify()
    columns = ["operation", "library", "precision"]
    events = trace.events.query("kind == 'kernel'")
    if len(events):
        rows = events[[*columns, "dur"]]
    else:
        mine = trace.summaries.query("kind == 'kernel'")
        timed = mine[(mine["metric"] == "duration") & mine["total"].notna()]
        shared = mine[mine["metric"] == "gpu_usage"]
        rows = timed[[*columns, "total"]] if len(timed) else shared[[*columns, "percent"]]
    plain = rows.astype(object).where(rows.notna(), None)
    return [tuple(row) for row in plain.values.tolist()]


def shares(path: Path) -> Shares:
    """Number of kernels, percent of the weight that has each column, and the weight of each operation."""
    rows = kernels(path)
    whole = sum(row[3] or 0 for row in rows)
    assert whole > 0
    said = {
        column: 100 * sum(row[3] or 0 for row in rows if row[place]) / whole
        for place, column in enumerate(("operation", "library", "precision"))
    }
    weights: Counter[str] = Counter()
    for operation, _, _, weight in rows:
        weights[operation or "other"] += 100 * (weight or 0) / whole
    return len(rows), said, weights


def told(name: str, found: Shares) -> str:
    count, said, weights = found
    most = ", ".join(f"{word} {share:.0f}" for word, share in weights.most_common(4) if share >= 0.5)
    percents = " | ".join(f"{said[column]:.1f}" for column in said)
    return f"| {name} | {count:,} | {percents} | {most} |"


@pytest.mark.parametrize("number", range(5))
def test_the_seeds(number: int) -> None:
    path = seed_path(number)
    if path is None:
        pytest.skip("the seeds are not at hand (../shared/seeds)")
    found = shares(path)
    print(told(f"seed {number:03}", found))
    assert found[1]["operation"] >= ENOUGH
    assert found[1]["library"] >= ENOUGH


@pytest.mark.parametrize("name", CORPUS)
def test_real_traces(name: str) -> None:
    found = shares(at_hand(SHARED / "corpus" / name))
    print(told(name.partition("/")[2], found))
    assert found[1]["operation"] >= ENOUGH
    if OF_LIBRARIES.search(name):
        assert found[1]["library"] >= ENOUGH


def test_the_page_has_a_row_for_each() -> None:
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    for name in (*(f"seed {number:03}" for number in range(5)), *(name.partition("/")[2] for name in CORPUS)):
        assert f"| {name} |" in page


#: Names in the manner of each library: operation, library, precision.
KNOWN: dict[str, tuple[str | None, str | None, str | None]] = {
    "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_nn": ("gemm", "cuBLAS", "fp16"),
    "volta_dgemm_64x64_nt": ("gemm", "cuBLAS", "fp64"),
    "nvjet_hsh_128x64_64x8_2x1_v_bz_NNT": ("gemm", "cuBLAS", "fp16"),
    "nvjet_qqtst_128x64_128x6_1x2_h_bz_TNT": ("gemm", "cuBLAS", "fp8"),
    "void gemv2T_kernel_val<int, int, __half, __half, __half, float, 128, 16>(P)": ("gemm", "cuBLAS", "fp16"),
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(P)": ("gemm", "cuBLAS", "bf16"),
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x1_tn_align8>(P)": (
        "gemm",
        "CUTLASS",
        "bf16",
    ),
    "cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4": ("gemm", "CUTLASS", "tf32"),
    "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, cutlass::half_t>>(Flash_fwd_params)": (
        "attention",
        "FlashAttention",
        "fp16",
    ),
    "void pytorch_flash::flash_bwd_convert_dq_kernel<X>(P)": ("attention", "ATen", None),
    "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::P)": ("attention", "ATen", "fp16"),
    "void flashinfer::AppendPagedKVCacheKernel<128u, __half>(P)": ("kv-cache", "FlashInfer", "fp16"),
    "void flashinfer::sampling::TopPRenormProbKernel<1024u>(float*)": ("sampling", "FlashInfer", "fp32"),
    "void vllm::paged_attention_v2_kernel<uint16_t, uint8_t, 128, 16, (vllm::Fp8KVCacheDataType)1>(P)": (
        "attention",
        "vLLM",
        "fp8",
    ),
    "void vllm::reshape_and_cache_kernel<__half, __half>(P)": ("kv-cache", "vLLM", "fp16"),
    "void vllm::rms_norm_kernel<c10::Half>(P)": ("norm", "vLLM", "fp16"),
    "void vllm::act_and_mul_kernel<c10::BFloat16>(P)": ("activation", "vLLM", "bf16"),
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(P)": ("collective", "vLLM", None),
    "void vllm::moe::topkGatingSoftmax<4, 64>(float const*)": ("moe", "vLLM", "fp32"),
    "fused_moe_kernel": ("gemm", "Triton", None),
    "void marlin::Marlin<256, 1, 8, 8, 4, 8>(int4 const*)": ("gemm", "Marlin", None),
    "void deep_gemm::fp8_gemm_kernel<512u>(P)": ("gemm", "DeepGEMM", "fp8"),
    "triton_poi_fused_add_mul_3": ("elementwise", "Triton", None),
    "triton_red_fused__to_copy_mean_pow_rsqrt_2": ("norm", "Triton", None),
    "triton_per_fused__to_copy_sum_2": ("reduction", "Triton", None),
    "triton_poi_fused__to_copy_add_mul_7": ("elementwise", "Triton", None),
    "triton_poi_fused__to_copy_7": ("copy", "Triton", None),
    "triton_per_fused__softmax_5": ("softmax", "Triton", None),
    "triton_red_fused_native_layer_norm_1": ("norm", "Triton", None),
    "triton_tem_fused_addmm_0": ("gemm", "Triton", None),
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(P)": ("norm", "ATen", "fp32"),
    "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4>(P)": (
        "random",
        "ATen",
        "fp32",
    ),
    "void at::native::(anonymous namespace)::upsample_bilinear2d_out_frame<float>(P)": ("resample", "ATen", "fp32"),
    "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(P)": ("sort", "ATen", "fp32"),
    "void at::native::(anonymous namespace)::embedding_backward_kernel<float>(P)": (
        "embedding",
        "ATen",
        "fp32",
    ),
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>>(P)": (
        "optimizer",
        "Apex",
        "fp32",
    ),
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": ("collective", "NCCL", None),
    "void cub::DeviceSegmentedReduceKernel<P>(float*)": ("reduction", "CUB", "fp32"),
    "void cub::DeviceRadixSortOnesweepKernel<P, at::native::X>(P)": ("sort", "CUB", None),
    "Cijk_Alik_Bljk_HHS_BH_MT128x128x16_SE": ("gemm", "Tensile", "fp16"),
    "Cijk_Ailk_Bljk_DB_MT64x64x16_SE": ("gemm", "Tensile", "fp64"),
    "void ck::kernel_gemm_xdl_cshuffle_v3<P, _Float16>(P)": ("gemm", "CK", "fp16"),
    "MIOpenBatchNormFwdTrainSpatial": ("norm", "MIOpen", None),
    "naive_conv_ab_nonpacked_fwd_nchw_half_double_half.kd": ("conv", "MIOpen", "fp16"),
    "batched_transpose_32x32_half": ("transpose", "MIOpen", None),
    "steel_gemm_fused_nt_bfloat16_bfloat16_bm64": ("gemm", "MLX", "bf16"),
    "kernel_mul_mv_q4_0_f32": ("gemm", "ggml", "q4_0"),
    "void mul_mat_vec_q<(ggml_type)2, 1>(void const*)": ("gemm", "ggml", None),
    "NT_matmul7_kernel_2": ("gemm", "TVM", None),
    "fused_dequantize3_NT_matmul12_kernel": ("gemm", "TVM", None),
    "tir_kv_cache_transpose_append_kernel": ("kv-cache", "TVM", None),
    "batch_prefill_paged_kv_kernel": ("attention", None, None),
    "prefix_fill_paged_kv": ("kv-cache", None, None),
    "gemma3_rmsnorm": ("norm", None, None),
    "void GemmaFusedAddRMSNormKernel<8u, __half>(P)": ("norm", None, "fp16"),
    "selective_scan_fwd_kernel": ("ssm", None, None),
    "void regular_fft<256u, 8u>(P)": ("fft", "cuFFT", None),
    "per_token_group_quant_8bit_kernel": ("quantise", None, None),
    "log_softmax_cross_entropy_loss": ("loss", None, None),
    "Custom_Cijk_Alik_Bljk_BBS_BH_Bias_AS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_K1": ("gemm", "hipBLASLt", "bf16"),
    "Cijk_Alik_Bljk_4xi8BH_MT32x16x16_SN_1LDSB0": ("gemm", "Tensile", "int8"),
    "turing_fp16_s1688cudnn_fp16_256x128_ldg8_relu_f2f_exp_medium_nhwc_tn_v1": ("conv", "cuDNN", "fp16"),
    "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x64x128_warpgroupsize1x1x1": ("gemm", "cuBLAS", "fp8"),
    "void vllm::scaled_fp8_quant_kernel<c10::BFloat16>(c10::Float8_e4m3fn*)": ("quantise", "vLLM", "fp8"),
    "void mul_mat_q<(ggml_type)8, (int)128>(const char *)": ("gemm", "ggml", None),
    "quantize_mmq_q8_1": ("quantise", "ggml", "q8_1"),
    "void rope_norm<(bool)1, (bool)0, float>(const float *)": ("rope", "ggml", "fp32"),
    "void k_get_rows_float<float, float>(const float*)": ("gather", "ggml", "fp32"),
    "kernel_cpy_f32_f16": ("copy", "ggml", "fp16"),
    "kernel_flash_attn_ext_f16_h128": ("attention", "ggml", "fp16"),
    "fusion_201": (None, "XLA", None),
    "input_reduce_fusion_1": ("reduction", "XLA", None),
    "void at::native::tensorTransformReduce<X>(P)": ("reduction", "ATen", None),
    "void fast_hadamard_transform_kernel<X>(P)": (None, None, None),
    "void at::native::quantile_kernel(P)": (None, "ATen", None),
    "SkipSimplifiedLayerNormalization": ("norm", None, None),
    "normal_things": (None, None, None),
    "convex_hull": (None, None, None),
    "convert_results": (None, None, None),
    "myKernel(int*, int)": (None, None, None),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_a_name_says(name: str) -> None:
    assert ktrace.classify(name)[:3] == KNOWN[name]
