"""States of devices that are read now and then, as ranges: from the first reading that has one to the next without it.

12:00:01  gpu 0  0x4         sw_power_cap  12:00:01 to 12:00:03
12:00:02  gpu 0  0x4    ──►
12:00:03  gpu 0  0x0
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from ktrace.model.row_builder import RowBuilder

#: nvmlClocksEventReasons of nvml.h, by the names that nvidia-smi gives to their columns.
REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clocks_setting",
}
REASONS_TRACK = "clock event reasons"

#: A state: its track, and what it is.
State = tuple[str, str]


def reasons(mask: int) -> Iterator[str]:
    """The names of the bits of a mask; a bit without a name is written as a number."""
    for bit in (1 << place for place in range(mask.bit_length())):
        if mask & bit:
            yield REASONS.get(bit, hex(bit))


class States:
    """The states that last, of each place; they become ranges, which are derived."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self._lasting: dict[Hashable, dict[State, int]] = {}
        self._last: dict[Hashable, tuple[int, dict[str, Any]]] = {}

    def change(self, place: Hashable, columns: dict[str, Any], ts: int, states: Iterable[State]) -> None:
        """Ends the states of a place that its reading no longer has, and begins those that it has first.

        `columns` are those of its ranges.
        """
        self._last[place] = max(ts, self._last.get(place, (ts, columns))[0]), columns
        lasting, now = self._lasting.setdefault(place, {}), dict.fromkeys(states)
        for state in [state for state in lasting if state not in now]:
            self._range(columns, state, lasting.pop(state), ts)
        for state in now:
            lasting.setdefault(state, ts)

    def finish(self) -> None:
        """Ends all states at the last reading of their place."""
        for place, lasting in self._lasting.items():
            end, columns = self._last[place]
            for state, begin in lasting.items():
                self._range(columns, state, begin, end)
        self._lasting.clear()

    def _range(self, columns: dict[str, Any], state: State, begin: int, end: int) -> None:
        track, name = state
        columns = columns | {"track": track, "dur": max(end - begin, 0)}
        self._rows.event("range", name, ts=begin, timing="derived", **columns)
