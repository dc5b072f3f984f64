"""Restores values of metrics that nsys itself cuts to 32 bits in GPU_METRICS, but keeps in GENERIC_EVENTS.

GPU_METRICS      timestamp 20000  typeId 0x...03  metricId 11  value 705032704      the low 32 bits of 5,000,000,000
GENERIC_EVENTS   timestamp 20000  typeId 0x...03  data {"PCIe TX Throughput": "5000000000"}
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.columnar.blocks import Block
from ktrace.model.arrays import Int64
from ktrace.model.json_text import load_json

from .reading import Reading

#: The least number that doesn't fit into 32 bits with a sign, and the number of 32-bit numbers.
_LEAST, _NUMBERS = 1 << 31, 1 << 32

#: SQLite's pattern for a text with a number of ten digits or more, as 2^31 has.
_LONG = f"*{'[0-9]' * 10}*"


class WideValues:
    """The values of GENERIC_EVENTS that don't fit into 32 bits, by time and type."""

    def __init__(self, reading: Reading, names: dict[tuple[int, int], str]) -> None:
        self._reading = reading
        self._names = {key: plain(name) for key, name in names.items()}
        self._known = {(key[0], name) for key, name in self._names.items()}
        rows = list(self._read())
        numbers = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3)
        order = np.lexsort((numbers[:, 1], numbers[:, 0]))
        self._numbers = numbers[order]
        self._wide_names = [rows[place][3] for place in order.tolist()]

    def _read(self) -> Iterator[tuple[int, int, int, str]]:
        """Yields time, type, value and name of each value that may not fit into 32 bits."""
        database, size = self._reading.database, self._reading.conversion.batch_rows
        for table in database.like("GENERIC_EVENTS"):
            if not all(database.has(table, name) for name in ("typeId", "data")):
                continue
            times = [name for name in ("timestamp", "rawTimestamp") if database.has(table, name)]
            where = f"{quoted_name('data')} GLOB '{_LONG}'"
            for block in database.blocks(table, size, (*times, "typeId", "data"), where=where, counted=False):
                for ts, kind, text in zip(*_lists(block, times), strict=True):
                    for name, value in _whole_numbers(text):
                        if isinstance(ts, int) and isinstance(kind, int) and _LEAST <= value < 1 << 63:
                            yield ts, kind, value, plain(name)

    def of(self, ts: pa.Array, kinds: Int64, metrics: Int64, values: pa.Array) -> tuple[Int64, Int64]:
        """Returns the places of rows of GPU_METRICS whose values were cut, and their full values."""
        nothing = np.zeros(0, np.int64)
        if not len(self._numbers) or not pa.types.is_int64(values.type):
            return nothing, nothing
        times, numbers = (column.fill_null(-1).to_numpy(zero_copy_only=False) for column in (ts, values))
        at = np.flatnonzero(np.isin(times, self._numbers[:, 0]))
        pairs = [
            (row, wide)
            for row in at.tolist()
            if (wide := self._wide(int(times[row]), int(kinds[row]), int(metrics[row]), int(numbers[row])))
        ]
        if not pairs:
            return nothing, nothing
        places, wide_values = np.array(pairs, np.int64).T
        return places, wide_values

    def _wide(self, ts: int, kind: int, metric: int, value: int) -> int:
        """Returns the full value of a cut value, 0 unless it is certain."""
        first = int(np.searchsorted(self._numbers[:, 0], ts))
        name = self._names.get((kind, metric))
        candidates: set[int] = set()
        for place in range(first, int(np.searchsorted(self._numbers[:, 0], ts, "right"))):
            _, other, wide = self._numbers[place].tolist()
            wide_name = self._wide_names[place]
            if other == kind and (wide - value) % _NUMBERS == 0 and wide != value:
                if wide_name == name:
                    return int(wide)
                if (kind, wide_name) not in self._known:
                    candidates.add(wide)
        return candidates.pop() if len(candidates) == 1 else 0


def plain(name: str) -> str:
    """Returns a metric's name without its unit: "pcie tx throughput" for "PCIe TX Throughput [Throughput %]"."""
    return " ".join(name.partition("[")[0].casefold().split())


def _lists(block: Block, times: list[str]) -> tuple[list[object], list[object], list[object]]:
    columns = [column for name in times if (column := block.get(name)) is not None and pa.types.is_int64(column.type)]
    ts = pc.coalesce(*columns).to_pylist() if columns else [None] * len(block)
    kinds, texts = (_values(block.get(name), len(block)) for name in ("typeId", "data"))
    return ts, kinds, texts


def _values(column: pa.Array | None, rows: int) -> list[object]:
    """The values of a column; of one that the table doesn't have, nulls."""
    values: list[object] = [None] * rows if column is None else column.to_pylist()
    return values


def _whole_numbers(text: object) -> Iterator[tuple[str, int]]:
    """Yields the whole numbers of a JSON object with their names; they may be in quotes."""
    try:
        value = load_json(text) if isinstance(text, (str, bytes)) else None
    except (ValueError, RecursionError):
        return
    for name, number in value.items() if isinstance(value, dict) else ():
        if type(number) is int:
            yield name, number
        elif isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 20:
            yield name, int(number)
