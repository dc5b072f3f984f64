"""The tables that PyTorch's `prof.key_averages().table()` and `prof.table()` print, of all versions and columns.

---------------------  ------------  ------------  ------------  ------------  ------------
                 Name    Self CPU %      Self CPU     CPU total     Self CUDA    # of Calls
---------------------  ------------  ------------  ------------  ------------  ------------
             aten::mm         1.20%     120.000us     150.000us     900.000us             3
      volta_sgemm_128         0.00%       0.000us       0.000us     900.000us             3
---------------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 10.000ms
Self CUDA time total: 900.000us

torch/autograd/profiler_util.py (`_build_table`) writes it; up to PyTorch 1.7 it was torch/autograd/profiler.py.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.titles import likely_lines

from .grid import bare_grid, grid_at

#: Headings contain one of these.
_WORDS = ("self cpu", "cpu total", "cpu time", "self cuda", "cuda total", "self xpu", "time avg", " total %")

#: Names of rows begin with one of these in most tables; rows whose names tell the device.
_OPERATORS = ("aten::", "autograd::")
_NAMED = 40


def probe(sample: Sample) -> Match | None:
    """DIALECT for headings of PyTorch above a rule and a row."""
    for number, _ in likely_lines(sample, _WORDS):
        if grid := grid_at(sample.lines, number - 1):
            words = ", ".join(f"'{column.heading}'" for column in grid.columns.columns[:4])
            return Match(
                Score.DIALECT, f"contains a table of PyTorch's profiler with the columns {words} (line {number})"
            )
    for number, _ in likely_lines(sample, _OPERATORS):
        if bare_grid(sample.lines[number - 1 : number + _NAMED]):
            return Match(Score.DIALECT, f"has rows of a table of PyTorch's profiler, without headings (line {number})")
    return None


FORMAT = Format(
    "torch-table",
    "PyTorch profiler tables, what `key_averages().table()` prints",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read="ktrace.converters.torch_table.reader:TorchTable.read",
    words=(*_WORDS, *_OPERATORS),
    prose=True,
)
