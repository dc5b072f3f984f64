"""Statistics of readings without times: how many, their mean and their range, and how many had a state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ktrace.kit.text.states import State
from ktrace.model.row_builder import RowBuilder


@dataclass
class _Readings:
    count: int
    total: Decimal
    least: Decimal
    greatest: Decimal


class Tally:
    """Collects the readings of each place; a place is known by its columns."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self._figures: dict[tuple[Any, ...], _Readings] = {}
        self._states: dict[tuple[Any, ...], int] = {}

    def add(self, place: dict[str, Any], name: str, unit: str | None, value: Decimal) -> None:
        """Adds the reading of a figure."""
        key = (*place.items(), name, unit)
        figures = self._figures.get(key)
        if figures is None:
            self._figures[key] = _Readings(1, value, value, value)
            return
        figures.count, figures.total = figures.count + 1, figures.total + value
        figures.least, figures.greatest = min(figures.least, value), max(figures.greatest, value)

    def add_states(self, place: dict[str, Any], states: Iterable[State], *, is_sampled: bool) -> None:
        """Adds the states that one reading has; if `is_sampled`, only those that another reading has had."""
        for state in states:
            key = (*place.items(), *state)
            if key in self._states or not is_sampled:
                self._states[key] = self._states.get(key, 0) + 1

    def finish(self) -> None:
        """Adds a summary for each figure, and one for each state: how many readings had it."""
        for (*place, name, unit), figure in self._figures.items():
            avg = float(figure.total / figure.count)
            figures = {"avg": avg, "min": float(figure.least), "max": float(figure.greatest), "count": figure.count}
            self._rows.summary("metric", name, metric=name, unit=unit, **dict(place), **figures)
        for (*place, track, name), times in self._states.items():
            self._rows.summary("metric", name, metric=track, unit="count", value=float(times), **dict(place))
