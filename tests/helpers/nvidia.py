"""NVIDIA's own programs, where a developer has them: below the folder that KTRACE_NVIDIA_TOOLS names.

`../shared/tools/nvidia_tools.py DIR` brings nsys and ncu of two generations there; they print without a GPU.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

VARIABLE = "KTRACE_NVIDIA_TOOLS"


@cache
def _files() -> tuple[Path, ...]:
    """All files below the folder, newest generation (a folder named after a year) first."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return ()
    found = [Path(root) / name for root, _, names in os.walk(folder) for name in names]
    return tuple(sorted(found, key=lambda path: (-_generation(path), str(path))))


def _generation(path: Path) -> int:
    return max((int(part) for part in path.parts if re.fullmatch(r"20\d\d", part)), default=0)


def programs(name: str) -> list[Path]:
    """Every executable of that name, newest generation first, each once whatever links lead to it."""
    found = (path.resolve() for path in _files() if path.name == name and path.is_file() and os.access(path, os.X_OK))
    return list(dict.fromkeys(found))


def reports() -> list[Path]:
    """The real reports of Nsight Compute that came with the programs, newest generation first."""
    return list(dict.fromkeys(path for path in _files() if path.suffix == ".ncu-rep"))
