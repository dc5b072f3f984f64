"""Reads each figure as a counter of its device, each state as a range from its first reading to the next other one.

Without times, the figures of a device become summaries of its readings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import msgspec

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.headings import cell_quantity, to_base
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line
from ktrace.kit.text.numbers import is_missing
from ktrace.kit.text.states import REASONS_TRACK, State, States, reasons
from ktrace.store.vocabulary import Interner

from .layouts import Column, Layout, layout_of, rocm
from .tally import Tally
from .times import STAMP, Times

_MASK = re.compile(r"0x[0-9a-fA-F]{1,16}|0|[1-9]\d{0,18}")
Problem = tuple[str, str]
_ITEMS = re.compile(r"\[(.*)\]")
_ABSENT = ("n/a", "not supported", "unknown error", "not active", "unthrottled")
_TOO_LATE = 1 << 62
_NUMBER = re.compile(r"\d{1,9}")


@dataclass(frozen=True)
class _Place:
    """Where a row was read: a device, or a part of it, or a process on it."""

    device: int | None
    pid: int | None
    type: str | None
    part: str | None
    """The track of its counters: that of the tile, the link or the MIG instance, if any."""

    def named(self, series: str) -> str:
        """The track of the states of a series."""
        return series if self.part is None else f"{self.part} {series}"

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns of its events."""
        return {"device": self.device, "pid": self.pid, "cat": self.type}


class SmiLog(LineReader):
    """Adds a counter for each figure of a row, and ranges for reasons, states and performance levels.

    Knows of the rows before the clock, the devices, the states that last.
    """

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._layout: Layout | None = None
        self._times = Times()
        self._told_of_times = False
        self._system: dict[str, str] = {}
        self._places: dict[tuple[Any, ...], _Place] = {}
        self._ordinals = Interner()
        self._states = States(self._rows)
        self._tally = Tally(self._rows)

    def take(self, line: Line) -> None:
        if layout := layout_of(line.text, self._lines.peek() or ""):
            self._layout = layout
            self._lines.structure()
        elif not line.text.strip() or (self._layout and self._layout.is_units(line.text)):
            self._lines.structure()
        elif problem := self._add(line):
            self._lines.skip(*problem)
        else:
            self._lines.used()

    def end(self) -> None:
        self._states.finish()
        self._tally.finish()

    def _add(self, line: Line) -> Problem | None:
        """Adds the rows of a line; returns the issue's kind and detail if it can't."""
        layout = self._layout
        if line.text.startswith('{"'):
            return self._json(line)
        if layout is None:
            return "unrecognised", ""
        cells = layout.cells(layout.bare(line.text))
        if cells is None:
            return "bad-record", f"not {len(layout.columns)} cells"
        if not layout.has_times:
            self._untimed(layout, cells, line)
            return None
        fields = [layout.places[role] for role in ("date", "time") if role in layout.places]
        stamp = STAMP.match(line.text) if layout.stamped else None
        ts = self._time(layout, stamp[1] if stamp else " ".join(cells[index] for index in fields), line)
        if ts is None:
            return "bad-record", "no time of this log"
        if abs(ts) >= _TOO_LATE:
            return "time-range", ""
        place = self._place(layout, cells)
        states: dict[State, None] = {}
        for name, unit, value in self._readings(layout, cells, place, states):
            columns = place.columns | {"track": place.part, "unit": unit, "value": float(value)}
            self._rows.event("counter", name, ts=ts, **columns)
        self._states.change(place, place.columns, ts, states)
        return None

    def _untimed(self, layout: Layout, cells: list[str], line: Line) -> None:
        """Adds the readings of a row that has no time."""
        if not self._told_of_times:
            self._rows.fact("source", facts={"tool": layout.tool.split()[0]})
            self._report.issue("no-times", f"line {line.number}")
            self._told_of_times = True
        place = self._place(layout, cells)
        states: dict[State, None] = {}
        columns = place.columns | {"track": place.part}
        for name, unit, value in self._readings(layout, cells, place, states):
            self._tally.add(columns, name, unit, value)
        self._tally.add_states(columns, states, is_sampled=self._lines.is_open)

    def _json(self, line: Line) -> Problem | None:
        """Adds the readings of a line of rocm-smi --json: an object for each device, with texts by heading."""
        try:
            cards = msgspec.json.decode(line.text, type=dict[str, dict[str, str]])
        except (msgspec.DecodeError, RecursionError):
            return "bad-record", "no readings of rocm-smi"
        for card, readings in cards.items():
            if card.startswith("card"):
                cells = [card.removeprefix("card"), *(text.strip() for text in readings.values())]
                self._untimed(rocm(("device", *readings)), cells, line)
            elif readings != self._system:
                self._system = readings
                self._rows.fact("source", facts=dict(readings))
        return None

    def _readings(
        self, layout: Layout, cells: list[str], place: _Place, states: dict[State, None]
    ) -> Iterator[tuple[str, str | None, Decimal]]:
        """Yields name, unit and value of each figure of a row, and adds its states."""
        for column, cell in zip(layout.columns, cells, strict=True):
            if column.role == "figure":
                yield from _figures(column, cell, place, states)
            elif column.role == "reason" and cell.lower() == "active":
                states[REASONS_TRACK, column.name] = None
            elif column.role == "reasons" and not _is_absent(cell):
                states |= {(place.named(column.name), reason.strip()): None for reason in cell.split(",")}
            elif column.role == "mask" and _MASK.fullmatch(cell):
                states |= {(REASONS_TRACK, reason): None for reason in reasons(int(cell, 0))}

    def _time(self, layout: Layout, text: str, line: Line) -> int | None:
        """The time of a row. The first one determines the clock."""
        first = not self._times.kind
        ts = self._times.ns(text)
        if first and ts is not None:
            self._rows.fact("source", facts={"tool": layout.tool.split()[0]})
            if self._times.kind == "daytime":
                self._rows.fact("clock", facts={"kind": "session"})
            else:
                self._rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
            if self._times.kind == "dated":
                self._report.issue("local-time", f"line {line.number}", text)
        return ts

    def _place(self, layout: Layout, cells: list[str]) -> _Place:
        """The device and process of a row; adds what it is the first row to tell of them."""
        key = (layout.told, *(cells[index] for index in layout.telling))
        if key not in self._places:
            cells_by_role = {
                role: cells[index] for role, index in layout.places.items() if not _is_absent(cells[index])
            }
            device, pid = self._device(cells_by_role), cells_by_role.get("pid", "")
            part = f"tile {cells_by_role['tile']}" if "tile" in cells_by_role else cells_by_role.get("part")
            place = _Place(device, int(pid) if _NUMBER.fullmatch(pid) else None, cells_by_role.get("type"), part)
            self._tell(layout, cells, cells_by_role, place)
            self._places[key] = place
        return self._places[key]

    def _tell(self, layout: Layout, cells: list[str], cells_by_role: dict[str, str], place: _Place) -> None:
        """Adds the facts of a row on its device and its process."""
        if place.pid is not None and "command" in cells_by_role:
            self._rows.fact("process", pid=place.pid, name=cells_by_role["command"])
        if place.device is None:
            return
        facts: dict[str, Any] = {"vendor": layout.maker}
        cells_of_columns = zip(layout.columns, cells, strict=True)
        facts |= {
            column.name: cell for column, cell in cells_of_columns if column.role == "fact" and not _is_absent(cell)
        }
        facts |= {role: cells_by_role[role] for role in ("uuid", "bus_id") if role in cells_by_role}
        memory = cell_quantity(cells_by_role.get("memory", ""))
        if memory and memory.number.is_finite():
            unit = memory.unit or layout.columns[layout.places["memory"]].unit
            facts["memory"] = int(to_base(memory.number, unit)[1])
        self._rows.fact("device", device=place.device, name=cells_by_role.get("name"), facts=facts)

    def _device(self, cells_by_role: dict[str, str]) -> int | None:
        """The number of the device, else its place in the order of the uuids or bus ids, None if nothing tells."""
        if _NUMBER.fullmatch(cells_by_role.get("device", "")):
            return int(cells_by_role["device"])
        identity = cells_by_role.get("device") or cells_by_role.get("uuid") or cells_by_role.get("bus_id")
        return None if identity is None else self._ordinals[identity]


def _figures(
    column: Column, cell: str, place: _Place, states: dict[State, None]
) -> Iterator[tuple[str, str | None, Decimal]]:
    """Yields the figure in a cell, or each element of a list; a word is a state."""
    items = _ITEMS.fullmatch(cell)
    texts = [text.strip(" '\"") for text in items.group(1).split(",")] if items else [cell]
    for index, text in enumerate(texts):
        if _is_absent(text):
            continue
        name = f"{column.name}[{index}]" if len(texts) > 1 else column.name
        quantity = cell_quantity(text.strip("()"))
        if quantity and quantity.number.is_finite():
            unit, value = to_base(quantity.number, quantity.unit or column.unit)
            yield name, {"": None, "Mhz": "MHz"}.get(unit, unit), value
        elif not quantity and not items:
            states[place.named(name), text] = None


def _is_absent(text: str) -> bool:
    """Whether a cell has no reading, or says that nothing is the case: -, N/A, [Not Supported], None, UNTHROTTLED."""
    return is_missing(text) or text.lower().strip("[]") in _ABSENT
