"""Cells of CSV as nsys prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.json_text import encoded

_LINE_END = re.compile(r"[\r\n]+")


def quoted(text: str | None) -> str:
    """The cell of a text: in quotes if it needs them, on one line."""
    if text is None:
        return ""
    text = _LINE_END.sub(" ", text)
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def blank_nulls(column: pa.Array) -> pa.StringArray:
    """Numbers or texts as cells, empty where they are null."""
    return pc.fill_null(column.cast(pa.string()), "")


def megabytes(size: int | None) -> str:
    """A size in bytes as MB with three decimals, empty if there is none. MB is 10^6 bytes."""
    return "" if size is None else f"{size / 1e6:.3f}"


def of_each(column: pa.Array, cell: Callable[[Any], str]) -> pa.StringArray:
    """The cells of a column; each distinct value is made a cell once."""
    coded = encoded(column)
    cells = pa.array([*map(cell, coded.dictionary.to_pylist()), cell(None)], pa.string())
    return cells.take(coded.indices.fill_null(len(cells) - 1))


def lines(columns: Sequence[pa.StringArray]) -> bytes:
    """The rows as lines."""
    joined = pc.binary_join_element_wise(*columns, ",")
    return "".join(f"{line}\n" for line in joined.to_pylist()).encode()
