"""Passes batches through the stages that a format needs, and into its writer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from ktrace.conversion import Conversion
from ktrace.input.format import Format
from ktrace.model.batch import Batch
from ktrace.output.sink import Sink
from ktrace.parallel.prefetch import prefetch
from ktrace.report import Ledger, Report
from ktrace.stages.layout.tables import layout
from ktrace.stages.pair import pair_halves


def write_batches(batches: Iterable[Batch], fmt: Format, sink: Sink, conversion: Conversion) -> None:
    """Passes the batches through the stages that the format needs, and into its writer."""
    report = conversion.report
    batches = _begun(batches)
    writer = fmt.function("writer")(sink, conversion)
    if fmt.timeline:
        from ktrace.stages.order.timeline import order

        lanes = not fmt.overlap or conversion.options.get("gpu") == "slices"
        timeline = order(layout(batches, report), report, device_lanes=lanes)
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
    rest = iter(batches)
    first: deque[Batch] = deque()
    for batch in rest:
        first.append(batch)
        if batch.record != "catalog":
            break

    def all_batches() -> Iterator[Batch]:
        while first:
            yield first.popleft()
        yield from rest

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
