"""The GPU profile that Unreal Engine logs for `ProfileGPU`: passes within passes of one frame.

LogRHI: Perf marker hierarchy, total GPU time 4.00ms
LogRHI: 100.0% 4.00ms   FRAME 10 draws 100 prims 200 verts             what is below is within the first line,
LogRHI:  75.0% 3.00ms   Scene 8 draws 80 prims 160 verts               and within the last line with less indent
LogRHI:     25.0% 1.00ms   PrePass 4 draws 40 prims 80 verts 2 dispatches

Engine/Source/Runtime/RHI/Private/GPUProfiler.cpp writes it (`DumpEventTree`), between other lines of the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.trees import TimeTree
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_WORDS = ("perf marker hierarchy, total gpu time",)
_TITLE = re.compile(r"Perf marker hierarchy, total GPU time (\d{1,12}(?:\.\d{1,9})?)ms")
_ROW = re.compile(r"(\d{1,3}\.\d)% ?(\d{1,12}\.\d{1,6})ms {3}(\S.*)$")
_COUNT = re.compile(r" (\d{1,15}) (draw|prim|vert|dispatch|group)(?:s|es)?$")
_PLURALS = {"dispatch": "dispatches"}

#: Longer lines aren't part of a profile.
_LONGEST = 4096


def probe(sample: Sample) -> Match | None:
    """DIALECT for the title."""
    found = _TITLE.search(sample.text or "") if _WORDS[0] in sample.folded else None
    return Match(Score.DIALECT, "contains a GPU profile of Unreal Engine") if found else None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a kernel for each pass, with the time without passes within it, and a total for each frame."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "Unreal Engine ProfileGPU"})
    tree, table, base = TimeTree(rows, []), -1, 0
    for line in lines:
        text = line.text if len(line.text) <= _LONGEST else ""
        if title := _TITLE.search(text):
            tree.finish()
            table += 1
            scope = [f"frame {table + 1}"]
            tree, base = TimeTree(rows, scope), 0
            rows.summary("total", "total GPU time", total=_ns(title[1]), unit="ns", table=table, scope=scope)
            lines.used()
        elif table >= 0 and (found := _ROW.search(text)):
            place = found.end(1)  # figures end below each other where the indent is the same
            indent = 0 if not base else 1 + max(place - base, 0)
            base = base or place
            name, counts = _counts(found[3])
            tree.add(indent, "kernel", name, _ns(found[2]), percent=float(found[1]), table=table, args=counts)
            lines.used()
        elif not text.strip():
            lines.structure()
        yield from rows.ready()
    tree.finish()
    yield from rows.rest()


def _ns(milliseconds: str) -> float:
    return float(Decimal(milliseconds) * 10**6)


def _counts(text: str) -> tuple[str, dict[str, int]]:
    """The name of a pass, and the draws, primitives and so on that stand after it."""
    counts: dict[str, int] = {}
    while found := _COUNT.search(text):
        counts[_PLURALS.get(found[2], f"{found[2]}s")] = int(found[1])
        text = text[: found.start()]
    return text.strip(), dict(reversed(counts.items()))


FORMAT = Format(
    "unreal",
    "Unreal Engine's GPU profile of a frame (ProfileGPU) in its log",
    patterns=("*.log",),
    probe=probe,
    read=read,
    words=_WORDS,
    prose=True,
)
