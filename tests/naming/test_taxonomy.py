"""Labels of names that have misled the rules."""

from __future__ import annotations

import pytest

import ktrace

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
