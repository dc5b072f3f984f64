"""A table of figures, independent of the format: the meaning of each column, and the figures.

    Table("operation", "by operation", (Column("operation"), Column("time", "ns"), Column("share", "%")),
          [("gemm", 1_200_000, 61.5), ("norm", 751_000, 38.5)])

Text and Markdown show `1.200 ms`; CSV and JSON contain the exact figure under `time_ns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

#: A cell: text, an exact number, a figure; None where the source doesn't state it.
Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """The heading of a column and the unit of its figures: ns, %, count, B, B/s, x (a factor); "" is text.

    Figures in "exact" have no unit: whole numbers are shown digit by digit.

    Figures that are `signed` are changes: people see +1.200 ms. A column that `decides` stays next to the first one
    where a terminal is too narrow for all; rows with that text in it matter less, and are dim where there are colours.
    """

    name: str
    unit: str = ""
    signed: bool = False
    decides: str = ""

    @property
    def key(self) -> str:
        """The column's name for programs: `time_ns`, `share_percent`, `count`, `operation`."""
        suffix = {"ns": "_ns", "%": "_percent", "B": "_bytes", "B/s": "_bytes_per_s"}.get(self.unit, "")
        return self.name.replace(" ", "_") + suffix


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. `name` is for programs, `title` for people; `notes` are sentences below the table.

    `more` is the number of rows left out after the last one. Keys of columns are unique (else ValueError). The rows of
    `sentences` are sentences, which are shown without a table around them.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]
    notes: list[str] = field(default_factory=list)
    more: int = 0
    sentences: bool = False

    def __post_init__(self) -> None:
        keys = [column.key for column in self.columns]
        if len({*keys}) < len(keys):
            raise ValueError(f"table {self.name}: two columns have the same key: {', '.join(keys)}")


def prose(name: str, sentences: Sequence[str]) -> list[Table]:
    """Sentences as a table without a title; no table without sentences."""
    rows: list[tuple[Cell, ...]] = [(sentence,) for sentence in sentences]
    return [Table(name, "", (Column(name),), rows, sentences=True)] if rows else []
