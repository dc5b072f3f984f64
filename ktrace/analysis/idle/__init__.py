"""Why devices are idle: the cause of each gap between the work of a device, and what the host did in it.

causes    the question of `ktrace summary --by idle`, its answer and tables; the gaps as slices for `--explain idle`
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
    """The question why devices are idle."""
    from ktrace.analysis.idle.causes import Idle

    return Idle()


def explain(work: Work, labels: Labels) -> Iterator[pa.RecordBatch]:
    """Yields the gaps as events on a track of each device: columns of the model without `id`."""
    from ktrace.analysis.idle.causes import slices

    return slices(work)
