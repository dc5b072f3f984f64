"""callback_records.counter_collection: dispatches with the values of their counters, one for each instance.

    {"dispatch_data": {"dispatch_info": {"dispatch_id": 7, ...}, "start_timestamp": ..., "end_timestamp": ...},
     "records": [{"counter_id": {"handle": 3}, "value": 128.0}, {"counter_id": {"handle": 3}, "value": 120.0}]}

They precede the kernels, which have more details of the same dispatch. So they wait for these; a dispatch with times
but without a record in kernel_dispatch becomes a kernel itself. Waiting takes memory: 24 bytes for each value, some
hundred bytes for each dispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import BatchBuilder, Block
from ktrace.kit.rocm.common import MEANS, mean_counter
from ktrace.model.arrays import Float64, Int64
from ktrace.model.batch import Batch

from .record_columns import Records, block_of
from .tool import Tool

#: Makes rows with these ids of dispatches.
_Kernels = Callable[[Block, Int64], Batch]

#: Lists whose records have values of counters.
COUNTERS = frozenset({"counter_collection"})

#: Handles are whole numbers of 64 bits.
_BEYOND = 1 << 63

_OF_KERNEL = ("ts", "dur", "device", "stream")


class Counters:
    """The values of counters of an entry. `first`: they precede the kernels, so that few kernels need to be kept."""

    def __init__(self, tool: Tool, batches: BatchBuilder, conversion: Conversion, *, first: bool) -> None:
        self._tool = tool
        self._batches = batches
        self._conversion = conversion
        self._first = first
        self._waiting: list[tuple[Int64, Int64, Float64, Int64]] = []
        self._dispatches: list[Int64] = []
        self._wanted: pa.Array | None = None
        self._blocks: list[Block] = []
        self._kernels: list[dict[str, pa.Array]] = []

    def read(self, records: Records) -> None:
        """Keeps the records for `rest`."""
        values = records.columns.get("records", [None] * records.rows)
        block = block_of(records, left_out=("records",))
        dispatch = block.get("dispatch_id")
        if dispatch is None or not pa.types.is_int64(dispatch.type) or dispatch.null_count:
            self._conversion.report.issue("bad-record", block.where(0), "no dispatch_id", len(block))
            return
        rows, *sums = _sums(values)
        numbers = dispatch.to_numpy()
        self._waiting.append((numbers[rows], *sums))
        self._dispatches.append(numbers)
        self._blocks.append(block)
        self._wanted = None

    def remember(self, block: Block, ids: Int64, columns: dict[str, Any]) -> None:
        """Keeps the details of kernels that counters need: for all kernels, or only for those with known counters."""
        dispatch = block.get("dispatch_id")
        if dispatch is None or (self._first and not self._waiting):
            return
        nothing = pa.nulls(len(ids), pa.int64())
        details = {name: nothing if columns.get(name) is None else columns[name] for name in _OF_KERNEL}
        part = {"dispatch": dispatch, "id": pa.array(ids), **details}
        if self._first:
            if self._wanted is None:
                self._wanted = pa.array(np.concatenate(self._dispatches)).unique()
            counted = pc.is_in(dispatch, value_set=self._wanted)
            part = {name: column.filter(counted) for name, column in part.items()}
        self._kernels.append(part)

    def rest(self, sound: Callable[[Block], Block], kernels: _Kernels) -> Iterator[Batch]:
        """Yields the kernels that only counters know, then all counters.

        `sound` leaves out dispatches without valid times, `kernels` makes rows of them.
        """
        if not self._waiting:
            return
        for block in self._blocks:
            for new in self._unknown(block):
                yield from self._new_kernels(sound(new), kernels)
        dispatch, handle, total, count = (np.concatenate(column) for column in zip(*self._waiting, strict=True))
        place = _places(dispatch, _joined(self._kernels))
        yield from self._rows(place, (handle, total, count))

    def _unknown(self, block: Block) -> Iterator[Block]:
        """Yields the dispatches that only counters know."""
        report = self._conversion.report
        dispatch = block.get("dispatch_id").to_numpy()  # type: ignore[union-attr]
        unknown = _places(dispatch, _joined(self._kernels)) < 0
        repeated = np.ones(len(block), np.bool_)
        repeated[np.unique(dispatch, return_index=True)[1]] = False
        report.used(int(np.count_nonzero(~unknown | repeated)), outcome="counters")
        new = block.filter(pa.array(unknown & ~repeated))
        if not len(new):
            return
        if new.get("start_timestamp") is None:
            report.issue("bad-record", new.where(0), "counters of a missing dispatch", len(new))
            return
        yield new

    def _new_kernels(self, block: Block, kernels: _Kernels) -> Iterator[Batch]:
        first, self._first = self._first, False
        for start in range(0, len(block), self._conversion.batch_rows):
            part = block.slice(start, self._conversion.batch_rows)
            yield kernels(part, self._batches.ids(len(part)))
        self._first = first

    def _rows(self, place: Int64, sums: tuple[Int64, Float64, Int64]) -> Iterator[Batch]:
        """Yields counters as children of the kernels with those indices (-1: no kernel)."""
        dispatched = _joined(self._kernels)
        if not dispatched:
            return
        here = np.flatnonzero(place >= 0)
        at = pa.array(place[here])
        handle, total, count = sums[0][here], sums[1][here], sums[2][here]
        parents = dispatched["id"].take(at).to_numpy()
        ids = self._batches.ids(2 * len(here))[::2]
        names = self._names(handle)
        columns = {name: dispatched[name].take(at) for name in _OF_KERNEL}
        table = pa.table({**columns, "parent": pa.array(parents), "name": names, "value": pa.array(total)})
        units = self._units(names, columns["device"], count)
        table = table.append_column("timing", pa.array(["measured"] * len(table), pa.string()))
        mean = np.flatnonzero(units)
        if len(mean):
            derived = table.take(pa.array(mean)).to_pydict()
            derived["name"] = [f"{name}_avr" for name in derived["name"]]
            derived["timing"] = ["derived"] * len(mean)
            derived["value"] = (total[mean] / units[mean]).tolist()
            table = pa.concat_tables([table, pa.table(derived, schema=table.schema)])
            ids = np.concatenate([ids, ids[mean] + 1])
        rows = np.argsort(ids, kind="stable")
        table, ids = table.take(pa.array(rows)).combine_chunks(), ids[rows]
        size = self._conversion.batch_rows
        for start in range(0, len(ids), size):
            part = table.slice(start, size).to_batches()[0]
            about = {"kind": "counter", "pid": self._tool.pid, "host": self._tool.host}
            cells = dict(zip(part.schema.names, part.columns, strict=True))
            yield self._batches.batch("events", ids[start : start + size], **about, **cells)

    def _names(self, handles: Int64) -> pa.Array:
        words: list[str] = []
        distinct, of = np.unique(handles, return_inverse=True)
        for handle in distinct.tolist():
            name = self._tool.counters.get(handle, {}).get("name")
            if not name:
                name = f"[counter {handle}]"
                lost = int(np.count_nonzero(handles == handle))
                self._conversion.report.issue("missing-string", "counter_collection", name, lost)
            words.append(str(name))
        return pa.array(words, pa.string()).take(pa.array(of))

    def _units(self, names: pa.Array, device: pa.Array, count: Int64) -> Int64:
        """The divisor of each sum for the mean that the GPU tab shows, 0 for no mean."""
        units = np.zeros(len(names), np.int64)
        engines = {
            self._tool.device(handle): (agent.get("num_xcc"), agent.get("num_shader_banks"))
            for handle, agent in self._tool.agents.items()
        }
        for row in np.flatnonzero(
            pc.is_in(names, value_set=pa.array(list(MEANS), pa.string())).to_numpy(False)
        ).tolist():
            mean = mean_counter(names[row].as_py(), *engines.get(device[row].as_py(), (None, None)))
            units[row] = count[row] if count[row] > 1 else mean[1] if mean else 0
        return units


def _is_small(value: float) -> bool:
    """Whether a number, which may be an integer of any size, is one that a float64 can be."""
    return isinstance(value, float) or abs(value) < 1 << 1023


def _sums(values: list[Any]) -> tuple[Int64, Int64, Float64, Int64]:
    """Returns row, handle of the counter, sum and number of instances, in the order of rows and of first instances."""
    rows, handles, totals, counts = [], [], [], []
    for row, items in enumerate(values):
        sums: dict[int, list[float]] = {}
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, dict):
                continue
            handle, value = item.get("counter_id"), item.get("value")
            handle = handle.get("handle") if isinstance(handle, dict) else handle
            if (
                isinstance(handle, int)
                and abs(handle) < _BEYOND
                and isinstance(value, (int, float))
                and _is_small(value)
            ):
                sums.setdefault(handle, []).append(float(value))
        for handle, parts in sums.items():
            rows.append(row)
            handles.append(handle)
            totals.append(sum(parts))
            counts.append(len(parts))
    return (
        np.array(rows, np.int64),
        np.array(handles, np.int64),
        np.array(totals, np.float64),
        np.array(counts, np.int64),
    )


def _joined(parts: list[dict[str, pa.Array]]) -> dict[str, pa.Array]:
    if not parts:
        return {}
    return {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}


def _places(dispatch: Int64, dispatched: dict[str, pa.Array]) -> Int64:
    """The index of the kernel of each dispatch, -1 for none."""
    if not dispatched:
        return np.full(len(dispatch), -1, np.int64)
    at = pc.fill_null(pc.index_in(pa.array(dispatch), value_set=dispatched["dispatch"]), -1)
    places: Int64 = at.to_numpy().astype(np.int64)
    return places
