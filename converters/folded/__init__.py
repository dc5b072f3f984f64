"""Folded stacks, the input of flame graphs (github brendangregg/FlameGraph, speedscope, inferno): a stack and its time.

    python3;thread 4242;forward;aten::mm 1200
    python3;thread 4242;forward;aten::mm;cudaLaunchKernel;GPU 0, stream 7;gemm 58000

The number is the self time of the last frame in ns, summed over all its occurrences with the same stack.
"""

from __future__ import annotations

from ktrace.kit import Format

FORMAT = Format(
    "folded",
    "folded stacks for flame graphs",
    patterns=("*.folded", "*.collapsed"),
    writer="ktrace.converters.folded.writer:Writer",
    timeline=True,
)
