"""Why devices are idle: the cause of each gap between the work of a device, and what the host did in it.

causes    the question of `ktrace summary --by idle`, its answer and tables; the gaps as slices for `--explain idle`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrace.analysis.work.question import Explanation
    from ktrace.store.spill import Spill

#: The columns of the model that it looks at: those of any summary.
COLUMNS: frozenset[str] = frozenset()


def questions(names: Sequence[str], spill: Spill) -> Explanation:
    """The question why devices are idle."""
    from ktrace.analysis.idle.causes import Idle

    return Idle()
