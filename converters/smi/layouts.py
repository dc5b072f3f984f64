"""The headings of the tools, as columns with a unit and a role.

Names of nvidia-smi are those of `nvidia-smi --help-query-gpu`. The CSV of amd-smi has no units: they are those that
amdsmi_cli/amdsmi_commands.py adds in its other outputs. The headings of xpu-smi and rocm-smi contain them. Below those
of dcgmi dmon is a line of units (dcgmi/DeviceMonitor.cpp); columns are aligned right until DCGM 2, left since DCGM 3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from ktrace.kit.text.lines import quoted_cells

from .times import STAMP

_UNIT = re.compile(r"(.*)[\[(]([^\[\]()]+)[\])]")
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
_ROCM = re.compile(
    r"temperature \(sensor|graphics package power|gpu use \(|gpu memory |(?:vram|gtt) total|[a-z]{1,8}clk clock|"
    r"fan speed|performance level|card (?:series|model)|device (?:name|id)|unique id"
)
_ENTITIES = re.compile(r"#\s*Entity\s+[A-Z]")
_ENTITY = re.compile(
    r"\s*(?:GPU (?P<gpu>\d{1,9})(?: (?P<link>LINK \d+))?|(?P<other>SW \d+ LINK \d+|CPU Core \d+|[\w-]{1,16} \d+))"
    r"(?:\s|$)"
)
_ROLES = {
    **dict.fromkeys(("timestamp", "time"), "time"),
    "date": "date",
    **dict.fromkeys(("index", "gpu", "deviceid", "device"), "device"),
    "tileid": "tile",
    "pid": "pid",
    **dict.fromkeys(("command", "process_name"), "command"),
    "type": "type",
    **dict.fromkeys(("name", "gpu_name", "dvnam", "card series", "device name"), "name"),
    **dict.fromkeys(("uuid", "gpu_uuid", "uuid#", "unique id"), "uuid"),
    **dict.fromkeys(("pci.bus_id", "gpu_bus_id", "pcbid", "pci bus"), "bus_id"),
    **dict.fromkeys(("serial", "gpu_serial", "driver_version", "vbios_version", "compute_cap"), "fact"),
    **dict.fromkeys(
        ("srnum", "drver", "vbver", "cpumn", "cpuvn", "serial number", "vbios version", "gfx version"), "fact"
    ),
    **dict.fromkeys(
        ("card model", "card vendor", "card sku", "device id", "device rev", "subsystem id", "guid"), "fact"
    ),
    **dict.fromkeys(("memory.total", "vram total memory"), "memory"),
    "dvcctr": "mask",
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
    """The columns of a log. `tool` wrote it; cells are separated by commas or by blanks.

    `starts` are the places of the headings in their line, of a tool whose cells may have blanks or be empty. If
    `stamped`, each line has a time before it, which the shell has put there.
    """

    tool: str
    maker: str
    columns: tuple[Column, ...]
    commas: bool
    starts: tuple[int, ...] = ()
    stamped: bool = False

    @cached_property
    def places(self) -> dict[str, int]:
        """Role -> index of the first column that has it."""
        return {column.role: index for index, column in reversed(list(enumerate(self.columns)))}

    @cached_property
    def telling(self) -> tuple[int, ...]:
        """The indexes of the columns that tell the device and the process of a row, and facts of them."""
        return tuple(index for index, column in enumerate(self.columns) if column.role not in _MEASURING)

    @cached_property
    def told(self) -> tuple[str, ...]:
        """The names of those columns."""
        return tuple(self.columns[index].name for index in self.telling)

    def is_units(self, text: str) -> bool:
        """Whether it is the line of units below the headings of dmon and pmon, or the last line of dcgmi dmon."""
        bare = self.bare(text).strip()
        if self.starts:
            return bare.startswith("dmon was stopped") or bare.upper().partition(" ")[0] == "ID"
        return not self.commas and bare.startswith("#")

    def bare(self, text: str) -> str:
        """A line without the time before it."""
        stamp = STAMP.match(text) if self.stamped else None
        return text[stamp.end() :] if stamp else text

    @property
    def has_times(self) -> bool:
        """Whether its rows have a time of day."""
        return self.stamped or "time" in self.places

    def cells(self, text: str) -> list[str] | None:
        """The cells of a row, None if it has fewer or more.

        The reasons of xpu-smi have commas between them; the last cell between blanks, a command, may have blanks. Those
        of dcgmi dmon begin with the GPU, or else with what the row is about: "7" and "", "" and "GPU-I 3".
        """
        if self.starts:
            return self._of_entity(text)
        if self.commas:
            cells = [cell.strip() for cell in (quoted_cells(text) if '"' in text else text.split(","))]
            if (surplus := len(cells) - len(self.columns)) > 0 and "reasons" in self.places:
                at = self.places["reasons"]
                cells[at : at + surplus + 1] = [",".join(cells[at : at + surplus + 1])]
        else:
            cells = text.split(None, len(self.columns) - 1)
        if len(cells) != len(self.columns):
            return None
        return [cells[0].removeprefix("card"), *cells[1:]] if self.tool == "rocm-smi" else cells

    def _of_entity(self, text: str) -> list[str] | None:
        match = _ENTITY.match(text)
        if not match:
            return None
        rest = text[match.end() :]
        cells = rest.split()
        if len(cells) != len(self.starts):
            cells = [text[start:end].strip() for start, end in zip(self.starts, (*self.starts[1:], None), strict=True)]
            several = any(
                " " in cell and column.role == "figure" for column, cell in zip(self.columns[2:], cells, strict=True)
            )
            cut = not cells[-1] and not text[-1:].isspace()
            if several or cut or "".join("".join(cells).split()) != "".join(rest.split()):
                return None
        return [match["gpu"] or "", match["link"] or match["other"] or "", *cells]


def layout_of(text: str, below: str) -> Layout | None:
    """The layout that the headings in a line declare, None for another line. `below` may have the units."""
    stamp = STAMP.match(text)
    if stamp and text[stamp.end() :].startswith("#"):
        layout = layout_of(text[stamp.end() :], below[stamp.end() :])
        return layout and replace(layout, stamped=True)
    stripped = text.strip()
    if _ENTITIES.match(stripped):
        return _entities(text, below)
    if stripped.startswith("#"):
        return _monitor(stripped[1:].split(), below.strip())
    if stripped.lower().startswith("device,") and _ROCM.search(stripped.lower()):
        return rocm(tuple(stripped.split(",")))
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


@lru_cache(maxsize=256)
def rocm(headings: tuple[str, ...]) -> Layout:
    """The layout of rocm-smi with these headings, the first of which is the device."""
    columns = []
    for heading in headings:
        name, unit = _heading(heading.removesuffix(":"))
        columns.append(_column(name, {"VRAM%": "%", "level": ""}.get(unit, unit)))
    return Layout("rocm-smi", "AMD", tuple(columns), commas=True)


def _entities(text: str, below: str) -> Layout:
    """The layout of dcgmi dmon. A unit is below the start or the end of its heading."""
    headings = list(re.finditer(r"[^\s#]+", text))[1:]
    columns = [Column("gpu", role="device"), Column("entity", role="part")]
    for heading in headings:
        units = (
            unit[0]
            for unit in re.finditer(r"\S+", below)
            if 0 <= unit.start() - heading.start() < 2 or unit.end() == heading.end()
        )
        columns.append(_column(heading[0], next(units, "").replace("#", "")))
    return Layout("dcgmi dmon", "NVIDIA", tuple(columns), commas=False, starts=tuple(one.start() for one in headings))


def _heading(cell: str) -> tuple[str, str]:
    """The name and the unit of a heading."""
    match = _UNIT.fullmatch(cell.strip())
    name, unit = (match.group(1).rstrip(), match.group(2).strip()) if match else (cell.strip(), "")
    return name, "C" if unit.lower().startswith("celsius") else unit


def _column(name: str, unit: str) -> Column:
    key = name.lower()
    if match := _REASON.fullmatch(key):
        role = {"active": "mask", "supported": "fact"}.get(match.group(1), "reason")
        return Column(match.group(1), role=role) if role == "reason" else Column(name, role=role)
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
