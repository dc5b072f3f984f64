"""What ktrace finds out about a trace, as slices in it: `ktrace convert --explain idle`.

batches ──┬──────────────────────────────────────────► batches ──► rows of the explanations
          └─► analysis.work ──► explain() of each question ──────────────┘

The question of a package of `ktrace.analysis` that explains has a method `explain`, which yields events with columns of
the model without `id` (`ktrace.analysis.work.question.Explanation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from ktrace.errors import UsageError
from ktrace.model.batch import Batch
from ktrace.model.masks import each_source
from ktrace.model.row_builder import NewIds

if TYPE_CHECKING:
    from ktrace.analysis.work.gather import WorkInput
    from ktrace.analysis.work.question import Explanation
    from ktrace.report import Report

#: What can be explained -> the package that does it.
EXPLANATIONS = {
    "idle": "ktrace.analysis.questions.idle",
    "critical-path": "ktrace.analysis.questions.critical_path",
    "phase": "ktrace.analysis.questions.phases",
    "memory": "ktrace.analysis.questions.memory",
}


def explained(
    batches: Iterable[Batch], names: Sequence[str], report: Report, *, is_classified: bool = False
) -> Iterator[Batch]:
    """Yields all batches, and then the rows of the explanations with these names.

    Begins and ends must be paired; `is_classified` says that device work has its labels. Raises UsageError at once for
    a name that isn't known.
    """
    for name in names:
        if name not in EXPLANATIONS:
            raise UsageError(f"'{name}' can't be explained", expected=", ".join(EXPLANATIONS))
    return _explained(batches, list(dict.fromkeys(names)), report, is_classified)


def _explained(batches: Iterable[Batch], names: Sequence[str], report: Report, is_classified: bool) -> Iterator[Batch]:
    from ktrace.analysis.work.device_work import Work
    from ktrace.analysis.work.gather import WorkInput
    from ktrace.analysis.work.question import Labels
    from ktrace.naming.taxonomy import taxonomy
    from ktrace.store import SPILL_BYTES, Spill

    spill = Spill(SPILL_BYTES)
    try:
        questions: dict[str, Explanation] = {
            name: import_module(EXPLANATIONS[name]).questions((name,), spill) for name in names
        }
        spans = any(one.spans for one in questions.values())
        gathered = WorkInput(taxonomy(None), spill, is_classified=is_classified, spans=spans)
        ids = NewIds()
        passed = 0
        for batch in batches:
            passed += len(batch) if batch.record != "catalog" else 0
            _gather(batch, gathered, questions.values(), ids)
            yield batch
        ledger = report.stage("explain")
        ledger.taken = ledger.given = passed
        work = Work.of_devices(gathered)
        labels = Labels(gathered.catalog, {(row["source"], row["host"], row["device"]) for row in work.shapes})
        for name, question in questions.items():
            for columns in question.explain(work, labels):
                rows = Batch("events", columns)
                ledger.added[name] += len(rows)
                ledger.given += len(rows)
                yield Batch("events", columns.append_column("id", ids.take(rows.column("source"))))
            if not ledger.added[name]:
                del ledger.added[name]
                report.issue("unexplained", "--explain", name, 0)
    finally:
        spill.close()


def _gather(batch: Batch, gathered: WorkInput, questions: Iterable[Explanation], ids: NewIds) -> None:
    """Collects the work of a batch, what explanations need of it, and the greatest id of each source."""
    if batch.record == "catalog":
        gathered.collect_work(batch)
        return
    ids.see(batch)
    for _, rows in each_source(batch):
        if batch.record != "summaries":
            gathered.collect_host(rows)
            gathered.collect_work(rows)
            for question in questions:
                question.see(rows)
