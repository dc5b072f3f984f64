"""nvprof's output, as CSV or as text, and the CSV of the Visual Profiler (CUDA 5 to 12).

==12524== NVPROF is profiling process 12524, command: ./radixSort
==12524== Profiling result:
"Start","Duration","Grid X",...,"Static SMem","Dynamic SMem","Size","Throughput","Device","Context","Stream","Name"
s,ms,,,,,,,,KB,B,MB,GB/s,,,,
0.835718,10.521599,,,,,,,,,,4.000000,0.371260,"GeForce GTX 1080 Ti (0)","1","7","[CUDA memcpy HtoD]"
"""

from __future__ import annotations

import re

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import are_units, headings_of
from ktrace.kit.text.titles import likely_lines, without_prefix

from .tables import TRACE, is_own_trace, table_kind

_BANNER = re.compile(
    r"^\s*(?:==\d+==|={6,}) ?(?:(?:NV|PG)PROF is profiling|Profiling (?:application|result):|(?:Metric|Event) result:"
    r"|API calls:|(?:Warning|Error): .*(?:profil|nvprof|ERR_)"
    r"|Unified Memory profiling result:|CPU profiling result|NVTX result:|Dependency Analysis:)"
)
_PRINTED = re.compile(
    r"^\s*Start +Duration +Grid Size +\(?Block Size\)?|^\s*(?:Type +)?Time ?\(%\) +Time +Calls +Avg +Min +Max +Name"
    r"|^\s*Invocations +(?:Metric|Event) Name |^\s*Critical path ?\(%\) +Critical path +Waiting time +Name"
)

#: Each line that the probe accepts contains one of these, in lower case.
_LIKELY = (
    *("prof is profiling", "profiling application", "profiling result", "metric result", "event result", "api calls"),
    *("nvtx result", "dependency analysis", "waiting time", "duration", "calls", "invocations", "context"),
    *("== warning:", "== error:", "avg size", "avg_size", "avg-size", "avgsize"),
)

_HEADING = re.compile(r"\bName\b|\bKernel\b", re.IGNORECASE)

#: The headings of a trace of calls only.
_CALLS = frozenset({"start", "duration", "name", "correlation_id"})


def probe(sample: Sample) -> Match | None:
    """DIALECT for nvprof's own lines and for the headings of its tables."""
    for number, whole in likely_lines(sample, _LIKELY):
        line = without_prefix(whole)
        if _BANNER.match(line):
            return Match(Score.DIALECT, f"contains a banner of nvprof (line {number})")
        if _PRINTED.match(line):
            return Match(Score.DIALECT, f"contains the headings of a table that nvprof prints (line {number})")
        if (
            "," in line
            and '":' not in line
            and _HEADING.search(line)
            and (headings := headings_of(line, table_kind))
            and _is_own(headings[0], headings[1], _below(sample, number))
        ):
            return Match(Score.DIALECT, f"contains the headings of nvprof's CSV (line {number})")
    return None


def _below(sample: Sample, number: int) -> list[str]:
    return sample.lines[number].split(",") if number < len(sample.lines) else []


def _is_own(cells: list[str], kind: str, below: list[str]) -> bool:
    """Whether only nvprof has such a table; a table of calls is recognised by the units below its headings."""
    if kind != TRACE or is_own_trace(cells):
        return True
    return {cell.casefold() for cell in cells} <= _CALLS and len(below) == len(cells) and are_units(below)


FORMAT = Format(
    "nvprof",
    "nvprof traces, summaries and metrics, CSV or text",
    patterns=("*.csv", "*.log", "*.txt"),
    probe=probe,
    read="ktrace.converters.nvprof.reader:read",
    words=(
        *("== warning:", "== error:"),
        "prof is profiling",
        "profiling application",
        "profiling result",
        "metric result",
        "event result",
        "api calls",
        "nvtx result",
        "dependency analysis",
        "waiting time",
        "duration",
        "calls",
        "invocations",
        "context",
        "avg size",
        "avg_size",
        "avg-size",
        "avgsize",
    ),
    prose=True,
)
