"""Ends of arrows that are bound to events, by whatever way."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ktrace.ordering.spill import Rows, Runs, Spill

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]


def new_ends(spill: Spill) -> Runs:
    """Room for ends: ts and place of the event, number of the arrow, whether it leaves there, whether it is a link."""
    return Runs(spill, "ends", [("ts", "i8"), ("place", "i8"), ("arrow", "i8"), ("out", "?"), ("link", "?")])


def on_rows(ends: Runs, low: int | None, high: int | None, places: Int64) -> tuple[Int32, Rows]:
    """The ends on the events at `places`, whose ts are from `low` to below `high`: their rows, and the ends."""
    found = ends.rows[ends.between(low, high)]
    order = np.argsort(places)
    row = order[np.searchsorted(places[order], found["place"])].astype(np.int32)
    by_row = np.lexsort((found["out"], found["arrow"], row))
    return row[by_row], found[by_row]
