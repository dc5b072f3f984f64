"""What was read before, from the cache: large inputs of which `ktrace view` has kept the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ktrace.model.batch import Batch
from ktrace.pipeline.selection import Selection
from ktrace.report import Report

#: The least bytes of an input that is looked for in the cache.
KEPT_FROM = 16 << 20


def kept_batches(
    paths: Sequence[str], selection: Selection, report: Report, columns: frozenset[str] | None
) -> Iterator[Batch] | None:
    """The batches of a large input that was viewed before, from the cache; None for other inputs."""
    if len(paths) != 1 or selection.keep_export or selection.capture or selection.limits is not None:
        return None
    if not Path(paths[0]).is_file() or Path(paths[0]).stat().st_size < KEPT_FROM:
        return None
    from ktrace.analysis.overview.cache import cache_folder, found

    if (folder := cache_folder()) is None or not folder.is_dir():
        return None
    key = key_of(paths, Selection(from_=selection.from_, map=selection.map))
    kept = found(key) if key else None
    if kept is None or not kept.is_as_read:
        return None
    account = kept.report()
    report.merge(account)
    report.inputs += account.inputs
    report.rows.update(account.rows)
    report.timed |= account.timed
    return kept.batches(columns=columns)


def key_of(paths: Sequence[str], selection: Selection) -> str | None:
    """The key of a trace in the cache; None for what takes more from other files than the inputs."""
    if selection.capture or selection.metrics or selection.execution_trace:
        return None
    from ktrace.analysis.overview import cache

    chosen = (selection.fingerprint(), selection.explain, repr(selection.align), selection.keep_export)
    return cache.key_of(paths, selection.from_, chosen)
