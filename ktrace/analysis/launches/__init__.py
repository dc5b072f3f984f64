"""How kernels are launched, how long they are and what limits them; copies by direction.

launches   the questions of `ktrace summary --by launch`, `limits`, `duration`, `copy` and `sequence`
answer     their figures as tables
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrace.analysis.work.question import Question
    from ktrace.store.spill import Spill

#: The columns of the model that it looks at, besides those of any summary.
COLUMNS = frozenset(
    (
        *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "shared_memory"),
        *("parent", "value", "metric", "args", "bytes", "copy_kind"),
    )
)


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The questions "launch", "limits", "duration", "copy" and "sequence"."""
    from ktrace.analysis.launches.launches import Launches

    return Launches(names)
