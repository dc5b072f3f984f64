"""What processes of ktrace do first: set the allocator, and import pyarrow without what none needs.

`tune_allocator` makes the C library's allocator keep freed memory for reuse. Every batch frees arrays of about
100 kB and allocates new ones. By default glibc returns the memory to the system and requests it again, page by page,
each page zeroed: on 600,000 events `order` then took 2.9 µs per event, and 1.6 µs with these settings.

All threads share one heap. With a heap for each thread, memory that one has freed isn't used by another: 300,000 Kineto
events to .perfetto took 233 MB, and 213 MB with one heap.

`import_pyarrow` imports numpy and pyarrow without what every start would pay for:

- pandas, which the first `pa.array` would import: 0.3 s of CPU time.
- numpy's masked arrays, for which `pa.array` and `numpy.unique` look: 0.007 s.
- The docstrings of pyarrow.compute, which are put together from parts as it is imported: 0.015 s.
- The threads of numpy's linear algebra, one for each core, which spin while they wait for work: 0.04 s on two cores.
- The search for garbage among objects that live to the end, as all of an import do: 0.05 s.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

#: Options of mallopt (malloc.h): when to trim the heap, how much to request at a time, from what size on to use mmap,
#: how many heaps there may be.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8


def tune_allocator() -> None:
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


class _NoMaskedArrays(ModuleType):
    """Stands in for `numpy.ma` until somebody imports it: before that, no array is a masked one."""

    def __getattr__(self, name: str) -> Any:
        if self.__name__ not in sys.modules:
            if name == "MaskedArray":
                return _NoMaskedArrays
            if name == "is_masked":
                return lambda array: False
        return getattr(import_module(self.__name__), name)


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
            import numpy
            import pyarrow as pa

            if "numpy.ma" not in sys.modules:
                numpy.ma = _NoMaskedArrays("numpy.ma")
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
