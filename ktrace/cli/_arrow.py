"""Imports pyarrow without pandas: the first `pa.array` would import pandas, 0.3 s of CPU time that no command needs."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any


class _NoPandas(MetaPathFinder):
    """Makes an import of pandas fail."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def import_pyarrow() -> None:
    """Imports pyarrow and makes its only attempt to import pandas fail. Later imports of pandas succeed."""
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([None])
    finally:
        sys.meta_path.remove(finder)
