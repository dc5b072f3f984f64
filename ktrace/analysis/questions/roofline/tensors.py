"""The inputs of an operator as PyTorch records them (shapes, types, strides, other values), and what its work costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import msgspec

from ktrace.model.json_text import NOT_JSON

#: The name and the bytes of each type of elements, as PyTorch writes it.
TYPES: dict[str, tuple[str, int]] = {
    "double": ("fp64", 8),
    "float": ("fp32", 4),
    "c10::Half": ("fp16", 2),
    "c10::BFloat16": ("bf16", 2),
    "c10::Float8_e4m3fn": ("fp8", 1),
    "c10::Float8_e4m3fnuz": ("fp8", 1),
    "c10::Float8_e5m2": ("fp8", 1),
    "c10::Float8_e5m2fnuz": ("fp8", 1),
    "c10::complex<float>": ("complex64", 8),
    "c10::complex<double>": ("complex128", 16),
    "long int": ("int64", 8),
    "long": ("int64", 8),
    "int": ("int32", 4),
    "short int": ("int16", 2),
    "short": ("int16", 2),
    "signed char": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "bool": ("bool", 1),
}

#: The types by their names: the bytes of an element.
BYTES = dict(TYPES.values())

#: torch's numbers of types, as `dtype` arguments have them (c10/core/ScalarType.h).
NUMBERED = {
    **{"0": "uint8", "1": "int8", "2": "int16", "3": "int32", "4": "int64", "5": "fp16", "6": "fp32", "7": "fp64"},
    **{"9": "complex64", "10": "complex128", "11": "bool", "15": "bf16"},
    **{"23": "fp8", "24": "fp8", "25": "fp8", "26": "fp8"},
}

#: The arguments that describe inputs, each with its spellings (the second is that of 2021).
SPELLINGS = {
    "dims": ("Input Dims", "Input dims"),
    "types": ("Input type",),
    "concrete": ("Concrete Inputs",),
    "strides": ("Input Strides",),
}

#: Limits of tensors that can be; texts beyond them are damaged.
_DIMENSIONS, _GREATEST = 64, 1 << 62


class Tensor(NamedTuple):
    """A tensor: its shape, the name of its type, and its strides if they are known."""

    shape: tuple[int, ...]
    type: str
    strides: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return BYTES[self.type]

    @property
    def bytes(self) -> int:
        """The bytes in memory: a dimension with stride 0 repeats the same elements."""
        strides = self.strides if self.strides and len(self.strides) == len(self.shape) else (1,) * len(self.shape)
        there = 0 not in self.shape
        return prod(n for n, stride in zip(self.shape, strides, strict=True) if stride) * self.size if there else 0


@dataclass(frozen=True)
class Operator:
    """An operator with its inputs: tensors, or None for other values; `concrete` are these values as text."""

    name: str
    inputs: tuple[Tensor | None, ...]
    concrete: tuple[str, ...] = ()

    def tensor(self, place: int) -> Tensor | None:
        """The input at a place, None if it isn't a tensor."""
        return self.inputs[place] if place < len(self.inputs) else None

    def tensors(self) -> list[Tensor]:
        """The inputs that are tensors."""
        return [one for one in self.inputs if one is not None]

    def text(self, place: int) -> str | None:
        """The value of an input that isn't a tensor, None if it wasn't recorded."""
        return self.concrete[place] if place < len(self.concrete) else None

    def flag(self, place: int) -> bool | None:
        """True or False, None if it isn't recorded."""
        return {"True": True, "False": False}.get(self.text(place) or "")

    def flags(self, place: int) -> list[bool] | None:
        """A list of True and False."""
        words = _listed(self.text(place))
        return None if words is None or {*words} - {"True", "False"} else [word == "True" for word in words]

    def whole(self, place: int) -> int | None:
        """A whole number."""
        return _to_int_or_none(self.text(place) or "")

    def wholes(self, place: int) -> list[int] | None:
        """A list of whole numbers; one number is a list of one."""
        text = self.text(place)
        words = [text] if text and not text.startswith("[") else _listed(text)
        numbers = [_to_int_or_none(word) for word in words or ()]
        return None if words is None or None in numbers else [number for number in numbers if number is not None]

    @property
    def shapes(self) -> str:
        """The shapes of the tensors, as people write them."""
        return ", ".join("x".join(map(str, one.shape)) for one in self.tensors() if one.shape)


def parsed(name: str, dims: bytes, types: bytes, concrete: bytes | None, strides: bytes | None) -> Operator | None:
    """The operator with these JSON texts; None if they can't be read as a list of inputs."""
    lists = [_list(text) for text in (dims, types, concrete, strides)]
    shapes, kinds, values, steps = lists
    if shapes is None or kinds is None or len(shapes) != len(kinds):
        return None
    steps = steps if steps is not None and len(steps) == len(shapes) else [None] * len(shapes)
    inputs = tuple(_tensor(*one) for one in zip(shapes, kinds, steps, strict=True))
    return Operator(name, inputs, tuple(str(value) for value in values or ()))


def _tensor(shape: Any, type: Any, strides: Any) -> Tensor | None:
    type_ = TYPES.get(type) if isinstance(type, str) else None
    if type_ is None or not _sizes(shape) or prod(shape) >= _GREATEST:
        return None
    return Tensor(tuple(shape), type_[0], tuple(strides) if _sizes(strides) else None)


def _sizes(value: Any) -> bool:
    """Whether these are sizes or strides, of no more elements than a 64-bit number can count."""
    if not isinstance(value, list) or len(value) > _DIMENSIONS:
        return False
    return all(type(one) is int and 0 <= one < _GREATEST for one in value)


def _list(text: bytes | None) -> list[Any] | None:
    try:
        value = msgspec.json.decode(text) if text else None
    except NOT_JSON:
        return None
    return value if isinstance(value, list) else None


def _listed(text: str | None) -> list[str] | None:
    if not text or not (text.startswith("[") and text.endswith("]")):
        return None
    return [word.strip() for word in text[1:-1].split(",") if word.strip()]


def _to_int_or_none(text: str) -> int | None:
    return int(text) if text.lstrip("-").isdecimal() and text.isascii() and len(text) < 19 else None


@dataclass(frozen=True)
class Cost:
    """The cost of one call of an operator.

    Each is None if it isn't known; `flops` is 0 for operators whose time the bytes decide, such as an addition.
    `precision` is the type of the elements that are multiplied or moved.
    """

    operation: str
    flops: int | None
    bytes: int | None
    precision: str


#: Returns the cost of an operator.
Formula = Callable[[Operator], Cost | None]
