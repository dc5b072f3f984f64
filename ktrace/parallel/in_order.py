"""Writes what a thread makes, in the order in which it was handed over.

It pays if making the bytes releases the interpreter lock most of the time, as compiled code and numpy do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

#: The most pieces that wait for the thread, with the memory that they need.
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
