"""The real traces that several tests read in place, where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import SAMPLES, SHARED

import ktrace

#: What Nsight Systems recorded of two GPUs within a second.
NSYS = SHARED / "corpus/nsys_sqlite/h100_2gpu_1s.sqlite"


#: A trace with steps, one without, and others of several tools, small and real.
OF_SEVERAL_TOOLS = [
    SAMPLES / "kineto/one-step-of-training.pt.trace.json",
    SAMPLES / "kineto/base-after-the-events-graph-of-three-kernels.pt.trace.json",
    SAMPLES / "kineto/words-of-2021-absolute-microseconds.json",
    SAMPLES / "nsys/schema-2.9-calls-twice-mpi-as-a-domain.sqlite",
    SAMPLES / "rpd/two-calls-a-kernel-never-run-and-nulls.rpd",
    SHARED / "corpus/pytorch_kineto/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    SHARED / "corpus/pytorch_kineto/nccl_data.json.gz",
    NSYS,
]


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
