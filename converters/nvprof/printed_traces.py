"""Traces that nvprof prints: their headings, and their rows under the headings of CSV.

   Start  Duration   Grid Size   Block Size  Regs*   SSMem*  DSMem*      Size        Device  Context  Name
133.81ms  135.78us           -            -      -        -       -  409.60KB  GeForce GTX 10        1  [CUDA]
137.10ms  1.7170ms   (20 10 1)    (32 32 1)     29  8.000KB      0B         -  Quadro T2000 (0       1  f() [94]

Two blanks separate columns; a device is cut after 15 letters, and may end in a number, as in "GeForce GTX 10". Copies
from web pages have only one blank.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SIZE = r"-|\(\d+[ ,]+\d+[ ,]+\d+\)"
_PLACE = r"-|\d+"
_DEVICE = r"-|\S.{0,63}"
_WORD = r"\S+"

#: The pattern of a column's cells; cells of other columns are words without blanks.
_CELLS = {
    "Grid Size": _SIZE,
    "Block Size": _SIZE,
    "Device": _DEVICE,
    "Src Dev": _DEVICE,
    "Dst Dev": _DEVICE,
    "Context": _PLACE,
    "Stream": _PLACE,
    "Src Ctx": _PLACE,
    "Dst Ctx": _PLACE,
    "Unified Memory": r"-|PC \S+|\S+",
    "Name": r"\S.*",
}
_TRACE = re.compile(r"\s*Start\s+Duration\s.*\bName\s*")
_HEADINGS = re.compile(r"\(?(Grid Size|Block Size|Unified Memory|Virtual Address|(?:Src|Dst) (?:Dev|Ctx)|[^\s()]+)\)?")
_SIZES = re.compile(r"\((\d+)[ ,]+(\d+)[ ,]+(\d+)\)")

#: Heading in printed tables -> in CSV.
_AS_CSV = {"Regs*": "Registers Per Thread", "SSMem*": "Static SMem", "DSMem*": "Dynamic SMem"}


class Shape(NamedTuple):
    """The headings of a trace, and the patterns of its rows: with two blanks between columns, or with one."""

    headings: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]


def trace_shape(text: str) -> Shape | None:
    """Returns the shape of the trace whose headings are in a line, None for another line."""
    if not _TRACE.fullmatch(text) or '"' in text or "," in text:
        return None
    headings = tuple(_HEADINGS.findall(text))
    cells = [f"({_CELLS.get(name, _WORD)})" for name in headings]
    apart = [cell.replace(_DEVICE, _DEVICE + "?") for cell in cells]  # the first two blanks end it
    return Shape(
        headings,
        (re.compile(r"\s*" + r"\s{2,}".join(apart) + r"\s*"), re.compile(r"\s*" + r"\s+".join(cells) + r"\s*")),
    )


def trace_row(shape: Shape, text: str) -> dict[str, str] | None:
    """The cells of a row under the headings of CSV, None for another line."""
    found = next((found for pattern in shape.patterns if (found := pattern.fullmatch(text))), None)
    if not found:
        return None
    row: dict[str, str] = {}
    for name, cell in zip(shape.headings, found.groups(), strict=True):
        if name in ("Grid Size", "Block Size"):
            sizes = _SIZES.fullmatch(cell)
            row |= {f"{name.split()[0]} {axis}": sizes[i] if sizes else "" for i, axis in enumerate("XYZ", 1)}
        else:
            row[_AS_CSV.get(name, name)] = "" if cell == "-" else cell.rstrip()
    return row
