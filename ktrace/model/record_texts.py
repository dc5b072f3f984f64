"""Records as JSON texts, for validation, and the faults found in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class RecordRun(NamedTuple):
    """Consecutive records as JSON texts.

    `number` is the number of the first record, from 1; number 0 is the header alone. `line` is its line in the file
    where each record has a line, else None.
    """

    number: int
    line: int | None
    texts: list[bytes]


@dataclass(frozen=True)
class Fault:
    """A fault of a record: the record's number from 1 (0 is the header), the JSON path in it, the reason."""

    record: int
    path: str
    reason: str
    line: int | None = None
