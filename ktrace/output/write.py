"""Passes batches through the stages that a format needs, and into its writer: the protocols of writers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ktrace.conversion import Conversion
from ktrace.errors import OutputError
from ktrace.input.format import Format
from ktrace.model.batch import Batch
from ktrace.output import Sink
from ktrace.parallel.threads import prefetch
from ktrace.report import Ledger, Report
from ktrace.stages.layout import layout
from ktrace.stages.order.pairing import pair_halves

if TYPE_CHECKING:
    from ktrace.stages.order import Timeline, TimelineBatch


def write_batches(batches: Iterable[Batch], fmt: Format, sink: Sink, conversion: Conversion) -> None:
    """Passes the batches through the stages that the format needs, and into its writer."""
    report = conversion.report
    batches = _begun(batches)
    writer = fmt.function("writer")(sink, conversion)
    if fmt.timeline:
        from ktrace.stages.order import order

        form = conversion.options.get("gpu", "")
        lanes, folds = not fmt.overlap or form.startswith("slices"), fmt.overlap and not form.endswith("by-stream")
        timeline = order(layout(batches, report), report, device_lanes=lanes, graph_lanes=folds)
        ledger = report.stage(fmt.name)
        writer.start(timeline)
        for ordered in prefetch(timeline.batches()):
            rows = len(ordered) + ordered.link_ends
            kept = writer.write(ordered)
            _account(report, ledger, rows, kept, getattr(writer, "left_out", ""))
    else:
        batches = pair_halves(batches, report)
        table = conversion.options.get("table")
        if table:
            batches = _only_record(table, batches, report.stage("--table"))
        ledger = report.stage(fmt.name)
        for batch in batches:
            kept = writer.write(batch)
            if batch.record != "catalog":
                _account(report, ledger, len(batch), kept)
    writer.close()


def _begun(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The same batches, read up to the first rows: a reader's processes and threads work while modules are imported."""
    remaining = iter(batches)
    first: deque[Batch] = deque()
    for batch in remaining:
        first.append(batch)
        if batch.record != "catalog":
            break

    def all_batches() -> Iterator[Batch]:
        while first:
            yield first.popleft()
        yield from remaining

    return all_batches()


def _only_record(table: str, batches: Iterable[Batch], ledger: Ledger) -> Iterator[Batch]:
    """Yields the catalog and the batches of one record."""
    for batch in batches:
        if batch.record != "catalog":
            ledger.taken += len(batch)
            if batch.record != table:
                ledger.removed["other records"] += len(batch)
                continue
            ledger.given += len(batch)
        yield batch


def _account(report: Report, ledger: Ledger, rows: int, kept: int, left_out: str = "") -> None:
    ledger.taken += rows
    ledger.given += kept
    if rows > kept:
        detail = left_out or f"{rows - kept} rows"
        report.issue("not-representable", ledger.stage, detail, rows - kept, stage=ledger)


class TableWriter(Protocol):
    """A writer that accepts batches in any order."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None: ...

    def write(self, batch: Batch) -> int:
        """Writes the rows and returns how many it kept, not counting the catalog."""

    def close(self) -> None:
        """Finishes the output."""


class TimelineWriter(Protocol):
    """A writer that accepts the rows of the stage `order`: sorted, paired and nested, with their arrows.

    A writer may have an attribute `left_out`: what it didn't keep of the last batch, in words, for the report.
    """

    def __init__(self, sink: Sink, conversion: Conversion) -> None: ...

    def start(self, timeline: Timeline) -> None:
        """Receives the catalog, the tracks and the span, before the first batch."""

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows and returns how many events and arrow ends it kept."""

    def close(self) -> None:
        """Finishes the output."""


def open_sink(path: str, fmt: Format, *, overwrite: bool = False, inside: Path | None = None) -> Sink:
    """Returns the output of that name: a folder if the name ends in a slash ("run.parquet/") or is an existing folder.

    Raises OutputError as `Sink` does, and for a folder name if the format writes a single file.
    """
    if path.endswith("/") and not fmt.writes_folders:
        raise OutputError(f"is named like a folder, but {fmt.name} is one file", path=path, remedy="leave out the '/'")
    folder = fmt.writes_folders and (path.endswith("/") or Path(path).is_dir())
    return Sink(path, overwrite=overwrite, folder=folder, inside=inside)
