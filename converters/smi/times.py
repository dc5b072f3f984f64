"""Times of day as the tools write them, and the clock that they are read from.

2024/05/01 12:34:56.789   20240501 12:34:56     nvidia-smi, xpu-smi --date: of some zone, which isn't stated
1714567890                                      amd-smi: unix time in s
12:34:56.789                                    xpu-smi, dmon -o T: of some day, which isn't stated

Before the lines of a program that writes none, moreutils' ts and loops with date put a time of the same forms:

1714567890.123 GPU 0     98                     ts %.s
2024-05-01 12:34:56 GPU 0     98                ts '%F %T'
"""

from __future__ import annotations

import re
from functools import lru_cache

from ktrace.kit.text.numbers import decimals_ns, unix_ns

_DATED = re.compile(r"(\d{4})[/-]?(\d\d)[/-]?(\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?")
_DAYTIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_UNIX = re.compile(r"(\d{9,10})(?:\.(\d{1,9}))?")
#: A time before a line, and the blank after it.
STAMP = re.compile(r"\[?(\d{9,10}(?:\.\d{1,9})?|(?:\d{4}[/-]?\d\d[/-]?\d\d[ T])?\d\d:\d\d:\d\d(?:\.\d{1,9})?)\]?[ \t]")
_DAY = 86_400 * 10**9


class Times:
    """Converts the times of a log to ns. `kind` is that of the first one: dated, unix or daytime."""

    def __init__(self) -> None:
        self.kind = ""
        self._midnights = 0
        self._last = 0

    def ns(self, text: str) -> int | None:
        """The time in ns, since 1970 or since the midnight before the first reading; None if it can't be read."""
        kind, time = _parsed(text)
        if time is None or (self.kind and kind != self.kind):
            return None
        self.kind = kind
        if kind == "daytime":
            time += self._midnights
            if time < self._last - _DAY // 2:
                time, self._midnights = time + _DAY, self._midnights + _DAY
            self._last = time
        return time


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[str, int | None]:
    if match := _DATED.fullmatch(text):
        year, month, day, daytime, fraction = match.groups()
        return "dated", unix_ns(f"{year}-{month}-{day} {daytime}", fraction)
    if match := _DAYTIME.fullmatch(text):
        *parts, fraction = match.groups()
        hours, minutes, seconds = (int(part) for part in parts)
        if hours > 23 or minutes > 59 or seconds > 60:
            return "", None
        return "daytime", (hours * 3600 + minutes * 60 + seconds) * 10**9 + decimals_ns(fraction)
    if match := _UNIX.fullmatch(text):
        return "unix", int(match[1]) * 10**9 + decimals_ns(match[2])
    return "", None
