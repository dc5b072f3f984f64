"""Labels of names that have misled the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktrace
from ktrace.naming.taxonomy import taxonomy

OPERATION = {
    "void fbgemm_gpu::split_embedding_codegen_forward_unweighted_kernel<float, float, float, long>(int)": "embedding",
    "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int const*)": "transpose",
    "_ZN10fbgemm_gpu35split_embedding_nobag_forward_kernelIfEEvPT_": "embedding",
    "void ns::fbgemm_gpu_gemm_kernel<float>(float*)": "gemm",
    "ampere_sgemm_128x64_nn": "gemm",
    "Gemm_kernel": "gemm",
    "void fbgemm_gpu::unknown_thing<float>(float*)": None,
}


@pytest.mark.parametrize("name", OPERATION)
def test_the_namespace_fbgemm_is_no_matrix_product(name: str) -> None:
    assert ktrace.classify(name).operation == OPERATION[name]


#: ROCm names the descriptor of a kernel, not the kernel: rules that look at a name's end must see past it.
DESCRIPTORS = ["{}.kd", "{} (.kd)", "{} [clone .kd]", "{} [clone .isra.0] [clone .kd]"]


@pytest.mark.parametrize("spelling", DESCRIPTORS)
@pytest.mark.parametrize("name", ["batched_transpose_16x16_half", "resolve_triton", "naive_conv_nchw_half", "fusion_7"])
def test_a_descriptor_is_labelled_as_its_kernel(name: str, spelling: str) -> None:
    assert ktrace.classify(spelling.format(name)) == ktrace.classify(name)
    assert taxonomy().layer(spelling.format("/layers.3")) == taxonomy().layer("/layers.3") == "layers.3"


def test_only_the_end_of_a_name_is_a_descriptor() -> None:
    assert ktrace.classify("resolve_triton.kd").library == "Triton"
    assert ktrace.classify("resolve_triton.kd.kd").library is None
    assert ktrace.classify("resolve_triton.kdx").library is None
    assert ktrace.classify("batched_transpose_16x16_half.kd").precision is None
    assert ktrace.classify("batched_transpose_16x16_half.kd.kd").precision == "fp16"


#: Composable Kernel: DF16b is bf16, DF16_ is _Float16, t is unsigned short, which it keeps bf16 in; S8_ is a reference.
#: What was cut off can't be decoded: only what is certain in the text counts.
PRECISION = {
    "_ZN2ck3runINS_4GemmINS_3RowENS_3ColES2_DF16bDF16bfS2_S3_S3_Li8ELi8EEEEEvT_": "bf16",
    "_ZN7ck_tile6kentryINS_8gfx950_tELi1ENS_7FmhaFwdIDF16_DF16_fS1_S1_EEEEvT_": "fp16",
    "_ZN2ck3runINS_4GemmINS_3RowENS_3ColES2_ttfttNS_4PassES2_S3_S4_EEEEvT_": "bf16",
    "_ZN7ck_tile3runINS_4GemmINS_3RowES2_S2_S2_S2_Li8EEEEEvT_": None,
    "_ZN2ck3runItEEvT_": "bf16",
    "_ZN2ns3runINS_4GemmINS_3RowENS_3ColES2_ttfttNS_4PassES2_S3_S4_EEEEvT_": "fp32",
    "_ZN2ck9HardPoint8gfx950_tEv": None,
    "_ZN2ck3runINS_6int8_tEEEvT_": "int8",
    "_ZN2ck12quantizeInt8Ev": "int8",
    "_ZN2ck14dequant_s8_runEv": "int8",
    "void ck::gemm<ck::Row, unsigned short, unsigned short, float, 8>(ck::P)": "bf16",
    "void ck::gemm<ck::Row, unsigned short*>(ck::P)": None,
    "void ns::gemm<ns::Row, unsigned short>(ns::P)": None,
    "void ck::gemm<int8_t, int>(ck::P)": "int8",
    "_ZN2ck3runINS_4GemmINS_3RowES2_DF16bDF16bfS7_S8_S8_": "bf16",
    "_ZN7ck_tile6kentryINS_7FmhaFwdIDF16_DF16_fS7_S8_S8_": "fp16",
    "_ZN2ck3runINS_4GemmINS_3RowES2_S7_S8_S8_": None,
    "void k<float>(int, signed char*)": "fp32",
    "void gemm<signed char>(signed char*, float)": "int8",
    "void gemm(int4*, float, double)": None,
    "void scale(float const*, double)": "fp32",
    "void at::native::unrolled_elementwise_kernel<f(float), at::native::memory::LoadWithCast<1> >(int)": None,
    "sm80_xmma_gemm_s8_s8_tilesize64": "int8",
    "GEMM_S8_S8": "int8",
}


@pytest.mark.parametrize("name", PRECISION)
def test_precision_of_mangled_arguments(name: str) -> None:
    assert ktrace.classify(name).precision == PRECISION[name]


#: Parameters are what a kernel is given, template arguments what it is made for.
FUNCTIONS = {
    "spread(Cell const*, curandStateXORWOW*, float)": None,
    "void evaluate_spread_kernel<float>(float*, curandState*)": None,
    "_Z6spreadP11curandStatef": None,
    "halo_step(float*, ncclComm*, int)": None,
    "void ns::step<float>(cublasContext*, ns::Gemm<float> const&)": None,
    "(anonymous namespace)::step(cufftHandle_t*, int) [clone .kd]": None,
    "void ns::(anonymous namespace)::step<4>(ns::(anonymous namespace)::Sort<4>*)": None,
    "ns::Thing::operator()(cudnnConv*)": None,
    "step(float*, ncclCom": None,
    "void ns::launch<ns::Gemm<float, Op> >(float*)": "gemm",
    "void ns::launch<ns::Op(float)>(softmax_t*)": None,
    "void ns::launch<ns::(anonymous namespace)::SoftMax>(float*)": "softmax",
    "reduce(float*)::{lambda(nccl::Item)#1}": "reduction",
    "gemv (C)": "gemm",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_types_of_parameters_do_not_tell_what_a_function_does(name: str) -> None:
    labels = ktrace.classify(name)
    assert labels.operation == FUNCTIONS[name]
    assert labels.library is None


def test_rules_of_a_file_see_the_parameters(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"rules": [{"name": "halo_t", "operation": "stencil"}]}')
    assert ktrace.classify("step(halo_t*, int)", rules=rules).operation == "stencil"


@pytest.mark.parametrize(
    "name",
    [
        "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void vllm::cross_device_reduce_1stage<__half, 6>(vllm::RankData*, __half*)",
    ],
)
def test_communication_has_no_precision(name: str) -> None:
    labels = ktrace.classify(name)
    assert (labels.operation, labels.precision) == ("collective", None)
    assert ktrace.classify("all_reduce_maxbfloat16").precision == "bf16"


_APPLY = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<{}>(int)"


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        (_APPLY.format("at::native::TensorListMetadata<2>, at::native::Copy<long, long>"), "elementwise"),
        (_APPLY.format("at::native::TensorListMetadata<1>, std::multiplies<float>"), "elementwise"),
        (_APPLY.format("at::native::FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4>"), "optimizer"),
        ("multi_tensor_apply_kernel", "elementwise"),
        ("sage_fwd", "attention"),
    ],
)
def test_one_operation_for_what_is_applied_to_many_tensors(name: str, operation: str) -> None:
    assert ktrace.classify(name).operation == operation
