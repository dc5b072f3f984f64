"""A table of figures, independent of the format: the meaning of each column, and the figures.

    Table("operation", "by operation", (Column("operation"), Column("time", "ns"), Column("share", "%")),
          [("gemm", 1_200_000, 61.5), ("norm", 751_000, 38.5)])

Text and Markdown show `1.200 ms`; CSV and JSON contain the exact figure under `time_ns`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: A cell: text, an exact number, a figure; None where the source doesn't state it.
Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """The heading of a column and the unit of its figures: ns, %, count, B, x (a factor); "" is text.

    Figures that are `signed` are changes: people see +1.200 ms.
    """

    name: str
    unit: str = ""
    signed: bool = False

    @property
    def key(self) -> str:
        """The column's name for programs: `time_ns`, `share_percent`, `count`, `operation`."""
        suffix = {"ns": "_ns", "%": "_percent", "B": "_bytes"}.get(self.unit, "")
        return self.name.replace(" ", "_") + suffix


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. `name` is for programs, `title` for people; `notes` are sentences below the table.

    `more` is the number of rows left out after the last one. Keys of columns are unique (else ValueError).
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]
    notes: list[str] = field(default_factory=list)
    more: int = 0

    def __post_init__(self) -> None:
        keys = [column.key for column in self.columns]
        if len({*keys}) < len(keys):
            raise ValueError(f"table {self.name}: two columns have the same key: {', '.join(keys)}")
