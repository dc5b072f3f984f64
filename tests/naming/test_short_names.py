"""Names of kernels for people."""

from __future__ import annotations

import pytest

from ktrace.analysis.work.spans import generic
from ktrace.naming.short_names import short_name, without_release

SHORT = {
    # C++, as cuobjdump, nsys and PyTorch spell it.
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, at::detail::Array<char*, 3> >"
    "(int, at::native::AddFunctor<float>, at::detail::Array<char*, 3>)": "vectorized_elementwise_kernel<AddFunctor>",
    "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
    "at::native::sum_functor<float, float, float>::operator ()(at::TensorIterator &)::[lambda(float, float) "
    "(instance 1)]>, unsigned int, float, (int)4>>(T3)": "reduce_kernel<sum_functor>",
    "void at::native::<unnamed>::indexSelectSmallIndex<c10::BFloat16, long, unsigned int, (int)2>(T1, T2)": (
        "indexSelectSmallIndex"
    ),
    "void at::native::(anonymous namespace)::max_pool_forward_nchw<float>(int, float const*)": "max_pool_forward_nchw",
    "void (anonymous namespace)::store_kvcache<2048l, 4, false, long>((anonymous namespace)::P)": "store_kvcache",
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::X<(int)2>>>>(T1::Params)": (
        "device_kernel<FlashAttnFwdSm90>"
    ),
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(cutlass_80_x::Params)": (
        "Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>"
    ),
    "void ns::act_and_mul_kernel<__nv_bfloat16, &(float silu<float>(float const&))>(__nv_bfloat16*, int)": (
        "act_and_mul_kernel<silu>"
    ),
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 4, cutlass::bfloat16_t>, true>(Flash_fwd_params)": (
        "flash_fwd_kernel"
    ),
    "metallic::kernels::rope::RoPEOp": "RoPEOp",
    "ns::A<(ns::Mode)2, (1 > 0)>::run(int) [clone .kd]": "run",
    "bool ns::operator<<(ns::S<int>&, int)": "operator",
    "vecCopy(double*, double*, double*, int, int) [clone .kd]": "vecCopy",
    "vecCopy.kd": "vecCopy",
    "Cijk_Ailk_Bljk_SB_MT128x64x16_MI32x32x2x1_SN.kd": "Cijk_Ailk_Bljk_SB_MT128x64x16",
    "add(int) (.kd)": "add",
    "x.kd.more": "x.kd.more",
    ".kd": ".kd",
    "main::{lambda(sycl::handler&)#1}::operator()(sycl::handler&) const": "operator",
    # Mangled.
    "_Z5saxpyPdS_S_di": "saxpy",
    "_Z7reduce6IiLj256ELb1EEvPT_S1_j": "reduce6",
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1EEEvPT0_": "add_rmsnorm_quant_kernel",
    "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_7ProblemEEEEEvT_": "kentry<Rmsnorm2dFwd>",
    "_ZN12_GLOBAL__N_13fooEv": "foo",
    "_Z": "_Z",
    "_ZN9999x": "_ZN9999x",
    # Tags of architectures describe nothing; names with one in them do.
    "void ck_tile::kentry<ck_tile::gfx950_t, 1, ck_tile::FmhaFwdKernel<P>>(ck_tile::Kargs)": "kentry<FmhaFwdKernel>",
    "void ck_tile::kentry<ck_tile::gfx950_t, 1, ck_tile::FmhaBwdDQDKDVKernel<P>>(K)": "kentry<FmhaBwdDQDKDVKernel>",
    "void ck_tile::kentry<ck_tile::gfx90a_t, 1, ck_tile::GemmKernel<P>>(K) [clone .kd]": "kentry<GemmKernel>",
    "_ZN7ck_tile6kentryINS_8gfx950_tELi1ENS_13FmhaFwdKernelINS_1PEEEEEvT_": "kentry<FmhaFwdKernel>",
    "_ZN7ck_tile6kentryINS_8gfx950_tELi1ENS_10GemmKernelINS_1PEEEEEvT_.kd": "kentry<GemmKernel>",
    "_ZN7ck_tile6kentryINS_8gfx950_tELi1EfEEvT_": "kentry",
    "void ns::run<cutlass::arch::Sm90, ns::MyGemm<float>>(int)": "run<MyGemm>",
    "void ns::run<ns::gfx950_tuned<float>>(int)": "run<gfx950_tuned>",
    # Generators.
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN_LDSB1": "Cijk_Alik_Bljk_BBS_BH_MT256x32x64",
    "Cijk_Ailk_Bljk_SB_MT128x64x16_MI32x32x2x1_SN_1LDSB1": "Cijk_Ailk_Bljk_SB_MT128x64x16",
    "igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt32x256x32_wt16x64x4_ws1x1": "igemm_fwd_gtcx2_nhwc_bf16_bt32x256x32",
    "add_kernel_0d1d2d3de": "add_kernel",
    # Others stay.
    "triton_poi_fused_add_cos_sin_0": "triton_poi_fused_add_cos_sin_0",
    "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN": "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN",
    "gemv_addmm (C)": "gemv_addmm (C)",
    "Memcpy HtoD (Pageable -> Device)": "Memcpy HtoD (Pageable -> Device)",
    "[CUDA memcpy DtoH]": "[CUDA memcpy DtoH]",
    "matmul:q_proj:L13": "matmul:q_proj:L13",
    "xfer 4.00M, AMD:1 <- AMD": "xfer 4.00M, AMD:1 <- AMD",
    "": "",
}


@pytest.mark.parametrize("name", SHORT)
def test_a_name_for_people(name: str) -> None:
    assert short_name(name) == SHORT[name]


@pytest.mark.parametrize(
    "name", ["<", ">", "(", ")", "a<b", "a>b(", "::", "f(", "a::<>()", "_ZN1", "_ZNK5", "<<<>>>(x", "~"]
)
def test_names_that_are_broken_have_one_too(name: str) -> None:
    assert short_name(name)


def test_every_cut_of_a_long_name_has_one() -> None:
    for name in SHORT:
        for end in range(1, len(name)):
            assert short_name(name[:end])


@pytest.mark.parametrize(
    ("call", "plain"),
    [
        ("cudaMemcpyAsync_v3020", "cudaMemcpyAsync"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel"),
        ("cudaLaunchKernel_v7000_ptsz", "cudaLaunchKernel"),
        ("cuMemAlloc_v2", "cuMemAlloc"),
        ("cudaLaunchKernel", "cudaLaunchKernel"),
        ("my_step_v2", "my_step_v2"),
        ("cublas_step_v2()", "cublas_step_v2()"),
    ],
)
def test_the_release_of_a_call(call: str, plain: str) -> None:
    assert without_release(call) == generic(call) == plain
