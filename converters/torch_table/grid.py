"""The grid of PyTorch's tables: rows as cells, by the rule of dashes below the headings, and what the columns mean.

------  ------------  ------------
  Name      Self CPU    # of Calls        two blanks between columns; a cell that is too wide pushes the others right

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

    `kind` is name, count, time, percent, memory, flops, stack or text; `stat` is total or avg; `is_self`: no callees.
    """

    heading: str
    kind: str
    device: str = ""
    is_self: bool = False
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
            return f"Self {self.device}" if self.is_self else f"{self.device} total"
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
    if match := _FLOPS.fullmatch(heading):
        return Column(heading, "flops", scale=_SCALES[match[1].upper()])
    if match := _MEMORY.fullmatch(heading):
        return Column(heading, "memory", match[2], bool(match[1]))
    match = _TIME.fullmatch(heading)
    if match and (match[1] or match[3]):
        stat = "avg" if (match[3] or "").casefold().startswith("time") else "total"
        return Column(heading, "percent" if match[4] else "time", match[2], bool(match[1]), stat)
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

    def find(self, kind: str, device: str, *, is_self: bool, stat: str = "total") -> int | None:
        """The index of the column of a figure, None if there is none."""
        for index, column in enumerate(self.columns):
            same = column.kind == kind and column.device.upper() == device.upper()
            if same and column.is_self == is_self and column.stat == stat:
                return index
        return None


def columns(headings: Sequence[str]) -> Columns | None:
    """Returns the columns of a table of PyTorch: a name, a figure of a device, and one more; None for other tables."""
    read = Columns(tuple(map(column, headings)))
    figures = sum(each.kind in ("time", "percent") for each in read.columns)
    if "name" not in read.at or not figures or figures + ("count" in read.at) < 2:
        return None
    return read


def nanoseconds(cell: str) -> Decimal | None:
    """The time in a cell in ns, None for another cell."""
    match = _CELLS["time"].fullmatch(cell)
    return Decimal(match[1]) * TIME_NS[match[2]] if match else None


def percent(cell: str) -> float | None:
    """The share in a cell; an asynchronous event has a plain 0. None for NaN."""
    match = _CELLS["percent"].fullmatch(cell)
    if not match or (match[1] is None and cell != "0"):
        return None
    return float(match[1] or 0)


def in_bytes(cell: str) -> Decimal | None:
    """The memory in a cell: PyTorch's KB are 1,024 bytes."""
    match = _CELLS["memory"].fullmatch(cell)
    return Decimal(match[1]) * 1024 ** _SCALES[match[2].upper()] if match else None


def operations(cell: str, scale: int) -> Decimal | None:
    """The floating point operations in a cell, None for `--`."""
    match = _CELLS["flops"].fullmatch(cell)
    return Decimal(match[1]) * 1000**scale if match and match[1] else None


_WORD = re.compile(r"\S+")
_GAP = re.compile(r"\s{2,}|\t")
_SHORTEST = 3
#: A longer line isn't headings, which are 12 columns of 12 characters, and names, shapes and stacks of any width.
_LONGEST = 1 << 16


@dataclass(frozen=True)
class RulerLine:
    """A rule: the number of characters before it (a logger's prefix, a comment), and its runs of dashes."""

    indent: int
    runs: tuple[tuple[int, int], ...]

    def cut(self, text: str) -> list[str]:
        """Splits a line by the widths of the runs."""
        text = text[self.indent :]
        cells, begin = [], 0
        for (start, stop), (following, _) in zip(self.runs, self.runs[1:], strict=False):
            end, gap = begin + stop - start, following - stop
            if text[end : end + gap].strip():  # too wide: it ends at two blanks
                wide = text.find(" " * gap, end)
                end = len(text) if wide < 0 else wide
            cells.append(text[begin:end].strip())
            begin = end + gap
        return [*cells, text[begin:].strip()]

    def split(self, text: str) -> list[str]:
        """Splits a line that lost its leading blanks, by the gaps between cells."""
        return _GAP.split(text[self.indent :].strip())


def rule(text: str) -> RulerLine | None:
    """Returns the rule in a line, None for a line without runs of dashes for at least two columns."""
    if len(text) > _LONGEST or "---" not in text:
        return None
    words = [(match.start(), match.group()) for match in _WORD.finditer(text)]
    runs: list[tuple[int, int]] = []
    for start, word in reversed(words):
        dashes = len(word) - len(word.rstrip("-"))
        if dashes < _SHORTEST:
            break
        end = start + len(word)
        runs.append((end - dashes, end))
        if dashes < len(word):
            break
    runs.reverse()
    return RulerLine(runs[0][0], tuple(runs)) if len(runs) > 1 else None


@dataclass(frozen=True)
class Grid:
    """The rule that splits the rows of a table, and the columns."""

    rule: RulerLine
    columns: Columns

    def cells(self, text: str) -> list[str] | None:
        """The cells of a row, None if the line isn't a row."""
        for cells in (self.rule.cut(text), self.rule.split(text)):
            if len(cells) == len(self.columns.columns) and self._match(cells):
                return cells
        return None

    def continues_stack(self, text: str) -> bool:
        """Whether a line is the next frame of the stack of the row above: only its last cells aren't blank."""
        if "stack" not in self.columns.at:
            return False
        place = min(self.columns.at["stack"], len(self.rule.runs) - 1)
        return not text[self.rule.indent : self.rule.indent + self.rule.runs[place][0]].strip()

    def _match(self, cells: list[str]) -> bool:
        """Whether all cells match their columns; swaps FLOPs and stack if each is under the other's heading."""
        stack, flops = self.columns.at.get("stack"), self.columns.at.get("flops")
        if stack is not None and flops is not None and self.columns.columns[flops].matches(cells[stack]):
            cells[stack], cells[flops] = cells[flops], cells[stack]
        return all(column.matches(cell) for column, cell in zip(self.columns.columns, cells, strict=True))


def grid(heading: str, below: str) -> Grid | None:
    """Returns the grid of the table with these headings and the line below them; None for other lines."""
    if len(heading) > _LONGEST or "name" not in heading.casefold():
        return None
    drawn = rule(below)
    if drawn is None:
        return None
    for headings in (drawn.cut(heading), drawn.split(heading)):
        if len(headings) == len(drawn.runs) and (read := columns(headings)):
            return Grid(drawn, read)
    return None


def is_double_rule(text: str) -> bool:
    """Whether a line consists of equals signs, like those around the table's own header."""
    text = text.strip()
    return len(text) >= 20 and not text.strip("=")


def grid_at(lines: Sequence[str], index: int) -> Grid | None:
    """Returns the grid of the table with headings at that index, if a row follows; for probes."""
    read = grid(lines[index], lines[index + 1]) if index + 1 < len(lines) else None
    first = next((line for line in lines[index + 2 : index + 6] if line.strip()), None) if read else None
    return read if read and (first is None or read.cells(first) or rule(first)) else None


_OF_CPU = ("Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg")
_OF_DEVICE = ("Self {0}", "Self {0} %", "{0} total", "{0} time avg")
_OF_MEMORY = ("CPU Mem", "Self CPU Mem")
#: The columns that rows without headings have, as PyTorch orders them since 1.8.
_BARE = tuple(
    (*_OF_CPU, *on_device, *memory, "# of Calls")
    for on_device in (_OF_DEVICE, ())
    for memory in ((), (*_OF_MEMORY, "{0} Mem", "Self {0} Mem") if on_device else _OF_MEMORY)
)
_ROUNDED = Decimal("0.02")
_CUDA = re.compile(r"cuda|hip[A-Z]|nccl", re.IGNORECASE)


def bare_grid(texts: Sequence[str]) -> Grid | None:
    """Returns the grid of rows without headings, of which the first two show it; None for other lines.

    Their cells are of the kinds that PyTorch's columns have, and the averages are the totals for each call. The device
    is called CUDA if a row names a call of it.
    """
    rows = [_GAP.split(text.strip()) for text in texts[:2] if len(text) <= _LONGEST]
    if len(rows) < 2 or len(rows[0]) != len(rows[1]):
        return None
    device = "CUDA" if any(map(_CUDA.search, texts)) else "Device"
    for headings in _BARE:
        if len(headings) == len(rows[0]) and (read := columns([word.format(device) for word in headings])):
            bare = Grid(RulerLine(0, tuple((place, place) for place in range(len(headings)))), read)
            if all(bare.cells(text) and _are_averages(read, row) for text, row in zip(texts, rows, strict=False)):
                return bare
    return None


def _are_averages(columns: Columns, cells: Sequence[str]) -> bool:
    """Whether each average is the total of its device for each call, as it is rounded."""
    calls = Decimal(cells[columns.at["count"]]) if cells[columns.at["count"]].isdigit() else Decimal(0)
    for device in (HOST, *columns.devices):
        whole, each = (columns.find("time", device, is_self=False, stat=stat) for stat in ("total", "avg"))
        total, mean = (nanoseconds(cells[index]) if index is not None else None for index in (whole, each))
        if total is None or mean is None or abs(mean * calls - total) > max(total * _ROUNDED, calls):
            return False
    return calls > 0
