"""Counters of kernels: measured metrics, and the estimate of occupancy that some tools record.

Viewers become slow if many kernels have counters, so only the longest kernels keep theirs. These are known after the
last kernel, so the counters are at the end of the file. In the model a metric is a counter whose `parent` is the id
of its kernel.

A viewer draws a value until the next one. So where a GPU has no kernel any more, its counters get the value 0, which is
derived: never while a kernel runs, since it would be one of that kernel's values.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.timelines import plain
from ktrace.model.arrays import AnyArray, Bools, Int64
from ktrace.model.batch import EventRows
from ktrace.model.masks import present, words_in
from ktrace.store.joins import find, group_start_mask

from .. import field_numbers as f
from ..sidecar import LAUNCH_METRICS
from ..wire import bytes_tag, double_tag, int_tag, message
from .busy_pieces import LONGEST_GAP, Reach
from .fields import CodedField, Field, FixedField, MessageField, PieceTable, VarintField

#: This many kernels keep their counters.
MOST = 20_000

#: The counter that shows an estimate of occupancy, and its description.
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
ESTIMATE = "Estimate of the tool that recorded the trace, from the size of the launch: not measured."

#: The description of a counter that was computed from others.
DERIVED = "Computed from other figures: not measured itself."

#: The occupancy that a launch could reach; the GPU tab reads it from the arguments of a kernel.
REACHABLE = "sm__maximum_warps_per_active_cycle_pct"

_ROW = np.dtype(
    [("dur", "i8"), ("serial", "i8"), ("ts", "i8"), ("gpu", "i4"), ("name", "i4"), ("value", "f8"), ("estimate", "?")]
)

Rows = npt.NDArray[np.void]

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
        self._floor = -1  # shorter kernels aren't among the longest
        self._names: dict[tuple[str, str | None, str], int] = {}
        self._parts: list[Rows] = []
        self._rows = 0
        self._reach = Reach()
        self._idle: list[Rows] = []  # since when GPUs have no kernel, without the last time

    def number(self, name: str, unit: str | None, description: str = "") -> int:
        """Returns the number of a counter."""
        return self._names.setdefault((name, unit, description), len(self._names))

    def add(self, *, kernels: int, **columns: AnyArray | int | bool) -> None:
        """Adds values: dur, serial and gpu of the kernel, ts, name (a number), value, and whether it is an estimate.

        `kernels` is the number of kernels that had no counters before.
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

    def ran(self, gpu: Int64, start: Int64, end: Int64) -> None:
        """Adds when kernels ran, also those without counters, after their counters."""
        order = np.argsort(gpu, kind="stable")
        gpu, start = gpu[order], start[order]
        gap, *_ = self._reach.placed(gpu, start, end[order])
        if not self.kernels:
            return
        at = np.flatnonzero((gap > 0) & (gap < LONGEST_GAP))
        self._idle.append(_idle(gpu[at], start[at] - gap[at]))
        if sum(map(len, self._idle)) > 8 * self._most:
            idle = np.concatenate(self._idle)
            self._idle = [idle[np.unique(_next_idle(self._prune(), idle)[1])]]

    def closing(self) -> tuple[bytes, Int64, list[Field]]:
        """Returns the same as `finish` for the values 0 after kernels; to be called after it."""
        ends = self._reach.ends()
        last = _idle(np.array([*ends], np.int64), np.array([*ends.values()], np.int64))
        rows, idle = self._parts[0], np.concatenate([*self._idle, last])
        has, at = _next_idle(rows, idle)
        gpu, ts, name = rows["gpu"][has], idle["ts"][at], rows["name"][has]
        order = np.lexsort((name, gpu, ts))
        gpu, ts, name = gpu[order], ts[order], name[order]
        distinct = group_start_mask((ts, gpu, name))
        closing_rows = np.zeros(np.count_nonzero(distinct), _ROW)
        closing_rows["gpu"], closing_rows["ts"], closing_rows["name"] = gpu[distinct], ts[distinct], name[distinct]
        return self._encoded(closing_rows)

    @property
    def dropped_kernels(self) -> int:
        """The number of kernels that have lost their counters."""
        return max(self.kernels - self._most, 0)

    def _prune(self) -> Rows:
        """Returns the values of the longest kernels; of equally long ones, those with the lower serial."""
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

    def finish(self) -> tuple[bytes, Int64, list[Field]]:
        """Returns entries of InternedData, and timestamps and fields of GpuCounterEvents of values kept, by time."""
        return self._encoded(self._prune())

    def _encoded(self, rows: Rows) -> tuple[bytes, Int64, list[Field]]:
        if not len(rows):
            return b"", np.empty(0, np.int64), []
        rows = rows[np.argsort(rows["ts"], kind="stable")]
        gpus = np.unique(rows["gpu"]).tolist()
        entries = message(f.INTERNED_DATA, gpu_counter_descriptors=[self._descriptor(gpu, rows) for gpu in gpus])
        counter: list[Field] = [
            VarintField(int_tag(f.GPU_COUNTER["counter_id"]), rows["name"].astype(np.uint64) + np.uint64(1)),
            FixedField(double_tag(f.GPU_COUNTER["double_value"]), np.ascontiguousarray(rows["value"]).view(np.uint64)),
        ]
        iids = [message(f.GPU_COUNTER_EVENT, counter_descriptor_iid=gpu + 1) for gpu in gpus]
        fields: list[Field] = [
            MessageField(bytes_tag(f.GPU_COUNTER_EVENT["counters"]), b"", counter),
            CodedField(PieceTable(iids), np.searchsorted(gpus, rows["gpu"]).astype(np.int32)),
        ]
        return entries, np.ascontiguousarray(rows["ts"]), fields

    def _descriptor(self, gpu: int, rows: Rows) -> bytes:
        used = set(rows["name"][rows["gpu"] == gpu].tolist())
        specs = [_spec(number, *key) for key, number in self._names.items() if number in used]
        descriptor = message(f.GPU_COUNTER_DESCRIPTOR, specs=specs)
        return message(f.INTERNED_GPU_COUNTER_DESCRIPTOR, iid=gpu + 1, counter_descriptor=descriptor, gpu_id=gpu)


def _idle(gpu: Int64, ts: Int64) -> Rows:
    rows = np.zeros(len(gpu), _ROW)
    rows["gpu"], rows["ts"] = gpu, ts
    return rows


def _next_idle(rows: Rows, idle: Rows) -> tuple[Int64, Int64]:
    """Returns which rows have a time after them since when their GPU has no kernel, and the index of each one's."""
    gpu, ts = (np.concatenate((rows[name], idle[name])) for name in ("gpu", "ts"))
    is_idle = np.arange(len(gpu)) >= len(rows)
    order = np.lexsort((is_idle, ts, gpu))
    place = np.where(is_idle[order], np.arange(len(order)), len(order))
    after = np.minimum.accumulate(place[::-1])[::-1]
    idle_rows = np.flatnonzero(~is_idle[order] & (after < len(order)))
    at, of = order[after[idle_rows]], order[idle_rows]
    same = gpu[at] == gpu[of]
    return of[same], at[same] - len(rows)


def _spec(number: int, name: str, unit: str | None, description: str) -> bytes:
    return message(
        f.GPU_COUNTER_SPEC,
        counter_id=number + 1,
        name=name,
        description=description or None,
        numerator_units=_UNITS.get(unit or ""),
        groups=f.GPU_COUNTER_GROUP["COMPUTE"],
        value_direction=f.VALUE_DIRECTION["VALUE_DIRECTION_FORWARDS_LOOKING"],
    )


class KernelMetrics(msgspec.Struct, frozen=True):
    """`rows` tells which rows are metrics; `kernel` has the row of the kernel of each, -1 for other rows."""

    rows: Bools
    kernel: Int64


def metrics_of(batch: EventRows, stage: Bools) -> KernelMetrics:
    """Returns the counters whose parent is one of the rows `stage`: they begin together, so they are in one batch.

    Samples within a kernel are ordinary counters.
    """
    kernel = np.full(len(batch), -1, np.int64)
    counter = words_in(batch.column("kind"), ("counter",))
    if batch.has("parent") and stage.any() and counter.any():
        source = plain(batch, "source").dictionary_encode().indices.to_numpy().astype(np.int64)
        child = np.flatnonzero(counter & present(batch.column("parent")))
        kernels = np.flatnonzero(stage)
        parent = pc.fill_null(batch.column("parent"), 0).to_numpy(zero_copy_only=False)[child]
        of_kernel = find([source[child], parent], [source[kernels], batch.column("id").to_numpy()[kernels]])
        kernel[child] = np.append(kernels, -1)[of_kernel]
        ts = batch.column("ts").to_numpy()
        kernel[(kernel >= 0) & (ts[kernel] != ts)] = -1
    return KernelMetrics(kernel >= 0, kernel)


def launch_arguments(batch: EventRows, metrics: KernelMetrics, rows: Int64) -> dict[str, pa.Array]:
    """Returns the launch metrics of the kernels `rows` as the GPU tab names them: name -> an argument per kernel."""
    which = np.flatnonzero(metrics.rows)
    if not len(which):
        return {}
    names = plain(batch, "name").take(pa.array(which)).dictionary_encode()
    values = batch.column("value").take(pa.array(which)).to_numpy(zero_copy_only=False)
    arguments: dict[str, pa.Array] = {}
    for number, name in enumerate(names.dictionary.to_pylist()):
        shown = name if name == REACHABLE else LAUNCH_METRICS.get(name)
        if shown is None:
            continue
        measured = np.full(len(batch), np.nan)
        selected = names.indices.to_numpy() == number
        measured[metrics.kernel[which[selected]]] = values[selected]
        arguments[shown] = pa.array(measured[rows], mask=np.isnan(measured[rows]))
    return {name: column for name, column in arguments.items() if column.null_count < len(column)}
