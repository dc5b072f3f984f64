"""How a trace is divided into parts: `time=10s`, `size=500MB`, `step`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from ktrace.errors import UsageError
from ktrace.model.times import parse_time

#: Unit -> bytes.
_UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

_EXPECTED = "time=10s, size=500MB or step"


@dataclass(frozen=True)
class SplitBy:
    """One of three: `time` is the length of a part in ns, `size` the most bytes of a file, `step` a part per step."""

    time: int | None = None
    size: int | None = None
    step: bool = False

    @classmethod
    def of(cls, text: str) -> SplitBy:
        """Parses a text. Raises UsageError."""
        way, _, value = text.partition("=")
        if way == "step" and not value:
            return cls(step=True)
        if way == "time" and value:
            length = parse_time(value)
            if length <= 0:
                raise UsageError(f"a part can't be {value} long", expected=_EXPECTED)
            return cls(time=length)
        if way == "size" and value:
            return cls(size=_parse_size(value))
        raise UsageError(f"'{text}' isn't a way to split", expected=_EXPECTED)


def _parse_size(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]+)", text.strip())
    size = int(Decimal(found[1]) * _UNITS[found[2]]) if found and found[2] in _UNITS else 0
    if size <= 0:
        raise UsageError(f"'{text}' isn't a size with a unit", expected="B, kB, MB or GB, such as 500MB or 1.5GB")
    return size
