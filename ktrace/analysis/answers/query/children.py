"""Queries in processes of their own, which the system bounds in memory and which end when their time is up.

    with closing(Children()) as children, children.one() as child:
        plan = child.plan("select sum(dur) from kernels", None, Bound(memory=1 << 30, seconds=20))
        answer = child.ask(Question(...), bound)        as `Answer`, read while it comes

A process answers many queries, since it takes 0.4 s to start. After one that needed too much it is replaced.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock, Timer
from typing import Any

import pyarrow as pa

import ktrace
from ktrace.analysis.answers.query.child import ChildQuestion, Stored, read_frame, write_frame
from ktrace.analysis.answers.query.engine import MemoryExceeded, Plan, TimeExceeded
from ktrace.errors import InternalError, KtraceError, UsageError
from ktrace.input.limits import sized
from ktrace.parallel.threads import Turns
from ktrace.parallel.workers import module_folders
from ktrace.store import deserialized

#: What a process keeps of the environment: where the system's libraries are, the time zone.
_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TZ")

#: What it gets besides: few heaps, all of the C library, so that freed memory is used again; no threads for algebra.
_SETTINGS = {"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}

#: Queries that wait for a process, at most.
_WAITING = 16

#: Seconds in which a process has to be ready for questions.
_START_SECONDS = 60.0

_LESS = "narrow the query: a filter, fewer columns or joins"


@dataclass(frozen=True)
class Bound:
    """What a query may take: bytes of memory besides its tables, seconds; None is no bound."""

    memory: int | None = None
    seconds: float | None = None


class Child:
    """A process that runs one query after the other. After `useless`, no further one."""

    def __init__(self) -> None:
        self.useless = self._late = self._ready = False
        self._process = subprocess.Popen(
            _command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=os.sep,  # SQL can see it, in a setting
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _SETTINGS,
            start_new_session=True,  # Ctrl-C is for the one who asks
        )

    def plan(self, sql: str, params: Mapping[str, Any] | None, bound: Bound) -> Plan:
        """The plan of a query, as `planned` finds it."""
        ((_, content),) = self._frames(ChildQuestion(sql, params), bound)
        return Plan({name: frozenset(columns) for name, columns in json.loads(content).items()})

    def ask(self, question: ChildQuestion, bound: Bound) -> Received:
        """The answer, from its first batch on.

        Raises UsageError where the SQL is wrong, or isn't one query, MemoryExceeded, TimeExceeded.
        """
        return Received(self._frames(question, bound))

    def kill(self) -> None:
        """Ends the process, whatever it is doing."""
        self.useless = True
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream
            with suppress(OSError):
                stream.close()
        self._process.wait()

    def _frames(self, question: ChildQuestion, bound: Bound) -> Iterator[tuple[bytes, bytes]]:
        """Yields the frames of an answer, but the last one. The process ends with it if not all are wanted."""
        assert self._process.stdin
        assert self._process.stdout
        self.useless = True  # until the last frame says otherwise
        try:
            if not self._ready:  # what it takes to start isn't the query's
                with self._ending_after(_START_SECONDS):
                    self._ready = read_frame(self._process.stdout)[0] == b"R"
            with self._ending_after(bound.seconds):
                write_frame(self._process.stdin, b"Q", pickle.dumps(replace(question, memory=bound.memory)))
                while (frame := read_frame(self._process.stdout))[0] not in (b"E", b"Z"):
                    yield frame
        except (EOFError, OSError):
            raise self._ended(bound) from None
        reply = json.loads(frame[1])
        self.useless = self._late or reply["useless"]
        if frame[0] == b"E":
            raise _error(reply, bound)

    @contextmanager
    def _ending_after(self, seconds: float | None) -> Iterator[None]:
        """Ends the process if the block takes longer."""
        if seconds is None:
            yield
            return
        clock = Timer(seconds, self._end_late)
        clock.daemon = True
        clock.start()
        try:
            yield
        finally:
            clock.cancel()
            clock.join()  # readers fork where no other thread runs

    def _end_late(self) -> None:
        self._late = True
        self._process.kill()

    def _ended(self, bound: Bound) -> KtraceError:
        """Why the process has ended."""
        if self._late and self._ready:
            return TimeExceeded(f"the query took longer than {bound.seconds:g} s", remedy=_LESS)
        code = self._process.wait()
        if not self._ready:
            return KtraceError(
                f"Python can't be started for a query (exit code {code})",
                remedy="free memory, or raise the limits of this process (ulimit)",
            )
        how = (code < 0 and signal.strsignal(-code)) or f"exit code {code}"
        expected = f"a query that takes at most {sized(bound.memory)} of memory" if bound.memory else None
        return KtraceError(f"the process of the query ended too early ({how})", expected=expected, remedy=_LESS)


class Received:
    """The rows of an answer that another process sends, as those of `Answer`."""

    def __init__(self, frames: Iterator[tuple[bytes, bytes]]) -> None:
        self._frames = frames
        self.schema = deserialized(next(frames)[1]).schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for _, content in self._frames:
            yield deserialized(content)

    def read_all(self) -> pa.Table:
        """The whole answer as one table."""
        return pa.Table.from_batches(list(self), self.schema)


def _error(reply: dict[str, Any], bound: Bound) -> KtraceError:
    """The error of a query."""
    if reply["memory"]:
        most = f" than {sized(bound.memory)} of" if bound.memory is not None else ""
        return MemoryExceeded(f"the query takes more{most} memory", remedy=f"{_LESS}; or allow more: --memory")
    kind = {"UsageError": UsageError, "InternalError": InternalError}.get(reply["name"], KtraceError)
    return kind(reply["what"], where=reply["where"], expected=reply["expected"], remedy=reply["remedy"])


class Children:
    """Processes for queries: at most so many run at a time, and one that has nothing to do takes the next query."""

    def __init__(self, most: int = 1) -> None:
        self._turns, self._lock = Turns("queries", most, _WAITING), Lock()
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._warm = self._closed = False

    def warm(self) -> None:
        """Starts a process if there is none, also later, so that a query finds it ready; doesn't wait for it."""
        with self._lock:
            self._warm = True
            self._replenish()

    @contextmanager
    def one(self) -> Iterator[Child]:
        """Yields a process that has nothing else to do, waiting for one if need be. Raises KtraceError as `Turns`."""
        with self._turns.one():
            with self._lock:
                if self._closed:
                    raise KtraceError("ktrace is shutting down")
                child = self._idle.pop() if self._idle else self._made()
            try:
                yield child
            finally:
                with self._lock:
                    if child.useless or self._closed:
                        self._all.discard(child)
                        child.kill()
                        self._replenish()
                    else:
                        self._idle.append(child)

    def close(self) -> None:
        """Ends all processes, and so the queries that run in them."""
        with self._lock:
            self._closed = True
            for child in self._all:
                child.kill()
            self._all.clear()
            self._idle.clear()

    def _replenish(self) -> None:
        if self._warm and not self._all and not self._closed:
            self._idle.append(self._made())

    def _made(self) -> Child:
        child = Child()
        self._all.add(child)
        return child


def _command() -> list[str]:
    """Starts Python with the modules of this process: none of the working directory, whatever its path names."""
    here = ""
    with suppress(OSError):  # it is gone
        here = str(Path.cwd())
    home = str(Path(ktrace.__file__).resolve().parents[1])
    absolute = (str(Path(one).resolve()) for one in module_folders())
    folders = [one for one in (*absolute, home) if one != here or one == home]
    code = f"""import sys
sys.path[:] = {folders!r}
from ktrace.parallel.startup import import_pyarrow
import_pyarrow()
from ktrace.analysis.answers.query.child import main
main()"""
    return [sys.executable, "-I", "-S", "-c", code]


def stored(tables: Mapping[str, Any], folder: Path) -> Stored:
    """The tables where another process reads them: those in memory are written to files of Arrow.

    Columns without a value are left out, which `register` makes good.
    """
    return {
        name: _written(one, folder / f"{name}.arrow") if isinstance(one, pa.Table) else one
        for name, one in tables.items()
    }


def _written(table: pa.Table, path: Path) -> Path:
    if table.num_rows:
        used = [name for name in table.column_names if table.column(name).null_count < table.num_rows]
        table = table.select(used or table.column_names[:1]).unify_dictionaries()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return path
