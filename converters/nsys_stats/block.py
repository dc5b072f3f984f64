"""A block of rows of a trace as columns of text, and the conversion of each column.

Start (ns)  Duration (ns)  CorrId  ...  Bytes (MB)  SrcMemKd   Device               Name
1000        250            7            4.194       Pageable   NVIDIA H100 (0)      [CUDA memcpy Host-to-Device]
└ ts        └ dur          └ correlation└ bytes, and args.Bytes (MB), since it is rounded
                                                    └ args.SrcMemKd   └ device 0, its name in the catalog

The kind of GPU work comes from its name: `[CUDA memcpy Host-to-Device]`, `[CUDA memset]`, else a kernel. Sizes are in
decimal units with three decimals, exact to half a thousandth of the unit: "4.194" below "Bytes (MB)" is 4,194,000 B,
exact to 500 B. If no heading has the unit of times (`--format csv:nohdrunit`), it comes from the decimals:

31121662        whole: ns
31121.662       three decimals: us
31.1217         four: ms or s, which can't be told apart
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.errors import DamagedInput
from ktrace.kit.columnar.dictionaries import by_distinct, combinations
from ktrace.kit.columnar.text_cells import Sizes, Times, argument, integers, scaled, stripped, times, whole_numbers
from ktrace.kit.text.headings import Heading, as_int64, cell_quantity, own_key
from ktrace.kit.text.numbers import BYTES
from ktrace.model.arrays import Bools, Int64
from ktrace.model.masks import present
from ktrace.model.row_builder import RowBuilder

_BARE = re.compile(r"[+-]?[\d,]+(?:\.(?P<decimals>\d*))?")
_BARE_CELLS = r"^[+-]?[\d,]+(\.\d*)?$"
_BY_DECIMALS = {0: "ns", 3: "us"}


class ImpliedUnit:
    """The unit of the times of one table, which must be the same in all of its rows."""

    def __init__(self, path: str, place: str) -> None:
        self._path = path
        self._place = place
        self._unit = ""

    def of(self, cells: Iterable[str]) -> str:
        """Returns the unit of these cells of times; ns if no cell is a plain number.

        Raises DamagedInput if the decimals don't determine the unit.
        """
        for cell in cells:
            match = _BARE.fullmatch(cell)
            if match is None:
                continue
            unit = _BY_DECIMALS.get(len(match["decimals"] or ""))
            if unit is None or unit != (self._unit or unit):
                raise self._refusal(cell)
            self._unit = unit
        return self._unit or "ns"

    def _refusal(self, cell: str) -> DamagedInput:
        return DamagedInput(
            f"the times of the table have no unit, and '{cell}' doesn't show it: nsys prints ms and s alike",
            path=self._path,
            where=self._place,
            expected="a unit in the headings, such as Total Time (ns)",
            remedy="write the report without 'nohdrunit': nsys stats --format csv, or put the unit into its headings",
        )


def of_each_kind(cells: pa.StringArray) -> list[str]:
    """Returns one of the plain numbers among the cells for each number of decimals."""
    cells = cells.filter(pc.fill_null(pc.match_substring_regex(cells, _BARE_CELLS), False))
    dots = pc.find_substring(cells, ".").to_numpy(zero_copy_only=False)
    decimals = np.where(dots < 0, 0, pc.binary_length(cells).to_numpy(zero_copy_only=False) - dots - 1)
    _, first = np.unique(decimals, return_index=True)
    examples: list[str] = cells.take(pa.array(first)).to_pylist()
    return examples


#: Decimal units of sizes. Real files confirm 10^6 (3 x 2^28 B are printed as 805.306 MB); they are printed with
#: three decimals, so a size in them is exact to half a thousandth.
DECIMAL_BYTES = {"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_WHOLE_BYTES = BYTES | dict.fromkeys(("", "byte", "bytes"), 1)


def sizes(cells: pa.StringArray, unit: str) -> Sizes:
    """Returns stripped cells as sizes; `unit` is the heading's, and B is assumed if it has none."""
    if unit in ("", "B", "byte", "bytes") and (numbers := whole_numbers(cells)) is not None:
        return Sizes(numbers, np.zeros(len(cells), np.bool_))
    if unit in DECIMAL_BYTES and (exact := scaled(cells, len(str(DECIMAL_BYTES[unit])) - 1)):
        is_some = pc.not_equal(exact.ns, 0)
        return Sizes(pc.if_else(is_some, exact.ns, pa.scalar(None, pa.int64())), present(cells))
    rounded = by_distinct(cells, partial(_is_rounded, unit=unit), pa.bool_())
    return Sizes(
        by_distinct(cells, partial(_size, unit=unit), pa.int64()),
        pc.fill_null(rounded, False).to_numpy(zero_copy_only=False),
    )


def _size(text: str, unit: str) -> int | None:
    figure = cell_quantity(text)
    if not figure or not figure.number.is_finite():
        return None
    unit = figure.unit or unit
    if not unit and "." in text:
        return None  # a unit such as MB or KB, which nsys prints with decimals, but the heading doesn't name it
    factor = _WHOLE_BYTES.get(unit) or DECIMAL_BYTES.get(unit)
    size = None if factor is None else as_int64((figure.number * factor).to_integral_value())
    return None if unit in DECIMAL_BYTES and size == 0 else size


def _is_rounded(text: str, unit: str) -> bool:
    figure = cell_quantity(text)
    if not figure or not figure.number.is_finite():
        return True
    factor = None if not (figure.unit or unit) and "." in text else _WHOLE_BYTES.get(figure.unit or unit)
    return factor is None or as_int64(figure.number * Decimal(factor)) is None


#: The rows of a line have ids from IDS times the line's number on.
IDS = 8

#: The greatest number that the column of a field can store, if that is less than int64's.
_GREATEST = {"registers": (1 << 31) - 1}

#: Fields that are times.
TIMES = ("start", "duration", "end", "api_start", "api_duration")

_DEVICE = re.compile(r"(?:(?P<name>.*\S)\s*)?\((?P<device>\d{1,18})\)|(?P<alone>\d{1,18})")


@dataclass
class Names:
    """Names of devices and threads, which go to the catalog after the last row."""

    devices: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int | None, int], str] = field(default_factory=dict)

    def facts(self, rows: RowBuilder, first_id: int) -> None:
        """Adds the names to the catalog."""
        for device, name in sorted(self.devices.items()):
            first_id = rows.fact("device", id=first_id, device=device, name=name) + 1
        for (pid, tid), name in self.threads.items():
            first_id = rows.fact("thread", id=first_id, pid=pid, tid=tid, name=name) + 1


class TraceBlock:
    """Rows of one table: the numbers of their lines, and their cells column by column."""

    def __init__(
        self, headings: Sequence[Heading], fields: dict[str, int], lines: Int64, cells: Sequence[pa.StringArray]
    ) -> None:
        self.headings = headings
        self.fields = fields
        self.lines = lines
        self._cells = cells
        self._implied = ""
        self.args: dict[str, pa.Array] = {}

    def __len__(self) -> int:
        return len(self.lines)

    def has(self, name: str) -> bool:
        """Whether the table has the field."""
        return name in self.fields

    def cells(self, name: str) -> pa.StringArray:
        """Returns the cells of a field, null where they are empty."""
        return stripped(self._cells[self.fields[name]])

    def unit(self, name: str) -> str:
        """Returns the unit in the heading of a field, "" if there is none."""
        return self.headings[self.fields[name]].unit if self.has(name) else ""

    def names(self, name: str) -> pa.DictionaryArray:
        """Returns the cells of a field of names unchanged, but null where they are blank."""
        cells = pc.utf8_trim_whitespace(self._cells[self.fields[name]])
        return pc.if_else(pc.equal(cells, ""), pa.scalar(None, pa.string()), cells).dictionary_encode()

    def times(self, name: str) -> Times:
        """Returns the times of a field in ns, null if the table doesn't have the field."""
        if not self.has(name):
            return Times(pa.nulls(len(self), pa.int64()), np.zeros(len(self), np.bool_))
        return times(self.cells(name), self.unit(name) or self._implied)

    def imply(self, implied: ImpliedUnit) -> None:
        """Derives the unit of times from their decimals, if no heading has one."""
        fields = [name for name in TIMES if self.has(name)]
        if not any(self.unit(name) for name in fields):
            self._implied = implied.of(cell for name in fields for cell in of_each_kind(self.cells(name)))

    def numbers(self, name: str) -> pa.Int64Array:
        """Returns the whole numbers of a field; other cells are kept as arguments."""
        cells = self.cells(name)
        numbers = integers(cells, _GREATEST.get(name))
        self.keep(name, cells, ~present(numbers))
        return numbers

    def sizes(self, name: str) -> tuple[pa.Int64Array, int]:
        """Returns the sizes of a field in bytes, and how many of them are rounded.

        Cells that are rounded or have an unknown unit are kept as arguments, too.
        """
        cells = self.cells(name)
        parsed = sizes(cells, self.unit(name))
        self.keep(name, cells, parsed.rounded)
        return parsed.bytes, int((parsed.rounded & present(parsed.bytes)).sum())

    def keep(self, name: str, cells: pa.StringArray, rows: Bools) -> None:
        """Makes the cells of a field in `rows` arguments under the source's heading."""
        if rows.any():
            self.put(self.headings[self.fields[name]], cells, rows)

    def put(self, head: Heading, cells: pa.StringArray, rows: Bools | None = None) -> None:
        """Makes cells arguments, in `rows` or in all rows."""
        if rows is not None:
            cells = pc.if_else(pa.array(rows), cells, pa.scalar(None, pa.string()))
        if cells.null_count < len(cells):
            self.args[f"args.{own_key(self.args_keys(), head)}"] = argument(cells, head)

    def args_keys(self) -> dict[str, None]:
        """Returns the keys of the arguments so far."""
        return dict.fromkeys(key.removeprefix("args.") for key in self.args)

    def put_rest(self) -> None:
        """Makes the columns without a field arguments."""
        used = set(self.fields.values())
        for index, head in enumerate(self.headings):
            if index not in used:
                self.put(head, stripped(self._cells[index]))

    def devices(self, names: Names) -> pa.Int64Array:
        """Returns the ordinals in cells such as `NVIDIA H100 (0)`; cells without one are kept as arguments."""
        cells = self.cells("device")
        distinct = cells.dictionary_encode()
        ordinals: list[int | None] = []
        for text in distinct.dictionary.to_pylist():
            match = _DEVICE.fullmatch(text)
            ordinals.append(int(match["device"] or match["alone"]) if match else None)
            if match and match["name"]:
                names.devices[int(match["device"])] = match["name"]
        column = pa.array(ordinals, pa.int64()).take(distinct.indices)
        self.keep("device", cells, ~present(column))
        return column

    def threads(self, names: Names) -> None:
        """Collects the names of threads; one without a thread id is kept as an argument."""
        cells, rows = self.cells("thread"), len(self)
        pid, tid = (
            integers(self.cells(key)) if self.has(key) else pa.nulls(rows, pa.int64()) for key in ("pid", "tid")
        )
        for process, thread, name in combinations([pid, tid, cells]):
            if name is not None and thread is not None:
                names.threads[process, thread] = name


#: The name of a range without a name.
NO_NAME = "[no name]"

_COPY = re.compile(r"\[CUDA (?:Unified Memory )?memcpy (?:Unified )?(?P<way>[\w-]+)\]", re.IGNORECASE)
_LONG_WAY = re.compile(r"(\w)\w*-to-(\w)\w*", re.IGNORECASE)


def kind_of(name: str, category: str = "") -> str:
    """Returns the kind of a row in a report with several; `cuda_gpu_sum` and `cuda_api_gpu_sum` have a `category`."""
    category = category.upper()
    if "API" in category:
        return "api"
    if "KERNEL" in category or not name.startswith("["):
        return "kernel"
    return "memset" if "memset" in name.casefold() else "memcpy"


def copy_kind(name: str) -> str | None:
    """Returns the direction of a copy as the model writes it (`HtoD`), None if the name has none."""
    if not (match := _COPY.fullmatch(name)):
        return None
    way = match.group("way")
    ends = _LONG_WAY.fullmatch(way)
    return f"{ends.group(1).upper()}to{ends.group(2).upper()}" if ends else way
