"""Turns a row of a table into a head and its measures.

aten::mm   Self CPU 120 us   CPU total 150 us   CPU time avg 50 us   CUDA total 900 us   # of Calls 3   CPU Mem 4 KB
    op      duration    120 us, 3 times          without callees; these times add up to "Self CPU time total"
    metric  CPU total   150 us, 50 us per call
    metric  CUDA total  900 us
    metric  CPU Mem     4096 B

The kind of a row depends on its name, and on whether the CPU or a device spent time in it:

aten::mm                      CPU time: an operator
cudaLaunchKernel              CPU time: a call
volta_sgemm_128x64_nn         only device time: a kernel
Memcpy HtoD (...)             only device time: a copy
ProfilerStep*                 only device time: a range around kernels; CPU time: an operator with its own self time
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ktrace.kit.text.device_names import device_work
from ktrace.model.fitting import whole_of

from .grid import HOST, Column, Columns, in_bytes, nanoseconds, operations, percent

#: Ranges that PyTorch and libraries for it open themselves; on a device they enclose the kernels.
_RANGE = re.compile(
    r"ProfilerStep[*#]|## .*|Optimizer\.\w+#|Torch-Compiled Region|DistributedDataParallel\.|FullyShardedDataParallel\."
    r"|FSDP::|enumerate\(DataLoader\)|nccl:|gloo:|\[pl\]|\[Strategy\]|\[LightningModule\]|\[Callback\]"
)
_OPERATOR = re.compile(r"(?:aten|prims?|c10d|_?c10d_functional|torch\w*|autograd|quantized|nvprims|inductor)::")
_CALL = re.compile(r"(?:cuda|cu|hip|hsa_|ze|cl|musa|xpu|acl|aclnn)(?=[A-Z_])\w+")
_OVERHEAD = re.compile(
    r"(?:Activity Buffer Request|Buffer Flush|Lazy Function Loading|Runtime Triggered Module Loading"
    r"|Command Buffer Full|Instrumentation|Resource|Cupti\w*|Unrecognized)"
)


def host_kind(name: str) -> str:
    """The kind of a row with CPU time."""
    if name.startswith("[memory]"):
        return "alloc"
    if _OVERHEAD.fullmatch(name):
        return "overhead"
    return "api" if _CALL.fullmatch(name) else "op"


def device_kind(name: str) -> tuple[str, str | None]:
    """The kind of a row with only device time, and the direction of a copy."""
    if _RANGE.match(name):
        return "range", None
    if _OPERATOR.match(name):
        return "op", None
    return device_work(name)


@dataclass
class MeasuredRow:
    """A row: its printed cells, and the frames of its stack."""

    line: int
    columns: Columns
    cells: list[str]
    frames: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        stack = self.columns.at.get("stack")
        if stack is not None and self.cells[stack]:
            self.frames.insert(0, self.cells[stack])

    @property
    def name(self) -> str:
        return self.cells[self.columns.at["name"]]

    def time(self, device: str, *, is_self: bool, stat: str = "total") -> Decimal | None:
        """A time of the row in ns, None if the table doesn't have it."""
        index = self.columns.find("time", device, is_self=is_self, stat=stat)
        return None if index is None else nanoseconds(self.cells[index])

    def share(self, device: str, *, is_self: bool) -> float | None:
        """A share of the row in percent."""
        index = self.columns.find("percent", device, is_self=is_self)
        return None if index is None else percent(self.cells[index])

    @property
    def on_host(self) -> bool:
        """Whether the CPU spent time in it; also true if the table has no CPU times."""
        times = [nanoseconds(self.cells[index]) for index in self._times if self._is_host(index)]
        return not times or any(times)

    @property
    def device(self) -> str | None:
        """The device that spent time in it if the CPU didn't, else None."""
        if self.on_host:
            return None
        busy = (self.columns.columns[i].device for i in self._times if nanoseconds(self.cells[i]))
        return next(busy, None)

    @property
    def _times(self) -> list[int]:
        return [index for index, column in enumerate(self.columns.columns) if column.kind == "time"]

    def _is_host(self, index: int) -> bool:
        return self.columns.columns[index].device.upper() == HOST


@dataclass(frozen=True)
class HeadAndMeasures:
    """A row as rows of the model: the columns of its head, and those of each measure."""

    head: dict[str, Any]
    measures: list[dict[str, Any]]


def head_and_measures(row: MeasuredRow, on_both_sides: bool) -> HeadAndMeasures:
    """Returns the head of a row and its measures. `on_both_sides`: the CPU has a row of the same name."""
    device = row.device
    kind, copy_kind = _kind(row, device, on_both_sides)
    used: set[int] = set()
    head: dict[str, Any] = {"kind": kind, "copy_kind": copy_kind}
    head |= _figures(row, *_main(row, device or HOST), used)
    count = row.columns.at.get("count")
    if count is not None and (number := whole_of(row.cells[count])) is not None:
        used.add(count)
        head["count"] = number
    measures = [] if device else _measures(row, used)
    args: dict[str, Any] = {"Source Location": row.frames} if row.frames else {}
    for index, (column, cell) in enumerate(zip(row.columns.columns, row.cells, strict=True)):
        if index not in used and cell and column.kind not in ("name", "stack") and cell != "--":
            args.setdefault(column.heading, _number(cell) if column.heading == "Node ID" else cell)
    return HeadAndMeasures(head | {"args": args}, measures)


def _number(cell: str) -> int | str:
    number = whole_of(cell)
    return cell if number is None else number


def _kind(row: MeasuredRow, device: str | None, on_both_sides: bool) -> tuple[str, str | None]:
    if device is None:
        return host_kind(row.name), None
    if on_both_sides or (row.share(device, is_self=True) or 0) > 100:
        return "range", None  # an annotation around kernels: all kernels together are 100 %
    return device_kind(row.name)


def _main(row: MeasuredRow, device: str) -> tuple[str, bool]:
    """The device of the head's duration, and whether that excludes callees."""
    return device, row.columns.find("time", device, is_self=True) is not None


def _figures(row: MeasuredRow, device: str, is_self: bool, used: set[int]) -> dict[str, Any]:
    """Total, average and share of a device as columns of a summary; adds their indices to `used`.

    An average is that of the time with callees: it accompanies a self time only if the two are equal, on a device.
    """
    figures: dict[str, Any] = {}
    for stat in ("total", "avg"):
        whole = is_self and stat == "total"
        index = row.columns.find("time", device, is_self=whole, stat=stat)
        if index is None or (stat == "avg" and is_self and not (row.device and _are_equal(row, device))):
            continue
        time = nanoseconds(row.cells[index])
        if time is not None:
            figures |= {stat: float(time), "unit": "ns"}
            used.add(index)
    index = row.columns.find("percent", device, is_self=is_self)
    if index is not None and (share := percent(row.cells[index])) is not None:
        figures["percent"] = share
        used.add(index)
    if is_self and row.device and _are_equal(row, device):  # device work has no callees
        used |= {
            i for i in (row.columns.find(kind, device, is_self=False) for kind in ("time", "percent")) if i is not None
        }
    return figures


def _are_equal(row: MeasuredRow, device: str) -> bool:
    """Whether the time without callees equals the time with callees."""
    return row.time(device, is_self=True) == row.time(device, is_self=False)


def _measures(row: MeasuredRow, used: set[int]) -> list[dict[str, Any]]:
    """The other measures of a row of the CPU: time with callees, time of devices, memory, operations."""
    measures = []
    for device in (HOST, *row.columns.devices):
        for is_self in (True, False):
            if device == HOST and is_self == _main(row, HOST)[1]:
                continue
            figures = _figures_left(row, device, is_self, used)
            if figures:
                measure = f"Self {device}" if is_self else f"{device} total"
                measures.append({"metric": measure} | figures)
    for index, column in enumerate(row.columns.columns):
        value = _amount(column, row.cells[index])
        if value is not None:
            used.add(index)
            measures.append({"metric": column.measure, "value": float(value), "unit": _UNITS[column.kind]})
    return measures


_UNITS = {"memory": "B", "flops": "FLOP"}


def _amount(column: Column, cell: str) -> Decimal | None:
    if column.kind == "memory":
        return in_bytes(cell)
    return operations(cell, column.scale) if column.kind == "flops" else None


def _figures_left(row: MeasuredRow, device: str, is_self: bool, used: set[int]) -> dict[str, Any]:
    """The figures of a device that aren't used yet."""
    figures: dict[str, Any] = {}
    columns: Sequence[tuple[str, str, str]] = (("time", "total", "total"), ("time", "avg", "avg"))
    for kind, stat, name in (*columns, ("percent", "total", "percent")):
        index = row.columns.find(kind, device, is_self=is_self, stat=stat)
        if index is None or index in used:
            continue
        value = nanoseconds(row.cells[index]) if kind == "time" else percent(row.cells[index])
        if value is not None:
            figures[name] = float(value)
            used.add(index)
    return figures | ({"unit": "ns"} if "total" in figures or "avg" in figures else {})
