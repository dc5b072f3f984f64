"""Rows as rocprofv2 and rocprof print them: a line each, the heading before its cell in brackets.

Dispatch_ID(1), GPU_ID(4), ..., Kernel_Name("f(int, int)"), Begin_Timestamp(10), End_Timestamp(20), Correlation_ID(7)
Record(1), Domain(HIP_API_DOMAIN), Function(hipMalloc), Start_Timestamp(10), End_Timestamp(20), Correlation_ID(2)
dispatch[0], gpu-id(0), queue-id(0), ..., kernel-name("f(int) [clone .kd]"), time(1,2,3,4)
  SQ_WAVES (16384.0000000000)
"""

from __future__ import annotations

import re

_CELL = re.compile(r'(?P<key>[\w-]+)(?:\((?P<cell>"(?:[^"]|"")*"|[^()]*)\)|\[(?P<number>\d+)\])(?:, *|\s*$)')
_COUNTER = re.compile(r"\s+(\w+) \((-?[\d.]+(?:e[+-]?\d+)?)\)\s*")
_TIMES = ("DispatchNs", "BeginNs", "EndNs", "CompleteNs")


def printed_row(text: str) -> dict[str, str] | None:
    """The cells of a line under their headings, None for another line."""
    text = text.strip()
    row: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _CELL.match(text, at)
        if not found:
            return None
        cell = found["number"] if found["number"] is not None else found["cell"]
        row[found["key"]] = cell[1:-1].replace('""', '"') if cell.startswith('"') else cell
        at = found.end()
    times = row.pop("time", "").split(",")
    if len(times) == len(_TIMES):
        row |= dict(zip(_TIMES, times, strict=True))
    if "dispatch" in row:
        row["Index"] = row.pop("dispatch")
    return row if len(row) > 2 else None


def printed_counter(text: str) -> tuple[str, str] | None:
    """A counter of the dispatch above, and its value."""
    found = _COUNTER.fullmatch(text)
    return (found[1], found[2]) if found else None
