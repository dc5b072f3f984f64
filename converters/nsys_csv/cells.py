"""Cells of CSV as nsys prints them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_LINE_END = re.compile(r"[\r\n]+")


def quoted(text: str) -> str:
    """The cell of a text: in quotes if it needs them, on one line."""
    text = _LINE_END.sub(" ", text)
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def blank_nulls(column: pa.Array) -> pa.StringArray:
    """Numbers or texts as cells, empty where they are null."""
    return pc.fill_null(column.cast(pa.string()), "")


def megabytes(sizes: Sequence[int | None]) -> pa.StringArray:
    """Sizes in bytes as MB with three decimals, empty where there is none. MB is 10^6 bytes."""
    return pa.array(["" if size is None else f"{size / 1e6:.3f}" for size in sizes], pa.string())


def lines(columns: Sequence[pa.StringArray]) -> bytes:
    """The rows as lines."""
    joined = pc.binary_join_element_wise(*columns, ",")
    return "".join(f"{line}\n" for line in joined.to_pylist()).encode()
