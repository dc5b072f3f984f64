"""The cost of products of matrices, of convolutions, of attention and of experts.

Attention is two products forward, five backward, and half of each where a causal mask leaves half. Of attention over a
cache of keys and values, the engines' operators state less:

vllm::unified_attention_with_output  32x64x64, 32x8x64, 32x8x64       the new tokens alone; how many are in the cache of
                                                                     each request, nothing tells but the annotation:
execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)

A causal mask is assumed there under which a token sees all tokens before it: windows aren't stated.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import NamedTuple

from ktrace.analysis.questions.roofline.answer import RooflineItem
from ktrace.analysis.questions.roofline.tensors import BYTES, NUMBERED, Cost, Formula, Operator, Tensor
from ktrace.naming.phases import Attended
from ktrace.tables import brief


def product(
    operator: Operator,
    first: int = 0,
    second: int = 1,
    *,
    added: int | None = None,
    transposed: bool = False,
    type_at: int | None = None,
    type: str | None = None,
    result: int | None = None,
) -> Cost | None:
    """The cost of `first` @ `second` (+ `added`), with any number of equal leading dimensions.

    `second` is N x K if `transposed`. The type of the result is that of the input `result`, `type`, the one at
    `type_at`, else that of `first`.
    """
    a, b = operator.tensor(first), operator.tensor(second)
    if a is None or b is None or not a.shape or not b.shape:
        return None
    m, k = a.shape[-2:] if len(a.shape) > 1 else (1, a.shape[-1])
    kk, n = b.shape[-2:] if len(b.shape) > 1 else (b.shape[-1], 1)
    if transposed:
        kk, n = n, kk
    leading = _leading(a.shape[:-2], b.shape[:-2])
    if k != kk or leading is None:
        return None
    number = operator.text(type_at) if type_at is not None else None
    written = operator.tensor(result) if result is not None else None
    out = written.type if written else type or NUMBERED.get(number or "", a.type)
    bias = operator.tensor(added) if added is not None else None
    moved = a.bytes + b.bytes + leading * m * n * BYTES[out] + (bias.bytes if bias else 0)
    return Cost("gemm", 2 * leading * m * n * k, moved, _rated(a, b))


def _leading(a: tuple[int, ...], b: tuple[int, ...]) -> int | None:
    """The number of matrices; None if the leading dimensions can't be broadcast."""
    length = max(len(a), len(b))
    pairs = zip((1,) * (length - len(a)) + a, (1,) * (length - len(b)) + b, strict=True)
    sizes = [max(x, y) if min(x, y) == 1 or x == y else None for x, y in pairs]
    return None if None in sizes else prod(size for size in sizes if size is not None)


def _rated(a: Tensor, b: Tensor) -> str:
    """The type that decides the rate: that of the wider elements."""
    return a.type if a.size >= b.size else b.type


def _grouped(operator: Operator) -> Cost | None:
    """A product for each group of rows (2D @ 3D) or of columns (2D @ 2D), whose sizes add up to that of the tensor."""
    a, b = operator.tensor(0), operator.tensor(1)
    if a is None or b is None or len(a.shape) != 2 or len(b.shape) != 3 or a.shape[1] != b.shape[1]:
        return None
    (m, k), n = a.shape, b.shape[2]
    return Cost("gemm", 2 * m * n * k, a.bytes + b.bytes + m * n * a.size, _rated(a, b))


def convolution(operator: Operator, layout: dict[str, int], transposed: bool | None = False) -> Cost | None:
    """The cost of a convolution; `layout` has the places of its inputs, and `transposed` is None if an input tells."""
    x, weight = operator.tensor(layout.get("input", 0)), operator.tensor(layout.get("weight", 1))
    if transposed is None:
        transposed = operator.flag(layout["transposed"])
    if x is None or weight is None or transposed is None or not 3 <= len(x.shape) == len(weight.shape):
        return None
    out = _output(operator, layout, x, weight, transposed)
    if out is None:
        return None
    bias = operator.tensor(layout["bias"]) if "bias" in layout else None
    moved = x.bytes + weight.bytes + prod(out) * x.size + (bias.bytes if bias else 0)
    return Cost("conv", 2 * _positions(x.shape, out, transposed) * weight.elements, moved, x.type)


def _positions(x: tuple[int, ...], out: tuple[int, ...], transposed: bool) -> int:
    """How often the whole filter is applied: at each position of the output, or of the input if transposed."""
    of = x if transposed else out
    return of[0] * prod(of[2:])


def _output(
    operator: Operator, layout: dict[str, int], x: Tensor, weight: Tensor, transposed: bool
) -> tuple[int, ...] | None:
    """The shape of the output."""
    kernel = weight.shape[2:]
    names = ("stride", "padding", "dilation", "output_padding")
    stride, padding, dilation, extra = (_numbers(operator, layout, name, len(kernel)) for name in names)
    groups = operator.whole(layout["groups"]) if "groups" in layout else 1
    if groups is None or stride is None or padding is None or dilation is None or extra is None or min(stride) < 1:
        return None
    sizes = []
    for size, width, step, pad, spread, more in zip(x.shape[2:], kernel, stride, padding, dilation, extra, strict=True):
        reach = spread * (width - 1) + 1
        if transposed:
            sizes.append((size - 1) * step - 2 * pad + reach + more)
        else:
            sizes.append((size + 2 * pad - reach) // step + 1)
    out = (x.shape[0], weight.shape[1] * groups if transposed else weight.shape[0], *sizes)
    return out if min(out) >= 0 else None


def _numbers(operator: Operator, layout: dict[str, int], name: str, length: int) -> list[int] | None:
    """A number for each dimension; one number is that of all. Convolutions without the input have padding 0."""
    values = operator.wholes(layout[name]) if name in layout else [0]
    if values is not None and len(values) == 1:
        return values * length
    return values if values is not None and len(values) == length else None


def convolution_backward(operator: Operator) -> Cost | None:
    """A convolution for each gradient that is wanted, of the input and of the filter."""
    grad, x, weight = (operator.tensor(place) for place in range(3))
    transposed, outputs = operator.flag(7), operator.flags(10)
    if grad is None or x is None or weight is None or transposed is None or outputs is None or len(outputs) != 3:
        return None
    one = 2 * _positions(x.shape, grad.shape, transposed) * weight.elements
    moved = grad.bytes
    moved += weight.bytes + x.elements * x.size if outputs[0] else 0
    moved += x.bytes + weight.elements * weight.size if outputs[1] else 0
    moved += grad.shape[1] * grad.size if outputs[2] else 0
    return Cost("conv", one * sum(outputs[:2]), moved, x.type)


_CONVOLUTION = {"bias": 2, "stride": 3, "padding": 4, "dilation": 5, "transposed": 6, "output_padding": 7, "groups": 8}
_CUDNN = {"padding": 2, "stride": 3, "dilation": 4, "groups": 5}
_CUDNN_TRANSPOSED = {"padding": 2, "output_padding": 3, "stride": 4, "dilation": 5, "groups": 6}
_BIAS = {"bias": 2, "padding": 3, "stride": 4, "dilation": 5, "groups": 6}
_BIAS_TRANSPOSED = {"bias": 2, "padding": 3, "output_padding": 4, "stride": 5, "dilation": 6, "groups": 7}
_PLAIN = {"bias": 2, "stride": 3, "padding": 4, "dilation": 5, "groups": 6}
_DEPTHWISE = {"bias": 3, "stride": 4, "padding": 5, "dilation": 6}

#: The operators, with the places of their inputs in torch's native_functions.yaml.
PRODUCTS: dict[str, Formula] = {
    "aten::mm": product,
    "aten::bmm": product,
    "aten::matmul": product,
    "aten::mv": product,
    "aten::dot": product,
    "aten::linear": partial(product, added=2, transposed=True),
    "aten::addmm": partial(product, first=1, second=2, added=0),
    "aten::_addmm_activation": partial(product, first=1, second=2, added=0),
    "aten::addmv": partial(product, first=1, second=2, added=0),
    "aten::baddbmm": partial(product, first=1, second=2, added=0),
    "aten::baddbmm_": partial(product, first=1, second=2, added=0),
    "aten::_int_mm": partial(product, type="int32"),
    "aten::_scaled_mm": partial(product, added=4, type_at=6),
    "aten::_grouped_mm": _grouped,
    "_C::cutlass_scaled_mm": partial(product, first=1, second=2, added=5, result=0),
    "aten::convolution": partial(convolution, layout=_CONVOLUTION, transposed=None),
    "aten::_convolution": partial(convolution, layout=_CONVOLUTION, transposed=None),
    "aten::convolution_overrideable": partial(convolution, layout=_CONVOLUTION, transposed=None),
    "aten::cudnn_convolution": partial(convolution, layout=_CUDNN),
    "aten::cudnn_convolution_transpose": partial(convolution, layout=_CUDNN_TRANSPOSED, transposed=True),
    "aten::cudnn_convolution_relu": partial(convolution, layout=_PLAIN),
    "aten::miopen_convolution": partial(convolution, layout=_BIAS),
    "aten::miopen_depthwise_convolution": partial(convolution, layout=_BIAS),
    "aten::miopen_convolution_transpose": partial(convolution, layout=_BIAS_TRANSPOSED, transposed=True),
    "aten::miopen_convolution_relu": partial(convolution, layout=_PLAIN),
    "aten::mkldnn_convolution": partial(convolution, layout=_BIAS),
    "aten::_conv_depthwise2d": partial(convolution, layout=_DEPTHWISE),
    "aten::conv_depthwise3d": partial(convolution, layout=_DEPTHWISE),
    "aten::convolution_backward": convolution_backward,
}


class Layout(NamedTuple):
    """The places of the inputs of an operator.

    `first` is that of the query, followed by key and value. `heads` is the dimension of the heads: 1 in (batch, heads,
    length, size), 2 in (batch, length, heads, size). `causal` is a flag, or with `masks` the number of a mask: 1 is
    causal. Where the inputs at `lengths` are tensors (their values aren't recorded), sequences are packed one after the
    other in (tokens, heads, size), and `longest` are the places of the greatest lengths. `windows` limit how far a
    token looks, `bias` is added to the products. `last` tells that the last tokens of query and key belong together,
    else the first ones.
    """

    first: int = 0
    heads: int = 1
    causal: int | None = None
    masks: bool = False
    lengths: tuple[int, ...] = ()
    longest: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    bias: int | None = None
    last: bool = False
    backward: bool = False


def attention(layout: Layout) -> Formula:
    """The formula of an operator with this layout."""

    def formula(operator: Operator) -> Cost | None:
        q, k, v = (operator.tensor(layout.first + place) for place in range(3))
        if q is None or k is None or v is None or not len(q.shape) == len(k.shape) == len(v.shape):
            return None
        rank, keys = len(q.shape), q.shape[-1]
        if rank not in (3, 4) or k.shape[-1] != keys or (rank == 3 and not layout.lengths):
            return None
        values = v.shape[-1]
        heads = q.shape[layout.heads - (rank == 3)]
        out = q.elements // max(keys, 1) * values * q.size
        moved = (q.bytes + k.bytes + v.bytes + out) * (2 if layout.backward else 1)
        bias = operator.tensor(layout.bias) if layout.bias is not None else None
        moved += bias.bytes if bias else 0
        pairs = _pairs(operator, layout, q, k)
        products = 3 * keys + 2 * values if layout.backward else keys + values
        flops = None if pairs is None else heads * pairs * products
        return Cost("attention", flops, moved, q.type)

    return formula


def _pairs(operator: Operator, layout: Layout, q: Tensor, k: Tensor) -> int | None:
    """Twice the number of pairs of tokens for each head; None if it isn't known."""
    mask = _mask(operator, layout)
    free = (-1, 0, None) if mask else (-1, None)
    if mask is None or any(operator.whole(place) not in free for place in layout.windows):
        return None
    length = 1 if layout.heads == 2 else 2
    if len(q.shape) == 4 and not any(operator.tensor(place) for place in layout.lengths):
        batch, queries, keys = q.shape[0], q.shape[length], k.shape[length]
    else:
        pairs = _equal(operator, layout, q, k)
        if pairs is None:
            return None
        batch, queries, keys = pairs
    return batch * (_seen(queries, keys, layout.last or mask == 2) if mask else 2 * queries * keys)


def _mask(operator: Operator, layout: Layout) -> int | None:
    """0 without a mask, 1 with a causal one, 2 with one in which the last tokens belong together; None: not known."""
    if layout.causal is None:
        return 0
    if layout.masks:
        number = operator.whole(layout.causal)
        return number if number in (0, 1, 2) else None
    flag = operator.flag(layout.causal)
    return None if flag is None else int(flag)


def _seen(queries: int, keys: int, last: bool) -> int:
    """Twice the number of pairs that a causal mask leaves, of which the diagonal counts as half."""
    if last:
        return keys * keys if keys < queries else 2 * queries * keys - queries * queries
    return 2 * queries * keys - keys * keys if keys < queries else queries * queries


def _equal(operator: Operator, layout: Layout, q: Tensor, k: Tensor) -> tuple[int, int, int] | None:
    """The batch and lengths of packed sequences that are all as long as the longest; None if they aren't."""
    bounds = operator.tensor(layout.lengths[0])
    longest = [operator.whole(place) for place in layout.longest]
    if bounds is None or len(bounds.shape) != 1 or len(longest) != 2 or longest[0] is None or longest[1] is None:
        return None
    batch = bounds.shape[0] - 1
    tokens = [one.shape[0] if len(one.shape) == 3 else one.shape[0] * one.shape[1] for one in (q, k)]
    queries, keys = longest[0], longest[1]
    return (batch, queries, keys) if tokens == [batch * queries, batch * keys] else None


#: The operators, with the places of their inputs in torch's native_functions.yaml, and in flash_attn 2.
ATTENTION: dict[str, Formula] = {
    name: attention(layout)
    for name, layout in {
        "aten::_scaled_dot_product_flash_attention": Layout(causal=4),
        "aten::_scaled_dot_product_flash_attention_backward": Layout(1, causal=11, backward=True),
        "aten::_scaled_dot_product_efficient_attention": Layout(causal=6, bias=3),
        "aten::_scaled_dot_product_efficient_attention_backward": Layout(1, causal=11, bias=4, backward=True),
        "aten::_scaled_dot_product_cudnn_attention": Layout(causal=6, bias=3),
        "aten::_scaled_dot_product_cudnn_attention_backward": Layout(1, causal=14, bias=8, backward=True),
        "aten::_flash_attention_forward": Layout(
            heads=2, causal=8, lengths=(3, 4), longest=(5, 6), windows=(11, 12), last=True
        ),
        "aten::_flash_attention_backward": Layout(
            1, heads=2, causal=11, lengths=(6, 7), longest=(8, 9), windows=(15, 16), last=True, backward=True
        ),
        "aten::_efficient_attention_forward": Layout(
            heads=2, causal=9, masks=True, lengths=(4, 5), longest=(6, 7), windows=(13,), bias=3
        ),
        "aten::_efficient_attention_backward": Layout(
            1, heads=2, causal=14, masks=True, lengths=(6, 7), longest=(8, 9), windows=(18,), bias=4, backward=True
        ),
        "flash_attn::_flash_attn_forward": Layout(heads=2, causal=5, windows=(6, 7), last=True),
        "flash_attn::_flash_attn_backward": Layout(1, heads=2, causal=11, windows=(12, 13), last=True, backward=True),
        "flash_attn::_flash_attn_varlen_forward": Layout(
            heads=2, causal=9, lengths=(3, 4), longest=(5, 6), windows=(10, 11), last=True
        ),
        "flash_attn::_flash_attn_varlen_backward": Layout(
            1, heads=2, causal=15, lengths=(9, 10), longest=(11, 12), windows=(16, 17), last=True, backward=True
        ),
    }.items()
}


#: Attention over a cache, with the places of query, keys and values, the last of shape (..., heads, size).
_PLACES = {
    "vllm::unified_attention": (0, 1, 2),
    "vllm::unified_attention_with_output": (0, 1, 2),
    "sglang_profiler::attention_paged_attention_ragged": (0, 3, 4),
}

#: What such attention, and experts, lack where nothing tells it.
UNKNOWN_LENGTHS = (
    "of attention has no FLOPs: its arguments don't state how many tokens of the cache each request reads. "
    "Annotations of batches do, as vLLM and SGLang write them: "
    "execute_32_context_0(sq0sk0...)_generation_32(sq32sk55086...)."
)
WHOLE_CACHE = (
    "Attention over a cache has the lengths that the annotation of its batch states, as if each token saw all before "
    "it: a sliding window makes it less."
)
UNKNOWN_EXPERTS = (
    "of experts has no FLOPs: its arguments state neither the weights of the experts nor how many each token takes."
)


def is_cached(name: str) -> bool:
    """Whether the operator is attention over a cache, whose cost depends on its batch."""
    return _places(name) is not None


def _places(name: str) -> tuple[int, int, int] | None:
    return _PLACES.get(name) or _PLACES.get(name.rstrip("0123456789").removesuffix("_"))


def cached(name: str) -> Formula | None:
    """The formula of attention over a cache, or of experts; without lengths it knows the type alone."""
    if is_cached(name):
        return lambda operator: _attention(operator, None)
    return _FORMULAS.get(name)


def of_batch(operator: Operator, batch: Attended) -> Cost | None:
    """The cost of attention over a cache in a batch with these lengths; None where they don't fit."""
    return _attention(operator, batch)


def _attention(operator: Operator, batch: Attended | None) -> Cost | None:
    places = _places(operator.name)
    q, k, v = (operator.tensor(place) for place in places) if places else (None, None, None)
    if q is None or k is None or v is None or len(q.shape) != 3 or min(len(k.shape), len(v.shape)) < 3:
        return None
    if batch is None:
        return Cost("attention", None, None, q.type)
    (tokens, heads, size), (shared, keys), values = q.shape, k.shape[-2:], v.shape[-1]
    if batch.queries > tokens or keys != size or v.shape[-2] != shared or not shared or heads % shared:
        return None
    moved = batch.queries * heads * (size + values) * q.size
    moved += batch.keys * shared * (keys * k.size + values * v.size)
    return Cost("attention", heads * batch.pairs * (size + values), moved, q.type)


def _experts(operator: Operator) -> Cost | None:
    """(tokens, first weights, second weights, weights of the choice, chosen): two products for each chosen expert.

    Which experts are chosen, and so the bytes of their weights, isn't stated.
    """
    x, first, second, chosen = (operator.tensor(place) for place in (0, 1, 2, 4))
    if x is None or first is None or second is None or chosen is None:
        return None
    if [len(one.shape) for one in (x, first, second, chosen)] != [2, 3, 3, 2]:
        return None
    tokens, hidden = x.shape
    gated, inner = first.shape[1], second.shape[2]
    fits = first.shape[2] == second.shape[1] == hidden and gated in (inner, 2 * inner) and chosen.shape[0] == tokens
    return Cost("gemm", 2 * chosen.elements * (gated + inner) * hidden, None, first.type) if fits else None


def _unstated(operator: Operator) -> Cost | None:
    x = operator.tensor(0)
    return Cost("gemm", None, None, x.type) if x else None


_FORMULAS: dict[str, Formula] = {
    **{
        f"{engine}::{kind}_fused_experts": _experts for engine in ("vllm", "sglang") for kind in ("inplace", "outplace")
    },
    **dict.fromkeys(("vllm::moe_forward", "vllm::moe_forward_shared"), _unstated),
}


def assumed(items: list[RooflineItem]) -> list[str]:
    """What is assumed of attention over a cache, and what isn't known of it, and of experts, with the time of these."""
    has_cache = any(is_cached(item.name) and item.flops is not None for item in items)
    times: dict[str, int] = {}
    for item in items:
        if item.flops is None and item.bytes is None:
            said = UNKNOWN_LENGTHS if is_cached(item.name) else UNKNOWN_EXPERTS
            times[said] = times.get(said, 0) + item.time
    return [*([WHOLE_CACHE] if has_cache else []), *(f"{brief(time)} {said}" for said, time in times.items())]
