"""The bytes of operators that do little arithmetic: what they read and write at least.

Inputs are read once and the output is written once. Where a few bytes aren't known, such as the output of a reduction
over dimensions that weren't recorded, they aren't counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import prod

from ktrace.analysis.questions.roofline.tensors import BYTES, Cost, Formula, Operator, Tensor


def traffic(name: str) -> Formula | None:
    """The formula of an operator; `aten::add_` is that of `aten::add`, written in place."""
    plain = name.removesuffix("_") if not name.endswith("__") else name
    formula = _FORMULAS.get(name) or (_fused if name.startswith("triton_poi_fused") else None)
    if formula is None and plain != name and plain in _FORMULAS and _IN_PLACE[plain]:
        return partial(_in_place, formula=_FORMULAS[plain])
    return formula


def _in_place(operator: Operator, formula: Formula) -> Cost | None:
    """Writes the result to the first input, which decides its shape and type."""
    cost, first = formula(operator), operator.tensor(0)
    if cost is None or first is None:
        return None
    read = sum(one.bytes for one in operator.tensors())
    return Cost(cost.operation, 0, read + first.bytes, first.type)


def _elementwise(
    operator: Operator, inputs: int, operation: str = "elementwise", out: str | None = None
) -> Cost | None:
    """Reads the first `inputs` inputs that are tensors, writes one of their common shape, and type or type `out`."""
    read = [one for one in operator.inputs[:inputs] if one is not None]
    shape = _common([one.shape for one in read])
    if not read or shape is None:
        return None
    type = out or _promoted(read)
    moved = sum(one.bytes for one in read) + prod(shape) * BYTES[type]
    return Cost(operation, 0, moved, type if out is None else read[0].type)


def _common(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape to which these are broadcast; None if they can't be."""
    common: list[int] = []
    for shape in shapes:
        common = [1] * (len(shape) - len(common)) + common
        padded = [1] * (len(common) - len(shape)) + [*shape]
        if any(1 not in (a, b) and a != b for a, b in zip(common, padded, strict=True)):
            return None
        common = [b if a == 1 else a for a, b in zip(common, padded, strict=True)]
    return tuple(common)


def _promoted(tensors: list[Tensor]) -> str:
    """The common type; tensors without dimensions count only if their class is stronger."""
    wide = [one for one in tensors if one.shape] or tensors
    strongest = max(_class(one.type) for one in tensors)
    among = [one for one in wide if _class(one.type) == strongest] or tensors
    types = {one.type for one in among if _class(one.type) == strongest}
    if types == {"fp16", "bf16"}:
        return "fp32"
    return max(types, key=lambda type: (BYTES[type], type))


def _class(type: str) -> int:
    """From weak to strong: the type of a result is the strongest of its inputs."""
    if type.startswith("complex"):
        return 3
    return 0 if type == "bool" else 1 if "int" in type else 2


def _where(operator: Operator) -> Cost | None:
    """(condition, a, b)"""
    read = [one for one in operator.inputs[:3] if one is not None]
    shape = _common([one.shape for one in read])
    if len(read) < 2 or shape is None:
        return None
    type = _promoted(read[1:])
    return Cost("elementwise", 0, sum(one.bytes for one in read) + prod(shape) * BYTES[type], type)


def _like(operator: Operator, operation: str, reads: tuple[int, ...], writes: tuple[int, ...]) -> Cost | None:
    """Reads the inputs at `reads`, writes tensors like those at `writes`."""
    main = operator.tensor(writes[0])
    if main is None:
        return None
    read = [operator.tensor(place) for place in reads]
    written = [operator.tensor(place) for place in writes]
    moved = sum(one.bytes for one in read if one) + sum(one.elements * one.size for one in written if one)
    return Cost(operation, 0, moved, main.type)


def _softmax(operator: Operator) -> Cost | None:
    """(input, dim, half_to_float)"""
    x = operator.tensor(0)
    if x is None:
        return None
    size = 4 if operator.flag(2) else x.size
    return Cost("softmax", 0, x.bytes + x.elements * size, x.type)


def _copied(operator: Operator) -> Cost | None:
    """(to, from)"""
    to, source = operator.tensor(0), operator.tensor(1)
    return Cost("copy", 0, to.bytes + source.bytes, to.type) if to and source else None


def _reduced(operator: Operator, dims: int | None = 1, out: str | None = None, indices: bool = False) -> Cost | None:
    """Reads the input and writes an element for each combination of the other dimensions."""
    x = operator.tensor(0)
    if x is None:
        return None
    if indices and operator.tensor(1):
        return _elementwise(operator, 2)
    left = _left(operator, x, dims)
    size = BYTES[out] if out else x.size
    return Cost("reduction", 0, x.bytes + left * (size + (8 if indices and left > 1 else 0)), x.type)


def _left(operator: Operator, x: Tensor, dims: int | None) -> int:
    """The number of results; 0 if it isn't known."""
    if dims is None or dims >= len(operator.inputs):
        return 1
    if operator.text(dims) is None:
        return 0
    over = operator.wholes(dims)
    if not over:
        return 1
    rank = len(x.shape)
    reduced = {place % rank for place in over} if rank else set()
    return prod(size for place, size in enumerate(x.shape) if place not in reduced)


def _embedding(operator: Operator) -> Cost | None:
    """(table, indices): a row is read and written for each index, as if none came twice."""
    table, indices = operator.tensor(0), operator.tensor(1)
    if table is None or indices is None or len(table.shape) != 2:
        return None
    rows, row = indices.elements, table.shape[1] * table.size
    return Cost("embedding", 0, indices.bytes + (min(rows, table.shape[0]) + rows) * row, table.type)


def _embedding_backward(operator: Operator) -> Cost | None:
    """(gradient, indices, rows of the table)"""
    grad, indices, rows = operator.tensor(0), operator.tensor(1), operator.whole(2)
    if grad is None or indices is None or rows is None or not grad.shape:
        return None
    return Cost("embedding", 0, grad.bytes + indices.bytes + rows * grad.shape[-1] * grad.size, grad.type)


def _gathered(operator: Operator) -> Cost | None:
    """(input, dim, indices): an element is read and written for each index."""
    x, indices = operator.tensor(0), operator.tensor(2)
    if x is None or indices is None:
        return None
    return Cost("gather", 0, indices.bytes + 2 * indices.elements * x.size, x.type)


def _selected(operator: Operator) -> Cost | None:
    """(input, dim, indices): a slice is read and written for each index."""
    x, dim, indices = operator.tensor(0), operator.whole(1), operator.tensor(2)
    if x is None or dim is None or indices is None or not -len(x.shape) <= dim < len(x.shape) or not x.shape[dim]:
        return None
    return Cost("gather", 0, indices.bytes + 2 * (x.elements // x.shape[dim]) * indices.elements * x.size, x.type)


def _written(operator: Operator, operation: str) -> Cost | None:
    """Writes the first input."""
    x = operator.tensor(0)
    return Cost(operation, 0, x.elements * x.size, x.type) if x else None


def _rotated(operator: Operator) -> Cost | None:
    """(positions, query, key, head size, table): both in place; of the table a row for each position."""
    positions, query, key, table = (operator.tensor(place) for place in (0, 1, 2, 4))
    if positions is None or query is None or key is None or table is None or not table.shape:
        return None
    rows = min(positions.elements, table.elements // max(table.shape[-1], 1)) * table.shape[-1] * table.size
    return Cost("rope", 0, positions.bytes + rows + 2 * (query.bytes + key.bytes), query.type)


def _fused(operator: Operator) -> Cost | None:
    """A pointwise kernel that Inductor generated: an element of each tensor at most for each element of the result.

    The number of these is the last value (`xnumel`); a tensor with fewer is broadcast, of one with more a part is used.
    """
    tensors = operator.tensors()
    elements = operator.whole(len(operator.inputs) - 1)
    if not tensors or elements is None or operator.inputs[-1] is not None:
        return None
    return Cost("fused", 0, sum(min(one.elements, elements) * one.size for one in tensors), tensors[-1].type)


def _dropped(operator: Operator) -> Cost | None:
    """(input, p): the result and a mask of a byte for each element."""
    x = operator.tensor(0)
    return Cost("elementwise", 0, x.bytes + x.elements * (x.size + 1), x.type) if x else None


_UNARY = (
    "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh "
    "sigmoid relu gelu silu mish elu leaky_relu hardtanh hardswish hardsigmoid softplus clamp clamp_min clamp_max erf "
    "erfc floor ceil round trunc sign square threshold logit nan_to_num tril triu bitwise_not frac"
)
_BINARY = (
    "add sub rsub mul div pow maximum minimum fmod remainder atan2 bitwise_and bitwise_or bitwise_xor masked_fill "
    "floor_divide"
)
_BACKWARD = (
    "threshold_backward sigmoid_backward tanh_backward gelu_backward silu_backward elu_backward leaky_relu_backward "
    "hardtanh_backward hardswish_backward hardsigmoid_backward softplus_backward mish_backward"
)
_COMPARISONS = "eq ne lt le gt ge logical_and logical_or logical_xor"
_TESTS = "isnan isinf isfinite logical_not"
_RANDOM = "normal_ uniform_ random_ bernoulli_ exponential_"

#: Reductions, with the place of their dimensions.
_REDUCTIONS = {"sum": 1, "mean": 1, "prod": 1, "amax": 1, "amin": 1, "logsumexp": 1, "nansum": 1, "var": 1, "std": 1}
_NORMS = {"norm": 2, "linalg_vector_norm": 2}

_LISTED: tuple[tuple[Iterable[str], Formula], ...] = (
    (_UNARY.split(), partial(_elementwise, inputs=1)),
    ((*_BINARY.split(), *_BACKWARD.split()), partial(_elementwise, inputs=2)),
    (("lerp", "addcmul", "addcdiv"), partial(_elementwise, inputs=3)),
    (("where",), _where),
    (_COMPARISONS.split(), partial(_elementwise, inputs=2, out="bool")),
    (_TESTS.split(), partial(_elementwise, inputs=1, out="bool")),
    (("copy_",), _copied),
    (("fill_", "zero_"), partial(_written, operation="fill")),
    (_RANDOM.split(), partial(_written, operation="random")),
    (("native_dropout",), _dropped),
    (("_softmax", "_log_softmax"), _softmax),
    (
        ("_softmax_backward_data", "_log_softmax_backward_data"),
        partial(_like, operation="softmax", reads=(0, 1), writes=(0,)),
    ),
    (("native_layer_norm",), partial(_like, operation="norm", reads=(0, 2, 3), writes=(0,))),
    (("_fused_rms_norm",), partial(_like, operation="norm", reads=(0, 2), writes=(0,))),
    (
        ("native_layer_norm_backward",),
        partial(_like, operation="norm", reads=(0, 1, 3, 4, 5), writes=(1, 5, 6)),
    ),
    (("native_group_norm",), partial(_like, operation="norm", reads=(0, 1, 2), writes=(0,))),
    (
        ("native_group_norm_backward",),
        partial(_like, operation="norm", reads=(0, 1, 2, 3, 4), writes=(1, 4, 4)),
    ),
    (
        ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"),
        partial(_like, operation="norm", reads=(0, 1, 2, 3, 4), writes=(0,)),
    ),
    (
        ("native_batch_norm_backward",),
        partial(_like, operation="norm", reads=(0, 1, 2, 5, 6), writes=(1, 2, 2)),
    ),
    (
        ("cudnn_batch_norm_backward", "miopen_batch_norm_backward"),
        partial(_like, operation="norm", reads=(0, 1, 2, 5, 6), writes=(0, 2, 2)),
    ),
    *(((name,), partial(_reduced, dims=dims)) for name, dims in (_REDUCTIONS | _NORMS).items()),
    (("max", "min"), partial(_reduced, indices=True)),
    (("any", "all"), partial(_reduced, out="bool")),
    (("argmax", "argmin"), partial(_reduced, out="int64")),
    (("embedding",), _embedding),
    (("embedding_dense_backward",), _embedding_backward),
    (("gather",), _gathered),
    (("index_select",), _selected),
)

_FORMULAS = {f"aten::{name}": formula for names, formula in _LISTED for name in names}

_NORM_INTO = partial(_like, operation="norm", reads=(1, 2), writes=(0,))
_NORM_IN_PLACE = partial(_like, operation="norm", reads=(0, 1, 2), writes=(0, 1))
_NORM_WITH_ADD = partial(_like, operation="norm", reads=(1, 2, 4), writes=(0, 3))
_CACHED = partial(_like, operation="kv-cache", reads=(0, 1, 4), writes=(0, 1))

#: Operators of the extensions of engines: results come first or are written in place. vLLM: csrc/torch_bindings.cpp;
#: SGLang: sgl-kernel/csrc/common_extension.cc, sglang::store_cache; aiter: csrc/include/rmsnorm.h, aiter/ops/.
_FORMULAS |= {
    "_C::rms_norm": _NORM_INTO,
    "sgl_kernel::rmsnorm": _NORM_INTO,
    "sgl_kernel::gemma_rmsnorm": _NORM_INTO,
    "aiter::rmsnorm": _NORM_INTO,
    "aiter::rms_norm": partial(_like, operation="norm", reads=(0, 1), writes=(0,)),
    "aiter::rmsnorm2d_fwd": partial(_like, operation="norm", reads=(0, 1), writes=(0,)),
    "_C::fused_add_rms_norm": _NORM_IN_PLACE,
    "sgl_kernel::fused_add_rmsnorm": _NORM_IN_PLACE,
    "aiter::add_rmsnorm": _NORM_WITH_ADD,
    "aiter::rmsnorm2d_fwd_with_add": _NORM_WITH_ADD,
    "aiter::rmsnorm2d_fwd_with_add_ck": _NORM_WITH_ADD,
    **{
        f"{engine}::{name}": partial(_like, operation="activation", reads=(1,), writes=(0,))
        for engine in ("_C", "sgl_kernel", "aiter")
        for name in ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul")
    },
    "_C::static_scaled_fp8_quant": partial(_like, operation="quantise", reads=(1, 2), writes=(0,)),
    "_C::dynamic_scaled_fp8_quant": partial(_like, operation="quantise", reads=(1,), writes=(0, 2)),
    "_C::dynamic_per_token_scaled_fp8_quant": partial(_like, operation="quantise", reads=(1,), writes=(0, 2)),
    "sgl_kernel::sgl_per_token_quant_fp8": partial(_like, operation="quantise", reads=(0,), writes=(1, 2)),
    "sgl_kernel::sgl_per_token_group_quant_fp8": partial(_like, operation="quantise", reads=(0,), writes=(1, 2)),
    **dict.fromkeys(("_C::rotary_embedding", "sgl_kernel::rotary_embedding"), _rotated),
    **dict.fromkeys(
        ("_C_cache_ops::reshape_and_cache_flash", "_C_cache_ops::reshape_and_cache", "sglang::store_cache"), _CACHED
    ),
    "_moe_C::topk_softmax": partial(_like, operation="moe", reads=(3,), writes=(0, 1, 2)),
    "sgl_kernel::topk_softmax": partial(_like, operation="moe", reads=(2,), writes=(0, 1)),
    "_moe_C::moe_sum": partial(_like, operation="moe", reads=(0,), writes=(1,)),
}

#: Whether the form with an underscore after the name is the same operator, written in place.
_IN_PLACE = {
    name: name.removeprefix("aten::") in {*_UNARY.split(), *_BINARY.split(), "lerp", "addcmul", "addcdiv"}
    for name in _FORMULAS
}
