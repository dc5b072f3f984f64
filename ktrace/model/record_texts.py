"""Records as JSON texts, which validation checks, and what is wrong with one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class RecordRun(NamedTuple):
    """Records as JSON texts that follow one another.

    `number` is that of the first one, from 1; number 0 is the header alone. `line` is the first one's line
    in the file where each has a line of its own, else None.
    """

    number: int
    line: int | None
    texts: list[bytes]


@dataclass(frozen=True)
class Fault:
    """What is wrong with a record: its number from 1 (0 is the header), the JSON path in it, the reason."""

    record: int
    path: str
    reason: str
    line: int | None = None
