"""The stage that lays out summaries as synthetic slices, so that a table can be seen on a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktrace.model import Batch
from ktrace.report import Report


def layout(batches: Iterable[Batch], report: Report) -> Iterator[Batch]:
    """Passes events, links and facts through, and turns summaries into events with timing `synthetic`."""
    raise NotImplementedError
