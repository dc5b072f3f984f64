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
