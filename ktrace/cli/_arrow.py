"""Imports numpy and pyarrow without what no command needs and every start would pay for.

- pandas, which the first `pa.array` would import: 0.3 s of CPU time.
- The threads of numpy's linear algebra, one for each core, which spin while they wait for work: 0.04 s on two cores.
- The search for garbage among objects that live to the end, as all of an import do: 0.05 s.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Any

#: Read by OpenBLAS while numpy is imported.
_THREADS = "OPENBLAS_NUM_THREADS"


class _NoPandas(MetaPathFinder):
    """Makes an import of pandas fail; what was imported before is found without a finder."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def import_pyarrow() -> None:
    """Imports numpy and pyarrow. Later imports of pandas succeed.

    If `ktrace.__main__` turned garbage collection off, it begins here, and leaves out what is there by now.
    """
    try:
        with _no_pandas(), _one_thread():
            import numpy  # noqa: F401
            import pyarrow as pa

            pa.array([None])
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
