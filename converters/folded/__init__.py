"""Folded stacks, the input of flame graphs (github brendangregg/FlameGraph, speedscope, inferno): a stack and its time.

    python3;thread 4242;forward;aten::mm 1200
    python3;thread 4242;forward;aten::mm;cudaLaunchKernel;GPU 0, stream 7;gemm 58000

The number is what the last frame has of its own, summed over all its occurrences with the same stack: ns where ktrace
writes it, samples in what `py-spy record --format raw`, stackcollapse-perf.pl and others write.

austin 3 writes a line for each sample instead, in their order (github P403n1x87/austin-python, collapsed_stack.py):

    # austin: 3.4.1
    # mode: wall
    P8374;T0:8374;serve.py:<module>:40;serve.py:step:12 1798
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.numbers import last_number

PATTERNS = ("*.folded", "*.collapsed")

_AUSTIN = re.compile(r"(?:# [^\n]*\n){0,8}# austin: [^\n]*\n(?:# [^\n]*\n){0,8}(?:P\d+;T|\s*\Z)")

#: Lines that are looked at.
_LINES = 256

#: The characters of a number, which is no frame.
_FIGURES = "0123456789 \t.,:%+-"

#: The fewest stacks of several frames in a text whose name doesn't say what it is.
_LEAST = 3


def probe(sample: Sample) -> Match | None:
    """DIALECT for the head that austin writes; SHAPE for folded stacks in all lines, in half of them if so named."""
    text = sample.text or ""
    if text.startswith("# ") and _AUSTIN.match(text):
        return Match(Score.DIALECT, "begins as austin's samples do")
    if text[:1] in "{[<":
        return None
    named = sample.name.lower().endswith(tuple(pattern[1:] for pattern in PATTERNS))
    lines = [line for line in sample.lines[:_LINES] if line.strip() and not line.startswith("#")]
    stacks = [depth for line in lines if (depth := _depth(line))]
    several = sum(depth > 1 for depth in stacks)
    if 2 * several >= len(lines) and (several if named else len(stacks) == len(lines) and several >= _LEAST):
        return Match(Score.SHAPE, "has a stack of frames and a number in its lines")
    return None


def _depth(line: str) -> int:
    """The number of frames of a folded stack; 0 for another line.

    A line of nearly any text may end with a number, and the cells of a CSV with semicolons may all be numbers.
    """
    found = last_number(line)
    frames = found[0].split(";") if found else []
    return 0 if any(frame and not frame.strip(_FIGURES) for frame in frames) else len(frames)


FORMAT = Format(
    "folded",
    "folded stacks for flame graphs: py-spy, perf, austin",
    patterns=PATTERNS,
    probe=probe,
    read="ktrace.converters.folded.reader:read",
    writer="ktrace.converters.folded.writer:Writer",
    timeline=True,
    prose=True,
    words=(";",),
)
