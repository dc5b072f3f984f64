"""What an operator costs at least: its floating-point operations, and the bytes that it reads and writes.

aten::mm  8x64, 64x32 bf16      flops 2*8*32*64 = 32,768      bytes 2*(8*64 + 64*32 + 8*32) = 5,632

The bytes are a minimum: each input is read once, each output is written once. Operators without a formula, and those
whose formula needs something that wasn't recorded, cost None: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ktrace.analysis.roofline.tensors import Operator


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
