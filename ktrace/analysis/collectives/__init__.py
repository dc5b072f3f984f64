"""What collectives do: sizes, bandwidths, skew of arrival, and which ranks the others wait for.

batches ──► rows ──► found ──► skew ──► answer

rows     the collectives among the events, with what their arguments and NCCL's own ranges state, such as bytes
found    the collectives of all ranks as columns, in one clock; the same one on several ranks
skew     the question of `ktrace summary --by collective`
answer   the answer and its tables
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktrace.analysis.collectives.rows import COLUMNS as COLUMNS

if TYPE_CHECKING:
    from ktrace.analysis.work.question import Question
    from ktrace.store.spill import Spill


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The question what collectives do."""
    from ktrace.analysis.collectives.skew import CollectivesQuestion

    return CollectivesQuestion(spill)
