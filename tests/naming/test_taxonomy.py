"""Labels of names that have misled the rules."""

from __future__ import annotations

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
