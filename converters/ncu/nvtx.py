"""NVTX ranges around a launch.

In a cell of CSV, the thread and the stack of its ranges, outermost first; the heading says what the parts are:

    thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg
    13416  "<default domain>:forward:none:none:none:none:none:none"  "<default domain>:layer 3:none:..."

In the text, behind the line of the kernel: a range a line with its level (`<0,forward>`), amid domains and colours.
"""

from __future__ import annotations

import re

#: What stands in the heading of a stack, and of ranges that are no stack.
PUSHED, STARTED = "Push/Pop_Range", "Start/Stop_Range"

_RANGE = re.compile(r'"((?:[^"]|"")*)"')
_DEFAULT = "<default domain>"
_PARTS = 6
_LEVEL = re.compile(r"<\s*\d+\s*,\s*(.*?)\s*>")


def stack(cell: str) -> tuple[list[str], bool]:
    """The names of the ranges in a cell, and whether that is all that the cell says but for the thread."""
    names, whole = [], True
    for text in _RANGE.findall(cell):
        domain, _, rest = text.partition(":")
        parts = rest.rsplit(":", _PARTS)
        if len(parts) < _PARTS + 1:
            parts = rest.split(":")
        names.append(parts[0])
        whole &= domain == _DEFAULT and all(part == "none" for part in parts[1:])
    return [name for name in names if name], whole


def level(line: str) -> str | None:
    """The name of the range that a line of the text says, if it does."""
    found = _LEVEL.fullmatch(line.strip())
    return found[1] if found else None
