"""Counters of kernels: measured metrics, and the estimate of occupancy that some tools give.

UIs get slow where many kernels have counters, so only the longest kernels keep theirs. Which those are is known when
the last kernel was seen, so that the counters stand at the end of the file.
"""

from __future__ import annotations

import numpy as np

from ktrace.model.arrays import AnyArray, Int64, Structured

from ..proto import field_numbers as f
from ..proto.wire import bytes_field, bytes_tag, double_tag, int_field, int_tag, text_field
from .fields import Coded
from .message_columns import Columns, Table

#: Kernels that keep their counters.
MOST = 20_000

#: The counter that an estimate of occupancy is shown as, and what it says of itself.
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
ESTIMATE = "Estimate of the tool that recorded the trace, from the size of the launch: not measured."

#: What a counter says of itself that was computed from others.
DERIVED = "Computed from other figures: not measured itself."

_ROW = np.dtype(
    [("dur", "i8"), ("serial", "i8"), ("ts", "i8"), ("gpu", "i4"), ("name", "i4"), ("value", "f8"), ("estimate", "?")]
)

_UNITS = {
    "%": f.MEASURE_UNIT["PERCENT"],
    "ns": f.MEASURE_UNIT["NANOSECOND"],
    "B": f.MEASURE_UNIT["BYTE"],
    "Hz": f.MEASURE_UNIT["HERTZ"],
    "W": f.MEASURE_UNIT["WATT"],
}


class KernelCounters:
    """Keeps the counters of the longest kernels."""

    def __init__(self, most: int = MOST) -> None:
        self.kernels = 0
        self.dropped_rows = 0
        self._most = most
        self._floor = -1  # kernels shorter than that aren't among the longest
        self._names: dict[tuple[str, str | None, str], int] = {}
        self._parts: list[Structured] = []
        self._rows = 0

    def number(self, name: str, unit: str | None, description: str = "") -> int:
        """The number of a counter."""
        return self._names.setdefault((name, unit, description), len(self._names))

    def add(self, *, kernels: int, **columns: AnyArray | int | bool) -> None:
        """Adds values: dur, serial and gpu of the kernel, ts, name (a number), value, and whether it is an estimate.

        `kernels` says how many of the kernels had no counters before.
        """
        self.kernels += kernels
        keep = np.flatnonzero(columns["dur"] >= self._floor)
        part = np.empty(len(keep), _ROW)
        for name, values in columns.items():
            part[name] = values[keep] if isinstance(values, np.ndarray) else values
        if not columns["estimate"]:
            self.dropped_rows += np.size(columns["dur"]) - len(keep)
        self._parts.append(part)
        self._rows += len(part)
        if self._rows > 8 * self._most:
            self._prune()

    @property
    def dropped_kernels(self) -> int:
        """Kernels that have lost their counters."""
        return max(self.kernels - self._most, 0)

    def _prune(self) -> Structured:
        """The values of the longest kernels; of equally long ones those of the lower serial."""
        rows = np.concatenate(self._parts) if self._parts else np.empty(0, _ROW)
        serial, first = np.unique(rows["serial"], return_index=True)
        if len(serial) > self._most:
            keep = np.lexsort((serial, -rows["dur"][first]))[: self._most]
            self._floor = int(rows["dur"][first[keep[-1]]])
            kept = np.isin(rows["serial"], serial[keep])
            self.dropped_rows += int(np.count_nonzero(~kept & ~rows["estimate"]))
            rows = rows[kept]
        self._parts, self._rows = [rows], len(rows)
        return rows

    def finish(self) -> tuple[bytes, Int64, Columns | None]:
        """The entries of InternedData, and timestamps and GpuCounterEvents of all that is kept, in order of time."""
        rows = self._prune()
        if not len(rows):
            return b"", np.empty(0, np.int64), None
        rows = rows[np.argsort(rows["ts"], kind="stable")]
        gpus = np.unique(rows["gpu"]).tolist()
        entries = b"".join(
            bytes_field(f.INTERNED_DATA["gpu_counter_descriptors"], self._descriptor(gpu, rows)) for gpu in gpus
        )
        value = Columns(len(rows))
        value.varint(int_tag(f.GPU_COUNTER["counter_id"]), rows["name"].astype(np.uint64) + np.uint64(1))
        values = np.ascontiguousarray(rows["value"])
        value.fixed(double_tag(f.GPU_COUNTER["double_value"]), values.view(np.uint64))
        event = Columns(len(rows))
        event.message(bytes_tag(f.GPU_COUNTER_EVENT["counters"]), value)
        iids = [int_field(f.GPU_COUNTER_EVENT["counter_descriptor_iid"], gpu + 1) for gpu in gpus]
        Coded(Table(iids), np.searchsorted(gpus, rows["gpu"]).astype(np.int32)).put(event, np.arange(len(rows)), None)
        return entries, np.ascontiguousarray(rows["ts"]), event

    def _descriptor(self, gpu: int, rows: Structured) -> bytes:
        used = set(rows["name"][rows["gpu"] == gpu].tolist())
        specs = [_spec(number, *key) for key, number in self._names.items() if number in used]
        descriptor = b"".join(bytes_field(f.GPU_COUNTER_DESCRIPTOR["specs"], spec) for spec in specs)
        return (
            int_field(f.INTERNED_GPU_COUNTER_DESCRIPTOR["iid"], gpu + 1)
            + bytes_field(f.INTERNED_GPU_COUNTER_DESCRIPTOR["counter_descriptor"], descriptor)
            + int_field(f.INTERNED_GPU_COUNTER_DESCRIPTOR["gpu_id"], gpu)
        )


def _spec(number: int, name: str, unit: str | None, description: str) -> bytes:
    body = int_field(f.GPU_COUNTER_SPEC["counter_id"], number + 1)
    body += text_field(f.GPU_COUNTER_SPEC["name"], name)
    if description:
        body += text_field(f.GPU_COUNTER_SPEC["description"], description)
    if unit in _UNITS:
        body += int_field(f.GPU_COUNTER_SPEC["numerator_units"], _UNITS[unit])
    body += int_field(f.GPU_COUNTER_SPEC["groups"], f.GPU_COUNTER_GROUP["COMPUTE"])
    return body + int_field(
        f.GPU_COUNTER_SPEC["value_direction"], f.VALUE_DIRECTION["VALUE_DIRECTION_FORWARDS_LOOKING"]
    )
