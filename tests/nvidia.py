"""NVIDIA's own programs and reports, for tests that compare with them: those in the folder KTRACE_NVIDIA_TOOLS.

../shared/tools/nvidia_tools.py FOLDER brings Nsight Systems and Nsight Compute of two generations, and real reports.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

VARIABLE = "KTRACE_NVIDIA_TOOLS"


def _below(pattern: str) -> list[Path]:
    """The files below the folder that fit, those of the newest generation (its first folder) first."""
    root = os.environ.get(VARIABLE)
    if not root:
        return []
    found = [path for path in Path(root).glob(f"[0-9]*/**/{pattern}") if path.is_file()]
    return sorted(found, key=lambda path: (path.relative_to(root).parts[0], path.as_posix()), reverse=True)


@cache
def programs(name: str) -> list[Path]:
    """The executables of that name, newest generation first; none where the programs aren't at hand."""
    return [path for path in _below(name) if os.access(path, os.X_OK) and "target" in path.as_posix()]


@cache
def reports() -> list[Path]:
    """The real reports of Nsight Compute that came with the programs."""
    return _below("*.ncu-rep")


def needs(name: str) -> pytest.MarkDecorator:
    """Skips a test where a program isn't at hand."""
    return pytest.mark.skipif(not programs(name), reason=f"{name} is not at hand ({VARIABLE})")
