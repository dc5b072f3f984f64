"""Reads in a forked child, so that the parent only writes: batches come through a pipe as Arrow messages.

    child   packets -> batches ──► queue ──► pipe ──► parent   batches -> output

A pipe is smaller than a batch, so a thread of the child writes to it while the child reads on; the queue slows the
child down to the speed of the parent. The parent adds the child's report to its own at the end, and raises an error of
the child.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
from collections.abc import Callable, Iterator
from typing import IO, Any

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.errors import KtraceError
from ktrace.model.batch import Batch
from ktrace.parallel.fork import fork, may_fork, portable
from ktrace.parallel.threads import WriteBehind
from ktrace.report import Report

#: A child reads traces of at least this many bytes.
_LARGE = 32 << 20

#: At most this many batches wait for the parent, 1.5 MB each.
_WAITING = 16

_HEAD = struct.Struct("<cq")
_BATCH, _REPORT, _ERROR = b"b", b"r", b"e"

Read = Callable[[Conversion], Iterator[Batch]]


def is_worthwhile(conversion: Conversion, size: int) -> bool:
    """Whether a child should read a trace of that many bytes."""
    return conversion.jobs > 1 and size >= _LARGE and may_fork()


def read_ahead(read: Read, conversion: Conversion) -> Iterator[Batch]:
    """Yields the batches that `read` yields in a child. Raises what it raises there."""
    receive, send = os.pipe()

    def be_child() -> None:
        os.close(receive)
        _read_and_send(read, conversion, send)

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
    while True:
        kind, size = _HEAD.unpack(_read_exactly(stream, _HEAD.size))
        data = _read_exactly(stream, size)
        if kind == _BATCH:
            with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
                metadata = reader.schema.metadata
                record = metadata[b"ktrace.record"].decode()
                for columns in reader:
                    yield Batch(record, columns.replace_schema_metadata(None))
            continue
        received: Any = pickle.loads(data)
        if kind == _ERROR:
            raise received
        report.merge(received)
        return


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise KtraceError("the reading process ended too early", remedy="use --jobs 1, or give it more memory")
    return data


def _read_and_send(read: Read, conversion: Conversion, send: int) -> None:
    report = Report(strict=conversion.report.strict)
    report.path = conversion.report.path
    mine = Conversion(report, conversion.label, conversion.batch_rows, conversion.options)
    with WriteBehind(os.fdopen(send, "wb"), _WAITING) as stream:
        try:
            for batch in read(mine):
                _send_batch(stream, batch)
            _send(stream, _REPORT, pickle.dumps(report))
        except BrokenPipeError:
            pass  # the parent has stopped reading
        except BaseException as error:
            _send(stream, _ERROR, pickle.dumps(portable(error)))


def _send_batch(stream: WriteBehind, batch: Batch) -> None:
    sink = pa.BufferOutputStream()
    columns = batch.columns.replace_schema_metadata({b"ktrace.record": batch.record.encode()})
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_batch(columns)
    _send(stream, _BATCH, sink.getvalue())


def _send(stream: WriteBehind, kind: bytes, data: Any) -> None:
    stream.write(b"".join((_HEAD.pack(kind, len(data)), data)))
