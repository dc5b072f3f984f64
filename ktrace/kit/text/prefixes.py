"""Prefixes of lines: text before each line of a pasted or logged table that isn't part of the table.

> Time(%)  Total Time  Instances  Name            the mark of a quotation
[05/08/2026-14:05:14] [I]  Time(ms)  Layer        the time and level from a logger
[rank0]: Time (%)  Total Time (ns)  Name          the rank from a launcher
//  Time(%)  Total Time  Calls  Name              a comment in a program's source
"""

from __future__ import annotations

import re

_QUOTE = r" {0,3}(?:> ?)+"
_COMMENT = r" {0,3}//+(?:\s|$)"
_CLOCK = r"(?:\d{4}[-/]\d\d[-/]\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_STAMP = rf"(?:\[[^\[\]]{{0,40}}\d\d:\d\d:\d\d[^\[\]]{{0,20}}\]|{_CLOCK}(?=\s|$))"
_RANK = r"(?:\[rank ?\d+\]:?|\[\d+,\d+\]<std\w+>:?|\(\w+ pid=\d[^()]*\))"
_LEVEL = r"(?: (?:\[\w{1,8}\]|(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR)\b:?))*"
_PREFIX = re.compile(rf"{_QUOTE}|{_COMMENT}|{_RANK} ?|{_STAMP}{_LEVEL} ?")


def without_prefix(text: str) -> str:
    """Returns the line without its prefix, if it has one."""
    found = _PREFIX.match(text)
    return text[found.end() :] if found else text


def is_quoted(text: str) -> bool:
    """Whether the line begins with the mark of a quotation; no cell does."""
    return text.lstrip(" ").startswith(">")
