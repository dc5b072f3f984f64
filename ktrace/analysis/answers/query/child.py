"""The process in which queries of others run: the system bounds its memory, and whoever asked ends it when time is up.

DuckDB's own limits don't cover what a function makes of one value, such as `lpad('a', 2000000000, 'b')`. This process
reads the tables that it is told of, writes no files, and ends with the one that started it.

It gets questions on standard input and answers each on standard output, in frames: a letter, a length, so many bytes.

    R            it is ready
    D...D Z      batches, each as a stream of Arrow with its schema; the first one has no rows
    P Z          the plan: the tables that the query reads, each with its columns, as JSON
    ... E        what went wrong, as JSON; E and Z say whether the process is of no further use
"""

from __future__ import annotations

import json
import os
import pickle
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

import pyarrow as pa

from ktrace.analysis.answers.query.answer import Holder, QueryAnswer, register
from ktrace.analysis.answers.query.engine import (
    JOINED,
    JOINED_SCHEMA,
    LAUNCHED,
    VIEWS,
    MemoryExceeded,
    connected,
    create_views,
    is_several,
    planned,
    table_schema,
    translate_duckdb_errors,
)
from ktrace.errors import InternalError, KtraceError, error_text
from ktrace.model.schema import RECORDS
from ktrace.store import serialized

_FRAME = struct.Struct("<cQ")

#: Bytes of memory beyond those of the query: batches of the answer, what Python needs.
_BESIDES = 16 << 20

#: Bytes of address space beyond those of memory: what the C library reserves for threads, and doesn't use.
_RESERVED = 192 << 20

#: Bytes that an idle process may have grown by; one that keeps more is of no further use.
_KEPT = 64 << 20

#: Threads of DuckDB, at most.
_THREADS = 8

#: Name of a table -> a file of Arrow, or a dataset of Parquet.
Stored = Mapping[str, Any]


@dataclass(frozen=True)
class ChildQuestion:
    """A query about stored tables. Without `tables` the question is what it would read.

    `joined`: the table of events has the columns of calls. `rows` and `size` (bytes) limit the answer, `memory` what
    the query takes besides the tables, `jobs` its threads; None is no limit. `holder` is who has to
    hold the values.
    """

    sql: str
    params: Mapping[str, Any] | None = None
    tables: Stored | None = None
    joined: bool = False
    rows: int | None = None
    size: int | None = None
    memory: int | None = None
    holder: Holder = "python"
    jobs: int | None = None


def write_frame(stream: IO[bytes], kind: bytes, content: bytes) -> None:
    """Writes a frame. Raises OSError where nobody reads."""
    stream.write(_FRAME.pack(kind, len(content)))
    stream.write(content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[bytes, bytes]:
    """The next frame. Raises EOFError where the other side has ended."""
    kind, length = _FRAME.unpack(_read(stream, _FRAME.size))
    return kind, _read(stream, length)


def _read(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def main() -> None:
    """Answers questions until standard input ends, which ends the process at once, whatever it is doing."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what others print
    questions: SimpleQueue[ChildQuestion] = SimpleQueue()
    Thread(target=_listen, args=(sys.stdin.buffer, questions), daemon=True).start()
    _write_no_files()
    with Views() as views:
        planned("select 1", None)  # the first query of a process takes longer
        before = data_size()
        write_frame(answers, b"R", b"")
        while True:
            question = questions.get()
            kind, reply = _answered(question, views, answers)
            if kind == b"E":
                views.settle()
            reply["useless"] = (kind == b"E" and reply["memory"]) or data_size() - before > _KEPT + views.size
            write_frame(answers, kind, json.dumps(reply).encode())


def _listen(stream: IO[bytes], questions: SimpleQueue[ChildQuestion]) -> None:
    """Takes questions, also while a query runs; ends the process where the other side has ended."""
    with suppress(EOFError, OSError):
        while True:
            questions.put(pickle.loads(read_frame(stream)[1]))
    os._exit(0)


def _answered(question: ChildQuestion, views: Views, answers: IO[bytes]) -> tuple[bytes, dict[str, Any]]:
    """Writes what was asked for; returns the last frame."""
    try:
        for kind, content in _frames(question, views):
            write_frame(answers, kind, content)
    except MemoryError:
        return b"E", {"memory": True}
    except KtraceError as error:
        reply = error
    except Exception as error:
        reply = InternalError(f"{error_text(error)}: this is a bug in ktrace")
    else:
        return b"Z", {}
    parts = {"where": reply.where, "expected": reply.expected, "remedy": reply.remedy}
    name = type(reply).__name__
    return b"E", {"memory": isinstance(reply, MemoryExceeded), "name": name, "what": reply.what, **parts}


def _frames(question: ChildQuestion, views: Views) -> Iterator[tuple[bytes, bytes]]:
    if question.tables is None:
        with bounded(question.memory):
            plan = planned(question.sql, question.params)
        yield b"P", json.dumps({name: sorted(columns) for name, columns in plan.tables.items()}).encode()
        return
    connection = views.connection_for(question)
    with bounded(question.memory), translate_duckdb_errors():
        is_several(connection, question.sql)  # raises for what isn't one query
        answer = QueryAnswer.run(connection, question.sql, question.params, question.rows, holder=question.holder)
        yield b"D", serialized(pa.RecordBatch.from_pylist([], answer.schema))
        left = question.size
        for batch in answer:
            content = serialized(batch)
            if left is not None and (left := left - len(content)) < 0:
                raise KtraceError(
                    f"the answer has more than {question.size:,} bytes",
                    remedy="narrow the query: fewer columns or rows",
                )
            yield b"D", content


class Views:
    """The views on the tables that were asked about last, of one trace."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._asked: Any = None
        self._connection: Any = None
        self.size = 0

    def __enter__(self) -> Views:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def settle(self) -> None:
        """After an error: frees the tables if DuckDB still has a part of the answer open."""
        try:
            if self._connection is not None:
                self._connection.execute("SELECT 1").fetchall()
        except Exception:
            self.close()

    def close(self) -> None:
        """Frees the tables."""
        self._connection = None
        self._open.close()

    def connection_for(self, question: ChildQuestion) -> Any:
        """A connection with the views, and a limit of memory."""
        key = question.tables, question.joined, question.memory
        if self._connection is None or key != self._asked:
            self.close()
            before = data_size()
            with ExitStack() as stack:
                threads = question.jobs or min(os.cpu_count() or 1, _THREADS)
                made = stack.enter_context(connected(threads=threads, memory=question.memory))
                self._fill(made, question, stack)
                self._open = stack.pop_all()
            self._connection, self._asked, self.size = made, key, data_size() - before
        return self._connection

    def _fill(self, connection: Any, question: ChildQuestion, stack: ExitStack) -> None:
        tables = question.tables or {}
        for record in RECORDS if question.joined else (*RECORDS, LAUNCHED):
            schema = JOINED_SCHEMA if question.joined and record == "events" else table_schema(record)
            table = tables.get(record)
            if isinstance(table, Path):
                mapped = stack.enter_context(pa.memory_map(str(table)))
                table = pa.ipc.open_file(mapped).read_all()
            elif table is not None:
                import pyarrow.dataset  # noqa: F401 (DuckDB knows a dataset by it)
            register(connection, record, schema, table)
        create_views(connection, JOINED if question.joined else VIEWS)


def data_size() -> int:
    """Bytes of memory that this process may write to, as the system counts them for RLIMIT_DATA; 0 where it doesn't."""
    return _sizes()[1]


def _sizes() -> tuple[int, int]:
    """Bytes of address space, and of data."""
    if sys.platform != "linux":
        return 0, 0
    pages = Path("/proc/self/statm").read_text("ascii").split()
    size = os.sysconf("SC_PAGE_SIZE")
    return int(pages[0]) * size, int(pages[5]) * size


@contextmanager
def bounded(memory: int | None) -> Iterator[None]:
    """Within this block the process gets at most so much more memory from the system: Linux alone has such a bound."""
    if memory is None or sys.platform != "linux":
        yield
        return
    import resource

    space, data = _sizes()
    most = {resource.RLIMIT_AS: space + memory + _RESERVED, resource.RLIMIT_DATA: data + memory + _BESIDES}
    before = {limit: resource.getrlimit(limit) for limit in most}
    for limit, (soft, hard) in before.items():
        held = most[limit] if soft == resource.RLIM_INFINITY else min(soft, most[limit])
        resource.setrlimit(limit, (held, hard))
    try:
        yield
    finally:
        for limit, both in before.items():
            resource.setrlimit(limit, both)


def _write_no_files() -> None:
    """From now on no file is written, not even the memory of a process that crashed."""
    if os.name == "nt":
        return
    import resource

    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (0, 0))
