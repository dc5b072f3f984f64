"""Counts of the rows that a stage leaves out, with the first few ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ktrace.report import EXAMPLES, Ledger, Report


@dataclass
class Tally:
    """How many rows had one kind of issue, and the ids of the first few."""

    rows: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, ids: Iterable[int]) -> None:
        """Counts the rows with these ids."""
        found = list(ids)
        self.rows += len(found)
        self.first += found[: EXAMPLES - len(self.first)]

    def report(self, report: Report, kind: str, ledger: Ledger) -> None:
        """Reports the rows: the first few each with its id, all others together with the last of these."""
        for number, identity in enumerate(self.first, 1):
            rows = self.rows - number + 1 if number == len(self.first) else 1
            report.issue(kind, f"row {identity}", rows=rows, stage=ledger)
