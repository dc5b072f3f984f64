"""Columns with the same value in every row: SQL compares them, which costs 9 ns a value; fetching them costs 35 ns.

    deviceId contextId launchType gridY  0 1 1 1     the same in all rows of the first range of a table, so
    SELECT ..., (deviceId, contextId, launchType, gridY) IS (0, 1, 1, 1)     replaces these columns in later ranges

A range in which a row differs is read again with all columns; from then on the columns that differ are fetched.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.sqlite_file import quoted_name

#: Fewer columns than this aren't worth the comparison.
_FEW = 3


class ConstantColumns:
    """The columns of a table that have had the same value in all rows so far: name -> value."""

    def __init__(self) -> None:
        self._values: dict[str, int | None] | None = None

    def known(self) -> dict[str, int | None]:
        """The columns that may be constant; none before anything is read."""
        values = self._values or {}
        return dict(values) if len(values) >= _FEW else {}

    def learn(self, columns: Mapping[str, pa.Array]) -> None:
        """Updates the constant columns with the columns of some rows."""
        found = {name: value for name, column in columns.items() if (value := _value(column)) is not _VARIES}
        before = self._values
        self._values = {
            name: value  # type: ignore[misc]
            for name, value in found.items()
            if before is None or (name in before and before[name] == value)
        }


def condition(values: Mapping[str, int | None]) -> str:
    """Returns an SQL expression that is 1 for a row with these values."""
    names = ", ".join(map(quoted_name, values))
    literals = ", ".join("NULL" if value is None else str(value) for value in values.values())
    return f"({names}) IS ({literals})"


def column_of(value: int | None, kind: pa.DataType, rows: int) -> pa.Array:
    """A column with the same value in all rows."""
    return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)


_VARIES = object()


def _value(column: pa.Array) -> object:
    """The value of a column that is the same whole number, or null, in all rows; else `_VARIES`."""
    if column.null_count == len(column):
        return None
    if column.null_count or column.type != pa.int64():
        return _VARIES
    span = pc.min_max(column)
    low, high = span["min"].as_py(), span["max"].as_py()
    return low if low == high and low > -(1 << 63) else _VARIES
