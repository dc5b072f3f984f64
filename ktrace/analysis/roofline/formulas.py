"""The formula of each operator."""

from __future__ import annotations

from ktrace.analysis.roofline.attention import ATTENTION
from ktrace.analysis.roofline.costs import Cost
from ktrace.analysis.roofline.products import PRODUCTS
from ktrace.analysis.roofline.tensors import Operator
from ktrace.analysis.roofline.traffic import traffic


def cost_of(operator: Operator) -> Cost | None:
    """The cost of an operator; None if it has no formula or its inputs don't match the formula."""
    formula = PRODUCTS.get(operator.name) or ATTENTION.get(operator.name) or traffic(operator.name)
    return formula(operator) if formula else None
