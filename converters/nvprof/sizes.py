"""Finds out whether nvprof's K is 1000 or 1024, which it doesn't state: the sizes, times and rates of a trace show it.

133.81ms  135.78us  ...  409.60KB  3.0167GB/s      409,600 B in 135.78 us are 3.0167e9 B/s: 1000 (CUDA 5)
4 MB, 10.521599 ms, 0.371260 GB/s                  4,194,304 B in 10.521599 ms are 0.371260 x 2^30 B/s: 1024 (CUDA 8)
134.90ms  3.7037ms  (20 10 1) ...  8.1920KB        not a whole number of bytes with K = 1024: 1000

A file without such a row has K = 1024, as in all real files of CUDA 8 and later, including metrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import NamedTuple

from ktrace.input.source import Sample
from ktrace.kit.columnar.csv_headings import headings_of
from ktrace.kit.columnar.text_cells import BINARY_BYTES
from ktrace.kit.text.headings import cell_quantity
from ktrace.kit.text.numbers import BYTES, TIME_NS

from .tables import TRACE, table_kind

_POWERS = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}
_NAMES = ("B", "byte", "bytes")

#: Unit of size -> bytes, with K = 1000.
DECIMAL_BYTES: Mapping[str, int] = {
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
    return DECIMAL_BYTES if votes[1000] > votes[1024] else BINARY_BYTES


class _Columns(NamedTuple):
    """The positions of cells in a CSV trace, and the units below the headings."""

    places: dict[str, int]
    units: list[str]


def _votes(sample: Sample) -> Iterator[int]:
    lines = sample.lines
    columns: _Columns | None = None
    for number, line in enumerate(lines):
        if line.startswith(("Start", '"Start')) and (found := headings_of(line, table_kind)) and found[1] == TRACE:
            units = lines[number + 1].split(",") if number + 1 < len(lines) else []
            names = [name.casefold() for name in found[0]]
            wanted = ("duration", "size", "throughput", "static smem", "dynamic smem")
            columns = _Columns({name: names.index(name) for name in wanted if name in names}, units)
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
    if not (time and moved and speed and time.unit in TIME_NS and moved.number > 0 and speed.number > 0):
        return
    up, down = _POWERS.get(moved.unit), _POWERS.get(speed.unit.removesuffix("/s"))
    if up is None or down is None or up == down or time.number <= 0:
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
