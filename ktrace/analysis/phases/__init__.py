"""The phases of inference: how long prefill, decode and mixed batches take, by batch size, and what they yield.

phases    the questions of `ktrace summary --by phase` and `--by batch`; the steps as slices for `--explain phase`
answer    the figures as tables
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
    """The questions where the time of the phases, and of batches, went: "phase", "batch"."""
    from ktrace.analysis.phases.phases import Phases

    return Phases(names)
