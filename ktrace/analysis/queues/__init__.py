"""How the host feeds its devices: how much is queued on each stream, and what each wait for a device costs.

queue    the question of `ktrace summary --by queue`
waits    that of `--by wait`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrace.analysis.work.question import Question
    from ktrace.store.spill import Spill

#: The columns of the model that they look at: those of any summary.
COLUMNS: frozenset[str] = frozenset()


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The questions "queue" and "wait"."""
    from ktrace.analysis.queues.queue import Queues

    return Queues(names)
