"""How near the work is to what the machine can do.

shapes of operators ──► tensors ──► formulas (products, attention, traffic) ──► operators ──┐
figures of the source ──► measured ──► stated ──────────────────────────────────────────────┤
                                                                          tables ◄── answer ◄── gather

tensors    the inputs of an operator: shapes, types, values
costs      the FLOPs and the least bytes of an operator
products   the cost of products of matrices and of convolutions
attention  the cost of attention
traffic    the bytes of operators that do little arithmetic
formulas   the formula of each operator
operators  collects operators, finds the one that work belongs to
measured   collects FLOPs and bytes that the source states
stated     the work that these figures belong to
peaks      the peak rates of devices
model      work with its cost, and rates
gather     the question
answer     the answer
tables     the answer as tables
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrace.analysis.work.question import Question
    from ktrace.store.spill import Spill

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
    from ktrace.analysis.roofline.gather import Roofline

    return Roofline(spill)
