"""The cost of products of matrices and of convolutions.

A multiplication and an addition are two operations. The addition of a bias isn't counted.
"""

from __future__ import annotations

from functools import partial
from math import prod

from ktrace.analysis.roofline.costs import Cost, Formula
from ktrace.analysis.roofline.tensors import BYTES, NUMBERED, Operator, Tensor


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
    transposed, wanted = operator.flag(7), operator.flags(10)
    if grad is None or x is None or weight is None or transposed is None or wanted is None or len(wanted) != 3:
        return None
    one = 2 * _positions(x.shape, grad.shape, transposed) * weight.elements
    moved = grad.bytes
    moved += weight.bytes + x.elements * x.size if wanted[0] else 0
    moved += x.bytes + weight.elements * weight.size if wanted[1] else 0
    moved += grad.shape[1] * grad.size if wanted[2] else 0
    return Cost("conv", one * sum(wanted[:2]), moved, x.type)


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
