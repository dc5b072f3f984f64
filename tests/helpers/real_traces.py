"""The real traces that several tests read in place, where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import SHARED

import ktrace

#: What Nsight Systems recorded of two GPUs within a second.
NSYS = SHARED / "corpus/nsys_sqlite/h100_2gpu_1s.sqlite"


def kineto(*names: str) -> list[Path]:
    """Traces of PyTorch's profiler."""
    return [SHARED / "corpus/pytorch_kineto" / name for name in names]


def at_hand(path: Path) -> Path:
    """The path of a real trace; skips the test where it isn't there."""
    if not path.exists():
        pytest.skip("the real traces are not at hand (../shared/corpus)")
    return path


def decoded_names(path: Path) -> dict[str, str]:
    """The names of device work that ktrace decodes, by their originals, which it keeps as an argument."""
    rows = ktrace.read(path).to_arrow()["events"].select(["name", "args"]).to_pylist()
    kept = [(json.loads(row["args"]), row["name"]) for row in rows if row["args"] and "mangled_name" in row["args"]]
    return {args["mangled_name"]: name for args, name in kept}
