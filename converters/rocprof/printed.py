"""Rows that rocprofv2 and rocprof print: one on each line, with headings before their cells in brackets.

Dispatch_ID(1), GPU_ID(4), ..., Kernel_Name("f(int, int)"), Begin_Timestamp(10), End_Timestamp(20), Correlation_ID(7)
Record(1), Domain(HIP_API_DOMAIN), Function(hipMalloc), Start_Timestamp(10), End_Timestamp(20), Correlation_ID(2)
Domain(HIP_OPS_DOMAIN), Operation_Name(KernelExecution), Kernel_Name(f(int, int)), Start_Timestamp(10), ...
Domain(ROCTX_DOMAIN), Timestamp(10), ROCTX_ID(1), ROCTX_Message(step (of 3))
dispatch[0], gpu-id(0), queue-id(0), ..., kernel-name("f(int) [clone .kd]"), time(1,2,3,4)
  SQ_WAVES (16384.0000000000)
"""

from __future__ import annotations

import re

_CELL = re.compile(r'(?P<key>[\w-]+)(?:\((?P<cell>"[^"]*(?:""[^"]*)*"|[^()]*)\)|\[(?P<number>\d+)\])(?:, *|\s*$)')
#: Cells without quotes that may contain brackets, and the text after them.
_OPEN = re.compile(r"(?P<key>Kernel_Name|ROCTX_Message)\((?!\")")
_ENDS = {"Kernel_Name": ("), Start_Timestamp(", "), Begin_Timestamp("), "ROCTX_Message": ()}

_COUNTER = re.compile(r"\s+(\w+) \((-?[\d.]+(?:e[+-]?\d+)?)\)\s*")
_TIMES = ("DispatchNs", "BeginNs", "EndNs", "CompleteNs")


def printed_row(text: str) -> dict[str, str] | None:
    """Returns heading -> cell of a line, None for another line."""
    text = text.strip()
    row: dict[str, str] = {}
    at = 0
    while at < len(text):
        if wide := _OPEN.match(text, at):
            end = _end(text, wide)
            row[wide["key"]] = text[wide.end() : end].strip()
            at = end + 1 + len(text[end + 1 :]) - len(text[end + 1 :].lstrip(", "))
            continue
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


def _end(text: str, cell: re.Match[str]) -> int:
    """The position of the bracket that closes a cell which may contain brackets."""
    found = [at for end in _ENDS[cell["key"]] if (at := text.find(end, cell.end())) >= 0]
    last = text.rfind(")")
    return min(found, default=last if last >= cell.end() else len(text))


def printed_counter(text: str) -> tuple[str, str] | None:
    """Returns name and value of a counter of the dispatch above, None for another line."""
    found = _COUNTER.fullmatch(text)
    return (found[1], found[2]) if found else None
