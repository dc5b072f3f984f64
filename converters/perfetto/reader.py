"""Reads Perfetto traces that ktrace or any other program wrote.

Reads in a forked child, so that the parent only writes: batches come through a pipe as Arrow messages.

    child   packets -> batches ──► queue ──► pipe ──► parent   batches -> output

A pipe is smaller than a batch, so a thread of the child writes to it while the child reads on; the queue slows the
child down to the speed of the parent. The parent adds the child's report to its own at the end, and raises an error of
the child.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import IO, Any

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.errors import KtraceError
from ktrace.input.snapshot import FileBytes
from ktrace.input.source import Source, printable
from ktrace.kit.canonical.unique_ids import with_unique_ids
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder, to_batch
from ktrace.parallel.fork import fork, may_fork, portable
from ktrace.parallel.threads import WriteBehind
from ktrace.report import Report

from .reading.context import Context, Tracks, clock_name
from .reading.extra_rows import late_links, metrics_with_parents
from .reading.messages import find_sidecar, not_a_trace, opened
from .reading.trace import TraceReader

#: A child reads traces of at least this many bytes.
_LARGE = 32 << 20

#: At most this many batches wait for the parent, 1.5 MB each.
_WAITING = 16

Read = Callable[[Conversion], Iterator[Batch]]


def is_worthwhile(conversion: Conversion, size: int) -> bool:
    """Whether a child should read a trace of that many bytes."""
    return conversion.jobs > 1 and size >= _LARGE and may_fork()


def read_ahead(read: Read, conversion: Conversion) -> Iterator[Batch]:
    """Yields the batches that `read` yields in a child. Raises what it raises there."""
    receive, send = os.pipe()

    def be_child() -> None:
        os.close(receive)
        report = Report(strict=conversion.report.strict)
        report.path = conversion.report.path
        inner = replace(conversion, report=report, progress=None, jobs=1)
        with WriteBehind(os.fdopen(send, "wb"), _WAITING) as stream:
            try:
                for batch in read(inner):
                    _send_batch(stream, batch)
                stream.write(pickle.dumps(report))
            except BrokenPipeError:
                pass  # the parent has stopped reading
            except BaseException as error:
                stream.write(pickle.dumps(portable(error)))

    pid = fork(be_child)
    os.close(send)
    ended = False
    try:
        with os.fdopen(receive, "rb", 1 << 20) as stream:
            yield from _batches(stream, conversion.report)
            ended = True
    finally:
        if not ended:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _batches(stream: IO[bytes], report: Report) -> Iterator[Batch]:
    """Yields what the child sends, up to its report, which is added to this one. Raises an error of the child."""
    while True:
        try:
            received: Any = pickle.load(stream)
        except (EOFError, pickle.UnpicklingError):
            remedy = "use --jobs 1, or give it more memory"
            raise KtraceError("the reading process ended too early", remedy=remedy) from None
        if isinstance(received, BaseException):
            raise received
        if isinstance(received, Report):
            report.merge(received)
            return
        record, columns = received
        with pa.ipc.open_stream(columns) as reader:
            yield from (Batch(record, some) for some in reader)


def _send_batch(stream: WriteBehind, batch: Batch) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.columns.schema) as writer:
        writer.write_batch(batch.columns)
    stream.write(pickle.dumps((batch.record, sink.getvalue())))


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
    for (host, device), more in context.devices.items():
        rows.fact("device", host=host, device=device, **more)
    for name, more in context.metrics.items():
        if more:
            rows.fact("metric", name=name, facts=more)
    if context.clocks.anchor:
        at_ns, unix_ns = context.clocks.anchor
        name = clock_name((0, context.clocks.main))
        rows.fact("clock", name=name, facts={"kind": name, "at_ns": at_ns, "unix_ns": unix_ns})
