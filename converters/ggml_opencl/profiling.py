"""The rows of cl_profiling.csv, of all versions: columns are found by their headings.

op name, kernel name, duration (ms), global size, local size, output size                            early 2025
op name, kernel name, queued duration (ms), submit duration(ms), exec duration (ms), complete ...     2025
op name, kernel name, exec duration (ms), global size, local size, output size                       since 2025
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import number, to_ns
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

_HEADING = re.compile(r"\s+|(?<=\S)(?=\()")
_KERNEL = re.compile(r"[A-Za-z_]\w*")
_SIZE = re.compile(r"\d{1,15}(?:x\d{1,15}){2}")

#: Spellings of the duration of a kernel, in lower case.
_DURATIONS = ("exec duration (ms)", "duration (ms)")
_NAMES, _TENSOR, _GLOBAL, _LOCAL = "kernel name", "op name", "global size", "local size"


def add_kernels(lines: Lines, rows: RowBuilder, report: Report) -> Iterator[Batch]:
    """Yields a summary with one occurrence for each kernel."""
    headings: list[str] = []
    for line in lines:
        text = line.text
        if not text.strip():
            lines.structure()
        elif "kernel name" in text and (found := _headings(text)):
            headings = found
            lines.structure()
        elif headings:
            cells = text.rsplit(",", len(headings) - 1)  # only the tensor's name, the first cell, may have a comma
            problem = (
                _add(dict(zip(headings, map(str.strip, cells), strict=True)), rows)
                if len(cells) == len(headings)
                else ("bad-record", "too few cells")
            )
            if problem:
                lines.skip(*problem)
            else:
                lines.used()
        yield from rows.ready()
    yield from rows.rest()


def _headings(text: str) -> list[str]:
    """The headings in lower case, with one blank between words; empty if the line has none of a duration."""
    headings = [_HEADING.sub(" ", cell.strip().lower()) for cell in text.split(",")]
    known = _NAMES in headings and headings[0] == _TENSOR and len(set(headings)) == len(headings)
    return headings if known and not set(_DURATIONS).isdisjoint(headings) else []


def _add(cells: dict[str, str], rows: RowBuilder) -> tuple[str, str] | None:
    """Adds a kernel; returns the kind of issue and a detail if the row isn't one."""
    key = next(key for key in _DURATIONS if key in cells)
    ms, name = number(cells.pop(key)), cells.pop(_NAMES)
    if not _KERNEL.fullmatch(name):
        return "bad-record", "no name of a kernel"
    if ms is None or not ms.is_finite():
        return "bad-record", "no duration"
    if ms < 0:
        return "negative-duration", f"{ms} ms"
    if ms > 1 << 42:
        return "time-range", f"{ms} ms"
    columns: dict[str, Any] = {"total": float(to_ns(ms, "ms")[0]), "layer": cells.pop(_TENSOR) or None}
    columns |= _launch(cells.get(_GLOBAL, ""), cells.get(_LOCAL, ""))
    if "grid_x" in columns:
        del cells[_GLOBAL], cells[_LOCAL]
    args = {heading: _value(cell) for heading, cell in cells.items() if cell}
    rows.summary("kernel", name, unit="ns", count=1, device=0, args=args, **columns)
    return None


@lru_cache(maxsize=65_536)
def _launch(work_items: str, group: str) -> dict[str, int]:
    """The grid in groups and the block of a launch; empty if the sizes aren't known or no multiples."""
    if not _SIZE.fullmatch(work_items) or not _SIZE.fullmatch(group):
        return {}
    totals, blocks = (list(map(int, size.split("x"))) for size in (work_items, group))
    if not all(totals) or not all(blocks) or any(total % block for total, block in zip(totals, blocks, strict=True)):
        return {}
    grids = [total // block for total, block in zip(totals, blocks, strict=True)]
    sizes = {"grid": grids, "block": blocks}
    return {f"{what}_{axis}": size for what in sizes for axis, size in zip("xyz", sizes[what], strict=True)}


def _value(cell: str) -> float | str:
    found = number(cell)
    return cell if found is None or not found.is_finite() else float(found)
