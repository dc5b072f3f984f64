"""Traces as nvprof prints them: their headings, and their rows under the headings of CSV.

   Start  Duration   Grid Size   Block Size  Regs*   SSMem*  DSMem*      Size        Device  Context  Name
133.81ms  135.78us           -            -      -        -       -  409.60KB  GeForce GTX 10        1  [CUDA]
137.10ms  1.7170ms   (20 10 1)    (32 32 1)     29  8.000KB      0B         -  Quadro T2000 (0       1  f() [94]

Columns stand two blanks apart; a device is cut off at 15 letters, and may end in a number as "GeForce GTX 10" does. In
copies from web pages one blank is left.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SIZE = r"-|\(\d+[ ,]+\d+[ ,]+\d+\)"
_PLACE = r"-|\d+"
_DEVICE = r"-|\S.*"

#: What a cell of a column looks like; of others a word without blanks.
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

#: What text calls the columns -> in CSV.
_AS_CSV = {"Regs*": "Registers Per Thread", "SSMem*": "Static SMem", "DSMem*": "Dynamic SMem"}


class Shape(NamedTuple):
    """The headings of a trace, and what its rows look like: columns two blanks apart, or one."""

    headings: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]


def trace_shape(text: str) -> Shape | None:
    """The shape of the trace of which a line is the headings, None for another line."""
    if not _TRACE.fullmatch(text) or '"' in text or "," in text:
        return None
    headings = tuple(_HEADINGS.findall(text))
    cells = [f"({_CELLS.get(name, '[^ ]+')})" for name in headings]
    apart = [cell.replace(_DEVICE, _DEVICE + "?") for cell in cells]  # the first two blanks end it
    return Shape(
        headings,
        (re.compile(r"\s*" + r"\s{2,}".join(apart) + r"\s*"), re.compile(r"\s*" + r"\s+".join(cells) + r"\s*")),
    )


def trace_row(shape: Shape, text: str) -> dict[str, str] | None:
    """The cells of a row under the headings of CSV, None where it is none."""
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
