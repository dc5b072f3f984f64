"""Reads Perfetto traces that ktrace or any other program wrote."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.snapshot import FileBytes
from ktrace.input.source import Source, printable
from ktrace.kit.canonical.unique_ids import with_unique_ids
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder, to_batch

from .reading.clocks import clock_name
from .reading.context import Context
from .reading.counters import metrics_with_parents
from .reading.links import late_links
from .reading.packets import find_sidecar, not_a_trace, opened
from .reading.read_ahead import is_worthwhile, read_ahead
from .reading.trace import TraceReader
from .reading.tracks import Tracks


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the batches of the trace; facts about processes, devices and clocks come last.

    Raises DamagedInput if no packet is whole.
    """
    with opened(source) as data:
        sidecar = find_sidecar(data)

        def read_all(conversion: Conversion) -> Iterator[Batch]:
            context = Context(conversion, sidecar, Tracks(conversion.label, sidecar))
            batches = _read(context, data, source)
            if sidecar is not None:  # else the reader counts the ids itself
                batches = with_unique_ids(batches, conversion.report)
            for batch in batches:
                for first in range(0, len(batch), conversion.batch_rows):
                    yield Batch(batch.record, batch.columns.slice(first, conversion.batch_rows))

        yield from read_ahead(read_all, conversion) if is_worthwhile(conversion, len(data)) else read_all(conversion)


def _read(context: Context, data: FileBytes, source: Source) -> Iterator[Batch]:
    reader = TraceReader(context)
    rows = RowBuilder(context.conversion)
    if context.sidecar is None:
        rows.fact("source", name=context.conversion.label, facts={"path": printable(source.path), "format": "perfetto"})
    yield from rows.rest()
    ledger = context.conversion.report.reader
    taken_before = ledger.taken
    yield from reader.read(data)
    if ledger.taken - taken_before <= ledger.removed["cut"]:
        raise not_a_trace(source.path)
    yield from reader.rest()
    if context.unread:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in context.unread.most_common())
        where = context.where(context.first_unread)
        context.conversion.report.issue("unread-packet", where, kinds, context.unread.total())
    if context.sidecar is not None and not context.sidecar.ended and not ledger.removed["cut"]:
        context.conversion.report.issue("cut", f"byte {len(data)}", "the end of the trace is missing", 0)
    yield from metrics_with_parents(context, lambda again: TraceReader(again).read(data))
    yield from late_links(context)
    damaged = context.trace_texts.damaged + context.argument_names.damaged
    if damaged:
        context.conversion.report.issue("encoding", "interned texts", f"{damaged} texts", damaged)
    _facts(context, rows)
    yield from rows.rest()


def _facts(context: Context, rows: RowBuilder) -> None:
    """Adds facts about processes, threads, tracks, devices and clocks to the catalog."""
    if context.sidecar is not None:
        report = context.conversion.report
        for fact in context.sidecar.catalog:
            try:
                to_batch("catalog", [{"source": "", "id": 0, "entity": "", **fact, "facts": None}])
            except (KeyError, TypeError, ValueError, pa.ArrowException):
                report.record()
                report.issue("bad-record", "catalog in the sidecar", str(fact)[:80])
            else:
                rows.add("catalog", **fact)
        return
    for fact in context.tracks.facts():
        rows.fact(**fact)
    for (entity, key), facts in context.facts.items():
        rows.fact(entity, **dict(key), facts=facts)
    for (host, device), known in context.devices.items():
        rows.fact("device", host=host, device=device, **known)
    for name, known in context.metrics.items():
        if known:
            rows.fact("metric", name=name, facts=known)
    if context.clocks.anchor:
        at_ns, unix_ns = context.clocks.anchor
        name = clock_name((0, context.clocks.main))
        rows.fact("clock", name=name, facts={"kind": name, "at_ns": at_ns, "unix_ns": unix_ns})
