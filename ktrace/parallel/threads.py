"""What a thread does while the caller does something else.

meanwhile      one thing
prefetch       the next item, while the current one is used
InOrder        bytes that are made and written, in the order in which they were handed over
Turns          so many threads at a time, so many that wait, no further one
WriteBehind    a stream whose writes don't wait for compression and the operating system

It pays if both release the interpreter lock most of the time, as numpy, Arrow, SQLite and compiled code do. Threads
start only where it is worthwhile, so that a small output needs none, and readers may fork before.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from queue import Queue
from threading import BoundedSemaphore, Lock, Thread
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from ktrace.errors import KtraceError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

#: The most writes that wait for a thread, with the memory that they need.
WAITING = 2


class InOrder:
    """Writes bytes, and bytes that are yet to be made, to a stream.

    The thread starts with the first piece that is made in it. An error of the thread is raised at a later call.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[Any]] = deque()

    def write(self, data: Any) -> None:
        """Writes bytes."""
        if self._thread is None:
            self._stream.write(data)
        else:
            self._submit(lambda: self._stream.write(data))

    def make(self, make: Callable[[], Any], *, worthwhile: bool) -> None:
        """Writes what `make` returns. Unless it is `worthwhile`, or a thread runs already, none is started for it."""
        if self._thread is None:
            if not worthwhile:
                self._stream.write(make())
                return
            from concurrent.futures import ThreadPoolExecutor

            self._thread = ThreadPoolExecutor(1, "ktrace-in-order")
        self._submit(lambda: self._stream.write(make()))

    def close(self) -> None:
        """Waits until all is written, and ends the thread. The stream stays open."""
        try:
            while self._waiting:
                self._waiting.popleft().result()
        finally:
            if self._thread:
                self._thread.shutdown(cancel_futures=True)
                self._thread = None

    def _submit(self, write: Callable[[], Any]) -> None:
        assert self._thread
        self._waiting.append(self._thread.submit(write))
        while len(self._waiting) > WAITING or (self._waiting and self._waiting[0].done()):
            self._waiting.popleft().result()


Made = TypeVar("Made")


@contextmanager
def meanwhile(make: Callable[[], Made], *, worthwhile: bool = True) -> Iterator[Callable[[], Made]]:
    """Calls `make` in a thread while the block runs. Gives a function that returns its result, or raises its error.

    Unless that is `worthwhile`, no thread starts, and `make` is called when its result is asked for. The thread has
    ended when the block has, also after an error.
    """
    if not worthwhile:
        yield make
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "ktrace-meanwhile") as thread:
        made = thread.submit(make)
        yield made.result


Item = TypeVar("Item")


def prefetch(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yields the items in order, each made while the one before is used.

    It pays if making an item releases the interpreter lock: in numpy, Arrow, SQLite. An error is raised in the place of
    its item.
    """
    from concurrent.futures import ThreadPoolExecutor

    ended = object()

    def following() -> Item | object:
        return next(items, ended)

    try:
        with ThreadPoolExecutor(1, "ktrace-ahead") as maker:
            context = copy_context()  # which limits hold
            coming = maker.submit(context.run, following)
            while (item := coming.result()) is not ended:
                coming = maker.submit(context.run, following)
                yield item  # type: ignore[misc]
    finally:
        if isinstance(items, Generator):
            with suppress(ValueError):  # the thread still runs it, since waiting for the thread was interrupted
                items.close()


def prefetch_map(items: Sequence[Item], make: Callable[[Item], Made], threads: int) -> Generator[Made, None, None]:
    """Yields `make(item)` for each item, in order, made by threads that are one item each ahead of the current one."""
    from concurrent.futures import ThreadPoolExecutor

    coming: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(threads, "ktrace-ahead") as makers:
        for item in items:
            coming.append(makers.submit(copy_context().run, make, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


class Turns:
    """At most `at_once` threads do something at a time, and `waiting` more wait for their turn; `what` names it."""

    def __init__(self, what: str, at_once: int, waiting: int) -> None:
        self._what, self._most = what, at_once + waiting
        self._free, self._lock, self._count = BoundedSemaphore(at_once), Lock(), 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Waits for a turn, which the block is. Raises KtraceError where too many wait already."""
        with self._lock:
            if self._count == self._most:
                raise KtraceError(f"{self._most} {self._what} are on their way already", remedy="ask again later")
            self._count += 1
        try:
            with self._free:
                yield
        finally:
            with self._lock:
                self._count -= 1


#: How many bytes are written before the thread starts.
START = 4 << 20


class WriteBehind(io.RawIOBase):
    """Writes to another stream, which is closed with it. An error is raised at the next write, or at the close.

    At most `waiting` writes wait for the thread; the next one waits for them.
    """

    def __init__(self, stream: BinaryIO, waiting: int = WAITING) -> None:
        self._stream = stream
        self._written = 0
        self._thread: Thread | None = None
        self._queue: Queue[Any] = Queue(waiting)
        self._error: BaseException | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Writes bytes, or a view of memory that doesn't change any more. Raises ValueError once it is closed."""
        if self.closed:  # nobody empties the queue any more
            raise ValueError("write to a closed stream")
        size = memoryview(data).nbytes
        self._written += size
        if self._thread is None:
            if self._written <= START:
                self._stream.write(data)
                return size
            self._thread = Thread(target=self._run, daemon=True)
            self._thread.start()
        self._raise()
        self._queue.put(data if isinstance(data, bytes) or memoryview(data).readonly else bytes(data))
        return size

    def tell(self) -> int:
        """The number of bytes written."""
        return self._written

    def close(self) -> None:
        """Waits until all is written."""
        if self.closed:
            return
        super().close()
        try:
            if self._thread:
                self._queue.put(None)
                self._thread.join()
                self._raise()
        finally:
            self._stream.close()

    def _raise(self) -> None:
        if self._error:
            error, self._error = self._error, None
            raise error

    def _run(self) -> None:
        while (data := self._queue.get()) is not None:
            if self._error is None:
                try:
                    self._stream.write(data)
                except BaseException as error:  # raised in the calling thread later
                    self._error = error
