"""The table that PyTorch's FlopCounterMode prints: floating point operations by module and operator, without times.

Module             FLOP    % Total
------------  ---------  ---------
MLP           1294.336K    100.00%          a module: all work inside it
- aten.addmm   606.208K     46.84%          an operator in this module or in one inside it
MLP.a         1048.576K     81.01%

torch/utils/flop_counter.py (`get_table`) prints it with `tabulate`. Older versions of that indent names by their depth.
One suffix (K, M, B, T: powers of 1000) is chosen for the whole table, with three decimals.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.likely import likely_lines

from .table import heading

_WORDS = ("% total",)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings above a rule."""
    if "FLOP" not in (sample.text or ""):
        return None
    for number, line in likely_lines(sample, _WORDS):
        if number < len(sample.lines) and heading(line, sample.lines[number]) is not None:
            return Match(Score.DIALECT, f"contains a table of PyTorch's FlopCounterMode (line {number})")
    return None


FORMAT = Format(
    "torch-flops",
    "PyTorch FlopCounterMode's table of floating point operations",
    patterns=("*flop*.txt", "*.log"),
    probe=probe,
    read="ktrace.converters.torch_flops.reader:read",
    words=("% total",),
    prose=True,
)
