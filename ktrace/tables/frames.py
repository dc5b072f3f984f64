"""Tables of figures as Arrow tables and DataFrames, and what a notebook shows of them.

    Table("operation", columns "operation", "time" in ns, ...)   ──►   operation: string, time_ns: int64, ...

Columns have the names of `Column.key`. Whole numbers are int64, fractions double, NaN and infinities null.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from ktrace.errors import UsageError, import_extra
from ktrace.tables import Cell, Table, plain

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


#: What draws for a notebook; by its name, since pages know the figures that they draw, and figures don't know pages.
_NOTEBOOK = "ktrace.page.drawing"


class Drawn(Protocol):
    """Charts as SVG, which a notebook shows."""

    @property
    def svg(self) -> str: ...

    def save(self, path: str | Path) -> None: ...


class Framed:
    """Figures with tables: the base of `Summary` and `Diff`, for programs and notebooks. `schema` names their JSON."""

    schema: ClassVar[str]

    def outcome(self, *, findings: bool = True) -> dict[str, Any]:
        """What programs get beside the tables: the findings, if they want them."""
        raise NotImplementedError

    def _by_name(self) -> dict[str, Table]:
        """All tables in full, by name; the first one is the main one."""
        raise NotImplementedError

    def to_arrow(self, by: str | None = None) -> pa.Table:
        """Returns one table with exact figures: by kernel, operation, devices, ...; the heaviest kernels by default.

        Raises UsageError if there is no table of this name.
        """
        tables = self._by_name()
        name = next(iter(tables)) if by is None else by
        if name not in tables:
            raise UsageError(f"there is no table '{by}'", expected=", ".join(tables))
        return arrow_of(tables[name])

    def to_pandas(self, by: str | None = None) -> pd.DataFrame:
        """Returns the table of `to_arrow` as a DataFrame; whole numbers are Int64, texts are strings."""
        import pandas as pd

        types = {pa.int64(): pd.Int64Dtype(), pa.string(): pd.StringDtype()}
        frame: pd.DataFrame = self.to_arrow(by).to_pandas(types_mapper=types.get)
        return frame

    def to_polars(self, by: str | None = None) -> pl.DataFrame:
        """Returns the table of `to_arrow` as a DataFrame of polars. Raises UsageError where polars isn't installed."""
        return polars_of(self.to_arrow(by))

    def plot(self, chart: str | None = None) -> Drawn:
        """Returns charts of the page as SVG, which a notebook shows; `save(path)` writes them.

        `chart` names one of them, such as "operations", "kernels", "steps"; the main ones by default. Raises UsageError
        if there is no such chart.
        """
        drawing: Drawn = import_module(_NOTEBOOK).plotted(self, chart)
        return drawing

    def _repr_html_(self) -> str:
        """The figures and the main charts, for a notebook."""
        html: str = import_module(_NOTEBOOK).html(self)
        return html


def polars_of(table: pa.Table) -> pl.DataFrame:
    """An Arrow table as a DataFrame of polars. Raises UsageError where it isn't installed."""
    polars = import_extra("polars", "polars", "a DataFrame of polars", error=UsageError)
    frame: pl.DataFrame = polars.from_arrow(table)
    return frame


def arrow_of(table: Table) -> pa.Table:
    """The table as an Arrow table."""
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.columns)
    arrays = [_array(cells, column.unit) for cells, column in zip(columns, table.columns, strict=True)]
    return pa.Table.from_arrays(arrays, [column.key for column in table.columns])


def _array(shown: Iterable[Cell], unit: str) -> pa.Array:
    cells = list(map(plain, shown))
    if not unit:
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    fractions = any(isinstance(cell, float) for cell in cells)
    return pa.array(cells, pa.float64() if fractions else pa.int64())
