"""Requests of inference servers: how long each waited, was prefilled and decoded, and what devices did meanwhile.

requests   the question of `ktrace summary --by request`
answer     its figures as tables
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrace.analysis.work.question import Question
    from ktrace.store.spill import Spill

#: The columns of the model that it looks at, besides those of any summary.
COLUMNS = frozenset({"args"})


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The question where the time of requests went."""
    from ktrace.analysis.requests.requests import Requests

    return Requests()
