"""A stream that writes in a thread, so that the caller doesn't wait for compression and the operating system.

The thread starts only after `START` bytes, so that a small output needs none, and readers may fork before.
"""

from __future__ import annotations

import io
from queue import Queue
from threading import Thread
from typing import Any, BinaryIO

#: How many bytes are written before the thread starts.
START = 4 << 20

#: The most writes that wait.
WAITING = 2


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
