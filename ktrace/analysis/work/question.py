"""What answers a question about the work of a trace, other than "how long did it take?".

A room of `ktrace.analysis` that answers questions has a function `questions(names, spill)` which returns a `Question`,
and COLUMNS, the columns of the model that it looks at. `ktrace.analysis.summary.questions` lists the rooms by the names
of their questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from ktrace.model.batch import Batch
from ktrace.store.spill import Spill
from ktrace.tables.table import Table

if TYPE_CHECKING:
    from ktrace.analysis.work.events import Work
    from ktrace.analysis.work.labels import Labels


class Answer(Protocol):
    """An answer: figures of its own, and tables of them."""

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The answer as tables with at most `top` rows; `brief` leaves out columns that a terminal has no space for."""


class Question(Protocol):
    """Collects what it needs from all batches, and answers when they have been seen.

    `spans` says whether it needs `SummaryInput.spans`.
    """

    spans: bool

    def see(self, batch: Batch) -> None:
        """Looks at a batch; events and links are of one source. Rows that a filter leaves out are seen, too."""

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answers by the names of the questions, without those that the trace knows nothing about."""


#: Makes the question that answers these names.
Questions = Callable[[tuple[str, ...], Spill], Question]
