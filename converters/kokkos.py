"""What `kp_reader` prints of the simple kernel timer of Kokkos Tools: regions and kernels, each in two lines.

 (Type)   Total Time, Call Count, Avg. Time per Call, %Total Time in Kernels, %Total Program Time
-------------------------------------------------------------------------
Regions:

- spmv
 (REGION)   0.010096 1 0.010096 24.445099 6.570528
-------------------------------------------------------------------------
Kernels:

- fill_vec
 (ParFor)   0.010949 1 0.010949 26.510573 7.125701         seconds, calls, seconds, shares
-------------------------------------------------------------------------
Summary:

Total Execution Time (incl. Kokkos + non-Kokkos):                   0.15366 seconds

profiling/simple-kernel-timer/kp_reader.cpp writes it. The text doesn't say whether kernels ran on a device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.layouts import is_rule
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.titles import likely_lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_WORDS = ("%total time in kernels, %total program time",)
_HEADING = re.compile(
    r"\s*\(Type\)\s+Total Time, Call Count, Avg\. Time per Call, %Total Time in Kernels, %Total Program Time\s*"
)
_NAME = re.compile(r"- (?P<name>\S.*?)\s*")
_NUMBER = r"[\d.eE+-]{1,30}|-?nan|inf"
_FIGURES = re.compile(
    rf"\s*\((?P<type>\w+)\)\s+(?P<total>{_NUMBER})\s+(?P<count>\d{{1,18}})\s+(?P<avg>{_NUMBER})"
    rf"\s+(?P<share>{_NUMBER})\s+(?P<program>{_NUMBER})\s*"
)
_TOTAL = re.compile(r"(?P<name>Total (?:Execution )?Time[^:]{0,60}):\s+(?P<total>[\d.]{1,30}) seconds\s*")
#: What follows from the sums and the rows.
_DERIVED = re.compile(
    r"-> (?:Time outside|Percentage in) Kokkos kernels:.{1,80}|Total Calls to Kokkos Kernels:\s+\d{1,18}"
)
_SECTION = re.compile(r"(Regions|Kernels|Summary):\s*")

#: Longer lines have no names.
_LONGEST = 1 << 16


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings."""
    for number, line in likely_lines(sample, _WORDS):
        if _HEADING.fullmatch(line):
            return Match(Score.DIALECT, f"contains times of Kokkos kernels, as kp_reader prints them (line {number})")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a kernel or range for each name, and totals for the sums below."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "Kokkos Tools kp_reader"})
    table, name = -1, ""
    scope: list[str] = []
    for line in lines:
        text = line.text if len(line.text) <= _LONGEST else ""
        if _HEADING.fullmatch(text):
            table, scope, name = table + 1, [], ""
            lines.structure()
        elif section := _SECTION.fullmatch(text):
            scope, name = [section[1]], ""
            lines.structure()
        elif not text.strip() or is_rule(text):
            lines.structure()
        elif table < 0:
            pass
        elif name and (found := _FIGURES.fullmatch(text)):
            _add(rows, name, found, table, scope)
            lines.used(2)
            name = ""
        elif (found := _NAME.fullmatch(text)) and _FIGURES.fullmatch(lines.peek() or ""):
            name = found["name"]
            lines.defer()
        elif _DERIVED.fullmatch(text.strip()):
            lines.structure()
        elif found := _TOTAL.fullmatch(text.strip()):
            total = float(Decimal(found["total"]) * 10**9)
            rows.summary("total", found["name"], total=total, unit="ns", table=table, scope=scope)
            lines.used()
        yield from rows.ready()
    yield from rows.rest()


def _add(rows: RowBuilder, name: str, found: re.Match[str], table: int, scope: list[str]) -> None:
    figures: dict[str, Any] = {
        "total": float(Decimal(found["total"]) * 10**9),
        "avg": float(Decimal(found["avg"]) * 10**9),
        "count": int(found["count"]),
        "percent": float(found["share"]),
    }
    kind = "range" if found["type"] == "REGION" else "op" if found["type"] == "DeepCopy" else "kernel"
    args = {"type": found["type"], "%Total Program Time": float(found["program"])}
    rows.summary(kind, name, unit="ns", table=table, scope=scope, args=args, **figures)


FORMAT = Format(
    "kokkos",
    "Kokkos Tools' simple kernel timer, as kp_reader prints it",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read=read,
    words=_WORDS,
    prose=True,
)
