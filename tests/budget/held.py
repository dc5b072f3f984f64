"""What conversions hold in memory by their nature, in proportion to the input: the only exceptions of the budget."""

from __future__ import annotations

from typing import NamedTuple

from .shapes import SHAPES


class Held(NamedTuple):
    """Shapes of which something is held, the most bytes that each unit (a row, a byte of a value) may take, and why."""

    shapes: frozenset[str]
    most: int
    why: str

    def covers(self, shape: str, unit: float) -> bool:
        """Whether so many bytes for each further unit of the shape are within the exception."""
        return shape in self.shapes and unit <= self.most


#: See docs/limits.md and docs/speed.md, which have these figures.
HELD = (
    Held(
        frozenset(name for name, shape in SHAPES.items() if shape.is_long) - {"empty", "quotes", "lines"},
        40,
        "a value is read whole, and is then a text, a cell of a column and a part of the output at the same time",
    ),
    Held(frozenset(("empty",)), 80, "as other values; an empty cell or list is an object where its text is a byte"),
    Held(frozenset(("lines",)), 40, "as other values; a line end in a text of JSON is repaired to six bytes"),
    Held(frozenset(("quotes",)), 300, "in JSON each bare quote in a text is looked at, to find where the text ends"),
    Held(frozenset(("names",)), 4_000, "an entry for each distinct text; 1,400 bytes once there are 100,000"),
    Held(frozenset(("tracks",)), 10_000, "an entry of the catalog and a descriptor for each track"),
    Held(
        frozenset(("rows", "open", "lanes", "together", "crossing", "keys")),
        800,
        "`order` keeps what it needs of each event in memory up to 64 MB, then on disk: flat from 400,000 events on",
    ),
)


#: Of rows without a time, to a timeline.
TABLE = Held(frozenset(("rows", "names")), 3_000, "a table of statistics is laid out on a timeline once it is whole")


def covered(shape: str, unit: float, *, table: bool = False) -> str:
    """Returns why so many bytes for each further unit of a shape are held, or nothing if they must not be.

    `table` says that the rows have no time and become slices of a timeline.
    """
    return next((held.why for held in (*HELD, *([TABLE] if table else [])) if held.covers(shape, unit)), "")
