"""FLOPs and bytes that the source states for device work: XLA's estimates, and the counters of Nsight Compute.

kernel  args.flops 16384, args.bytes_accessed 4096                        XPlane
kernel  id 7   ◄── metric, parent 7, dram__bytes.sum 18,870,000           Nsight Compute, alone or joined to a timeline
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.work.columns import StoredColumns, StoredRows, source_of
from ktrace.model.arrays import Bools, Float64, Int64
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.json_text import NOT_JSON, decoded
from ktrace.model.masks import NameTest, truth, words_in
from ktrace.model.row_builder import to_rows
from ktrace.store.spill import Spill

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


class Figures(NamedTuple):
    """FLOPs and bytes of a piece of work, None if they aren't known, and the type of most of its FLOPs."""

    flops: float | None
    bytes: float | None
    precision: str | None = None


class _Arguments(msgspec.Struct):
    """The arguments of a piece of work in JSON text."""

    flops: Any = None
    model_flops: Any = None
    bytes_accessed: Any = None


_DECODER = msgspec.json.Decoder(_Arguments)


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
            self._see_summaries(batch)

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
        known = ~(np.isnan(flops) & np.isnan(moved))
        if known.any():
            id_ = batch.column("id").to_numpy()[rows[known]]
            self._stated.add(source_of(batch), id=id_, flops=flops[known], bytes=moved[known])

    def _see_summaries(self, batch: Batch) -> None:
        kernels = words_in(batch.column("kind"), ("kernel",))
        self._see_metrics(batch, words_in(batch.column("kind"), ("metric",)))
        if kernels.any():
            there = [name for name in _KERNEL if batch.has(name)]
            for source in decoded(batch.column("source")).unique().to_pylist():
                mine = kernels & words_in(batch.column("source"), (source,))
                self._kernels.add(source, batch.columns.select(there).filter(pa.array(mine)))

    def _see_metrics(self, batch: Batch, mine: Bools) -> None:
        """Collects the counters among these rows."""
        if not mine.any() or not batch.has("value"):
            return
        mine = mine & self._wanted(batch.column("name"))
        mine &= truth(batch.column("parent").is_valid()) & truth(batch.column("value").is_valid())
        if mine.any():
            columns = batch.columns.select(["source", "parent", "name", "value"]).filter(pa.array(mine))
            for row in columns.to_pylist():
                self._metrics[row["source"], row["parent"]][row["name"]] = row["value"]

    def of(self, source: str) -> tuple[Int64, Float64, Float64]:
        """The ids, FLOPs and bytes that XLA states for device work of a source; NaN where they aren't known."""
        rows = self._stated.of(source)
        return rows["id"], rows["flops"], rows["bytes"]

    def counted(self, source: str, id_: int, time: int, operation: str | None) -> Figures | None:
        """The figures of a piece of work from its counters; None if there are none. `time` is in ns."""
        found = self._metrics.get((source, id_))
        return _figures(found, found.get("gpu__time_duration.sum", time) * 1e-9, operation) if found else None

    @property
    def has_counters(self) -> bool:
        """Whether there are counters of any work."""
        return bool(self._metrics)

    def ids(self, source: str) -> Int64:
        """The rows of a source with counters, rising."""
        return np.array(sorted(id_ for own, id_ in self._metrics if own == source), np.int64)

    def kernels(self) -> Iterator[tuple[dict[str, Any], Figures | None]]:
        """Yields the launches among the summaries and their figures, if any launch has counters."""
        if not self._metrics:
            return
        for source in self._kernels.sources:
            for columns in self._kernels.of(source):
                for row in to_rows(Batch("summaries", columns)):
                    time = row.get("total")
                    if time and row.get("count", 1) == 1:
                        yield row, self.counted(source, row["id"], int(time), row.get("operation"))


def _figures(found: dict[str, float], seconds: float, operation: str | None) -> Figures:
    """The figures of a kernel from its counters."""
    threads: dict[str, float] = {}
    for letter, precision in _THREADS.items():
        names = [f"sass_thread_inst_executed_op_{letter}{word}_pred_on" for word in _INSTRUCTIONS]
        counts = [_sum(found, (f"sm__{name}", f"smsp__{name}"), seconds) for name in names]
        if None not in counts:
            weighted = zip(counts, _INSTRUCTIONS.values(), strict=True)
            threads[precision] = sum((count or 0) * factor for count, factor in weighted)
    matrices: dict[str, float] = defaultdict(float)
    for name, value in found.items():
        if match := _TENSOR.match(name):
            matrices[match[1]] += value
    moved = _sum(found, ("dram__bytes",), seconds)
    if moved is None:
        parts = [_sum(found, (f"dram__bytes_{way}",), seconds) for way in ("read", "write")]
        moved = None if None in parts else sum(part or 0 for part in parts)
    idle = [value for name, value in found.items() if "pipe_tensor" in name]
    if not matrices and operation in _MATRICES and (not idle or any(idle)):
        return Figures(None, moved)
    flops = threads.copy()
    for precision, count in matrices.items():
        flops[precision] = flops.get(precision, 0) + count
    return Figures(
        sum(flops.values()) if flops else None, moved, max(flops, key=lambda one: flops[one]) if flops else None
    )


def _sum(found: dict[str, float], names: tuple[str, ...], seconds: float) -> float | None:
    """A counter: its sum, or its rate by time or by cycle over the time of the kernel."""
    cycles = next((found[name] for name in _CYCLES if name in found), None)
    for name in names:
        if f"{name}.sum" in found:
            return found[f"{name}.sum"]
        if f"{name}.sum.per_second" in found:
            return found[f"{name}.sum.per_second"] * seconds
        if cycles is not None and f"{name}.sum.per_cycle_elapsed" in found:
            return found[f"{name}.sum.per_cycle_elapsed"] * cycles * seconds
    return None


def _column(batch: Batch, names: tuple[str, ...], rows: Int64) -> Float64:
    """The first of these arguments that is a number not below 0, NaN where none is."""
    found = np.full(len(rows), np.nan)
    for name in names[::-1]:
        if not batch.has(f"args.{name}"):
            continue
        column = batch.column(f"args.{name}").take(pa.array(rows))
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
            found = np.where(values >= 0, values, found)
    return found


def _texts(batch: Batch, rows: Int64) -> tuple[Float64, Float64]:
    """FLOPs and bytes in the texts of arguments."""
    flops, moved = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    text = decoded(batch.column("args")).take(pa.array(rows))
    for place in np.flatnonzero(truth(pc.match_substring_regex(text, '"(?:model_)?flops"|"bytes_accessed"'))).tolist():
        try:
            one = _DECODER.decode(text[place].as_py())
        except NOT_JSON:
            continue
        flops[place] = _number(one.flops if _number(one.flops) >= 0 else one.model_flops)
        moved[place] = _number(one.bytes_accessed)
    return flops, moved


def _number(value: Any) -> float:
    """A number not below 0, else NaN."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else np.nan
