"""What commands do first: listen for signals, set the allocator, and import pyarrow without what no command needs.

`INTERRUPTION` is Ctrl-C or SIGTERM: the command ends, cleans up, and exits with 128 + the signal's number, whenever
they arrive. A signal becomes a KeyboardInterrupt. While Python imports a module, or is inside of its own locks and
queues, an exception there could be printed by a library, swallowed, or leave a lock held for ever; so it waits for a
safe moment. Further signals don't disturb the cleaning up. If that takes longer than `PATIENCE`, the process ends as
it is.

`keep_freed_memory` makes the C library's allocator keep freed memory for reuse. Every batch frees arrays of about
100 kB and allocates new ones. By default glibc returns the memory to the system and requests it again, page by page,
each page zeroed: on 600,000 events `order` then took 2.9 µs per event, and 1.6 µs with these settings.

All threads share one heap. With a heap for each thread, memory that one has freed isn't used by another: 300,000 Kineto
events to .perfetto took 233 MB, and 213 MB with one heap.

`import_pyarrow` imports numpy and pyarrow without what every start would pay for:

- pandas, which the first `pa.array` would import: 0.3 s of CPU time.
- The docstrings of pyarrow.compute, which are put together from parts as it is imported: 0.015 s.
- The threads of numpy's linear algebra, one for each core, which spin while they wait for work: 0.04 s on two cores.
- The search for garbage among objects that live to the end, as all of an import do: 0.05 s.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

#: Options of mallopt (malloc.h): when to trim the heap, how much to request at a time, from what size on to use mmap,
#: how many heaps there may be.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8


def keep_freed_memory() -> None:
    """Configures glibc, and Arrow to use it; does nothing with other C libraries. Call it before Arrow is imported."""
    if sys.platform != "linux":
        return
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_TRIM_THRESHOLD, 1 << 30)
    mallopt(_TOP_PAD, 16 << 20)
    mallopt(_MMAP_THRESHOLD, 1 << 28)
    mallopt(_ARENA_MAX, 1)


#: Read by OpenBLAS while numpy is imported.
_THREADS = "OPENBLAS_NUM_THREADS"


#: What pyarrow.compute reads docstrings of options with.
_DOCSCRAPE = "pyarrow.vendored.docscrape"


class _NoPandas:
    """Makes an import of pandas fail; what was imported before is found without a finder."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


class _NoDocs(ModuleType):
    """Stands in for numpydoc's reader of docstrings: every one is without parameters."""

    @staticmethod
    def NumpyDocString(text: str) -> dict[str, list[str]]:  # noqa: N802 (the name that pyarrow calls)
        return {"Parameters": []}


def import_pyarrow() -> None:
    """Imports numpy and pyarrow. Later imports of pandas succeed.

    If `ktrace.__main__` turned garbage collection off, it begins here, and leaves out what is there by now.
    """
    try:
        with _no_pandas(), _one_thread():
            import numpy  # noqa: F401
            import pyarrow as pa

            pa.array([None])
            with _no_docs():
                import pyarrow.compute  # noqa: F401
    finally:
        if not gc.isenabled():
            gc.freeze()
            gc.enable()


@contextmanager
def _no_pandas() -> Iterator[None]:
    """Makes pyarrow's only attempt to import pandas fail."""
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def _no_docs() -> Iterator[None]:
    """Keeps pyarrow.compute from reading docstrings, unless somebody imported what it reads them with."""
    if _DOCSCRAPE in sys.modules:
        yield
        return
    sys.modules[_DOCSCRAPE] = _NoDocs(_DOCSCRAPE)
    try:
        yield
    finally:
        del sys.modules[_DOCSCRAPE]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sets the number of threads, unless the user did; what is started later doesn't inherit it."""
    if _THREADS in os.environ:
        yield
        return
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[_THREADS]


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
