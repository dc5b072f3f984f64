"""Parses the NVTX ranges around a launch.

A CSV cell contains the thread and the stack of its ranges, outermost first; the heading names the parts:

    thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg
    13416  "<default domain>:forward:none:none:none:none:none:none"  "<default domain>:layer 3:none:..."

In text, the lines after that of the kernel name one range each, with its level (`<0,forward>`), between
domains and colours.
"""

from __future__ import annotations

import re

#: Words in the heading of a stack of ranges, and of ranges that don't form a stack.
PUSHED, STARTED = "Push/Pop_Range", "Start/Stop_Range"

_RANGE = re.compile(r'"([^"]*(?:""[^"]*)*)"')
_DEFAULT = "<default domain>"
_PARTS = 6
_LEVEL = re.compile(r"<\s*\d+\s*,(.*)>")


def stack(cell: str) -> tuple[list[str], bool]:
    """Returns the names of the ranges in a cell, and whether the cell has nothing else but the thread."""
    names, only_names = [], True
    for text in _RANGE.findall(cell):
        domain, _, rest = text.partition(":")
        parts = rest.rsplit(":", _PARTS)
        if len(parts) < _PARTS + 1:
            parts = rest.split(":")
        names.append(parts[0])
        only_names &= domain == _DEFAULT and all(part == "none" for part in parts[1:])
    return [name for name in names if name], only_names


def range_name(line: str) -> str | None:
    """Returns the name of the range that a line of the text names, None if it names none."""
    found = _LEVEL.fullmatch(line.strip())
    return found[1].strip() if found else None
