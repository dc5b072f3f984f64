"""The kind of each row, the direction of copies, and the category: once for each distinct name and cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.mapping import EXTENTS, ColumnMap
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.text_cells import by_distinct
from ktrace.kit.text.device_names import device_work
from ktrace.kit.text.headings import is_total
from ktrace.model.batch import POINT_KINDS, SLICE_KINDS
from ktrace.report import Report

from .fields import Fields
from .names import kind_of

_NONE = pa.scalar(None, pa.string())


class Kinds:
    """Finds kinds by the cells of the column of `kind`, by the constant, or else by the names of rows."""

    def __init__(self, mapping: ColumnMap, report: Report) -> None:
        self._mapping = mapping
        self._report = report
        self._events = "start" in mapping.cells
        self._own = {cell: self._valid(f"kinds.{cell}", kind) for cell, kind in mapping.kinds.items()}

    def _valid(self, name: str, word: str) -> str:
        """The kind of the model that a word of the mapping spells. Raises UsageError or InputError."""
        if (kind := kind_of(word)) is None and not word.startswith("x_"):
            expected = f"one of {', '.join((*SLICE_KINDS, *POINT_KINDS))}"
            raise self._mapping.error(f"{name} is '{word}', which isn't a kind", expected=expected)
        return kind or word

    def columns(self, typed: Block, fields: Fields, columns: dict[str, Any]) -> dict[str, Any]:
        """Returns the columns kind, copy_kind, cat, and the track of counters, without those that are there already."""
        names = columns["name"]
        names = pa.repeat(pa.scalar(names, pa.string()), len(typed)) if isinstance(names, str) else names
        cells = typed.take("<kind>")
        kinds = by_distinct(names, self._by_name(fields), pa.string())
        if cells is not None:
            kinds = pc.coalesce(self._by_cell(cells, typed), kinds)
        elif constant := fields.constants.get("kind"):
            kind = pa.scalar(self._own.get(constant) or self._valid("kind", constant), pa.string())
            kinds = pc.if_else(pc.equal(kinds, "total"), kinds, kind)  # a row named Total adds up the others
        found: dict[str, Any] = {"kind": kinds.dictionary_encode()}
        if cells is not None and "cat" not in columns:
            found["cat"] = cells
        if "copy_kind" not in columns:
            ways = by_distinct(names, lambda name: device_work(name)[1], pa.string())
            found["copy_kind"] = pc.if_else(pc.equal(kinds, "memcpy"), ways, _NONE)
        if "track" not in columns and "value" in fields.columns and self._events:
            found["track"] = pc.if_else(pc.equal(kinds, "counter"), names, _NONE)
        return found

    def _by_name(self, fields: Fields) -> Any:
        """Returns a function from the name of a row to its kind."""
        given = fields.columns.keys() | fields.constants.keys()
        on_device = given & {"device", "stream", *EXTENTS, *(f"{part}_x" for part in EXTENTS)}
        rest = "op"
        if self._events and not given & {"dur", "end"}:
            rest = "counter" if "value" in given else "instant"

        def kind(name: str) -> str:
            if not self._events and is_total(name):
                return "total"
            return device_work(name)[0] if on_device else rest

        return kind

    def _by_cell(self, cells: pa.StringArray, typed: Block) -> pa.StringArray:
        """The kinds that cells state, null for unknown ones, which are noted."""
        found = {cell: self._own.get(cell) or kind_of(cell) for cell in pc.unique(cells).drop_null().to_pylist()}
        for cell in (cell for cell, kind in found.items() if kind is None):
            rows = np.flatnonzero(pc.fill_null(pc.equal(cells, cell), False).to_numpy(zero_copy_only=False))
            hint = f"{cell!r}: kinds.{cell}=KIND in the mapping makes it one of ktrace's kinds"
            self._report.issue("unknown-kind", typed.where(int(rows[0])), hint, len(rows))
        return by_distinct(cells, found.__getitem__, pa.string())
