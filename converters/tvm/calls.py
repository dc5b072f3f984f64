"""A call with its metrics as a row of the model."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from ktrace.kit.text.headings import as_int64, cell_quantity
from ktrace.kit.text.json_items import plain_value
from ktrace.model.row_builder import RowBuilder

from . import DURATION, NAME

_DEVICE = re.compile(r"(?P<api>[A-Za-z_]+?)(?P<number>\d{1,4})")

#: Devices that aren't: work of the host.
_HOST = frozenset({"cpu", "stackvm", "c", "llvm"})

#: Instructions of the virtual machines that aren't work of the model.
_OVERHEAD = ("VM::", "vm.builtin.")

#: Names of rows that sum up others.
_TOTALS = frozenset({"Sum", "Total", "Total_time"})


class Calls:
    """Adds calls, and the devices that they name."""

    def __init__(self, rows: RowBuilder) -> None:
        self._rows = rows
        self._devices: dict[str, int] = {}
        self.table = -1

    def begin(self) -> None:
        """Begins another table."""
        self.table += 1

    def add(self, metrics: dict[str, Any], *, total: bool = False) -> bool:
        """Adds the metrics of a call, numbers as ints and Decimals; returns False without a name or a duration."""
        args = dict(metrics)
        name, duration = args.pop(NAME, None), microseconds(args.pop(DURATION, None))
        if not isinstance(name, str) or not name or duration is None:
            return False
        place: dict[str, Any] = {"table": self.table}
        percent, count = _finite(args.get("Percent")), _finite(args.get("Count"))
        if percent is not None:
            place["percent"] = float(percent)
            del args["Percent"]
        if count is not None and (number := as_int64(count)) is not None:
            place["count"] = number
            del args["Count"]
        device = self._device(args)
        args = {key: plain_value(value) for key, value in args.items() if value not in ("", None)}
        kind = "kernel" if device is not None else "op"
        if total or name in _TOTALS:
            kind = "total"
        elif name.startswith(_OVERHEAD):
            kind = "overhead"
        self._rows.summary(kind, name, unit="ns", total=duration, device=device, args=args, **place)
        return True

    def _device(self, args: dict[str, Any]) -> int | None:
        """Takes the device from the arguments; None for the host, whose name stays there."""
        name = args.get("Device")
        found = _DEVICE.fullmatch(name) if isinstance(name, str) else None
        if not found or found["api"] in _HOST or not isinstance(name, str):
            return None
        del args["Device"]
        if name not in self._devices:
            number = int(found["number"])
            while number in self._devices.values():
                number += 1
            self._devices[name] = number
            self._rows.fact("device", device=number, name=name, facts={"api": found["api"]})
        return self._devices[name]


def microseconds(value: Any) -> float | None:
    """Returns us as ns; None for anything but a finite number."""
    number = _finite(value)
    return None if number is None else float(number * 1000)


def _finite(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    found = cell_quantity(str(value))
    return found.number if found and not found.unit and found.number.is_finite() else None
