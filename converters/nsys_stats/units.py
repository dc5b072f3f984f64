"""Derives the unit of times if no heading has one (`--format csv:nohdrunit`), from the decimals that nsys prints.

31121662        whole: ns
31121.662       three decimals: us
31.1217         four: ms or s, which can't be told apart
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.errors import DamagedInput

_BARE = re.compile(r"[+-]?[\d,]+(?:\.(?P<decimals>\d*))?")
_BARE_CELLS = r"^[+-]?[\d,]+(\.\d*)?$"
_BY_DECIMALS = {0: "ns", 3: "us"}


class ImpliedUnit:
    """The unit of the times of one table, which must be the same in all of its rows."""

    def __init__(self, path: str, place: str) -> None:
        self._path = path
        self._place = place
        self._unit = ""

    def of(self, cells: Iterable[str]) -> str:
        """Returns the unit of these cells of times; ns if no cell is a plain number.

        Raises DamagedInput if the decimals don't determine the unit.
        """
        for cell in cells:
            found = _BARE.fullmatch(cell)
            if found is None:
                continue
            unit = _BY_DECIMALS.get(len(found["decimals"] or ""))
            if unit is None or unit != (self._unit or unit):
                raise self._refusal(cell)
            self._unit = unit
        return self._unit or "ns"

    def _refusal(self, cell: str) -> DamagedInput:
        return DamagedInput(
            f"the times of the table have no unit, and '{cell}' doesn't show it: nsys prints ms and s alike",
            path=self._path,
            where=self._place,
            expected="a unit in the headings, such as Total Time (ns)",
            remedy="write the report without 'nohdrunit': nsys stats --format csv, or put the unit into its headings",
        )


def of_each_kind(cells: pa.StringArray) -> list[str]:
    """Returns one of the plain numbers among the cells for each number of decimals."""
    cells = cells.filter(pc.fill_null(pc.match_substring_regex(cells, _BARE_CELLS), False))
    dots = pc.find_substring(cells, ".").to_numpy(zero_copy_only=False)
    decimals = np.where(dots < 0, 0, pc.binary_length(cells).to_numpy(zero_copy_only=False) - dots - 1)
    _, first = np.unique(decimals, return_index=True)
    examples: list[str] = cells.take(pa.array(first)).to_pylist()
    return examples
