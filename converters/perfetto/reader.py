"""Reads Perfetto traces, of ktrace and of anybody else."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.source import Source, printable
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder, to_batch

from .reading.clocks import name_of
from .reading.context import Context
from .reading.metrics import with_parents
from .reading.packets import find_sidecar, mapped, not_a_trace
from .reading.read_ahead import pays, read_ahead
from .reading.trace import TraceReader
from .reading.tracks import Tracks

#: Links that are found at the end of a trace have ids from here on: the others have that of a byte.
_LATE_LINKS = 1 << 60


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """The batches of the trace; what it says of processes, devices and clocks comes last.

    Raises DamagedInput where not one packet is whole.
    """
    with mapped(source) as data:
        sidecar = find_sidecar(data)

        def read_all(conversion: Conversion) -> Iterator[Batch]:
            context = Context(conversion, sidecar, Tracks(conversion.label, sidecar))
            for batch in _read(context, data, source):
                for first in range(0, len(batch), conversion.batch_rows):
                    yield Batch(batch.record, batch.columns.slice(first, conversion.batch_rows))

        yield from read_ahead(read_all, conversion) if pays(conversion, len(data)) else read_all(conversion)


def _read(context: Context, data: mmap.mmap, source: Source) -> Iterator[Batch]:
    reader = TraceReader(context)
    rows = RowBuilder(context.conversion)
    if context.sidecar is None:
        rows.fact("source", name=context.conversion.label, facts={"path": printable(source.path), "format": "perfetto"})
    yield from rows.rest()
    taken = context.conversion.report.reader
    whole = taken.taken
    yield from reader.read(data)
    if taken.taken - whole <= taken.removed["cut"]:
        raise not_a_trace(source.path)
    yield from reader.rest()
    if context.unread:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in context.unread.most_common())
        where = context.where(context.first_unread)
        context.conversion.report.issue("unread-packet", where, kinds, context.unread.total())
    if context.sidecar is not None and not context.sidecar.ended and not taken.removed["cut"]:
        context.conversion.report.issue("cut", f"byte {len(data)}", "the end of the trace is missing", 0)
    yield from with_parents(context, data)
    yield from _late_links(context)
    damaged = context.pool.damaged + context.keys.damaged
    if damaged:
        context.conversion.report.issue("encoding", "interned texts", f"{damaged} texts", damaged)
    _facts(context, rows)
    yield from rows.rest()


def _late_links(context: Context) -> Iterator[Batch]:
    """Arrows between a host slice or work on a GPU and the work that it starts or awaits, which may stand anywhere."""
    if not context.submitted:
        return
    empty = np.empty(0, np.int64)
    events = np.concatenate([event for event, _ in context.stages] or [empty])
    rows = np.concatenate([row for _, row in context.stages] or [empty])
    order = np.argsort(events, kind="stable")
    events, rows = events[order], rows[order]
    first = _LATE_LINKS
    for link, mine, other in (("launch", "out", 2), ("wait", "in", 0)):
        keys = np.concatenate([key for key, _, role in context.submitted if role == mine] or [empty])
        ends = np.concatenate([row for _, row, role in context.submitted if role == mine] or [empty])
        role = np.full(len(keys), 0 if mine == "out" else 2)
        work = np.unique(keys)
        at = np.minimum(np.searchsorted(events, work), max(len(events) - 1, 0))
        known = events[at] == work if len(events) else np.zeros(len(work), np.bool_)
        keys, ends = np.concatenate([keys, work[known]]), np.concatenate([ends, rows[at[known]]])
        role = np.concatenate([role, np.full(int(known.sum()), other)])
        yield from context.links(link, first + np.arange(len(keys)), keys, role, ends)
        first += len(keys)


def _facts(context: Context, rows: RowBuilder) -> None:
    """What the trace says of processes, threads, tracks, devices and clocks."""
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
        name = name_of((0, context.clocks.main))
        rows.fact("clock", name=name, facts={"kind": name, "at_ns": at_ns, "unix_ns": unix_ns})
