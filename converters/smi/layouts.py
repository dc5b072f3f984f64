"""The headings of the tools, as columns with a unit and a role.

Names of nvidia-smi are those of `nvidia-smi --help-query-gpu`. The CSV of amd-smi has no units: they are those that
amdsmi_cli/amdsmi_commands.py adds in its other outputs. The headings of xpu-smi contain them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ktrace.kit.text.lines import quoted_cells

_UNIT = re.compile(r"(.*?)\s*[\[(]([^\[\]()]+)[\])]")
_QUERIED = re.compile(
    r"(?:power|clocks|utilization|temperature|memory|fan|pcie|ecc|encoder|clocks_\w+_reasons)\.[\w.]+"
)
_ALONE = {"pstate", "used_gpu_memory", "fan.speed"}
_MONITORED = {"pwr", "gtemp", "sm", "mem", "mclk", "pclk", "fb", "pviol", "sbecc", "rxpci", "pid"}
_AMD = re.compile(
    r"power_usage|socket_power|gfx|gfx_(?:activity|clk|clock|0_clk)|hotspot(?:_temperature)?|edge|vram_used"
)
_AMD_UNITS = (
    (re.compile(r"(?:power_usage|socket_power)"), "W"),
    (re.compile(r"\w+_temperature|edge|hotspot"), "C"),
    (re.compile(r"gfx|mem|encoder|(?:gfx|umc|mm)_activity|(?:p|t|phot_t|vr_t|hbm_t)viol"), "%"),
    (re.compile(r"\w+_(?:clk|clock)"), "MHz"),
    (re.compile(r"\w+_voltage"), "mV"),
    (re.compile(r"vram_(?:used|total)"), "MB"),
    (re.compile(r"pcie_bw"), "Mb/s"),
)
_ROLES = {
    **dict.fromkeys(("timestamp", "time"), "time"),
    "date": "date",
    **dict.fromkeys(("index", "gpu", "deviceid"), "device"),
    "tileid": "tile",
    "pid": "pid",
    **dict.fromkeys(("command", "process_name"), "command"),
    "type": "type",
    **dict.fromkeys(("name", "gpu_name"), "name"),
    **dict.fromkeys(("uuid", "gpu_uuid"), "uuid"),
    **dict.fromkeys(("pci.bus_id", "gpu_bus_id"), "bus_id"),
    **dict.fromkeys(("serial", "gpu_serial", "driver_version", "vbios_version", "compute_cap"), "fact"),
    "memory.total": "memory",
}
_THROTTLED = {"throttle reason", "clocks.throttle.reason"}
_MEASURING = ("date", "time", "figure", "reason", "reasons", "mask")
_REASON = re.compile(r"clocks_(?:throttle|event)_reasons\.(\w+)")


@dataclass(frozen=True)
class Column:
    """A heading: its name, the unit ('' for none), and what its cells are: a place, a fact, a reason, a figure."""

    name: str
    unit: str = ""
    role: str = "figure"


@dataclass(frozen=True)
class Layout:
    """The columns of a log. `tool` wrote it; cells are separated by commas or by blanks."""

    tool: str
    maker: str
    columns: tuple[Column, ...]
    commas: bool

    @cached_property
    def places(self) -> dict[str, int]:
        """Role -> index of the first column that has it."""
        return {column.role: index for index, column in reversed(list(enumerate(self.columns)))}

    @cached_property
    def telling(self) -> tuple[int, ...]:
        """The indexes of the columns that tell the device and the process of a row, and facts of them."""
        return tuple(index for index, column in enumerate(self.columns) if column.role not in _MEASURING)

    def is_units(self, text: str) -> bool:
        """Whether it is the line of units below the headings of dmon and pmon."""
        return not self.commas and text.lstrip().startswith("#")

    @property
    def has_times(self) -> bool:
        """Whether its rows have a time of day."""
        return "time" in self.places

    def cells(self, text: str) -> list[str] | None:
        """The cells of a row, None if it has fewer or more.

        The reasons of xpu-smi have commas between them; the last cell between blanks, a command, may have blanks.
        """
        if self.commas:
            cells = [cell.strip() for cell in (quoted_cells(text) if '"' in text else text.split(","))]
            if (surplus := len(cells) - len(self.columns)) > 0 and "reasons" in self.places:
                at = self.places["reasons"]
                cells[at : at + surplus + 1] = [",".join(cells[at : at + surplus + 1])]
        else:
            cells = text.split(None, len(self.columns) - 1)
        return cells if len(cells) == len(self.columns) else None


def layout_of(text: str, below: str) -> Layout | None:
    """The layout that the headings in a line declare, None for another line. `below` may have the units."""
    stripped = text.strip()
    if stripped.startswith("#"):
        return _monitor(stripped[1:].split(), below.strip())
    if "," not in stripped or "timestamp" not in stripped.lower():
        return None
    headings = [_heading(cell) for cell in stripped.split(",")]
    keys = [name.lower() for name, _ in headings]
    if "timestamp" not in keys:
        return None
    queried = any(_QUERIED.fullmatch(key) or key in _ALONE for key in keys)
    if "deviceid" in keys or (queried and "(" in stripped):
        return Layout("xpu-smi", "Intel", tuple(_column(*heading) for heading in headings), commas=True)
    if queried:
        columns = [_column(name, unit or ("C" if name.startswith("temperature.") else "")) for name, unit in headings]
        return Layout("nvidia-smi", "NVIDIA", tuple(columns), commas=True)
    if "gpu" in keys and any(_AMD.fullmatch(key) for key in keys):
        return Layout(
            "amd-smi", "AMD", tuple(_column(name, _amd_unit(name, keys)) for name, _ in headings), commas=True
        )
    return None


def _heading(cell: str) -> tuple[str, str]:
    """The name and the unit of a heading."""
    found = _UNIT.fullmatch(cell.strip())
    name, unit = (found.group(1), found.group(2).strip()) if found else (cell.strip(), "")
    return name, "C" if unit.lower().startswith("celsius") else unit


def _column(name: str, unit: str) -> Column:
    key = name.lower()
    if found := _REASON.fullmatch(key):
        role = {"active": "mask", "supported": "fact"}.get(found.group(1), "reason")
        return Column(found.group(1), role=role) if role == "reason" else Column(name, role=role)
    return Column(name, unit, "reasons" if key in _THROTTLED else _ROLES.get(key, "figure"))


def _amd_unit(name: str, keys: Sequence[str]) -> str:
    """The unit that amd-smi leaves out. `mem` is a temperature where its neighbours are (metric), else a share."""
    if name == "mem" and "hotspot" in keys:
        return "C"
    return next((unit for names, unit in _AMD_UNITS if names.fullmatch(name)), "")


def _monitor(words: Sequence[str], below: str) -> Layout | None:
    """The layout of dmon or pmon: a line of headings, a line of units, each behind a #."""
    keys = [word.lower() for word in words]
    at = keys.index("gpu") if "gpu" in keys[:3] else -1
    if at < 0 or not set(keys[:at]) <= {"date", "time"} or _MONITORED.isdisjoint(keys):
        return None
    units = below[1:].split() if below.startswith("#") else []
    if len(units) != len(words):
        units = [""] * len(words)
    columns = [_column(name, "" if unit == "bool" else unit) for name, unit in zip(keys, units, strict=True)]
    return Layout(f"nvidia-smi {'pmon' if 'pid' in keys else 'dmon'}", "NVIDIA", tuple(columns), commas=False)
