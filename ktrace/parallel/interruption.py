"""Ctrl-C, SIGTERM and SIGHUP: the command ends, cleans up, and exits with 128 + the signal's number.

A signal becomes a KeyboardInterrupt, whenever it arrives. While Python imports a module, or is inside of its own locks
and queues, an exception there could be printed by a library, swallowed, or leave a lock held for ever; so it waits for
a safe moment. Further signals don't disturb the cleaning up. If that takes longer than `PATIENCE`, the process ends as
it is.

Code that C calls has nobody to pass an exception to: a callback of a library, `__del__`, the end of a generator. There
an interruption is lost. So `check` raises it where it matters: after each batch that was read, where an error seems to
be one of the input, and before an output is moved to its place.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Seconds after which a process that was told to end is ended in any case; a later run removes what stays.
PATIENCE = 20.0

#: Seconds after which an interruption that somebody swallowed is raised again.
AGAIN = 5.0

#: Seconds between two looks whether the moment is safe.
_LOOK = 0.02

#: Ends of the names of files with code of locks, which is only interrupted where it waits.
_LOCKS = ("/threading.py", "/queue.py", "/weakref.py", "/concurrent/futures/_base.py", "/concurrent/futures/thread.py")


class Interruption:
    """The signals of this process; `code` is the exit code for the one that came, that of Ctrl-C until one comes."""

    def __init__(self) -> None:
        self.code = 128 + signal.SIGINT
        self._told: float | None = None
        self._raised: float | None = None
        self._settled = False
        self._place: tuple[int, int] | None = None

    def listen(self) -> None:
        """Takes over SIGINT, SIGTERM and SIGHUP, but for those that the process was told to ignore (nohup, `&`)."""
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._tell)
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, self._look)

    def settle(self) -> None:
        """Raises nothing from now on: the work is done, or the interruption was taken note of."""
        self._settled = True

    @property
    def told(self) -> bool:
        """Whether a signal came."""
        return self._told is not None

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal came, also where its own was swallowed or still waits."""
        if self.told and not self._settled:
            self._raised = time.monotonic()
            raise KeyboardInterrupt

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Raises an interruption at the end of this block, and instead of an error that ends it."""
        try:
            yield
        except (Exception, SystemExit):
            self.check()
            raise
        self.check()

    def _tell(self, number: int, frame: FrameType | None) -> None:
        if self._told is None:
            self._told = time.monotonic()
            self.code = 128 + number
        self._look(number, frame)

    def _look(self, number: int, frame: FrameType | None) -> None:
        """Raises KeyboardInterrupt once the moment is safe; until then, and if it is swallowed, looks again."""
        now = time.monotonic()
        if self._told is None:
            return
        if now - self._told > PATIENCE:
            os._exit(self.code)
        if not hasattr(signal, "setitimer"):
            if not self._settled:
                raise KeyboardInterrupt
            return
        waits = self._settled or _is_ending() or (self._raised is not None and now - self._raised < AGAIN)
        safe = not waits and self._is_safe(frame)
        signal.setitimer(signal.ITIMER_REAL, _LOOK if not waits and not safe else 1, 1)  # again, if one goes unnoticed
        if safe:
            self._raised = now
            raise KeyboardInterrupt

    def _is_safe(self, frame: FrameType | None) -> bool:
        """Whether nothing is being imported, and the code isn't that of a lock, unless it waits where it did before."""
        place = None if frame is None else (id(frame), frame.f_lasti)
        stays, self._place = place == self._place, place
        if frame is not None and frame.f_code.co_filename.endswith(_LOCKS) and not stays:
            return False
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return False
            frame = frame.f_back
        return True


def _is_ending() -> bool:
    """Whether an interruption is on its way up already, and this is code that cleans up."""
    error: BaseException | None = sys.exc_info()[1]
    for _ in range(50):
        if error is None or isinstance(error, KeyboardInterrupt):
            break
        error = error.__context__
    return isinstance(error, KeyboardInterrupt)


#: The signals of this process.
INTERRUPTION = Interruption()
