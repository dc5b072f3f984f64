"""The cost of attention: two products forward, five backward, and half of each where a causal mask leaves half.

forward     S = Q K',  O = P V
backward    S again,  dV = P' dO,  dP = dO V',  dQ = dS K,  dK = dS' Q
"""

from __future__ import annotations

from typing import NamedTuple

from ktrace.analysis.roofline.costs import Cost, Formula
from ktrace.analysis.roofline.tensors import Operator, Tensor


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
        known = _equal(operator, layout, q, k)
        if known is None:
            return None
        batch, queries, keys = known
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
