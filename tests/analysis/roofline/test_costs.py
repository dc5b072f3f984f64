"""The FLOPs and bytes of operators, against arithmetic by hand and loops over every multiplication."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrace.analysis.questions.roofline.roofline import cost_of
from ktrace.analysis.questions.roofline.tensors import Cost, parsed

BF16, F32, I64 = "c10::BFloat16", "float", "long int"


def cost(name: str, *inputs: Any, strides: list[Any] | None = None) -> Cost | None:
    """The cost of an operator: tensors are (type, shape), other inputs are their texts."""
    tensors = [isinstance(one, tuple) for one in inputs]
    dims = [list(one[1]) if is_tensor else [] for one, is_tensor in zip(inputs, tensors, strict=True)]
    types = [one[0] if is_tensor else "Scalar" for one, is_tensor in zip(inputs, tensors, strict=True)]
    concrete = ["" if is_tensor else one for one, is_tensor in zip(inputs, tensors, strict=True)]
    texts = [json.dumps(one).encode() for one in (dims, types, concrete)]
    found = parsed(name, *texts, json.dumps(strides).encode() if strides else None)
    assert found is not None
    return cost_of(found)


def figures(found: Cost | None) -> tuple[int | None, int | None]:
    assert found is not None
    return found.flops, found.bytes


@pytest.mark.parametrize(
    ("name", "inputs", "flops", "moved"),
    [
        ("aten::mm", [(BF16, (8, 64)), (BF16, (64, 32))], 2 * 8 * 64 * 32, 2 * (8 * 64 + 64 * 32 + 8 * 32)),
        ("aten::mv", [(F32, (8, 64)), (F32, (64,))], 2 * 8 * 64, 4 * (8 * 64 + 64 + 8)),
        ("aten::dot", [(F32, (64,)), (F32, (64,))], 2 * 64, 4 * (64 + 64 + 1)),
        (
            "aten::addmm",
            [(BF16, (32,)), (BF16, (8, 64)), (BF16, (64, 32)), "1", "1"],
            2 * 8 * 64 * 32,
            2 * (32 + 8 * 64 + 64 * 32 + 8 * 32),
        ),
        ("aten::bmm", [(F32, (5, 8, 4)), (F32, (5, 4, 2))], 2 * 5 * 8 * 4 * 2, 4 * 5 * (8 * 4 + 4 * 2 + 8 * 2)),
        (
            "aten::baddbmm",
            [(F32, (5, 8, 2)), (F32, (5, 8, 4)), (F32, (5, 4, 2)), "1", "1"],
            2 * 5 * 8 * 4 * 2,
            4 * 5 * (8 * 2 + 8 * 4 + 4 * 2 + 8 * 2),
        ),
        (
            "aten::linear",
            [(BF16, (3, 8, 64)), (BF16, (32, 64)), (BF16, (32,))],
            2 * 3 * 8 * 64 * 32,
            2 * (3 * 8 * 64 + 32 * 64 + 32 + 3 * 8 * 32),
        ),
        (
            "aten::_scaled_mm",  # fp8 in, bf16 (15) out
            [("c10::Float8_e4m3fn", (8, 64)), ("c10::Float8_e4m3fn", (64, 32)), (F32, ()), (F32, ()), "", "", "15"],
            2 * 8 * 64 * 32,
            8 * 64 + 64 * 32 + 2 * 8 * 32,
        ),
        (
            "aten::_grouped_mm",
            [(BF16, (10, 64)), (BF16, (4, 64, 32)), ("int", (4,))],
            2 * 10 * 64 * 32,
            2 * (10 * 64 + 4 * 64 * 32 + 10 * 32),
        ),
        (
            "_C::cutlass_scaled_mm",
            [(BF16, (8, 32)), ("c10::Float8_e4m3fn", (8, 64)), ("c10::Float8_e4m3fn", (64, 32)), (F32, (1,))],
            2 * 8 * 64 * 32,
            8 * 64 + 64 * 32 + 2 * 8 * 32,
        ),
    ],
)
def test_products(name: str, inputs: list[Any], flops: int, moved: int) -> None:
    found = cost(name, *inputs)
    assert figures(found) == (flops, moved)
    assert found is not None and found.operation == "gemm"


def test_a_product_whose_shapes_do_not_match_has_no_cost() -> None:
    assert cost("aten::mm", (F32, (8, 64)), (F32, (32, 64))) is None
    assert cost("aten::bmm", (F32, (5, 8, 64)), (F32, (3, 64, 8))) is None
    assert cost("aten::mm", (F32, (8, 64)), "1") is None
    assert cost("aten::unheard_of", (F32, (8, 64))) is None


def multiplications(size: int, width: int, stride: int, padding: int, dilation: int) -> int:
    """Applications of a filter of one dimension, and its output: counted one after the other."""
    positions = range(-padding, size + padding - dilation * (width - 1), stride)
    return len(positions)


@given(
    st.tuples(st.integers(5, 9), st.integers(5, 9)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(1, 2),
    st.sampled_from([1, 2]),
)
@settings(deadline=None, max_examples=60)
def test_convolution(
    size: tuple[int, int], kernel: tuple[int, int], stride: int, padding: int, dilation: int, groups: int
) -> None:
    steps = (f"[{stride}, {stride}]", f"[{padding}, {padding}]", f"[{dilation}, {dilation}]")
    x, weight = (F32, (3, 4, *size)), (F32, (6, 4 // groups, *kernel))
    out = [multiplications(s, k, stride, padding, dilation) for s, k in zip(size, kernel, strict=True)]
    flops = 2 * 3 * 6 * out[0] * out[1] * (4 // groups) * kernel[0] * kernel[1]
    moved = 4 * (3 * 4 * size[0] * size[1] + 6 * 4 // groups * kernel[0] * kernel[1] + 3 * 6 * out[0] * out[1])
    general = cost("aten::convolution", x, weight, "", *steps, "False", "[0, 0]", str(groups))
    assert figures(general) == (flops, moved)
    cudnn = cost(
        "aten::cudnn_convolution", x, weight, steps[1], steps[0], steps[2], str(groups), "False", "False", "True"
    )
    assert figures(cudnn) == (flops, moved)
    miopen = cost(
        "aten::miopen_convolution", x, weight, (F32, (6,)), steps[1], steps[0], steps[2], str(groups), "False", "False"
    )
    assert figures(miopen) == (flops, moved + 4 * 6)
    grad = (F32, (3, 6, *out))
    rest = ("[6]", *steps, "False", "[0, 0]", str(groups))
    both = cost("aten::convolution_backward", grad, x, weight, *rest, "[True, True, False]")
    of_filter = cost("aten::convolution_backward", grad, x, weight, *rest, "[False, True, True]")
    assert both is not None and both.flops == 2 * flops
    assert both.bytes == moved + moved - 4 * 3 * 6 * out[0] * out[1]  # the gradient of the output is read once
    assert of_filter is not None and (of_filter.flops, of_filter.bytes) == (flops, moved + 4 * 6)


def test_a_transposed_convolution_applies_the_filter_at_each_input() -> None:
    steps = ("[2]", "[1]", "[1]")
    found = cost("aten::convolution", (F32, (3, 4, 5)), (F32, (4, 6, 3)), "", *steps, "True", "[1]", "1")
    assert figures(found) == (2 * 3 * 5 * 4 * 6 * 3, 4 * (3 * 4 * 5 + 4 * 6 * 3 + 3 * 6 * 10))  # (5-1)*2 - 2 + 3 + 1
    assert cost("aten::convolution", (F32, (3, 4, 5)), (F32, (4, 6, 3)), "", *steps, "", "[1]", "1") is None


def pairs(queries: int, keys: int, last: bool) -> float:
    """The pairs of tokens that a causal mask leaves, those on the diagonal as half of one."""
    shift = keys - queries if last else 0
    weights = [[(k < q + shift) + 0.5 * (k == q + shift) for k in range(keys)] for q in range(queries)]
    return sum(map(sum, weights))


@pytest.mark.parametrize(("queries", "keys"), [*itertools.product((1, 3, 8), (1, 3, 8))])
def test_attention_counts_the_pairs_that_its_mask_leaves(queries: int, keys: int) -> None:
    batch, heads, size = 2, 4, 16
    q, k = (BF16, (batch, heads, queries, size)), (BF16, (batch, heads, keys, size))
    sdpa = "aten::_scaled_dot_product_efficient_attention"
    whole = cost(sdpa, q, k, k, "", "False", "0.", "False", "")
    assert figures(whole) == (
        4 * batch * heads * queries * keys * size,
        2 * 2 * batch * heads * size * (queries + keys),
    )
    masked = cost(sdpa, q, k, k, "", "False", "0.", "True", "")
    assert masked is not None and masked.flops == 4 * batch * heads * size * pairs(queries, keys, False)
    q, k = (BF16, (batch, queries, heads, size)), (BF16, (batch, keys, heads, size))
    flash = cost("flash_attn::_flash_attn_forward", q, k, k, "0.0", "0.125", "True", "-1", "-1", "0.0")
    assert flash is not None and flash.flops == 4 * batch * heads * size * pairs(queries, keys, True)
    windowed = cost("flash_attn::_flash_attn_forward", q, k, k, "0.0", "0.125", "True", "128", "0", "0.0")
    assert windowed is not None and (windowed.flops, windowed.bytes) == (None, flash.bytes)


def test_attention_backward_is_five_products() -> None:
    q = (BF16, (2, 4, 32, 16))
    value = (BF16, (2, 4, 32, 8))
    name = "aten::_scaled_dot_product_flash_attention_backward"
    found = cost(name, value, q, q, value, value, (F32, (2, 4, 32)), "", "", "32", "32", "0.", "False", "", "", "0.25")
    scores = 2 * 2 * 4 * 32 * 32
    assert figures(found) == (3 * scores * 16 + 2 * scores * 8, 2 * 2 * 2 * 4 * 32 * (16 + 16 + 8 + 8))


def test_packed_sequences_of_different_lengths_have_no_flops() -> None:
    """The lengths are the values of a tensor, which aren't recorded."""

    def varlen(tokens: int, longest: int) -> Cost | None:
        q = (BF16, (tokens, 4, 16))
        bounds = ("int", (4,))  # three sequences
        name = "flash_attn::_flash_attn_varlen_forward"
        return cost(name, q, q, q, bounds, bounds, str(longest), str(longest), "0.0", "0.25", "False", "-1", "-1")

    equal, different = varlen(30, 10), varlen(30, 20)
    assert figures(equal) == (4 * 3 * 4 * 10 * 10 * 16, 2 * 4 * 30 * 4 * 16)
    assert figures(different) == (None, 2 * 4 * 30 * 4 * 16)


@pytest.mark.parametrize(
    ("name", "inputs", "moved"),
    [
        ("aten::add", [(BF16, (8, 4)), (BF16, (8, 4)), "1"], 3 * 2 * 32),
        ("aten::add", [(BF16, (8, 4)), (F32, (4,)), "1"], 2 * 32 + 4 * 4 + 4 * 32),  # written as fp32
        ("aten::mul", [(F32, ()), (BF16, (8, 4))], 4 + 2 * 32 + 2 * 32),  # one number doesn't change the type
        ("aten::div", [(I64, (8,)), (F32, ())], 8 * 8 + 4 + 4 * 8),  # but its kind of number may
        ("aten::add_", [(BF16, (8, 4)), (F32, (4,)), "1"], 2 * 32 + 4 * 4 + 2 * 32),  # written as bf16
        ("aten::eq", [(F32, (8, 4)), "0"], 4 * 32 + 32),
        ("aten::where", [("bool", (8, 4)), (F32, (8, 4)), (F32, ())], 32 + 4 * 32 + 4 + 4 * 32),
        ("aten::copy_", [(F32, (8, 4)), (BF16, (8, 4)), "False"], (4 + 2) * 32),
        ("aten::fill_", [(F32, (8, 4)), "0"], 4 * 32),
        ("aten::_softmax", [(BF16, (8, 4)), "1", "True"], (2 + 4) * 32),
        ("aten::sum", [(F32, (8, 4)), "[-1]", "False", ""], 4 * 32 + 4 * 8),
        ("aten::sum", [(F32, (8, 4)), "", "False", ""], 4 * 32 + 4),
        ("aten::argmax", [(F32, (8, 4)), "0", "False"], 4 * 32 + 8 * 4),
        ("aten::max", [(F32, (8, 4)), "0", "False"], 4 * 32 + (4 + 8) * 4),
        ("aten::max", [(F32, (8, 4)), (F32, (8, 4))], 3 * 4 * 32),
        ("aten::native_layer_norm", [(F32, (8, 4)), "[4]", (F32, (4,)), (F32, (4,)), "1e-05"], 2 * 4 * 32 + 2 * 4 * 4),
        ("aten::embedding", [(F32, (100, 16)), (I64, (5,)), "-1", "False", "False"], 8 * 5 + 2 * 5 * 16 * 4),
        ("aten::embedding_dense_backward", [(F32, (5, 16)), (I64, (5,)), "100"], 4 * 5 * 16 + 8 * 5 + 4 * 100 * 16),
        ("aten::index_select", [(F32, (8, 4)), "0", (I64, (3,))], 8 * 3 + 2 * 4 * 3 * 4),
        ("_C::rms_norm", [(BF16, (8, 4)), (BF16, (8, 4)), (BF16, (4,)), "1e-05"], 2 * 2 * 32 + 2 * 4),
        ("_C::fused_add_rms_norm", [(BF16, (8, 4)), (BF16, (8, 4)), (BF16, (4,)), "1e-05"], 2 * 4 * 32 + 2 * 4),
        ("_C::silu_and_mul", [(BF16, (8, 4)), (BF16, (8, 8))], 2 * 32 + 2 * 64),
        ("_C::static_scaled_fp8_quant", [("c10::Float8_e4m3fn", (8, 4)), (BF16, (8, 4)), (F32, (1,))], 3 * 32 + 4),
        ("aten::gather", [(F32, (8, 4)), "1", (I64, (8, 2)), "False"], 8 * 16 + 2 * 4 * 16),
        ("aiter::rmsnorm", [(BF16, (8, 4)), (BF16, (8, 4)), (BF16, (4,)), "1e-06"], 2 * 2 * 32 + 2 * 4),
        ("aiter::rms_norm", [(BF16, (8, 4)), (BF16, (4,)), "1e-05", "0"], 2 * 2 * 32 + 2 * 4),
        ("aiter::add_rmsnorm", [*[(BF16, (8, 4))] * 4, (BF16, (4,)), "1e-06"], 4 * 2 * 32 + 2 * 4),
        ("aiter::rmsnorm2d_fwd_with_add_ck", [*[(BF16, (8, 4))] * 4, (BF16, (4,)), "1e-05", "0"], 4 * 2 * 32 + 2 * 4),
        ("sgl_kernel::silu_and_mul", [(BF16, (8, 4)), (BF16, (8, 8))], 2 * 32 + 2 * 64),
        (
            "sgl_kernel::rotary_embedding",
            [(I64, (8,)), (BF16, (8, 64)), (BF16, (8, 16)), "16", (BF16, (4096, 16)), "True"],
            8 * 8 + 8 * 16 * 2 + 2 * 2 * 8 * (64 + 16),
        ),
        (
            "_C_cache_ops::reshape_and_cache_flash",
            [*[(BF16, (8, 2, 64))] * 2, *[(BF16, (500, 32, 2, 64))] * 2, (I64, (8,)), "", (F32, ()), (F32, ())],
            2 * 2 * 2 * 8 * 2 * 64 + 8 * 8,
        ),
        ("sglang::store_cache", [*[(BF16, (8, 128))] * 2, *[(BF16, (900, 128))] * 2, (I64, (8,)), "2048", "0"], 8256),
        ("triton_poi_fused_add_1", [(BF16, (8, 4)), (BF16, (4,)), (F32, (8, 4)), "32"], 2 * 32 + 2 * 4 + 4 * 32),
        ("triton_poi_fused_0", [(I64, (8,)), (BF16, (9000, 4)), (BF16, (8, 4)), "32"], 8 * 8 + 2 * 32 + 2 * 32),
    ],
)
def test_traffic(name: str, inputs: list[Any], moved: int) -> None:
    assert figures(cost(name, *inputs)) == (0, moved)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("triton_poi_fused_0", [(I64, (8,)), (BF16, (9000, 4))]),  # without the number of elements
        ("triton_red_fused_0", [(BF16, (8, 4)), (BF16, (8,)), "8", "4"]),
    ],
)
def test_what_inputs_do_not_tell_has_no_price(name: str, inputs: list[Any]) -> None:
    assert cost(name, *inputs) is None


def test_a_dimension_that_repeats_elements_is_read_once() -> None:
    found = cost("aten::add", (F32, (8, 4)), (F32, (8, 4)), strides=[[4, 1], [0, 1]])
    assert figures(found) == (0, 4 * 32 + 4 * 4 + 4 * 32)


def test_inputs_that_are_not_lists_are_no_operator() -> None:
    assert parsed("aten::mm", b'{"a": 1}', b"[]", None, None) is None
    assert parsed("aten::mm", b"[[8, 4]", b'["float"]', None, None) is None
    assert parsed("aten::mm", b"[[8, 4]]", b'["float", "float"]', None, None) is None
    found = parsed("aten::mm", b'[[8, "4"], [4, -2]]', b'["float", "float"]', None, None)
    assert found is not None and found.tensors() == []
    for shape in ("[99999999999999999999999]", "[4000000000, 4000000000]", "[" + "1, " * 99 + "1]"):
        found = parsed("aten::neg", f"[{shape}]".encode(), b'["float"]', None, None)
        assert found is not None and cost_of(found) is None


@pytest.mark.parametrize(
    ("name", "inputs", "operation"),
    [
        ("vllm::moe_forward", [(BF16, (32, 3072)), (BF16, (32, 32))], "gemm"),  # the weights aren't inputs
        ("vllm::unified_attention_with_output", [*[(BF16, (32, 8, 64))] * 4], "attention"),  # nor are the lengths
    ],
)
def test_what_inputs_do_not_tell_has_a_type_alone(name: str, inputs: list[Any], operation: str) -> None:
    found = cost(name, *inputs)
    assert found and (found.operation, found.flops, found.bytes, found.precision) == (operation, None, None, "bf16")
