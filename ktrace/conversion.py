"""The settings that a reader or writer gets for one conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ktrace.report import Report


def _unbounded(size: int) -> None:
    """Counts nothing: what is read isn't a whole input of somebody."""


@dataclass
class Conversion:
    """The settings of one conversion, and the report that it fills.

    Attributes
    ----------
    report
        The account of records, rows and issues.
    label
        Source label of the rows that are read.
    batch_rows
        Largest number of rows in a batch.
    options
        Options of single formats, such as "gpu" for Perfetto and "table" for tables.
    progress
        Called with the number of input bytes each time some were read.
    jobs
        Number of processes that may work.
    expanded
        Called with the number of bytes that references in the input gave, such as a stack of frames that others share;
        raises DamagedInput beyond the limits.
    """

    report: Report
    label: str = "input"
    batch_rows: int = 65_536
    options: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[int], None] | None = None
    jobs: int = 1
    expanded: Callable[[int], None] = _unbounded
