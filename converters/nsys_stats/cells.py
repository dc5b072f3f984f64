"""Parses sizes as nsys prints them: in decimal units with three decimals, exact to half a thousandth of the unit.

"4.194" below "Bytes (MB)"                      4,194,000 B, exact to 500 B
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.text_cells import Sizes, by_distinct, scaled, whole_numbers
from ktrace.kit.text.headings import cell_quantity, whole
from ktrace.kit.text.numbers import BYTES
from ktrace.model.masks import present

#: Decimal units of sizes. Real files confirm 10^6 (3 x 2^28 B are printed as 805.306 MB); they are printed with
#: three decimals, so a size in them is exact to half a thousandth.
DECIMAL_BYTES = {"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_WHOLE_BYTES = BYTES | dict.fromkeys(("", "byte", "bytes"), 1)


def sizes(cells: pa.StringArray, unit: str) -> Sizes:
    """Returns stripped cells as sizes; `unit` is the heading's, and B is assumed if it has none."""
    if unit in ("", "B", "byte", "bytes") and (numbers := whole_numbers(cells)) is not None:
        return Sizes(numbers, np.zeros(len(cells), np.bool_))
    if unit in DECIMAL_BYTES and (found := scaled(cells, len(str(DECIMAL_BYTES[unit])) - 1)):
        known = pc.not_equal(found.ns, 0)
        return Sizes(pc.if_else(known, found.ns, pa.scalar(None, pa.int64())), present(cells))
    rounded = by_distinct(cells, partial(_is_rounded, unit=unit), pa.bool_())
    return Sizes(
        by_distinct(cells, partial(_size, unit=unit), pa.int64()),
        pc.fill_null(rounded, False).to_numpy(zero_copy_only=False),
    )


def _size(text: str, unit: str) -> int | None:
    figure = cell_quantity(text)
    if not figure or not figure.number.is_finite():
        return None
    unit = figure.unit or unit
    if not unit and "." in text:
        return None  # a unit such as MB or KB, which nsys prints with decimals, but the heading doesn't name it
    factor = _WHOLE_BYTES.get(unit) or DECIMAL_BYTES.get(unit)
    size = None if factor is None else whole((figure.number * factor).to_integral_value())
    return None if unit in DECIMAL_BYTES and size == 0 else size


def _is_rounded(text: str, unit: str) -> bool:
    figure = cell_quantity(text)
    if not figure or not figure.number.is_finite():
        return True
    factor = None if not (figure.unit or unit) and "." in text else _WHOLE_BYTES.get(figure.unit or unit)
    return factor is None or whole(figure.number * Decimal(factor)) is None
