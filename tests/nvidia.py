"""NVIDIA's own programs, where the developer has them: below the folder that KTRACE_NVIDIA_TOOLS names."""

from __future__ import annotations

import functools
import os
from pathlib import Path


@functools.cache
def programs(name: str) -> list[Path]:
    """Every executable of that name below the folder, the newest generation first; none without the folder."""
    root = os.environ.get("KTRACE_NVIDIA_TOOLS")
    if not root:
        return []
    found = [Path(folder) / name for folder, _, files in os.walk(root, followlinks=True) if name in files]
    able = {path.resolve(): path for path in sorted(found) if path.is_file() and os.access(path, os.X_OK)}
    return sorted(able.values(), reverse=True)
