"""FLOPs and bytes that the source states for device work: XLA's estimates, and the counters of Nsight Compute."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ktrace.analysis.questions.roofline.answer import RooflineItem
from ktrace.analysis.work.groups import OTHER
from ktrace.analysis.work.question import kernel_of
from ktrace.analysis.work.stored_columns import StoredColumns, StoredRows, source_of
from ktrace.model.arrays import Bools, Float64, Int64, is_number
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.json_text import NOT_JSON, decoded
from ktrace.model.masks import NameTest, truth, words_in
from ktrace.model.row_builder import to_rows
from ktrace.store import Spill
from ktrace.store.joins import positions

if TYPE_CHECKING:
    from ktrace.analysis.work.device_work import Events, Shape, Work

#: Names of arguments with the FLOPs and the bytes of a piece of work.
_FLOPS, _BYTES = ("flops", "model_flops"), ("bytes_accessed",)

#: Thread instructions and their FLOPs, as in the roofline charts of Nsight Compute.
_INSTRUCTIONS = {"add": 1, "mul": 1, "fma": 2}
_THREADS = {"f": "fp32", "d": "fp64", "h": "fp16"}
_TENSOR = re.compile(r"sm__ops_path_tensor_src_([a-z0-9]{1,8})_dst_[a-z0-9]{1,8}\.sum$")
_WANTED = re.compile(
    "gpu__time_duration.sum$|dram__bytes|sms?p?__(?:sass_thread_inst_executed_op_[fdh](?:add|mul|fma)_pred_on|"
    "ops_path_tensor|(?:inst_executed_)?pipe_tensor)"
)
_CYCLES = ("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second")

#: Operations that mostly run on matrix units, whose work thread instructions don't count.
_MATRICES = ("gemm", "conv", "attention")

_KERNEL = ("source", "id", "host", "device", "kind", "name", "short_name", "operation", "precision", "count", "total")


class CountedFigures(NamedTuple):
    """FLOPs and bytes of a piece of work, None if they aren't known, and the type of most of its FLOPs."""

    flops: float | None
    bytes: float | None
    precision: str | None = None


class _StatedArguments(msgspec.Struct):
    """The arguments of a piece of work in JSON text."""

    flops: Any = None
    model_flops: Any = None
    bytes_accessed: Any = None


_DECODER = msgspec.json.Decoder(_StatedArguments)


class Measured:
    """Figures of pieces of work by source and id."""

    def __init__(self, spill: Spill) -> None:
        self._stated = StoredColumns(spill, "stated", id="i8", flops="f8", bytes="f8")
        self._kernels = StoredRows(spill, "measured_kernels")
        self._metrics: defaultdict[tuple[str, int], dict[str, float]] = defaultdict(dict)
        self._wanted = NameTest(lambda name: name in _CYCLES or _WANTED.match(name) is not None)

    def see(self, batch: Batch) -> None:
        """Collects what a batch states."""
        if batch.record == "events":
            self._see_events(batch)
        elif batch.record == "summaries":
            kernels = words_in(batch.column("kind"), ("kernel",))
            self._see_metrics(batch, words_in(batch.column("kind"), ("metric",)))
            if kernels.any():
                there = [name for name in _KERNEL if batch.has(name)]
                for source in decoded(batch.column("source")).unique().to_pylist():
                    rows = kernels & words_in(batch.column("source"), (source,))
                    self._kernels.add(source, batch.columns.select(there).filter(pa.array(rows)))

    def _see_events(self, batch: Batch) -> None:
        if batch.has("parent"):  # counters that were joined to a timeline
            self._see_metrics(batch, words_in(batch.column("kind"), ("counter",)))
        typed = any(batch.has(f"args.{name}") for name in (*_FLOPS, *_BYTES))
        if not typed and not batch.has("args"):
            return
        rows = np.flatnonzero(words_in(batch.column("kind"), DEVICE_KINDS))
        if not len(rows):
            return
        if typed:
            flops, moved = _column(batch, _FLOPS, rows), _column(batch, _BYTES, rows)
        else:
            flops, moved = _texts(batch, rows)
        is_stated = ~(np.isnan(flops) & np.isnan(moved))
        if is_stated.any():
            id_ = batch.column("id").to_numpy()[rows[is_stated]]
            self._stated.add(source_of(batch), id=id_, flops=flops[is_stated], bytes=moved[is_stated])

    def _see_metrics(self, batch: Batch, rows: Bools) -> None:
        """Collects the counters among these rows."""
        if not rows.any() or not batch.has("value"):
            return
        rows = rows & self._wanted(batch.column("name"))
        rows &= truth(batch.column("parent").is_valid()) & truth(batch.column("value").is_valid())
        if rows.any():
            columns = batch.columns.select(["source", "parent", "name", "value"]).filter(pa.array(rows))
            for row in columns.to_pylist():
                self._metrics[row["source"], row["parent"]][row["name"]] = row["value"]

    def for_source(self, source: str) -> tuple[Int64, Float64, Float64]:
        """The ids, FLOPs and bytes that XLA states for device work of a source; NaN where they aren't known."""
        rows = self._stated.for_source(source)
        return rows["id"], rows["flops"], rows["bytes"]

    def counted(self, source: str, id_: int, time: int, operation: str | None) -> CountedFigures | None:
        """The figures of a piece of work from its counters; None if there are none. `time` is in ns."""
        counters = self._metrics.get((source, id_))
        return _figures(counters, counters.get("gpu__time_duration.sum", time) * 1e-9, operation) if counters else None

    @property
    def has_counters(self) -> bool:
        """Whether there are counters of any work."""
        return bool(self._metrics)

    def ids(self, source: str) -> Int64:
        """The rows of a source with counters, rising."""
        return np.array(sorted(id_ for of_source, id_ in self._metrics if of_source == source), np.int64)

    def kernels(self) -> Iterator[tuple[dict[str, Any], CountedFigures | None]]:
        """Yields the launches among the summaries and their figures, if any launch has counters."""
        if not self._metrics:
            return
        for source in self._kernels.sources:
            for columns in self._kernels.for_source(source):
                for row in to_rows(Batch("summaries", columns)):
                    time = row.get("total")
                    if time and row.get("count", 1) == 1:
                        yield row, self.counted(source, row["id"], int(time), row.get("operation"))


def _figures(counters: dict[str, float], seconds: float, operation: str | None) -> CountedFigures:
    """The figures of a kernel from its counters."""
    threads: dict[str, float] = {}
    for letter, precision in _THREADS.items():
        names = [f"sass_thread_inst_executed_op_{letter}{word}_pred_on" for word in _INSTRUCTIONS]
        counts = [_sum(counters, (f"sm__{name}", f"smsp__{name}"), seconds) for name in names]
        if None not in counts:
            weighted = zip(counts, _INSTRUCTIONS.values(), strict=True)
            threads[precision] = sum((count or 0) * factor for count, factor in weighted)
    matrices: dict[str, float] = defaultdict(float)
    for name, value in counters.items():
        if match := _TENSOR.match(name):
            matrices[match[1]] += value
    moved = _sum(counters, ("dram__bytes",), seconds)
    if moved is None:
        parts = [_sum(counters, (f"dram__bytes_{way}",), seconds) for way in ("read", "write")]
        moved = None if None in parts else sum(part or 0 for part in parts)
    idle = [value for name, value in counters.items() if "pipe_tensor" in name]
    if not matrices and operation in _MATRICES and (not idle or any(idle)):
        return CountedFigures(None, moved)
    flops = threads.copy()
    for precision, count in matrices.items():
        flops[precision] = flops.get(precision, 0) + count
    return CountedFigures(
        sum(flops.values()) if flops else None, moved, max(flops, key=lambda one: flops[one]) if flops else None
    )


def _sum(counters: dict[str, float], names: tuple[str, ...], seconds: float) -> float | None:
    """A counter: its sum, or its rate by time or by cycle over the time of the kernel."""
    cycles = next((counters[name] for name in _CYCLES if name in counters), None)
    for name in names:
        if f"{name}.sum" in counters:
            return counters[f"{name}.sum"]
        if f"{name}.sum.per_second" in counters:
            return counters[f"{name}.sum.per_second"] * seconds
        if cycles is not None and f"{name}.sum.per_cycle_elapsed" in counters:
            return counters[f"{name}.sum.per_cycle_elapsed"] * cycles * seconds
    return None


def _column(batch: Batch, names: tuple[str, ...], rows: Int64) -> Float64:
    """The first of these arguments that is a number not below 0, NaN where none is."""
    numbers = np.full(len(rows), np.nan)
    for name in names[::-1]:
        if not batch.has(f"args.{name}"):
            continue
        column = batch.column(f"args.{name}").take(pa.array(rows))
        if is_number(column.type):
            values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
            numbers = np.where(values >= 0, values, numbers)
    return numbers


def _texts(batch: Batch, rows: Int64) -> tuple[Float64, Float64]:
    """FLOPs and bytes in the texts of arguments."""
    flops, moved = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    text = decoded(batch.column("args")).take(pa.array(rows))
    for place in np.flatnonzero(truth(pc.match_substring_regex(text, '"(?:model_)?flops"|"bytes_accessed"'))).tolist():
        try:
            one = _DECODER.decode(text[place].as_py())
        except NOT_JSON:
            continue
        flops[place] = _to_float(one.flops if _to_float(one.flops) >= 0 else one.model_flops)
        moved[place] = _to_float(one.bytes_accessed)
    return flops, moved


def _to_float(value: Any) -> float:
    """A number not below 0, else NaN."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else np.nan


#: The types of elements as XLA and the classifier write them.
_TYPES = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "s8": "int8", "u8": "int8", "i8": "int8"}
_XLA = re.compile(r"= \(?(bf16|f64|f32|f16|f8|s8|u8)[a-z0-9]{0,12}\[")


def stated_items(measured: Measured, work: Work, events: Events, on: Any) -> tuple[list[RooflineItem], Int64]:
    """The items of a source, and the work in them; `on` is the device of each piece of work."""
    id_, flops, moved = measured.for_source(events.source)
    if not len(id_):
        return _counted(measured, work, events, on)
    order = np.argsort(id_, kind="stable")
    place = positions(events.ids, id_[order])
    rows = np.flatnonzero(place >= 0)
    stated_rows = order[place[rows]]
    return _items(work, events, on, rows, flops[stated_rows], moved[stated_rows]), rows


def _items(work: Work, events: Events, on: Any, rows: Int64, flops: Float64, moved: Float64) -> list[RooflineItem]:
    """Items of work with the same shape, on the same device, of which the same is known."""
    if not len(rows):
        return []
    keys = np.stack([events.shape[rows], on[rows], ~np.isnan(flops), ~np.isnan(moved)]).astype(np.int64)
    groups, group = np.unique(keys, axis=1, return_inverse=True)
    group = group.reshape(-1)
    count = np.bincount(group)
    time = np.zeros(len(count), np.int64)
    np.add.at(time, group, events.dur[rows])
    sums = [np.bincount(group, weights=np.nan_to_num(one), minlength=len(count)) for one in (flops, moved)]
    items = []
    for number, (shape, device, has_flops, has_bytes) in enumerate(groups.T.tolist()):
        amount, size = float(sums[0][number]), float(sums[1][number])
        items.append(
            item_of(
                work.shapes[shape],
                device,
                int(count[number]),
                int(time[number]),
                amount if has_flops else None,
                size if has_bytes else None,
            )
        )
    return items


def _counted(measured: Measured, work: Work, events: Events, on: Any) -> tuple[list[RooflineItem], Int64]:
    """Items of work with counters."""
    rows = np.flatnonzero(positions(events.ids, measured.ids(events.source)) >= 0)
    items = []
    for row in rows.tolist():
        shape, time = work.shapes[events.shape[row]], int(events.dur[row])
        one = measured.counted(events.source, int(events.ids[row]), time, shape["operation"])
        if one is not None:
            items.append(item_of(shape, int(on[row]), 1, time, one.flops, one.bytes, one.precision))
    return merged(items), rows


def item_of(
    shape: Shape,
    device: int,
    calls: int,
    time: int,
    flops: float | None,
    moved: float | None,
    precision: str | None = None,
) -> RooflineItem:
    """An item of kernels with this shape."""
    name, operation = kernel_of(shape), shape.get("operation") or OTHER
    return RooflineItem(operation, name, "", precision or _precision(shape), device, calls, calls, time, flops, moved)


def merged(items: list[RooflineItem]) -> list[RooflineItem]:
    """Items with the same name and type as one, unless other figures of them are known."""
    groups: dict[Any, list[RooflineItem]] = {}
    for one in items:
        key = one.operation, one.name, one.precision, one.device, one.flops is None, one.bytes is None
        groups.setdefault(key, []).append(one)
    return [_summed(same) for same in groups.values()]


def _summed(same: list[RooflineItem]) -> RooflineItem:
    first = same[0]
    return replace(
        first,
        calls=sum(one.calls for one in same),
        kernels=sum(one.kernels for one in same),
        time=sum(one.time for one in same),
        flops=None if first.flops is None else fsum(one.flops or 0 for one in same),
        bytes=None if first.bytes is None else fsum(one.bytes or 0 for one in same),
    )


def _precision(shape: Shape) -> str:
    """The type of the elements: that of the classifier, else the type of the result in the text of XLA."""
    precision = shape.get("precision")
    if not precision and (match := _XLA.search(shape["name"])):
        precision = "fp8" if match[1] == "f8" else match[1]
    return _TYPES.get(precision or "", precision or "")
