"""How near the work is to what the machine can do.

shapes of operators ──► tensors ──► products, traffic ──┐
figures of the source ──► measured ─────────────────────┴─► roofline ──► answer

tensors    the inputs of an operator: shapes, types, values; its FLOPs and least bytes
products   the cost of products of matrices, of convolutions, of attention and of experts
traffic    the bytes of operators that do little arithmetic
measured   FLOPs and bytes that the source states, and the work that they belong to
peaks      the peak rates of devices
roofline   the question
answer     work with its cost, rates, and the tables of both
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrace.analysis.work.question import Question
    from ktrace.store import Spill

#: The columns of the model that the question looks at.
COLUMNS = frozenset(
    {
        "args",
        "source",
        "host",
        "pid",
        "tid",
        "kind",
        "name",
        "ts",
        "dur",
        "id",
        "parent",
        "value",
        "operation",
        "precision",
        "short_name",
        "device",
        "count",
        "total",
    }
)


def questions(names: tuple[str, ...], spill: Spill) -> Question:
    """The question how near the work is to what the device can do."""
    from ktrace.analysis.questions.roofline.roofline import Roofline

    return Roofline(spill)
