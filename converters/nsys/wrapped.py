"""Values of metrics that nsys itself cuts to 32 bits in GPU_METRICS, and has whole in GENERIC_EVENTS.

GPU_METRICS      timestamp 20000  typeId 0x...03  metricId 11  value 705032704      what is left of 5,000,000,000
GENERIC_EVENTS   timestamp 20000  typeId 0x...03  data {"PCIe TX Throughput": "5000000000"}
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.converters._shared.columnar.blocks import Block
from ktrace.input.sqlite_file import quoted_name
from ktrace.model.arrays import Int64

from .reading import Reading

#: The least number that 32 bits with a sign don't hold, and how many numbers 32 bits hold.
_LEAST, _NUMBERS = 1 << 31, 1 << 32

#: A text with a number of ten figures, as SQLite says it: those of 2^31 and more have that many.
_LONG = f"*{'[0-9]' * 10}*"


class Whole:
    """The great values of GENERIC_EVENTS by time and type."""

    def __init__(self, reading: Reading, names: dict[tuple[int, int], str]) -> None:
        self._reading = reading
        self._names = {key: plain(name) for key, name in names.items()}
        self._known = {(key[0], name) for key, name in self._names.items()}
        found = list(self._great())
        numbers = np.array([row[:3] for row in found], np.int64).reshape(-1, 3)
        order = np.lexsort((numbers[:, 1], numbers[:, 0]))
        self._numbers = numbers[order]
        self._called = [found[place][3] for place in order.tolist()]

    def _great(self) -> Iterator[tuple[int, int, int, str]]:
        """Time, type, value and name of each value that 32 bits may not hold."""
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
        """Of rows of GPU_METRICS the places of those that were cut, and their whole values."""
        none = np.zeros(0, np.int64)
        if not len(self._numbers) or not pa.types.is_int64(values.type):
            return none, none
        times, given = (column.fill_null(-1).to_numpy(zero_copy_only=False) for column in (ts, values))
        at = np.flatnonzero(np.isin(times, self._numbers[:, 0]))
        pairs = [
            (row, whole)
            for row in at.tolist()
            if (whole := self._whole(int(times[row]), int(kinds[row]), int(metrics[row]), int(given[row])))
        ]
        if not pairs:
            return none, none
        places, wholes = np.array(pairs, np.int64).T
        return places, wholes

    def _whole(self, ts: int, kind: int, metric: int, value: int) -> int:
        """The whole of a value, 0 where it isn't known that something was cut."""
        first = int(np.searchsorted(self._numbers[:, 0], ts))
        name = self._names.get((kind, metric))
        found: set[int] = set()
        for place in range(first, int(np.searchsorted(self._numbers[:, 0], ts, "right"))):
            _, other, whole = self._numbers[place].tolist()
            called = self._called[place]
            if other == kind and (whole - value) % _NUMBERS == 0 and whole != value:
                if called == name:
                    return int(whole)
                if (kind, called) not in self._known:
                    found.add(whole)
        return found.pop() if len(found) == 1 else 0


def plain(name: str) -> str:
    """A metric's name without its unit: "pcie tx throughput" of "PCIe TX Throughput [Throughput %]"."""
    return " ".join(name.partition("[")[0].casefold().split())


def _lists(block: Block, times: list[str]) -> tuple[list[object], list[object], list[object]]:
    columns = [column for name in times if (column := block.get(name)) is not None]
    ts = pc.coalesce(*columns).to_pylist() if columns else [None] * len(block)
    kinds, texts = (block.get(name) for name in ("typeId", "data"))
    assert kinds is not None and texts is not None
    return ts, kinds.to_pylist(), texts.to_pylist()


def _whole_numbers(text: object) -> Iterator[tuple[str, int]]:
    """The whole numbers of a JSON object, which may stand in quotes."""
    try:
        value = json.loads(text) if isinstance(text, (str, bytes)) else None
    except (ValueError, RecursionError):
        return
    for name, number in value.items() if isinstance(value, dict) else ():
        if type(number) is int:
            yield name, number
        elif isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 20:
            yield name, int(number)
