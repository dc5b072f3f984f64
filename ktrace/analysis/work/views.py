"""Sources that are views of one run by several tools: their device work is the same, and isn't that of two devices.

kineto     gemm  100 us .. 540      gelu  600 us .. 660      gemm  700 us .. 1,131
unitrace   gemm  100 us .. 510      gelu  600 us .. 655      gemm  700 us .. 1,105      the same, as another tool saw it

Ranks of a run also have the same work. But one tool records all of them, and they know their rank. A file that is given
twice, or is there compressed, too, has the same times to the ns.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ktrace.analysis.work.gather import WorkInput
from ktrace.model.arrays import Int64
from ktrace.naming.short_names import base_name

#: The fewest kernels that tell that two sources saw the same, and how much durations and starts may differ, as parts
#: of the time that the work takes.
_FEWEST, _DURATIONS, _STARTS = 3, 0.25, 0.02


def repeated(gathered: WorkInput) -> dict[str, str]:
    """The sources whose device work an earlier source has, too, each with that source."""
    tools = {source: tool_of(gathered, source) for source in gathered.work.sources}
    same_as: dict[str, str] = {}
    if len(set(tools.values())) < 2:  # then only copies are the same
        often = Counter(gathered.spans_of[source] for source in tools)
        tools = {source: tool for source, tool in tools.items() if often[gathered.spans_of[source]] > 1}
    seen: list[_View] = []
    for source, tool in tools.items():
        view = _View(gathered, source, tool)
        first = next((one for one in seen if view.is_of(one)), None)
        if first is not None:
            same_as[source] = first.source
        else:
            seen.append(view)
    return same_as


def tool_of(gathered: WorkInput, source: str) -> tuple[object, object]:
    """The tool that recorded a source."""
    entry = gathered.catalog.get("source", source=source)
    facts = entry.facts if entry else {}
    return str(facts.get("format")), str(facts.get("tool"))


class _View:
    """The kernels of a source: their names, start and total duration."""

    def __init__(self, gathered: WorkInput, source: str, tool: tuple[object, object]) -> None:
        self.source, self.tool, self.rank = source, tool, gathered.catalog.rank(source)
        columns, shapes = gathered.work.for_source(source), gathered.shapes.all()
        kernel = np.array([shape["kind"] == "kernel" for shape in shapes], np.bool_)
        kernels = np.flatnonzero(kernel[columns["shape"]] & (columns["dur"] >= 0))
        counts = np.bincount(columns["shape"][kernels], minlength=len(shapes))
        self.names: Counter[str] = Counter()
        for shape in np.flatnonzero(counts).tolist():
            self.names[base_name(shapes[shape]["name"])] += int(counts[shape])
        self.start: Int64 = np.sort(columns["ts"][kernels])
        self.total = int(columns["dur"][kernels].sum())
        clocks = [one for one in gathered.catalog.of("clock") if one.key["source"] == source]
        self.unix = {one.unix_offset for one in clocks} - {None}
        self.placed = gathered.spans_of[source], columns["ts"][kernels], columns["dur"][kernels]

    def is_of(self, other: _View) -> bool:
        """Whether both are views of the same work."""
        if self.names != other.names or self.names.total() < _FEWEST:
            return False
        if None not in (self.rank, other.rank) and self.rank != other.rank:
            return False
        if self.tool == other.tool:  # in folders of their own they are called different runs
            runs = {source.rpartition("/")[0] for source in (self.source, other.source)}
            at_once = not self.unix or not other.unix or bool(self.unix & other.unix)
            return at_once and len(runs) == 1 and all(map(np.array_equal, self.placed, other.placed))
        if abs(self.total - other.total) > _DURATIONS * max(self.total, other.total):
            return False
        shifts = (self.start - self.start[0]) - (other.start - other.start[0])
        span = max(int(self.start[-1] - self.start[0]), self.total)
        return int(np.abs(shifts).max()) <= _STARTS * span
