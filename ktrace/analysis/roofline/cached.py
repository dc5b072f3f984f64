"""The cost of attention over a cache of keys and values, and of experts: what the engines' operators state of it.

vllm::unified_attention_with_output  32x64x64, 32x8x64, 32x8x64       the new tokens alone; how many are in the cache of
                                                                     each request, nothing tells but the annotation:
execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)

A causal mask is assumed under which a token sees all tokens before it: windows aren't stated.
"""

from __future__ import annotations

from ktrace.analysis.roofline.answer import Item
from ktrace.analysis.roofline.tensors import Cost, Formula, Operator
from ktrace.naming.phases import Attended
from ktrace.tables.figures import brief

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
    return Cost("moe", None, None, x.type) if x else None


_FORMULAS: dict[str, Formula] = {
    **{
        f"{engine}::{kind}_fused_experts": _experts for engine in ("vllm", "sglang") for kind in ("inplace", "outplace")
    },
    **dict.fromkeys(("vllm::moe_forward", "vllm::moe_forward_shared"), _unstated),
}


def assumed(items: list[Item]) -> list[str]:
    """What is assumed of attention over a cache, and what isn't known of it, and of experts, with the time of these."""
    known = any(is_cached(item.name) and item.flops is not None for item in items)
    times: dict[str, int] = {}
    for item in items:
        if item.flops is None and item.bytes is None:
            said = UNKNOWN_LENGTHS if is_cached(item.name) else UNKNOWN_EXPERTS
            times[said] = times.get(said, 0) + item.time
    return [*([WHOLE_CACHE] if known else []), *(f"{brief(time)} {said}" for said, time in times.items())]
