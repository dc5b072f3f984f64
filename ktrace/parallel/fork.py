"""Shares tasks with forked children, and returns their results in the order of the tasks.

    tasks  0 1 2 3 4 5 ...      each process takes the next free task, the parent too
    child  writes batches to a temporary Arrow file, sends a message through a pipe
    parent maps the file, unlinks it, yields the batches in the order of the tasks

The children end with the work, with an error, and when the parent dies; no file stays.
"""

from __future__ import annotations

import os
import pickle
import select
import shutil
import signal
import socket
import struct
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from ktrace.errors import KtraceError
from ktrace.model.batch import Batch
from ktrace.scratch import new_folder

#: How many tasks are done ahead of the one whose result is wanted, for each process.
AHEAD = 4

_NUMBER = struct.Struct("<i")
_SIZE = struct.Struct("<q")


class Result(msgspec.Struct):
    """The result of a task: its batches, and `value`, which the work returned."""

    value: Any
    batches: Iterator[Batch]


#: A function that does a task: yields batches, returns a value that can be pickled.
Work = Callable[[int], Generator[Batch, None, Any]]


def may_fork() -> bool:
    """Whether children may be forked: only without other Python threads, whose locks would block a child forever.

    Threads of libraries (OpenBLAS, Arrow) don't count: these libraries handle a fork.
    """
    return hasattr(os, "fork") and threading.active_count() == 1


def fork(run: Callable[[], None]) -> int:
    """Forks a child that calls `run` and ends; returns its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 counts the threads of libraries
        pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets the signal too, and ends this one
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        run()
    finally:
        os._exit(0)  # without the parent's exit handlers


def portable(error: BaseException) -> BaseException:
    """The error, or a RuntimeError with its text if it can't be pickled, to send it to the parent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # of a library
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class _Child(msgspec.Struct):
    pid: int
    results: int
    buffer: bytearray = msgspec.field(default_factory=bytearray)


class Workers:
    """Children that do tasks with the numbers 0 to `count` - 1. `close` ends them."""

    def __init__(self, work: Work, count: int, jobs: int) -> None:
        self._work = work
        self._count = count
        self._jobs = jobs
        self._handed = 0
        self._done: dict[int, tuple[str, Any, list[tuple[str, int]]]] = {}
        self._held = new_folder()
        self._folder = self._held.path
        # Sockets: one process can ask without waiting while others wait. O_NONBLOCK of a pipe holds for all processes.
        self._tokens, self._give = socket.socketpair()
        self._children: list[_Child] = []
        try:
            for _ in range(min(jobs, count) - 1):
                self._fork()
        except BaseException:
            self.close()
            raise

    def result(self, number: int) -> Result | None:
        """The result of a task; None if the caller must do it. To be called in the order of the numbers.

        Raises what the work raised, wherever it ran.
        """
        self._hand_out(number)
        while number not in self._done:
            taken = self._take()
            if taken is None:
                self._wait()
            elif taken == number:
                return None
            else:
                self._done[taken] = self._attempt(taken)
        state, value, places = self._done.pop(number)
        if state == "error":
            raise value
        return Result(value, _read(self._folder / str(number), places))

    def close(self) -> None:
        """Ends the children and removes what they wrote."""
        for child in self._children:
            os.kill(child.pid, signal.SIGKILL)
            os.close(child.results)
            os.waitpid(child.pid, 0)
        self._children = []
        for end in (self._give, self._tokens):
            end.close()
        self._held.remove()

    def _hand_out(self, number: int) -> None:
        upto = min(number + AHEAD * self._jobs, self._count)
        for task in range(self._handed, upto):
            self._give.sendall(_NUMBER.pack(task))
        self._handed = max(self._handed, upto)

    def _take(self) -> int | None:
        """The next free task; None if there is none now."""
        try:
            token = self._tokens.recv(_NUMBER.size, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        return int(_NUMBER.unpack(token)[0])

    def _wait(self) -> None:
        """Waits for messages from children, and reads them."""
        if not self._children:
            raise RuntimeError("a task was asked for twice")
        ready, _, _ = select.select([child.results for child in self._children], [], [])
        for child in self._children:
            if child.results not in ready:
                continue
            data = os.read(child.results, 1 << 16)
            if not data:
                raise KtraceError("a worker process ended too early", remedy="use --jobs 1, or give it more memory")
            child.buffer += data
            while (message := _message(child.buffer)) is not None:
                number, *rest = pickle.loads(message)
                self._done[number] = tuple(rest)

    def _fork(self) -> None:
        results, send = os.pipe()
        pid = fork(lambda: self._be_child(send))
        os.close(send)
        self._children.append(_Child(pid, results))

    def _be_child(self, send: int) -> None:
        try:
            self._give.close()
            while token := self._tokens.recv(_NUMBER.size):
                number = _NUMBER.unpack(token)[0]
                _send(send, (number, *self._attempt(number)))
        except ConnectionError:
            pass
        shutil.rmtree(self._folder, ignore_errors=True)  # the parent died: else it ends this process first

    def _attempt(self, number: int) -> tuple[str, Any, list[tuple[str, int]]]:
        try:
            return ("value", *_spill(self._work(number), self._folder / str(number)))
        except BaseException as error:
            return "error", portable(error), []


def _send(end: int, message: Any) -> None:
    data = pickle.dumps(message)
    data = _SIZE.pack(len(data)) + data
    while data:
        data = data[os.write(end, data) :]


def _message(buffer: bytearray) -> bytes | None:
    """Removes the first complete message from the buffer and returns it; None if there is none."""
    if len(buffer) < _SIZE.size:
        return None
    end = _SIZE.size + _SIZE.unpack_from(buffer)[0]
    if len(buffer) < end:
        return None
    message = bytes(buffer[_SIZE.size : end])
    del buffer[:end]
    return message


def _spill(batches: Generator[Batch, None, Any], path: Path) -> tuple[Any, list[tuple[str, int]]]:
    """Writes batches to a file; returns the value of their generator, and the record and offset of each batch."""
    places: list[tuple[str, int]] = []
    with pa.OSFile(str(path), "wb") as file:
        while True:
            try:
                batch = next(batches)
            except StopIteration as end:
                return end.value, places
            places.append((batch.record, file.tell()))
            with pa.ipc.new_stream(file, batch.columns.schema) as stream:
                stream.write_batch(batch.columns)


def _read(path: Path, places: list[tuple[str, int]]) -> Iterator[Batch]:
    """Yields the batches of a file, which is unlinked at once."""
    if not places:
        path.unlink(missing_ok=True)
        return
    with pa.memory_map(str(path)) as file:
        path.unlink()
        for record, place in places:
            file.seek(place)
            yield Batch(record, pa.ipc.open_stream(file).read_next_batch())
