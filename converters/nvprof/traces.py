"""Turns rows of traces into events, GPU work and calls; finds out what the units of their sizes are.

nvprof doesn't state whether its K is 1000 or 1024. The sizes, times and rates of a trace show it:

133.81ms  135.78us  ...  409.60KB  3.0167GB/s      409,600 B in 135.78 us are 3.0167e9 B/s: 1000 (CUDA 5)
4 MB, 10.521599 ms, 0.371260 GB/s                  4,194,304 B in 10.521599 ms are 0.371260 x 2^30 B/s: 1024 (CUDA 8)
134.90ms  3.7037ms  (20 10 1) ...  8.1920KB        not a whole number of bytes with K = 1024: 1000

A file without such a row has K = 1024, as in all real files of CUDA 8 and later, including metrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Sample
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.columnar.csv_blocks import CsvRows
from ktrace.kit.columnar.dictionaries import words
from ktrace.kit.columnar.text_cells import BINARY_BYTES, has_text, only, sizes
from ktrace.kit.columnar.typed_cells import Cells, Field, Size, Text, Time, Whole, Word, joined, read_sizes, typed
from ktrace.kit.text.headings import cell_quantity, headings_of
from ktrace.kit.text.numbers import BYTES, TIME_NS
from ktrace.model.batch import Batch
from ktrace.model.masks import present

from .tables import TRACE, device, named, table_kind

_POWERS = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}
_NAMES = ("B", "byte", "bytes")

#: Unit of size -> bytes, with K = 1000.
_DECIMAL_BYTES: Mapping[str, int] = {
    **BYTES,
    **{"": 1, "byte": 1, "bytes": 1, "kB": 1000},
    **{f"{letter}{unit}": 1000**power for power, letter in enumerate("KMGT", 1) for unit in _NAMES},
}

#: Greatest relative difference of printed and computed rate: rates have at least three digits, and 1.024 is far beyond.
_NEAR = Decimal("0.006")

_MOST = 200
_PRINTED = re.compile(r"\s*\d\S* +(\d\S*) .*? (\d\S*B) +(\d\S*B/s) ")
_LAUNCHED = re.compile(r"\s*\d\S* +\d\S* +\(\d[^()]*\) +\(\d[^()]*\) +\d+ +(\d\S*B) +(\d\S*B) ")


def bytes_of(sample: Sample) -> Mapping[str, int]:
    """Returns unit of size -> bytes for a file of nvprof, determined from its head."""
    votes = {1000: 0, 1024: 0}
    for vote in _votes(sample):
        votes[vote] += 1
        if sum(votes.values()) == _MOST:
            break
    return _DECIMAL_BYTES if votes[1000] > votes[1024] else BINARY_BYTES


class _Columns(NamedTuple):
    """The positions of cells in a CSV trace, and the units below the headings."""

    places: dict[str, int]
    units: list[str]


def _votes(sample: Sample) -> Iterator[int]:
    lines = sample.lines
    columns: _Columns | None = None
    for number, line in enumerate(lines):
        if (
            line.startswith(("Start", '"Start'))
            and (headings := headings_of(line, table_kind))
            and headings[1] == TRACE
        ):
            units = lines[number + 1].split(",") if number + 1 < len(lines) else []
            names = [name.casefold() for name in headings[0]]
            names_wanted = ("duration", "size", "throughput", "static smem", "dynamic smem")
            columns = _Columns({name: names.index(name) for name in names_wanted if name in names}, units)
        elif columns and line[:1].isdigit():
            cells = line.split(",")  # those before the name have no comma
            yield from _by_rate(*(_cell(columns, cells, name) for name in ("duration", "size", "throughput")))
            yield from _by_size(*(_cell(columns, cells, name) for name in ("static smem", "dynamic smem")))
        elif found_rate := _PRINTED.match(line):
            yield from _by_rate(*found_rate.groups())
        elif found_sizes := _LAUNCHED.match(line):
            yield from _by_size(*found_sizes.groups())


def _cell(columns: _Columns, cells: list[str], name: str) -> str:
    at = columns.places.get(name, len(cells))
    cell = cells[at].strip('" ') if at < len(cells) else ""
    unit = columns.units[at].strip('" ') if at < len(columns.units) else ""
    return cell + unit if cell[-1:].isdigit() else cell


def _by_rate(duration: str, size: str, rate: str) -> Iterator[int]:
    """The K with which size, time and rate agree, if exactly one does."""
    time, moved, speed = (cell_quantity(cell) if cell else None for cell in (duration, size, rate))
    if not (time and moved and speed and time.unit in TIME_NS):
        return
    if not all(one.number.is_finite() and one.number > 0 for one in (time, moved, speed)):
        return
    up, down = _POWERS.get(moved.unit), _POWERS.get(speed.unit.removesuffix("/s"))
    if up is None or down is None or up == down:
        return
    seconds = time.number * Decimal(str(TIME_NS[time.unit])) / 10**9
    agreeing = [
        k for k in (1000, 1024) if abs(moved.number * Decimal(k) ** (up - down) / seconds / speed.number - 1) < _NEAR
    ]
    yield from agreeing if len(agreeing) == 1 else []


def _by_size(*cells: str) -> Iterator[int]:
    """Yields 1000 for a size that isn't a whole number of bytes with 1024."""
    for cell in cells:
        figure = cell_quantity(cell) if cell.endswith("KB") else None
        if (
            figure
            and figure.number.is_finite()
            and not _is_whole(figure.number, 1024)
            and _is_whole(figure.number, 1000)
        ):
            yield 1000


def _is_whole(number: Decimal, k: int) -> bool:
    """Whether a whole number of bytes is printed like this."""
    exponent = number.as_tuple().exponent
    step = Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0)
    nearest = (number * k).to_integral_value() / k
    return abs(nearest - number) <= step / 2


#: The ids of the rows of a line begin at this times its number: a launch has one for each metric.
IDS = 4096


def _moved(cells: pa.StringArray, unit: str, factors: Mapping[str, int] = BINARY_BYTES) -> Cells:
    """Bytes moved in unified memory; other cells stay ("PC 0x400b82", faults: 3), as do rounded sizes."""
    in_bytes = pc.fill_null(pc.match_substring_regex(cells, r"^\s*\d[\d.]*[KMGT]?B\s*$"), False)
    are = in_bytes.to_numpy(zero_copy_only=False)
    parsed = sizes(only(cells, are), unit or "B", factors)
    return parsed.bytes, ~are | parsed.rounded


def _extent(axis: int, cells: pa.StringArray, unit: str) -> Cells:
    """One of the three numbers in a cell: `[ 20,10,1 ]`, `(20 10 1)`; other cells stay."""
    number = pc.struct_field(pc.extract_regex(cells, _EXTENTS), axis).cast(pa.int64())
    return number, has_text(cells) & ~present(number)


_EXTENTS = r"^\D*(?P<x>\d{1,18})\D+(?P<y>\d{1,18})\D+(?P<z>\d{1,18})\D*$"

FIELDS: dict[str, Field] = {
    "ts": Time("Start", "Start Time"),
    "dur": Time("Duration"),
    **{f"grid_{axis}": Whole(f"Grid {axis}", f"Grid{axis}") for axis in "xyz"},
    **{f"block_{axis}": Whole(f"Block {axis}", f"Block{axis}") for axis in "xyz"},
    "registers": Whole("Registers Per Thread", "Registers/Thread", "Regs"),
    "static": Size("Static SMem", "Static Shared Memory", "StaticSMem", "SSMem"),
    "dynamic": Size("Dynamic SMem", "Dynamic Shared Memory", "DynamicSMem", "DSMem"),
    "bytes": Size("Size", "Bytes", "Size(bytes)"),
    "moved": Field(_moved, "Unified Memory"),
    "device": Word("Device", "Device ID", "DeviceId"),
    "context": Whole("Context", "Context ID", "ContextId"),
    "stream": Whole("Stream", "Stream ID", "StreamId"),
    "correlation": Whole("Correlation_ID", "Correlation ID", "CorrelationId"),
    "name": Text("Name"),
}

#: Grid and block in one cell each, as in the Visual Profiler's table of details.
_EXTENT = {
    f"{part}_{axis}": Field(partial(_extent, place), f"{part.capitalize()} Size")
    for part in ("grid", "block")
    for place, axis in enumerate("xyz")
}

_DECIMAL = {
    name: Field(partial(field.read, factors=_DECIMAL_BYTES), *field.spellings)
    for name, field in FIELDS.items()
    if field.read in (read_sizes, _moved)
}

#: Without a unit a time is invalid: nvprof always writes it, below the headings or in the cell.
_NO_UNIT = {"ts": "?", "dur": "?"}


class Traces:
    """Makes events from rows. `devices` collects the names of devices, `pid` is the current process."""

    def __init__(self, conversion: Conversion, factors: Mapping[str, int] = BINARY_BYTES) -> None:
        self._conversion = conversion
        self._fields = FIELDS if factors is not _DECIMAL_BYTES else FIELDS | _DECIMAL
        self._batches = BatchBuilder(conversion)
        self.devices: dict[int, str] = {}
        self.pid: int | None = None

    def events(self, rows: CsvRows) -> Batch:
        """Returns the events of some rows; skips rows without a time."""
        headings = {name.casefold() for name in rows.table.headings}
        fields = self._fields | _EXTENT if {"grid size", "block size"} <= headings else self._fields
        block = typed(rows, fields, self._conversion.report, _NO_UNIT)
        block = timed(block, self._conversion, "<ts>", dur="<dur>", open_end=True)
        ids = block.numbers.to_numpy() * IDS
        columns: dict[str, Any] = {name: block.take(f"<{name}>") for name in ("ts", "dur", "context", "stream")}
        columns |= {f"{part}_{axis}": block.take(f"<{part}_{axis}>") for part in ("grid", "block") for axis in "xyz"}
        columns |= {"registers": block.take("<registers>"), "bytes": _bytes(block), "pid": self.pid}
        columns |= _shared_memory(block)
        columns["device"], columns["args.Device"] = self._devices(block)
        columns |= _by_name(block, columns["device"], columns["dur"])
        return self._batches.events(block, ids, **joined(block, columns))

    def _devices(self, block: Block) -> tuple[pa.Array | None, pa.Array | None]:
        """The numbers of devices, and the texts without a number."""
        texts = block.take("<device>")
        if texts is None:
            return None, None
        coded = texts.dictionary_encode()
        named = [device(text) for text in coded.dictionary.to_pylist()]
        self.devices |= {number: name for number, name in named if number is not None and name}
        numbers = pa.array([number for number, _ in named], pa.int64()).take(coded.indices)
        unnumbered = pc.and_(numbers.is_null(), texts.is_valid()).to_numpy(zero_copy_only=False)
        return numbers, only(texts, unnumbered) if unnumbered.any() else None


def _bytes(block: Block) -> pa.Array | None:
    """The copied bytes: the row's size, or that of unified memory."""
    size, moved = block.take("<bytes>"), block.take("<moved>")
    return size if moved is None else moved if size is None else pc.coalesce(size, moved)


def _shared_memory(block: Block) -> dict[str, pa.Array]:
    """The whole shared memory of a block, and the dynamic part, requested at the launch."""
    static, dynamic = block.take("<static>"), block.take("<dynamic>")
    parts = [part for part in (static, dynamic) if part is not None]
    if not parts:
        return {}
    total = parts[0] if len(parts) == 1 else pc.add(pc.fill_null(parts[0], 0), pc.fill_null(parts[1], 0))
    if len(parts) == 2:
        has_size = pc.or_(parts[0].is_valid(), parts[1].is_valid())
        total = pc.if_else(has_size, total, pa.scalar(None, pa.int64()))
    return {"shared_memory": total} | ({"shared_dynamic": dynamic} if dynamic is not None else {})


def _by_name(block: Block, devices: pa.Array | None, durations: pa.Array | None) -> dict[str, Any]:
    """Name, kind, direction and number of the launch, computed once for each distinct name."""
    names, grid = block.take("<name>"), block.get("<grid_x>")
    assert names is not None  # every trace has names
    on_device = np.zeros(len(block), np.bool_)
    for column in (devices, grid):
        if column is not None:
            on_device |= present(column)
    coded = names.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    distinct, codes = np.unique(coded.indices.to_numpy() * 2 + on_device, return_inverse=True)
    marks = [named(texts[code // 2], bool(code % 2)) for code in distinct.tolist()]
    kinds = sorted({"instant", "range", *(each.kind for each in marks)})
    ways = pa.array([each.copy_kind for each in marks], pa.string()).take(pa.array(codes))
    numbers = pa.array([each.correlation for each in marks], pa.int64()).take(pa.array(codes))
    correlation = block.take("<correlation>")
    kind = np.array([kinds.index(each.kind) for each in marks], np.int32)[codes] if texts else codes
    if durations is None or durations.null_count:
        open_ = True if durations is None else ~present(durations)
        kind = np.where((kind == kinds.index("range")) & open_, kinds.index("instant"), kind)
    return {
        "name": pa.array([each.name for each in marks], pa.string()).take(pa.array(codes)),
        "kind": words(kinds, kind),
        "copy_kind": ways,
        "correlation": numbers if correlation is None else pc.coalesce(correlation, numbers),
    }
