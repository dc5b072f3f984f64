"""What a reader or writer is told about the conversion that it is part of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktrace.report import Report

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass
class Conversion:
    """The settings of one conversion and the report that it fills.

    `label` is the source label of the rows that are read, `batch_rows` the greatest size of a batch.
    `progress`, if given, is told how many bytes of the input were taken. `jobs` is how many processes may work.
    `columns` are those that will be looked at, None for all; a reader to which it makes a difference may leave out
    others. `ids` are of the rows that will be looked at, sorted, None for all; a reader that finds rows by id may leave
    out others, uncounted. `ranks` are those of which rows will be looked at, None for all; a reader that knows the rank
    of whole files may leave out those of others, and notes it.
    """

    report: Report
    label: str = "input"
    batch_rows: int = 65_536
    options: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[int], None] | None = None
    jobs: int = 1
    columns: frozenset[str] | None = None
    ids: npt.NDArray[np.int64] | None = None
    ranks: frozenset[int] | None = None
