"""The phases of inference: how long prefill, decode and mixed batches take, by batch size, and what they yield.

phases    the questions of `ktrace summary --by phase` and `--by batch`; the steps as slices for `--explain phase`
answer    the figures as tables
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from ktrace.analysis.work.device_work import Work
    from ktrace.analysis.work.question import Labels, Question
    from ktrace.store.spill import Spill

#: The columns of the model that it looks at: those of any summary.
COLUMNS: frozenset[str] = frozenset()

#: Whether `explain` needs `SummaryInput.spans`.
SPANS = True


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The questions where the time of the phases, and of batches, went: "phase", "batch"."""
    from ktrace.analysis.phases.phases import Phases

    return Phases(names)


def explain(work: Work, labels: Labels) -> Iterator[pa.RecordBatch]:
    """Yields the steps of phases as events on a track of each device: columns of the model without `id`."""
    from ktrace.analysis.phases.phases import slices

    return slices(work)
