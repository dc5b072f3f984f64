"""Memory: how much was allocated and reserved at most, when, and who held it.

memory    the question of `ktrace summary --by memory`; what the greatest owners hold as counters for `--explain memory`
answer    its figures as tables
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrace.analysis.work.question import Explanation
    from ktrace.store.spill import Spill

#: The columns of the model that it looks at, besides those of any summary.
COLUMNS = frozenset({"bytes", "args", "tid"})


def questions(names: Sequence[str], spill: Spill) -> Explanation:
    """The question where memory went."""
    from ktrace.analysis.memory.memory import Memory

    return Memory(spill)
