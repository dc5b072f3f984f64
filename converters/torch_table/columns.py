"""The columns of PyTorch's tables: the meaning of their headings, and the patterns of their cells.

Self CPU %   Self CPU total %      the share of all self times     1.2 to 1.6 wrote "total" after "Self CPU"
Self CPU     CPU total             time in it, and time including its callees
CPU time avg                       CPU total divided by the number of calls; 1.0 wrote "CPU time"
Self CUDA    CUDA total   ...      the same for a device: CUDA, XPU, HPU, MTIA, the name of a PrivateUse1 backend
CPU Mem      Self CUDA Mem         memory allocated less memory freed
Total MFLOPs                       scaled for the whole table
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from ktrace.kit.text.numbers import TIME_NS

HOST = "CPU"

_COUNTS = ("# of calls", "number of calls", "calls")
_TEXTS = {"node id": "Node ID", "input shapes": "Input Shapes", "overload name": "Overload Name"}
_TIME = re.compile(r"(Self )?(\w+?)(?: (total|time avg|time))?( ?%)?", re.IGNORECASE)
_MEMORY = re.compile(r"(Self )?(\w+) Mem", re.IGNORECASE)
_FLOPS = re.compile(r"Total ([KMGTP]?)FLOPs", re.IGNORECASE)

#: Kind -> pattern of its cells.
_CELLS = {
    "time": re.compile(r"(-?\d+(?:\.\d*)?(?:e[+-]?\d+)?)(ns|us|ms|s)"),
    "percent": re.compile(r"(-?\d+(?:\.\d*)?)%|nan%?|0", re.IGNORECASE),
    "memory": re.compile(r"(-?\d+(?:\.\d*)?) ([KMGT]?)[Bb]"),
    "flops": re.compile(r"(\d+(?:\.\d*)?(?:e[+-]?\d+)?)|--"),
    "count": re.compile(r"(\d+)"),
}
_SCALES = {letter: power for power, letter in enumerate(("", "K", "M", "G", "T", "P"))}


@dataclass(frozen=True)
class Column:
    """A column: its heading, the kind of its cells, and for a figure the device and the statistic.

    `kind` is name, count, time, percent, memory, flops, stack or text; `stat` is total or avg; `own`: without callees.
    """

    heading: str
    kind: str
    device: str = ""
    own: bool = False
    stat: str = "total"
    scale: int = 0

    def matches(self, cell: str) -> bool:
        """Whether a cell may belong to this column."""
        pattern = _CELLS.get(self.kind)
        return pattern is None or pattern.fullmatch(cell) is not None

    @property
    def measure(self) -> str:
        """The measure, as today's PyTorch names it: "Self CPU", "CUDA total", "CPU Mem", "FLOPs"."""
        if self.kind in ("time", "percent"):
            return f"Self {self.device}" if self.own else f"{self.device} total"
        return "FLOPs" if self.kind == "flops" else self.heading


def column(heading: str) -> Column:
    """Returns the column for a heading; an unknown heading is text."""
    folded = heading.casefold()
    if folded == "name":
        return Column(heading, "name")
    if folded in _COUNTS:
        return Column(heading, "count")
    if folded in _TEXTS:
        return Column(_TEXTS[folded], "text")
    if folded == "source location":
        return Column(heading, "stack")
    if found := _FLOPS.fullmatch(heading):
        return Column(heading, "flops", scale=_SCALES[found[1].upper()])
    if found := _MEMORY.fullmatch(heading):
        return Column(heading, "memory", found[2], bool(found[1]))
    found = _TIME.fullmatch(heading)
    if found and (found[1] or found[3]):
        stat = "avg" if (found[3] or "").casefold().startswith("time") else "total"
        return Column(heading, "percent" if found[4] else "time", found[2], bool(found[1]), stat)
    return Column(heading, "text")


@dataclass(frozen=True)
class Columns:
    """The columns of a table."""

    columns: tuple[Column, ...]

    @cached_property
    def at(self) -> dict[str, int]:
        """Kind -> index, for kinds that a table has once: name, count, stack, flops."""
        return {column.kind: index for index, column in reversed(list(enumerate(self.columns)))}

    @cached_property
    def devices(self) -> list[str]:
        """The devices with a time or a share, except the CPU."""
        named = (column.device for column in self.columns if column.kind in ("time", "percent"))
        return list(dict.fromkeys(device for device in named if device.upper() != HOST))

    def find(self, kind: str, device: str, *, own: bool, stat: str = "total") -> int | None:
        """The index of the column of a figure, None if there is none."""
        for index, column in enumerate(self.columns):
            same = column.kind == kind and column.device.upper() == device.upper()
            if same and column.own == own and column.stat == stat:
                return index
        return None


def columns(headings: Sequence[str]) -> Columns | None:
    """Returns the columns of a table of PyTorch: a name, a figure of a device, and one more; None for other tables."""
    found = Columns(tuple(map(column, headings)))
    figures = sum(each.kind in ("time", "percent") for each in found.columns)
    if "name" not in found.at or not figures or figures + ("count" in found.at) < 2:
        return None
    return found


def nanoseconds(cell: str) -> Decimal | None:
    """The time in a cell in ns, None for another cell."""
    found = _CELLS["time"].fullmatch(cell)
    return Decimal(found[1]) * TIME_NS[found[2]] if found else None


def percent(cell: str) -> float | None:
    """The share in a cell; an asynchronous event has a plain 0. None for NaN."""
    found = _CELLS["percent"].fullmatch(cell)
    if not found or (found[1] is None and cell != "0"):
        return None
    return float(found[1] or 0)


def in_bytes(cell: str) -> Decimal | None:
    """The memory in a cell: PyTorch's KB are 1,024 bytes."""
    found = _CELLS["memory"].fullmatch(cell)
    return Decimal(found[1]) * 1024 ** _SCALES[found[2].upper()] if found else None


def operations(cell: str, scale: int) -> Decimal | None:
    """The floating point operations in a cell, None for `--`."""
    found = _CELLS["flops"].fullmatch(cell)
    return Decimal(found[1]) * 1000**scale if found and found[1] else None
