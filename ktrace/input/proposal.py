"""A guess at the mapping of a table, which `ktrace map` shows before anything trusts it."""

from __future__ import annotations

from dataclasses import dataclass

from ktrace.input.mapping import Cell, ColumnMap


@dataclass(frozen=True)
class Guess:
    """A field with what may fill it, and why. `sure`: the table itself states it."""

    field: str
    cell: Cell
    because: str
    sure: bool = True


@dataclass(frozen=True)
class Proposal:
    """What a table may mean: `layout` in words, its columns, the guesses, and the settings of the mapping.

    `lacks` is why this can't be a mapping yet, '' if it can.
    """

    layout: str
    columns: tuple[str, ...]
    guesses: tuple[Guess, ...]
    decimal: str = "point"
    clock: str = "relative"
    lacks: str = ""

    def mapping(self) -> ColumnMap:
        """The guesses as a mapping, which may lack something."""
        cells = {guess.field: guess.cell for guess in self.guesses}
        return ColumnMap(cells, decimal=self.decimal, clock=self.clock)
